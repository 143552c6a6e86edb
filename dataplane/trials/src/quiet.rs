//! A long run without a fault: nothing may raise an alarm, neither fixed windows nor the
//! sequential test.

use agent::evidence::window_of;
use detector::sequential::WINDOWS_PER_HORIZON;
use detector::{Aggregator, Evidence, Judge, PathState, Rules, Sequential};
use pipeline::{Mark, Tie};
use rayon::prelude::*;

use crate::pair::Pair;
use crate::pmin::{BACKGROUND, Plan, Row};
use crate::stream::{WINDOW, feed};
use crate::trial::TrialError;

/// Name of the row.
pub(crate) const NAME: &str = "no fault, healthy links lose 2e-5";
/// Stretches into which the run is cut, to run side by side.
const STRETCHES: u32 = 8;

struct Stretch {
    marked: u64,
    lost: u64,
    tests: u64,
    alarms: u64,
    windows: u64,
    sequential_alarms: u64,
    packets: u64,
}

/// The row of so many marked packets: windows of 64 packets per spine, judged one by one by the
/// sequential test, and added up to P_min for the fixed one.
pub(crate) fn row(spines: u16, packets: u64) -> Result<Row, TrialError> {
    let plan = Plan {
        name: NAME.to_owned(),
        evidence: Evidence::SourceCounts,
        tie: Tie::FewestMeasured,
        mark: Mark::First,
        rate: 0.0,
        spines,
        background: BACKGROUND,
        per_spine: packets.div_ceil(u64::from(spines)),
    };
    let stretches: Vec<Stretch> = (0..STRETCHES)
        .into_par_iter()
        .map(|index| stretch(&plan, index, packets / u64::from(STRETCHES)))
        .collect::<Result<_, _>>()?;
    let sum = |of: fn(&Stretch) -> u64| stretches.iter().map(of).sum::<u64>();
    let (tests, alarms) = (sum(|s| s.tests), sum(|s| s.alarms));
    let sequential = sum(|s| s.sequential_alarms);
    let mut row = plan.row().with_counts(0, 0, tests, alarms + sequential);
    row.packets = sum(|s| s.packets);
    row.claimed = format!("no alarm in {packets} marked packets");
    row.measured = format!(
        "{} marked, {} lost: {alarms} alarms in {tests} fixed tests, {sequential} in {} windows of \
         64, one by one",
        sum(|s| s.marked),
        sum(|s| s.lost),
        sum(|s| s.windows)
    );
    row.holds = alarms + sequential == 0 && sum(|s| s.marked) >= packets;
    Ok(row)
}

fn stretch(plan: &Plan, index: u32, packets: u64) -> Result<Stretch, TrialError> {
    let mut config = plan.pair(index);
    config.bad.clear();
    config.leaves.window_packets_max = WINDOW * u64::from(plan.spines);
    let seed = plan.seed(index);
    let rules = Rules {
        target_rate: detector::rules::DEFAULT_TARGET_RATE,
        ..plan.rules()
    }
    .sized();
    let (mut aggregator, mut judge) = (Aggregator::new(rules), Judge::new(rules));
    let mut sequential = Sequential::new(&rules, WINDOWS_PER_HORIZON);
    let mut pair = Pair::new(&config, seed);
    let mut sums = Stretch {
        marked: 0,
        lost: 0,
        tests: 0,
        alarms: 0,
        windows: 0,
        sequential_alarms: 0,
        packets: 0,
    };
    let fail = |what: String| TrialError {
        seed: seed.part(0),
        what,
    };
    pair.begin(2 * packets + 1_000_000);
    while sums.marked < packets && !pair.is_done() {
        pair.advance();
        for report in pair.take_windows() {
            let window =
                window_of(&report).ok_or_else(|| fail("a window without messages".to_owned()))?;
            let counted: u64 = window.counts.iter().sum();
            let marked = window.marked.unwrap_or(0);
            sums.marked += marked;
            sums.lost += marked.saturating_sub(counted);
            sums.windows += window.usable.len() as u64;
            sums.sequential_alarms += feed(&mut sequential, &window).len() as u64;
            let aggregate = aggregator.add(&window).map_err(|e| fail(e.to_string()))?;
            for test in judge.judge(&aggregate) {
                sums.tests += u64::from(!matches!(test.state, PathState::Void(_)));
                sums.alarms += u64::from(test.state == PathState::Failed);
            }
        }
    }
    if pair.dropped() > 0 {
        return Err(fail(format!("{} packets dropped", pair.dropped())));
    }
    sums.packets = pair.sent();
    Ok(sums)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: half a million packets pass, are tested and raise nothing.
    #[test]
    fn a_short_quiet_run_is_quiet() {
        let row = row(8, 500_000).expect("a model without fault");
        assert!(row.holds && row.healthy_paths >= 8 * 8, "{row:?}");
    }
}
