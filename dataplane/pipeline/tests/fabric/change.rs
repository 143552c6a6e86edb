//! Switches that get another configuration while packets flow: none is lost, and what runs is either of
//! one configuration or void.

use pipeline::*;

use crate::net::*;
use crate::sum;

/// A flow of 400 packets from leaf 0 to leaf 1, a change after each 100th, told which.
fn flow_with(net: &mut Net, mut change: impl FnMut(&mut Net, u32)) {
    net.send(0, announcement(0, 1, 7, 100, 400));
    for n in 0..400 {
        if n > 0 && n % 100 == 0 {
            change(net, n / 100);
        }
        net.send(0, data(0, 1, 7, 100 + n));
        net.run(1_000, &mut perfect);
    }
    net.run(200_000, &mut perfect);
    assert_eq!(net.delivered[1].len(), 400, "a packet is lost by a change");
    net.assert_conserved();
}

fn plain(switch: u16) -> SwitchConfig {
    config(switch, &measurement(false))
}

/// Goal: the spray changes between two packets; each window is of one spray, and whole.
#[test]
fn another_spray_ends_the_window_and_loses_nothing() {
    let mut net = Net::new(|_| {}, false);
    let policies = [
        Policy::Jsq2,
        Policy::RoundRobin,
        Policy::Ecmp,
        Policy::Random,
    ];
    flow_with(&mut net, |net, round| {
        let of = |round: usize| SwitchConfig {
            policy: policies[round],
            ..plain(0)
        };
        net.change(0, &of(round as usize - 1), &of(round as usize));
    });
    let windows = net.take_windows(1);
    assert_eq!(windows.len(), 4);
    for window in &windows {
        assert!(!window.is_changed && window.disturbed.is_empty());
        assert_eq!(window.counts, window.sent, "epoch {}", window.epoch);
        assert_eq!(sum(&window.counts), window.marked.unwrap());
    }
    let spines = |window: &WindowReport| window.counts.iter().filter(|&&count| count > 0).count();
    assert_eq!(windows[1].counts[..4], [25; 4], "round robin");
    assert_eq!(
        spines(&windows[2]),
        1,
        "a flow keeps one path: {:?}",
        &windows[2].counts[..4]
    );
    assert_eq!(spines(&windows[3]), 4);
}

/// Goal: a host appears on all switches of the fabric while others send; it is reached from then on,
/// others lose nothing, and windows that were counted meanwhile are void.
#[test]
fn another_route_is_used_at_once_and_windows_are_void() {
    let mut net = Net::new(|_| {}, false);
    let stranger = host_address(9);
    let to_stranger = |psn: u32| {
        let mut frame = data(0, 1, 9, psn);
        packet::be::put32(&mut frame.0, 30, stranger.as_v4().expect("IPv4"));
        packet::be::put16(&mut frame.0, 24, 0);
        let checksum = packet::ip::v4_checksum(&frame.0[14..34]);
        packet::be::put16(&mut frame.0, 24, checksum);
        frame
    };
    let with = |switch: u16| {
        let mut config = plain(switch);
        let next = match config.role {
            Role::Leaf(LeafId(1)) => {
                config.hosts.push(HostConfig {
                    address: stranger,
                    mac: Some(host_mac(9)),
                    port: 0,
                });
                NextHop::Host(1)
            }
            Role::Leaf(_) | Role::Spine(_) => NextHop::Leaf(LeafId(1)),
        };
        config.routes.push(Route {
            prefix: Prefix::host(stranger),
            next,
        });
        config
    };
    net.send(0, to_stranger(1));
    assert_eq!(net.dropped(0, DropReason::NoRoute), 1);
    net.send(0, announcement(0, 1, 7, 100, 400));
    for n in 0..400 {
        if n == 200 {
            // From the host's leaf outwards, as an operator would.
            for switch in [1, LEAVES, LEAVES + 1, LEAVES + 2, LEAVES + 3, 0] {
                net.change(switch, &plain(switch), &with(switch));
            }
            net.send(0, to_stranger(2));
        }
        net.send(0, data(0, 1, 7, 100 + n));
        net.run(1_000, &mut perfect);
    }
    net.run(200_000, &mut perfect);
    assert_eq!(
        net.delivered[1].len(),
        401,
        "400 of the flow, one to the new host"
    );
    assert_eq!(
        net.dropped(0, DropReason::NoRoute),
        1,
        "no more than before"
    );
    let windows = net.take_windows(1);
    assert_eq!(windows.len(), 2);
    assert!(windows[0].is_changed && windows[0].usable.without(windows[0].disturbed).is_empty());
    assert!(!windows[1].is_changed && windows[1].disturbed.is_empty());
    assert_eq!(windows[1].counts, windows[1].sent);
    // And away again.
    net.change(0, &with(0), &plain(0));
    net.send(0, to_stranger(3));
    assert_eq!(net.dropped(0, DropReason::NoRoute), 2);
    net.assert_conserved();
}

/// Goal: measuring is switched off and on, and windows get another length, without touching a packet.
#[test]
fn measuring_changes_while_packets_flow() {
    let mut net = Net::new(|_| {}, false);
    let off = |switch: u16| {
        let mut config = plain(switch);
        config.measurement.windows.is_off = true;
        config
    };
    let short = |switch: u16| {
        let mut config = plain(switch);
        config.measurement.window_packets_max = 50;
        config
    };
    let mut opened = Vec::new();
    flow_with(&mut net, |net, round| {
        opened.push(net.noted(0, Note::WindowsOpened));
        match round {
            1 => net.change(0, &plain(0), &off(0)),
            2 => {}
            _ => net.change(0, &off(0), &short(0)),
        }
    });
    assert_eq!(opened, [1, 1, 1], "none is opened while it is off");
    let windows = net.take_windows(1);
    assert_eq!(windows[0].marked, Some(100));
    assert!(windows.len() > 2, "{} windows", windows.len());
    assert!(
        windows[1..]
            .iter()
            .all(|window| window.marked.unwrap() <= 50)
    );
    assert_eq!(net.noted(0, Note::WindowsOpened), windows.len() as u64);
}
