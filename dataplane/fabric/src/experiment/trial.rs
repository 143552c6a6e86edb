//! One run of an experiment, and what is kept of it.

use std::collections::BTreeMap;

use config::{
    Announce, Bytes, Change, Dcqcn, Evidence, FaultList, LinkList, Mark, Rate, SimConfig, Spray,
    TestbedConfig, Tie, Time, Traffic, Workload,
};
use detector::{LeafId, SpineId};
use serde::{Deserialize, Serialize};

use crate::build::SimError;
use crate::engine::{Engine, Status};
use crate::plan::Plan;
use crate::report::Ending;

/// Rate of a host's link.
const HOST_BPS: u64 = 100_000_000_000;
/// Bytes of a packet's payload.
const MTU: u64 = 4096;
/// Packets that a connection may have in flight: more than any load here needs, so that hosts send
/// at their rate.
const WINDOW_PACKETS: u32 = 1024;

/// What is kept of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Trial {
    /// (lambda - X)/sqrt(lambda) of every path without a fault.
    pub healthy: Vec<f64>,
    /// The same of those with one.
    pub failed: Vec<f64>,
    /// The farthest that a packet came behind a later one of its flow.
    pub behind_max: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Packets that our own queues dropped.
    pub congestion: u64,
    /// Link traversals.
    pub hops: u64,
    /// What else the experiment measures; which, its claim says.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<f64>,
}

/// Traffic that begins beside the measured flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Other {
    /// When, in microseconds.
    pub(crate) at_us: u64,
    /// What each host sends.
    pub(crate) bytes: u64,
}

/// Two leaves that send to each other over `spines`: a slice of a fabric of as many leaves. Leaf 0
/// has the faults. Or an incast: leaves 1 and on send to the host of leaf 0, and leaf 1 has them.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) spines: u16,
    pub(crate) hosts: u16,
    pub(crate) packets_per_spine: u64,
    pub(crate) spray: Spray,
    pub(crate) tie: Tie,
    pub(crate) mark: Mark,
    /// Rate of a leaf's hosts over that of its uplinks.
    pub(crate) load: f64,
    /// Loss rate of the first so many uplinks of leaf 0.
    pub(crate) drop: f64,
    pub(crate) faults: u16,
    /// So many uplinks of leaf 0, the last ones, are known failures.
    pub(crate) disabled: u16,
    pub(crate) other: Option<Other>,
    /// The other traffic goes to other leaves, which the last spine does not reach: it leaves that
    /// spine to the measured flow.
    pub(crate) is_uneven: bool,
    /// Whether the measured flow has a queue of its own, as switches have it. Without, all traffic
    /// shares it.
    pub(crate) has_priority: bool,
    /// What a path's deficit is counted against: lambda, or what was sent over it.
    pub(crate) evidence: Evidence,
    /// The packets come as so many flows, each once the window of the one before is settled.
    pub(crate) parts: u32,
    /// Queues mark congestion, and hosts heed it so.
    pub(crate) dcqcn: Option<Dcqcn>,
    /// Leaves of an incast that send; 0 for a pair.
    pub(crate) senders: u16,
    /// Whether switches are told of flows, and so measure them.
    pub(crate) is_announced: bool,
}

impl Setup {
    pub(crate) fn new(spines: u16, packets_per_spine: u64, load: f64) -> Setup {
        Setup {
            spines,
            hosts: 1,
            packets_per_spine,
            spray: Spray::Jsq2,
            tie: Tie::Random,
            mark: Mark::All,
            load,
            drop: 0.0,
            faults: 0,
            disabled: 0,
            other: None,
            is_uneven: false,
            has_priority: true,
            evidence: Evidence::ReceiveOnly,
            parts: 1,
            dcqcn: None,
            senders: 0,
            is_announced: true,
        }
    }

    /// The leaf whose uplinks are bad.
    fn bad_leaf(&self) -> u16 {
        u16::from(self.senders > 0)
    }

    pub(crate) fn config(&self, seed: u64) -> Result<SimConfig, SimError> {
        let base = TestbedConfig::resolve(None, SimConfig::base())?;
        let usable = u64::from(self.spines - self.disabled);
        let hosts_bps = f64::from(self.hosts) * HOST_BPS as f64;
        let link_bps = (hosts_bps / (f64::from(self.spines) * self.load)).round() as u64;
        let faults: Vec<String> = (0..self.faults)
            .map(|spine| format!("leaf{}>spine{spine}:drop={}", self.bad_leaf(), self.drop))
            .collect();
        let mut disabled: Vec<String> = (self.spines - self.disabled..self.spines)
            .map(|spine| format!("leaf0-spine{spine}"))
            .collect();
        if self.is_uneven {
            disabled.push(format!("leaf2-spine{}", self.spines - 1));
        }
        let read = |texts: &[String]| FaultList::read(texts.iter().map(String::as_str));
        let wrong = |error: config::fault::FaultError| {
            config::ConfigError::new("faults", error.to_string())
        };
        let testbed = TestbedConfig {
            leaves: match self.senders {
                // Leaf 0 sends to leaf 1, and to leaf 2 what is not measured.
                0 if self.is_uneven => 4,
                0 => self.spines.max(2),
                senders => senders + 1,
            },
            spines: self.spines,
            hosts_per_leaf: self.hosts,
            link_rate: Rate::new(link_bps),
            host_rate: Rate::new(HOST_BPS),
            workload: match self.senders {
                0 => Workload::Pairs,
                _ => Workload::Incast,
            },
            bytes: Bytes::new(self.packets_per_spine * usable * MTU / u64::from(self.parts)),
            qps: 1,
            ecn: self.dcqcn.is_some(),
            dcqcn: self.dcqcn,
            spray: self.spray,
            tie: self.tie,
            mark: self.mark,
            // The exact close tells N; what is judged is the count of arrivals alone.
            evidence: Evidence::SourceCounts,
            window_packets: WINDOW_PACKETS,
            faults: read(&faults).map_err(wrong)?,
            disabled: LinkList::read(disabled.iter().map(String::as_str)).map_err(wrong)?,
            p_min: Some(1),
            seed,
            ..base
        };
        let other = self.other.map(|other| {
            let traffic = Traffic {
                workload: match self.is_uneven {
                    true => Workload::Permutation,
                    false => Workload::Pairs,
                },
                bytes: Bytes::new(other.bytes),
                qps: 1,
                iterations: 1,
                announced: false,
            };
            (Time::new(1000 * other.at_us), Change::Start(traffic))
        });
        let mut changes: Vec<(Time, Change)> = other.into_iter().collect();
        let mut testbed = testbed;
        if !self.is_announced || self.parts > 1 {
            // The same flows as changes: switches are not told of them, or they come one by one.
            let traffic = Traffic {
                workload: testbed.workload,
                bytes: testbed.bytes,
                qps: 1,
                iterations: 1,
                announced: self.is_announced,
            };
            let every_ns = self.part_ns(&testbed);
            let starts = (0..u64::from(self.parts)).map(|part| Time::new(part * every_ns));
            changes.extend(starts.map(|at| (at, Change::Start(traffic))));
            changes.sort_by_key(|(time, _)| time.nanos());
            testbed.workload = Workload::Idle;
            debug_assert!(
                testbed.announce == Announce::Host,
                "or leaves look for flows"
            );
        }
        Ok(SimConfig {
            slice: match self.senders {
                0 if !self.is_uneven => vec![LeafId(0), LeafId(1)],
                _ => Vec::new(),
            },
            changes,
            ..SimConfig::of(testbed)
        })
    }

    /// From one of the flows to the next: a leaf measures one once the last is settled.
    fn part_ns(&self, testbed: &TestbedConfig) -> u64 {
        let settle_ns = Plan { config: testbed }.settle_ns();
        // Half as much again as the bytes take on the host's link: headers, losses, the way.
        let sent_ns = testbed.bytes.bytes() * 12_000_000_000 / HOST_BPS;
        2 * settle_ns + sent_ns
    }

    /// One trial. The sensitivity is fixed with priority (`is_calibration`) also for rows without.
    pub(crate) fn run(
        &self,
        seed: u64,
        is_calibration: bool,
        watch: &mut dyn FnMut(&Status) -> Option<Ending>,
    ) -> Result<Option<Trial>, SimError> {
        let mut engine = Engine::new(&self.config(seed)?)?;
        if !self.has_priority && !is_calibration {
            engine.forgo_priority();
        }
        let Some(engine) = run_engine(engine, watch) else {
            return Ok(None);
        };
        let account = engine.account();
        let mut trial = Trial {
            hops: engine.hops(),
            behind_max: engine.behind_max(),
            retransmitted: account.flows.retransmitted,
            ..Trial::default()
        };
        self.read(&engine, &mut trial);
        Ok(Some(trial))
    }

    /// Adds up all windows of each pair of leaves.
    fn read(&self, engine: &Engine, trial: &mut Trial) {
        let mut paths = Paths::default();
        for verdict in engine.core().verdicts() {
            let window = &verdict.window;
            for (place, (&spine, &count)) in window.usable.iter().zip(&window.counts).enumerate() {
                let sent = window.sent.as_ref().map(|sent| sent[place]);
                paths.add(
                    self,
                    (window.src, spine, window.dst),
                    (verdict.lambda, sent, window.congestion_dropped[place]),
                    count,
                );
            }
        }
        paths.tell(self, trial);
    }
}

/// What the paths of a run were expected to bring, and brought, over all windows.
#[derive(Default)]
pub(super) struct Paths {
    sums: BTreeMap<(LeafId, SpineId, LeafId), (f64, f64)>,
    congestion: u64,
}

impl Paths {
    /// A path's part of a window: lambda, what was sent over it if that is known, what own queues have
    /// dropped of it; and its count.
    pub(super) fn add(
        &mut self,
        setup: &Setup,
        path: (LeafId, SpineId, LeafId),
        (lambda, sent, dropped): (f64, Option<u64>, u64),
        count: u64,
    ) {
        let expected = match (setup.evidence, sent) {
            (Evidence::ReceiveOnly, _) | (_, None) => lambda,
            (_, Some(sent)) => sent.saturating_sub(dropped) as f64,
        };
        let sum = self.sums.entry(path).or_default();
        sum.0 += expected;
        sum.1 += count as f64;
        self.congestion += dropped;
    }

    /// Deficits of healthy and of failed paths.
    pub(super) fn tell(self, setup: &Setup, trial: &mut Trial) {
        trial.congestion += self.congestion;
        for ((src, spine, _), (expected, count)) in self.sums {
            if expected <= 0.0 {
                continue;
            }
            let deficit = (expected - count) / expected.sqrt();
            let is_bad = src.0 == setup.bad_leaf() && spine.0 < setup.faults && setup.drop > 0.0;
            match is_bad {
                true => {
                    trial.failed.push(deficit);
                    trial.figures = vec![expected];
                }
                false => trial.healthy.push(deficit),
            }
        }
    }
}

/// Runs a simulation to its end and judges what is left; `None` if it was stopped. What is not
/// accounted for ends the command.
pub(super) fn run(
    config: &SimConfig,
    watch: &mut dyn FnMut(&Status) -> Option<Ending>,
) -> Result<Option<Engine>, SimError> {
    Ok(run_engine(Engine::new(config)?, watch))
}

/// The same of an engine that was built.
fn run_engine(
    mut engine: Engine,
    watch: &mut dyn FnMut(&Status) -> Option<Ending>,
) -> Option<Engine> {
    if engine.run(watch) != Ending::Done {
        return None;
    }
    engine.end();
    demand_conservation(&engine);
    Some(engine)
}

/// What is not accounted for ends the command.
pub(super) fn demand_conservation(engine: &Engine) {
    let account = engine.account();
    let is_conserved = account.links_conserved
        && account.leaked == 0
        && account.host_errors == 0
        && account.switches.iter().all(|(_, _, holds)| *holds);
    let config = &engine.config;
    let seed = config.testbed.seed;
    assert!(
        is_conserved,
        "packets are unaccounted for, seed {seed} of {config:?}: {account:?}"
    );
}
