//! Measures the noise of the spray, on seeds of its own, and makes the table of the detector.
//!
//! Windows of one leaf pair without a fault follow each other. How far what was sent over a spine
//! lies below its share tells the noise; sums of successive windows tell whether it grows with the
//! packets (binomial) or does not (additive).

use detector::noise::{ADDITIVE_TAIL, Calibration, Noise};
use pipeline::{Mark, Policy, Tie};
use rayon::prelude::*;

use crate::host::{Arrivals, Recovery};
use crate::pair::{Pair, PairConfig};
use crate::seed::{Purpose, Seed};
use crate::setup::Leaves;

/// Packets per spine of the shortest window.
const SHORT: u64 = 128;
/// Short windows of which the variance must not have grown by half, or it is binomial.
const GROWS_OVER: usize = 16;
/// Short windows in the two lengths from which sigma comes: 1,024 and 8,192 packets per spine.
const LONG: [usize; 2] = [8, 64];
/// Share of the counts to which the tail is fitted.
const FITTED: f64 = 0.01;
/// Times the counts that were asked for, where the threshold comes from a fitted tail: two standard
/// errors of its mean are 1.5 % for twenty times 20,000 counts, and a threshold of 11 packets of which
/// half are extrapolated stands a third of a packet too high by that.
const TAIL_FACTOR: u64 = 20;
/// Loads at which the noise is measured; a row of the table is the worse of its two ends.
const LOADS: [f64; 7] = [0.03, 0.13, 0.3, 0.5, 0.7, 0.9, 0.97];
/// Loss rate of healthy links while it is measured.
const BACKGROUND: f64 = 2e-5;
/// Study number of these seeds.
const STUDY: u16 = 0x0ca;

/// What the noise depends on, beside the load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Setting {
    /// Policy and its word.
    pub policy: (Policy, &'static str),
    /// Tie and its word.
    pub tie: (Tie, &'static str),
    /// Mark and its word.
    pub mark: (Mark, &'static str),
    /// Spines.
    pub spines: u16,
}

/// All settings of the table.
pub fn settings() -> Vec<Setting> {
    const FEWEST: (Tie, &str) = (Tie::FewestMeasured, "fewest-measured");
    const RANDOM: (Tie, &str) = (Tie::Random, "random");
    const FIRST: (Mark, &str) = (Mark::First, "first");
    const ALL: (Mark, &str) = (Mark::All, "all");
    let mut settings = Vec::new();
    let mut add = |policy, ties: &[_], marks: &[_], spines: &[u16]| {
        for &tie in ties {
            for &mark in marks {
                settings.extend(spines.iter().map(|&spines| Setting {
                    policy,
                    tie,
                    mark,
                    spines,
                }));
            }
        }
    };
    let (ties, marks) = ([FEWEST, RANDOM], [FIRST, ALL]);
    add((Policy::Jsq2, "jsq2"), &ties, &marks, &[8, 32]);
    add((Policy::Jsq2, "jsq2"), &ties, &[FIRST], &[128]);
    add((Policy::Random, "random"), &ties, &[FIRST], &[8, 32]);
    add(
        (Policy::RoundRobin, "round-robin"),
        &ties,
        &[FIRST],
        &[8, 32],
    );
    settings
}

impl Setting {
    fn pair(&self, load: f64, arrivals: Arrivals) -> PairConfig {
        PairConfig {
            leaves: Leaves {
                spines: self.spines,
                policy: self.policy.0,
                tie: self.tie.0,
                mark: self.mark.0,
                is_paper: false,
                window_packets_max: SHORT * u64::from(self.spines),
                real_spines: false,
            },
            load,
            arrivals,
            recovery: Recovery::SelectiveRepeat,
            background: BACKGROUND,
            bad: Vec::new(),
        }
    }

    /// Whether the tail of its counts is what thresholds come from.
    fn is_tail(&self) -> bool {
        matches!(self.policy.0, Policy::Jsq2 | Policy::Jsq)
            && self.tie.0 == Tie::FewestMeasured
            && self.mark.0 == Mark::First
    }

    /// A policy that looks at no queue does not depend on the load; without JSQ a high load makes
    /// queues in which messages are later than the model's leaves wait for them.
    fn loads(&self) -> &'static [f64] {
        match self.policy.0 {
            Policy::Jsq2 | Policy::Jsq => &LOADS,
            Policy::Random | Policy::RoundRobin | Policy::Ecmp => &[0.03, 0.5],
        }
    }
}

/// Deficits by window, of every spine: share less what was sent.
fn deficits(setting: &Setting, load: f64, counts: u64, trial: u32) -> Vec<Vec<f64>> {
    let arrivals = match trial % 2 {
        0 => Arrivals::Constant,
        _ => Arrivals::Poisson,
    };
    let spines = u64::from(setting.spines);
    let windows = (counts / spines).max(2 * LONG[1] as u64);
    let config = setting.pair(load, arrivals);
    let mut pair = Pair::new(&config, Seed::new(Purpose::Calibration, STUDY, trial));
    // Some packets between windows are not measured; there are enough for them.
    pair.begin(2 * windows * SHORT * spines);
    let mut all = Vec::new();
    while all.len() as u64 <= windows && !pair.is_done() {
        pair.advance();
        for report in pair.take_windows() {
            // A window whose end was lost, or cut short, tells nothing about the spray.
            if report.marked != Some(SHORT * spines) {
                continue;
            }
            let share = report.marked.unwrap_or(0) as f64 / spines as f64;
            let sent = &report.sent[..spines as usize];
            all.push(sent.iter().map(|&s| share - f64::from(s)).collect());
        }
    }
    // The first window begins with level counts, and no later one does.
    all.split_off(1)
}

fn sums(windows: &[Vec<f64>], length: usize) -> Vec<f64> {
    let spines = windows.first().map_or(0, Vec::len);
    let chunks = windows.chunks_exact(length);
    let sum = |chunk: &[Vec<f64>], spine: usize| chunk.iter().map(|window| window[spine]).sum();
    chunks
        .flat_map(|chunk| (0..spines).map(move |spine| sum(chunk, spine)))
        .collect()
}

fn mean_square(values: &[f64]) -> f64 {
    values.iter().map(|x| x * x).sum::<f64>() / values.len().max(1) as f64
}

/// The noise that such deficits show, and how many counts it rests on.
fn fit(windows: &[Vec<f64>]) -> (Noise, u64) {
    let mut short = sums(windows, 1);
    let count = short.len() as u64;
    let grown = mean_square(&sums(windows, GROWS_OVER));
    if grown > 1.5 * mean_square(&short) {
        let sigma = LONG.map(|length| {
            let long = sums(windows, length);
            let packets = (length as u64 * SHORT) as f64;
            // Three standard errors of a standard deviation above it.
            let margin = 1.0 + 3.0 / (2.0 * long.len() as f64).sqrt();
            (mean_square(&long) / packets).sqrt() * margin
        });
        let sigma = sigma[0].max(sigma[1]);
        return (
            Noise {
                sigma,
                ..Noise::NONE
            },
            count,
        );
    }
    // The tail of two-choice counts falls by a constant factor per packet. It is fitted to the
    // largest hundredth, where the factor is not yet as steep as farther out.
    short.sort_unstable_by(|a, b| b.total_cmp(a));
    let fitted = ((count as f64 * FITTED) as usize).clamp(1, short.len() - 1);
    // Deficits are whole packets and many are equal: those above a level, without the level.
    let above = |level: f64| short.iter().take_while(|&&x| x > level).count();
    let mut level = short[fitted];
    while above(level) < fitted / 2 + 1 {
        level -= 1.0;
    }
    let beyond = above(level);
    let excess = short[..beyond].iter().map(|x| x - level).sum::<f64>() / beyond as f64;
    // A geometric law of mean m from 1 on falls by 1 - 1/m per packet. Two standard errors above: its
    // variance is m(m - 1), and that of an exponential law of this mean would be four times that.
    let standard_error = (excess * (excess - 1.0) / beyond as f64).sqrt();
    let m = (excess + 2.0 * standard_error).max(1.01);
    let decay = 1.0 / (m / (m - 1.0)).ln();
    let share = beyond as f64 / count as f64;
    let noise = Noise {
        additive_packets: (level + 1.0 + decay * (share / ADDITIVE_TAIL).ln()).max(0.0),
        decay_packets: decay,
        sigma: 0.0,
    };
    (noise, count)
}

fn worse(a: Noise, b: Noise) -> Noise {
    Noise {
        additive_packets: a.additive_packets.max(b.additive_packets),
        decay_packets: a.decay_packets.max(b.decay_packets),
        sigma: a.sigma.max(b.sigma),
    }
}

/// Measures one setting at one load on `counts` healthy counts of each kind of arrivals.
pub fn measure(setting: &Setting, load: f64, counts: u64) -> (Noise, u64) {
    let counts = counts * if setting.is_tail() { TAIL_FACTOR } else { 1 };
    let of = |trial| fit(&deficits(setting, load, counts, trial));
    let ((constant, first), (poisson, second)) = (of(0), of(1));
    (worse(constant, poisson), first + second)
}

/// The table of all `settings`, in their order, from `counts` healthy counts per load and kind of
/// arrivals. `told` hears of every setting that is done.
pub fn table(
    settings: &[Setting],
    counts: u64,
    told: impl Fn(&Setting) + Sync,
) -> Vec<Calibration> {
    let rows = settings.par_iter().map(|setting| {
        let loads = setting.loads();
        let at: Vec<(Noise, u64)> = loads
            .par_iter()
            .map(|&load| measure(setting, load, counts))
            .collect();
        told(setting);
        let row = |index: usize| Calibration {
            spray: setting.policy.1.to_owned(),
            tie: setting.tie.1.to_owned(),
            mark: setting.mark.1.to_owned(),
            spines_max: setting.spines,
            load_max: loads[index],
            noise: worse(at[index - 1].0, at[index].0),
            counts: at[index - 1].1 + at[index].1,
        };
        (1..loads.len()).map(row).collect::<Vec<_>>()
    });
    rows.flatten_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jsq2(tie: Tie) -> Setting {
        let wanted = |setting: &&Setting| {
            setting.policy.0 == Policy::Jsq2 && setting.tie.0 == tie && setting.spines == 8
        };
        let all = settings();
        *all.iter().find(wanted).expect("is in the table")
    }

    /// Goal: ties to the fewest marked packets give a few packets that do not grow; a coin gives
    /// nearly the noise of chance at low load, and the law sqrt(1 - load) at high load.
    #[test]
    fn both_kinds_of_noise_are_told_apart() {
        let (fewest, _) = measure(&jsq2(Tie::FewestMeasured), 0.13, 800);
        assert!(
            fewest.sigma == 0.0 && (2.0..10.0).contains(&fewest.additive_packets),
            "{fewest:?}"
        );
        for (load, least, most) in [(0.13, 0.8, 1.6), (0.9, 0.28, 0.6)] {
            let (coin, _) = measure(&jsq2(Tie::Random), load, 4_000);
            assert!(
                (least..most).contains(&coin.sigma) && coin.additive_packets == 0.0,
                "{load}: {coin:?}"
            );
        }
    }
}
