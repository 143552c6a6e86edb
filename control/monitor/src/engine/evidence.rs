//! A window as evidence about a link.

use agent::verdict::WindowVerdict;
use detector::tails;

use crate::shared::{Evidence, SpineCount};

/// What people are shown of a window: counts of its spines against expectation.
pub(super) fn of(verdict: &WindowVerdict) -> Evidence {
    let count = |path: &agent::verdict::PathVerdict| {
        let trials = path.expected.round().max(0.0) as u64;
        let lost = trials.saturating_sub(path.received + path.dropped);
        SpineCount {
            spine: path.spine,
            expected: path.expected,
            received: path.received,
            dropped: path.dropped,
            outcome: path.outcome,
            ci95: match trials {
                0 => [0.0, 1.0],
                trials => tails::clopper_pearson(lost, trials, 0.95),
            },
        }
    };
    Evidence {
        src: verdict.src.to_string(),
        dst: verdict.dst.to_string(),
        at_ns: verdict.at_ns,
        spines: verdict.paths.iter().map(count).collect(),
    }
}
