//! Workloads on a mesh of hosts: each runs to its end, and moves the bytes it promises.

mod wire;

use std::cell::RefCell;

use endpoint::workload::{FlowTotals, HostId, Post, Workload, WorkloadConfig, WorkloadKind};
use endpoint::{Event, Host, HostConfig};
use wire::{Arrivals, Dice, Frame, Wire};

fn config(kind: WorkloadKind, hosts: u32, hosts_per_leaf: u32) -> WorkloadConfig {
    WorkloadConfig {
        kind,
        hosts,
        hosts_per_leaf,
        bytes: 100_001,
        qps: 2,
        verb: endpoint::Verb::Write,
        ring: endpoint::workload::RingAccounting::Steps,
        iterations: 2,
        message_bytes: 1 << 20,
        announce: true,
        seed: 5,
    }
}

/// Runs a workload with a frame rule; returns the totals, whether all hosts are done, the wire.
fn run(
    config: WorkloadConfig,
    mut rule: impl FnMut(&Frame<'_>) -> Arrivals,
) -> (FlowTotals, bool, Wire) {
    let workload = Workload::new(config).expect("a sound workload");
    let mut hosts = Vec::new();
    let mut scripts = Vec::new();
    for id in workload.hosts() {
        let mut host = Host::new(HostConfig {
            qps_max: 1000,
            ..wire::config(id.0)
        })
        .unwrap();
        let mut script = workload.script(id);
        for plan in script.qps() {
            let opened = host.open_qp(plan.config(wire::address(plan.peer.0)));
            assert_eq!(opened, Ok(plan.id));
        }
        let mut post = |p: Post| host.post(0, p.qp, p.flow).unwrap();
        script.start(&mut post);
        hosts.push(host);
        scripts.push(script);
    }
    let scripts = RefCell::new(scripts);
    let mut failures = Vec::new();
    let mut wire = Wire::new(hosts);
    while wire.now < 10_000_000_000 {
        let mut on_event = |host: &mut Host, id: usize, event: Event, now: u64| {
            let mut post = |p: Post| {
                // A connection may have failed with the event still to come.
                let _ = host.post(now, p.qp, p.flow);
            };
            scripts.borrow_mut()[id].on_event(&event, &mut post);
            if let Event::Failed { qp, .. } = event {
                failures.push((id, qp));
            }
        };
        let goes_on = wire.step(&mut rule, &mut on_event);
        for (id, qp) in failures.drain(..) {
            let plan = *scripts.borrow()[id].qps().nth(qp.0 as usize).unwrap();
            let peer = plan.peer.0 as usize;
            let theirs = wire.hosts[peer].qp_of(plan.remote_qpn).unwrap();
            let (host, now) = (&mut wire.hosts[peer], wire.now);
            let mut post = |p: Post| {
                let _ = host.post(now, p.qp, p.flow);
            };
            scripts.borrow_mut()[peer].on_peer_failed(theirs, &mut post);
        }
        if !goes_on {
            break;
        }
    }
    let mut totals = FlowTotals::default();
    for (script, host) in scripts.borrow().iter().zip(&wire.hosts) {
        totals += script.totals();
        totals.retransmitted += host.counters().retransmitted;
        totals.spurious += host.counters().spurious;
        assert_eq!(host.counters().payload_errors, 0);
    }
    let done = scripts.borrow().iter().all(|script| script.is_done());
    (totals, done, wire)
}

/// Goal: each workload ends, with the flows and bytes that its definition promises.
#[test]
fn every_workload_ends() {
    // (kind, hosts, per leaf, flows of an iteration and lane, bytes of each host pair step)
    let cases = [
        (WorkloadKind::AllToAll, 4, 1, 12),
        (WorkloadKind::AllToAll, 6, 2, 24),
        (WorkloadKind::RingAllReduce, 4, 1, 24),
        (WorkloadKind::RingAllReduce, 6, 3, 60),
        (WorkloadKind::RingAllReduce, 2, 1, 4),
        (WorkloadKind::Permutation, 6, 2, 6),
        (WorkloadKind::Incast, 6, 2, 4),
        (WorkloadKind::Pairs, 6, 2, 4),
        (WorkloadKind::Idle, 6, 2, 0),
    ];
    for (kind, hosts, per_leaf, flows) in cases {
        let config = config(kind, hosts, per_leaf);
        let (totals, done, wire) = run(config, wire::in_order);
        let what = format!("{} of {hosts}: {totals:?}", kind.name());
        assert!(done, "{what}");
        let wanted = flows * 2 * 2;
        assert_eq!(
            (totals.announced, totals.completed, totals.posted),
            (wanted, wanted, wanted),
            "{what}"
        );
        assert_eq!(Workload::new(config).unwrap().flows(), wanted, "{what}");
        assert_eq!(
            (totals.failed, totals.retransmitted, totals.spurious),
            (0, 0, 0),
            "{what}"
        );
        let received: u64 = (0..hosts)
            .map(|h| wire.counters(h as usize).received_bytes)
            .sum();
        let step = Workload::new(config).unwrap().step_bytes();
        let bytes = if flows == 0 { 0 } else { flows * 2 * step };
        assert_eq!(received, bytes, "{what}");
        let announced: u64 = (0..hosts)
            .map(|h| wire.counters(h as usize).announced)
            .sum();
        assert_eq!(announced, wanted, "{what}");
    }
}

/// Goal: no pattern sends within a leaf, and in every step a host hears from one host at most
/// (but for incast); a ring visits every host.
#[test]
fn targets_are_permutations_across_leaves() {
    for kind in WorkloadKind::ALL {
        for (hosts, per_leaf) in [(8, 1), (8, 2), (9, 3), (2, 1), (64, 8)] {
            let workload = Workload::new(config(kind, hosts, per_leaf)).unwrap();
            for step in 0..workload.steps() {
                let mut heard = vec![0; hosts as usize];
                for host in workload.hosts() {
                    if let Some(target) = workload.target(host, step) {
                        assert_ne!(
                            target.0 / per_leaf,
                            host.0 / per_leaf,
                            "{kind:?} of {hosts}"
                        );
                        heard[target.0 as usize] += 1;
                    }
                }
                let most = if kind == WorkloadKind::Incast {
                    hosts - per_leaf
                } else {
                    1
                };
                assert!(
                    heard.iter().all(|&n| n <= most),
                    "{kind:?} of {hosts}: {heard:?}"
                );
            }
            if kind == WorkloadKind::RingAllReduce {
                let mut at = HostId(0);
                for _ in 1..hosts {
                    at = workload.target(at, 0).unwrap();
                    assert_ne!(at, HostId(0), "the ring of {hosts} closes too early");
                }
                assert_eq!(workload.target(at, 0), Some(HostId(0)));
            }
        }
    }
}

/// Goal: both ends of a connection agree on its numbers, and a host's are unique.
#[test]
fn both_ends_agree() {
    let workload = Workload::new(config(WorkloadKind::AllToAll, 8, 2)).unwrap();
    for host in workload.hosts() {
        let mut numbers = Vec::new();
        for plan in workload.qps_of(host) {
            let theirs = workload
                .qps_of(plan.peer)
                .find(|other| other.local_qpn == plan.remote_qpn)
                .expect("the peer has its end");
            assert_eq!((theirs.peer, theirs.remote_qpn), (host, plan.local_qpn));
            assert_eq!(theirs.first_psn, plan.remote_first_psn);
            numbers.push(plan.local_qpn.0);
        }
        assert_eq!(numbers.len(), 12);
        numbers.dedup();
        assert_eq!(numbers.len(), 12);
    }
}

/// Goal: on a healthy sprayed fabric nothing is sent twice, whatever overtakes what.
#[test]
fn spraying_alone_repairs_nothing() {
    for kind in WorkloadKind::ALL {
        let mut dice = Dice(6);
        let config = WorkloadConfig {
            bytes: 2 << 20,
            ..config(kind, 8, 1)
        };
        let rule = |_: &Frame<'_>| [Some(4000 + dice.below(20_000)), None];
        let (totals, done, wire) = run(config, rule);
        assert!(
            done && totals.completed == totals.posted,
            "{kind:?}: {totals:?}"
        );
        assert_eq!(
            (totals.retransmitted, totals.spurious),
            (0, 0),
            "{kind:?}: {totals:?}"
        );
        let farthest = (0..8)
            .map(|h| wire.counters(h).out_of_order_distance_max)
            .max();
        assert!(
            matches!(kind, WorkloadKind::Idle | WorkloadKind::Trace) || farthest > Some(10),
            "{kind:?}: {farthest:?}"
        );
    }
}

/// Goal: loss slows a collective down and does not stop it.
#[test]
fn a_ring_ends_under_loss() {
    let mut dice = Dice(9);
    let rule = |_: &Frame<'_>| {
        let is_lost = dice.below(100) < 2;
        [(!is_lost).then_some(1000), None]
    };
    let (totals, done, _) = run(config(WorkloadKind::RingAllReduce, 4, 1), rule);
    assert!(done && totals.failed == 0, "{totals:?}");
    assert_eq!(totals.completed, 96, "{totals:?}");
    assert!(totals.retransmitted > 0, "{totals:?}");
}

/// Goal: a host that is cut off makes flows fail, and every other host still comes to its end.
#[test]
fn a_dead_host_fails_its_flows_only() {
    for kind in [WorkloadKind::AllToAll, WorkloadKind::RingAllReduce] {
        let dead = wire::address(2);
        let rule = |frame: &Frame<'_>| {
            let parsed = packet::parse(frame.bytes, frame.bytes.len(), 48791).unwrap();
            let is_dead = parsed.source == dead || parsed.destination == dead;
            [(!is_dead).then_some(1000), None]
        };
        let (totals, done, _) = run(config(kind, 4, 1), rule);
        assert!(done, "{kind:?}: {totals:?}");
        assert_eq!(
            totals.posted,
            totals.completed + totals.failed,
            "{kind:?}: {totals:?}"
        );
        // Half of all pairs of an all-to-all have host 2 at one end; of a ring's links, two.
        let wanted = if kind == WorkloadKind::AllToAll {
            24
        } else {
            48
        };
        assert_eq!(totals.failed, wanted, "{kind:?}: {totals:?}");
    }
}

/// Goal: the flows of a trace begin at their time or when their connection has room, and all end;
/// each over one connection, dealt in turn.
#[test]
fn a_trace_is_followed() {
    let config = WorkloadConfig {
        qps: 2,
        ..config(WorkloadKind::Trace, 4, 2)
    };
    let mut text = String::from("start,source,destination,bytes\n");
    for number in 0..40 {
        text += &format!(
            "{},{},h0.0,{}\n",
            number * 1000,
            1 + number % 3,
            5000 + number
        );
    }
    let trace = endpoint::workload::trace::read(text.as_bytes(), 4, 2).unwrap();
    let workload = Workload::with_trace(config, trace).unwrap();
    assert_eq!(workload.flows(), 40);
    let mut hosts = Vec::new();
    let mut scripts: Vec<_> = workload.hosts().map(|id| workload.script(id)).collect();
    for (id, script) in scripts.iter_mut().enumerate() {
        let mut host = Host::new(wire::config(id as u32)).unwrap();
        for plan in script.qps() {
            host.open_qp(plan.config(wire::address(plan.peer.0)))
                .unwrap();
        }
        script.start(&mut |p: Post| host.post(0, p.qp, p.flow).unwrap());
        hosts.push(host);
    }
    assert_eq!(scripts[0].qps().count(), 6);
    assert_eq!(
        (scripts[1].qps().count(), scripts[1].next_start()),
        (2, Some(3000))
    );
    let mut wire = Wire::new(hosts);
    let mut started = Vec::new();
    while !scripts.iter().all(|script| script.is_done()) {
        assert!(wire.now < 100_000_000, "{:?}", scripts[1].totals());
        for (id, script) in scripts.iter_mut().enumerate() {
            let now = wire.now;
            let host = &mut wire.hosts[id];
            script.on_time(now, &mut |p: Post| {
                started.push((now, p.flow.bytes));
                host.post(now, p.qp, p.flow).unwrap();
            });
        }
        let mut on_event = |host: &mut Host, id: usize, event: Event, now: u64| {
            scripts[id].on_event(&event, &mut |p: Post| {
                started.push((now, p.flow.bytes));
                host.post(now, p.qp, p.flow).unwrap();
            });
        };
        if !wire.step(&mut wire::in_order, &mut on_event) {
            wire.now += 500;
        }
    }
    let mut totals = FlowTotals::default();
    for script in &scripts {
        totals += script.totals();
    }
    assert_eq!(
        (totals.posted, totals.completed, totals.failed),
        (40, 40, 0)
    );
    assert_eq!(
        wire.counters(0).received_bytes,
        (0..40).map(|n| 5000 + n).sum::<u64>()
    );
    for (now, bytes) in started {
        let wanted = (bytes - 5000) * 1000;
        assert!(
            now >= wanted && now < wanted + 20_000,
            "{bytes} bytes at {now} ns"
        );
    }
}
