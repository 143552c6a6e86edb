//! Where a healthy path ends: the paper's threshold and the calibrated ones.
//!
//! Called by the judge once per path and test. Pure functions of the packets,
//! the noise and the error rates; they guarantee that a healthy path (losing at
//! most what is tolerated, with noise no worse than calibrated) falls below the
//! threshold with probability at most alpha.

use serde::{Deserialize, Serialize};

use crate::noise::Noise;
use crate::rules::{Evidence, Reference, Rules, ThresholdRule};
use crate::tails::{binomial_at_least, critical_losses, normal_quantile_above, rate_for_power};

/// Probability with which a test must see a rate to count it as detectable
/// (design: power 0.99).
pub const POWER: f64 = 0.99;

/// Share of alpha at which a test of exact counts stands where its packets allow. Alpha is split
/// over links; of L leaves (L-1)/2 times as many paths are tested, so that at 1 % alpha bounds the
/// false path alarms of a round as well, up to 200 leaves.
const ALPHA_SPARED: f64 = 0.01;

/// Misses of the target rate up to which they allow it: a tenth of what P_min is made for.
const MISS_SPENT: f64 = 1e-3;

/// s of the `paper` preset. The paper finds s by ROC and prints no number; 0.65
/// lies in every zero-error interval that an independent model of JSQ(2) at load
/// 0.98 found for 0.4 % to 1.5 % at the paper's packet counts.
pub const PAPER_SENSITIVITY: f64 = 0.65;

/// A threshold and what it can see.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Threshold {
    /// Packets that may be missing: the path fails if more are.
    pub allowed_loss: f64,
    /// Smallest loss rate of the path that is seen with probability [`POWER`];
    /// `None` if not even a dead path is.
    pub min_detectable_rate: Option<f64>,
}

/// The paper's threshold t = lambda - s*sqrt(N/k), in packets.
pub fn paper_threshold(lambda: f64, sensitivity: f64) -> f64 {
    lambda - sensitivity * lambda.sqrt()
}

/// The threshold of one path's test: `expected` packets (S, or lambda for
/// receive-only evidence) in `windows` windows.
pub fn threshold(rules: &Rules, evidence: Evidence, expected: f64, windows: u32) -> Threshold {
    let packets = expected.round().max(0.0) as u64;
    if evidence != Evidence::ReceiveOnly {
        let critical = placed(rules, packets);
        return Threshold {
            allowed_loss: (critical - 1) as f64,
            min_detectable_rate: rate_for_power(packets, critical, POWER),
        };
    }
    let noise = rules.noise;
    let allowed_loss = match rules.threshold {
        ThresholdRule::Paper { sensitivity } => sensitivity * expected.max(0.0).sqrt(),
        ThresholdRule::Calibrated => {
            let alpha = rules.alpha_per_path();
            noise.critical(expected, windows, rules.path_p0(), alpha)
                + reference_excess(rules, expected, windows)
        }
    };
    Threshold {
        allowed_loss,
        min_detectable_rate: receive_only_limit(noise, packets, windows, allowed_loss),
    }
}

/// The fewest losses of `packets` that fail a path, by exact counts. Fewer than this are no
/// evidence at alpha; and as long as the target rate is missed with probability [`MISS_SPENT`] at
/// most, the bound goes up until a healthy path reaches it with [`ALPHA_SPARED`] of alpha alone.
fn placed(rules: &Rules, packets: u64) -> u64 {
    let (p0, alpha) = (rules.path_p0(), rules.alpha_per_path());
    let least = critical_losses(packets, p0, alpha);
    let most = critical_losses(packets, p0, ALPHA_SPARED * alpha);
    let affords =
        |losses: &u64| binomial_at_least(packets, *losses, rules.target_rate) >= 1.0 - MISS_SPENT;
    (least + 1..=most).rev().find(affords).unwrap_or(least)
}

/// Packets by which the reference itself may lie above the share of a path, because it is taken
/// from noisy siblings. The median of k normal counts has a standard deviation of 1.25/sqrt(k),
/// that is 0.44 for 8; the highest seven eighths lie 1.15 above the mean, and scatter by as much.
pub(crate) fn reference_excess(rules: &Rules, expected: f64, windows: u32) -> f64 {
    let sds = match rules.reference {
        Reference::Marked | Reference::Announced => 0.0,
        Reference::SiblingMedian => 0.44,
        Reference::SiblingUpper => 1.6,
    };
    sds * rules.noise.variance(expected, windows).sqrt()
}

/// The smallest rate that a receive-only test sees with probability [`POWER`].
///
/// The additive term widens the deficit like that many more losses of the same
/// variance would, so it is added to packets, losses and threshold alike. The
/// random term is given its quantile, and half of the misses.
fn receive_only_limit(noise: Noise, packets: u64, windows: u32, allowed: f64) -> Option<f64> {
    let additive = Noise {
        sigma: 0.0,
        ..noise
    }
    .variance(0.0, windows)
    .ceil() as u64;
    let miss = 1.0 - POWER;
    let (hidden, power) = if noise.sigma > 0.0 {
        let noise_sd = noise.sigma * (packets as f64).sqrt();
        (
            normal_quantile_above(miss / 2.0) * noise_sd,
            1.0 - miss / 2.0,
        )
    } else {
        (0.0, POWER)
    };
    let needed = (allowed + hidden).floor() as u64 + 1;
    if needed > packets {
        return None;
    }
    let shifted = rate_for_power(packets + additive, needed + additive, power)?;
    let losses = shifted * (packets + additive) as f64 - additive as f64;
    Some((losses / packets as f64).clamp(0.0, 1.0))
}

/// Packets per spine from which on one window's test sees `rate` with
/// probability [`POWER`]; `None` if 2^32 are not enough.
pub fn packets_needed(rules: &Rules, rate: f64) -> Option<u64> {
    let enough = |packets: u64| {
        threshold(rules, rules.evidence, packets as f64, 1)
            .min_detectable_rate
            .is_some_and(|seen| seen <= rate)
    };
    let mut above = 1;
    while !enough(above) {
        above *= 2;
        if above > 1 << 32 {
            return None;
        }
    }
    let mut below = above / 2;
    while above - below > 1 {
        let middle = below + (above - below) / 2;
        if enough(middle) {
            above = middle;
        } else {
            below = middle;
        }
    }
    Some(above)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Fabric;

    const FABRIC: Fabric = Fabric {
        leaves: 8,
        spines: 8,
    };

    /// Goal: the paper's formula by hand: 10,000 packets, s = 2: 10,000 - 200.
    #[test]
    fn the_papers_threshold_by_hand() {
        assert_eq!(paper_threshold(10_000.0, 2.0), 9_800.0);
        let rules = Rules {
            threshold: ThresholdRule::Paper { sensitivity: 2.0 },
            ..Rules::paper(FABRIC)
        };
        let t = threshold(&rules, Evidence::ReceiveOnly, 10_000.0, 1);
        assert_eq!(t.allowed_loss, 200.0);
    }

    /// Goal: source counts at S = 4,096 by hand: a healthy path loses 0.164 on
    /// average, alpha is 1e-3/128 = 7.8e-6. P(>= 4) = 2.6e-5, P(>= 5) = 8.6e-7, so that 4 losses
    /// are allowed at a target rate of 0.2 %, of which 8.2 are lost. Of 0.5 % 20.5 are, and fewer
    /// than 6 with probability 5e-5: 5 are allowed, since P(>= 6) = 2.4e-8 is under 1 % of alpha.
    #[test]
    fn source_counts_threshold_by_hand() {
        let at = |target_rate| {
            let rules = Rules {
                target_rate,
                ..Rules::new(FABRIC)
            };
            threshold(&rules, Evidence::SourceCounts, 4_096.0, 1)
        };
        assert_eq!((at(0.002).allowed_loss, at(0.005).allowed_loss), (4.0, 5.0));
        // 99 % of Poisson laws with mean 11.6 exceed 4 (Garwood: Gamma(5) quantile 0.99).
        let seen = at(0.002).min_detectable_rate.expect("detectable") * 4_096.0;
        assert!((seen - 11.6).abs() < 0.1, "mean {seen} not 11.6");
    }

    /// Goal: at any number of packets alpha holds, the threshold goes beyond it only while the
    /// target rate is hardly ever missed, and a test of many packets errs a hundredth as often.
    #[test]
    fn thresholds_spend_spare_power_on_fewer_false_alarms() {
        let rules = Rules::new(FABRIC);
        let alpha = rules.alpha_per_path();
        let mut moved = 0;
        for packets in (500..60_000).step_by(487) {
            let t = threshold(&rules, Evidence::SourceCounts, packets as f64, 1);
            let fails = t.allowed_loss as u64 + 1;
            let by_chance = binomial_at_least(packets, fails, rules.path_p0());
            let missed = 1.0 - binomial_at_least(packets, fails, rules.target_rate);
            let least = critical_losses(packets, rules.path_p0(), alpha);
            assert!(by_chance <= alpha && fails >= least, "{packets}: {t:?}");
            if fails > least {
                moved += 1;
                assert!(missed <= MISS_SPENT, "{packets}: {missed}");
            }
            if packets > 5_000 {
                assert!(by_chance <= ALPHA_SPARED * alpha, "{packets}: {by_chance}");
            }
        }
        assert!(moved > 100, "moved at {moved} of 123 numbers of packets");
    }

    /// Goal: packets that each evidence needs for power 0.99, with alpha split over an 8x8
    /// fabric, are within the project's targets for one leaf pair (receive-only 5,000 / 2,500 / 1,800; source counts 3,400 / 1,700 / 1,150).
    #[test]
    fn packets_needed_meet_the_targets() {
        let source = Rules::new(FABRIC);
        let receive = source.with_evidence(Evidence::ReceiveOnly);
        for (rules, targets) in [
            (source, [3_400, 1_700, 1_150]),
            (receive, [5_000, 2_500, 1_800]),
        ] {
            for (rate, target) in [0.005, 0.01, 0.015].into_iter().zip(targets) {
                let needed = packets_needed(&rules, rate).expect("reachable");
                println!("{:?} {rate}: {needed} packets per spine", rules.evidence);
                assert!(
                    needed <= target,
                    "{:?} {rate}: {needed} over {target}",
                    rules.evidence
                );
            }
        }
    }

    /// Goal: random ties cannot see 0.5 % at the paper's P_min, and say from
    /// which rate on they could.
    #[test]
    fn random_ties_are_told_their_limit() {
        let rules = Rules {
            threshold: ThresholdRule::Calibrated,
            ..Rules::paper(FABRIC)
        };
        let seen = threshold(&rules, Evidence::ReceiveOnly, 60_000.0, 1).min_detectable_rate;
        let seen = seen.expect("a dead path is seen");
        assert!(seen > 0.005 && seen < 0.1, "{seen}");
    }

    /// Goal: a sibling as reference costs its own noise, and no more.
    #[test]
    fn a_sibling_as_reference_costs_its_noise() {
        let allowed = |reference| {
            let rules = Rules {
                reference,
                ..Rules::new(FABRIC).with_evidence(Evidence::ReceiveOnly)
            };
            threshold(&rules, Evidence::ReceiveOnly, 5_000.0, 1).allowed_loss
        };
        let marked = allowed(Reference::Marked);
        let median = allowed(Reference::SiblingMedian);
        let upper = allowed(Reference::SiblingUpper);
        assert!(
            marked < median && median < upper && upper < marked + 4.0,
            "{marked} {median} {upper}"
        );
    }
}
