//! What a packet costs in instructions, headers only (the simulator's form).
//!
//! `cargo build --release -p endpoint --example cost`, then
//! `valgrind --tool=callgrind --callgrind-out-file=cost.out target/release/examples/cost` and
//! `callgrind_annotate --inclusive=yes cost.out`: the four functions below stand there with all
//! that they call; divide by the packets and acknowledgements that this program prints.

use endpoint::{BitRate, Emitted, Flow, HEADER_ROOM, Host, HostConfig, QpConfig, QpId};
use packet::{Address, MacAddr, Psn, Qpn};

const PACKETS: u64 = 1 << 16;
const QPS: u32 = 16;
const BURST: usize = 32;

type Header = ([u8; HEADER_ROOM], Emitted);

fn host(address: u32, peer: u32) -> Host {
    let mac = MacAddr([2, 0, 0, 0, 0, address as u8]);
    let config = HostConfig {
        qps_max: QPS,
        link_rate: BitRate::gbps(1_000_000),
        slack_ns: 1_000_000,
        ..HostConfig::new(Address::v4(address), mac, MacAddr([2, 0, 0, 1, 0, 0]))
    };
    let mut host = Host::new(config).expect("a sound configuration");
    for qp in 0..QPS {
        host.open_qp(QpConfig {
            local_qpn: Qpn(17 + qp),
            remote_qpn: Qpn(17 + qp),
            remote_address: Address::v4(peer),
            udp_source_port: 0xc000,
            first_psn: Psn::new(0xff_fff0),
            remote_first_psn: Psn::new(0xff_fff0),
        })
        .expect("room for it");
    }
    host
}

#[inline(never)]
fn data_out(host: &mut Host, now: u64, headers: &mut [Header]) -> usize {
    fill(host, now, headers)
}

#[inline(never)]
fn acks_out(host: &mut Host, now: u64, headers: &mut [Header]) -> usize {
    fill(host, now, headers)
}

#[inline(always)]
fn fill(host: &mut Host, now: u64, headers: &mut [Header]) -> usize {
    for (count, (header, len)) in headers.iter_mut().enumerate() {
        match host.transmit_header(now, header) {
            Some(emitted) => *len = emitted,
            None => return count,
        }
    }
    headers.len()
}

#[inline(never)]
fn data_in(host: &mut Host, now: u64, headers: &[Header]) {
    drain(host, now, headers);
}

#[inline(never)]
fn acks_in(host: &mut Host, now: u64, headers: &[Header]) {
    drain(host, now, headers);
}

#[inline(always)]
fn drain(host: &mut Host, now: u64, headers: &[Header]) {
    for (header, len) in headers {
        host.receive_header(
            now,
            &header[..len.header_len as usize],
            len.wire_len as usize,
        );
    }
}

fn main() {
    let (mut sender, mut receiver) = (host(1, 2), host(2, 1));
    let nothing = Emitted {
        header_len: 0,
        wire_len: 0,
    };
    let mut headers = [([0; HEADER_ROOM], nothing); BURST];
    let bytes = PACKETS / u64::from(QPS) * 4096;
    for qp in 0..QPS {
        let flow = Flow {
            verb: endpoint::Verb::Write,
            flow_id: 1,
            bytes,
            message_bytes: 1 << 20,
            announce: false,
        };
        sender.post(0, QpId(qp), flow).expect("room for a flow");
    }
    // A sprayed fabric: every burst arrives with neighbours swapped.
    let spray = std::env::args().nth(1).is_some_and(|a| a == "spray");
    let mut now = 0;
    loop {
        now += 20_000;
        let data = data_out(&mut sender, now, &mut headers);
        if spray {
            headers[..data].reverse();
        }
        data_in(&mut receiver, now, &headers[..data]);
        let acks = acks_out(&mut receiver, now, &mut headers);
        acks_in(&mut sender, now, &headers[..acks]);
        if data == 0 && acks == 0 {
            break;
        }
    }
    let (sent, got) = (sender.counters(), receiver.counters());
    assert_eq!((got.received, sent.retransmitted), (PACKETS, 0), "{got:?}");
    println!(
        "{} data packets, {} acknowledgements",
        sent.sent, got.acks_sent
    );
}
