//! ARP and neighbour discovery at host ports: what is answered, learned, asked for and ignored.

use packet::ndp::{self, Discovery};
use packet::{Address, MacAddr, arp, be, checksum, ethernet, ip};
use pipeline::*;
use proptest::prelude::*;

use crate::gateway::*;
use crate::net::*;

const STRANGER: MacAddr = MacAddr([2, 0xbb, 0, 0, 0, 5]);

/// An ARP request of a host.
pub(crate) fn arp_request(mac: MacAddr, from: &str, target: &str) -> Frame {
    let number = |text: &str| address(text).as_v4().unwrap();
    let mut frame = vec![0; arp::FRAME_LEN];
    arp::write_request(
        &mut frame,
        MacAddr::BROADCAST,
        mac,
        number(from),
        number(target),
    );
    Frame(frame)
}

/// A neighbour solicitation of a host; from `::` it is a probe, which tells no MAC address.
pub(crate) fn solicitation(mac: MacAddr, from: Address, target: Address) -> Frame {
    let mut frame = vec![0; ndp::FRAME_LEN];
    ndp::write_solicitation(&mut frame, None, mac, from, target);
    if from == Address(0) {
        frame.truncate(78);
        be::put16(&mut frame, 18, 24);
        seal(&mut frame);
    }
    Frame(frame)
}

/// Router solicitation of a host, to all routers.
pub(crate) fn router_solicitation(mac: MacAddr, from: Address) -> Frame {
    let mut frame = solicitation(mac, from, address("ff02::2")).0;
    frame.truncate(62);
    frame[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 2]);
    frame[38..54].copy_from_slice(&address("ff02::2").0.to_be_bytes());
    be::put16(&mut frame, 18, 8);
    frame[54] = 133;
    seal(&mut frame);
    Frame(frame)
}

fn seal(frame: &mut [u8]) {
    be::put16(frame, 56, 0);
    let (from, to) = (ip::v6_address(frame, 22), ip::v6_address(frame, 38));
    let sum = checksum::pseudo_v6(from, to, frame.len() - 54, ip::ICMPV6);
    let sum = checksum::finish(checksum::add(sum, &frame[54..]));
    be::put16(frame, 56, sum);
}

/// A host says where an address is: the answer to what the switch asks.
fn advertisement(mac: MacAddr, target: Address) -> Frame {
    let mut frame = solicitation(mac, target, target).0;
    ethernet::set_addresses(&mut frame, gateway_mac(0), mac);
    frame[38..54].copy_from_slice(&gateway(0, true).0.to_be_bytes());
    frame[54] = 136;
    frame[58] = 0x60;
    frame[78] = 2;
    seal(&mut frame);
    Frame(frame)
}

fn arp_reply(mac: MacAddr, from: &str) -> Frame {
    let mut frame = arp_request(mac, from, "10.0.0.254");
    ethernet::set_addresses(&mut frame.0, gateway_mac(0), mac);
    frame.0[21] = 2;
    frame
}

fn learning() -> Net {
    Net::new(with_prefixes, false)
}

fn read(frame: &Frame) -> Discovery {
    let parsed = packet::parse(&frame.0, frame.0.len(), 1).unwrap();
    ndp::read(&frame.0, &parsed).expect("a valid message")
}

/// Sends, and gives what comes back to the host of leaf 0.
fn exchange(net: &mut Net, frame: Frame) -> Vec<Frame> {
    net.send(0, frame);
    net.run(5_000, &mut perfect);
    net.delivered[0].drain(..).collect()
}

/// Goal: every address of the fabric that is not behind the port is answered, with the flags of
/// its kind; what is behind it, or nowhere, is not.
#[test]
fn solicitations_are_answered_by_proxy() {
    let mut net = learning();
    let me = host(0, true);
    let other = host(1, true);
    for (from, target, is_own) in [
        (me, gateway(0, true), true),
        (me, other, false),
        (me, gateway(1, true), false),
        (me, spine(1, true), false),
        (address("fe80::77"), other, false),
        (me, ndp::link_local(gateway_mac(0)), true),
    ] {
        let got = exchange(&mut net, solicitation(host_mac(0), from, target));
        assert_eq!(got.len(), 1, "{from} asks for {target}");
        let frame = &got[0].0;
        assert_eq!(
            read(&got[0]),
            Discovery::Advertisement {
                target,
                mac: Some(gateway_mac(0))
            }
        );
        assert_eq!(
            (MacAddr::read(frame, 0), MacAddr::read(frame, 6)),
            (host_mac(0), gateway_mac(0))
        );
        assert_eq!(ip::v6_address(frame, 38), from);
        // Router and solicited always; override only for the switch's own (RFC 4861, 7.2.8).
        assert_eq!(
            frame[58],
            if is_own { 0xe0 } else { 0xc0 },
            "flags for {target}"
        );
    }
    assert_eq!(net.noted(0, Note::DiscoveryAnswered), 6);
    for (frame, reason) in [
        (
            solicitation(host_mac(0), me, me),
            DropReason::DiscoveryIgnored,
        ),
        (
            solicitation(host_mac(0), me, address("fd00:0:0:9::5")),
            DropReason::DiscoveryIgnored,
        ),
        (
            solicitation(host_mac(0), me, address("2001:db8::1")),
            DropReason::DiscoveryIgnored,
        ),
        (
            solicitation(host_mac(0), other, gateway(0, true)),
            DropReason::SpoofedSource,
        ),
    ] {
        let before = net.dropped(0, reason);
        assert!(exchange(&mut net, frame).is_empty());
        assert_eq!(net.dropped(0, reason), before + 1, "{}", reason.name());
    }
    net.assert_conserved();
}

/// Goal: a solicitation of one station, in a VLAN, is answered there.
#[test]
fn a_tagged_unicast_solicitation_is_answered_in_its_vlan() {
    let mut net = learning();
    let mut frame = vec![0; ndp::FRAME_LEN];
    ndp::write_solicitation(
        &mut frame,
        Some(gateway_mac(0)),
        host_mac(0),
        host(0, true),
        host(1, true),
    );
    frame.splice(12..12, [0x81, 0, 0x20, 0x09]);
    let got = exchange(&mut net, Frame(frame));
    assert_eq!(got[0].0[12..18], [0x81, 0, 0x20, 0x09, 0x86, 0xdd]);
    assert_eq!(
        read(&got[0]),
        Discovery::Advertisement {
            target: host(1, true),
            mac: Some(gateway_mac(0))
        }
    );
}

/// Goal: duplicate address detection hears of an address of somebody else, on its port alone.
#[test]
fn duplicate_addresses_are_told_to_all_nodes_of_the_port() {
    let mut net = learning();
    for target in [host(1, true), gateway(0, true), gateway(2, true)] {
        let got = exchange(&mut net, solicitation(STRANGER, Address(0), target));
        assert_eq!(got.len(), 1, "{target} is taken");
        assert_eq!(got[0].0[..6], [0x33, 0x33, 0, 0, 0, 1]);
        assert_eq!(ip::v6_address(&got[0].0, 38), ndp::ALL_NODES);
        assert_eq!(got[0].0[58] & 0x40, 0, "not solicited (RFC 4861, 7.2.4)");
    }
    for target in [host(0, true), address("fd00:0:0:9::5"), address("fe80::5")] {
        assert!(exchange(&mut net, solicitation(STRANGER, Address(0), target)).is_empty());
    }
    assert_eq!(net.dropped(0, DropReason::DiscoveryIgnored), 3);
    // The same for IPv4 (RFC 5227).
    let got = exchange(&mut net, arp_request(STRANGER, "0.0.0.0", "10.1.0.1"));
    assert_eq!(arp::read(&got[0].0, 14).unwrap().sender, host(1, false));
    assert!(exchange(&mut net, arp_request(STRANGER, "0.0.0.0", "10.0.9.7")).is_empty());
    assert!((1..LEAVES).all(|leaf| net.delivered[usize::from(leaf)].is_empty()));
    net.assert_conserved();
}

/// Goal: routers are not found by asking, and no other multicast enters the fabric.
#[test]
fn multicast_stays_out() {
    let mut net = learning();
    assert!(
        exchange(
            &mut net,
            router_solicitation(host_mac(0), address("fe80::1"))
        )
        .is_empty()
    );
    assert_eq!(net.noted(0, Note::RouterSolicitations), 1);
    assert_eq!(net.dropped(0, DropReason::DiscoveryIgnored), 1);
    // A multicast listener report, and discovery that came over a fabric port.
    let mut report = router_solicitation(host_mac(0), address("fe80::1"));
    report.0[54] = 143;
    assert!(exchange(&mut net, report).is_empty());
    net.receive(
        0,
        1,
        solicitation(host_mac(1), host(1, true), gateway(0, true)),
    );
    assert_eq!(net.dropped(0, DropReason::Multicast), 2);
    assert!(net.switches[..].iter().all(|s| s.counters().queued == 0));
}

/// Goal: a packet to an unknown host asks for it, in the right form, and once per interval; the
/// answer opens the way, and age closes it again after three asks in vain.
#[test]
fn unknown_hosts_are_asked_for() {
    for is_v6 in [false, true] {
        let mut net = learning();
        let text = if is_v6 { "fd00:0:0:9::5" } else { "10.0.9.5" };
        let target = address(text);
        let packet = || frame(1, host(1, is_v6), target, 9, 132, &[7; 30]);
        net.send(1, packet());
        net.send(1, packet());
        net.run(5_000, &mut perfect);
        assert_eq!(net.delivered[0].len(), 1, "asked once");
        assert_eq!(net.dropped(0, DropReason::UnresolvedNeighbor), 2);
        let asked = net.delivered[0].pop_front().unwrap();
        if is_v6 {
            assert_eq!(
                read(&asked),
                Discovery::Solicitation {
                    target,
                    source_mac: Some(gateway_mac(0))
                }
            );
            assert_eq!(asked.0[..6], [0x33, 0x33, 0xff, 0, 0, 5]);
            assert_eq!(ip::v6_address(&asked.0, 22), gateway(0, true));
        } else {
            let question = arp::read(&asked.0, 14).unwrap();
            assert_eq!(
                (question.target, question.sender),
                (target, gateway(0, false))
            );
            assert_eq!(
                asked.0[..12],
                [255, 255, 255, 255, 255, 255, 2, 0, 0, 0, 0, 0]
            );
        }
        let told = if is_v6 {
            advertisement(STRANGER, target)
        } else {
            arp_reply(STRANGER, text)
        };
        assert!(exchange(&mut net, told).is_empty());
        net.send(1, packet());
        net.run(5_000, &mut perfect);
        let arrived = net.delivered[0].pop_front().expect("the way is known");
        assert_eq!(MacAddr::read(&arrived.0, 0), STRANGER);
        // Aged: the host alone is asked again, and still served; after three asks it is gone.
        net.now = net.now.plus(1_000_000);
        for round in 0..4 {
            net.send(1, packet());
            net.run(5_000, &mut perfect);
            let mut out = net.delivered[0].drain(..);
            let asked = out.next().unwrap();
            assert_eq!(
                MacAddr::read(&asked.0, 0) == STRANGER,
                round < 3,
                "round {round}"
            );
            assert_eq!(out.count(), usize::from(round < 3), "round {round}");
            net.now = net.now.plus(10_000);
        }
        assert_eq!(net.noted(0, Note::NeighborsAsked), 5);
        net.assert_conserved();
    }
}

/// Goal: a host in a VLAN, or in one within another, is asked for there, at first and when what is known
/// of it has aged; what it answers in that VLAN opens the way.
#[test]
fn hosts_in_a_vlan_are_asked_for_in_it() {
    for is_v6 in [false, true] {
        for tags in [
            vec![0x81, 0, 0x60, 0x1e],
            vec![0x88, 0xa8, 0, 5, 0x81, 0, 0xe0, 0x1e],
        ] {
            let mut net = learning();
            let text = if is_v6 { "fd00:0:0:9::5" } else { "10.0.9.5" };
            let target = address(text);
            let tagged = |mut frame: Frame| {
                frame.0.splice(12..12, tags.iter().copied());
                frame
            };
            // The question has the VLAN of the packet, and no priority of it.
            let mut asked_in = tags.clone();
            asked_in.chunks_mut(4).for_each(|tag| tag[2] = 0);
            let network = 14 + tags.len();
            let is_asked = |question: &Frame, to: MacAddr| {
                assert_eq!(question.0[12..network - 2], asked_in, "{text}");
                assert_eq!(MacAddr::read(&question.0, 0), to);
                if is_v6 {
                    assert_eq!(
                        read(question),
                        Discovery::Solicitation {
                            target,
                            source_mac: Some(gateway_mac(0))
                        }
                    );
                } else {
                    let asked = arp::read(&question.0, network).unwrap();
                    assert!(asked.is_request && asked.target == target, "{asked:?}");
                }
            };
            let packet = || tagged(frame(1, host(1, is_v6), target, 9, 132, &[7; 30]));
            net.send(1, packet());
            net.run(5_000, &mut perfect);
            let question = net.delivered[0].pop_front().expect("a question");
            let all = if is_v6 {
                MacAddr([0x33, 0x33, 0xff, 0, 0, 5])
            } else {
                MacAddr::BROADCAST
            };
            is_asked(&question, all);
            let told = if is_v6 {
                advertisement(STRANGER, target)
            } else {
                arp_reply(STRANGER, text)
            };
            assert!(exchange(&mut net, tagged(told)).is_empty());
            net.send(1, packet());
            net.run(5_000, &mut perfect);
            let arrived = net.delivered[0].pop_front().expect("the way is known");
            assert_eq!(MacAddr::read(&arrived.0, 0), STRANGER);
            assert_eq!(
                arrived.0[12..network - 2],
                tags,
                "carried through untouched"
            );
            net.now = net.now.plus(1_000_000);
            net.send(1, packet());
            net.run(5_000, &mut perfect);
            // The packet goes before, by its class.
            let out: Vec<Frame> = net.delivered[0].drain(..).collect();
            assert_eq!(out.len(), 2, "asked again, and still served");
            let question = out
                .iter()
                .find(|frame| frame.0[12..network - 2] == asked_in);
            is_asked(question.expect("asked again"), STRANGER);
            net.assert_conserved();
        }
    }
}

/// Goal: hosts of a prefix send with their own addresses, and are learned by what they ask.
#[test]
fn a_port_owns_its_prefix() {
    for is_v6 in [false, true] {
        let mut net = learning();
        let from = address(if is_v6 { "fd00:0:0:9::5" } else { "10.0.9.5" });
        let to = host(1, is_v6);
        let question = if is_v6 {
            solicitation(STRANGER, from, to)
        } else {
            arp_request(STRANGER, "10.0.9.5", "10.1.0.1")
        };
        assert_eq!(exchange(&mut net, question).len(), 1);
        net.send(0, frame(0, from, to, 9, 132, &[7; 30]));
        net.send(1, frame(1, to, from, 9, 132, &[7; 30]));
        net.run(5_000, &mut perfect);
        assert_eq!(
            net.delivered[1].len(),
            1,
            "its own source address is accepted"
        );
        let back = net.delivered[0]
            .pop_front()
            .expect("it was learned by asking");
        assert_eq!(MacAddr::read(&back.0, 0), STRANGER);
        assert_eq!(net.noted(0, Note::NeighborsAsked), 0);
        // The gateway's own address and other ports' prefixes are nobody's here.
        for foreign in [gateway(0, is_v6), host(2, is_v6)] {
            net.send(0, frame(0, foreign, to, 9, 132, &[7; 30]));
        }
        assert_eq!(net.dropped(0, DropReason::SpoofedSource), 2);
        net.assert_conserved();
    }
}

/// Goal: a gateway address inside the prefix of a port is the switch's, not a host's.
#[test]
fn the_gateway_may_lie_in_the_prefix_of_a_port() {
    let mut net = Net::new(
        |config| {
            with_prefixes(config);
            if config.role == Role::Leaf(LeafId(0)) {
                config.gateway.addresses = vec![address("10.0.9.1"), address("10.0.0.254")];
            }
        },
        false,
    );
    let got = exchange(&mut net, arp_request(STRANGER, "10.0.9.5", "10.0.9.1"));
    assert_eq!(arp::read(&got[0].0, 14).unwrap().sender_mac, gateway_mac(0));
    let echo = exchange(&mut net, ping(0, address("10.0.9.1"), 64, 1));
    assert_eq!(answer(&echo[0]).from, address("10.0.9.1"));
    // A host of that subnet is asked from the address in it.
    net.send(
        1,
        frame(1, host(1, false), address("10.0.9.77"), 9, 132, &[7; 30]),
    );
    net.run(5_000, &mut perfect);
    let asked = net.delivered[0].pop_front().unwrap();
    assert_eq!(arp::read(&asked.0, 14).unwrap().sender, address("10.0.9.1"));
    // Nobody else can claim it.
    net.send(0, arp_request(STRANGER, "10.0.9.1", "10.0.0.254"));
    assert_eq!(net.dropped(0, DropReason::SpoofedSource), 1);
}

/// Goal: a flood of addresses fills its own port's share alone; configured hosts keep their MAC.
#[test]
fn a_flood_of_neighbours_harms_nobody_else() {
    let mut net = Net::new(
        |config| {
            with_prefixes(config);
            if let Role::Leaf(LeafId(0)) = config.role {
                // A second host port in place of an uplink, with its prefix and learned hosts.
                config.ports[1].kind = PortKind::Host;
                config.routes.push(Route {
                    prefix: prefix("10.0.10.0/24"),
                    next: NextHop::Port(1),
                });
                // One host that is configured, but not its MAC address.
                config.hosts.push(HostConfig {
                    address: address("10.0.0.7"),
                    mac: None,
                    port: 0,
                });
                config.routes.push(Route {
                    prefix: Prefix::host(address("10.0.0.7")),
                    next: NextHop::Host(2),
                });
            }
        },
        false,
    );
    let quiet = MacAddr([2, 0xcc, 0, 0, 0, 1]);
    net.receive(0, 1, arp_request(quiet, "10.0.10.3", "10.0.0.254"));
    net.send(0, arp_request(STRANGER, "10.0.0.7", "10.0.0.254"));
    for n in 0..255 {
        let mac = MacAddr([2, 0xdd, 0, 0, 0, n]);
        net.send(0, arp_request(mac, &format!("10.0.9.{n}"), "10.0.0.254"));
        // Claims of configured hosts, of the other port's, and of other leaves'.
        net.send(0, arp_request(mac, "10.0.0.1", "10.0.0.254"));
        net.send(0, arp_request(mac, "10.0.10.3", "10.0.0.254"));
        net.send(0, arp_request(mac, "10.1.0.1", "10.0.0.254"));
    }
    net.run(300_000, &mut perfect);
    net.delivered[0].clear();
    assert_eq!(net.noted(0, Note::NeighborsFull), 255 - 8);
    assert_eq!(net.dropped(0, DropReason::SpoofedSource), 2 * 255);
    let now = net.now;
    let mut deliver = |to: &str, port: u16| {
        net.send(0, frame(0, host(0, false), address(to), 9, 132, &[7; 30]));
        net.now = net.now.plus(100_000);
        let out = net.switches[0]
            .egress(net.now, PortId(port))
            .expect("it is delivered");
        MacAddr::read(&out.0, 0)
    };
    assert_eq!(
        deliver("10.0.0.1", 0),
        host_mac(0),
        "a configured MAC address stays"
    );
    assert_eq!(
        deliver("10.0.0.7", 0),
        STRANGER,
        "so does the place of a configured host"
    );
    assert_eq!(
        deliver("10.0.10.3", 1),
        quiet,
        "and the entry of the other port"
    );
    assert!(now < Nanos(1_000_000), "nothing had aged");
}

/// Goal: messages that lie are dropped, and teach nothing.
#[test]
fn malformed_discovery_teaches_nothing() {
    let mut net = learning();
    let target = address("fd00:0:0:9::5");
    let mut wrong_sum = advertisement(STRANGER, target);
    wrong_sum.0[57] ^= 1;
    let mut forwarded = advertisement(STRANGER, target);
    forwarded.0[21] = 254;
    let group = advertisement(MacAddr([3, 0, 0, 0, 0, 1]), target);
    let own = advertisement(gateway_mac(0), target);
    let nothing = advertisement(MacAddr::default(), target);
    let foreign = advertisement(STRANGER, host(1, true));
    for frame in [wrong_sum, forwarded, group, own, nothing, foreign] {
        net.send(0, frame);
    }
    assert_eq!(net.dropped(0, DropReason::DiscoveryIgnored), 2);
    assert_eq!(net.dropped(0, DropReason::SpoofedSource), 1);
    net.send(1, frame(1, host(1, true), target, 9, 132, &[7; 30]));
    net.run(5_000, &mut perfect);
    assert_eq!(net.dropped(0, DropReason::UnresolvedNeighbor), 1);
}

/// Goal: without packet memory nothing is asked or answered, and that is counted.
#[test]
fn without_memory_the_question_is_counted() {
    let mut net = learning();
    net.sinks[0].is_out_of_memory = true;
    net.send(0, solicitation(host_mac(0), host(0, true), host(1, true)));
    net.send(
        1,
        frame(1, host(1, false), address("10.0.9.5"), 9, 132, &[7; 30]),
    );
    net.run(5_000, &mut perfect);
    assert_eq!(net.noted(0, Note::MessagesUnsent), 2);
    net.assert_conserved();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Goal: whatever becomes of the bytes of a ping, a probe, ARP or discovery, on host and fabric
    /// ports, no packet is lost count of, and nothing leaves the switch that is malformed.
    #[test]
    fn damaged_packets_are_dropped_or_answered_soundly(
        which in 0usize..7, is_v6: bool, port in 0u16..2, cut in 0usize..200,
        flips in proptest::collection::vec((0usize..120, any::<u8>()), 0..6),
    ) {
        let mut net = learning();
        let mut sent = match which {
            0 => ping(0, gateway(0, is_v6), 64, 1),
            1 => probe(0, host(1, is_v6), 1),
            2 => solicitation(host_mac(0), host(0, true), host(1, true)),
            3 => solicitation(host_mac(0), Address(0), host(1, true)),
            4 => advertisement(STRANGER, address("fd00:0:0:9::5")),
            5 => arp_request(host_mac(0), "10.0.9.5", "10.0.0.254"),
            _ => frame(0, host(0, is_v6), address("10.0.9.5"), 2, 132, &[0; 20]),
        };
        let len = sent.0.len();
        for (at, byte) in flips {
            sent.0[at % len] = byte;
        }
        sent.0.truncate(len - cut % len.min(100));
        net.receive(0, port, sent);
        net.assert_conserved();
        while let Some(out) = net.switches[0].egress(Nanos(1 << 30), PortId(port)) {
            prop_assert!(packet::parse(&out.0, out.0.len(), 1).is_ok());
        }
    }
}
