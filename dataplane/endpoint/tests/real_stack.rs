//! Against captures of two Linux guests with Soft-RoCE: our requester says what theirs said, and
//! our responder answers what theirs answered.

mod wire;

use endpoint::{Event, Flow, Host, HostConfig, PathMtu, QpConfig, QpId, Verb};
use packet::{Address, Opcode, Parsed, bth};

struct Captured {
    bytes: Vec<u8>,
    parsed: Parsed,
}

impl Captured {
    fn bth(&self) -> usize {
        usize::from(self.parsed.payload)
    }

    /// An ACK or a packet of an answer to a READ.
    fn is_answer(&self) -> bool {
        (0x0d..=0x11).contains(&bth::opcode(&self.bytes, self.bth()).0)
    }

    /// The BTH and four bytes behind it. The migration state, which adapters send as 1 and
    /// Soft-RoCE as 0, is left out.
    fn head(&self) -> [u8; 16] {
        let mut head: [u8; 16] = self.bytes[self.bth()..self.bth() + 16].try_into().unwrap();
        head[bth::FLAGS] &= !0x40;
        head
    }
}

fn read(bytes: &[u8]) -> Captured {
    let parsed = packet::parse(bytes, bytes.len(), 48791).expect("a frame of a real stack");
    let bytes = bytes[..usize::from(parsed.end)].to_vec();
    Captured { bytes, parsed }
}

/// The frames of a capture (classic pcap, little endian).
fn capture(name: &str) -> Vec<Captured> {
    let path = format!("{}/../../tests/corpus/{name}", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::read(path).expect("the corpus is part of the repository");
    let (mut at, mut frames) = (24, Vec::new());
    while at < file.len() {
        let len = u32::from_le_bytes(file[at + 8..at + 12].try_into().unwrap()) as usize;
        frames.push(read(&file[at + 16..at + 16 + len]));
        at += 16 + len;
    }
    frames
}

/// A host in place of one end of a capture. Both ends have the same number in these captures.
fn host(own: Address, peer: Address, frame: &Captured, mtu: u32) -> Host {
    let config = HostConfig {
        address: own,
        mtu: PathMtu::new(mtu).unwrap(),
        window_packets: 4096,
        ack_every_packets: 4096,
        verify_payload: false,
        ..wire::config(0)
    };
    let mut host = Host::new(config).unwrap();
    let qpn = bth::destination_qp(&frame.bytes, frame.bth());
    let psn = bth::psn(&frame.bytes, frame.bth());
    host.open_qp(QpConfig {
        local_qpn: qpn,
        remote_qpn: qpn,
        remote_address: peer,
        udp_source_port: 0xc000,
        first_psn: psn,
        remote_first_psn: psn,
    })
    .unwrap();
    host
}

const FLOWS: [(&str, Verb, u32, u64); 5] = [
    ("rxe-rc-write.pcap", Verb::Write, 1024, 4096),
    ("rxe-jumbo-write.pcap", Verb::Write, 4096, 16384),
    ("rxe-rc-send.pcap", Verb::Send, 1024, 4000),
    ("rxe-rc-read.pcap", Verb::Read, 1024, 4096),
    ("rxe-jumbo-read.pcap", Verb::Read, 4096, 16384),
];

/// Goal: the same flow gives the same packets, header for header, and their answers complete it.
#[test]
fn our_requester_says_what_theirs_said() {
    for (name, verb, mtu, message_bytes) in FLOWS {
        let frames = capture(name);
        let (acks, requests): (Vec<_>, Vec<_>) = frames.iter().partition(|f| f.is_answer());
        let first = requests[0];
        let mut ours = host(first.parsed.source, first.parsed.destination, first, mtu);
        let messages = if verb == Verb::Read {
            requests.len() as u64
        } else {
            requests.len() as u64 / message_bytes.div_ceil(u64::from(mtu))
        };
        let flow = Flow {
            verb,
            flow_id: 1,
            bytes: messages * message_bytes,
            message_bytes,
            announce: false,
        };
        ours.post(0, QpId(0), flow).unwrap();
        let mut room = [0; 4400];
        for (number, theirs) in requests.iter().enumerate() {
            let now = ours.next_transmit(0).expect("something to send");
            let emitted = ours.transmit(now, &mut room).expect("a frame");
            let said = read(&room[..emitted.wire_len as usize]);
            let what = format!("{name}, request {number}");
            assert_eq!(said.bytes.len(), theirs.bytes.len(), "{what}: length");
            let header = |f: &Captured| f.head()[..bth::HEADER_LEN].to_vec();
            assert_eq!(header(&said), header(theirs), "{what}: BTH");
            let opcode = bth::opcode(&said.bytes, said.bth());
            if matches!(opcode, Opcode::WRITE_FIRST | Opcode::READ_REQUEST) {
                let length = |f: &Captured| f.bytes[f.bth() + 24..f.bth() + 28].to_vec();
                assert_eq!(length(&said), length(theirs), "{what}: RETH length");
            }
        }
        assert_eq!(
            ours.next_transmit(0),
            None,
            "{name}: no more than they sent"
        );
        for ack in &acks {
            ours.receive(1_000_000, &ack.bytes, ack.bytes.len());
        }
        let counters = ours.counters();
        let taken = counters.acks_received + counters.responses_received;
        assert_eq!(taken, acks.len() as u64, "{name}: {counters:?}");
        let event = ours.poll_event();
        assert!(
            matches!(event, Some(Event::SendComplete { .. })),
            "{name}: {event:?}"
        );
    }
}

/// Goal: their packets are accepted, ICRC included, and answered as their responder did: same
/// PSNs, syndromes and message sequence numbers.
#[test]
fn our_responder_answers_what_theirs_answered() {
    for (name, _, mtu, _) in FLOWS {
        let frames = capture(name);
        let (acks, requests): (Vec<_>, Vec<_>) = frames.iter().partition(|f| f.is_answer());
        let first = requests[0];
        let mut ours = host(first.parsed.destination, first.parsed.source, first, mtu);
        let (mut room, mut answers) = ([0; 4400], Vec::new());
        for (number, request) in requests.iter().enumerate() {
            let now = number as u64 * 10_000;
            ours.receive(now, &request.bytes, request.bytes.len());
            let mut at = now;
            while let Some(emitted) = ours.transmit(at, &mut room) {
                at += 1000;
                answers.push(read(&room[..emitted.wire_len as usize]).head());
            }
        }
        let counters = *ours.counters();
        let refused = counters.bad_icrc + counters.bad_length + counters.bad_opcode;
        assert_eq!((refused, counters.spurious), (0, 0), "{name}: {counters:?}");
        // Payloads are each one's own: where no AETH stands, the BTH is compared alone.
        let said = |head: &[u8; 16]| {
            let has_aeth = head[0] != 0x0e;
            head[..if has_aeth { 16 } else { 12 }].to_vec()
        };
        let ours: Vec<_> = answers.iter().map(said).collect();
        let theirs: Vec<_> = acks.iter().map(|ack| said(&ack.head())).collect();
        assert_eq!(ours, theirs, "{name}");
    }
}

/// Goal: our ICRC is that of every RoCE frame of every capture of a real stack, both families.
#[test]
fn the_icrc_is_theirs() {
    let folder = format!("{}/../../tests/corpus", env!("CARGO_MANIFEST_DIR"));
    let mut frames = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if !name.starts_with("rxe-") {
            continue;
        }
        for frame in capture(&name) {
            if frame.parsed.kind == packet::Kind::Roce {
                let network = usize::from(frame.parsed.network);
                let udp = usize::from(frame.parsed.transport) - network;
                let is_right = packet::icrc::is_right(&frame.bytes[network..], udp);
                assert!(is_right, "{name}, PSN {:?}", frame.parsed.bth.psn);
                frames += 1;
            }
        }
    }
    assert!(frames > 900, "{frames} frames");
}

/// Goal: whatever real stacks send, a host that it is not meant for only counts it.
#[test]
fn every_captured_frame_is_survived() {
    let folder = format!("{}/../../tests/corpus", env!("CARGO_MANIFEST_DIR"));
    let mut host = Host::new(wire::config(0)).unwrap();
    let mut frames = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let file = std::fs::read(entry.unwrap().path()).unwrap();
        let mut at = 24;
        while at < file.len() {
            let len = u32::from_le_bytes(file[at + 8..at + 12].try_into().unwrap()) as usize;
            host.receive(0, &file[at + 16..at + 16 + len], len);
            at += 16 + len;
            frames += 1;
        }
    }
    let c = *host.counters();
    assert_eq!(c.frames_received, frames);
    let counted = c.not_ours + c.not_roce + c.bad_frame + c.messages;
    assert_eq!(counted, frames, "each in one counter: {c:?}");
    assert!(frames > 1000, "{frames} frames");
}
