//! From what a run left behind to its result: the same for the testbed on DPDK and the simulator.

use std::time::Duration;

use agent::core::{Core, Verdict};
use agent::result::{
    ChangeAt, Conservation, Convicted, EndReason, Failure as PathFailure, Flows, Injected,
    Measurement, Noise, Policy, ReplayCounters, ReplayPort, ReplayResult, Suspect, Test,
    TestbedResult,
};
use config::fabric::Fabric;
use detector::PathState;
use endpoint::workload::FlowTotals;
use packet::message::{FLAG_COUNTS, FLAG_HOP_ROOM, FLAG_SWITCH, message_len};
use pipeline::{Counters, DropReason, Nanos, Note, PortCounters, PortId, Switch, Token};

use crate::frame::Frame;
use crate::plan::Plan;

/// Why a run ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The workload is done and the last verdicts are out.
    Done,
    /// It was told to stop.
    Stopped,
    /// The time limit passed.
    Limit,
    /// The fabric's time went on without a packet of a host.
    Stuck,
}

/// What a link did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkOutcome {
    /// Packets that entered it.
    pub seen: u64,
    /// Packets that it lost or damaged.
    pub lost: u64,
}

/// What a run leaves behind, whichever driver it had.
#[derive(Clone, Copy, Debug)]
pub struct Run<'a> {
    /// Why it ended.
    pub ending: Ending,
    /// Counters of each switch and its ports, and whether both conservation laws hold.
    pub switches: &'a [(Counters, Vec<PortCounters>, bool)],
    /// Per fabric link in the order of the configuration.
    pub links: &'a [LinkOutcome],
    /// Whether every link's law holds.
    pub links_conserved: bool,
    /// Packets still on links.
    pub in_flight: u64,
    /// Packets that links lost or damaged.
    pub link_injected: u64,
    /// The hosts' flows.
    pub flows: FlowTotals,
    /// What must not be at hosts, such as wrong bytes.
    pub host_errors: u64,
    /// Link traversals.
    pub packet_hops: u64,
    /// Fabric time at the end.
    pub now: Nanos,
    /// Time on the clock on the wall.
    pub elapsed: Duration,
    /// Packet buffers that were not given back.
    pub leaked: u32,
}

/// The result of a run.
pub fn result(
    plan: &Plan<'_>,
    fabric: &Fabric,
    outcome: &Run<'_>,
    core: &mut Core,
) -> TestbedResult {
    let config = plan.config;
    let found = core.locate();
    let noise = core.noise();
    let elapsed_s = outcome.elapsed.as_secs_f64();
    TestbedResult {
        seed: config.seed,
        policy: Policy {
            preset: config.preset,
            spray: config.spray,
            tie: config.tie,
            evidence: config.evidence,
            mark: config.mark,
            burst: config.burst,
            load: plan.load(),
            p_min: core.rules().p_min,
        },
        injected: injected(fabric, outcome),
        convicted: found
            .convicted
            .iter()
            .map(|link| Convicted {
                link: link.link,
                drop_rate: link.drop_rate,
                ci95: link.ci95,
                paths: link.paths,
                packets: link.packets,
                packets_per_spine: link.packets_per_spine,
                at_ms: link.at_ns.0.saturating_sub(link.first_marked_ns.0) as f64 / 1e6,
                reason: Some(match core.test() {
                    agent::core::Test::Sequential => EndReason::Alarm,
                    agent::core::Test::Fixed if config.is_paper() => EndReason::LastPsn,
                    agent::core::Test::Fixed => EndReason::Close,
                }),
            })
            .collect(),
        suspects: found
            .suspects
            .iter()
            .map(|link| Suspect {
                link: link.link,
                missing: link.missing.to_string(),
                drop_rate: link.drop_rate,
                packets: link.packets,
            })
            .collect(),
        tests: core.verdicts().iter().map(window_test).collect(),
        flows: Flows {
            announced: outcome.flows.announced,
            measured: core.counters().ended,
            completed: outcome.flows.completed,
            failed: outcome.flows.failed,
            retransmitted: outcome.flows.retransmitted,
            spurious_retransmits: outcome.flows.spurious,
            sent: outcome.flows.sent,
            received_bytes: outcome.flows.received_bytes,
            cnps: outcome.flows.cnps,
            out_of_order_max: outcome.flows.out_of_order_max,
            ended_us: outcome.flows.ended_ns / 1000,
            host_errors: outcome.host_errors,
        },
        noise: Noise {
            sigma_over_sqrt_lambda: (noise.paths > 0).then_some(noise.sigma_over_sqrt_lambda),
            paths: noise.paths,
        },
        measurement: measurement(plan, fabric, outcome, core),
        conservation: conservation(outcome),
        elapsed_s,
        packet_hops: outcome.packet_hops,
        packet_hops_per_s: if elapsed_s > 0.0 {
            outcome.packet_hops as f64 / elapsed_s
        } else {
            0.0
        },
        fabric_ms: outcome.now.0 / 1_000_000,
        changes: core
            .changes()
            .map(|(at, change)| ChangeAt {
                at_ms: at.0 / 1_000_000,
                change: change.clone(),
            })
            .collect(),
        partial: outcome.ending != Ending::Done,
        reason: match outcome.ending {
            Ending::Done => None,
            Ending::Stopped => Some("signal".into()),
            Ending::Limit => Some("limit".into()),
            Ending::Stuck => Some("a long fabric time without a packet".into()),
        },
    }
}

fn measurement(plan: &Plan<'_>, fabric: &Fabric, outcome: &Run<'_>, core: &Core) -> Measurement {
    let config = plan.config;
    // Switches are made of their configuration alone, and state never grows.
    let bytes = |is_leaf: bool| {
        let of_kind = |switch: &&config::fabric::FabricSwitch| {
            matches!(switch.config.role, pipeline::Role::Leaf(_)) == is_leaf
        };
        let switch = fabric.switches.iter().find(of_kind);
        switch.map_or(0, |switch| {
            Switch::<Frame>::new(&switch.config).measurement_bytes() as u64
        })
    };
    let (messages, message_bytes) = message_cost(config.spines, config.is_paper());
    Measurement {
        test: config.test.word().into(),
        alarms: core.alarms(),
        path_tests: core.path_tests(),
        expected_false_alarms_per_day: core.expected_false_alarms_per_day(outcome.now.0),
        measurement_state_bytes: bytes(true),
        spine_state_bytes: bytes(false),
        messages,
        message_bytes,
    }
}

/// Messages of a window over all of `spines`, and the bytes of their IPv4 frames: an open, and in
/// the paper's protocol nothing else; a second copy of it, and three of the close, on each path.
pub fn message_cost(spines: u16, is_paper: bool) -> (u64, u64) {
    const HEADERS: usize = 14 + 20 + 8;
    let (fanout, paths) = (usize::from(spines), u64::from(spines));
    let open = HEADERS + message_len(fanout, FLAG_SWITCH);
    let close = HEADERS + message_len(fanout, FLAG_SWITCH | FLAG_COUNTS | FLAG_HOP_ROOM);
    let (opens, closes) = if is_paper { (1, 0) } else { (2, 3) };
    let bytes = opens * open as u64 + closes * close as u64;
    (paths * (opens + closes), paths * bytes)
}

fn injected(fabric: &Fabric, outcome: &Run<'_>) -> Vec<Injected> {
    let links = fabric.links.iter().zip(outcome.links);
    links
        .flat_map(|(link, did)| {
            // Nothing else loses packets on a link: where none was to, somebody has told it to.
            let is_added = link.specs.is_empty() && did.lost > 0;
            let added = is_added.then(|| "added while it ran".to_owned());
            let specs = link.specs.iter().cloned().chain(added);
            specs.map(|spec| Injected {
                link: link.link,
                spec,
                packets_seen: did.seen,
                packets_dropped: did.lost,
            })
        })
        .collect()
}

fn window_test(verdict: &Verdict) -> Test {
    let window = &verdict.window;
    let in_state = |wanted: fn(&PathState) -> bool| {
        let tests = verdict.tests.iter().filter(|test| wanted(&test.state));
        tests.map(|test| test.path.spine).collect()
    };
    let judged = || {
        verdict
            .tests
            .iter()
            .filter(|test| !matches!(test.state, PathState::Void(_)))
    };
    let why = verdict.tests.iter().filter_map(|test| {
        let reason = match test.state {
            PathState::Healthy | PathState::Failed => return None,
            PathState::Void(reason) => reason.to_string(),
            PathState::Abstained(reason) => reason.to_string(),
        };
        Some((test.path.spine.to_string(), reason))
    });
    Test {
        src: window.src,
        dst: window.dst,
        qpn: window.qpn.0,
        epoch: window.epoch.0,
        n: window.announced,
        marked: window.marked,
        k: window.usable.len() as u32,
        usable: window.usable.iter().map(|spine| spine.0).collect(),
        lambda: verdict.lambda,
        threshold: judged().map(|test| test.threshold).max_by(f64::total_cmp),
        counts: window.counts.clone(),
        sent: window.sent.clone(),
        congestion_dropped: window.congestion_dropped.clone(),
        failed: in_state(|state| *state == PathState::Failed),
        void: in_state(|state| matches!(state, PathState::Void(_))),
        abstained: in_state(|state| matches!(state, PathState::Abstained(_))),
        min_detectable_rate: judged()
            .filter_map(|test| test.min_detectable_rate)
            .max_by(f64::total_cmp),
        reason: match window.end {
            detector::EndReason::LastPsn => EndReason::LastPsn,
            detector::EndReason::Close => EndReason::Close,
            detector::EndReason::Alarm => EndReason::Alarm,
            detector::EndReason::Timeout => EndReason::Timeout,
        },
        why: why.collect(),
        could_tell: verdict
            .tests
            .iter()
            .filter(|test| matches!(test.state, PathState::Abstained(_)))
            .filter_map(|test| Some((test.path.spine.to_string(), test.min_detectable_rate?)))
            .collect(),
        failures: verdict
            .tests
            .iter()
            .filter(|test| test.state == PathState::Failed)
            .map(failure)
            .collect(),
    }
}

fn failure(test: &detector::PathTest) -> PathFailure {
    PathFailure {
        spine: test.path.spine,
        expected: test.expected,
        lost: test.lost,
        rate: test.rate,
        ci95: test.ci95,
        p_value: test.p_value,
        after_ms: test.at_ns.0.saturating_sub(test.first_marked_ns.0) as f64 / 1e6,
        by_link: test
            .links
            .map(|links| links.map(|link| link.sent.saturating_sub(link.received))),
    }
}

fn conservation(outcome: &Run<'_>) -> Conservation {
    let mut all = of_switches(outcome.switches.iter().map(|(counters, _, _)| counters));
    all.link_injected = outcome.link_injected;
    all.in_flight = outcome.in_flight;
    all.leaked = u64::from(outcome.leaked);
    all.ok = outcome.links_conserved
        && outcome.switches.iter().all(|(_, _, holds)| *holds)
        && outcome.leaked == 0
        && outcome.host_errors == 0;
    all
}

/// The packets of some switches, added up; whether the laws hold is the caller's to say.
pub fn of_switches<'a>(switches: impl Iterator<Item = &'a Counters>) -> Conservation {
    let mut all = Conservation::default();
    for counters in switches {
        all.rx += counters.rx;
        all.generated += counters.generated;
        all.tx += counters.tx;
        all.consumed += counters.consumed;
        all.queued += counters.queued;
        for &reason in DropReason::ALL {
            if counters.dropped(reason) > 0 {
                *all.drops.entry(reason.name().into()).or_default() += counters.dropped(reason);
            }
        }
        for &note in Note::ALL {
            if counters.noted(note) > 0 {
                *all.notes.entry(note.name().into()).or_default() += counters.noted(note);
            }
        }
    }
    all
}

/// What went through one switch.
pub fn of_switch<T: Token>(
    port_names: &[String],
    switch: &Switch<T>,
    conservation_ok: bool,
    elapsed: Duration,
) -> ReplayResult {
    let ports = port_names.iter().enumerate().map(|(index, name)| {
        let counters = switch.port_counters(PortId(index as u16));
        ReplayPort {
            name: name.clone(),
            rx: counters.rx_packets,
            tx: counters.tx_packets,
        }
    });
    replay_result(ports.collect(), switch.counters(), conservation_ok, elapsed)
}

/// What went through ports, with these counters.
pub fn replay_result(
    ports: Vec<ReplayPort>,
    counters: &Counters,
    conservation_ok: bool,
    elapsed: Duration,
) -> ReplayResult {
    let totals = of_switches([counters].into_iter());
    ReplayResult {
        ports,
        counters: ReplayCounters {
            rx: totals.rx,
            generated: totals.generated,
            tx: totals.tx,
            consumed: totals.consumed,
            queued: totals.queued,
            drops: totals.drops,
            notes: totals.notes,
        },
        conservation_ok,
        elapsed_s: elapsed.as_secs_f64(),
        devices: Vec::new(),
    }
}
