//! Head to head: one bad link, and how long until it is named, by this project's tests, by probing
//! with votes and by a rule of one percent.
//!
//! Probing is R-Pingmesh's idea at its best: ten probes a second over every path and back, nothing
//! else lost but what healthy links may lose, each lost probe a vote for the four links of its way.
//! Both directions of a cable get the same votes, so a cable is named: when it alone has the most,
//! and three at least. The rule is FlowPulse's idea: a path is bad whose count in a window lies more
//! than one percent below its share.

use config::{Bytes, PathTest, SimConfig, TestbedConfig, Tie};
use detector::{LeafId, Link, SpineId};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde_json::json;

use super::catalog::{drops, plain, spines};
use super::claim::Claim;
use super::trial::{Trial, demand_conservation, run};
use super::two_faults::all_to_all;
use super::{Cell, Kind, Settings};
use crate::build::SimError;
use crate::engine::{Engine, Status};
use crate::report::Ending;

/// Probes per second and path.
const PROBES_PER_S: f64 = 10.0;
/// Votes before a cable is named.
const VOTES_MIN: u32 = 3;
/// Seconds of probing at most.
const PROBING_S: u32 = 600;
/// Loss rate of healthy links: what the detector tolerates.
const HEALTHY: f64 = detector::rules::DEFAULT_P0;
/// Bytes of a queue. A leaf opens its next window once the one before is settled, and what that takes
/// grows with the queues: with 10 MiB the sequential test's short windows would see little of a flow.
const QUEUE_BYTES: u64 = 1 << 20;
/// Hops between two looks at what is named: 0.2 ms of a fabric of 8 x 8.
const HOPS_PER_LOOK: u64 = 20_000;
/// The rule's percent.
const IMBALANCE: f64 = 0.01;

/// By what the link is to be found.
#[derive(Clone, Copy, Debug)]
enum By {
    Fixed,
    Sequential,
    Probing,
    OnePercent,
}

/// A k x k fabric with a bad link.
#[derive(Clone, Debug)]
pub(crate) struct Versus {
    k: u16,
    drop: f64,
    tie: Tie,
    by: By,
}

const WAYS: [(By, Tie, &str); 6] = [
    (
        By::Fixed,
        Tie::Random,
        "source counts, fixed test, ties random",
    ),
    (By::Fixed, Tie::FewestMeasured, "source counts, fixed test"),
    (
        By::Sequential,
        Tie::FewestMeasured,
        "source counts, sequential test",
    ),
    (By::Probing, Tie::Random, "probing with votes"),
    (By::OnePercent, Tie::Random, "one percent, ties random"),
    (By::OnePercent, Tie::FewestMeasured, "one percent"),
];

pub(super) fn cells(settings: &Settings) -> Vec<Cell> {
    let seeds = if settings.quick { 2 } else { 50 };
    let mut cells = Vec::new();
    for k in spines(settings, &[8], &[4]) {
        for drop in drops(settings, &[0.005, 0.01, 0.015], &[0.005, 0.015]) {
            for (by, tie, word) in WAYS {
                let (tie_word, versus) = (tie.word(), Versus { k, drop, tie, by });
                cells.push(plain(
                    &[
                        ("spray", json!("jsq2")),
                        ("tie", json!(tie_word)),
                        ("spines", json!(k)),
                        ("drop", json!(drop)),
                        ("faults", json!(1)),
                        ("by", json!(word)),
                    ],
                    "the link is named, and no other",
                    Claim::Named,
                    seeds,
                    (word, drop),
                    Kind::Versus(versus),
                ));
            }
        }
    }
    cells
}

impl Versus {
    pub(crate) fn run(
        &self,
        seed: u64,
        watch: &mut dyn FnMut(&Status) -> Option<Ending>,
    ) -> Result<Option<Trial>, SimError> {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x0076_6572_7375_7321);
        let k = u64::from(self.k);
        let leaf = (random.next_u64() % k) as u16;
        let spine = (random.next_u64() % k) as u16;
        let link = Link::Up {
            leaf: LeafId(leaf),
            spine: SpineId(spine),
        };
        if let By::Probing = self.by {
            return Ok(Some(self.probe(link, &mut random)));
        }
        let config = TestbedConfig {
            test: match self.by {
                By::Sequential => PathTest::Sequential,
                _ => PathTest::Fixed,
            },
            queue_limit: Bytes::new(QUEUE_BYTES),
            ..all_to_all(self.k, &[link], self.drop, self.tie, seed)?
        };
        let config = SimConfig::of(config);
        let ran = match self.by {
            By::OnePercent => run(&config, watch)?.map(|engine| {
                let figures = by_percent(&engine, link);
                (engine, figures)
            }),
            _ => by_tests(&config, link, watch)?,
        };
        let Some((engine, figures)) = ran else {
            return Ok(None);
        };
        Ok(Some(Trial {
            hops: engine.hops(),
            figures,
            ..Trial::default()
        }))
    }

    fn probe(&self, bad: Link, random: &mut Xoshiro256PlusPlus) -> Trial {
        let k = usize::from(self.k);
        let mut chance = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        let mut votes = vec![0u32; k * k];
        let (bad_leaf, bad_spine) = (usize::from(bad.leaf().0), usize::from(bad.spine().0));
        let mut trial = Trial {
            figures: vec![0.0, 0.0, 0.0, 0.0],
            ..Trial::default()
        };
        for round in 1..=(PROBING_S * PROBES_PER_S as u32) {
            for src in 0..k {
                for dst in (0..k).filter(|&dst| dst != src) {
                    for spine in 0..k {
                        // There and back: the bad link is passed once if at all.
                        let is_over = spine == bad_spine && (src == bad_leaf || dst == bad_leaf);
                        let healthy = (1.0 - HEALTHY).powi(4 - i32::from(is_over));
                        let kept = if is_over { 1.0 - self.drop } else { 1.0 };
                        if chance() >= healthy * kept {
                            votes[src * k + spine] += 1;
                            votes[dst * k + spine] += 1;
                        }
                    }
                }
            }
            let most = votes.iter().copied().max().unwrap_or(0);
            let mut first = (0..votes.len()).filter(|&cable| votes[cable] == most);
            if let (Some(cable), None) = (first.next(), first.next())
                && most >= VOTES_MIN
            {
                let is_right = cable == bad_leaf * k + bad_spine;
                let probes = f64::from(round) * (k * (k - 1) * k) as f64;
                trial.figures = vec![
                    f64::from(u8::from(is_right)),
                    f64::from(round) / PROBES_PER_S,
                    probes,
                    f64::from(u8::from(!is_right)),
                ];
                return trial;
            }
        }
        trial
    }
}

/// An engine that has run, and the figures of the trial.
type Ran = Option<(Engine, Vec<f64>)>;

/// Named, seconds since the first measured packet, packets of the evidence, links named wrongly.
fn by_tests(
    config: &SimConfig,
    link: Link,
    watch: &mut dyn FnMut(&Status) -> Option<Ending>,
) -> Result<Ran, SimError> {
    let mut engine = Engine::new(config)?;
    let mut named = None;
    loop {
        let goes_on = engine.run_hops(HOPS_PER_LOOK);
        if watch(&engine.status()).is_some() {
            return Ok(None);
        }
        if !goes_on {
            engine.end();
        }
        if named.is_none() {
            let now_ns = engine.status().now_ns;
            let found = engine.core.locate();
            let found = found.convicted.iter().find(|c| c.link == link);
            named = found.map(|found| (now_ns, found.packets));
        }
        if !goes_on {
            break;
        }
    }
    demand_conservation(&engine);
    let wrong = engine.core.locate();
    let wrong = wrong.convicted.iter().filter(|c| c.link != link).count() as f64;
    let figures = match named {
        None => vec![0.0, 0.0, 0.0, wrong],
        Some((now_ns, packets)) => {
            let ns = now_ns.saturating_sub(begun_ns(&engine));
            vec![1.0, ns as f64 / 1e9, packets as f64, wrong]
        }
    };
    Ok(Some((engine, figures)))
}

/// When the first packet was measured.
fn begun_ns(engine: &Engine) -> u64 {
    let verdicts = engine.core().verdicts().iter();
    let begun = verdicts.map(|v| v.window.first_marked_ns.0).min();
    begun.unwrap_or(0)
}

/// The same by the rule: the first path over the link that it calls bad, and all others that it did.
fn by_percent(engine: &Engine, link: Link) -> Vec<f64> {
    let verdicts = engine.core().verdicts();
    let begun_ns = begun_ns(engine);
    let mut figures = vec![0.0; 4];
    for verdict in verdicts {
        let window = &verdict.window;
        for (&spine, &count) in window.usable.iter().zip(&window.counts) {
            if count as f64 >= (1.0 - IMBALANCE) * verdict.lambda {
                continue;
            }
            if (window.src, spine) != (link.leaf(), link.spine()) {
                figures[3] += 1.0;
            } else if figures[0] == 0.0 {
                let ns = window.closed_ns.0.saturating_sub(begun_ns);
                (figures[0], figures[1]) = (1.0, ns as f64 / 1e9);
                figures[2] = window.counts.iter().sum::<u64>() as f64;
            }
        }
    }
    figures
}
