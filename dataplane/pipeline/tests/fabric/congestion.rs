//! Congestion is no gray failure: what our own queues drop is told, path by path.

use pipeline::*;

use crate::net::*;

/// Uplinks (of leaves) or downlinks (of spines) that hold only a few packets.
fn tight(config: &mut SwitchConfig, is_leaf: bool) {
    if matches!(config.role, Role::Leaf(_)) == is_leaf {
        config.queue.limit_bytes = 2_000;
        for port in &mut config.ports {
            if port.kind != PortKind::Host {
                port.rate_bps = 1_000_000_000;
            }
        }
    }
}

/// A flow of 400 packets in bursts that the tight queues cannot hold.
fn bursts(net: &mut Net) {
    net.send(0, announcement(0, 1, 7, 100, 400));
    for n in 0..400 {
        net.send(0, data(0, 1, 7, 100 + n));
        if n % 40 == 39 {
            net.run(100_000, &mut perfect);
        }
    }
    net.run(500_000, &mut perfect);
}

/// Fault: all descriptors of an egress port full
/// Forwarding: queues, then tail drops
/// Verdicts: drops in own queues are no evidence
/// Counter: `tail-drop`
/// Right again: at once
#[test]
fn drops_at_the_source_are_not_in_what_was_sent() {
    let mut net = Net::new(|config| tight(config, true), false);
    bursts(&mut net);
    let dropped = net.dropped(0, DropReason::TailDrop);
    let window = net.take_windows(1)[0];
    assert!(dropped > 50, "{dropped}");
    assert_eq!(window.marked, Some(net.noted(0, Note::Marked)));
    assert!(window.marked < Some(400));
    assert_eq!(window.counts, window.sent);
    assert!(net.sinks[0].dropped.is_empty(), "the close tells it");
}

/// Fault: all descriptors of an egress port full
#[test]
fn drops_at_a_spine_are_told_by_the_close_of_their_path() {
    let mut net = Net::new(|config| tight(config, false), false);
    bursts(&mut net);
    let window = net.take_windows(1)[0];
    let mut all = 0;
    for spine in 0..usize::from(SPINES) {
        let hop = window.hops[spine];
        let missing = window.sent[spine] - window.counts[spine];
        assert_eq!(
            (missing, hop.received - hop.sent),
            (hop.dropped, hop.dropped),
            "spine {spine}"
        );
        all += u64::from(missing);
    }
    assert!(all > 20 && net.lost == 0, "{all}");
}

/// Goal: while other traffic keeps a spine's queues full all the time, every message of every window comes
/// through, in its place: each path has its close and its spine's record, and the record tells
/// exactly what is missing.
///
/// Fault: all descriptors of an egress port full
#[test]
fn a_full_queue_keeps_no_message_back() {
    let mut net = Net::new(
        |config| {
            tight(config, false);
            config.measurement.window_packets_max = 100;
            // 2,000 bytes and the messages behind them, at 1 Gbit/s.
            config.measurement.path_delay_ns_max = 50_000;
        },
        false,
    );
    let (mut windows, mut missing) = (Vec::new(), 0);
    for n in 0..4_000 {
        if n % 150 == 0 {
            net.send(0, announcement(0, 1, 7, n, 100));
        }
        net.send(0, data(0, 1, 7, n));
        // Others offer the four downlinks nearly twice what they take.
        (0..5).for_each(|flow| net.send(2, data(2, 1, 100 + flow, n)));
        net.run(2_000, &mut perfect);
        windows.extend(net.take_windows(1));
    }
    net.run(1_000_000, &mut perfect);
    windows.extend(net.take_windows(1));
    assert!(windows.len() > 20, "{} windows", windows.len());
    for window in &windows {
        let all = SpineSet::first(usize::from(SPINES));
        assert_eq!(
            (window.usable, window.flushed, window.hops_filled),
            (all, all, all)
        );
        for spine in all.iter() {
            let lost = window.sent[spine] - window.counts[spine];
            assert_eq!(lost, window.hops[spine].dropped, "{window:?}");
            missing += lost;
        }
    }
    assert!(missing > 500, "{missing}");
    let spines = LEAVES..LEAVES + SPINES;
    for spine in spines {
        assert!(net.dropped(spine, DropReason::TailDrop) > 1_000);
        assert_eq!(net.dropped(spine, DropReason::ReserveFull), 0);
    }
    net.assert_conserved();
}

#[test]
fn in_the_papers_protocol_control_is_told_once_of_each_path() {
    for is_leaf in [true, false] {
        let mut net = Net::new(|config| tight(config, is_leaf), true);
        bursts(&mut net);
        let mut told: Vec<OwnDrop> = Vec::new();
        net.sinks.iter().for_each(|sink| told.extend(&sink.dropped));
        told.sort_by_key(|drop| drop.spine);
        let spines: Vec<u16> = told.iter().map(|drop| drop.spine.0).collect();
        assert_eq!(spines, [0, 1, 2, 3], "at leaves: {is_leaf}");
        for drop in told {
            assert_eq!((drop.source, drop.destination), (LeafId(0), LeafId(1)));
            assert_eq!(
                (drop.qpn.0, drop.first_psn.map(|p| p.number())),
                (7, Some(100))
            );
        }
    }
}
