//! Discovery read and written, with etherparse as the oracle of checksums and fields.

use etherparse::{Icmpv6Slice, Icmpv6Type, Ipv6Slice};

use super::*;
use crate::parse;

const MAC: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const HOST: MacAddr = MacAddr([2, 0xaa, 0, 0, 0, 1]);

fn address(text: &str) -> Address {
    text.parse::<std::net::IpAddr>().unwrap().into()
}

fn solicitation() -> Vec<u8> {
    let mut frame = vec![0xee; FRAME_LEN];
    write_solicitation(
        &mut frame,
        None,
        HOST,
        address("fd00::1"),
        address("fd01::ab:cdef"),
    );
    frame
}

fn read_frame(frame: &[u8]) -> Option<Discovery> {
    let parsed = parse(frame, frame.len(), 1).unwrap();
    assert!(is_discovery(frame, &parsed));
    read(frame, &parsed)
}

/// Changes a byte of the ICMPv6 message and mends its checksum, so that only that is wrong.
fn changed(frame: &[u8], at: usize, byte: u8) -> Vec<u8> {
    let mut frame = frame.to_vec();
    frame[at] = byte;
    seal(&mut frame);
    frame
}

fn seal(frame: &mut [u8]) {
    be::put16(frame, 56, 0);
    let (source, destination) = (ip::v6_address(frame, 22), ip::v6_address(frame, 38));
    let sum = checksum::pseudo_v6(source, destination, frame.len() - 54, ICMPV6);
    let sum = checksum::finish(checksum::add(sum, &frame[54..]));
    be::put16(frame, 56, sum);
}

#[test]
fn a_solicitation_is_written_byte_by_byte() {
    let frame = solicitation();
    assert_eq!(frame[..6], [0x33, 0x33, 0xff, 0xab, 0xcd, 0xef]);
    assert_eq!(frame[12..22], [0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 58, 255]);
    let text = |at: usize| ip::v6_address(&frame, at).to_string();
    assert_eq!(
        (text(22), text(38), text(62)),
        (
            "fd00::1".into(),
            "ff02::1:ffab:cdef".into(),
            "fd01::ab:cdef".into()
        )
    );
    assert_eq!(frame[54..56], [135, 0]);
    assert_eq!(frame[58..62], [0; 4]);
    assert_eq!(frame[78..86], [1, 1, 2, 0xaa, 0, 0, 0, 1]);
    let ip = Ipv6Slice::from_slice(&frame[14..]).unwrap();
    let header = ip.header().to_header();
    let icmp = Icmpv6Slice::from_slice(ip.payload().payload).unwrap();
    assert!(icmp.is_checksum_valid(header.source, header.destination));
    assert_eq!(
        read_frame(&frame),
        Some(Discovery::Solicitation {
            target: address("fd01::ab:cdef"),
            source_mac: Some(HOST)
        })
    );
    // Whoever had it before is asked alone.
    let mut again = vec![0; FRAME_LEN];
    write_solicitation(
        &mut again,
        Some(MAC),
        HOST,
        address("fd00::1"),
        address("fd01::5"),
    );
    assert_eq!(MacAddr::read(&again, 0), MAC);
    assert_eq!(ip::v6_address(&again, 38), address("fd01::5"));
    assert!(read_frame(&again).is_some());
}

#[test]
fn answers_have_the_flags_of_their_kind() {
    let question = solicitation();
    for (is_own, destination, flags) in [
        (true, address("fd00::1"), ROUTER | SOLICITED | OVERRIDE),
        (false, address("fd00::1"), ROUTER | SOLICITED),
        (false, ALL_NODES, ROUTER),
        (true, ALL_NODES, ROUTER | OVERRIDE),
    ] {
        for tags in 0..3 {
            let mut link = question[..14].to_vec();
            (0..tags).for_each(|_| drop(link.splice(12..12, [0x81, 0, 0x60, 5])));
            let mut out = vec![0xee; link.len() + PACKET_LEN];
            let answer = Answer {
                target: address("fd01::1"),
                mac: MAC,
                source: address("fe80::1"),
                destination,
                is_own,
            };
            write_advertisement(&mut out, &link, HOST, &answer);
            assert_eq!(
                (MacAddr::read(&out, 0), MacAddr::read(&out, 6)),
                (HOST, MAC)
            );
            assert_eq!(out[12..link.len()], link[12..]);
            let ip = Ipv6Slice::from_slice(&out[link.len()..]).unwrap();
            let header = ip.header().to_header();
            assert_eq!(header.hop_limit, 255);
            let icmp = Icmpv6Slice::from_slice(ip.payload().payload).unwrap();
            assert!(icmp.is_checksum_valid(header.source, header.destination));
            let Icmpv6Type::NeighborAdvertisement(told) = icmp.icmp_type() else {
                panic!("{:?}", icmp.icmp_type());
            };
            let bit = |flag: u8| flags & flag != 0;
            assert_eq!(
                (told.router, told.solicited, told.r#override),
                (bit(ROUTER), bit(SOLICITED), bit(OVERRIDE))
            );
            let parsed = parse(&out, out.len(), 1).unwrap();
            assert_eq!(
                read(&out, &parsed),
                Some(Discovery::Advertisement {
                    target: address("fd01::1"),
                    mac: Some(MAC)
                })
            );
        }
    }
}

#[test]
fn every_check_of_the_rfc_is_made() {
    let good = solicitation();
    assert!(
        read_frame(&changed(&good, 60, 0x55)).is_some(),
        "reserved bits are ignored"
    );
    for (at, byte, why) in [
        (55, 1, "a code"),
        (62, 0xff, "a multicast target"),
        (79, 0, "an option without length"),
        (79, 2, "an option beyond the end"),
    ] {
        assert_eq!(read_frame(&changed(&good, at, byte)), None, "{why}");
    }
    let mut frame = good.clone();
    frame[21] = 254;
    assert_eq!(read_frame(&frame), None, "a packet that was forwarded");
    let mut frame = good.clone();
    frame[57] ^= 1;
    assert_eq!(read_frame(&frame), None, "a wrong checksum");
    let mut probe = good.clone();
    probe[22..38].fill(0);
    seal(&mut probe);
    assert_eq!(
        read_frame(&probe),
        None,
        "a probe that tells a hardware address"
    );
    probe.truncate(78);
    be::put16(&mut probe, 18, 24);
    seal(&mut probe);
    let target = address("fd01::ab:cdef");
    assert_eq!(
        read_frame(&probe),
        Some(Discovery::Solicitation {
            target,
            source_mac: None
        })
    );
    probe[53] ^= 1;
    seal(&mut probe);
    assert_eq!(
        read_frame(&probe),
        None,
        "a probe to another group than the target's"
    );
    let cut = &good[..77];
    let mut cut = cut.to_vec();
    be::put16(&mut cut, 18, 23);
    seal(&mut cut);
    assert_eq!(read_frame(&cut), None, "a target that is cut");
    let router = changed(&good, 54, 133);
    assert_eq!(read_frame(&router), Some(Discovery::RouterSolicitation));
    assert_eq!(read_frame(&changed(&good, 54, 137)), None, "a redirect");
    let mut advertisement = changed(&good, 54, 136);
    advertisement[58] = SOLICITED;
    seal(&mut advertisement);
    assert_eq!(
        read_frame(&advertisement),
        None,
        "solicited, but to a group"
    );
}

#[test]
fn link_local_addresses_follow_from_the_mac() {
    let address = link_local(MacAddr([0x02, 0, 0x0a, 0, 0, 0x10]));
    assert_eq!(address.to_string(), "fe80::aff:fe00:10");
    assert!(is_link_local(address) && !is_link_local(self::address("fec0::1")));
    assert_eq!(multicast_mac(ALL_NODES).to_string(), "33:33:00:00:00:01");
}
