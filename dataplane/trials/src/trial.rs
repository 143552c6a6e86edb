//! One trial: a leaf pair, one measured window, the detector's answer to it.

use agent::evidence::window_of;
use detector::{
    Aggregator, Evidence, Judge, LeafId, Link, Localizer, PathState, PathTest, Rules, SpineId,
    Window,
};

use crate::pair::{Bad, Pair, PairConfig, Side};
use crate::pmin::Plan;
use crate::seed::Seed;

/// Packets per spine that warm a pair up. The tie of `fewest-measured` counts on across windows, so
/// the first window of a leaf's life is more even than all that follow.
const WARM_UP: u64 = 64;

/// A window that should have been measured was not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("trial of seed {seed:#x}: {what}; this is a fault of the model, please report it")]
pub struct TrialError {
    /// The seed of the trial.
    pub seed: u64,
    /// What went wrong.
    pub what: String,
}

/// Measures one window of `per_spine` packets per spine, behind one that warms the pair up.
///
/// # Errors
/// When the pair drops packets, loses count, or reports another number of windows than one.
pub fn window(
    config: &PairConfig,
    seed: Seed,
    per_spine: u64,
) -> Result<(Window, u64), TrialError> {
    let (window, sent) = window_if_any(config, seed, per_spine)?;
    let window = window.ok_or_else(|| TrialError {
        seed: seed.part(0),
        what: "no window instead of 1".to_owned(),
    })?;
    Ok((window, sent))
}

/// The same; in the paper's protocol, whose windows end with their last packet, there is no window
/// if that one was lost.
pub(crate) fn window_if_any(
    config: &PairConfig,
    seed: Seed,
    per_spine: u64,
) -> Result<(Option<Window>, u64), TrialError> {
    let mut pair = Pair::new(config, seed);
    let fail = |what: String| TrialError {
        seed: seed.part(0),
        what,
    };
    let spines = u64::from(config.leaves.spines);
    pair.flow(WARM_UP * spines);
    pair.take_windows();
    pair.flow(per_spine * spines);
    let reports = pair.take_windows();
    if pair.dropped() > 0 || !pair.is_conserved() {
        return Err(fail(format!(
            "{} packets dropped by switches",
            pair.dropped()
        )));
    }
    let report = match &reports[..] {
        [] if config.leaves.is_paper => return Ok((None, pair.sent())),
        [report] => report,
        // The first is that of the warm-up, which had lost its end.
        [_, report] if config.leaves.is_paper => report,
        _ => return Err(fail(format!("{} windows instead of 1", reports.len()))),
    };
    let window = window_of(report).ok_or_else(|| fail("a window without messages".to_owned()))?;
    Ok((Some(window), pair.sent()))
}

/// The detector's answer to one trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The bad link was found.
    pub(crate) found: bool,
    /// Healthy paths (with hop counts: links) tested.
    pub(crate) healthy: u64,
    /// Of these called failed.
    pub(crate) wrong: u64,
    /// Packets that the host sent.
    pub(crate) packets: u64,
}

/// Runs a trial of a plan and judges its window as the agent does; with hop counts the second
/// outcome is that of source counts on the same window.
pub(crate) fn outcomes(plan: &Plan, trial: u32) -> Result<Vec<Outcome>, TrialError> {
    let config = plan.pair(trial);
    let (window, packets) = window(&config, plan.seed(trial), plan.per_spine)?;
    let bad = config.bad[0];
    let judge = |rules: Rules| {
        let aggregate = Aggregator::new(rules).add(&window);
        aggregate.map(|aggregate| Judge::new(rules).judge(&aggregate))
    };
    let fail = |error: detector::WindowError| TrialError {
        seed: plan.seed(trial).part(0),
        what: error.to_string(),
    };
    let rules = plan.rules();
    let tests = judge(rules).map_err(fail)?;
    if plan.evidence != Evidence::HopCounts {
        return Ok(vec![by_paths(&tests, bad, packets)]);
    }
    let source = judge(Rules {
        evidence: Evidence::SourceCounts,
        ..rules
    });
    let source = by_paths(&source.map_err(fail)?, bad, packets);
    let mut localizer = Localizer::new(rules.localization());
    for test in &tests {
        localizer.add(test).map_err(|error| TrialError {
            seed: plan.seed(trial).part(0),
            what: error.to_string(),
        })?;
    }
    let found = localizer.locate(window.closed_ns).convicted;
    let wanted = match bad.side {
        Side::Up => Link::Up {
            leaf: LeafId(0),
            spine: SpineId(bad.spine),
        },
        Side::Down => Link::Down {
            spine: SpineId(bad.spine),
            leaf: LeafId(1),
        },
    };
    let by_links = Outcome {
        found: found.iter().any(|conviction| conviction.link == wanted),
        healthy: 2 * u64::from(plan.spines) - 1,
        wrong: found
            .iter()
            .filter(|conviction| conviction.link != wanted)
            .count() as u64,
        packets,
    };
    Ok(vec![by_links, source])
}

fn by_paths(tests: &[PathTest], bad: Bad, packets: u64) -> Outcome {
    let is_bad = |test: &&PathTest| test.path.spine == SpineId(bad.spine);
    let failed = |test: &PathTest| test.state == PathState::Failed;
    Outcome {
        found: tests.iter().find(is_bad).is_some_and(failed),
        healthy: tests.iter().filter(|test| !is_bad(test)).count() as u64,
        wrong: tests
            .iter()
            .filter(|test| !is_bad(test) && failed(test))
            .count() as u64,
        packets,
    }
}
