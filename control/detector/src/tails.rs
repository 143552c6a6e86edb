//! Tails, quantiles and exact intervals of the binomial and Poisson laws.
//!
//! A thin layer over `statrs`: it fixes the conventions (at least, not more
//! than), the corner cases (rate 0, all lost) and nothing else. Used by the
//! thresholds, the tests, the localizer and by everyone who prints a rate with
//! its interval.

use statrs::distribution::{Binomial, ContinuousCDF, DiscreteCDF, Gamma, Normal};
use statrs::function::gamma::{gamma_lr, gamma_ur};

/// P(at least `lost` of `sent` packets are lost), each with probability `rate`.
pub fn binomial_at_least(sent: u64, lost: u64, rate: f64) -> f64 {
    if lost == 0 {
        return 1.0;
    }
    if lost > sent || rate <= 0.0 {
        return 0.0;
    }
    match Binomial::new(rate.min(1.0), sent) {
        Ok(law) => law.sf(lost - 1),
        Err(_) => f64::NAN,
    }
}

/// P(exactly 0, 1, 2, .. of `sent` packets are lost), each with probability `rate`.
pub fn binomial_terms(sent: u64, rate: f64) -> impl Iterator<Item = f64> {
    let rate = rate.clamp(0.0, 1.0 - 1e-12);
    let odds = rate / (1.0 - rate);
    let mut term = (sent as f64 * (-rate).ln_1p()).exp();
    (0..=sent).map(move |lost| {
        let this = term;
        term *= (sent - lost) as f64 / (lost + 1) as f64 * odds;
        this
    })
}

/// The fewest losses out of `sent` that are improbable at `rate`: the smallest
/// m with P(at least m lost) <= `alpha`. May be `sent + 1`, which never happens.
pub fn critical_losses(sent: u64, rate: f64, alpha: f64) -> u64 {
    let improbable = |lost| binomial_at_least(sent, lost, rate) <= alpha;
    let (mut below, mut step) = (0, 1);
    while below + step <= sent && !improbable(below + step) {
        below += step;
        step *= 2;
    }
    // Invariant: `below` losses are still probable, `above` losses are not.
    let mut above = (below + step).min(sent + 1);
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if improbable(middle) {
            above = middle;
        } else {
            below = middle;
        }
    }
    above
}

/// The smallest loss rate at which at least `lost` of `sent` packets are lost
/// with probability `power`; `None` if that many cannot be lost.
///
/// Found by bisection of the exact tail: statrs' own inverse of the incomplete
/// beta function is off by 1e-5 for 1 of 10^6 and does not end for some larger
/// numbers.
pub fn rate_for_power(sent: u64, lost: u64, power: f64) -> Option<f64> {
    if lost == 0 {
        return Some(0.0);
    }
    if lost > sent {
        return None;
    }
    // The answer lies near lost/sent; double until it is bracketed.
    let mut below = 0.0;
    let mut above = lost as f64 / sent as f64;
    while above < 1.0 && binomial_at_least(sent, lost, above) < power {
        below = above;
        above = (2.0 * above).min(1.0);
    }
    while above - below > 1e-9 * above {
        let middle = 0.5 * (below + above);
        if binomial_at_least(sent, lost, middle) < power {
            below = middle;
        } else {
            above = middle;
        }
    }
    Some(above)
}

/// Exact (Clopper-Pearson) two-sided interval of a proportion `hits`/`trials`.
/// `[0, 1]` without a trial.
pub fn clopper_pearson(hits: u64, trials: u64, confidence: f64) -> [f64; 2] {
    if trials == 0 {
        return [0.0, 1.0];
    }
    let tail = (1.0 - confidence) / 2.0;
    let lower = rate_for_power(trials, hits, tail).unwrap_or(0.0);
    // By symmetry: the upper limit for the hits is the lower one for the misses.
    let upper = 1.0 - rate_for_power(trials, trials - hits.min(trials), tail).unwrap_or(0.0);
    [lower, upper]
}

/// Exact two-sided interval of the mean of a Poisson law of which `count` was
/// seen (Garwood 1936: quantiles of Gamma(count) and Gamma(count + 1)).
pub fn poisson_interval(count: f64, confidence: f64) -> [f64; 2] {
    let tail = (1.0 - confidence) / 2.0;
    let quantile = |shape: f64, p: f64| match Gamma::new(shape, 1.0) {
        Ok(law) if shape > 0.0 => law.inverse_cdf(p),
        _ => 0.0,
    };
    [quantile(count, tail), quantile(count + 1.0, 1.0 - tail)]
}

/// P(Poisson(`mean`) >= `count`); a count between integers is interpolated by
/// the incomplete gamma function.
pub fn poisson_at_least(count: f64, mean: f64) -> f64 {
    if count <= 0.0 {
        1.0
    } else if mean <= 0.0 {
        0.0
    } else {
        gamma_lr(count, mean)
    }
}

/// P(Poisson(`mean`) <= `count`), for a count of at least 0; one between integers is interpolated likewise.
pub fn poisson_at_most(count: f64, mean: f64) -> f64 {
    if mean <= 0.0 {
        1.0
    } else {
        gamma_ur(count + 1.0, mean)
    }
}

/// P(standard normal > z).
pub fn normal_above(z: f64) -> f64 {
    Normal::standard().sf(z)
}

/// The z with P(standard normal > z) = `alpha`.
pub fn normal_quantile_above(alpha: f64) -> f64 {
    -Normal::standard().inverse_cdf(alpha)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: hand-computed binomial tails. P(Bin(10, 0.1) >= 1) = 1 - 0.9^10,
    /// P(Bin(4, 0.5) >= 3) = 5/16.
    #[test]
    fn binomial_tails_by_hand() {
        let one = binomial_at_least(10, 1, 0.1);
        assert!((one - (1.0 - 0.9f64.powi(10))).abs() < 1e-12, "{one}");
        let three = binomial_at_least(4, 3, 0.5);
        assert!((three - 5.0 / 16.0).abs() < 1e-12, "{three}");
        assert_eq!(binomial_at_least(10, 0, 0.0), 1.0);
        assert_eq!(binomial_at_least(10, 1, 0.0), 0.0);
        assert_eq!(binomial_at_least(10, 11, 0.9), 0.0);
        assert_eq!(binomial_at_least(10, 10, 1.0), 1.0);
    }

    /// Goal: tails far out are those of the summed probabilities, computed here
    /// term by term, over the sizes that tests meet.
    #[test]
    fn binomial_tails_match_the_sum_of_terms() {
        for (sent, rate) in [
            (700u64, 2e-5),
            (4_096, 4e-5),
            (60_000, 4e-5),
            (1_000_000, 4e-5),
        ] {
            for lost in 1..60u64 {
                let mut ln_term = sent as f64 * f64::ln_1p(-rate);
                let mut sum = 0.0;
                for i in 0..=lost + 200 {
                    if i >= lost {
                        sum += ln_term.exp();
                    }
                    ln_term +=
                        ((sent - i) as f64 / (i + 1) as f64).ln() + (rate / (1.0 - rate)).ln();
                }
                let tail = binomial_at_least(sent, lost, rate);
                assert!(
                    (tail / sum - 1.0).abs() < 1e-6,
                    "{sent} {lost} {rate}: {tail} not {sum}"
                );
            }
        }
    }

    /// Goal: the critical number is the smallest improbable one.
    #[test]
    fn critical_losses_are_minimal() {
        for sent in [1u64, 7, 500, 4_096, 1_000_000] {
            for rate in [0.0, 2e-5, 1e-3, 0.3] {
                for alpha in [0.01, 1e-6] {
                    let m = critical_losses(sent, rate, alpha);
                    assert!(m == sent + 1 || binomial_at_least(sent, m, rate) <= alpha);
                    assert!(
                        m >= 1 && binomial_at_least(sent, m - 1, rate) > alpha,
                        "{sent} {rate} {alpha}: {m}"
                    );
                }
            }
        }
    }

    /// Goal: the inversion of the tail is exact over the sizes that tests meet.
    #[test]
    fn rate_for_power_inverts_the_tail() {
        for sent in [10u64, 700, 4_096, 60_000, 1_000_000, 100_000_000] {
            for lost in [1u64, 2, 5, 10, 100, 700, 4_000, 40_000] {
                for power in [0.025, 0.5, 0.975, 0.99, 0.995] {
                    let Some(rate) = rate_for_power(sent, lost, power) else {
                        continue;
                    };
                    let back = binomial_at_least(sent, lost, rate);
                    assert!(
                        (back - power).abs() < 1e-6,
                        "{sent} {lost} {power}: rate {rate} gives {back}"
                    );
                }
            }
        }
    }

    /// Goal: published values. 0 of 1,000 gives [0, 0.003682] (rule of three:
    /// 1 - 0.025^(1/1000)); 2 of 16 gives [0.01551, 0.38348].
    #[test]
    fn clopper_pearson_by_hand() {
        let [low, high] = clopper_pearson(0, 1000, 0.95);
        assert_eq!(low, 0.0);
        assert!((high - (1.0 - 0.025f64.powf(1e-3))).abs() < 1e-9, "{high}");
        let [low, high] = clopper_pearson(2, 16, 0.95);
        assert!(
            (low - 0.015_51).abs() < 1e-4 && (high - 0.383_48).abs() < 1e-4,
            "{low} {high}"
        );
        assert_eq!(clopper_pearson(5, 5, 0.95)[1], 1.0);
    }

    /// Goal: published values. 0 seen gives [0, 3.689]; 10 seen gives [4.795, 18.390].
    #[test]
    fn poisson_tails_by_hand() {
        // e^-3, and 1 - e^-3 - 3 e^-3.
        assert!((poisson_at_most(0.0, 3.0) - (-3.0f64).exp()).abs() < 1e-12);
        assert!((poisson_at_least(2.0, 3.0) - (1.0 - 4.0 * (-3.0f64).exp())).abs() < 1e-12);
        assert_eq!(poisson_at_most(5.0, 0.0), 1.0);
    }

    #[test]
    fn poisson_interval_by_hand() {
        let [low, high] = poisson_interval(0.0, 0.95);
        assert_eq!(low, 0.0);
        assert!((high - 3.688_88).abs() < 1e-4, "{high}");
        let [low, high] = poisson_interval(10.0, 0.95);
        assert!(
            (low - 4.795_4).abs() < 1e-3 && (high - 18.390_4).abs() < 1e-3,
            "{low} {high}"
        );
    }

    /// Goal: the normal quantile is the textbook's.
    #[test]
    fn normal_quantiles_by_hand() {
        let z = normal_quantile_above(0.025);
        assert!((z - 1.959_964).abs() < 1e-5, "{z}");
        assert!((normal_above(z) - 0.025).abs() < 1e-9);
    }
}
