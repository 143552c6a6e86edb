//! Which sequential test alarms first: candidates at the same false alarm rate.
//!
//! All look at back-to-back windows of one path, `lost` of `sent` packets each. What they are made
//! of is the likelihood ratio L of a window, losses at a rate p against the tolerated rate p0:
//!
//! * `shiryaev-roberts`: R' = (1 + R) L per rate, the weighted sum over rates; what the product has
//!   (`detector::Sequential`);
//! * `e-cusum`: M' = max(1, M) L per rate, the weighted sum;
//! * `cusum-bank`: the same, the largest over rates;
//! * `glr-cusum`: the largest ratio over all change points and all rates.
//!
//! Each gets the threshold at which healthy streams run equally long on average, found by
//! simulation; then the median delay compares them.

use detector::sequential::{RATES, WEIGHTS};
use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use rayon::prelude::*;
use serde::Serialize;

use crate::seed::{Purpose, Seed};

/// Packets of a path per window.
const WINDOW: u64 = 64;
/// Change points that the generalized likelihood ratio looks back on, in losses.
const GLR_LOSSES_MAX: usize = 40;
/// Study number of these seeds.
const STUDY: u16 = 0x5e0;

/// A sequential test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Candidate {
    /// Mixture of Shiryaev-Roberts statistics.
    ShiryaevRoberts,
    /// Mixture of CUSUM e-detectors.
    ECusum,
    /// Largest of several CUSUMs.
    CusumBank,
    /// Generalized likelihood ratio.
    GlrCusum,
}

impl Candidate {
    /// All of them.
    pub const ALL: [Candidate; 4] = [
        Candidate::ShiryaevRoberts,
        Candidate::ECusum,
        Candidate::CusumBank,
        Candidate::GlrCusum,
    ];
}

/// One candidate's figures.
#[derive(Clone, Debug, Serialize)]
pub struct DelayRow {
    /// Which.
    pub candidate: Candidate,
    /// Its threshold, in nats.
    pub threshold: f64,
    /// Mean windows to a false alarm that the threshold was found for.
    pub run_length: f64,
    /// Median packets of the bad path until the alarm, by rate.
    pub median: Vec<(f64, u64)>,
    /// 99 % quantile of the same.
    pub p99: Vec<(f64, u64)>,
}

/// The state of one candidate on one path.
struct State {
    candidate: Candidate,
    /// ln of L for a loss and for a delivery, by rate.
    steps: Vec<(f64, f64)>,
    values: Vec<f64>,
    /// GLR: packets and losses since each loss, newest last.
    since: Vec<(f64, f64)>,
    p0: f64,
}

impl State {
    fn new(candidate: Candidate, p0: f64) -> State {
        let steps = RATES
            .iter()
            .map(|rate| ((rate / p0).ln(), (-rate).ln_1p() - (-p0).ln_1p()))
            .collect();
        State {
            candidate,
            steps,
            values: vec![0.0; RATES.len()],
            since: Vec::new(),
            p0,
        }
    }

    /// `windows` windows without a loss.
    fn quiet(&mut self, windows: u64) {
        let packets = (windows * WINDOW) as f64;
        for (value, &(_, delivery)) in self.values.iter_mut().zip(&self.steps) {
            let one = (delivery * WINDOW as f64).exp();
            let all = (delivery * packets).exp();
            match self.candidate {
                Candidate::ShiryaevRoberts => {
                    *value = *value * all + one * (1.0 - all) / (1.0 - one);
                }
                Candidate::ECusum | Candidate::CusumBank => {
                    if windows > 0 {
                        *value = (*value * all).max(one);
                    }
                }
                Candidate::GlrCusum => {}
            }
        }
        for (sent, _) in &mut self.since {
            *sent += packets;
        }
    }

    /// A window of which so many were lost; returns the statistic in nats.
    fn add(&mut self, lost: u64) -> f64 {
        let (lost, kept) = (lost as f64, (WINDOW - lost) as f64);
        if self.candidate == Candidate::GlrCusum {
            return self.glr(lost);
        }
        let mut sum = 0.0f64;
        let weighted = self.values.iter_mut().zip(&self.steps).zip(WEIGHTS);
        for ((value, &(loss, delivery)), weight) in weighted {
            let ratio = (lost * loss + kept * delivery).exp();
            *value = match self.candidate {
                Candidate::ShiryaevRoberts => (1.0 + *value) * ratio,
                _ => value.max(1.0) * ratio,
            };
            match self.candidate {
                Candidate::CusumBank => sum = sum.max(*value),
                _ => sum += weight * *value,
            }
        }
        sum.ln()
    }

    fn glr(&mut self, lost: f64) -> f64 {
        for (sent, all) in &mut self.since {
            *sent += WINDOW as f64;
            *all += lost;
        }
        if lost > 0.0 {
            self.since.push((WINDOW as f64, lost));
        }
        let p0 = self.p0;
        let ratio = |&(sent, lost): &(f64, f64)| {
            let rate = (lost / sent).clamp(p0, 1.0 - 1e-9);
            lost * (rate / p0).ln() + (sent - lost) * ((-rate).ln_1p() - (-p0).ln_1p())
        };
        // Starts so many losses ago are far beyond any threshold, or explained by p0.
        if self.since.len() > GLR_LOSSES_MAX {
            self.since.remove(0);
        }
        self.since.iter().map(ratio).fold(0.0, f64::max)
    }
}

/// Windows until the next loss, and the losses of that window.
struct Losses {
    random: Xoshiro256PlusPlus,
    rate: f64,
    /// P(no loss in a window).
    none: f64,
}

impl Losses {
    fn new(rate: f64, seed: u64) -> Losses {
        Losses {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            rate,
            none: (WINDOW as f64 * (-rate).ln_1p()).exp(),
        }
    }

    fn uniform(&mut self) -> f64 {
        ((self.random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    fn next(&mut self) -> (u64, u64) {
        let quiet = (self.uniform().ln() / self.none.ln()) as u64;
        // Of the law of losses, given at least one.
        let odds = self.rate / (1.0 - self.rate);
        let mut left = self.uniform() * (1.0 - self.none);
        let mut term = self.none;
        for lost in 1..=WINDOW {
            term *= (WINDOW - lost + 1) as f64 / lost as f64 * odds;
            left -= term;
            if left <= 0.0 {
                return (quiet, lost);
            }
        }
        (quiet, 1)
    }
}

/// The largest value of the statistic in a healthy stream of so many windows.
fn largest(candidate: Candidate, p0: f64, windows: u64, seed: u64) -> f64 {
    let (mut state, mut losses) = (State::new(candidate, p0), Losses::new(p0, seed));
    let (mut past, mut largest) = (0, f64::NEG_INFINITY);
    loop {
        let (quiet, lost) = losses.next();
        past += quiet + 1;
        if past > windows {
            return largest;
        }
        state.quiet(quiet);
        largest = largest.max(state.add(lost));
    }
}

fn delay(candidate: Candidate, p0: f64, rate: f64, level: f64, seed: u64) -> u64 {
    let (mut state, mut losses) = (State::new(candidate, p0), Losses::new(rate, seed));
    let mut windows = 0;
    loop {
        let (quiet, lost) = losses.next();
        state.quiet(quiet);
        windows += quiet + 1;
        if state.add(lost) >= level {
            return windows * WINDOW;
        }
    }
}

/// Compares all candidates at a mean of `run_length` windows to a false alarm; path rate `p0`
/// tolerated, `rates` looked for, `trials` streams each.
pub fn compare(p0: f64, run_length: f64, rates: &[f64], trials: u32) -> Vec<DelayRow> {
    // Alarms of healthy streams come like a Poisson process, so of streams half as long as the
    // mean between two, exp(-1/2) stay quiet: the threshold is that quantile of their maxima.
    let windows = (run_length / 2.0) as u64;
    Candidate::ALL
        .map(|candidate| {
            let mut maxima: Vec<f64> = (0..trials)
                .into_par_iter()
                .map(|trial| {
                    let seed = Seed::new(Purpose::Calibration, STUDY, trial).part(0);
                    largest(candidate, p0, windows, seed)
                })
                .collect();
            maxima.sort_unstable_by(f64::total_cmp);
            let quiet = (-0.5f64).exp() * maxima.len() as f64;
            let threshold = maxima[(quiet as usize).min(maxima.len() - 1)];
            let quantiles = rates.iter().map(|&rate| {
                let mut delays: Vec<u64> = (0..trials)
                    .into_par_iter()
                    .map(|trial| {
                        let seed = Seed::new(Purpose::Test, STUDY, trial).part(1);
                        delay(candidate, p0, rate, threshold, seed)
                    })
                    .collect();
                delays.sort_unstable();
                let at = |share: f64| delays[(share * (delays.len() - 1) as f64) as usize];
                (rate, at(0.5), at(0.99))
            });
            let quantiles: Vec<_> = quantiles.collect();
            DelayRow {
                candidate,
                threshold,
                run_length,
                median: quantiles.iter().map(|&(rate, m, _)| (rate, m)).collect(),
                p99: quantiles.iter().map(|&(rate, _, p)| (rate, p)).collect(),
            }
        })
        .into()
}
