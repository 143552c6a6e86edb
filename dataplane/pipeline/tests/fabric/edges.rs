//! The edges of a measurement that docs/measurement.md lists, one test each.

use packet::Psn;
use packet::message::MessageKind;
use pipeline::report::Command;
use pipeline::*;

use crate::net::*;

fn send(net: &mut Net, psns: std::ops::Range<u32>, link: &mut Link<'_>) {
    for psn in psns {
        net.send(0, data(0, 1, 7, psn));
        net.run(1_000, link);
    }
}

fn sum(counts: &[u32]) -> u64 {
    counts.iter().map(|&count| u64::from(count)).sum()
}

fn assert_nothing_lost(windows: &[WindowReport]) {
    for window in windows {
        for spine in window.usable.without(window.disturbed).iter() {
            assert_eq!(window.counts[spine], window.sent[spine], "{window:?}");
        }
    }
}

fn is_close(frame: &Frame) -> bool {
    message_of(frame).is_some_and(|header| header.kind == MessageKind::Close)
}

#[test]
fn a_window_longer_than_all_psns_ends_at_its_last_and_not_a_lap_early() {
    let packets = u64::from(Psn::COUNT) + 3_000;
    let mut net = Net::new(
        |config| config.measurement.window_packets_max = 1 << 40,
        false,
    );
    net.send(0, announcement(0, 1, 7, 5, packets));
    // One PSN in 1,024 reaches the leaf; those between were lost before it.
    let (mut at, mut sent) = (0u64, 0u64);
    while at < packets {
        net.send(
            0,
            data(0, 1, 7, Psn::new(5).plus((at % (1 << 24)) as u32).number()),
        );
        sent += 1;
        if sent % 16 == 0 {
            net.run(10_000, &mut perfect);
        }
        at = if at + 1_024 < packets || at + 1 == packets {
            at + 1_024
        } else {
            packets - 1
        };
    }
    net.run(200_000, &mut perfect);
    let windows = net.take_windows(1);
    assert_eq!(
        windows.len(),
        1,
        "the PSN of the first comes again a lap later"
    );
    assert_eq!(
        (windows[0].packets, windows[0].marked),
        (packets, Some(sent))
    );
    assert_eq!(net.noted(0, Note::WindowsWrapped), 1);
    assert_nothing_lost(&windows);
}

/// Takes what spine 2 sends to leaf 1 from PSN `from` on, and gives it back.
fn hold(held: &mut Vec<Frame>, from: u16, to: u16, frame: &Frame, is_held: bool) -> bool {
    let hit = is_held && (from, to) == (LEAVES + 2, 1);
    if hit {
        held.push(frame.clone());
    }
    !hit
}

#[test]
fn a_tail_that_is_late_on_one_path_is_waited_for() {
    let mut net = Net::new(|_| {}, false);
    let mut held = Vec::new();
    net.send(0, announcement(0, 1, 7, 100, 200));
    send(&mut net, 100..280, &mut perfect);
    // The last packets of one path, and its close behind them, take 15 us more than the others.
    let mut slow = |from: u16, to: u16, frame: &Frame| hold(&mut held, from, to, frame, true);
    send(&mut net, 280..300, &mut slow);
    net.run(15_000, &mut slow);
    assert!(
        net.sinks[1].windows.is_empty(),
        "one path has not shown its close"
    );
    for frame in held {
        net.receive(1, 3, frame);
    }
    net.run(200_000, &mut perfect);
    let windows = net.take_windows(1);
    assert_eq!((windows.len(), windows[0].marked), (1, Some(200)));
    assert_nothing_lost(&windows);
    assert_eq!(net.noted(1, Note::CountedLate), 0);
}

#[test]
fn a_last_packet_that_overtakes_others_ends_nothing() {
    let mut net = Net::new(|_| {}, false);
    net.send(0, announcement(0, 1, 7, 100, 200));
    send(&mut net, 100..290, &mut perfect);
    // The host's own packets come out of order: the last one first.
    for psn in [299, 298, 297, 296, 295, 294, 293, 292, 291, 290] {
        net.send(0, data(0, 1, 7, psn));
    }
    net.run(200_000, &mut perfect);
    let windows = net.take_windows(1);
    assert_eq!(windows.len(), 1);
    assert_eq!(net.noted(0, Note::PsnsSkipped), 9);
    let late = net.noted(0, Note::Marked) - 190;
    assert_eq!(
        windows[0].marked,
        Some(190 + late),
        "those behind the last are of no window"
    );
    assert_nothing_lost(&windows);
}

#[test]
fn a_late_announcement_measures_what_is_left() {
    let mut net = Net::new(|_| {}, false);
    send(&mut net, 100..200, &mut perfect);
    net.send(0, announcement(0, 1, 7, 100, 200));
    send(&mut net, 200..300, &mut perfect);
    net.run(200_000, &mut perfect);
    let windows = net.take_windows(1);
    assert_eq!((windows.len(), windows[0].marked), (1, Some(100)));
    assert_eq!(net.noted(0, Note::PsnsSkipped), 100);
    assert_nothing_lost(&windows);
}

#[test]
fn a_lost_announcement_leaves_the_flow_unmeasured_and_whole() {
    let mut net = Net::new(|_| {}, false);
    send(&mut net, 100..300, &mut perfect);
    net.run(200_000, &mut perfect);
    assert_eq!(
        (
            net.noted(0, Note::Announced),
            net.noted(0, Note::WindowsOpened)
        ),
        (0, 0)
    );
    assert_eq!(net.delivered[1].len(), 200);
    assert!(net.take_windows(1).is_empty());
}

#[test]
fn an_announcement_that_is_repeated_within_its_window_changes_nothing() {
    let mut net = Net::new(|_| {}, false);
    net.send(0, announcement(0, 1, 7, 100, 200));
    send(&mut net, 100..200, &mut perfect);
    net.send(0, announcement(0, 1, 7, 100, 200));
    send(&mut net, 200..300, &mut perfect);
    net.run(200_000, &mut perfect);
    let windows = net.take_windows(1);
    assert_eq!((windows.len(), windows[0].marked), (1, Some(200)));
    assert_eq!(net.noted(0, Note::MessagesRepeated), 1);
    assert_nothing_lost(&windows);
}

#[test]
fn a_queue_pair_that_is_used_again_has_a_window_of_its_own() {
    let mut net = Net::new(|_| {}, false);
    // The same QPN, elsewhere in the PSNs, before the first flow has come to its end.
    net.send(0, announcement(0, 1, 7, 100, 200));
    send(&mut net, 100..200, &mut perfect);
    net.send(0, announcement(0, 1, 7, 9_000_000, 150));
    send(&mut net, 9_000_000..9_000_150, &mut perfect);
    net.run(500_000, &mut perfect);
    let windows = net.take_windows(1);
    let marked: Vec<_> = windows.iter().map(|w| w.marked).collect();
    assert_eq!(marked, [Some(100), Some(150)]);
    assert_eq!(windows[1].first_psn, Psn::new(9_000_000));
    assert_nothing_lost(&windows);
}

#[test]
fn two_senders_to_one_queue_pair_number_are_two_flows() {
    let mut net = Net::new(|_| {}, false);
    for from in [0, 2] {
        net.send(from, announcement(from, 1, 7, 100, 200));
    }
    for psn in 100..300 {
        for from in [0, 2] {
            net.send(from, data(from, 1, 7, psn));
        }
        net.run(1_000, &mut perfect);
    }
    net.run(200_000, &mut perfect);
    let windows = net.take_windows(1);
    let mut sources: Vec<_> = windows.iter().map(|w| w.source.0).collect();
    sources.sort_unstable();
    assert_eq!(sources, [0, 2]);
    for window in &windows {
        assert_eq!(
            (window.marked, sum(&window.counts)),
            (Some(200), 200),
            "{window:?}"
        );
    }
}

#[test]
fn packets_that_are_lost_before_the_source_leaf_are_missing_on_no_path() {
    let mut net = Net::new(|_| {}, false);
    net.send(0, announcement(0, 1, 7, 100, 400));
    for psn in (100..500).filter(|psn| psn % 10 != 3) {
        send(&mut net, psn..psn + 1, &mut perfect);
    }
    net.run(200_000, &mut perfect);
    let windows = net.take_windows(1);
    assert_eq!((windows.len(), windows[0].marked), (1, Some(360)));
    assert_eq!(net.noted(0, Note::PsnsSkipped), 40);
    assert_nothing_lost(&windows);
}

/// Fault: a downlink goes down
/// Forwarding: over the others
/// Verdicts: that path void
/// Counter: `link-state-changes`
/// Right again: the next window
#[test]
fn a_downlink_that_goes_down_in_the_middle_is_void_and_not_failed() {
    let mut net = Net::new(|config| config.link_state_ns = Some(50_000), false);
    net.run(100_000, &mut perfect);
    net.send(0, announcement(0, 1, 7, 100, 400));
    send(&mut net, 100..300, &mut perfect);
    // Both ends of the cable notice; what is on it dies.
    net.set_link(LEAVES + 2, 1, false);
    net.set_link(1, 1 + 2, false);
    let mut dead = |from: u16, to: u16, _: &Frame| (from, to) != (LEAVES + 2, 1);
    send(&mut net, 300..500, &mut dead);
    net.run(500_000, &mut dead);
    let windows = net.take_windows(1);
    assert!(windows[0].disturbed.has(2), "{windows:?}");
    assert!(windows.iter().skip(1).all(|w| !w.usable.has(2)));
    assert_nothing_lost(&windows);
    net.assert_conserved();
}

/// Fault: report rings full
/// Forwarding: goes on
/// Verdicts: what it missed is counted
/// Counter: `reports-lost`
/// Right again: the next window
#[test]
fn while_control_hangs_packets_go_on_and_what_it_missed_is_counted() {
    let mut net = Net::new(|_| {}, false);
    net.sinks[1].is_control_stuck = true;
    net.send(0, announcement(0, 1, 7, 100, 200));
    send(&mut net, 100..300, &mut perfect);
    net.run(200_000, &mut perfect);
    assert_eq!(net.delivered[1].len(), 200);
    assert_eq!(
        net.noted(1, Note::ReportsLost),
        2,
        "the window's begin and its end"
    );
    // It is back: the next window has its verdict.
    net.sinks[1].is_control_stuck = false;
    net.send(0, announcement(0, 1, 8, 100, 100));
    (100..200).for_each(|psn| net.send(0, data(0, 1, 8, psn)));
    net.run(200_000, &mut perfect);
    let windows = net.take_windows(1);
    assert_eq!((windows.len(), windows[0].marked), (1, Some(100)));
}

/// Fault: control is slow
/// Forwarding: goes on
/// Verdicts: a late threshold is not used
/// Counter: `thresholds-late`
/// Right again: the next window
#[test]
fn a_threshold_that_comes_late_or_for_an_older_window_is_not_used() {
    let mut net = Net::new(|_| {}, false);
    net.send(0, announcement(0, 1, 7, 100, 200));
    send(&mut net, 100..300, &mut perfect);
    net.run(200_000, &mut perfect);
    let opened = net.sinks[1].opened[0];
    // Control was slow: the window is over.
    let late = Command::Threshold {
        row: opened.row,
        generation: opened.generation,
        epoch: opened.epoch,
        threshold: 1_000,
    };
    net.apply(1, late);
    net.send(0, announcement(0, 1, 7, 300, 200));
    net.run(10_000, &mut perfect);
    net.apply(1, late);
    send(&mut net, 300..500, &mut perfect);
    net.run(200_000, &mut perfect);
    assert_eq!(net.noted(1, Note::ThresholdsLate), 2);
    for window in net.take_windows(1) {
        assert_eq!((window.threshold, window.failed.is_empty()), (None, true));
    }
    assert!(net.switches[1].failed_paths()[0].is_empty());
}

#[test]
fn the_papers_window_ends_at_its_last_psn_though_the_last_packet_is_lost() {
    let mut net = Net::new(|config| config.measurement.row_ns_max = 1_000_000, true);
    net.send(0, announcement(0, 1, 7, 100, 200));
    let mut link = |_: u16, _: u16, frame: &Frame| {
        !(is_marked(frame) && packet::bth::psn(&frame.0, 42).number() == 299)
    };
    send(&mut net, 100..300, &mut link);
    net.run(100_000, &mut perfect);
    assert!(
        net.take_windows(1).is_empty(),
        "nothing at or past the last PSN has come"
    );
    // The host sends it again: marked, as all copies are, if the window is still open there.
    net.run(3_000_000, &mut perfect);
    let windows = net.take_windows(1);
    assert_eq!((windows.len(), windows[0].reason), (1, EndReason::Timeout));
    assert_eq!(
        windows[0].disturbed,
        types::Set::first(usize::from(SPINES)),
        "no verdict"
    );
    assert!(net.noted(1, Note::RowsExpired) > 0);
}

#[test]
fn a_window_beyond_sixteen_bits_gives_no_verdict_with_counters_of_sixteen() {
    for (is_narrow, packets, is_void) in [
        (true, 240_000, false),
        (true, 280_000, true),
        (false, 280_000, false),
    ] {
        let mut net = Net::new(
            |config| config.measurement.windows.is_narrow = is_narrow,
            false,
        );
        net.send(0, announcement(0, 1, 7, 0, packets));
        // The close is lost, so N is what is known; all but 200 packets died before the leaf.
        (0..100).for_each(|n| net.send(0, data(0, 1, 7, n)));
        net.run(100_000, &mut perfect);
        let last = packets as u32;
        (last - 100..last).for_each(|n| net.send(0, data(0, 1, 7, n)));
        net.run(200_000, &mut |_, _, frame| !is_close(frame));
        let window = net.take_windows(1)[0];
        assert_eq!(
            !window.disturbed.is_empty(),
            is_void,
            "{is_narrow}, {packets}"
        );
        assert_eq!(net.noted(1, Note::CounterOverflow), u64::from(is_void));
    }
}

#[test]
fn the_papers_leaf_marks_every_copy_and_one_flow_at_a_time() {
    let mut net = Net::new(|_| {}, true);
    net.send(0, announcement(0, 1, 7, 100, 200));
    net.send(0, announcement(0, 2, 8, 100, 200));
    for psn in 100..200 {
        net.send(0, data(0, 1, 7, psn));
        net.send(0, data(0, 1, 7, psn));
        net.send(0, data(0, 2, 8, psn));
        net.run(2_000, &mut perfect);
    }
    assert_eq!(
        net.noted(0, Note::Marked),
        200,
        "both copies, and nothing of the other flow"
    );
    assert_eq!(
        (net.noted(1, Note::Counted), net.noted(2, Note::Counted)),
        (200, 0)
    );
}

#[test]
fn control_clears_what_was_announced_and_covered() {
    let mut net = Net::new(|_| {}, false);
    // The second flow waits for its turn, and its announcement is forgotten.
    net.send(0, announcement(0, 1, 7, 100, 100));
    net.send(0, announcement(0, 2, 8, 100, 100));
    net.apply(0, Command::ResetMasks);
    for psn in 100..200 {
        net.send(0, data(0, 1, 7, psn));
        net.send(0, data(0, 2, 8, psn));
        net.run(2_000, &mut perfect);
    }
    net.run(200_000, &mut perfect);
    assert_eq!(
        net.take_windows(1)[0].marked,
        Some(100),
        "the open window goes on"
    );
    assert!(net.take_windows(2).is_empty());
}
