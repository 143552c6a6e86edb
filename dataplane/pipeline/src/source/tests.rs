//! The source leaf alone: whose turn it is, what is marked, when a window ends.

use super::*;
use packet::{Address, Qpn};

fn measurement() -> Measurement {
    Measurement {
        is_paper: false,
        mark: Mark::First,
        window_packets_max: 1 << 20,
        window_ns_max: 1_000_000_000,
        idle_ns_max: 1_000_000,
        path_delay_ns_max: 1_000,
        rows_max: 16,
        row_ns_max: 60_000_000_000,
        windows: crate::config::WindowPlan::default(),
    }
}

fn flow(leaf: u16, qpn: u32, packets: u64) -> (FlowKey, Header) {
    let header = Header {
        destination_qp: Qpn(qpn),
        packets,
        mtu_bytes: 1024,
        ..blank().header
    };
    (
        flow_of(&header, Address::v4(1), Address::v4(100 + u32::from(leaf))),
        header,
    )
}

fn announce(
    source: &mut Source,
    leaf: u16,
    qpn: u32,
    packets: u64,
    counters: &mut Counters,
) -> FlowKey {
    let (key, header) = flow(leaf, qpn, packets);
    source.announce(
        PortId(0),
        key,
        LeafId(leaf),
        header,
        Dress::link_local(),
        counters,
    );
    key
}

/// Sends `psns` of `key` and returns how many were marked.
fn send(
    source: &mut Source,
    leaf: u16,
    key: FlowKey,
    psns: std::ops::Range<u32>,
    counters: &mut Counters,
) -> u32 {
    let mut marked = 0;
    for n in psns {
        let class = source.classify(
            Nanos(1),
            PortId(0),
            LeafId(leaf),
            &key,
            Psn::new(n),
            counters,
        );
        if let Class::Measured { mark: true, ends } = class {
            marked += 1;
            source.count_marked();
            if ends {
                source.close(Nanos(1), counters);
            }
        }
    }
    marked
}

#[test]
fn destinations_take_turns_lowest_first() {
    let mut counters = Counters::default();
    let mut source = Source::new(2, 8, &measurement());
    let keys: Vec<FlowKey> = [5, 2, 7]
        .map(|leaf| announce(&mut source, leaf, 16, 10, &mut counters))
        .into();
    let mut order = Vec::new();
    for round in 0..3 {
        let (port, leaf) = source.select(Nanos(round), |_| 4).unwrap();
        source.open(Nanos(round), port, leaf, SpineSet::first(4), &mut counters);
        assert_eq!(
            source.select(Nanos(round), |_| 4),
            None,
            "one measured flow at a time"
        );
        let key = keys[[5, 2, 7].iter().position(|&l| l == leaf.0).unwrap()];
        assert_eq!(send(&mut source, leaf.0, key, 0..10, &mut counters), 10);
        order.push(leaf.0);
    }
    assert_eq!(order, [2, 5, 7]);
    assert_eq!(source.select(Nanos(9), |_| 4), None, "all flows are over");
    announce(&mut source, 2, 17, 10, &mut counters);
    assert_eq!(
        source.select(Nanos(9), |_| 4),
        Some((PortId(0), LeafId(2))),
        "history is cleared when nothing else is left"
    );
}

#[test]
fn only_first_copies_within_the_announced_psns_are_marked() {
    let mut counters = Counters::default();
    let mut source = Source::new(2, 8, &measurement());
    let key = announce(&mut source, 3, 16, 100, &mut counters);
    source.open(
        Nanos(0),
        PortId(0),
        LeafId(3),
        SpineSet::first(4),
        &mut counters,
    );
    assert_eq!(send(&mut source, 3, key, 0..50, &mut counters), 50);
    assert_eq!(
        send(&mut source, 3, key, 10..50, &mut counters),
        0,
        "resent"
    );
    assert_eq!(
        send(
            &mut source,
            3,
            key,
            (1 << 23) + 50..(1 << 23) + 70,
            &mut counters
        ),
        0,
        "before the first"
    );
    assert_eq!(source.window().unwrap().window.marked, 50);
    assert_eq!(
        (
            counters.noted(Note::LaterCopies),
            counters.noted(Note::PsnOutside)
        ),
        (40, 20)
    );
    assert_eq!(send(&mut source, 3, key, 50..100, &mut counters), 50);
    assert!(source.window().is_none(), "the last PSN ends the window");
    let closed = source.due_close(Nanos(1)).unwrap();
    assert_eq!(closed.window.marked, 100);
}

#[test]
fn a_flow_is_bound_to_its_port_and_space() {
    let mut counters = Counters::default();
    let mut source = Source::new(2, 8, &measurement());
    let key = announce(&mut source, 3, 16, 100, &mut counters);
    source.open(
        Nanos(0),
        PortId(0),
        LeafId(3),
        SpineSet::first(4),
        &mut counters,
    );
    let other_space = FlowKey {
        space: Space::Responses,
        ..key
    };
    for (port, key) in [(PortId(1), key), (PortId(0), other_space)] {
        assert_eq!(
            source.classify(Nanos(0), port, LeafId(3), &key, Psn::new(0), &mut counters),
            Class::Plain
        );
    }
}

#[test]
fn closes_are_repeated_and_then_forgotten() {
    let mut counters = Counters::default();
    let mut source = Source::new(2, 8, &measurement());
    let key = announce(&mut source, 3, 16, 4, &mut counters);
    source.open(
        Nanos(0),
        PortId(0),
        LeafId(3),
        SpineSet::first(4),
        &mut counters,
    );
    send(&mut source, 3, key, 0..4, &mut counters);
    let mut sent = Vec::new();
    for now in 1..10_000 {
        while let Some(closed) = source.due_close(Nanos(now)) {
            let epoch = closed.window.epoch;
            sent.push((now, closed.repetition));
            source.close_sent(Nanos(now), epoch);
        }
    }
    assert_eq!(sent, [(1, 0), (1001, 1)]);
}

#[test]
fn silence_and_time_end_a_window() {
    let mut counters = Counters::default();
    let mut source = Source::new(2, 8, &measurement());
    announce(&mut source, 3, 16, 100, &mut counters);
    source.open(
        Nanos(5),
        PortId(0),
        LeafId(3),
        SpineSet::first(4),
        &mut counters,
    );
    assert!(!source.is_capped(Nanos(1_000_004)));
    assert!(source.is_capped(Nanos(1_000_005)));
}

#[test]
fn a_flow_measured_in_its_middle_is_marked_from_there() {
    let mut counters = Counters::default();
    let mut source = Source::new(2, 8, &measurement());
    let key = announce(&mut source, 3, 16, 100, &mut counters);
    assert_eq!(
        send(&mut source, 3, key, 0..60, &mut counters),
        0,
        "no window is open"
    );
    source.open(
        Nanos(0),
        PortId(0),
        LeafId(3),
        SpineSet::first(4),
        &mut counters,
    );
    assert_eq!(
        send(&mut source, 3, key, 40..100, &mut counters),
        40,
        "what passed unmarked stays unmarked"
    );
}

#[test]
fn a_port_cannot_push_out_the_flows_of_another() {
    let mut counters = Counters::default();
    let mut source = Source::new(2, 8, &measurement());
    let (theirs, header) = flow(3, 99, 10);
    let dress = Dress::link_local();
    source.announce(PortId(1), theirs, LeafId(3), header, dress, &mut counters);
    let mut ports = Vec::new();
    for qpn in 0..6 {
        // Port 0 announces again and again; port 1 did it once, and its flow never ends.
        announce(&mut source, 3, qpn, 10, &mut counters);
        let now = Nanos(u64::from(qpn) * 1_000_000);
        let (port, leaf) = source.select(now, |_| 4).unwrap();
        source.open(now, port, leaf, SpineSet::first(4), &mut counters);
        source.close(now, &mut counters);
        ports.push(port.0);
    }
    assert_eq!(ports, [1, 0, 1, 0, 1, 0], "ports take turns");
}

#[test]
fn found_flows_are_measured_in_turns_of_their_ports() {
    let mut counters = Counters::default();
    let mut config = measurement();
    config.windows = crate::config::WindowPlan {
        is_off: false,
        spine_packets: 2,
        finds_flows: true,
        silence_ns: 1_000_000,
        is_narrow: false,
    };
    let mut source = Source::new(3, 8, &config);
    let usable = [SpineSet::first(4); 8];
    let mut order = Vec::new();
    let mut now = Nanos(0);
    for psn in 0..3_000u32 {
        now = now.plus(100);
        for port in 0..3u16 {
            // All ports send to leaf 5.
            let (key, _) = flow(5, 16 + u32::from(port), 0);
            let at = (now, PortId(port), LeafId(5));
            let class = source.classify(at.0, at.1, at.2, &key, Psn::new(psn), &mut counters);
            match class {
                Class::Sampled => {
                    let dress = Dress::link_local();
                    source.sample(at.0, at.1, at.2, (key, Psn::new(psn)), dress, &mut counters);
                }
                Class::Measured { mark: true, ends } => {
                    source.count_marked();
                    if ends {
                        source.close(now, &mut counters);
                    }
                }
                Class::Measured { .. } | Class::Plain | Class::Past => {}
            }
        }
        if let Some(open) = source.open_next(now, &usable, &mut counters) {
            // 2 for each of 4 spines, and more while colours rest.
            let packets = open.window.header.packets;
            assert!((8..64).contains(&packets), "{packets}");
            order.push(open.port.0);
        }
    }
    assert!(order.len() > 30, "{}", order.len());
    for port in 0..3 {
        let own = order.iter().filter(|&&other| other == port).count();
        assert!(
            own.abs_diff(order.len() / 3) <= 2,
            "port {port}: {own} of {}",
            order.len()
        );
    }
    // A port may come twice, while the others' colour rests.
    assert!(
        order
            .windows(3)
            .all(|turn| turn[0] != turn[1] || turn[1] != turn[2])
    );
}

/// Goal: a flow alone on its leaf stays measured: a window lasts until the colour of the next but
/// one has rested. Rest 3,000 ns, a packet every 100 ns, 8 planned packets: windows of 800 ns would
/// leave 2,200 of every 3,800 ns unmeasured.
#[test]
fn windows_of_one_flow_follow_each_other_without_a_gap() {
    let mut counters = Counters::default();
    let mut config = measurement();
    config.windows.spine_packets = 2;
    let mut source = Source::new(2, 8, &config);
    let usable = [SpineSet::first(4); 8];
    let key = announce(&mut source, 3, 16, 2_000, &mut counters);
    let mut sizes = Vec::new();
    let mut closed = [0; 2];
    for psn in 0..2_000u32 {
        let now = Nanos(u64::from(psn) * 100);
        if let Some(open) = source.open_next(now, &usable, &mut counters) {
            sizes.push(open.window.header.packets);
            let colour = (open.window.epoch & 1) as usize;
            assert!(now.0 >= closed[colour], "the colour rests");
        }
        let class = source.classify(
            now,
            PortId(0),
            LeafId(3),
            &key,
            Psn::new(psn),
            &mut counters,
        );
        if let Class::Measured { mark: true, ends } = class {
            source.count_marked();
            if ends {
                let epoch = source.window().expect("an open window").window.epoch;
                closed[(epoch & 1) as usize] = now.0 + 3_000;
                source.close(now, &mut counters);
            }
        }
    }
    assert_eq!(sizes[0], 8, "nothing rests yet");
    let marked = sizes.iter().sum::<u64>();
    assert!(marked > 1_900, "{marked} of 2,000 packets: {sizes:?}");
    assert!(sizes.iter().all(|&size| size < 64), "{sizes:?}");
}
