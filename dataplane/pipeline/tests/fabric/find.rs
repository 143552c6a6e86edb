//! Window mode: hosts announce nothing, and the source leaf measures what is busy.

use packet::Opcode;
use packet::message::FLAG_RESPONSES;
use pipeline::*;

use crate::net::*;

/// Windows of 25 packets per spine; a flow that is silent for 200 us has ended.
fn finding(config: &mut SwitchConfig) {
    config.measurement.windows = WindowPlan {
        is_off: false,
        spine_packets: 25,
        finds_flows: true,
        silence_ns: 200_000,
        is_narrow: false,
    };
}

/// Sends `packets` of `flows` (destination, QPN, opcode) in turns, one a microsecond.
fn send(net: &mut Net, flows: &[(u16, u32, Opcode)], packets: u32, link: &mut Link<'_>) {
    for n in 0..packets {
        for &(to, qpn, opcode) in flows {
            net.send(0, roce(0, to, qpn, n, opcode));
        }
        net.run(1_000, link);
    }
}

const WRITE: Opcode = Opcode::WRITE_MIDDLE;
/// RC READ response Middle (IBTA volume 1, table 38).
const READ_RESPONSE: Opcode = Opcode(0x0e);

fn marked(windows: &[WindowReport]) -> Vec<u64> {
    windows.iter().map(|w| w.marked.unwrap_or(0)).collect()
}

fn assert_nothing_lost(windows: &[WindowReport]) {
    for window in windows {
        for spine in window.usable.without(window.disturbed).iter() {
            assert_eq!(window.counts[spine], window.sent[spine], "{window:?}");
        }
    }
}

#[test]
fn a_busy_flow_is_measured_window_after_window() {
    let mut net = Net::new(finding, false);
    send(&mut net, &[(1, 7, WRITE)], 2000, &mut perfect);
    net.run(1_000_000, &mut perfect);
    let windows = net.take_windows(1);
    assert!(windows.len() >= 10, "{}", windows.len());
    let all: u64 = marked(&windows).iter().sum();
    assert!(all > 1500, "{all} of 2,000 packets are in a window");
    for (index, window) in windows.iter().enumerate() {
        assert_eq!(window.epoch, index as u32 + 1);
        assert!((window.packets, window.reason) == (100, EndReason::Close));
        assert!(window.disturbed.is_empty() && window.marked <= Some(100));
    }
    assert_nothing_lost(&windows);
    assert_eq!(net.noted(0, Note::FlowsFound), 1);
    net.assert_conserved();
}

#[test]
fn without_window_mode_nobody_is_measured_unasked() {
    for is_paper in [false, true] {
        let mut net = Net::new(
            |config| config.measurement.windows.finds_flows = is_paper,
            is_paper,
        );
        send(&mut net, &[(1, 7, WRITE)], 500, &mut perfect);
        net.run(1_000_000, &mut perfect);
        assert_eq!(net.noted(0, Note::WindowsOpened), 0, "paper: {is_paper}");
    }
}

#[test]
fn destinations_take_turns() {
    let mut net = Net::new(finding, false);
    let flows = [(1, 7, WRITE), (2, 8, WRITE)];
    send(&mut net, &flows, 1500, &mut perfect);
    net.run(1_000_000, &mut perfect);
    let (one, two) = (net.take_windows(1), net.take_windows(2));
    assert!(one.len() >= 5, "{}", one.len());
    assert!(
        one.len().abs_diff(two.len()) <= 1,
        "{} {}",
        one.len(),
        two.len()
    );
    assert_nothing_lost(&one);
    assert_nothing_lost(&two);
}

#[test]
fn flows_of_one_pair_take_turns_by_their_traffic() {
    let mut net = Net::new(finding, false);
    let flows = [7, 8, 9].map(|qpn| (1, qpn, WRITE));
    send(&mut net, &flows, 1500, &mut perfect);
    net.run(1_000_000, &mut perfect);
    let windows = net.take_windows(1);
    for qpn in 7..10 {
        let own = windows.iter().filter(|w| w.key.qpn.0 == qpn).count();
        assert!(own >= 2, "QPN {qpn} has {own} of {} windows", windows.len());
    }
}

#[test]
fn a_flow_that_stops_is_closed_by_silence_and_the_next_one_is_measured() {
    let mut net = Net::new(finding, false);
    send(&mut net, &[(1, 7, WRITE)], 120, &mut perfect);
    net.run(500_000, &mut perfect);
    let windows = net.take_windows(1);
    assert_eq!(net.noted(0, Note::WindowsCapped), 1, "by silence");
    assert!(*marked(&windows).last().unwrap() < 100, "{windows:?}");
    let before = net.noted(0, Note::WindowsOpened);
    net.run(5_000_000, &mut perfect);
    assert_eq!(
        net.noted(0, Note::WindowsOpened),
        before,
        "silence is no flow"
    );
    send(&mut net, &[(2, 9, WRITE)], 300, &mut perfect);
    net.run(500_000, &mut perfect);
    assert!(!net.take_windows(2).is_empty());
    assert_nothing_lost(&windows);
}

#[test]
fn a_flow_that_is_not_busy_is_left_alone() {
    let mut net = Net::new(finding, false);
    // A look every 31 packets, 310 us apart: more than the silence.
    for n in 0..400 {
        net.send(0, data(0, 1, 7, n));
        net.run(10_000, &mut perfect);
    }
    assert_eq!(net.noted(0, Note::WindowsOpened), 0);
}

#[test]
fn responses_to_reads_are_a_flow_of_their_own_beside_requests() {
    let mut net = Net::new(finding, false);
    for n in 0..1200 {
        // The same pair and QPN; the responses' PSNs lie millions away.
        net.send(0, data(0, 1, 7, n));
        net.send(0, roce(0, 1, 7, 9_000_000 + n, READ_RESPONSE));
        net.send(0, roce(0, 1, 7, 9_000_000 + n, Opcode::ACK));
        net.run(1_000, &mut perfect);
    }
    net.run(1_000_000, &mut perfect);
    let windows = net.take_windows(1);
    for space in [packet::Space::Requests, packet::Space::Responses] {
        let own: Vec<_> = windows.iter().filter(|w| w.key.space == space).collect();
        assert!(own.len() >= 2, "{space:?}: {}", own.len());
        assert!(own.iter().any(|w| w.marked == Some(100)), "{space:?}");
    }
    assert_nothing_lost(&windows);
    assert_eq!(net.noted(0, Note::PsnOutside), 0);
}

#[test]
fn an_open_of_responses_says_so() {
    let mut net = Net::new(finding, false);
    let mut flags = None;
    let mut link = |_: u16, _: u16, frame: &Frame| {
        flags = flags.or(message_of(frame).map(|header| header.flags));
        true
    };
    send(&mut net, &[(1, 7, READ_RESPONSE)], 100, &mut link);
    assert_eq!(flags.unwrap() & FLAG_RESPONSES, FLAG_RESPONSES);
}

#[test]
fn flows_that_are_announced_come_first() {
    let mut net = Net::new(finding, false);
    send(&mut net, &[(1, 7, WRITE)], 200, &mut perfect);
    net.send(0, announcement(0, 2, 9, 0, 1000));
    send(
        &mut net,
        &[(1, 7, WRITE), (2, 9, WRITE)],
        1000,
        &mut perfect,
    );
    net.run(1_000_000, &mut perfect);
    let (found, announced) = (net.take_windows(1), net.take_windows(2));
    let of_announced: u64 = marked(&announced).iter().sum();
    let of_found: u64 = marked(&found).iter().sum();
    assert!(
        of_announced >= 700,
        "{of_announced} of 1,000 are in a window"
    );
    assert!(
        of_found >= 200,
        "{of_found}: while the announced flow's colour rests"
    );
    assert!(announced.iter().all(|w| w.key.qpn.0 == 9));
    assert_eq!(
        net.noted(0, Note::FlowsFound),
        1,
        "an announced flow is no find"
    );
    assert_nothing_lost(&announced);
    assert_nothing_lost(&found);
}

#[test]
fn a_lossy_link_is_told_without_an_announcement() {
    let mut net = Net::new(finding, false);
    let mut seen = 0;
    let mut link = |from: u16, to: u16, frame: &Frame| {
        let hit = (from, to) == (LEAVES + 2, 1) && is_marked(frame);
        seen += u32::from(hit);
        !(hit && seen % 10 == 0)
    };
    send(&mut net, &[(1, 7, WRITE)], 2000, &mut link);
    net.run(1_000_000, &mut perfect);
    let windows = net.take_windows(1);
    let lost = |spine: usize| -> u32 {
        windows
            .iter()
            .map(|w| w.sent[spine] - w.counts[spine])
            .sum()
    };
    assert_eq!((lost(0), lost(1), lost(3)), (0, 0, 0));
    assert!(
        lost(2) > 30 && u64::from(lost(2)) == net.lost,
        "{}",
        lost(2)
    );
}

#[test]
fn a_leaf_that_restarts_finds_its_flows_again() {
    let mut net = Net::new(finding, false);
    send(&mut net, &[(1, 7, WRITE)], 350, &mut perfect);
    net.restart(0, finding);
    send(&mut net, &[(1, 7, WRITE)], 600, &mut perfect);
    net.run(1_000_000, &mut perfect);
    let windows = net.take_windows(1);
    assert!(
        marked(&windows).iter().filter(|&&m| m == 100).count() >= 4,
        "{windows:?}"
    );
    assert_nothing_lost(&windows);
}

#[test]
fn a_window_that_lasts_over_a_link_change_is_cut_and_void_there() {
    let mut net = Net::new(finding, false);
    send(&mut net, &[(1, 7, WRITE)], 100, &mut perfect);
    net.set_link(0, 1 + 2, false);
    send(&mut net, &[(1, 7, WRITE)], 400, &mut perfect);
    net.run(1_000_000, &mut perfect);
    let windows = net.take_windows(1);
    assert!(windows[0].disturbed.has(2), "{windows:?}");
    let whole = windows
        .iter()
        .find(|w| w.marked == Some(75))
        .expect("25 for each of 3 spines");
    assert_eq!(whole.usable.len(), 3);
    assert_nothing_lost(&windows);
}

#[test]
fn many_flows_share_the_places_of_their_port() {
    let mut net = Net::new(finding, false);
    let before = net.switches[0].measurement_bytes();
    for n in 0..5_000 {
        net.send(0, data(0, 1 + (n % 2) as u16, n % 1000, n / 1000));
        net.run(1_000, &mut perfect);
    }
    net.run(1_000_000, &mut perfect);
    assert_eq!(net.switches[0].measurement_bytes(), before, "nothing grows");
    assert_nothing_lost(&net.take_windows(1));
    net.assert_conserved();
}
