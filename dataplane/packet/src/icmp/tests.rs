//! Echo replies and errors against etherparse, and who is never answered.

use etherparse::{Icmpv4Slice, Icmpv4Type, Icmpv6Slice, Icmpv6Type, Ipv4Slice, Ipv6Slice};

use super::*;
use crate::parse;

const MACS: (MacAddr, MacAddr) = (MacAddr([2, 0, 0, 0, 0, 9]), MacAddr([2, 0, 0, 0, 0, 1]));

fn address(text: &str) -> Address {
    text.parse::<std::net::IpAddr>().unwrap().into()
}

/// A frame with `tags` VLAN tags that carries `payload` of `protocol` between two addresses.
fn frame(tags: usize, from: &str, to: &str, protocol: u8, payload: &[u8]) -> Vec<u8> {
    let (source, destination) = (address(from), address(to));
    let at = 14 + 4 * tags;
    let mut frame = vec![0u8; at + ip::header_len(source) + payload.len()];
    ethernet::set_addresses(&mut frame, MACS.1, MACS.0);
    for tag in 0..tags {
        be::put16(&mut frame, 12 + 4 * tag, ethernet::VLAN);
        be::put16(&mut frame, 14 + 4 * tag, 0x6000 + tag as u16);
    }
    let is_v6 = source.as_v4().is_none();
    be::put16(
        &mut frame,
        at - 2,
        if is_v6 {
            ethernet::IPV6
        } else {
            ethernet::IPV4
        },
    );
    let fields = IpFields {
        source,
        destination,
        traffic_class: 26 << 2 | 1,
        ttl: 1,
        payload_len: payload.len() as u16,
    };
    let len = ip::write_carrying(&mut frame[at..], &fields, protocol);
    frame[at + len..].copy_from_slice(payload);
    frame
}

fn echo_v4(tags: usize, data: usize) -> Vec<u8> {
    let mut icmp = vec![0x61u8; 8 + data];
    icmp[..8].copy_from_slice(&[8, 0, 0, 0, 0x12, 0x34, 0, 7]);
    let sum = checksum::finish(checksum::add(0, &icmp));
    be::put16(&mut icmp, 2, sum);
    frame(tags, "10.0.0.1", "10.0.0.254", ICMP, &icmp)
}

fn echo_v6(tags: usize, data: usize) -> Vec<u8> {
    let mut icmp = vec![0x61u8; 8 + data];
    icmp[..8].copy_from_slice(&[128, 0, 0, 0, 0x12, 0x34, 0, 7]);
    let sum = checksum::pseudo_v6(address("fd00::1"), address("fd00::fe"), icmp.len(), ICMPV6);
    let sum = checksum::finish(checksum::add(sum, &icmp));
    be::put16(&mut icmp, 2, sum);
    frame(tags, "fd00::1", "fd00::fe", ICMPV6, &icmp)
}

fn parsed(frame: &[u8]) -> Parsed {
    parse(frame, frame.len(), crate::message::DEFAULT_PORT).unwrap()
}

#[test]
fn an_echo_request_becomes_its_reply_byte_by_byte() {
    let mut request = echo_v4(0, 3);
    assert!(is_echo_request(&request, &parsed(&request)));
    let at = parsed(&request);
    answer_echo(&mut request, &at);
    #[rustfmt::skip]
    let expected = [
        0x45, 26 << 2, 0, 31, 0, 0, 0x40, 0, 64, 1, 0x25, 0x78, 10, 0, 0, 254, 10, 0, 0, 1,
        0, 0, 0x2b, 0x63, 0x12, 0x34, 0, 7, 0x61, 0x61, 0x61,
    ];
    assert_eq!(request[14..], expected);
}

#[test]
fn echo_replies_are_right_for_the_oracle() {
    for tags in 0..3 {
        for data in [0, 1, 56, 1400, 8972] {
            let mut v4 = echo_v4(tags, data);
            let at = parsed(&v4);
            assert!(is_echo_request(&v4, &at));
            answer_echo(&mut v4, &at);
            let ip = Ipv4Slice::from_slice(&v4[14 + 4 * tags..]).unwrap();
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            assert_eq!(
                (header.source, header.destination),
                ([10, 0, 0, 254], [10, 0, 0, 1])
            );
            let icmp = Icmpv4Slice::from_slice(ip.payload().payload).unwrap();
            assert!(
                matches!(icmp.icmp_type(), Icmpv4Type::EchoReply(e) if e.id == 0x1234 && e.seq == 7)
            );
            assert!(icmp.payload().iter().all(|&b| b == 0x61) && icmp.payload().len() == data);
            assert_eq!(checksum::finish(checksum::add(0, ip.payload().payload)), 0);

            let mut v6 = echo_v6(tags, data);
            let at = parsed(&v6);
            assert!(is_echo_request(&v6, &at));
            answer_echo(&mut v6, &at);
            let ip = Ipv6Slice::from_slice(&v6[14 + 4 * tags..]).unwrap();
            let header = ip.header().to_header();
            assert_eq!((header.hop_limit, header.traffic_class), (64, 26 << 2));
            assert_eq!(
                Address(u128::from_be_bytes(header.source)),
                address("fd00::fe")
            );
            let icmp = Icmpv6Slice::from_slice(ip.payload().payload).unwrap();
            assert!(matches!(icmp.icmp_type(), Icmpv6Type::EchoReply(e) if e.id == 0x1234));
            assert!(icmp.is_checksum_valid(header.source, header.destination));
        }
    }
}

#[test]
fn only_whole_plain_requests_are_answered() {
    let good = echo_v4(0, 8);
    for (at, byte) in [(34, 0), (34, 3), (35, 1), (20, 0x20), (21, 1), (23, 17)] {
        let mut frame = good.clone();
        frame[at] = byte;
        let is_request = parse(&frame, frame.len(), 1).is_ok_and(|p| is_echo_request(&frame, &p));
        assert!(!is_request, "byte {at} set to {byte}");
    }
    let cut = frame(0, "10.0.0.1", "10.0.0.254", ICMP, &[8, 0, 0, 0, 0, 0, 0]);
    assert!(!is_echo_request(&cut, &parsed(&cut)));
    // ICMP's number in IPv6, and the other way round.
    let crossed = frame(0, "fd00::1", "fd00::fe", ICMP, &[8, 0, 0, 0, 0, 0, 0, 0]);
    assert!(!is_echo_request(&crossed, &parsed(&crossed)));
}

#[test]
fn errors_are_right_for_the_oracle_and_quote_what_fits() {
    for (error, v4_type, v6_type) in [
        (Error::TimeExceeded, (11, 0), (3, 0)),
        (Error::NoRoute, (3, 0), (1, 0)),
        (Error::NoPort, (3, 3), (1, 4)),
    ] {
        for (tags, data) in [(0, 20), (1, 547), (2, 4096)] {
            let payload = vec![0xa5u8; data];
            let bad = frame(tags, "10.0.0.1", "10.1.0.1", 132, &payload);
            let mut out = vec![0u8; error_len(&bad, &parsed(&bad))];
            write_error(
                &mut out,
                &bad,
                &parsed(&bad),
                error,
                address("10.0.0.254"),
                MACS,
            );
            let at = 14 + 4 * tags;
            assert_eq!(out[12..at], bad[12..at], "the tags stay");
            assert_eq!((MacAddr::read(&out, 0), MacAddr::read(&out, 6)), MACS);
            let ip = Ipv4Slice::from_slice(&out[at..]).unwrap();
            let header = ip.header().to_header();
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            assert_eq!(
                (header.source, header.destination),
                ([10, 0, 0, 254], [10, 0, 0, 1])
            );
            assert_eq!(header.dscp.value(), 26);
            let icmp = Icmpv4Slice::from_slice(ip.payload().payload).unwrap();
            assert_eq!((icmp.type_u8(), icmp.code_u8()), v4_type);
            assert_eq!(checksum::finish(checksum::add(0, ip.payload().payload)), 0);
            assert_eq!(icmp.payload().len(), (20 + data).min(548));
            assert_eq!(icmp.payload(), &bad[at..at + icmp.payload().len()]);

            let bad = frame(tags, "fd00::1", "fd01::1", 132, &payload);
            let mut out = vec![0u8; error_len(&bad, &parsed(&bad))];
            write_error(
                &mut out,
                &bad,
                &parsed(&bad),
                error,
                address("fd00::fe"),
                MACS,
            );
            let ip = Ipv6Slice::from_slice(&out[at..]).unwrap();
            let header = ip.header().to_header();
            let icmp = Icmpv6Slice::from_slice(ip.payload().payload).unwrap();
            assert_eq!((icmp.type_u8(), icmp.code_u8()), v6_type);
            assert!(icmp.is_checksum_valid(header.source, header.destination));
            assert_eq!(icmp.payload(), &bad[at..at + (40 + data).min(1232)]);
        }
    }
}

#[test]
fn a_frame_of_which_only_the_head_is_kept_is_quoted_as_far_as_it_goes() {
    let bad = frame(0, "10.0.0.1", "10.1.0.1", 132, &[1; 300]);
    let at = parse(&bad[..100], bad.len(), 1).unwrap();
    assert_eq!(error_len(&bad[..100], &at), 14 + 20 + 8 + 86);
}

#[test]
fn errors_fragments_and_groups_are_never_answered() {
    let answered = |frame: &[u8]| may_be_answered(frame, &parsed(frame));
    for (kind, expected) in [
        (0, true),
        (8, true),
        (13, true),
        (3, false),
        (11, false),
        (5, false),
        (200, false),
    ] {
        let frame = frame(
            0,
            "10.0.0.1",
            "10.1.0.1",
            ICMP,
            &[kind, 0, 0, 0, 0, 0, 0, 0],
        );
        assert_eq!(answered(&frame), expected, "ICMP type {kind}");
    }
    for (kind, expected) in [
        (128, true),
        (129, true),
        (1, false),
        (3, false),
        (127, false),
        (137, false),
    ] {
        let frame = frame(
            0,
            "fd00::1",
            "fd01::1",
            ICMPV6,
            &[kind, 0, 0, 0, 0, 0, 0, 0],
        );
        assert_eq!(answered(&frame), expected, "ICMPv6 type {kind}");
    }
    assert!(
        !answered(&frame(0, "10.0.0.1", "10.1.0.1", ICMP, &[])),
        "a type that is cut off"
    );
    for (from, to, expected) in [
        ("10.0.0.1", "10.1.0.1", true),
        ("0.0.0.0", "10.1.0.1", false),
        ("127.0.0.1", "10.1.0.1", false),
        ("224.0.0.1", "10.1.0.1", false),
        ("255.255.255.255", "10.1.0.1", false),
        ("10.0.0.1", "239.1.1.1", false),
        ("fd00::1", "fd01::1", true),
        ("::", "fd01::1", false),
        ("::1", "fd01::1", false),
        ("ff02::1", "fd01::1", false),
        ("fd00::1", "ff05::2", false),
    ] {
        assert_eq!(
            answered(&frame(0, from, to, 132, &[0; 8])),
            expected,
            "{from} to {to}"
        );
    }
    let mut fragment = frame(0, "10.0.0.1", "10.1.0.1", 132, &[0; 64]);
    for (bits, expected) in [(0x2000, true), (0x2001, false), (0x0001, false), (0, true)] {
        be::put16(&mut fragment, 20, bits);
        assert_eq!(answered(&fragment), expected, "flags and offset {bits:04x}");
    }
    let mut fragment = frame(0, "fd00::1", "fd01::1", 44, &[0; 64]);
    fragment[54] = 132;
    for (bits, expected) in [(0x0001, true), (0x0009, false), (0x0008, false)] {
        be::put16(&mut fragment, 56, bits);
        assert_eq!(
            answered(&fragment),
            expected,
            "IPv6 offset and flags {bits:04x}"
        );
    }
    let mut mapped = frame(0, "fd00::1", "fd01::1", 132, &[0; 8]);
    mapped[22..38].copy_from_slice(&Address::v4(0x0a00_0001).0.to_be_bytes());
    assert!(!answered(&mapped), "an IPv4 address in an IPv6 header");
}
