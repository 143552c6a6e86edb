//! How long a 4 KiB packet takes on each side, in nanoseconds of one core.
//!
//! `cargo run --release -p endpoint --example speed [-- CONNECTIONS [BATCH]]`; every packet whole,
//! with ICRC and payload checked, and again as headers alone (the simulator's form). The best of
//! seven runs counts: other load on the machine only ever adds.

use std::time::{Duration, Instant};

use endpoint::{Emitted, Flow, Host, HostConfig, QpConfig, QpId};
use packet::{Address, MacAddr, Psn, Qpn};

const PACKETS: u64 = 1 << 18;
const FRAME_ROOM: usize = 4224;

fn host(address: u32, peer: u32, qps: u32, batch: u32) -> Host {
    let gateway = MacAddr([2, 0, 0, 1, 0, 0]);
    let mac = MacAddr([2, 0, 0, 0, 0, address as u8]);
    let config = HostConfig {
        qps_max: qps,
        window_packets: batch.max(64),
        link_rate: endpoint::BitRate::gbps(1_000_000),
        slack_ns: 1_000_000,
        ..HostConfig::new(Address::v4(address), mac, gateway)
    };
    let mut host = Host::new(config).expect("a sound configuration");
    for qp in 0..qps {
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

/// Moves up to `batch` frames of `from` into `frames`; returns how many.
fn fill(from: &mut Host, now: u64, frames: &mut [Vec<u8>], lens: &mut [Emitted]) -> usize {
    for (count, (frame, len)) in frames.iter_mut().zip(lens.iter_mut()).enumerate() {
        match from.transmit(now, frame) {
            Some(emitted) => *len = emitted,
            None => return count,
        }
    }
    frames.len()
}

/// Nanoseconds a data packet of the four parts, data packets and acknowledgements.
fn run(qps: u32, batch: usize, room: usize) -> ([f64; 4], u64, u64) {
    let mut sender = host(1, 2, qps, batch as u32);
    let mut receiver = host(2, 1, qps, batch as u32);
    let mut frames = vec![vec![0u8; room]; batch];
    let nothing = Emitted {
        header_len: 0,
        wire_len: 0,
    };
    let mut lens = vec![nothing; batch];
    let bytes = PACKETS / u64::from(qps) * 4096;
    for qp in 0..qps {
        let flow = Flow {
            verb: endpoint::Verb::Write,
            flow_id: 1,
            bytes,
            message_bytes: 1 << 20,
            announce: false,
        };
        sender.post(0, QpId(qp), flow).expect("room for a flow");
    }
    let mut spent = [Duration::ZERO; 4];
    let mut now = 0;
    loop {
        now += 1_000_000;
        let t0 = Instant::now();
        let data = fill(&mut sender, now, &mut frames, &mut lens);
        let t1 = Instant::now();
        for (frame, len) in frames.iter().zip(&lens).take(data) {
            let kept = frame.len().min(len.wire_len as usize);
            receiver.receive(now, &frame[..kept], len.wire_len as usize);
        }
        let t2 = Instant::now();
        let acks = fill(&mut receiver, now, &mut frames, &mut lens);
        let t3 = Instant::now();
        for (frame, len) in frames.iter().zip(&lens).take(acks) {
            let kept = frame.len().min(len.wire_len as usize);
            sender.receive(now, &frame[..kept], len.wire_len as usize);
        }
        let t4 = Instant::now();
        for (sum, part) in spent.iter_mut().zip([t1 - t0, t2 - t1, t3 - t2, t4 - t3]) {
            *sum += part;
        }
        if data == 0 && acks == 0 {
            break;
        }
    }
    let (sent, got) = (sender.counters(), receiver.counters());
    assert_eq!(got.received, sent.sent, "every packet arrived: {got:?}");
    assert_eq!(
        (got.payload_errors, got.bad_icrc, sent.retransmitted),
        (0, 0, 0)
    );
    let acks = got.acks_sent;
    (
        spent.map(|sum| sum.as_nanos() as f64 / sent.sent as f64),
        sent.sent,
        acks,
    )
}

fn report(qps: u32, batch: usize, room: usize) {
    let mut best = [f64::MAX; 4];
    let (mut sent, mut acks) = (0, 0);
    for _ in 0..7 {
        let (parts, packets, answers) = run(qps, batch, room);
        for (least, part) in best.iter_mut().zip(parts) {
            *least = least.min(part);
        }
        (sent, acks) = (packets, answers);
    }
    let form = if room > 1000 {
        "whole frames"
    } else {
        "headers only"
    };
    let [transmit, receive, ack_transmit, ack_receive] = best;
    println!(
        "{qps} connections, bursts of {batch}, {form}: transmit {transmit:.0} ns, receive \
         {receive:.0} ns a packet; acknowledgements {ack_transmit:.1} + {ack_receive:.1} ns a data \
         packet ({acks} for {sent})"
    );
}

fn main() {
    let mut arguments = std::env::args()
        .skip(1)
        .map(|a| a.parse().expect("a number"));
    let qps: u32 = arguments.next().unwrap_or(14);
    let batch = arguments.next().unwrap_or(32) as usize;
    report(qps, batch, FRAME_ROOM);
    report(qps, batch, endpoint::HEADER_ROOM);
}
