//! Many connections and full queues: fair turns, and no repair of what was not lost.

mod wire;

use endpoint::{BitRate, Event, Flow, Host, HostConfig, QpConfig, QpId, Recovery};
use packet::{Psn, Qpn};
use wire::{Wire, address};

const QPS: u32 = 2000;

fn flow(bytes: u64) -> Flow {
    Flow {
        verb: endpoint::Verb::Write,
        flow_id: 1,
        bytes,
        message_bytes: 1 << 20,
        announce: false,
    }
}

/// Hosts of which each but the first has `qps` connections to the first.
fn star(hosts: u32, qps: u32, change: impl Fn(&mut HostConfig)) -> Wire {
    let mut all = Vec::new();
    for i in 0..hosts {
        let mut config = HostConfig {
            qps_max: QPS,
            ..wire::config(i)
        };
        change(&mut config);
        let mut host = Host::new(config).unwrap();
        let peers = if i == 0 { 1..hosts } else { 0..1 };
        for peer in peers {
            let spoke = i.max(peer);
            for lane in 0..qps {
                host.open_qp(QpConfig {
                    local_qpn: Qpn(17 + spoke * qps + lane),
                    remote_qpn: Qpn(17 + spoke * qps + lane),
                    remote_address: address(peer),
                    udp_source_port: 0xc000,
                    first_psn: Psn::new(lane),
                    remote_first_psn: Psn::new(lane),
                })
                .unwrap();
            }
        }
        all.push(host);
    }
    Wire::new(all)
}

/// Goal: 2,000 connections take turns at the link, end together, and nothing is repeated though
/// each waits long for its turn.
#[test]
fn two_thousand_connections_share_a_link() {
    let mut wire = star(2, QPS, |_| ());
    wire.room = endpoint::HEADER_ROOM;
    for qp in 0..QPS {
        wire.hosts[1].post(0, QpId(qp), flow(40 * 4096)).unwrap();
    }
    let events = wire.run(1_000_000_000, wire::in_order);
    let ends: Vec<u64> = events
        .iter()
        .filter_map(|e| match e {
            (1, Event::SendComplete { ended_ns, .. }) => Some(*ended_ns),
            _ => None,
        })
        .collect();
    let sender = wire.counters(1);
    assert_eq!((ends.len(), sender.sent), (2000, 80_000), "{sender:?}");
    assert_eq!(
        (sender.retransmitted, wire.counters(0).spurious),
        (0, 0),
        "{sender:?}"
    );
    // A round is 2,000 packets of 334 ns; all end in the last one.
    let spread = ends[1999] - ends[0];
    assert!(
        spread < 680_000,
        "{spread} ns between the first and the last to end"
    );
    let times = wire.hosts[1].completion_ns();
    assert_eq!(times.len(), 2000);
    assert!(
        times.min().abs_diff(ends[0]) <= ends[0] / 100,
        "{} ns",
        times.min()
    );
}

/// Goal: seven hosts fill the queue of an eighth with ten times the configured timeout, and
/// nothing is repeated: what is measured raises the timeout.
#[test]
fn a_full_queue_is_not_loss() {
    for recovery in [Recovery::SELECTIVE_REPEAT, Recovery::GO_BACK_N] {
        let mut wire = star(8, 8, |c| {
            c.recovery = recovery;
            c.link_rate = BitRate::gbps(100);
        });
        wire.room = endpoint::HEADER_ROOM;
        for host in 1..8 {
            for qp in 0..8 {
                wire.hosts[host].post(0, QpId(qp), flow(2 << 20)).unwrap();
            }
        }
        let (mut free_at, mut longest) = (0u64, 0);
        let rule = |frame: &wire::Frame<'_>| {
            let mut delay = 1000;
            if frame.from != 0 {
                free_at = free_at.max(frame.now) + 334;
                delay += free_at - frame.now;
                longest = longest.max(delay);
            }
            [Some(delay), None]
        };
        let events = wire.run(1_000_000_000, rule);
        let done = events
            .iter()
            .filter(|e| matches!(e.1, Event::SendComplete { .. }))
            .count();
        assert_eq!(done, 56, "{recovery:?}");
        assert!(longest > 1_000_000, "the queue is {longest} ns long");
        assert_eq!(
            wire.counters(0).spurious,
            0,
            "{recovery:?}, a queue of {longest} ns"
        );
    }
}

/// Goal: background traffic takes the share of the link that it was given, adapts to loss where
/// it should, ends when it is stopped, and slows RoCE without a repair.
#[test]
fn background_traffic_takes_its_share() {
    for adapts in [false, true] {
        let mut wire = star(2, 1, |c| {
            let peer = Some(address(u32::from(c.address == address(0))));
            c.background = Some(endpoint::Background {
                to: peer.filter(|_| c.address == address(1)),
                from: peer.filter(|_| c.address == address(0)),
                rate: BitRate::gbps(50),
                adapts,
            });
        });
        wire.hosts[1].post(0, QpId(0), flow(32 << 20)).unwrap();
        let mut count = 0u64;
        let mut ended = None;
        while ended.is_none() {
            let mut rule = |frame: &wire::Frame<'_>| {
                count += 1;
                let is_segment = frame.bytes.len() == 1514;
                let is_lost = adapts && is_segment && count.is_multiple_of(10);
                [(!is_lost).then_some(1000), None]
            };
            let mut on_event = |_: &mut Host, _, event, now| {
                if let Event::SendComplete { .. } = event {
                    ended = Some(now);
                }
            };
            assert!(wire.step(&mut rule, &mut on_event) && wire.now < 100_000_000);
        }
        let (a, b) = (wire.counters(1), wire.counters(0));
        let now = wire.now;
        let share = b.background_received * (1514 + 24) * 8 * 100 / (now * 50);
        let what = format!("{share} % of its rate in {now} ns: {a:?}\n{b:?}");
        assert_eq!(
            (a.retransmitted, b.not_roce, a.not_roce),
            (0, 0, 0),
            "{what}"
        );
        if adapts {
            assert!(share < 20 && a.background_lost > 5, "{what}");
        } else {
            assert!(
                (98..=101).contains(&share) && a.background_lost == 0,
                "{what}"
            );
        }
        wire.hosts[1].stop_background();
        wire.run(now + 10_000_000, wire::in_order);
        assert!(wire.now < now + 1_000_000, "goes on to {} ns", wire.now);
    }
}
