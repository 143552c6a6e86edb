//! One run of an experiment, and what is kept of it.

use std::collections::BTreeMap;

use config::{
    Bytes, Change, Evidence, FaultList, LinkList, Mark, Rate, SimConfig, Spray, TestbedConfig, Tie,
    Time, Traffic, Workload,
};
use detector::{LeafId, Link, SpineId};
use serde::{Deserialize, Serialize};

use crate::build::SimError;
use crate::engine::{Engine, Status};
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
/// has the faults.
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
        }
    }

    fn config(&self, seed: u64) -> Result<SimConfig, SimError> {
        let base = TestbedConfig::resolve(None, SimConfig::base())?;
        let usable = u64::from(self.spines - self.disabled);
        let hosts_bps = f64::from(self.hosts) * HOST_BPS as f64;
        let link_bps = (hosts_bps / (f64::from(self.spines) * self.load)).round() as u64;
        let faults: Vec<String> = (0..self.faults)
            .map(|spine| format!("leaf0>spine{spine}:drop={}", self.drop))
            .collect();
        let disabled: Vec<String> = (self.spines - self.disabled..self.spines)
            .map(|spine| format!("leaf0-spine{spine}"))
            .collect();
        let read = |texts: &[String]| FaultList::read(texts.iter().map(String::as_str));
        let wrong = |error: config::fault::FaultError| {
            config::ConfigError::new("faults", error.to_string())
        };
        let testbed = TestbedConfig {
            leaves: self.spines.max(2),
            spines: self.spines,
            hosts_per_leaf: self.hosts,
            link_rate: Rate::new(link_bps),
            host_rate: Rate::new(HOST_BPS),
            workload: Workload::Pairs,
            bytes: Bytes::new(self.packets_per_spine * usable * MTU),
            qps: 1,
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
                workload: Workload::Pairs,
                bytes: Bytes::new(other.bytes),
                qps: 1,
                iterations: 1,
                announced: false,
            };
            (Time::new(1000 * other.at_us), Change::Start(traffic))
        });
        Ok(SimConfig {
            slice: vec![LeafId(0), LeafId(1)],
            changes: other.into_iter().collect(),
            ..SimConfig::of(testbed)
        })
    }

    pub(crate) fn run(
        &self,
        seed: u64,
        watch: &mut dyn FnMut(&Status) -> Option<Ending>,
    ) -> Result<Option<Trial>, SimError> {
        let config = self.config(seed)?;
        let mut engine = Engine::new(&config)?;
        if engine.run(watch) != Ending::Done {
            return Ok(None);
        }
        engine.end();
        let account = engine.account();
        let is_conserved = account.links_conserved
            && account.leaked == 0
            && account.host_errors == 0
            && account.switches.iter().all(|(_, _, holds)| *holds);
        assert!(
            is_conserved,
            "packets are unaccounted for, seed {seed} of {self:?}: {account:?}"
        );
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
        let mut sums: BTreeMap<(LeafId, LeafId, SpineId), (f64, u64)> = BTreeMap::new();
        for verdict in engine.core().verdicts() {
            let window = &verdict.window;
            trial.congestion += window.congestion_dropped.iter().sum::<u64>();
            for (&spine, &count) in window.usable.iter().zip(&window.counts) {
                let sum = sums.entry((window.src, window.dst, spine)).or_default();
                sum.0 += verdict.lambda;
                sum.1 += count;
            }
        }
        for ((src, _, spine), (lambda, count)) in sums {
            if lambda <= 0.0 {
                continue;
            }
            let deficit = (lambda - count as f64) / lambda.sqrt();
            let up = Link::Up { leaf: src, spine };
            let is_failed = src == LeafId(0) && spine.0 < self.faults && self.drop > 0.0;
            debug_assert!(up.leaf() == src);
            match is_failed {
                true => trial.failed.push(deficit),
                false => trial.healthy.push(deficit),
            }
        }
    }
}
