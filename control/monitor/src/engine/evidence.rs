//! Windows as evidence about a link.

use std::collections::BTreeMap;

use agent::verdict::{PathVerdict, WindowVerdict};
use detector::tails;

use crate::shared::{Evidence, SpineCount};

/// What people are shown of windows: counts of their spines against expectation.
pub(super) fn of(verdicts: &[&WindowVerdict]) -> Vec<Evidence> {
    // Thousands of paths have few different counts, and an interval takes as long as a hundred paths.
    let mut intervals = BTreeMap::new();
    let mut interval = |lost: u64, trials: u64| {
        *(intervals.entry((lost, trials))).or_insert_with(|| match trials {
            0 => [0.0, 1.0],
            trials => tails::clopper_pearson(lost, trials, 0.95),
        })
    };
    let mut count = |path: &PathVerdict| {
        let trials = path.expected.round().max(0.0) as u64;
        let lost = trials.saturating_sub(path.received + path.dropped);
        SpineCount {
            spine: path.spine,
            expected: path.expected,
            received: path.received,
            dropped: path.dropped,
            outcome: path.outcome,
            ci95: interval(lost, trials),
        }
    };
    let mut evidence = |verdict: &&WindowVerdict| Evidence {
        src: verdict.src.to_string(),
        dst: verdict.dst.to_string(),
        at_ns: verdict.at_ns,
        spines: verdict.paths.iter().map(&mut count).collect(),
    };
    verdicts.iter().map(&mut evidence).collect()
}
