//! The `paper` preset at the paper's own packet counts: its noise, and what it finds.

use detector::{Aggregator, Evidence, Judge, PathState, Rules};
use pipeline::{Mark, Tie};
use rayon::prelude::*;

use crate::host::Recovery;
use crate::pair::{PairConfig, Side};
use crate::pmin::{Plan, Row};
use crate::seed::{Purpose, Seed};
use crate::trial::{self, TrialError};

/// A row of the paper's method.
#[derive(Clone, Debug)]
pub(crate) struct PaperPlan {
    pub(crate) name: String,
    pub(crate) plan: Plan,
    load: f64,
    recovery: Recovery,
}

/// The paper's rates and packets per spine, at loads from one host's to nearly full, with both
/// kinds of senders.
pub(crate) fn plans(spines: u16) -> Vec<PaperPlan> {
    let mut plans = Vec::new();
    for (recovery, word) in [
        (Recovery::SelectiveRepeat, "selective repeat"),
        (Recovery::GoBackN, "go-back-N"),
    ] {
        for load in [1.0 / f64::from(spines), 0.5, 0.9, 0.97] {
            for (rate, per_spine) in [(0.005, 60_000), (0.01, 20_000), (0.015, 7_000)] {
                let name = format!("paper preset, {word}");
                plans.push(PaperPlan {
                    name: name.clone(),
                    plan: Plan {
                        name,
                        evidence: Evidence::ReceiveOnly,
                        tie: Tie::Random,
                        mark: Mark::All,
                        rate,
                        spines,
                        background: 0.0,
                        per_spine,
                    },
                    load,
                    recovery,
                });
            }
        }
    }
    plans
}

/// Deficits in units of sqrt(lambda); none if the window's last packet was lost, and with it the
/// verdict.
struct Outcome {
    failed: Vec<f64>,
    healthy: Vec<f64>,
    wrong: u64,
    found: bool,
    packets: u64,
}

impl PaperPlan {
    fn pair(&self, trial: u32) -> PairConfig {
        let mut config = self.plan.pair(trial);
        config.load = self.load;
        config.recovery = self.recovery;
        config.leaves.is_paper = true;
        debug_assert!(
            config
                .bad
                .iter()
                .all(|bad| bad.side != Side::Up || bad.rate > 0.0)
        );
        config
    }

    fn trial(&self, trial: u32) -> Result<Outcome, TrialError> {
        let config = self.pair(trial);
        let study = self.plan.study() ^ (self.load * 97.0) as u16;
        let seed = Seed::new(Purpose::Test, study, trial);
        let (window, packets) = trial::window_if_any(&config, seed, self.plan.per_spine)?;
        let fabric = self.plan.rules().fabric;
        let rules = Rules {
            p_min: 1,
            ..Rules::paper(fabric)
        };
        let mut outcome = Outcome {
            failed: Vec::new(),
            healthy: Vec::new(),
            wrong: 0,
            found: false,
            packets,
        };
        let Some(window) = window else {
            return Ok(outcome);
        };
        let aggregate = Aggregator::new(rules)
            .add(&window)
            .map_err(|error| TrialError {
                seed: seed.part(0),
                what: error.to_string(),
            })?;
        let tests = Judge::new(rules).judge(&aggregate);
        for test in tests {
            // The deficit in the paper's unit: s is compared with it.
            let z = test.lost / test.expected.sqrt();
            let is_failed = test.state == PathState::Failed;
            if test.path.spine.0 == config.bad[0].spine {
                outcome.found = is_failed;
                outcome.failed.push(z);
            } else {
                outcome.wrong += u64::from(is_failed);
                outcome.healthy.push(z);
            }
        }
        Ok(outcome)
    }
}

/// The row of one plan.
pub(crate) fn row(plan: &PaperPlan, trials: u32) -> Result<Row, TrialError> {
    let outcomes: Vec<Outcome> = (0..trials)
        .into_par_iter()
        .map(|trial| plan.trial(trial))
        .collect::<Result<_, _>>()?;
    let healthy: Vec<f64> = outcomes.iter().flat_map(|o| o.healthy.clone()).collect();
    let failed: Vec<f64> = outcomes.iter().flat_map(|o| o.failed.clone()).collect();
    let missed = outcomes.iter().filter(|o| !o.found).count() as u64;
    let wrong = outcomes.iter().map(|o| o.wrong).sum();
    let count = healthy.len() as f64;
    let mean = healthy.iter().sum::<f64>() / count;
    let square = healthy.iter().map(|z| (z - mean).powi(2)).sum::<f64>();
    let sigma = (square / count).sqrt();
    let mut row =
        plan.plan
            .row()
            .with_counts(u64::from(trials), missed, healthy.len() as u64, wrong);
    row.load = plan.load;
    row.sigma = sigma;
    row.packets = outcomes.iter().map(|o| o.packets).sum();
    // Some s separates all trials if the largest healthy deficit is below the least failed one.
    let largest = healthy.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let least = failed.iter().copied().fold(f64::INFINITY, f64::min);
    let window = if largest < least {
        format!("s from {largest:.2} to {least:.2} separates all trials")
    } else {
        format!("no s separates (healthy up to {largest:.2}, failed from {least:.2})")
    };
    // Whatever s is: a fault without a verdict is not found.
    let silent = outcomes.iter().filter(|o| o.failed.is_empty()).count();
    row.holds = largest < least && silent == 0;
    row.claimed = format!(
        "no error at {} packets per spine for some s",
        plan.plan.per_spine
    );
    row.measured = format!("sigma {sigma:.3} sqrt(lambda), mean {mean:+.2}; {window}");
    if silent > 0 {
        row.measured += &format!("; {silent} without a verdict, their last packet was lost");
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the paper's windows end at their last PSN and are judged, with both kinds of senders.
    #[test]
    fn the_papers_method_runs_in_the_model() {
        for mut plan in plans(8)
            .into_iter()
            .filter(|plan| plan.plan.per_spine == 7_000 && plan.load > 0.95)
        {
            plan.plan.per_spine = 2_000;
            let row = row(&plan, 4).expect("a model without fault");
            assert_eq!((row.trials, row.healthy_paths), (4, 28));
            // Going back sends hundreds again, all marked: counts are far above N/k, nothing is found.
            match plan.recovery {
                Recovery::SelectiveRepeat => {
                    assert!((0.03..0.5).contains(&row.sigma), "{row:?}");
                }
                Recovery::GoBackN => assert_eq!((row.misses, row.false_paths), (4, 0), "{row:?}"),
            }
        }
    }
}
