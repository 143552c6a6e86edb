//! The experiments: which settings, how many seeds, and what is claimed.
//!
//! Claims are those of the SprayCheck paper (arXiv 2605.03702), by figure or section. Each is tried
//! at the paper's own spraying first: JSQ(2), a coin for ties, all copies marked; at the load where
//! the paper's packet counts can hold, and at that of one host per leaf at the rate of an uplink.
//! Ours, ties to the fewest marked packets and first copies marked, stands beside it.

use config::{Mark, Spray, Tie};
use serde_json::{Map, Value, json};

use super::row::Claim;
use super::trial::{Other, Setup};
use super::{Cell, Settings};

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
            cells.iter_mut().for_each(|cell| cell.seeds = seeds);
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
        name: "roc",
        claims: "E4, E5",
        about: "loss rates told apart on 8 spines with 500,000 packets each (Fig. 8)",
        axes: ["loss rate", "FPR + FNR at the best s"],
        make: roc,
    },
    Experiment {
        name: "size",
        claims: "E6, E7",
        about: "the paper's P_min on 8 to 64 spines (Fig. 9)",
        axes: ["spines", "FPR + FNR at the best s"],
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
        axes: ["bad links of leaf 0", "FPR + FNR at the best s"],
        make: many_faults,
    },
    Experiment {
        name: "overlap",
        claims: "E12",
        about: "other flows beside the measured one on an uneven fabric (Fig. 10a)",
        axes: ["timeline", "FPR + FNR at the best s"],
        make: overlap,
    },
];

/// Which spraying a cell has, in words.
#[derive(Clone, Copy)]
enum Way {
    Random,
    RoundRobin,
    Paper,
    Ours,
}

impl Way {
    fn apply(self, setup: Setup) -> Setup {
        let (spray, tie, mark) = match self {
            Way::Random => (Spray::Random, Tie::Random, Mark::All),
            Way::RoundRobin => (Spray::RoundRobin, Tie::Random, Mark::All),
            Way::Paper => (Spray::Jsq2, Tie::Random, Mark::All),
            Way::Ours => (Spray::Jsq2, Tie::FewestMeasured, Mark::First),
        };
        Setup {
            spray,
            tie,
            mark,
            ..setup
        }
    }

    fn name(self) -> &'static str {
        match self {
            Way::Random => "random",
            Way::RoundRobin => "round-robin",
            Way::Paper => "jsq2, ties random",
            Way::Ours => "jsq2, ties fewest-measured",
        }
    }
}

fn cell(way: Way, setup: Setup, claimed: &str, claim: Claim, seeds: u32, x: f64) -> Cell {
    let setup = way.apply(setup);
    let mut parameters = Map::new();
    let mut put = |key: &str, value: Value| parameters.insert(key.to_owned(), value);
    put("spray", json!(setup.spray.word()));
    put("tie", json!(setup.tie.word()));
    put("mark", json!(setup.mark.word()));
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
        setup,
        claim,
    }
}

fn spines(settings: &Settings, full: &[u16], quick: &[u16]) -> Vec<u16> {
    match (&settings.spines[..], settings.quick) {
        ([], true) => quick.to_vec(),
        ([], false) => full.to_vec(),
        (chosen, _) => chosen.to_vec(),
    }
}

fn drops(settings: &Settings, full: &[f64], quick: &[f64]) -> Vec<f64> {
    match (&settings.drops[..], settings.quick) {
        ([], true) => quick.to_vec(),
        ([], false) => full.to_vec(),
        (chosen, _) => chosen.to_vec(),
    }
}

/// The load of one host at the rate of one uplink, and loads at which uplinks queue.
fn loads(settings: &Settings, spines: u16, full: &[f64]) -> Vec<f64> {
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

fn roc(settings: &Settings) -> Vec<Cell> {
    let (packets, seeds) = if settings.quick {
        (20_000, 2)
    } else {
        (500_000, 20)
    };
    let rates = drops(
        settings,
        &[0.001, 0.002, 0.003, 0.004, 0.005, 0.01],
        &[0.004, 0.02],
    );
    let mut cells = Vec::new();
    for k in spines(settings, &[8], &[8]) {
        for load in loads(settings, k, &[0.97]) {
            for &drop in &rates {
                let setup = Setup {
                    drop,
                    faults: 1,
                    ..Setup::new(k, packets, load)
                };
                let claimed = match drop >= 0.004 {
                    true => "perfect from 0.4 % on (Fig. 8)",
                    false => "not perfect below 0.4 % (Fig. 8)",
                };
                let claim = match drop >= 0.004 {
                    true => Claim::Separable,
                    false => Claim::Inseparable,
                };
                for way in [Way::Paper, Way::Ours] {
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
fn p_min(drop: f64) -> u64 {
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
                for way in [Way::Paper, Way::Ours] {
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
                // 2 of 16 links, on 8 spines, is where the paper's testbed misses some (E9).
                let (claimed, claim) = match k {
                    ..=8 if faults >= 2 => (
                        "misses appear at 2 of 16 links (App. A)",
                        Claim::Inseparable,
                    ),
                    _ => (
                        "as with one, up to 4 of 64 links (App. A)",
                        Claim::Separable,
                    ),
                };
                for way in [Way::Paper, Way::Ours] {
                    let x = f64::from(faults);
                    cells.push(cell(way, setup.clone(), claimed, claim, seeds, x));
                }
            }
        }
    }
    cells
}

fn overlap(settings: &Settings) -> Vec<Cell> {
    let (packets, seeds) = if settings.quick {
        (7_000, 2)
    } else {
        (20_000, 20)
    };
    let mut cells = Vec::new();
    for drop in drops(settings, &[0.015], &[0.015]) {
        for k in spines(settings, &[8], &[8]) {
            let load = settings.load.unwrap_or(0.97);
            // The measured flow alone takes so long at a host's rate.
            let bytes = packets * u64::from(k - 1) * 4096;
            let alone_us = bytes * 8 / 100_000;
            for (x, timeline, other) in [
                (
                    1.0,
                    "short inside",
                    Other {
                        at_us: alone_us / 4,
                        bytes: bytes / 8,
                    },
                ),
                (2.0, "from the start", Other { at_us: 0, bytes }),
                (
                    3.0,
                    "late, and beyond its end",
                    Other {
                        at_us: alone_us * 3 / 4,
                        bytes,
                    },
                ),
            ] {
                let setup = Setup {
                    drop,
                    faults: 1,
                    disabled: 1,
                    other: Some(other),
                    ..Setup::new(k, packets, load)
                };
                let claimed =
                    "no false positives with the measured flow in its own priority (Fig. 10a)";
                for way in [Way::Paper, Way::Ours] {
                    let mut cell = cell(way, setup.clone(), claimed, Claim::Separable, seeds, x);
                    cell.parameters.insert("timeline".into(), json!(timeline));
                    cells.push(cell);
                }
            }
        }
    }
    cells
}
