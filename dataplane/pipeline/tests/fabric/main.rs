//! Whole fabrics of the pipeline alone: what is measured is what was lost, and nothing else moves.

mod change;
mod classes;
mod congestion;
mod edges;
mod faults;
mod find;
mod gateway;
mod hostile;
mod links;
mod matrix;
mod mutated;
mod neighbors;
mod net;
mod no_alloc;
mod overload;
mod ping;
mod random;
mod reasons;
mod short;
mod windows;

use net::*;
use packet::message::{FLAG_SWITCH, MessageKind};
use packet::{Opcode, icrc};
use pipeline::report::Command;
use pipeline::*;

/// Announces and sends a flow of `packets` from leaf 0 to leaf 1 and lets it arrive.
fn run_flow(net: &mut Net, qpn: u32, packets: u32, link: &mut Link<'_>) {
    net.send(0, announcement(0, 1, qpn, 100, u64::from(packets)));
    for n in 0..packets {
        net.send(0, data(0, 1, qpn, 100 + n));
        if n % 16 == 15 {
            net.run(10_000, link);
        }
    }
    net.run(100_000, link);
}

fn sum(counts: &[u32]) -> u64 {
    counts.iter().map(|&count| u64::from(count)).sum()
}

#[test]
fn a_healthy_window_counts_every_packet_on_every_spine() {
    let mut net = Net::new(|_| {}, false);
    run_flow(&mut net, 7, 1000, &mut perfect);
    let windows = net.take_windows(1);
    assert_eq!(windows.len(), 1);
    let window = &windows[0];
    assert_eq!(
        (window.packets, window.marked, window.reason),
        (1000, Some(1000), EndReason::Close)
    );
    assert_eq!((window.source, window.destination), (LeafId(0), LeafId(1)));
    assert_eq!(window.usable.len(), usize::from(SPINES));
    assert_eq!(window.flushed, window.usable);
    assert_eq!((sum(&window.counts), &window.counts), (1000, &window.sent));
    for spine in 0..usize::from(SPINES) {
        let hop = window.hops[spine];
        assert!(window.hops_filled.has(spine));
        assert_eq!(
            (hop.received, hop.sent, hop.dropped),
            (window.sent[spine], window.sent[spine], 0)
        );
        assert!(
            window.counts[spine].abs_diff(250) <= 4,
            "ties to the fewest measured: {:?}",
            &window.counts[..4]
        );
    }
    let repeated = 2 * u64::from(SPINES) - 1 + 2 * u64::from(SPINES);
    assert_eq!(
        net.noted(1, Note::MessagesRepeated),
        repeated,
        "further opens, second copies and a repetition of closes"
    );
    net.assert_conserved();
}

#[test]
fn packets_arrive_once_and_unchanged_but_for_what_a_router_changes() {
    let mut net = Net::new(|_| {}, false);
    run_flow(&mut net, 7, 200, &mut perfect);
    let delivered = &net.delivered[1];
    assert_eq!(delivered.len(), 200);
    let mut psns: Vec<u32> = Vec::new();
    for frame in delivered {
        let psn = packet::bth::psn(&frame.0, 42).number();
        let sent = data(0, 1, 7, psn);
        let mut expected = sent.0.clone();
        packet::ethernet::set_addresses(&mut expected, host_mac(1), gateway_mac(1));
        for _ in 0..3 {
            packet::ip::v4_decrement_ttl(&mut expected, 14);
        }
        assert_eq!(
            frame.0, expected,
            "PSN {psn}: mark, colour and all else as sent"
        );
        assert!(icrc::is_right(&frame.0[14..], 20));
        psns.push(psn);
    }
    psns.sort_unstable();
    assert_eq!(psns, (100..300).collect::<Vec<_>>());
}

#[test]
fn a_lossy_link_is_told_by_counts_and_hops() {
    // (loses on the uplink, loses on the downlink) of spine 2, every 10th marked packet.
    for (from, to) in [(0, LEAVES + 2), (LEAVES + 2, 1)] {
        let mut net = Net::new(|_| {}, false);
        let mut seen = 0;
        let mut link = |a: u16, b: u16, frame: &Frame| {
            let hit = (a, b) == (from, to) && is_marked(frame);
            seen += u32::from(hit);
            !(hit && seen % 10 == 0)
        };
        run_flow(&mut net, 7, 1000, &mut link);
        let window = net.take_windows(1)[0];
        let lost = net.lost as u32;
        assert!(lost > 20, "{lost} lost");
        for spine in 0..4 {
            let expected = if spine == 2 { lost } else { 0 };
            assert_eq!(
                window.sent[spine] - window.counts[spine],
                expected,
                "spine {spine}"
            );
        }
        let hop = window.hops[2];
        let on_uplink = window.sent[2] - hop.received;
        let on_downlink = hop.sent - window.counts[2];
        assert_eq!(
            (on_uplink, on_downlink),
            if from == 0 { (lost, 0) } else { (0, lost) }
        );
    }
}

#[test]
fn a_resent_packet_is_not_marked_again() {
    let mut net = Net::new(|_| {}, false);
    net.send(0, announcement(0, 1, 7, 100, 100));
    for n in 0..100 {
        net.send(0, data(0, 1, 7, 100 + n));
        net.run(2_000, &mut perfect);
        if n % 5 == 4 {
            net.send(0, data(0, 1, 7, 100 + n - 3));
        }
    }
    net.run(100_000, &mut perfect);
    let window = net.take_windows(1)[0];
    assert_eq!((window.marked, sum(&window.counts)), (Some(100), 100));
    assert_eq!(
        net.noted(0, Note::LaterCopies),
        19,
        "the one after the last packet is of no window"
    );
    assert_eq!(net.delivered[1].len(), 120);
}

#[test]
fn the_window_ends_even_if_its_last_packet_and_some_closes_are_lost() {
    let mut net = Net::new(|_| {}, false);
    let is_close = |frame: &Frame| frame.0[36..38] == 48791u16.to_be_bytes() && frame.0[47] == 2;
    let mut link = |from: u16, to: u16, frame: &Frame| {
        let last = is_marked(frame) && packet::bth::psn(&frame.0, 42).number() == 299;
        !(last || (from, to) == (0, LEAVES) && is_close(frame))
    };
    run_flow(&mut net, 7, 200, &mut link);
    let window = net.take_windows(1)[0];
    assert_eq!(
        (window.marked, sum(&window.sent), sum(&window.counts)),
        (Some(200), 200, 199)
    );
    assert_eq!(
        window.flushed,
        types::Set(0b1110),
        "spine 0 never showed the close; its counts stand at 3 G"
    );
    assert_eq!(window.reason, EndReason::Close);
    assert_eq!(net.noted(1, Note::LastMissing), 1);
}

#[test]
fn without_any_close_the_last_psn_ends_the_window() {
    let mut net = Net::new(|_| {}, false);
    let mut link = |_: u16, _: u16, frame: &Frame| {
        !(frame.0[36..38] == 48791u16.to_be_bytes() && frame.0[47] == 2)
    };
    run_flow(&mut net, 7, 200, &mut link);
    let window = net.take_windows(1)[0];
    assert_eq!(
        (window.marked, window.packets, window.reason),
        (None, 200, EndReason::LastPsn)
    );
    assert_eq!(sum(&window.counts), 200);
    assert_eq!(net.noted(1, Note::WithoutClose), 1);
}

#[test]
fn a_link_that_goes_down_makes_its_path_void_and_the_rest_goes_on() {
    let mut net = Net::new(|_| {}, false);
    net.send(0, announcement(0, 1, 7, 100, 400));
    for n in 0..400 {
        if n == 200 {
            net.set_link(0, 1 + 2, false);
        }
        net.send(0, data(0, 1, 7, 100 + n));
        net.run(1_000, &mut perfect);
    }
    net.run(200_000, &mut perfect);
    let windows = net.take_windows(1);
    assert_eq!(windows.len(), 2, "one window per set of spines");
    assert!(windows[0].disturbed.has(2) && !windows[0].disturbed.has(1));
    assert_eq!((windows[0].usable.len(), windows[1].usable.len()), (4, 3));
    assert_eq!(windows.iter().map(|w| w.marked.unwrap()).sum::<u64>(), 400);
    for window in &windows {
        for spine in window.usable.without(window.disturbed).iter() {
            assert_eq!(window.counts[spine], window.sent[spine], "spine {spine}");
        }
    }
    assert_eq!(
        net.delivered[1].len(),
        400,
        "nothing is sent into the dead link"
    );
    net.assert_conserved();
}

#[test]
fn a_spine_that_loses_its_downlink_is_avoided_for_that_leaf_alone() {
    let mut net = Net::new(|config| config.link_state_ns = Some(50_000), false);
    net.run(100_000, &mut perfect);
    net.set_link(LEAVES + 1, 1, false);
    net.run(10_000, &mut perfect);
    assert_eq!(net.switches[0].usable(LeafId(1)), types::Set(0b1101));
    assert_eq!(net.switches[0].usable(LeafId(2)), types::Set(0b1111));
    // A spine that falls silent is given up for all after three missed messages.
    let mut link = |from: u16, _: u16, _: &Frame| from != LEAVES + 3;
    net.run(250_000, &mut link);
    assert_eq!(net.switches[0].usable(LeafId(2)), types::Set(0b0111));
    net.set_link(LEAVES + 1, 1, true);
    net.run(100_000, &mut perfect);
    assert_eq!(net.switches[0].usable(LeafId(1)), types::Set(0b1111));
    net.assert_conserved();
}

#[test]
fn a_disabled_link_carries_nothing_and_k_says_so() {
    let mut net = Net::new(|config| config.link_state_ns = Some(50_000), false);
    net.apply(
        LEAVES + 1,
        Command::SetEnabled {
            port: PortId(1),
            enabled: false,
        },
    );
    net.apply(
        0,
        Command::SetEnabled {
            port: PortId(1),
            enabled: false,
        },
    );
    net.run(100_000, &mut perfect);
    run_flow(&mut net, 7, 200, &mut perfect);
    let window = net.take_windows(1)[0];
    assert_eq!(
        window.usable,
        types::Set(0b1100),
        "uplink 0 and the downlink of spine 1 are disabled"
    );
    assert_eq!(window.counts[..4], [0, 0, 100, 100]);
}

#[test]
fn the_paper_preset_ends_at_the_announced_last_psn() {
    let mut net = Net::new(|config| config.tie = Tie::Random, true);
    run_flow(&mut net, 7, 400, &mut perfect);
    let window = net.take_windows(1)[0];
    assert_eq!(
        (window.packets, window.marked, window.reason),
        (400, None, EndReason::LastPsn)
    );
    assert_eq!(window.epoch, 0);
    // The last PSN may overtake others of its burst of 16; those are not counted.
    assert!(sum(&window.counts) >= 384, "{:?}", &window.counts[..4]);
    run_flow(&mut net, 8, 400, &mut perfect);
    assert_eq!(
        net.take_windows(1).len(),
        1,
        "the next flow has a window of its own"
    );
}

#[test]
fn the_threshold_of_control_sets_the_failed_paths_bitmap() {
    let mut net = Net::new(|_| {}, false);
    net.send(0, announcement(0, 1, 7, 100, 400));
    net.run(10_000, &mut perfect);
    let opened = net.sinks[1].opened[0];
    assert_eq!(
        (opened.packets, opened.usable.len(), opened.source),
        (400, 4, LeafId(0))
    );
    net.apply(
        1,
        Command::Threshold {
            row: opened.row,
            generation: opened.generation,
            epoch: opened.epoch,
            threshold: 95,
        },
    );
    let mut seen = 0;
    let mut link = |from: u16, to: u16, frame: &Frame| {
        let hit = (from, to) == (LEAVES + 3, 1) && is_marked(frame);
        seen += u32::from(hit);
        !(hit && seen % 10 == 0)
    };
    for n in 0..400 {
        net.send(0, data(0, 1, 7, 100 + n));
        net.run(1_000, &mut link);
        if n == 199 {
            let counting = net.switches[1].counting().expect("a window is counted");
            let counted: u32 = counting.counts.iter().sum();
            assert!((180..=200).contains(&counted), "{counting:?}");
            assert!(counting.is_open && counting.threshold == Some(95) && counting.packets == 400);
        }
    }
    net.run(100_000, &mut link);
    let ended = net.switches[1].counting().map(|counting| counting.is_open);
    assert_eq!(ended, Some(false), "its counts stay until the next window");
    let window = net.take_windows(1)[0];
    assert_eq!(
        (window.threshold, window.failed),
        (Some(95), types::Set(0b1000))
    );
    assert_eq!(net.switches[1].failed_paths()[0], types::Set(0b1000));
}

#[test]
fn the_same_flow_is_measured_again_in_the_other_colour() {
    let mut net = Net::new(|config| config.measurement.window_packets_max = 100, false);
    run_flow(&mut net, 7, 1000, &mut perfect);
    net.run(1_000_000, &mut perfect);
    let windows = net.take_windows(1);
    assert!(windows.len() >= 5, "{} windows", windows.len());
    for (index, window) in windows.iter().enumerate() {
        assert_eq!(window.epoch, index as u32 + 1);
        assert_eq!(window.counts, window.sent, "window {index}");
        assert!(window.marked.unwrap() <= 100);
    }
}

#[test]
fn hosts_cannot_pose_as_switches_or_as_others() {
    let mut net = Net::new(|_| {}, false);
    // A mark and a colour of a host are cleared before anybody counts them.
    let mut forged = data(0, 1, 9, 5);
    forged.0[46] |= 3;
    net.send(0, forged);
    // Switch messages of hosts.
    for kind in [
        MessageKind::Open,
        MessageKind::Close,
        MessageKind::LinkState,
    ] {
        let header = packet::message::Header {
            flags: FLAG_SWITCH,
            ..host_header(kind, 9, 0, 10)
        };
        net.send(0, host_message(0, 1, &header));
    }
    net.send(
        0,
        host_message(0, 1, &host_header(MessageKind::Close, 9, 0, 10)),
    );
    // A neighbour's address.
    net.send(0, data(2, 1, 9, 5));
    net.run(100_000, &mut perfect);
    assert_eq!(net.noted(0, Note::MarksCleared), 1);
    assert_eq!(net.dropped(0, DropReason::ForgedMessage), 4);
    // The frame is to leaf 2's MAC address, so it is not even for this leaf.
    assert_eq!(net.dropped(0, DropReason::NotForUs), 1);
    let mut spoofed = data(2, 1, 9, 5);
    packet::ethernet::set_addresses(&mut spoofed.0, gateway_mac(0), host_mac(0));
    net.send(0, spoofed);
    assert_eq!(net.dropped(0, DropReason::SpoofedSource), 1);
    assert_eq!(net.noted(1, Note::Counted), 0);
    assert!(net.take_windows(1).is_empty());
    assert_eq!(net.delivered[1].len(), 1);
    net.assert_conserved();
}

#[test]
fn announcements_of_nothing_and_for_nobody_are_counted() {
    let mut net = Net::new(|_| {}, false);
    net.send(0, announcement(0, 1, 7, 0, 0));
    assert_eq!(net.noted(0, Note::AnnouncementUseless), 1);
    net.send(0, announcement(0, 1, 7, 0, 10));
    net.send(0, announcement(0, 1, 7, 0, 10));
    assert_eq!(
        (
            net.noted(0, Note::Announced),
            net.noted(0, Note::MessagesRepeated)
        ),
        (2, 1)
    );
    // Withdrawn: the window closes with what was marked, here nothing.
    net.send(
        0,
        host_message(0, 1, &host_header(MessageKind::Withdraw, 7, 0, 10)),
    );
    net.run(200_000, &mut perfect);
    let window = net.take_windows(1)[0];
    assert_eq!((window.marked, sum(&window.counts)), (Some(0), 0));
}

#[test]
fn acknowledgements_of_the_measured_connection_are_not_counted() {
    let mut net = Net::new(|_| {}, false);
    net.send(0, announcement(0, 1, 7, 100, 50));
    for n in 0..50 {
        net.send(0, data(0, 1, 7, 100 + n));
        net.send(0, roce(0, 1, 7, 5_000_000 + n, Opcode::ACK));
        net.send(0, roce(0, 1, 7, 100 + n, Opcode::READ_REQUEST));
        net.run(2_000, &mut perfect);
    }
    net.run(100_000, &mut perfect);
    let window = net.take_windows(1)[0];
    assert_eq!((window.marked, sum(&window.counts)), (Some(50), 50));
    assert_eq!(net.noted(0, Note::PsnOutside), 0);
}

#[test]
fn a_run_is_the_same_for_the_same_seed() {
    let run = || {
        let mut net = Net::new(|_| {}, false);
        run_flow(&mut net, 7, 500, &mut |_, _, frame| {
            frame.0[50] != 0x5a || frame.0[53] % 97 != 0
        });
        (
            net.take_windows(1),
            net.switches
                .iter()
                .map(|s| s.counters().clone())
                .collect::<Vec<_>>(),
        )
    };
    assert_eq!(run(), run());
}
