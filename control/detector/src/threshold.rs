//! Where a healthy path ends: the paper's threshold and the calibrated ones.
//!
//! Called by the judge once per path and test. Pure functions of the packets,
//! the noise and the error rates; they guarantee that a healthy path (losing at
//! most what is tolerated, with noise no worse than calibrated) falls below the
//! threshold with probability at most alpha.

use serde::{Deserialize, Serialize};

use crate::noise::Noise;
use crate::rules::{Evidence, Reference, Rules, ThresholdRule};
use crate::tails::{critical_losses, normal_quantile_above, rate_for_power};

/// Probability with which a test must see a rate to count it as detectable
/// (design: power 0.99).
pub const POWER: f64 = 0.99;

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
        let critical = critical_losses(packets, rules.path_p0(), rules.alpha_per_path());
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
    /// average, alpha is 1e-3/128 = 7.8e-6. P(>= 4) = 2.6e-5, P(>= 5) = 8.6e-7,
    /// so 4 losses are allowed.
    #[test]
    fn source_counts_threshold_by_hand() {
        let t = threshold(&Rules::new(FABRIC), Evidence::SourceCounts, 4_096.0, 1);
        assert_eq!(t.allowed_loss, 4.0);
        // 99 % of Poisson laws with mean 11.6 exceed 4 (Garwood: Gamma(5) quantile 0.99).
        let seen = t.min_detectable_rate.expect("detectable") * 4_096.0;
        assert!((seen - 11.6).abs() < 0.1, "mean {seen} not 11.6");
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
