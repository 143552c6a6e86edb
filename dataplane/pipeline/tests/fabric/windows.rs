//! What goes wrong round a window, one thing at a time: each would be a false verdict, or none.

use packet::message::{FLAG_COUNTS, FLAG_HOP_FILLED, FLAG_SWITCH, MessageKind};
use packet::{Psn, be, message};
use pipeline::report::Command;
use pipeline::*;

use crate::net::*;

fn send(net: &mut Net, psns: std::ops::Range<u32>) {
    for psn in psns {
        net.send(0, data(0, 1, 7, psn));
        net.run(2_000, &mut perfect);
    }
}

/// Every path that is not disturbed has lost nothing.
fn assert_nothing_lost(windows: &[WindowReport]) {
    for window in windows {
        for spine in window.usable.without(window.disturbed).iter() {
            assert_eq!(window.counts[spine], window.sent[spine], "{window:?}");
        }
    }
}

#[test]
fn a_restarted_leaf_is_measured_at_once_although_its_epochs_start_again() {
    for runs_on in [true, false] {
        let short = |config: &mut SwitchConfig| config.measurement.window_packets_max = 40;
        let mut net = Net::new(short, false);
        net.send(0, announcement(0, 1, 7, 100, 400));
        // The leaf dies within a window, or after all are over.
        send(&mut net, 100..if runs_on { 430 } else { 500 });
        net.run(100_000, &mut perfect);
        let before = net.take_windows(1);
        assert!(before.len() > 4, "{} windows", before.len());
        assert_nothing_lost(&before);
        net.restart(0, short);
        net.send(0, announcement(0, 1, 7, 500, 200));
        send(&mut net, 500..700);
        net.run(100_000, &mut perfect);
        let after = net.take_windows(1);
        let whole = after
            .iter()
            .filter(|window| window.marked == Some(40))
            .count();
        assert!(
            whole >= 3,
            "{whole} of {} windows after the restart",
            after.len()
        );
        assert_nothing_lost(&after);
        assert!(after.iter().filter(|w| w.disturbed.is_empty()).count() >= 2);
        net.assert_conserved();
    }
}

#[test]
fn a_destination_leaf_that_restarts_within_a_window_convicts_nobody() {
    let mut net = Net::new(|_| {}, false);
    net.send(0, announcement(0, 1, 7, 100, 400));
    send(&mut net, 100..300);
    net.restart(1, |_| {});
    send(&mut net, 300..500);
    net.run(100_000, &mut perfect);
    let windows = net.take_windows(1);
    assert_eq!(windows.len(), 1);
    assert_eq!(windows[0].marked, Some(400));
    assert_nothing_lost(&windows);
    assert_eq!(net.noted(1, Note::WindowsPartial), 1);
    net.send(0, announcement(0, 1, 8, 100, 40));
    (100..140).for_each(|psn| net.send(0, data(0, 1, 8, psn)));
    net.run(100_000, &mut perfect);
    let windows = net.take_windows(1);
    assert!(windows[0].disturbed.is_empty(), "{windows:?}");
    assert_nothing_lost(&windows);
}

#[test]
fn closes_that_come_after_their_row_is_gone_convict_nobody() {
    let mut net = Net::new(|config| config.measurement.rows_max = 1, false);
    net.send(0, announcement(0, 1, 7, 100, 20));
    (100..120).for_each(|psn| net.send(0, data(0, 1, 7, psn)));
    while net.sinks[1].windows.is_empty() {
        net.run(1_000, &mut perfect);
    }
    // The one row goes to another leaf's flow before the repetitions have come.
    net.send(2, announcement(2, 1, 9, 100, 20));
    (100..120).for_each(|psn| net.send(2, data(2, 1, 9, psn)));
    net.run(200_000, &mut perfect);
    let windows = net.take_windows(1);
    assert_eq!(windows.len(), 2);
    assert_nothing_lost(&windows);
    assert!(net.noted(1, Note::ClosesUnknown) > 0);
}

#[test]
fn a_destination_that_cannot_be_reached_holds_up_nobody() {
    let mut net = Net::new(|config| config.link_state_ns = Some(50_000), false);
    net.run(10_000, &mut perfect);
    for spine in 0..SPINES {
        net.set_link(LEAVES + spine, 1, false);
    }
    net.run(100_000, &mut perfect);
    assert!(net.switches[0].usable(LeafId(1)).is_empty());
    net.send(0, announcement(0, 1, 7, 100, 20));
    net.send(0, announcement(0, 2, 8, 100, 20));
    (100..120).for_each(|psn| net.send(0, data(0, 2, 8, psn)));
    net.run(100_000, &mut perfect);
    assert_eq!(net.take_windows(2).len(), 1, "leaf 2 is reachable");
}

#[test]
fn a_tail_that_is_lost_before_the_leaf_ends_the_window_with_the_next_message() {
    let mut net = Net::new(|_| {}, false);
    net.send(0, announcement(0, 1, 7, 100, 100));
    send(&mut net, 100..195);
    let header = host_header(MessageKind::Open, 7, 200, 100);
    net.send(0, host_message(0, 1, &header));
    send(&mut net, 200..300);
    net.run(100_000, &mut perfect);
    let windows = net.take_windows(1);
    let marked: Vec<_> = windows.iter().map(|w| w.marked).collect();
    assert_eq!(marked, [Some(95), Some(100)]);
    assert_nothing_lost(&windows);
}

#[test]
fn a_flow_that_stops_is_closed_once_and_measured_again_when_it_goes_on() {
    let mut net = Net::new(|config| config.measurement.idle_ns_max = 50_000, false);
    net.send(0, announcement(0, 1, 7, 100, 100));
    send(&mut net, 100..150);
    net.run(1_000_000, &mut perfect);
    assert_eq!(net.noted(0, Note::WindowsOpened), 1, "silence is no flow");
    send(&mut net, 150..200);
    net.run(200_000, &mut perfect);
    let marked: Vec<_> = net
        .take_windows(1)
        .iter()
        .map(|w| w.marked.unwrap())
        .collect();
    // The packet that shows it again is not yet of a window.
    assert_eq!(marked, [50, 49]);
}

#[test]
fn a_wrong_announcement_costs_its_own_window_alone() {
    // (first PSN, N, marked): too few, too many, before, behind, and across the wrap.
    for (first, packets, marked) in [
        (100, 50, 50),
        (100, 500, 100),
        (50, 500, 100),
        (120, 500, 80),
        (5000, 100, 0),
        (0xff_f000, 100, 0),
        (0xff_f000, 10_000, 100),
    ] {
        let mut net = Net::new(|config| config.measurement.idle_ns_max = 50_000, false);
        net.send(0, announcement(0, 1, 7, first, packets));
        send(&mut net, 100..200);
        net.run(400_000, &mut perfect);
        let windows = net.take_windows(1);
        assert_eq!(windows.len(), 1, "first {first}, N {packets}");
        assert_eq!(
            windows[0].marked,
            Some(marked),
            "first {first}, N {packets}"
        );
        assert_nothing_lost(&windows);
    }
}

#[test]
fn a_window_runs_across_the_psn_wrap() {
    let mut net = Net::new(|_| {}, false);
    net.send(0, announcement(0, 1, 7, 0xff_ffce, 100));
    let first = Psn::new(0xff_ffce);
    for n in 0..100 {
        net.send(0, data(0, 1, 7, first.plus(n).number()));
        net.run(2_000, &mut perfect);
    }
    net.run(100_000, &mut perfect);
    assert_eq!(net.noted(0, Note::WindowsWrapped), 1);
    let windows = net.take_windows(1);
    assert_eq!((windows.len(), windows[0].marked), (1, Some(100)));
    assert_nothing_lost(&windows);
}

#[test]
fn what_a_dead_uplink_had_queued_is_no_evidence() {
    // A slow uplink keeps packets of a window that is closed already; then it dies.
    let mut net = Net::new(
        |config| {
            config
                .ports
                .iter_mut()
                .skip(1)
                .for_each(|p| p.rate_bps = 1_000_000_000)
        },
        false,
    );
    net.send(0, announcement(0, 1, 7, 100, 20));
    (100..120).for_each(|psn| net.send(0, data(0, 1, 7, psn)));
    net.set_link(0, 1, false);
    net.run(200_000, &mut perfect);
    let windows = net.take_windows(1);
    assert_eq!(windows.len(), 1);
    assert!(windows[0].counts[0] < windows[0].sent[0], "{windows:?}");
    assert!(windows[0].disturbed.has(0) && windows[0].disturbed.len() == 1);
    assert_nothing_lost(&windows);
}

#[test]
fn what_a_spine_drops_in_its_own_queue_is_told_and_is_no_loss_of_a_link() {
    let mut net = Net::new(
        |config| {
            if let Role::Spine(_) = config.role {
                config.queue.limit_bytes = 3_000;
                config
                    .ports
                    .iter_mut()
                    .for_each(|p| p.rate_bps = 1_000_000_000);
            }
        },
        false,
    );
    net.send(0, announcement(0, 1, 7, 100, 400));
    (100..500).for_each(|psn| net.send(0, data(0, 1, 7, psn)));
    net.run(500_000, &mut perfect);
    let window = net.take_windows(1)[0];
    let mut dropped = 0;
    for spine in window.hops_filled.iter() {
        let hop = window.hops[spine];
        assert_eq!(window.sent[spine], hop.received, "{window:?}");
        assert_eq!(hop.received, hop.sent + hop.dropped, "{window:?}");
        assert_eq!(hop.sent, window.counts[spine], "{window:?}");
        dropped += hop.dropped;
    }
    assert_eq!(
        window.hops_filled, window.usable,
        "a repeated close brings the record"
    );
    assert!(dropped > 100, "{dropped} dropped");
    net.assert_conserved();
}

#[test]
fn with_one_usable_spine_a_window_is_counted_and_with_none_nothing_is_opened() {
    let mut net = Net::new(|_| {}, false);
    (1..SPINES).for_each(|spine| net.set_link(0, spine + 1, false));
    net.send(0, announcement(0, 1, 7, 100, 20));
    send(&mut net, 100..120);
    net.run(100_000, &mut perfect);
    let windows = net.take_windows(1);
    assert_eq!((windows.len(), windows[0].usable), (1, types::Set(1)));
    assert_nothing_lost(&windows);
    net.set_link(0, 1, false);
    net.send(0, announcement(0, 1, 7, 120, 20));
    send(&mut net, 120..140);
    assert_eq!(net.noted(0, Note::WindowsOpened), 1);
    assert_eq!(net.dropped(0, DropReason::NoUplink), 20);
    net.assert_conserved();
}

#[test]
fn an_early_end_takes_its_share_off_the_threshold() {
    let mut net = Net::new(|config| config.measurement.idle_ns_max = 50_000, false);
    net.send(0, announcement(0, 1, 7, 100, 400));
    net.run(10_000, &mut perfect);
    let opened = net.sinks[1].opened[0];
    let (row, generation, epoch) = (opened.row, opened.generation, opened.epoch);
    net.apply(
        1,
        Command::Threshold {
            row,
            generation,
            epoch,
            threshold: 95,
        },
    );
    send(&mut net, 100..300);
    net.run(200_000, &mut perfect);
    let window = net.take_windows(1)[0];
    assert_eq!((window.marked, window.failed), (Some(200), SpineSet::EMPTY));
}

/// The same frame with a VLAN tag.
fn tagged(frame: Frame) -> Frame {
    let mut bytes = frame.0;
    bytes.splice(12..12, [0x81, 0x00, 0x60, 0x64]);
    Frame(bytes)
}

#[test]
fn a_flow_with_a_vlan_tag_is_measured_and_its_messages_wear_the_tag() {
    let mut net = Net::new(|_| {}, false);
    let mut messages = 0;
    let mut link = |_: u16, _: u16, frame: &Frame| {
        assert_eq!(frame.0[12..16], [0x81, 0x00, 0x60, 0x64]);
        messages += u32::from(be::get16(&frame.0, 40) == message::DEFAULT_PORT);
        true
    };
    net.send(0, tagged(announcement(0, 1, 7, 100, 40)));
    for psn in 100..140 {
        net.send(0, tagged(data(0, 1, 7, psn)));
        net.run(2_000, &mut link);
    }
    net.run(100_000, &mut link);
    let windows = net.take_windows(1);
    assert_eq!((windows.len(), windows[0].marked), (1, Some(40)));
    assert_nothing_lost(&windows);
    assert_eq!(
        messages,
        2 * 5 * u32::from(SPINES),
        "two opens and three closes, two links"
    );
    assert_eq!(net.delivered[1].len(), 40);
}

/// The IPv6 twin of a frame of [`udp`]: fd00:`leaf`::1.
fn v6(frame: &Frame) -> Frame {
    let old = &frame.0;
    let mut bytes = old[..14].to_vec();
    be::put16(&mut bytes, 12, packet::ethernet::IPV6);
    bytes.extend_from_slice(&[0x60, 0, 0, 0]);
    bytes.extend_from_slice(&((old.len() - 34) as u16).to_be_bytes());
    bytes.extend_from_slice(&[17, 64]);
    for leaf in [old[27], old[31]] {
        bytes.extend_from_slice(&v6_address(u16::from(leaf)).0.to_be_bytes());
    }
    bytes.extend_from_slice(&old[34..]);
    Frame(bytes)
}

fn v6_address(leaf: u16) -> packet::Address {
    packet::Address(0xfd00 << 112 | u128::from(leaf) << 96 | 1)
}

#[test]
fn an_ipv6_flow_is_measured() {
    let mut net = Net::new(
        |config| {
            for host in &mut config.hosts {
                let Role::Leaf(leaf) = config.role else {
                    continue;
                };
                host.address = v6_address(leaf.0);
            }
            for (leaf, route) in config.routes.iter_mut().enumerate() {
                route.prefix = Prefix::host(v6_address(leaf as u16));
            }
        },
        false,
    );
    net.send(0, v6(&announcement(0, 1, 7, 100, 40)));
    for psn in 100..140 {
        net.send(0, v6(&data(0, 1, 7, psn)));
        net.run(2_000, &mut perfect);
    }
    net.run(100_000, &mut perfect);
    let windows = net.take_windows(1);
    assert_eq!((windows.len(), windows[0].marked), (1, Some(40)));
    assert_nothing_lost(&windows);
    assert!(
        net.delivered[1]
            .iter()
            .all(|frame| frame.0[21] == 61 && frame.0[62 + 4] & 3 == 0)
    );
}

#[test]
fn a_host_cannot_fill_the_record_of_a_spine() {
    let mut net = Net::new(|_| {}, false);
    for flags in [FLAG_HOP_FILLED, FLAG_COUNTS, 1 << 31] {
        let mut header = host_header(MessageKind::Open, 7, 100, 20);
        header.flags = flags;
        net.send(0, host_message(0, 1, &header));
    }
    assert_eq!(net.dropped(0, DropReason::BadMessage), 3);
    assert_eq!(net.noted(0, Note::WindowsOpened), 0);
}

#[test]
fn link_state_of_another_spine_or_another_fabric_is_refused() {
    let mut net = Net::new(|config| config.link_state_ns = Some(50_000), false);
    let mut wrong = 0;
    for (fanout, spine) in [(LEAVES + 1, 0), (1, 0), (LEAVES, 1)] {
        let mut header = host_header(MessageKind::LinkState, 0, 0, 0);
        (header.flags, header.fanout, header.flow_id) = (FLAG_SWITCH, fanout, spine);
        let mut frame = host_message(0, 1, &header);
        packet::ethernet::set_addresses(&mut frame.0, mac(0, 1), mac(LEAVES, 1));
        net.receive(0, 1, frame);
        wrong += 1;
        assert_eq!(
            net.dropped(0, DropReason::BadMessage),
            wrong,
            "{fanout}, {spine}"
        );
    }
    assert_eq!(net.switches[0].usable(LeafId(2)).len(), usize::from(SPINES));
}

#[test]
fn fragments_carry_no_message_and_an_announcement_ends_at_the_leaf() {
    let mut net = Net::new(|_| {}, false);
    let mut fragment = announcement(0, 1, 7, 100, 20);
    fragment.0[20] = 0x20;
    net.send(0, fragment);
    net.run(10_000, &mut perfect);
    assert_eq!(net.noted(0, Note::Announced), 0);
    assert_eq!(net.delivered[1].len(), 1, "forwarded as any other packet");
    // An announcement to a host of the same leaf, and one with its last hop.
    net.send(0, announcement(0, 0, 7, 100, 20));
    assert_eq!(net.noted(0, Note::AnnouncementUseless), 1);
    let mut last_hop = announcement(0, 1, 7, 100, 20);
    last_hop.0[22] = 1;
    net.send(0, last_hop);
    assert_eq!(
        net.noted(0, Note::WindowsOpened),
        1,
        "the leaf itself is its addressee"
    );
    net.assert_conserved();
}

/// Goal: an uplink that eats an open, or the close that follows the last packet, does not keep its
/// spine from telling what it has counted. With both copies gone the spine tells nothing, and source
/// counts remain.
#[test]
fn a_lost_open_or_close_hides_no_link() {
    for kind in [MessageKind::Open, MessageKind::Close] {
        for (lost, is_told) in [(0..0, true), (0..1, true), (1..2, true), (0..2, false)] {
            let mut net = Net::new(|_| {}, false);
            let mut copies = 0;
            let mut dropped = 0;
            let mut link = |from: u16, to: u16, frame: &Frame| {
                let is_bad = (from, to) == (0, LEAVES + 2);
                if let (true, Some(header)) = (is_bad, message_of(frame)) {
                    let is_hit = header.kind == kind && lost.contains(&copies);
                    copies += usize::from(header.kind == kind);
                    return !is_hit;
                }
                // One data packet is lost as well.
                let is_hit = is_bad && dropped == 0;
                dropped += u32::from(is_hit);
                !is_hit
            };
            net.send(0, announcement(0, 1, 7, 100, 200));
            for psn in 100..300 {
                net.send(0, data(0, 1, 7, psn));
                net.run(2_000, &mut link);
            }
            net.run(200_000, &mut link);
            let windows = net.take_windows(1);
            let window = &windows[0];
            assert_eq!(window.hops_filled.has(2), is_told, "{kind:?} {lost:?}");
            assert_eq!(window.sent[2] - window.counts[2], 1);
            if is_told {
                let hop = window.hops[2];
                assert_eq!(
                    (hop.received, hop.sent),
                    (window.counts[2], window.counts[2])
                );
            }
            net.assert_conserved();
        }
    }
}
