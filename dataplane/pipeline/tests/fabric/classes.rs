//! Priorities from DSCP and PCP, ECN marking by depth, and frames beyond the MTU.

use packet::{be, ip};
use pipeline::*;

use crate::net::*;

/// A RoCE packet in `tags` VLANs, the innermost with that PCP.
fn tagged(tags: usize, pcp: u8) -> Frame {
    let mut frame = data(0, 1, 7, 3);
    for tag in 0..tags {
        // The first one inserted ends up innermost; the outer ones have another PCP.
        let bits = if tag == 0 { pcp } else { 7 - pcp };
        frame.0.splice(12..12, [0x81, 0, bits << 5, 9]);
    }
    frame
}

/// The priority at which leaf 0 queues a frame towards the spines.
fn priority(net: &mut Net, frame: Frame) -> u8 {
    net.send(0, frame);
    let depth = |net: &Net, priority| -> u64 {
        (1..=SPINES)
            .map(|port| net.switches[0].depth_bytes(PortId(port), priority))
            .sum()
    };
    let found = (0..8)
        .rev()
        .find(|&priority| depth(net, priority) > 0)
        .unwrap();
    net.run(10_000, &mut perfect);
    found
}

/// Goal: PCP decides for tagged frames where it is on, DSCP for all others; 7 is never given.
#[test]
fn priorities_come_from_pcp_or_dscp() {
    let mut net = Net::new(
        |config| config.queue.pcp_priority = Some([7, 6, 5, 4, 3, 2, 1, 0]),
        false,
    );
    for pcp in 0..8 {
        for tags in [1, 2] {
            assert_eq!(
                priority(&mut net, tagged(tags, pcp)),
                (7 - pcp).min(6),
                "PCP {pcp}, {tags} tags"
            );
        }
    }
    assert_eq!(priority(&mut net, tagged(0, 0)), 3, "DSCP 26 without a tag");
    let mut net = Net::new(|_| {}, false);
    assert_eq!(
        priority(&mut net, tagged(1, 5)),
        3,
        "PCP is ignored unless configured"
    );
    let mut net = Net::new(|config| config.queue.dscp_priority = [7; 64], false);
    assert_eq!(
        priority(&mut net, tagged(0, 0)),
        6,
        "7 belongs to the measured flow"
    );
}

fn with_ecn(kmin_bytes: u64, kmax_bytes: u64, pmax_ppm: u32) -> impl Fn(&mut SwitchConfig) {
    move |config| {
        let ecn = EcnConfig {
            kmin_bytes,
            kmax_bytes,
            pmax_ppm,
            at_rate_bps: None,
        };
        config.queue.ecn = [None; 8];
        config.queue.ecn[3] = Some(ecn);
        config.queue.packets_max = 1 << 16;
        config.policy = Policy::Ecmp;
    }
}

/// Goal: a packet is marked by the depth that it finds in its own queue, in the share that the
/// curve says, with a right checksum and ICRC.
#[test]
fn marking_follows_the_depth_of_the_queue() {
    let len = data(0, 1, 7, 0).0.len() as u64;
    let (kmin, kmax) = (100 * len, 2100 * len);
    let mut net = Net::new(with_ecn(kmin, kmax, 200_000), false);
    for n in 0..2600 {
        net.send(0, data(0, 1, 7, n));
    }
    let mut marked = Vec::new();
    net.run(1_500_000, &mut |from, _, frame| {
        if from == 0 {
            marked.push(frame.0[15] & 3 == 3);
            assert_eq!(be::get16(&frame.0, 24), ip::v4_checksum(&frame.0[14..34]));
            let end = frame.0.len() - 4;
            assert_eq!(
                packet::icrc::icrc(&frame.0[14..end], 20).unwrap(),
                frame.0[end..]
            );
        }
        true
    });
    assert_eq!(marked.len(), 2600);
    let count = |range: std::ops::Range<usize>| marked[range].iter().filter(|&&m| m).count() as f64;
    assert_eq!(count(0..101), 0.0, "up to Kmin");
    assert_eq!(count(2101..2600), 499.0, "beyond Kmax");
    // In between the probability rises to Pmax: 200 packets on average, with their deviation.
    let variance: f64 = (0..2000)
        .map(|n| f64::from(n) / 10_000.0)
        .map(|p| p * (1.0 - p))
        .sum();
    let between = count(101..2101);
    assert!(
        (between - 200.0).abs() < 5.0 * variance.sqrt(),
        "{between} marked on the slope"
    );
    assert!(
        count(1601..2101) > count(101..601),
        "more at the top than at the bottom"
    );
    assert_eq!(net.noted(0, Note::EcnMarked), between as u64 + 499);
    net.assert_conserved();
}

/// Goal: what is not ECN-capable is never marked, nor is another queue, nor anything by default.
#[test]
fn only_capable_packets_of_a_marking_queue_are_marked() {
    let flood = |net: &mut Net, class: u8| {
        for n in 0..100 {
            let mut frame = data(0, 1, 7, n);
            frame.0[15] = class;
            let sum = ip::v4_checksum(&frame.0[14..34]);
            be::put16(&mut frame.0, 24, sum);
            net.send(0, frame);
        }
        net.noted(0, Note::EcnMarked)
    };
    for (class, expected) in [
        (26 << 2, 0),
        (26 << 2 | 1, 99),
        (26 << 2 | 2, 99),
        (26 << 2 | 3, 0),
        (10 << 2 | 2, 0),
    ] {
        let mut net = Net::new(with_ecn(0, 0, 1_000_000), false);
        assert_eq!(flood(&mut net, class), expected, "class {class:08b}");
    }
    let mut net = Net::new(|config| config.policy = Policy::Ecmp, false);
    assert_eq!(flood(&mut net, 26 << 2 | 2), 0, "off by default");
}

/// Goal: the largest frame passes with and without tags, one byte more is oversize; jumbo frames
/// do where the port is made for them.
#[test]
fn frames_beyond_the_mtu_are_oversize() {
    let max = 4400;
    let of_len = |len: usize, tags: usize| {
        let mut frame = udp(0, 1, 53, &vec![0; len - 42 - 4 * tags]);
        (0..tags).for_each(|_| drop(frame.0.splice(12..12, [0x81, 0, 0, 9])));
        assert_eq!(frame.0.len(), len);
        frame
    };
    for tags in 0..3 {
        let mut net = Net::new(|_| {}, false);
        net.send(0, of_len(max, tags));
        net.send(0, of_len(max + 1, tags));
        net.run(20_000, &mut perfect);
        assert_eq!(net.dropped(0, DropReason::Oversize), 1, "{tags} tags");
        assert_eq!(net.delivered[1].pop_front().unwrap().0.len(), max);
        net.assert_conserved();
    }
    let jumbo = |config: &mut SwitchConfig| {
        config
            .ports
            .iter_mut()
            .for_each(|port| port.frame_max_bytes = 9622);
    };
    let mut net = Net::new(jumbo, false);
    net.send(0, of_len(9622, 2));
    net.run(40_000, &mut perfect);
    assert_eq!(net.delivered[1].pop_front().unwrap().0, {
        let mut sent = of_len(9622, 2).0;
        packet::ethernet::set_addresses(&mut sent, host_mac(1), gateway_mac(1));
        (0..3).for_each(|_| ip::v4_decrement_ttl(&mut sent, 22));
        sent
    });
    // A jumbo frame that meets a smaller link ends there, and is charged to the switch before it.
    let mut net = Net::new(
        |config| {
            if let Role::Leaf(_) = config.role {
                jumbo(config);
            }
        },
        false,
    );
    net.send(0, of_len(9000, 0));
    net.run(40_000, &mut perfect);
    let at_spines: u64 = (LEAVES..LEAVES + SPINES)
        .map(|s| net.dropped(s, DropReason::Oversize))
        .sum();
    assert_eq!(at_spines, 1);
    net.assert_conserved();
}
