//! From trials to a row: rates with exact intervals, and whether the claim holds.

use detector::tails::clopper_pearson;
use serde::Serialize;
use serde_json::{Map, Value};

use super::{Cell, Trial, works};

/// What a claim is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Claim {
    /// One threshold tells all failed paths from all healthy ones.
    Separable,
    /// No threshold does.
    Inseparable,
    /// The standard deviation of a count, in sqrt(lambda), is this.
    NoiseIs(f64),
    /// It is below this.
    NoiseBelow(f64),
    /// No packet comes further behind than this.
    BehindAtMost(u64),
}

/// A row of an experiment.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The setting.
    #[serde(flatten)]
    pub parameters: Map<String, Value>,
    /// Runs.
    pub trials: u64,
    /// Healthy paths that were called failed, of all healthy ones, at `s`.
    pub fpr: f64,
    /// Its exact 95 % interval.
    pub fpr_ci95: [f64; 2],
    /// Failed paths that were not, of all failed ones.
    pub fnr: f64,
    /// Its exact 95 % interval.
    pub fnr_ci95: [f64; 2],
    /// Paths of both kinds.
    pub paths: [u64; 2],
    /// The threshold lambda - s*sqrt(lambda) at which both are told apart best.
    pub s: Option<f64>,
    /// Standard deviation of the counts of healthy paths, in sqrt(lambda).
    pub noise: f64,
    /// The farthest that a packet came behind a later one of its flow.
    pub behind_max: u64,
    /// The figure that is plotted.
    pub value: f64,
    /// What the paper says.
    pub claimed: String,
    /// What was found.
    pub measured: String,
    /// Whether they agree.
    pub holds: bool,
    #[serde(skip)]
    pub(crate) series: String,
    #[serde(skip)]
    pub(crate) x: f64,
}

impl Row {
    /// Where it stands in the plot: line, and place on it.
    pub fn place(&self) -> (&str, f64) {
        (&self.series, self.x)
    }
}

/// Rows of an experiment.
pub type Rows = Vec<Row>;

/// The rows of cells, from their trials by number; cells without any are left out.
pub fn rows(cells: &[Cell], first_seed: u64, trials: &[(usize, Trial)]) -> Rows {
    let works = works(cells, first_seed);
    let mut of_cells: Vec<Vec<&Trial>> = vec![Vec::new(); cells.len()];
    for (index, trial) in trials {
        if let Some(work) = works.get(*index) {
            of_cells[work.cell].push(trial);
        }
    }
    let of_cells = cells.iter().zip(&of_cells);
    let of_cells = of_cells.filter(|(_, trials)| !trials.is_empty());
    of_cells.map(|(cell, trials)| row(cell, trials)).collect()
}

fn row(cell: &Cell, trials: &[&Trial]) -> Row {
    let all = |of: fn(&Trial) -> &Vec<f64>| -> Vec<f64> {
        trials
            .iter()
            .flat_map(|trial| of(trial).iter().copied())
            .collect()
    };
    let (healthy, failed) = (all(|trial| &trial.healthy), all(|trial| &trial.failed));
    let s = (!failed.is_empty()).then(|| best(&healthy, &failed));
    let at = s.unwrap_or(f64::INFINITY);
    let wrong = healthy.iter().filter(|&&z| z > at).count() as u64;
    let missed = failed.iter().filter(|&&z| z <= at).count() as u64;
    let paths = [healthy.len() as u64, failed.len() as u64];
    let rate = |hits: u64, of: u64| hits as f64 / of.max(1) as f64;
    let noise = (healthy.iter().map(|z| z * z).sum::<f64>() / paths[0].max(1) as f64).sqrt();
    let behind_max = trials
        .iter()
        .map(|trial| trial.behind_max)
        .max()
        .unwrap_or(0);
    // Of a standard deviation from n values: s/sqrt(2n), twice.
    let spread = 2.0 * noise / (2.0 * paths[0].max(1) as f64).sqrt();
    let is_apart = wrong + missed == 0;
    let apart = || {
        let most = healthy.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let least = failed.iter().copied().fold(f64::INFINITY, f64::min);
        format!("healthy paths lack up to {most:.2} sqrt(lambda), failed ones {least:.2} at least")
    };
    let sigma = || format!("{noise:.3} sqrt(lambda) +- {spread:.3}");
    let (value, measured, holds) = match cell.claim {
        Claim::Separable => (
            rate(wrong, paths[0]) + rate(missed, paths[1]),
            apart(),
            is_apart,
        ),
        Claim::Inseparable => (
            rate(wrong, paths[0]) + rate(missed, paths[1]),
            apart(),
            !is_apart,
        ),
        Claim::NoiseIs(wanted) => (noise, sigma(), (noise - wanted).abs() <= spread.max(0.02)),
        Claim::NoiseBelow(bound) => (noise, sigma(), noise + spread < bound),
        Claim::BehindAtMost(bound) => (
            behind_max as f64,
            format!("at most {behind_max} packets"),
            behind_max <= bound,
        ),
    };
    Row {
        parameters: cell.parameters.clone(),
        trials: trials.len() as u64,
        fpr: rate(wrong, paths[0]),
        fpr_ci95: clopper_pearson(wrong, paths[0], 0.95),
        fnr: rate(missed, paths[1]),
        fnr_ci95: clopper_pearson(missed, paths[1], 0.95),
        paths,
        s,
        noise,
        behind_max,
        value,
        claimed: cell.claimed.clone(),
        measured,
        holds,
        series: cell.series.clone(),
        x: cell.x,
    }
}

/// The sensitivity at which fewest are wrong: between the two kinds if they are apart.
fn best(healthy: &[f64], failed: &[f64]) -> f64 {
    let mut all: Vec<(f64, bool)> = healthy.iter().map(|&z| (z, false)).collect();
    all.extend(failed.iter().map(|&z| (z, true)));
    all.sort_by(|a, b| a.0.total_cmp(&b.0));
    // Below all values every healthy path is wrong; each value that s passes corrects or breaks one.
    let (of_healthy, of_failed) = (1.0 / healthy.len().max(1) as f64, 1.0 / failed.len() as f64);
    let mut wrong = 1.0;
    let mut found = (wrong, all.first().map_or(0.0, |first| first.0 - 1.0));
    for (index, &(z, is_failed)) in all.iter().enumerate() {
        wrong += if is_failed { of_failed } else { -of_healthy };
        let next = all.get(index + 1).map_or(z + 1.0, |next| next.0);
        if wrong < found.0 - 1e-12 && next > z {
            found = (wrong, (z + next) / 2.0);
        }
    }
    found.1
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: by hand: between 1 and 3 both kinds are apart; overlapping ones lose the fewest.
    #[test]
    fn the_best_sensitivity_by_hand() {
        assert_eq!(best(&[-1.0, 0.0, 1.0], &[3.0, 4.0]), 2.0);
        let s = best(&[0.0, 0.5, 1.0, 5.0], &[2.0, 3.0, 4.0]);
        assert_eq!(s, 1.5, "one false alarm of four beats a miss of three");
    }
}
