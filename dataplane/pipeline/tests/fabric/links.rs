//! Links that die with packets queued, and links that come back.

use packet::Opcode;
use pipeline::speak::COPIES;
use pipeline::*;

use crate::net::*;

const HOLD_NS: u64 = 50_000;

fn held() -> Net {
    Net::new(|config| config.hold_down_ns = HOLD_NS, false)
}

/// Goal: a link is out at once and back after the hold-down time, on leaves and spines.
#[test]
fn a_link_returns_after_its_hold_down_time() {
    let mut net = held();
    net.set_link(0, 1 + 2, false);
    assert_eq!(
        net.switches[0].usable(LeafId(1)),
        types::Set(0b1011),
        "out at once"
    );
    net.set_link(0, 1 + 2, true);
    net.run(HOLD_NS - 2_000, &mut perfect);
    assert_eq!(
        net.switches[0].usable(LeafId(1)),
        types::Set(0b1011),
        "up, but held"
    );
    // A flap in between begins the time anew.
    net.set_link(0, 1 + 2, false);
    net.set_link(0, 1 + 2, true);
    net.run(HOLD_NS - 2_000, &mut perfect);
    assert_eq!(net.switches[0].usable(LeafId(1)), types::Set(0b1011));
    net.run(3_000, &mut perfect);
    assert_eq!(net.switches[0].usable(LeafId(1)), types::Set(0b1111));
}

/// Goal: a spine tells of a downlink that came back only when its time is over.
#[test]
fn a_held_downlink_is_not_announced() {
    let mut net = Net::new(
        |config| {
            config.hold_down_ns = HOLD_NS;
            config.link_state_ns = Some(10_000);
        },
        false,
    );
    net.run(20_000, &mut perfect);
    net.set_link(LEAVES + 1, 1, false);
    net.run(5_000, &mut perfect);
    assert_eq!(net.switches[0].usable(LeafId(1)), types::Set(0b1101));
    net.set_link(LEAVES + 1, 1, true);
    net.run(HOLD_NS - 5_000, &mut perfect);
    assert_eq!(net.switches[0].usable(LeafId(1)), types::Set(0b1101));
    net.run(10_000, &mut perfect);
    assert_eq!(net.switches[0].usable(LeafId(1)), types::Set(0b1111));
    // A host's link is never held: there is no other.
    net.set_link(1, 0, false);
    net.set_link(1, 0, true);
    net.send(0, data(0, 1, 7, 1));
    net.run(5_000, &mut perfect);
    assert_eq!(net.delivered[1].len(), 1);
}

/// Goal: what was queued on a dead uplink arrives over the others, every packet once.
#[test]
fn packets_of_a_dead_uplink_are_sprayed_again() {
    let mut net = held();
    for n in 0..400 {
        net.send(0, data(0, 1, 7, n));
        net.send(0, roce(0, 2, 9, n, Opcode(0x64)));
    }
    let queued = net.switches[0].depth_bytes(PortId(2), 0);
    assert!(queued > 0);
    net.set_link(0, 2, false);
    assert_eq!(net.switches[0].depth_bytes(PortId(2), 0), 0);
    let moved = net.noted(0, Note::Resprayed);
    let flushed = net.switches[0].port_counters(PortId(2)).flushed;
    assert!(
        moved >= 80 && moved == flushed,
        "{moved} sent again of {flushed}"
    );
    net.run(2_000_000, &mut |from, to, _| {
        assert!(
            (from, to) != (0, LEAVES + 1),
            "nothing goes over the dead link"
        );
        true
    });
    for leaf in [1, 2] {
        let mut psns: Vec<u32> = net.delivered[leaf]
            .iter()
            .map(|frame| packet::bth::psn(&frame.0, 42).number())
            .collect();
        psns.sort_unstable();
        assert_eq!(psns, (0..400).collect::<Vec<u32>>(), "leaf {leaf}");
    }
    assert_eq!(net.dropped(0, DropReason::LinkDown), 0);
    net.assert_conserved();
}

/// Goal: measured packets that move lose their mark, so that the other paths stay exact; the dead
/// path is void.
#[test]
fn measured_packets_that_move_falsify_no_path() {
    let mut net = held();
    net.send(0, announcement(0, 1, 7, 100, 400));
    net.run(5_000, &mut perfect);
    for n in 0..400 {
        net.send(0, data(0, 1, 7, 100 + n));
        if n == 300 {
            net.set_link(0, 1 + 2, false);
        }
    }
    net.run(2_000_000, &mut perfect);
    let windows = net.take_windows(1);
    assert!(net.noted(0, Note::Resprayed) > 50);
    assert!(
        windows[0].disturbed.has(2) || !windows[0].usable.has(2),
        "{windows:?}"
    );
    for window in &windows {
        for spine in window.usable.without(window.disturbed).iter() {
            assert_eq!(
                window.counts[spine], window.sent[spine],
                "spine {spine} of {window:?}"
            );
        }
    }
    assert_eq!(net.delivered[1].len(), 400);
    assert_eq!(net.noted(1, Note::CountedLate), 0);
    net.assert_conserved();
}

/// Goal: where there is no other way packets are counted as lost with the link.
#[test]
fn without_another_way_packets_end_with_the_link() {
    // The last uplink of all.
    let mut net = held();
    for n in 0..100 {
        net.send(0, data(0, 1, 7, n));
    }
    for port in 1..=SPINES {
        net.set_link(0, port, false);
    }
    assert_eq!(net.dropped(0, DropReason::LinkDown), 100);
    net.assert_conserved();
    // A spine's downlink, and a host's link.
    let mut net = held();
    net.send(0, data(0, 1, 7, 1));
    net.settle(&mut |_, _, _| true);
    let mut frame = data(0, 1, 7, 2);
    packet::ethernet::set_addresses(&mut frame.0, mac(LEAVES, 1), mac(0, 1));
    net.receive(LEAVES, 0, frame);
    net.set_link(LEAVES, 1, false);
    assert_eq!(net.dropped(LEAVES, DropReason::LinkDown), 1);
    net.assert_conserved();
    // At the end of a run nothing is sent anywhere.
    let mut net = held();
    for n in 0..100 {
        net.send(0, data(0, 1, 7, n));
    }
    net.switches[0].drain(net.now, &mut net.sinks[0]);
    assert_eq!(net.noted(0, Note::Resprayed), 0);
    assert_eq!(net.dropped(0, DropReason::LinkDown), 100);
    net.assert_conserved();
}

/// Goal: a copy of an open or close ends with its link. On another path it would say that this one
/// is complete, before it is.
#[test]
fn messages_of_a_dead_uplink_take_no_other_path() {
    let mut net = held();
    net.send(0, announcement(0, 1, 7, 100, 400));
    net.set_link(0, 1 + 2, false);
    assert!(
        net.dropped(0, DropReason::LinkDown) >= 1,
        "the open for spine 2 is gone"
    );
    assert_eq!(net.noted(0, Note::Resprayed), 0);
    let mut copies = Vec::new();
    net.run(200_000, &mut |from, to, frame| {
        if let (0, Some(header)) = (from, message_of(frame)) {
            copies.push((to, header.kind as u8, header.epoch, header.repetition));
        }
        true
    });
    copies.sort_unstable();
    assert!(copies.len() > 3);
    for same in copies.chunk_by(|a, b| a == b) {
        let is_first = same[0].3 == 0;
        let sent = if is_first { usize::from(COPIES) } else { 1 };
        assert_eq!(
            same.len(),
            sent,
            "a copy of another path came over this one"
        );
    }
    net.assert_conserved();
}
