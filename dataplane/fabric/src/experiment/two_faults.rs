//! Two bad links at once in a fabric where all send to all: are exactly these named? By where they
//! lie (E20, paper 3.6).

use std::collections::BTreeSet;

use config::{Bytes, FaultList, SimConfig, TestbedConfig, Tie, Workload};
use detector::{LeafId, Link, SpineId};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::json;

use super::catalog::{drops, plain, spines};
use super::claim::Claim;
use super::trial::{Trial, run};
use super::{Cell, Kind, Settings};
use crate::build::SimError;
use crate::engine::Status;
use crate::report::Ending;

const MTU: u64 = 4_096;

/// Where the two links lie.
#[derive(Clone, Copy, Debug)]
pub(super) enum Placement {
    /// From one leaf to two spines.
    OneSource,
    /// From two spines to one leaf.
    OneDestination,
    /// Into one spine and out of it, other leaves at the far ends.
    OneSpine,
    /// No switch has to do with both.
    Apart,
}

const PLACEMENTS: [(Placement, &str); 4] = [
    (Placement::OneSource, "one source leaf"),
    (Placement::OneDestination, "one destination leaf"),
    (Placement::OneSpine, "one spine"),
    (Placement::Apart, "apart"),
];

/// A fabric of k leaves and k spines, and two links that lose so much.
#[derive(Clone, Debug)]
pub(crate) struct TwoFaults {
    k: u16,
    drop: f64,
    tie: Tie,
    placement: Placement,
}

pub(super) fn cells(settings: &Settings) -> Vec<Cell> {
    let seeds = if settings.quick { 2 } else { 50 };
    let mut cells = Vec::new();
    for k in spines(settings, &[8], &[4]) {
        for drop in drops(settings, &[0.02], &[0.02]) {
            for (index, (placement, word)) in PLACEMENTS.into_iter().enumerate() {
                for tie in [Tie::Random, Tie::FewestMeasured] {
                    let two = TwoFaults {
                        k,
                        drop,
                        tie,
                        placement,
                    };
                    cells.push(plain(
                        &[
                            ("spray", json!("jsq2")),
                            ("tie", json!(tie.word())),
                            ("evidence", json!("source-counts")),
                            ("spines", json!(k)),
                            ("drop", json!(drop)),
                            ("faults", json!(2)),
                            ("placement", json!(word)),
                        ],
                        "two bad links are named where each has two victims of its own (3.6)",
                        Claim::Always("exactly both named"),
                        seeds,
                        (tie.word(), index as f64),
                        Kind::Two(two),
                    ));
                }
            }
        }
    }
    cells
}

impl TwoFaults {
    /// The links of a seed.
    fn links(&self, seed: u64) -> [Link; 2] {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x7277_6f66_6175_6c74);
        let mut two = || {
            let k = u64::from(self.k);
            let first = random.next_u64() % k;
            let second = (first + 1 + random.next_u64() % (k - 1)) % k;
            [first as u16, second as u16]
        };
        let ([a, b], [x, y]) = (two(), two());
        let up = |leaf, spine| Link::Up {
            leaf: LeafId(leaf),
            spine: SpineId(spine),
        };
        let down = |spine, leaf| Link::Down {
            spine: SpineId(spine),
            leaf: LeafId(leaf),
        };
        match self.placement {
            Placement::OneSource => [up(a, x), up(a, y)],
            Placement::OneDestination => [down(x, a), down(y, a)],
            Placement::OneSpine => [up(a, x), down(x, b)],
            Placement::Apart => [up(a, x), down(y, b)],
        }
    }

    pub(crate) fn run(
        &self,
        seed: u64,
        watch: &mut dyn FnMut(&Status) -> Option<Ending>,
    ) -> Result<Option<Trial>, SimError> {
        let links = self.links(seed);
        let config = all_to_all(self.k, &links, self.drop, self.tie, seed)?;
        let Some(mut engine) = run(&SimConfig::of(config), watch)? else {
            return Ok(None);
        };
        let found = engine.core.locate();
        let named: BTreeSet<String> = found.convicted.iter().map(|c| c.link.to_string()).collect();
        let wanted: BTreeSet<String> = links.iter().map(Link::to_string).collect();
        Ok(Some(Trial {
            hops: engine.hops(),
            figures: vec![f64::from(u8::from(named == wanted))],
            ..Trial::default()
        }))
    }
}

/// k x k, one flow for each pair of hosts, of as many packets as its test needs.
pub(super) fn all_to_all(
    k: u16,
    links: &[Link],
    drop: f64,
    tie: Tie,
    seed: u64,
) -> Result<TestbedConfig, SimError> {
    let faults: Vec<String> = links
        .iter()
        .map(|link| format!("{link}:drop={drop}"))
        .collect();
    let faults = FaultList::read(faults.iter().map(String::as_str));
    let faults = faults.map_err(|error| config::ConfigError::new("faults", error.to_string()))?;
    let base = TestbedConfig::resolve(None, SimConfig::base())?;
    let config = TestbedConfig {
        leaves: k,
        spines: k,
        workload: Workload::AllToAll,
        qps: 1,
        tie,
        faults,
        seed,
        ..base
    };
    // Some more than P_min: an uneven spray gives some spines fewer.
    let packets = config.rules().p_min * 11 / 10 + 64;
    Ok(TestbedConfig {
        bytes: Bytes::new(packets * u64::from(k) * MTU),
        ..config
    })
}
