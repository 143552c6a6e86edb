//! The experiments: which settings, how many seeds, and what is claimed.
//!
//! Claims are those of the SprayCheck paper (arXiv 2605.03702), by figure or section. Each is tried
//! at the paper's own spraying first: JSQ(2), a coin for ties, all copies marked; at the load where
//! the paper's packet counts can hold, and at that of one host per leaf at the rate of an uplink.
//! Then, like for like, the same spraying judged by source counts; then ours, ties to the fewest
//! marked packets and first copies marked.

use config::{Evidence, Mark, Spray, Tie};
use serde_json::{Map, Value, json};

use super::claim::Claim;
use super::trial::{Other, Setup};
use super::{
    Cell, Kind, Settings, congestion, cost, edges, normality, table1, testbed, two_faults, versus,
};

/// An experiment.
#[derive(Clone, Copy)]
pub struct Experiment {
    /// As it is typed.
    pub name: &'static str,
    /// Numbers of the claims, as in docs/simulator.md.
    pub claims: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// What the plot's axes are.
    pub axes: [&'static str; 2],
    make: fn(&Settings) -> Vec<Cell>,
}

impl Experiment {
    /// The experiment of such a name.
    pub fn of(name: &str) -> Option<&'static Experiment> {
        EXPERIMENTS.iter().find(|known| known.name == name)
    }

    /// Its cells.
    pub fn cells(&self, settings: &Settings) -> Vec<Cell> {
        let mut cells = (self.make)(settings);
        if let Some(seeds) = settings.seeds {
            let runs = |cell: &&mut Cell| !matches!(cell.kind, Kind::Sum(_));
            cells
                .iter_mut()
                .filter(runs)
                .for_each(|cell| cell.seeds = seeds);
        }
        for cell in &mut cells {
            if let Claim::Separable
            | Claim::Inseparable
            | Claim::MissesOnly
            | Claim::NoFalse
            | Claim::SomeFalse = cell.claim
            {
                cell.calibration = (cell.seeds / 4).max(2);
            }
        }
        cells
    }
}

/// All of them.
pub const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "noise",
        claims: "E1",
        about: "how evenly each way of spraying uses the spines, by load (Fig. 2)",
        axes: ["load of the uplinks", "sd of a count, in sqrt(lambda)"],
        make: noise,
    },
    Experiment {
        name: "normality",
        claims: "E2, E3",
        about: "whether counts follow a normal law, and how signal and noise grow",
        axes: ["lambda", "D*sqrt(n), or SNR"],
        make: normality::cells,
    },
    Experiment {
        name: "roc",
        claims: "E4",
        about: "loss rates told apart on 8 spines with 500,000 packets each (Fig. 8)",
        axes: ["loss rate", "FPR + FNR"],
        make: roc,
    },
    Experiment {
        name: "testbed",
        claims: "E5",
        about: "the same on the DPDK data plane, beside the simulator (Fig. 8)",
        axes: ["loss rate", "FPR + FNR"],
        make: testbed::cells,
    },
    Experiment {
        name: "size",
        claims: "E6, E7",
        about: "the paper's P_min on 8 to 64 spines (Fig. 9)",
        axes: ["spines", "FPR + FNR"],
        make: size,
    },
    Experiment {
        name: "reorder",
        claims: "E14, E15",
        about: "how far packets come behind later ones of their flow",
        axes: ["load of the uplinks", "packets behind at most"],
        make: reorder,
    },
    Experiment {
        name: "many-faults",
        claims: "E8, E9",
        about: "several bad links at once (App. A)",
        axes: ["bad links of leaf 0", "FPR + FNR"],
        make: many_faults,
    },
    Experiment {
        name: "two-faults",
        claims: "E20",
        about: "two bad links at once, named exactly, by where they lie",
        axes: ["placement", "share of runs named exactly"],
        make: two_faults::cells,
    },
    Experiment {
        name: "congestion",
        claims: "E10",
        about: "incast under ECN and three DCQCN settings (App. A)",
        axes: ["setting", "FPR + FNR"],
        make: congestion::cells,
    },
    Experiment {
        name: "known-failures",
        claims: "E11",
        about: "uplinks that routing does not use (App. A)",
        axes: ["uplinks known to be gone", "FPR + FNR"],
        make: known_failures,
    },
    Experiment {
        name: "overlap",
        claims: "E12",
        about: "other flows beside the measured one on an uneven fabric (Fig. 10a)",
        axes: ["timeline", "FPR + FNR"],
        make: overlap,
    },
    Experiment {
        name: "cost",
        claims: "E13",
        about: "what measuring costs other traffic (5.6)",
        axes: ["load of the uplinks", "share, or slowdown"],
        make: cost::cells,
    },
    Experiment {
        name: "table1",
        claims: "E16",
        about: "iterations of Llama-3 70B until detection (Table 1)",
        axes: ["loss rate", "iterations"],
        make: table1::cells,
    },
    Experiment {
        name: "edges",
        claims: "E17 to E19, E21 to E24",
        about: "memory, late thresholds, coverage, lost tails, added flows, scale, lifetime",
        axes: ["row", "figure"],
        make: edges::cells,
    },
    Experiment {
        name: "versus",
        claims: "head-to-head",
        about: "the same fault seen by probing with votes and by a one-percent rule",
        axes: ["loss rate", "seconds until named, median"],
        make: versus::cells,
    },
];

/// Which spraying a cell has, in words.
#[derive(Clone, Copy)]
pub(super) enum Way {
    Random,
    RoundRobin,
    Paper,
    LikeForLike,
    Ours,
}

/// Those that are compared.
pub(super) const WAYS: [Way; 3] = [Way::Paper, Way::LikeForLike, Way::Ours];

impl Way {
    pub(super) fn apply(self, setup: Setup) -> Setup {
        let (spray, tie, mark) = match self {
            Way::Random => (Spray::Random, Tie::Random, Mark::All),
            Way::RoundRobin => (Spray::RoundRobin, Tie::Random, Mark::All),
            Way::Paper => (Spray::Jsq2, Tie::Random, Mark::All),
            Way::LikeForLike => (Spray::Jsq2, Tie::Random, Mark::First),
            Way::Ours => (Spray::Jsq2, Tie::FewestMeasured, Mark::First),
        };
        let evidence = match self {
            Way::LikeForLike => Evidence::SourceCounts,
            _ => setup.evidence,
        };
        Setup {
            spray,
            tie,
            mark,
            evidence,
            ..setup
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Way::Random => "random",
            Way::RoundRobin => "round-robin",
            Way::Paper => "jsq2, ties random",
            Way::LikeForLike => "the same, source counts",
            Way::Ours => "jsq2, ties fewest-measured",
        }
    }
}

pub(super) fn cell(
    way: Way,
    setup: Setup,
    claimed: &str,
    claim: Claim,
    seeds: u32,
    x: f64,
) -> Cell {
    let setup = way.apply(setup);
    let mut parameters = Map::new();
    let mut put = |key: &str, value: Value| parameters.insert(key.to_owned(), value);
    put("spray", json!(setup.spray.word()));
    put("tie", json!(setup.tie.word()));
    put("mark", json!(setup.mark.word()));
    put("evidence", json!(setup.evidence.word()));
    put("spines", json!(setup.spines));
    put("load", json!(setup.load));
    put("packets_per_spine", json!(setup.packets_per_spine));
    put("drop", json!(setup.drop));
    put("faults", json!(setup.faults));
    put("disabled", json!(setup.disabled));
    Cell {
        parameters,
        claimed: claimed.to_owned(),
        series: format!("{}, k = {}", way.name(), setup.spines),
        x,
        seeds,
        calibration: 0,
        kind: Kind::Paths(setup),
        claim,
    }
}

/// A cell of another kind.
pub(super) fn plain(
    parameters: &[(&str, Value)],
    claimed: &str,
    claim: Claim,
    seeds: u32,
    (series, x): (&str, f64),
    kind: Kind,
) -> Cell {
    let parameters = parameters.iter();
    Cell {
        parameters: parameters
            .map(|(k, v)| ((*k).to_owned(), v.clone()))
            .collect(),
        claimed: claimed.to_owned(),
        series: series.to_owned(),
        x,
        seeds,
        calibration: 0,
        kind,
        claim,
    }
}

pub(super) fn spines(settings: &Settings, full: &[u16], quick: &[u16]) -> Vec<u16> {
    match (&settings.spines[..], settings.quick) {
        ([], true) => quick.to_vec(),
        ([], false) => full.to_vec(),
        (chosen, _) => chosen.to_vec(),
    }
}

pub(super) fn drops(settings: &Settings, full: &[f64], quick: &[f64]) -> Vec<f64> {
    match (&settings.drops[..], settings.quick) {
        ([], true) => quick.to_vec(),
        ([], false) => full.to_vec(),
        (chosen, _) => chosen.to_vec(),
    }
}

/// The load of one host at the rate of one uplink, and loads at which uplinks queue.
pub(super) fn loads(settings: &Settings, spines: u16, full: &[f64]) -> Vec<f64> {
    match settings.load {
        Some(load) => vec![load],
        None => std::iter::once(1.0 / f64::from(spines))
            .chain(full.iter().copied())
            .collect(),
    }
}

fn noise(settings: &Settings) -> Vec<Cell> {
    let (packets, seeds) = if settings.quick { (500, 4) } else { (4096, 20) };
    let mut cells = Vec::new();
    for k in spines(settings, &[8, 64], &[8]) {
        // A multinomial count: sqrt(1 - 1/k) of sqrt(lambda).
        let random = (1.0 - 1.0 / f64::from(k)).sqrt();
        for load in loads(settings, k, &[0.5, 0.75, 0.9, 0.97]) {
            let setup = Setup::new(k, packets, load);
            for (way, claimed, claim) in [
                (Way::Random, "random: sqrt(1 - 1/k)", Claim::NoiseIs(random)),
                (Way::RoundRobin, "even", Claim::NoiseBelow(0.1)),
                (
                    Way::Paper,
                    "tighter than random (Fig. 2)",
                    Claim::NoiseBelow(random),
                ),
                (
                    Way::Ours,
                    "tighter than random (Fig. 2)",
                    Claim::NoiseBelow(random),
                ),
            ] {
                cells.push(cell(way, setup.clone(), claimed, claim, seeds, load));
            }
        }
    }
    cells
}

/// Packets per spine, seeds and loss rates of Fig. 8.
pub(super) fn fig_8(settings: &Settings) -> (u64, u32, Vec<f64>) {
    let (packets, seeds) = if settings.quick {
        (20_000, 2)
    } else {
        (500_000, 20)
    };
    let full = [0.001, 0.002, 0.003, 0.004, 0.005, 0.01];
    (packets, seeds, drops(settings, &full, &[0.004, 0.02]))
}

fn roc(settings: &Settings) -> Vec<Cell> {
    let (packets, seeds, rates) = fig_8(settings);
    let mut cells = Vec::new();
    for k in spines(settings, &[8], &[8]) {
        for load in loads(settings, k, &[0.97]) {
            for &drop in &rates {
                let setup = Setup {
                    drop,
                    faults: 1,
                    ..Setup::new(k, packets, load)
                };
                for way in WAYS {
                    // That nothing less is found is claimed of the paper's way alone.
                    let (claimed, claim) = match way {
                        _ if drop >= 0.004 => ("perfect from 0.4 % on (Fig. 8)", Claim::Separable),
                        Way::Paper => ("not perfect below 0.4 % (Fig. 8)", Claim::Inseparable),
                        _ => ("perfect where the paper's way is not", Claim::Separable),
                    };
                    cells.push(cell(way, setup.clone(), claimed, claim, seeds, drop));
                }
            }
        }
    }
    cells
}

/// The paper's P_min by loss rate (Fig. 9a).
const P_MIN: [(f64, u64); 3] = [(0.005, 60_000), (0.01, 20_000), (0.015, 7_000)];

/// The paper's P_min at a loss rate; between those that it names, by SNR p*sqrt(lambda) of 1 %.
pub(super) fn p_min(drop: f64) -> u64 {
    let known = P_MIN.iter().find(|(rate, _)| (rate - drop).abs() < 1e-9);
    known.map_or_else(|| (2.0 / (drop * drop)) as u64, |&(_, packets)| packets)
}

fn size(settings: &Settings) -> Vec<Cell> {
    let seeds = if settings.quick { 2 } else { 20 };
    let mut cells = Vec::new();
    for drop in drops(settings, &[0.005, 0.01, 0.015], &[0.015]) {
        for k in spines(settings, &[8, 16, 32, 64], &[8]) {
            for load in loads(settings, k, &[0.97]) {
                let packets = p_min(drop);
                let setup = Setup {
                    drop,
                    faults: 1,
                    ..Setup::new(k, packets, load)
                };
                let claimed = format!("no error at P_min = {packets} (Fig. 9)");
                for way in WAYS {
                    let x = f64::from(k);
                    cells.push(cell(
                        way,
                        setup.clone(),
                        &claimed,
                        Claim::Separable,
                        seeds,
                        x,
                    ));
                }
            }
        }
    }
    cells
}

fn reorder(settings: &Settings) -> Vec<Cell> {
    let (packets, seeds) = if settings.quick { (100, 1) } else { (4096, 20) };
    let mut cells = Vec::new();
    for k in spines(settings, &[64], &[16]) {
        for load in loads(settings, k, &[0.25, 0.4, 0.48]) {
            let setup = Setup {
                hosts: 2,
                disabled: k / 2,
                ..Setup::new(k, packets, load)
            };
            for way in [Way::Paper, Way::Ours] {
                let claimed = "at most 100 packets with half of the uplinks failed (5.3); 7,573 in \
                               theory";
                cells.push(cell(
                    way,
                    setup.clone(),
                    claimed,
                    Claim::BehindAtMost(100),
                    seeds,
                    load,
                ));
            }
        }
    }
    cells
}

fn many_faults(settings: &Settings) -> Vec<Cell> {
    let (packets, seeds) = if settings.quick {
        (7_000, 2)
    } else {
        (20_000, 20)
    };
    let mut cells = Vec::new();
    for drop in drops(settings, &[0.01], &[0.015]) {
        for k in spines(settings, &[32, 8], &[8]) {
            for faults in 1..=4u16.min(k - 1) {
                let load = settings.load.unwrap_or(0.97);
                let setup = Setup {
                    drop,
                    faults,
                    ..Setup::new(k, packets, load)
                };
                for way in WAYS {
                    let x = f64::from(faults);
                    // A pair of leaves has 2k links. Of 16, on 8 spines, the paper's testbed
                    // misses some when 2 are bad (E9): copies that are sent again lift the counts
                    // of bad links. Of 64, its simulations miss none when up to 4 are (E8).
                    let (claimed, claim) = match (k, way, faults) {
                        (_, _, 1) => ("one bad link, for comparison", Claim::Separable),
                        (..=8, Way::Paper, _) => (
                            "from 2 of 16 links on some are missed, none falsely named (App. A)",
                            Claim::MissesOnly,
                        ),
                        (..=8, ..) => (
                            "none is missed where the paper's way misses some",
                            Claim::Separable,
                        ),
                        _ => (
                            "accuracy as with one, up to 4 of 64 links (App. A)",
                            Claim::Separable,
                        ),
                    };
                    cells.push(cell(way, setup.clone(), claimed, claim, seeds, x));
                }
            }
        }
    }
    cells
}

fn known_failures(settings: &Settings) -> Vec<Cell> {
    let (packets, seeds) = if settings.quick {
        (7_000, 2)
    } else {
        (20_000, 20)
    };
    let mut cells = Vec::new();
    for drop in drops(settings, &[0.01], &[0.015]) {
        for k in spines(settings, &[8], &[8]) {
            for disabled in (0..4).filter(|m| m + 2 <= k) {
                let usable = k - disabled;
                // The flow stays as long: each of the uplinks that are left carries more of it, at
                // the same load.
                let part = f64::from(usable) / f64::from(k);
                for load in loads(settings, k, &[0.97]) {
                    let setup = Setup {
                        drop,
                        faults: 1,
                        disabled,
                        ..Setup::new(k, packets * u64::from(k) / u64::from(usable), load * part)
                    };
                    let claimed = "as without known failures, or better, as lambda grows (App. A)";
                    for way in WAYS {
                        let x = f64::from(disabled);
                        let claim = Claim::Separable;
                        cells.push(cell(way, setup.clone(), claimed, claim, seeds, x));
                    }
                }
            }
        }
    }
    cells
}

/// Leaf 0 sends to leaf 1 what is measured, and to leaf 2, which the last spine does not reach, what
/// is not: the latter leaves that spine to the former. With the measured flow in a queue of its own
/// that makes no difference; without it does.
fn overlap(settings: &Settings) -> Vec<Cell> {
    let seeds = if settings.quick { 2 } else { 20 };
    let mut cells = Vec::new();
    for drop in drops(settings, &[0.015], &[0.015]) {
        for k in spines(settings, &[8], &[8]) {
            let load = settings.load.unwrap_or(0.97);
            let packets = p_min(drop);
            // The measured flow alone takes so long at a host's rate.
            let bytes = packets * u64::from(k) * 4096;
            let alone_us = bytes * 8 / 100_000;
            let of = |at_us, bytes| Other { at_us, bytes };
            for (x, timeline, other) in [
                (1.0, "short inside", of(alone_us / 4, bytes / 8)),
                (2.0, "from the start", of(0, bytes)),
                (3.0, "late, and beyond its end", of(alone_us * 3 / 4, bytes)),
            ] {
                for (way, has_priority) in WAYS.iter().flat_map(|&w| [(w, true), (w, false)]) {
                    let setup = Setup {
                        drop,
                        faults: 1,
                        is_uneven: true,
                        has_priority,
                        other: Some(other),
                        ..Setup::new(k, packets, load)
                    };
                    let (claimed, claim) = match (has_priority, way) {
                        (true, _) => (
                            "no false positives with priority (Fig. 10a)",
                            Claim::NoFalse,
                        ),
                        (false, Way::LikeForLike) => (
                            "none by what was sent, with priority or without",
                            Claim::NoFalse,
                        ),
                        (false, _) => (
                            "false positives without priority (Fig. 3, 10a)",
                            Claim::SomeFalse,
                        ),
                    };
                    let mut cell = cell(way, setup, claimed, claim, seeds, x);
                    if !has_priority {
                        cell.series += ", no priority";
                    }
                    let parameters = &mut cell.parameters;
                    parameters.insert("timeline".into(), json!(timeline));
                    let word = if has_priority {
                        "with priority"
                    } else {
                        "without"
                    };
                    parameters.insert("priority".into(), json!(word));
                    cells.push(cell);
                }
            }
        }
    }
    cells
}
