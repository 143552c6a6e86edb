//! Two hosts and a wire: in order, reordered, lossy, dead.

mod wire;

use endpoint::{Event, Flow, HostConfig, PathMtu, Recovery};
use proptest::prelude::*;
use wire::{Dice, Wire, in_order};

const MS: u64 = 1_000_000;

fn flow(bytes: u64, message_bytes: u64) -> Flow {
    Flow {
        verb: endpoint::Verb::Write,
        flow_id: 1,
        bytes,
        message_bytes,
        announce: false,
    }
}

/// Posts `bytes` on host 0 and demands that they arrive once, verified; returns when it was done.
fn deliver(
    wire: &mut Wire,
    bytes: u64,
    message_bytes: u64,
    limit_ns: u64,
    rule: impl FnMut(&wire::Frame<'_>) -> wire::Arrivals,
) -> u64 {
    let now = wire.now;
    wire.hosts[0]
        .post(now, endpoint::QpId(0), flow(bytes, message_bytes))
        .unwrap();
    let events = wire.run(limit_ns, rule);
    let (sender, receiver) = (wire.counters(0), wire.counters(1));
    let ends = events.iter().filter_map(|e| match e {
        (0, Event::SendComplete { ended_ns, .. }) => Some(*ended_ns),
        _ => None,
    });
    let ends: Vec<u64> = ends.collect();
    let state = format!(
        "at {} ns\nsender {sender:?}\nreceiver {receiver:?}",
        wire.now
    );
    assert_eq!(ends.len(), 1, "{state}");
    let received: u64 = events
        .iter()
        .map(|e| match e {
            (1, Event::Received { bytes, .. }) => *bytes,
            _ => 0,
        })
        .sum();
    assert_eq!(received, bytes, "{state}");
    assert_eq!(receiver.payload_errors, 0, "{state}");
    assert!(wire.now < limit_ns, "ends by itself: {state}");
    ends[0]
}

/// Goal: N packets need N transmissions and no repair, whatever the sizes and the PSN wrap.
#[test]
fn in_order_costs_exactly_its_packets() {
    let cases = [
        (1, 1, 1),
        (4096, 4096, 1),
        (4097, 1 << 20, 2),
        (1 << 20, 1 << 16, 256),
        (1_000_003, 100_001, 250),
    ];
    for (bytes, message_bytes, packets) in cases {
        let (mut wire, _) = Wire::pair(|_| (), 0xff_fff0);
        deliver(&mut wire, bytes, message_bytes, 1000 * MS, in_order);
        let (sender, receiver) = (wire.counters(0), wire.counters(1));
        assert_eq!(
            (
                sender.sent,
                sender.retransmitted,
                sender.timeouts,
                receiver.received
            ),
            (packets, 0, 0, packets),
            "{bytes} bytes in messages of {message_bytes}"
        );
        assert_eq!((receiver.naks_sent, receiver.out_of_order), (0, 0));
        let most = packets / 16 + bytes.div_ceil(message_bytes) + 1;
        assert!(
            receiver.acks_sent <= most,
            "{} acknowledgements",
            receiver.acks_sent
        );
    }
}

/// Goal: the link is used, and never beyond its rate.
#[test]
fn the_link_is_full_and_not_fuller() {
    let (mut wire, _) = Wire::pair(|c| c.slack_ns = 500, 0);
    let taken = deliver(&mut wire, 8 << 20, 1 << 20, 1000 * MS, in_order);
    // 2,048 packets of 58 + 4,096 + 24 bytes at 100 Gbit/s, and 8 RETHs.
    let floor = 2048 * 33_424 / 100;
    assert!(
        (floor..floor * 102 / 100 + 5000).contains(&taken),
        "{taken} ns, floor {floor} ns"
    );
}

/// Goal: reordering within the reorder window is not loss.
#[test]
fn reordering_within_the_window_repairs_nothing() {
    let (mut wire, _) = Wire::pair(|c| c.window_packets = 256, 0xff_fff0);
    let mut dice = Dice(1);
    // Up to 30 us of 334 ns each: at most 90 packets overtake one.
    let rule = |_: &wire::Frame<'_>| [Some(1000 + dice.below(30_000)), None];
    deliver(&mut wire, 16 << 20, 1 << 20, 1000 * MS, rule);
    let (sender, receiver) = (wire.counters(0), wire.counters(1));
    assert!(receiver.out_of_order > 3000, "{receiver:?}");
    assert!(receiver.out_of_order_distance_max > 60, "{receiver:?}");
    assert_eq!(
        (sender.retransmitted, receiver.spurious, receiver.naks_sent),
        (0, 0, 0)
    );
}

/// Goal: the last packets and their acknowledgements may be lost as well.
#[test]
fn a_lost_tail_is_found_by_the_timeout() {
    for lost in 1..=10u32 {
        let (mut wire, _) = Wire::pair(|_| (), 0xff_fff0);
        let first = packet::Psn::new(0xff_fff0).plus(20 - lost);
        let mut left = lost;
        let rule = |frame: &wire::Frame<'_>| {
            if frame.from == 0 && frame.psn.ahead_of(first) >= 0 && left > 0 {
                left -= 1;
                return [None, None];
            }
            [Some(1000), None]
        };
        deliver(&mut wire, 20 * 4096, 1 << 20, 100 * MS, rule);
        let (sender, receiver) = (wire.counters(0), wire.counters(1));
        assert_eq!(sender.retransmitted, u64::from(lost), "{sender:?}");
        assert_eq!(receiver.spurious, 0);
        assert_eq!(sender.timeouts, 1, "one timeout, then requests");
    }
}

/// Goal: one loss is one retransmission, asked for as soon as the window has passed.
#[test]
fn a_loss_costs_one_packet() {
    let (mut wire, _) = Wire::pair(|c| c.window_packets = 256, 0);
    let mut dropped = 0;
    let rule = |frame: &wire::Frame<'_>| {
        if frame.from == 0 && frame.psn.number() == 100 && dropped == 0 {
            dropped += 1;
            return [None, None];
        }
        [Some(1000), None]
    };
    deliver(&mut wire, 4 << 20, 1 << 20, 100 * MS, rule);
    let (sender, receiver) = (wire.counters(0), wire.counters(1));
    assert_eq!(
        (sender.retransmitted, sender.timeouts),
        (1, 0),
        "{sender:?}"
    );
    assert_eq!(
        (receiver.naks_sent, receiver.spurious),
        (1, 0),
        "{receiver:?}"
    );
    assert_eq!(
        receiver.out_of_order_distance_max.clamp(128, 150),
        receiver.out_of_order_distance_max
    );
}

/// Goal: headers alone (the simulator's form) take the same course as whole frames.
#[test]
fn headers_alone_behave_like_whole_frames() {
    let run = |room: usize| {
        let (mut wire, _) = Wire::pair(|_| (), 0xff_fff0);
        wire.room = room;
        let mut dice = Dice(4);
        let rule = |_: &wire::Frame<'_>| {
            let is_lost = dice.below(100) == 0;
            [(!is_lost).then(|| 1000 + dice.below(20_000)), None]
        };
        let ended = deliver(&mut wire, 8 << 20, 1 << 20, 1000 * MS, rule);
        (ended, wire.counters(0), wire.counters(1))
    };
    assert_eq!(run(4400), run(endpoint::HEADER_ROOM));
}

/// Goal: requests that cross their repair on a long path do not repair twice.
#[test]
fn a_long_path_repairs_once() {
    let (mut wire, _) = Wire::pair(|c| c.window_packets = 1024, 0);
    let mut dice = Dice(8);
    let mut lost = 0;
    // Half a millisecond each way: five hole timeouts. Acknowledgements are not lost.
    let rule = |frame: &wire::Frame<'_>| {
        if frame.from == 0 && frame.psn.number() > 1024 && dice.below(100) == 0 {
            lost += 1;
            return [None, None];
        }
        [Some(500_000), None]
    };
    deliver(&mut wire, 32 << 20, 1 << 20, 1000 * MS, rule);
    let (sender, receiver) = (wire.counters(0), wire.counters(1));
    assert!(
        lost > 50 && sender.naks_ignored > 50,
        "{lost} lost, {sender:?}"
    );
    assert_eq!(
        (sender.retransmitted, receiver.spurious),
        (lost, 0),
        "{sender:?}"
    );
}

/// Goal: a black hole ends in an event, in bounded time, with nothing left to do.
#[test]
fn a_black_hole_fails() {
    for recovery in [Recovery::SELECTIVE_REPEAT, Recovery::GO_BACK_N] {
        let (mut wire, qp) = Wire::pair(|c| c.recovery = recovery, 0);
        wire.hosts[0].post(0, qp, flow(1 << 20, 1 << 20)).unwrap();
        let events = wire.run(10_000 * MS, |_| [None, None]);
        assert!(
            matches!(events[..], [(0, Event::Failed { flows: 1, .. })]),
            "{recovery:?}: {events:?}"
        );
        let sender = wire.counters(0);
        assert_eq!((sender.timeouts, sender.qps_failed), (8, 1), "{sender:?}");
        assert!(wire.now < 200 * MS, "{} ns", wire.now);
        assert!(wire.hosts[0].next_timer().is_none() && wire.hosts[0].next_transmit(0).is_none());
        let refused = wire.hosts[0].post(wire.now, qp, flow(1, 1));
        assert_eq!(refused, Err(endpoint::PostError::Failed(qp)));
    }
}

/// Goal: go-back-N delivers under loss, and pays with more than it lost.
#[test]
fn go_back_n_delivers_under_loss() {
    let (mut wire, _) = Wire::pair(|c| c.recovery = Recovery::GO_BACK_N, 0xff_fff0);
    let mut dice = Dice(3);
    let mut lost = 0u64;
    let rule = |frame: &wire::Frame<'_>| {
        if dice.below(100) == 0 {
            lost += u64::from(frame.from == 0);
            return [None, None];
        }
        [Some(1000), None]
    };
    deliver(&mut wire, 8 << 20, 1 << 20, 1000 * MS, rule);
    let (sender, receiver) = (wire.counters(0), wire.counters(1));
    assert!(
        lost > 10 && sender.retransmitted > 3 * lost,
        "{lost} lost, {sender:?}"
    );
    assert!(receiver.naks_sent > 0, "{receiver:?}");
}

/// Packets of [`Recovery::SELECTIVE_REPEAT`]'s reorder window.
const REORDER_WINDOW: u64 = match Recovery::SELECTIVE_REPEAT {
    Recovery::SelectiveRepeat {
        reorder_window_packets,
        ..
    } => reorder_window_packets as u64,
    Recovery::GoBackN { .. } => unreachable!(),
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Goal: whatever is lost, doubled or reordered, every byte arrives once and is right, and
    /// the run ends by itself.
    #[test]
    fn every_byte_arrives_once(
        seed: u64,
        first_psn in prop_oneof![Just(0xff_fff0u32), 0u32..(1 << 24)],
        bytes in 1u64..3_000_000,
        message_kib in 1u64..2000,
        loss_per_mille in prop_oneof![1 => Just(0u64), 3 => 0u64..=50],
        doubled_per_mille in prop_oneof![1 => Just(0u64), 3 => 0u64..=50],
        jitter_ns in 1u64..60_000,
        mtu_shift in 10u32..=12,
        window in 1u32..400,
        go_back in proptest::bool::weighted(0.25),
    ) {
        let change = |c: &mut HostConfig| {
            c.window_packets = window;
            c.mtu = PathMtu::new(1 << mtu_shift).unwrap();
            if go_back { c.recovery = Recovery::GO_BACK_N; }
        };
        let (mut wire, _) = Wire::pair(change, first_psn);
        let mut dice = Dice(seed);
        // Go-back-N is for networks that keep order.
        let jitter_ns = if go_back { 1 } else { jitter_ns };
        let rule = |_: &wire::Frame<'_>| {
            if dice.below(1000) < loss_per_mille {
                return [None, None];
            }
            let mut delay = || Some(1000 + dice.below(jitter_ns));
            let first = delay();
            let second = delay();
            [first, second.filter(|_| dice.below(1000) < doubled_per_mille)]
        };
        deliver(&mut wire, bytes, message_kib << 10, 60_000 * MS, rule);
        // A packet that is late by less than a reorder window is waited for.
        let frame_ns = (1u64 << mtu_shift) * 8 / 100;
        let ahead = u64::from(window).min(jitter_ns / frame_ns + 1);
        let is_in_window = ahead < REORDER_WINDOW && jitter_ns < 30_000;
        if !go_back && loss_per_mille == 0 && doubled_per_mille == 0 && is_in_window {
            prop_assert_eq!(wire.counters(1).spurious, 0);
        }
    }
}
