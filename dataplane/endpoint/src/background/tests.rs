//! Background traffic against an independent parser, and nonsense.

use super::*;
use packet::MacAddr;

fn stream(own: u32, peer: u32, adapts: bool) -> Stream {
    let mac = MacAddr([2, 0, 0, 0, 0, own as u8]);
    let host = HostConfig::new(Address::v4(own), mac, mac);
    let peer = Some(Address::v4(peer));
    let rate = BitRate::gbps(10);
    let config = Background {
        to: peer,
        from: peer,
        rate,
        adapts,
    };
    Stream::new(config, &host)
}

/// An independent parser reads it as TCP over IPv4 with the right checksum.
fn check(frame: &[u8]) {
    let read = etherparse::SlicedPacket::from_ethernet(frame).unwrap();
    let Some(etherparse::TransportSlice::Tcp(tcp)) = read.transport else {
        panic!("no TCP");
    };
    let Some(etherparse::NetSlice::Ipv4(v4)) = read.net else {
        panic!("no IPv4");
    };
    let right = tcp
        .to_header()
        .calc_checksum_ipv4(&v4.header().to_header(), tcp.payload());
    assert_eq!(right, Ok(tcp.checksum()));
}

/// Sends `count` segments of `a` to `b`, of which `lost` says which are lost, and `b`'s answers
/// back; returns how many `a` knows to be lost.
fn run(a: &mut Stream, b: &mut Stream, count: u32, lost: impl Fn(u32) -> bool) -> u32 {
    let mut frame = [0u8; 1600];
    let (one, other) = (a.source, b.source);
    let (mut now, mut known) = (0, 0);
    for number in 0..count {
        now = a.ready_ns().max(now);
        let emitted = a.transmit(now, &mut frame, 24).expect("its rate allows it");
        assert_eq!(emitted.wire_len, 1514);
        check(&frame[..1514]);
        if lost(number) {
            continue;
        }
        assert_eq!(b.receive(one, &frame[34..54], 1460), Some(Segment::Data));
        if b.ready_ns() == 0 {
            let emitted = b.transmit(now, &mut frame, 24).unwrap();
            assert_eq!(emitted.wire_len, 54);
            match a.receive(other, &frame[34..54], 0) {
                Some(Segment::Answer { lost }) => known += lost,
                other => panic!("{other:?}"),
            }
        }
    }
    known
}

/// Goal: loss halves the rate once an answer, no loss brings it back; a fixed rate stays.
#[test]
fn loss_halves_the_rate() {
    for adapts in [true, false] {
        let (mut a, mut b) = (stream(1, 2, adapts), stream(2, 1, adapts));
        b.stop();
        assert_eq!(run(&mut a, &mut b, 1600, |_| false), 0);
        assert_eq!(a.rate_bps, 10_000_000_000);
        let known = run(&mut a, &mut b, 160, |number| number % 20 == 3);
        assert_eq!(known, 8);
        let most = a.config.rate.bits_per_second();
        assert_eq!(a.rate_bps < most / 16, adapts, "{} bit/s", a.rate_bps);
        run(&mut a, &mut b, 16 * 70, |_| false);
        assert_eq!(a.rate_bps, most);
    }
}

/// Goal: segments of others, and answers to what was never sent, change nothing.
#[test]
fn nonsense_changes_nothing() {
    let (mut a, mut b) = (stream(1, 2, true), stream(2, 1, true));
    let mut frame = [0u8; 1600];
    a.transmit(0, &mut frame, 24);
    let segment: Vec<u8> = frame[34..54].to_vec();
    assert_eq!(b.receive(Address::v4(9), &segment, 1460), None);
    assert_eq!(b.receive(a.source, &segment, 1459), None);
    assert_eq!(b.receive(a.source, &segment[..19], 1460), None);
    let mut answer = segment.clone();
    answer[..4].copy_from_slice(&[0x13, 0x89, 0xd0, 0]);
    for (number, expects) in [(5, 0), (0, 1 << 31), (u32::MAX, u32::MAX)] {
        be::put32(&mut answer, 4, number);
        be::put32(&mut answer, 8, expects);
        let got = a.receive(b.source, &answer, 0);
        assert_eq!(got, Some(Segment::Answer { lost: 0 }), "{number} {expects}");
        assert_eq!((a.lost, a.sent), (0, 1));
    }
}
