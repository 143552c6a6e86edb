//! From trials to a row: rates with exact intervals, at a sensitivity that other seeds have fixed.

use detector::tails::clopper_pearson;
use serde::Serialize;
use serde_json::{Map, Value};

use super::claim::{Answer, Claim, Seen, answer};
use super::{Cell, Trial, works};

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
    /// s of the threshold lambda - s*sqrt(lambda): the one that was best on calibration seeds, before
    /// these trials.
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
    let mut of_cells: Vec<[Vec<&Trial>; 2]> = vec![Default::default(); cells.len()];
    for (index, trial) in trials {
        if let Some(work) = works.get(*index) {
            of_cells[work.cell][usize::from(work.is_calibration)].push(trial);
        }
    }
    let of_cells = cells.iter().zip(&of_cells);
    let of_cells = of_cells.filter(|(_, [trials, _])| !trials.is_empty());
    of_cells
        .map(|(cell, [trials, calibration])| row(cell, trials, calibration))
        .collect()
}

fn all(trials: &[&Trial], of: fn(&Trial) -> &Vec<f64>) -> Vec<f64> {
    let values = trials.iter().flat_map(|trial| of(trial).iter().copied());
    values.collect()
}

fn row(cell: &Cell, trials: &[&Trial], calibration: &[&Trial]) -> Row {
    let (healthy, failed) = (all(trials, |t| &t.healthy), all(trials, |t| &t.failed));
    let calibrated = (
        all(calibration, |t| &t.healthy),
        all(calibration, |t| &t.failed),
    );
    let s = (!calibrated.1.is_empty()).then(|| best(&calibrated.0, &calibrated.1));
    let at = s.unwrap_or(f64::INFINITY);
    let mut errors = match s {
        Some(_) => [
            healthy.iter().filter(|&&z| z > at).count() as u64,
            failed.iter().filter(|&&z| z <= at).count() as u64,
        ],
        None => [0, 0],
    };
    let mut paths = [healthy.len() as u64, failed.len() as u64];
    let square = healthy.iter().map(|z| z * z).sum::<f64>();
    let seen = Seen {
        trials,
        healthy: &healthy,
        failed: &failed,
        errors,
        noise: (square / paths[0].max(1) as f64).sqrt(),
    };
    let Answer {
        value,
        measured,
        holds,
    } = answer(cell.claim, &seen);
    if let Claim::Always(_) | Claim::Named = cell.claim {
        // Runs, not paths, are right or wrong.
        let bad = |wrong: fn(&&&Trial) -> bool| trials.iter().filter(wrong).count() as u64;
        let missed = bad(|trial| trial.figures.first() != Some(&1.0));
        let wrongly = bad(|trial| trial.figures.get(3).is_some_and(|&wrong| wrong > 0.0));
        (errors, paths) = ([wrongly, missed], [trials.len() as u64; 2]);
    }
    let rate = |index: usize| errors[index] as f64 / paths[index].max(1) as f64;
    Row {
        parameters: cell.parameters.clone(),
        trials: trials.len() as u64,
        fpr: rate(0),
        fpr_ci95: clopper_pearson(errors[0], paths[0], 0.95),
        fnr: rate(1),
        fnr_ci95: clopper_pearson(errors[1], paths[1], 0.95),
        paths,
        s,
        noise: seen.noise,
        behind_max: seen.behind_max(),
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
