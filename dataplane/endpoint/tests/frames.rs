//! What leaves a host, read by others: etherparse, the ICRC of `packet`, the message reader.

mod wire;

use endpoint::{Flow, HostConfig, QpConfig, QpId};
use packet::message::{Message, MessageKind};
use packet::{Address, Kind, Psn, Qpn, icrc};
use wire::Wire;

fn ipv6(i: u32) -> Address {
    Address(0xfd00 << 112 | u128::from(i + 1))
}

/// Goal: every frame is well-formed for an independent parser and has the right ICRC, in both
/// families, with every payload length modulo four; an announced flow is announced first.
#[test]
fn frames_are_well_formed() {
    for family in [4, 6] {
        let mut hosts = Vec::new();
        let address = |i| {
            if family == 4 {
                wire::address(i)
            } else {
                ipv6(i)
            }
        };
        for i in 0..2 {
            let config = HostConfig {
                address: address(i),
                ..wire::config(i)
            };
            let mut host = endpoint::Host::new(config).unwrap();
            host.open_qp(QpConfig {
                local_qpn: Qpn(17),
                remote_qpn: Qpn(17),
                remote_address: address(1 - i),
                udp_source_port: 0xc123,
                first_psn: Psn::new(0xff_fffe),
                remote_first_psn: Psn::new(0xff_fffe),
            })
            .unwrap();
            hosts.push(host);
        }
        let mut wire = Wire::new(hosts);
        for bytes in [8192, 10_001, 4098, 4095] {
            let flow = Flow {
                verb: endpoint::Verb::Write,
                flow_id: 1000 + bytes,
                bytes,
                message_bytes: 1 << 20,
                announce: true,
            };
            wire.hosts[0].post(0, QpId(0), flow).unwrap();
        }
        let (mut seen, mut opened) = (Vec::new(), Vec::new());
        wire.run(1_000_000_000, |frame| {
            check(frame.bytes, family);
            let parsed = packet::parse(frame.bytes, frame.bytes.len(), 48791).unwrap();
            let payload = &frame.bytes[usize::from(parsed.payload)..usize::from(parsed.end)];
            if parsed.kind == Kind::Message {
                let open = Message::read(payload).expect("a whole message").header;
                assert_eq!((open.kind, open.flags), (MessageKind::Open, 0));
                assert_eq!((open.destination_qp, open.mtu_bytes), (Qpn(17), 4096));
                opened.push((open.first_psn, open.packets, open.flow_id, seen.len()));
            } else {
                let network = usize::from(parsed.network);
                let udp_at = usize::from(parsed.transport) - network;
                let datagram = &frame.bytes[network..];
                assert!(
                    icrc::is_right(datagram, udp_at),
                    "ICRC of {frame_len}",
                    frame_len = datagram.len()
                );
                if frame.from == 0 {
                    seen.push(frame.psn);
                }
            }
            [Some(1000), None]
        });
        let first = |index| Psn::new(0xff_fffe).plus(index);
        let wanted = [
            (first(0), 2, 9192, 0),
            (first(2), 3, 11_001, 2),
            (first(5), 2, 5098, 5),
            (first(7), 1, 5095, 7),
        ];
        assert_eq!(
            opened, wanted,
            "(first PSN, packets, flow, data packets before it)"
        );
        assert_eq!(seen, (0..8).map(first).collect::<Vec<_>>());
        let counters = wire.counters(1);
        assert_eq!(
            (counters.messages, counters.received),
            (4, 8),
            "{counters:?}"
        );
    }
}

fn check(bytes: &[u8], family: u8) {
    let read = etherparse::SlicedPacket::from_ethernet(bytes).expect("etherparse reads it");
    let Some(etherparse::TransportSlice::Udp(udp)) = read.transport else {
        panic!("no UDP");
    };
    assert_eq!(udp.source_port(), 0xc123);
    assert_eq!(usize::from(udp.length()), udp.slice().len(), "UDP length");
    match read.net {
        Some(etherparse::NetSlice::Ipv4(ip)) => {
            let header = ip.header();
            assert_eq!(family, 4);
            assert_eq!(
                header.header_checksum(),
                header.to_header().calc_header_checksum()
            );
            assert!(header.dont_fragment());
            assert_eq!(usize::from(header.total_len()), bytes.len() - 14);
            assert_eq!((header.dcp().value(), header.ecn().value()), (26, 2));
        }
        Some(etherparse::NetSlice::Ipv6(ip)) => {
            assert_eq!(family, 6);
            assert_eq!(usize::from(ip.header().payload_length()), bytes.len() - 54);
            assert_eq!(ip.header().traffic_class(), 26 << 2 | 2);
        }
        other => panic!("no IP: {other:?}"),
    }
}
