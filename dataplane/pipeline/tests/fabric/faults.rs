//! Faults inside, one a test, while a flow is measured and one of its links loses a tenth of what
//! is marked. Whatever breaks, a path that a report does not call disturbed has lost exactly what
//! its link lost, packets go on where they can, and windows are right again afterwards.

use std::cell::{Cell, RefCell};

use packet::Psn;
use pipeline::report::Command;
use pipeline::*;

use crate::net::*;

const STEPS: u32 = 3_000;

/// What became of a flow of [`STEPS`] packets from leaf 0 to leaf 1.
struct Outcome {
    net: Net,
    windows: Vec<WindowReport>,
    /// Marked packets that the link from leaf 0 to spine 1 lost.
    lost: u64,
}

impl Outcome {
    /// Nothing that was said is wrong. Returns windows in which all paths were judged, and those
    /// with a path that was not. A window without a close has not said what was sent, and is void by
    /// that (`no-close` of the detector).
    fn assert_never_wrong(&self) -> (usize, usize) {
        let mut missing = 0;
        for window in self.windows.iter().filter(|w| w.marked.is_none()) {
            assert!(window.sent.iter().all(|&sent| sent == 0), "{window:?}");
        }
        let closed = || self.windows.iter().filter(|w| w.marked.is_some());
        for window in closed() {
            for spine in window.usable.without(window.disturbed).iter() {
                let (sent, counted) = (window.sent[spine], window.counts[spine]);
                assert!(
                    counted <= sent && (spine == 1 || counted == sent),
                    "{window:?}"
                );
                missing += u64::from(sent - counted);
            }
        }
        assert!(
            missing <= self.lost,
            "{missing} missing, {} lost",
            self.lost
        );
        assert!(missing > 0, "the lossy link was seen");
        self.net.assert_conserved();
        let whole = closed().filter(|w| w.disturbed.is_empty()).count();
        (whole, self.windows.len() - whole)
    }
}

/// Sends the flow, one packet each `step_ns`, in windows of 100, with `fault` before each packet.
/// `breaks` says what else a link does to a frame: false, it does not arrive.
fn through(
    step_ns: u64,
    adjust: impl Fn(&mut SwitchConfig),
    mut fault: impl FnMut(&mut Net, u32),
    breaks: impl Fn(u16, u16, &Frame) -> bool,
) -> Outcome {
    let both = |config: &mut SwitchConfig| {
        config.measurement.window_packets_max = 100;
        config.measurement.idle_ns_max = 10 * step_ns;
        adjust(config);
    };
    let mut net = Net::new(both, false);
    let (mut marked, mut lost) = (0, 0);
    let mut link = |from: u16, to: u16, frame: &Frame| {
        if from == 0 && to == LEAVES + 1 && is_marked(frame) {
            marked += 1;
            lost += u64::from(marked % 10 == 0);
            return marked % 10 != 0 && breaks(from, to, frame);
        }
        breaks(from, to, frame)
    };
    for n in 0..STEPS {
        if n % 500 == 0 {
            net.send(0, announcement(0, 1, 7, n, u64::from(STEPS - n)));
        }
        fault(&mut net, n);
        net.send(0, data(0, 1, 7, n));
        net.now = net.now.plus(step_ns);
        net.settle(&mut link);
        for (switch, sink) in net.switches.iter_mut().zip(&mut net.sinks) {
            switch.tick(net.now, sink);
        }
    }
    net.run(400_000, &mut link);
    let windows = net.take_windows(1);
    Outcome { net, windows, lost }
}

/// A cable at both of its ends.
fn set_cable(net: &mut Net, leaf: u16, spine: u16, up: bool) {
    net.set_link(leaf, spine + 1, up);
    net.set_link(LEAVES + spine, leaf, up);
}

/// Goal: without packet memory nothing is said, and so nothing is said wrongly; packets go on.
///
/// Fault: no packet memory at a leaf or spine
/// Forwarding: goes on
/// Verdicts: what cannot be said is not judged
/// Counter: `messages-unsent`, `without-close`, `icmp-unsent`
/// Right again: the next window
#[test]
fn without_packet_memory_packets_go_on_and_no_verdict_is_wrong() {
    for switch in [0, 1, usize::from(LEAVES)] {
        let starve = |net: &mut Net, n: u32| {
            net.sinks[switch].is_out_of_memory = (700..1_700).contains(&n);
        };
        let outcome = through(1_000, |_| {}, starve, perfect);
        let (whole, _) = outcome.assert_never_wrong();
        assert!(whole >= 12, "{whole} windows");
        let net = &outcome.net;
        assert_eq!(
            net.delivered[1].len() as u64,
            u64::from(STEPS) - outcome.lost
        );
        if switch == 0 {
            assert!(net.noted(0, Note::MessagesUnsent) > 4);
        }
    }
}

/// Goal: control that stands still for ten seconds misses reports, which are counted, and nothing
/// else.
///
/// Fault: control stands still for ten seconds
/// Forwarding: goes on
/// Verdicts: what it missed is counted
/// Counter: `reports-lost`
/// Right again: the next window
#[test]
fn control_that_stands_still_for_ten_seconds_misses_reports_alone() {
    let stop = |net: &mut Net, n: u32| net.sinks[1].is_control_stuck = (1_000..2_000).contains(&n);
    let outcome = through(
        10_000_000,
        |config| config.measurement.row_ns_max *= 4,
        stop,
        perfect,
    );
    let (whole, void) = outcome.assert_never_wrong();
    let net = &outcome.net;
    let missed = net.noted(1, Note::ReportsLost);
    assert!(missed > 5, "{missed} missed");
    assert!(whole >= 15 && void == 0, "{whole} windows, {void} void");
    assert_eq!(
        net.delivered[1].len() as u64,
        u64::from(STEPS) - outcome.lost
    );
}

/// Goal: a clock that jumps by ten seconds or an hour ends what was open, and nothing more.
///
/// Fault: the clock jumps by 10 s, by an hour
/// Forwarding: goes on
/// Verdicts: the open window ends
/// Counter: `windows-capped`
/// Right again: the next window
#[test]
fn a_clock_that_jumps_ends_what_was_open() {
    for seconds in [10, 3_600] {
        let jump = |net: &mut Net, n: u32| {
            if n == 1_250 {
                net.now = net.now.plus(seconds * 1_000_000_000);
            }
        };
        let outcome = through(1_000, |_| {}, jump, perfect);
        let (whole, _) = outcome.assert_never_wrong();
        assert!(whole >= 20, "{whole} windows");
        assert_eq!(
            outcome.net.delivered[1].len() as u64,
            u64::from(STEPS) - outcome.lost
        );
    }
}

/// Goal: an lcore that stands still for five milliseconds makes a queue, and no loss on a path.
///
/// Fault: an lcore stalls for 5 ms
/// Forwarding: queue, tail drops
/// Verdicts: right
/// Counter: `tail-drop`
/// Right again: the next window
#[test]
fn an_lcore_that_stalls_makes_a_queue_and_no_loss_on_a_path() {
    let stall = |net: &mut Net, n: u32| {
        if n == 1_250 {
            for psn in 0..200 {
                net.send(0, data(0, 1, 7, n + psn));
            }
            net.now = net.now.plus(5_000_000);
        }
    };
    let tight = |config: &mut SwitchConfig| config.queue.limit_bytes = 10_000;
    let outcome = through(1_000, tight, stall, perfect);
    let (whole, _) = outcome.assert_never_wrong();
    assert!(whole >= 15, "{whole} windows");
    assert!(outcome.net.dropped(0, DropReason::TailDrop) > 0);
}

/// Goal: an uplink that flaps ten times a second, held down or not, loses what is on it and is
/// void; held down, it is not used between flaps.
///
/// Fault: an uplink flaps at 10 Hz
/// Forwarding: over the others, all of it
/// Verdicts: that path void
/// Counter: `link-state-changes`, `resprayed`
/// Right again: the next window
#[test]
fn an_uplink_that_flaps_ten_times_a_second_is_void_and_never_wrong() {
    for hold_down_ns in [0, 100_000_000] {
        // 3,000 packets in 1.5 seconds: 15 flaps.
        let flap = |net: &mut Net, n: u32| {
            if n > 200 && n.is_multiple_of(100) {
                set_cable(net, 0, 2, n.is_multiple_of(200));
            }
        };
        let hold = |config: &mut SwitchConfig| config.hold_down_ns = hold_down_ns;
        let outcome = through(500_000, hold, flap, perfect);
        let (whole, void) = outcome.assert_never_wrong();
        assert!(whole >= 10, "{whole} windows, {void} void");
        let net = &outcome.net;
        assert_eq!(
            net.delivered[1].len() as u64,
            u64::from(STEPS) - outcome.lost
        );
    }
}

/// Goal: while all uplinks are down packets are dropped by name, and windows begin again after.
///
/// Fault: all uplinks down
/// Forwarding: named drops
/// Verdicts: begin again when they are back
/// Counter: `no-uplink`
/// Right again: the first packet after
#[test]
fn with_all_uplinks_down_packets_have_a_named_end_and_windows_return() {
    let cut = |net: &mut Net, n: u32| {
        if n == 1_000 || n == 1_500 {
            (0..SPINES).for_each(|spine| set_cable(net, 0, spine, n == 1_500));
        }
    };
    let outcome = through(1_000, |_| {}, cut, perfect);
    let (whole, _) = outcome.assert_never_wrong();
    let net = &outcome.net;
    assert_eq!(net.dropped(0, DropReason::NoUplink), 500);
    assert_eq!(
        net.delivered[1].len() as u64,
        u64::from(STEPS) - 500 - outcome.lost
    );
    assert!(whole >= 16, "{whole} windows");
}

/// Goal: a damaged frame is a loss of its link: counted there by name, and missing on that path.
///
/// Fault: damaged frames on a link
/// Forwarding: lost there
/// Verdicts: a loss of that link, exactly
/// Counter: `bad-fcs`
/// Right again: at once
#[test]
fn damaged_frames_are_losses_of_their_link() {
    let damaged = RefCell::new(Vec::new());
    let arrive = |net: &mut Net, _: u32| {
        for frame in damaged.borrow_mut().drain(..) {
            let spine = usize::from(LEAVES + 1);
            net.switches[spine].ingress_damaged(PortId(0), frame, &mut net.sinks[spine]);
        }
    };
    let tick = RefCell::new(0);
    let mut outcome = through(
        1_000,
        |_| {},
        arrive,
        |from, to, frame| {
            if (from, to) != (0, LEAVES + 1) || !is_marked(frame) {
                return true;
            }
            *tick.borrow_mut() += 1;
            if *tick.borrow() % 4 == 0 {
                damaged.borrow_mut().push(frame.clone());
            }
            *tick.borrow() % 4 != 0
        },
    );
    arrive(&mut outcome.net, STEPS);
    let bad = outcome.net.dropped(LEAVES + 1, DropReason::BadFcs);
    let all = outcome
        .windows
        .iter()
        .map(|w| u64::from(w.sent[1] - w.counts[1]));
    assert_eq!(all.sum::<u64>(), bad + outcome.lost);
    assert!(bad > 100, "{bad} damaged");
    for window in &outcome.windows {
        assert_eq!(window.hops[1].received, window.counts[1], "{window:?}");
    }
}

/// Goal: either leaf, killed in the middle of a measured flow, counts its epochs from the start
/// again: no report mixes before and after.
///
/// Fault: a leaf or spine restarts in the middle of a window
/// Forwarding: from the next packet on
/// Verdicts: epochs begin anew, nothing is mixed
/// Counter: `colour-clash`, `closes-unknown`
/// Right again: the next window
#[test]
fn a_switch_that_is_restarted_in_the_middle_mixes_nothing() {
    for switch in [0, 1, LEAVES + 2] {
        let kill = |net: &mut Net, n: u32| {
            if n == 1_270 || n == 1_310 {
                net.restart(switch, |config| {
                    config.measurement.window_packets_max = 100;
                    config.measurement.idle_ns_max = 10_000;
                });
            }
        };
        let outcome = through(1_000, |_| {}, kill, perfect);
        let (whole, void) = outcome.assert_never_wrong();
        assert!(whole >= 12, "switch {switch}: {whole} windows, {void} void");
    }
}

/// Goal: a leaf that is restarted on devices that live on, of which one begins to receive 60 packets later than
/// the others, in the middle of one window and after the begin of the next: what that one did not take in is
/// no loss of its path.
///
/// Fault: a leaf restarts, and its devices begin to receive one after the other
/// Forwarding: from the next packet on
/// Verdicts: a path whose open has not come is void
/// Counter: `windows-partial`
/// Right again: the next window
#[test]
fn devices_that_begin_one_after_the_other_lose_nothing_on_a_path() {
    let is_deaf = Cell::new(false);
    let restart = |net: &mut Net, n: u32| {
        if n == 1_270 {
            net.restart(1, |_| {});
            is_deaf.set(true);
        }
        if n == 1_330 {
            is_deaf.set(false);
        }
    };
    let healthy = LEAVES + 2;
    let breaks = |from, to, _: &Frame| !(is_deaf.get() && from == healthy && to == 1);
    let outcome = through(1_000, |_| {}, restart, breaks);
    let (whole, void) = outcome.assert_never_wrong();
    assert!(whole >= 26, "{whole} windows, {void} void");
    let late = outcome
        .windows
        .iter()
        .find(|w| w.first_psn == Psn::new(1_300));
    let disturbed = late.expect("its window").disturbed;
    assert_eq!(disturbed.iter().collect::<Vec<_>>(), [2], "{late:?}");
}

/// Goal: links that operators take out and put back, ten times, spoil no verdict.
///
/// Fault: links disabled and enabled by control
/// Forwarding: over the others, all of it
/// Verdicts: right or void
/// Counter: -
/// Right again: at once
#[test]
fn links_that_are_disabled_and_enabled_spoil_no_verdict() {
    let toggle = |net: &mut Net, n: u32| {
        if n % 150 == 149 {
            let enabled = n % 300 != 149;
            let port = PortId(1 + (n / 300 % 4) as u16);
            net.apply(0, Command::SetEnabled { port, enabled });
        }
    };
    let outcome = through(1_000, |_| {}, toggle, perfect);
    let (whole, void) = outcome.assert_never_wrong();
    assert!(whole >= 8, "{whole} windows, {void} void");
    let arrived = outcome.net.delivered[1].len() as u64;
    assert_eq!(arrived, u64::from(STEPS) - outcome.lost);
}
