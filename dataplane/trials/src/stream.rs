//! The sequential test on back-to-back windows of 64 packets per spine, until its alarm.

use agent::evidence::window_of;
use detector::sequential::WINDOWS_PER_HORIZON;
use detector::{Evidence, Nanos, Sequential, SpineId, Window};
use pipeline::{Mark, Tie};
use rayon::prelude::*;

use crate::pair::Pair;
use crate::pmin::{BACKGROUND, Plan, Row};
use crate::trial::TrialError;

/// Packets per spine of a window.
pub(crate) const WINDOW: u64 = 64;
/// A stream without an alarm is given up after so many times what the median may be.
const GIVE_UP: u64 = 12;

/// The rows.
pub(crate) fn plans(spines: u16) -> Vec<Plan> {
    [(0.005, 1_050), (0.01, 520), (0.015, 320), (0.001, 8_000)]
        .map(|(rate, per_spine)| Plan {
            name: "sequential, windows of 64".to_owned(),
            evidence: Evidence::SourceCounts,
            tie: Tie::FewestMeasured,
            mark: Mark::First,
            rate,
            spines,
            background: BACKGROUND,
            per_spine,
        })
        .into()
}

/// Feeds a window to the test, spine by spine; returns the spines that raise an alarm.
pub(crate) fn feed(test: &mut Sequential, window: &Window) -> Vec<SpineId> {
    let mut alarms = Vec::new();
    let Some(sent) = &window.sent else {
        return alarms;
    };
    for (index, &spine) in window.usable.iter().enumerate() {
        if window.void_reason(spine).is_some() {
            continue;
        }
        let path = detector::Path {
            src: window.src,
            spine,
            dst: window.dst,
        };
        let received = window.counts[index] + window.congestion_dropped[index];
        let lost = sent[index].saturating_sub(received);
        if test
            .add(path, sent[index], lost, Nanos(window.closed_ns.0))
            .is_some()
        {
            alarms.push(spine);
        }
    }
    alarms
}

struct Stream {
    /// Packets of the bad path until its alarm.
    until_alarm: Option<u64>,
    false_alarms: u64,
    windows: u64,
    packets: u64,
}

fn stream(plan: &Plan, trial: u32) -> Result<Stream, TrialError> {
    let mut config = plan.pair(trial);
    config.leaves.window_packets_max = WINDOW * u64::from(plan.spines);
    let bad = SpineId(config.bad[0].spine);
    let seed = plan.seed(trial);
    let mut pair = Pair::new(&config, seed);
    let mut test = Sequential::new(&plan.rules(), WINDOWS_PER_HORIZON);
    let (mut sent_bad, mut false_alarms, mut windows) = (0, 0, 0);
    let mut until_alarm = None;
    // Half as many again: packets between two windows are not measured.
    pair.begin(3 * GIVE_UP / 2 * plan.per_spine * u64::from(plan.spines));
    while until_alarm.is_none() && sent_bad < GIVE_UP * plan.per_spine && !pair.is_done() {
        pair.advance();
        for report in pair.take_windows() {
            let Some(window) = window_of(&report) else {
                continue;
            };
            windows += 1;
            let place = window.usable.iter().position(|&spine| spine == bad);
            if let (Some(place), Some(sent)) = (place, &window.sent) {
                sent_bad += sent[place];
            }
            for spine in feed(&mut test, &window) {
                if spine != bad {
                    false_alarms += 1;
                } else if until_alarm.is_none() {
                    until_alarm = Some(sent_bad);
                }
            }
        }
    }
    if pair.dropped() > 0 {
        return Err(TrialError {
            seed: seed.part(0),
            what: format!("{} packets dropped by switches", pair.dropped()),
        });
    }
    Ok(Stream {
        until_alarm,
        false_alarms,
        windows,
        packets: pair.sent(),
    })
}

/// The row of one plan: its `per_spine` is the limit of the median.
pub(crate) fn row(plan: &Plan, trials: u32) -> Result<Row, TrialError> {
    let streams: Vec<Stream> = (0..trials)
        .into_par_iter()
        .map(|trial| stream(plan, trial))
        .collect::<Result<_, _>>()?;
    let mut until: Vec<u64> = streams
        .iter()
        .map(|stream| stream.until_alarm.unwrap_or(u64::MAX))
        .collect();
    until.sort_unstable();
    let quantile = |share: f64| until[(share * (until.len().max(1) - 1) as f64).ceil() as usize];
    let never = until.iter().filter(|&&packets| packets == u64::MAX).count() as u64;
    let wrong = streams.iter().map(|stream| stream.false_alarms).sum();
    let healthy =
        streams.iter().map(|stream| stream.windows).sum::<u64>() * (u64::from(plan.spines) - 1);
    let mut row = plan
        .row()
        .with_counts(u64::from(trials), never, healthy, wrong);
    row.packets = streams.iter().map(|stream| stream.packets).sum();
    row.evidence = "sequential";
    row.claimed = format!("median to the alarm at most {} packets", plan.per_spine);
    row.measured = format!(
        "median {}, 90 % {}, 99 % {}; {wrong} false alarms in {healthy} windows of healthy paths",
        quantile(0.5),
        quantile(0.9),
        quantile(0.99)
    );
    row.holds = wrong == 0 && quantile(0.5) <= plan.per_spine;
    Ok(row)
}
