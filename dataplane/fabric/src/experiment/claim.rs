//! What is claimed of a row, and whether its trials bear it out.

use detector::tails::normal_above;

use super::Trial;

/// What a claim is about.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Claim {
    /// The threshold that was fixed on other seeds tells all failed paths from all healthy ones.
    Separable,
    /// No threshold at all does.
    Inseparable,
    /// At that threshold some failed paths are missed, and no healthy one is called failed.
    MissesOnly,
    /// At that threshold no healthy path is called failed.
    NoFalse,
    /// At that threshold some are.
    SomeFalse,
    /// Counts of healthy paths follow a normal law (Lilliefors' test at 1 %).
    Normal,
    /// The mean deficit of failed paths over the deviation of healthy ones is p*sqrt(lambda), with
    /// this loss rate p.
    SnrLaw(f64),
    /// It is that at least.
    SnrAtLeast(f64),
    /// The first figure is 1 in every trial.
    Always(&'static str),
    /// The first figure is at most this in every trial.
    AtMost(f64, &'static str),
    /// Figures: named (0 or 1), seconds, packets, links named wrongly. All named, none wrongly.
    Named,
    /// The standard deviation of a count, in sqrt(lambda), is this.
    NoiseIs(f64),
    /// It is below this.
    NoiseBelow(f64),
    /// No packet comes further behind than this.
    BehindAtMost(u64),
}

/// What a row's trials have come to.
pub(super) struct Seen<'a> {
    pub(super) trials: &'a [&'a Trial],
    /// Deficits of paths, in sqrt(lambda).
    pub(super) healthy: &'a [f64],
    pub(super) failed: &'a [f64],
    /// Healthy paths called failed, and failed ones that were not.
    pub(super) errors: [u64; 2],
    /// Root mean square of the healthy.
    pub(super) noise: f64,
}

/// Whether a claim holds, and what to say of it.
pub(super) struct Answer {
    /// For the plot.
    pub(super) value: f64,
    pub(super) measured: String,
    pub(super) holds: bool,
}

impl Seen<'_> {
    pub(super) fn behind_max(&self) -> u64 {
        let behind = self.trials.iter().map(|trial| trial.behind_max);
        behind.max().unwrap_or(0)
    }

    fn figures(&self, index: usize) -> impl Iterator<Item = f64> + '_ {
        let trials = self.trials.iter();
        trials.filter_map(move |trial| trial.figures.get(index).copied())
    }

    /// Of a standard deviation from n values: s/sqrt(2n), twice.
    fn spread(&self) -> f64 {
        2.0 * self.noise / (2.0 * self.healthy.len().max(1) as f64).sqrt()
    }

    /// How far the two kinds of paths are from each other.
    fn apart(&self) -> (bool, String) {
        let most = self.healthy.iter().copied().fold(f64::MIN, f64::max);
        let least = self.failed.iter().copied().fold(f64::MAX, f64::min);
        let some = if most < least {
            "some s tells"
        } else {
            "no s tells"
        };
        let text = format!(
            "healthy paths lack up to {most:.2} sqrt(lambda), failed ones {least:.2} at least: \
             {some} all apart"
        );
        (most < least, text)
    }

    /// How many of either kind are wrong.
    fn counted(&self) -> String {
        let [alarms, misses] = self.errors;
        format!(
            "{alarms} of {} healthy paths called failed, {misses} of {} failed ones missed; {}",
            self.healthy.len(),
            self.failed.len(),
            self.apart().1
        )
    }

    fn error_rate(&self) -> f64 {
        let rate = |hits: u64, of: usize| hits as f64 / of.max(1) as f64;
        rate(self.errors[0], self.healthy.len()) + rate(self.errors[1], self.failed.len())
    }
}

/// Whether the claim holds.
pub(super) fn answer(claim: Claim, seen: &Seen<'_>) -> Answer {
    let sigma = || format!("{:.3} sqrt(lambda) +- {:.3}", seen.noise, seen.spread());
    let (value, measured, holds) = match claim {
        Claim::Separable => (
            seen.error_rate(),
            seen.apart().1,
            seen.errors == [0, 0] && !seen.failed.is_empty(),
        ),
        Claim::Inseparable => {
            let (is_apart, text) = seen.apart();
            (seen.error_rate(), text, !is_apart)
        }
        Claim::MissesOnly => (
            seen.error_rate(),
            seen.counted(),
            seen.errors[1] > 0 && seen.errors[0] == 0,
        ),
        Claim::NoFalse => (
            seen.error_rate(),
            seen.counted(),
            seen.errors[0] == 0 && !seen.healthy.is_empty(),
        ),
        Claim::SomeFalse => (seen.error_rate(), seen.counted(), seen.errors[0] > 0),
        Claim::NoiseIs(wanted) => (
            seen.noise,
            sigma(),
            (seen.noise - wanted).abs() <= seen.spread().max(0.02),
        ),
        Claim::NoiseBelow(bound) => (seen.noise, sigma(), seen.noise + seen.spread() < bound),
        Claim::BehindAtMost(bound) => {
            let most = seen.behind_max();
            (
                most as f64,
                format!("at most {most} packets"),
                most <= bound,
            )
        }
        Claim::Normal => normal(seen.healthy),
        Claim::SnrLaw(drop) => snr(seen, drop, false),
        Claim::SnrAtLeast(drop) => snr(seen, drop, true),
        Claim::Always(what) => {
            let good = seen.figures(0).filter(|&figure| figure == 1.0).count();
            let all = seen.trials.len();
            let text = format!("{what} in {good} of {all}");
            (good as f64 / all.max(1) as f64, text, good == all)
        }
        Claim::AtMost(bound, unit) => {
            let most = seen.figures(0).fold(0.0, f64::max);
            let shown = (most * 1e4).round() / 1e4;
            (most, format!("at most {shown} {unit}"), most <= bound)
        }
        Claim::Named => named(seen),
    };
    Answer {
        value,
        measured,
        holds,
    }
}

/// Lilliefors' test: the largest distance of the empirical law from the normal one of the same mean
/// and deviation. At 1 % it is 1.031/sqrt(n) for large n (Lilliefors 1967, table 1).
fn normal(values: &[f64]) -> (f64, String, bool) {
    let n = values.len().max(2) as f64;
    let mean = values.iter().sum::<f64>() / n;
    let square = values.iter().map(|z| (z - mean).powi(2)).sum::<f64>();
    let sd = (square / (n - 1.0)).sqrt().max(f64::MIN_POSITIVE);
    let mut sorted: Vec<f64> = values.iter().map(|z| (z - mean) / sd).collect();
    sorted.sort_by(f64::total_cmp);
    let far = sorted.iter().enumerate().map(|(index, &z)| {
        let law = 1.0 - normal_above(z);
        let (below, upto) = (index as f64 / n, (index + 1) as f64 / n);
        (law - below).abs().max((law - upto).abs())
    });
    let distance = far.fold(0.0, f64::max) * n.sqrt();
    let text = format!(
        "D*sqrt(n) = {distance:.3} of {} counts, 1.031 at most",
        values.len()
    );
    (distance, text, distance <= 1.031)
}

/// Signal over noise, beside the law p*sqrt(lambda); the deficits are in sqrt(lambda), so the law's
/// signal is their mean.
fn snr(seen: &Seen<'_>, drop: f64, is_bound: bool) -> (f64, String, bool) {
    let n = seen.failed.len().max(2) as f64;
    let mean = seen.failed.iter().sum::<f64>() / n;
    let square = seen.failed.iter().map(|z| (z - mean).powi(2)).sum::<f64>();
    let error = 2.0 * (square / (n - 1.0) / n).sqrt();
    let law = drop * seen.figures(0).fold(0.0, f64::max).sqrt();
    let noise = seen.noise.max(1e-3);
    let (snr, error) = (mean / noise, error / noise);
    let text = format!("SNR {snr:.2} +- {error:.2}, p*sqrt(lambda) = {law:.2}");
    // The noise is known to a few percent only.
    let within = error + 0.05 * law;
    let holds = snr >= law - within && (is_bound || snr <= law + within);
    (snr, text, holds)
}

fn named(seen: &Seen<'_>) -> (f64, String, bool) {
    let all = seen.trials.len();
    let of_named = |index: usize| -> Vec<f64> {
        let named = seen
            .trials
            .iter()
            .filter(|t| t.figures.first() == Some(&1.0));
        let mut values: Vec<f64> = named
            .filter_map(|t| t.figures.get(index).copied())
            .collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let (seconds, packets) = (of_named(1), of_named(2));
    let median = |values: &[f64]| values.get(values.len() / 2).copied();
    let wrong = seen.figures(3).sum::<f64>();
    let mut text = format!("named in {} of {all}", seconds.len());
    if let (Some(seconds), Some(packets)) = (median(&seconds), median(&packets)) {
        text += &format!(", median {seconds:.6} s and {packets:.0} packets");
    }
    text += &format!("; {wrong} named wrongly");
    let value = median(&seconds).unwrap_or(0.0);
    (value, text, seconds.len() == all && wrong == 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use detector::tails::normal_quantile_above;

    /// Goal: the quantiles of a normal law pass, those of an even one do not.
    #[test]
    fn a_normal_law_is_told_from_an_even_one() {
        let even: Vec<f64> = (0..1000).map(|n| (f64::from(n) + 0.5) / 1000.0).collect();
        let bell: Vec<f64> = even.iter().map(|&p| normal_quantile_above(p)).collect();
        assert!(normal(&bell).2, "{}", normal(&bell).1);
        assert!(!normal(&even).2, "{}", normal(&even).1);
    }
}
