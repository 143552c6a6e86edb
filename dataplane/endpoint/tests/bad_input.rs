//! Frames that a host must survive: each is a counter, none a panic, and data still arrives.

mod wire;

use endpoint::{Event, Flow, HostConfig, QpId};
use proptest::prelude::*;
use wire::{Wire, in_order};

const FLOW: Flow = Flow {
    verb: endpoint::Verb::Write,
    flow_id: 1,
    bytes: 1 << 20,
    message_bytes: 1 << 18,
    announce: false,
};

/// A data frame of host 0 and an acknowledgement of host 1, from the midst of a flow.
fn samples(wire: &mut Wire) -> (Vec<u8>, Vec<u8>) {
    let (mut data, mut ack) = (Vec::new(), Vec::new());
    wire.hosts[0].post(0, QpId(0), FLOW).unwrap();
    wire.run(20_000, |frame| {
        let kept = if frame.from == 0 { &mut data } else { &mut ack };
        *kept = frame.bytes.to_vec();
        [Some(1000), None]
    });
    assert!(!data.is_empty() && !ack.is_empty());
    (data, ack)
}

/// Puts a right ICRC on a frame of ours again.
fn seal(frame: &mut [u8]) {
    let end = frame.len() - 4;
    let crc = packet::icrc::icrc(&frame[14..end], 20).unwrap();
    frame[end..].copy_from_slice(&crc);
}

/// A READ request for 4 KiB in place of a data frame.
fn request(data: &[u8]) -> Vec<u8> {
    let mut frame = data[..BTH + 12].to_vec();
    frame[BTH] = 0x0c;
    frame.extend([0; 8]);
    frame.extend([0, 0, 0, 1, 0, 0, 0x10, 0]);
    frame.extend([0; 4]);
    let len = frame.len() as u16;
    frame[16..18].copy_from_slice(&(len - 14).to_be_bytes());
    frame[38..40].copy_from_slice(&(len - 34).to_be_bytes());
    frame
}

/// Goal: READ requests that a peer never stops sending are answered in bounded room, and an answer
/// forged for a READ under way is taken for what it says it is, once, and found wrong.
#[test]
fn forged_reads_are_bounded() {
    let (mut wire, qp) = Wire::pair(|_| (), 0);
    let (data, _) = samples(&mut wire);
    let read = Flow {
        verb: endpoint::Verb::Read,
        ..FLOW
    };
    let now = wire.now;
    wire.hosts[1].post(now, qp, read).unwrap();
    for psn in 0..1000u16 {
        let mut frame = request(&data);
        frame[BTH + 10..BTH + 12].copy_from_slice(&(psn % 50).to_be_bytes());
        seal(&mut frame);
        wire.hosts[1].receive(now, &frame, frame.len());
    }
    let after = wire.counters(1);
    assert_eq!(after.bad_length + after.bad_icrc, 0, "{after:?}");
    assert!(after.reads_refused > 900, "{after:?}");
    let events = wire.run(1_000_000_000, in_order);
    let done = |e: &&(usize, Event)| matches!(e.1, Event::SendComplete { .. });
    assert_eq!(events.iter().filter(done).count(), 2, "{events:?}");
    let (a, b) = (wire.counters(0), wire.counters(1));
    // Nobody had asked for these answers.
    assert!(a.responses_unknown > 0, "{a:?}");
    assert_eq!((b.received_bytes, b.payload_errors), (2 << 20, 0), "{b:?}");
}

/// Goal: a storm of receiver-not-ready NAKs does not hold a sender for longer than one.
#[test]
fn a_not_ready_storm_does_not_add_up() {
    let (mut wire, _) = Wire::pair(|_| (), 0);
    let (_, ack) = samples(&mut wire);
    let begun = wire.now;
    for at in 0..1000 {
        let mut nak = ack.clone();
        nak[BTH + 12] = 0x20 | 12;
        nak[BTH + 9..BTH + 12].copy_from_slice(&[0, 0, 58]);
        seal(&mut nak);
        wire.hosts[0].receive(begun + at, &nak, nak.len());
    }
    let c = wire.counters(0);
    assert_eq!(c.rnr_naks_received, 1, "{c:?}");
    wire.run(1_000_000_000, in_order);
    assert_eq!(wire.counters(0).flows_completed, 1);
    assert!(wire.now - begun < 2_000_000, "{} ns", wire.now - begun);
}

/// Offset of the BTH in a frame of ours.
const BTH: usize = 42;

/// Goal: each kind of nonsense moves exactly its own counter.
#[test]
fn each_nonsense_has_its_counter() {
    let (mut wire, _) = Wire::pair(|_| (), 0);
    let (data, ack) = samples(&mut wire);
    let now = wire.now;
    let mut forged = |host: usize, sample: &[u8], sealed: bool, change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = sample.to_vec();
        change(&mut frame);
        if sealed {
            seal(&mut frame);
        }
        let before = wire.counters(host);
        wire.hosts[host].receive(now, &frame, frame.len());
        let after = wire.counters(host);
        assert_eq!(after.frames_received, before.frames_received + 1);
        assert_eq!(after.received, before.received, "nothing was accepted");
        (before, after)
    };
    macro_rules! moves {
        ($counter:ident, $host:expr, $sample:expr, $sealed:expr, $change:expr) => {
            let (before, after) = forged($host, $sample, $sealed, &$change);
            assert_eq!(after.$counter, before.$counter + 1, "{after:?}");
        };
    }
    moves!(bad_icrc, 1, &data, false, |f| f[100] ^= 1);
    moves!(unknown_qp, 1, &data, true, |f| f[BTH + 7] = 99);
    moves!(wrong_source, 1, &data, true, |f| f[29] = 77);
    moves!(not_ours, 1, &data, true, |f| f[33] = 77);
    moves!(bad_opcode, 1, &data, true, |f| f[BTH] = 0x12);
    moves!(bad_opcode, 1, &data, true, |f| f[BTH + 1] |= 1);
    moves!(bad_length, 1, &data, true, |f| f[BTH] = 0x0a);
    moves!(bad_length, 1, &data, true, |f| f[BTH + 1] |= 0x10);
    moves!(beyond_window, 1, &data, true, |f| f[BTH + 9] ^= 0x40);
    moves!(spurious, 1, &data, true, |f| f[BTH + 9..BTH + 12].fill(0));
    moves!(bad_frame, 1, &data, false, |f| f.truncate(40));
    moves!(not_roce, 1, &data, false, |f| f[37] ^= 1);
    moves!(acks_beyond_sent, 0, &ack, true, |f| f[BTH + 10] = 0x7f);
    moves!(acks_stale, 0, &ack, true, |f| f[BTH + 9] = 0xff);
    moves!(naks_unknown, 0, &ack, true, |f| f[BTH + 12] = 0x63);
    moves!(naks_unknown, 0, &ack, true, |f| f[BTH + 12] = 0x4a);
    moves!(acks_beyond_sent, 0, &ack, true, |f| {
        f[BTH + 10] = 0x7f;
        f[BTH + 12] = 0x2a;
    });
    moves!(acks_beyond_sent, 0, &ack, true, |f| {
        f[BTH + 10] = 0x7f;
        f[BTH + 12] = 0x60;
    });
    moves!(cnps_received, 0, &ack, true, |f| f[BTH] = 0x81);
    moves!(bad_length, 1, &data, true, |f| f[BTH] = 0x11);
    // A READ request with data behind it, and answers that nobody asked for.
    moves!(bad_length, 1, &data, true, |f| f[BTH] = 0x0c);
    moves!(responses_unknown, 1, &data, true, |f| f[BTH] = 0x0e);
    // A READ of 2 GiB is beyond all windows.
    moves!(reads_refused, 1, &request(&data), true, |f| f[BTH + 24] =
        0x80);
    // The flow does not mind.
    let events = wire.run(1_000_000_000, in_order);
    assert!(
        events
            .iter()
            .any(|e| matches!(e, (0, Event::SendComplete { .. }))),
        "{events:?}"
    );
}

/// Goal: a storm of NAKs makes a sender repeat a packet once per half hole timeout and no oftener.
#[test]
fn a_nak_storm_is_bounded() {
    let (mut wire, _) = Wire::pair(|_| (), 0);
    let (_, ack) = samples(&mut wire);
    let mut room = [0u8; 4400];
    // Let it send all its window first.
    let mut now = wire.now;
    while wire.hosts[0].next_transmit(now).is_some() {
        now += 1000;
        wire.hosts[0].transmit(now, &mut room);
    }
    let (before, begun) = (wire.counters(0), now);
    for _ in 0..10_000 {
        now += 20;
        for psn in [40u8, 45, 50] {
            let mut nak = ack.clone();
            nak[BTH + 12] = 0x60;
            nak[BTH + 9..BTH + 12].copy_from_slice(&[0, 0, psn]);
            seal(&mut nak);
            wire.hosts[0].receive(now, &nak, nak.len());
        }
        wire.hosts[0].transmit(now, &mut room);
    }
    let after = wire.counters(0);
    let resent = after.retransmitted - before.retransmitted;
    let most = 3 * ((now - begun) / 50_000 + 1);
    assert!(
        resent > 0 && resent <= most,
        "{resent} repeats, at most {most}"
    );
}

/// Goal: data ahead of all that was ever sent (its holes will never be filled) keeps a receiver
/// asking for a bounded time, and its timer then rests.
#[test]
fn invented_data_does_not_keep_time_going() {
    let (mut wire, _) = Wire::pair(|_| (), 0);
    let (data, _) = samples(&mut wire);
    let mut invented = data.clone();
    invented[BTH + 9..BTH + 12].copy_from_slice(&[0, 3, 0]);
    seal(&mut invented);
    let now = wire.now;
    wire.hosts[1].receive(now, &invented, invented.len());
    wire.run(1_000_000_000, in_order);
    let (sender, receiver) = (wire.counters(0), wire.counters(1));
    assert!(wire.now < 100_000_000, "at {} ns", wire.now);
    assert_eq!(
        (sender.flows_completed, receiver.payload_errors),
        (1, 1),
        "{receiver:?}"
    );
    // 64 holes of 8 requests are the most at a time; the flow itself fills some and makes room.
    assert!(receiver.naks_sent < 256 * 8 + 64 * 8, "{receiver:?}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Goal: no bytes make a host panic or loop, with or without a right ICRC, cut or not.
    #[test]
    fn any_frame_is_survived(
        flips in proptest::collection::vec((0usize..90, any::<u8>()), 0..6),
        cut in 0usize..4200, wire_len in 0usize..5000, is_ack: bool, check: bool, go_back: bool,
    ) {
        let change = |c: &mut HostConfig| {
            c.check_icrc = check;
            if go_back { c.recovery = endpoint::Recovery::GO_BACK_N; }
        };
        let (mut wire, _) = Wire::pair(change, 0);
        let (data, ack) = samples(&mut wire);
        let mut frame = if is_ack { ack } else { data };
        for (at, value) in flips {
            let len = frame.len();
            frame[at % len] = value;
        }
        frame.truncate(cut.max(1));
        let now = wire.now;
        for host in 0..2 {
            wire.hosts[host].receive(now, &frame, frame.len());
            wire.hosts[host].receive(now, &frame, wire_len);
        }
        // Bytes that pass for the peer's may end a connection, but never hang it.
        wire.run(10_000_000_000, in_order);
        prop_assert!(wire.now < 10_000_000_000, "at {} ns", wire.now);
    }
}
