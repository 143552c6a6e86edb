//! Ping and traceroute through the fabric, to switches and to hosts, and what is never answered.

use packet::{be, ip};
use pipeline::*;

use crate::gateway::*;
use crate::net::*;

/// The answer that the host of `leaf` gets to a frame, if any.
fn ask(net: &mut Net, leaf: u16, frame: Frame) -> Option<Answer> {
    net.send(leaf, frame);
    net.run(20_000, &mut perfect);
    let got = net.delivered[usize::from(leaf)].pop_front();
    assert!(
        net.delivered[usize::from(leaf)].is_empty(),
        "one answer at most"
    );
    got.map(|frame| answer(&frame))
}

/// Goal: ping reaches the own leaf, a spine and another leaf, in both families, byte by byte.
#[test]
fn switches_answer_ping() {
    for is_v6 in [false, true] {
        let mut net = Net::new(with_addresses, false);
        for (to, ttl) in [
            (gateway(0, is_v6), 64),
            (spine(2, is_v6), 63),
            (gateway(1, is_v6), 62),
        ] {
            let request = ping(0, to, 64, 5);
            let got = ask(&mut net, 0, request.clone()).unwrap_or_else(|| panic!("{to} is silent"));
            let sent = answer(&request);
            let reply = if is_v6 { 129 } else { 0 };
            assert_eq!(got.kind, (reply, 0), "{to}");
            assert_eq!(
                (got.from, got.to, got.ttl),
                (to, host(0, is_v6), ttl),
                "{to}"
            );
            assert_eq!(got.macs, (host_mac(0), gateway_mac(0)));
            assert_eq!(
                got.body, sent.body,
                "identifier, sequence and data come back"
            );
        }
        let answered: u64 = (0..LEAVES + SPINES)
            .map(|s| net.noted(s, Note::EchoAnswered))
            .sum();
        assert_eq!(answered, 3);
        net.assert_conserved();
    }
}

/// Goal: a ping between hosts of two leaves arrives as it was sent, and its reply as well.
#[test]
fn hosts_ping_each_other_through_leaf_spine_leaf() {
    for is_v6 in [false, true] {
        let mut net = Net::new(with_addresses, false);
        net.send(0, ping(0, host(1, is_v6), 64, 1));
        net.run(20_000, &mut perfect);
        let arrived = net.delivered[1].pop_front().unwrap();
        let request = answer(&arrived);
        assert_eq!(
            (request.ttl, request.from),
            (61, host(0, is_v6)),
            "three routers"
        );
        // The host turns it round, as its kernel would.
        let mut reply = arrived;
        let parsed = packet::parse(&reply.0, reply.0.len(), 1).unwrap();
        packet::icmp::answer_echo(&mut reply.0, &parsed);
        packet::ethernet::set_addresses(&mut reply.0, gateway_mac(1), host_mac(1));
        net.send(1, reply);
        net.run(20_000, &mut perfect);
        let back = answer(&net.delivered[0].pop_front().unwrap());
        assert_eq!((back.kind.0, back.ttl), (if is_v6 { 129 } else { 0 }, 61));
        assert_eq!(back.body, request.body);
        net.assert_conserved();
    }
}

/// Goal: traceroute names leaf, spine and leaf in turn, then the host gets the probe.
#[test]
fn traceroute_names_every_hop() {
    for is_v6 in [false, true] {
        let mut net = Net::new(with_addresses, false);
        let target = host(1, is_v6);
        for ttl in 1..=3 {
            let sent = probe(0, target, ttl);
            let got =
                ask(&mut net, 0, sent.clone()).unwrap_or_else(|| panic!("TTL {ttl} is silent"));
            let hops = [
                vec![gateway(0, is_v6)],
                (0..SPINES).map(|x| spine(x, is_v6)).collect(),
                vec![gateway(1, is_v6)],
            ];
            assert!(
                hops[usize::from(ttl) - 1].contains(&got.from),
                "TTL {ttl}: {}",
                got.from
            );
            assert_eq!(got.kind, if is_v6 { (3, 0) } else { (11, 0) });
            assert_eq!(got.ttl, 65 - ttl, "answers are forwarded as well");
            // The quote is the probe as that router got it: its TTL is 1 there.
            let mut quoted = sent.0[14..].to_vec();
            if is_v6 {
                quoted[7] = 1;
            } else {
                quoted[8] = 1;
                let sum = ip::v4_checksum(&quoted[..20]);
                be::put16(&mut quoted, 10, sum);
            }
            assert_eq!(got.body[..4], [0; 4]);
            assert_eq!(got.body[4..], quoted, "TTL {ttl}");
        }
        net.send(0, probe(0, target, 4));
        net.run(20_000, &mut perfect);
        assert_eq!(
            net.delivered[1].len(),
            1,
            "the host itself is the fourth hop"
        );
        // A traceroute to a switch ends with what UDP knows as the end.
        for (to, ttl) in [
            (gateway(0, is_v6), 1),
            (spine(1, is_v6), 2),
            (gateway(1, is_v6), 3),
        ] {
            let got = ask(&mut net, 0, probe(0, to, ttl)).unwrap();
            assert_eq!(
                (got.from, got.kind),
                (to, if is_v6 { (1, 4) } else { (3, 3) })
            );
        }
        let expired: u64 = (0..LEAVES + SPINES)
            .map(|s| net.dropped(s, DropReason::TtlExpired))
            .sum();
        let unserved: u64 = (0..LEAVES + SPINES)
            .map(|s| net.dropped(s, DropReason::NoService))
            .sum();
        let sent: u64 = (0..LEAVES + SPINES)
            .map(|s| net.noted(s, Note::IcmpErrorsSent))
            .sum();
        assert_eq!((expired, unserved, sent), (3, 3, 6));
        net.assert_conserved();
    }
}

/// Goal: RoCE data that expires is told of with the mark of nobody, and tags come back.
#[test]
fn an_expired_tagged_packet_is_answered_in_its_vlan() {
    let mut net = Net::new(with_addresses, false);
    let mut frame = data(0, 1, 7, 9);
    frame.0[22] = 1;
    let sum = ip::v4_checksum(&frame.0[14..34]);
    be::put16(&mut frame.0, 24, sum);
    frame.0.splice(12..12, [0x81, 0x00, 0x60, 0x05]);
    net.send(0, frame.clone());
    net.run(10_000, &mut perfect);
    let got = net.delivered[0].pop_front().unwrap();
    assert_eq!(got.0[12..18], frame.0[12..18], "tag and type");
    assert_eq!(
        got.0[18 + 20 + 8..],
        frame.0[18..],
        "all of the datagram is quoted"
    );
}

/// Goal: a missing route is told of, and a switch without addresses says nothing.
#[test]
fn only_a_switch_with_an_address_sends_errors() {
    let mut net = Net::new(with_addresses, false);
    let lost = probe(0, address("11.0.0.1"), 9);
    let got = ask(&mut net, 0, lost.clone()).unwrap();
    assert_eq!((got.kind, got.from), ((3, 0), gateway(0, false)));
    let mut mute = Net::new(|_| {}, false);
    assert_eq!(ask(&mut mute, 0, lost), None);
    assert_eq!(ask(&mut mute, 0, probe(0, host(1, false), 1)), None);
    assert_eq!(mute.noted(0, Note::IcmpErrorsSent), 0);
    assert_eq!(mute.dropped(0, DropReason::TtlExpired), 1);
}

/// Goal: errors, later fragments and other senders' packets get no answer, and are dropped as ever.
#[test]
fn what_must_not_be_answered_is_not() {
    let mut net = Net::new(with_addresses, false);
    let to = host(1, false);
    let icmp = |kind: u8| {
        frame(
            0,
            host(0, false),
            to,
            1,
            ip::ICMP,
            &[kind, 0, 0, 0, 0, 0, 0, 0],
        )
    };
    let mut later = probe(0, to, 1);
    be::put16(&mut later.0, 20, 0x0010);
    let mut first = probe(0, to, 1);
    be::put16(&mut first.0, 20, 0x2000);
    let group = frame(
        0,
        host(0, false),
        address("224.0.0.9"),
        1,
        ip::UDP,
        &[0, 1, 0, 1, 0, 8, 0, 0],
    );
    for (frame, is_answered) in [
        (icmp(11), false),
        (icmp(3), false),
        (icmp(8), true),
        (later, false),
        (first, true),
        (group, false),
    ] {
        let got = ask(&mut net, 0, frame);
        assert_eq!(got.is_some(), is_answered, "{got:?}");
    }
    assert_eq!(net.dropped(0, DropReason::TtlExpired), 6);
    // A foreign source is a drop before it is anything else.
    let mut foreign = probe(0, to, 1);
    foreign.0[29] = 77;
    assert_eq!(ask(&mut net, 0, foreign), None);
    assert_eq!(net.dropped(0, DropReason::SpoofedSource), 1);
    net.assert_conserved();
}

/// Goal: replies and errors together keep to the rate; what is beyond is counted.
#[test]
fn answers_are_bounded_by_one_bucket() {
    let mut net = Net::new(
        |config| {
            with_addresses(config);
            config.gateway.icmp_per_second = 100;
        },
        false,
    );
    for n in 0..40 {
        net.send(0, ping(0, gateway(0, false), 64, n));
        net.send(0, probe(0, host(1, false), 1));
    }
    net.run(10_000, &mut perfect);
    assert_eq!(net.delivered[0].len(), 10, "a tenth of a second's worth");
    assert_eq!(net.noted(0, Note::IcmpRateLimited), 70);
    assert_eq!(
        net.dropped(0, DropReason::TtlExpired),
        40,
        "the drop is counted all the same"
    );
    net.delivered[0].clear();
    net.now = net.now.plus(10_000_000);
    assert!(
        ask(&mut net, 0, probe(0, host(1, false), 1)).is_some(),
        "10 ms earn one more"
    );
    assert!(ask(&mut net, 0, probe(0, host(1, false), 1)).is_none());
    net.assert_conserved();
}

/// Goal: without packet memory errors are counted as unsent, and replies, which need none, go on.
///
/// Fault: no packet memory at a leaf or spine
#[test]
fn without_memory_only_errors_are_lost() {
    let mut net = Net::new(with_addresses, false);
    net.sinks[0].is_out_of_memory = true;
    assert_eq!(ask(&mut net, 0, probe(0, host(1, false), 1)), None);
    assert_eq!(net.noted(0, Note::IcmpUnsent), 1);
    assert!(ask(&mut net, 0, ping(0, gateway(0, false), 64, 1)).is_some());
    net.assert_conserved();
}

/// Goal: a flood of one port's hosts takes none of the answers of others.
#[test]
fn a_flood_takes_nobody_elses_share() {
    let mut net = Net::new(
        |config| {
            with_addresses(config);
            config.gateway.icmp_per_second = 100;
        },
        false,
    );
    for n in 0..40 {
        net.send(0, ping(0, gateway(0, false), 64, n));
    }
    net.run(10_000, &mut perfect);
    assert_eq!(net.noted(0, Note::IcmpRateLimited), 30);
    // Its answer leaves by an uplink, which nobody floods.
    assert!(ask(&mut net, 1, ping(1, gateway(0, false), 64, 1)).is_some());
    net.assert_conserved();
}

/// Goal: what is too big for the next link is dropped and counted, and its sender told the MTU, at
/// the port's rate.
#[test]
fn too_big_is_told_with_the_mtu() {
    let mut net = Net::new(with_addresses, false);
    net.run(1_000, &mut perfect);
    let mtu = net.switches[0].mtu(PortId(1));
    let answer = ask(&mut net, 0, udp(0, 1, 53, &[0; 4400])).expect("an answer");
    // Unreachable, fragmentation needed (RFC 792; RFC 1191, 4), quoting the packet.
    assert_eq!(answer.kind, (3, 4));
    assert_eq!(be::get32(&answer.body, 0), mtu);
    let quoted = be::get32(&answer.body, 4 + 16);
    assert_eq!(quoted, 0x0a01_0001, "the destination of what is quoted");
    assert_eq!(net.dropped(0, DropReason::Oversize), 1);
    for _ in 0..300 {
        net.send(0, udp(0, 1, 53, &[0; 4400]));
    }
    assert_eq!(net.dropped(0, DropReason::Oversize), 301);
    assert!(
        net.noted(0, Note::IcmpErrorsSent) <= 101 && net.noted(0, Note::IcmpRateLimited) >= 200
    );
    net.assert_conserved();
}
