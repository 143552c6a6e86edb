//! ECN marking of a queue (RED on its instantaneous depth, as DCQCN wants it): never below Kmin,
//! with a probability that rises to Pmax at Kmax, always above.

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::config::{EcnConfig, QueueConfig};
use crate::port::PRIORITIES;

/// A marking curve in bytes of one queue.
#[derive(Clone, Copy)]
struct Curve {
    kmin_bytes: u64,
    kmax_bytes: u64,
    /// Probability per byte above Kmin, in units of 2^-48.
    slope: u64,
}

impl Curve {
    /// That of a queue at a port of such a rate.
    fn new(config: &EcnConfig, rate_bps: u64) -> Curve {
        let (kmin_bytes, kmax_bytes) = config.thresholds_bytes(rate_bps);
        let width = kmax_bytes.saturating_sub(kmin_bytes).max(1);
        Curve {
            kmin_bytes,
            kmax_bytes,
            slope: (((u64::from(config.pmax_ppm.min(1_000_000)) << 44) / 1_000_000) << 4) / width,
        }
    }

    /// Marks nothing.
    const OFF: Curve = Curve {
        kmin_bytes: u64::MAX,
        kmax_bytes: u64::MAX,
        slope: 0,
    };
}

/// The curves of all queues of a switch, and the chance that they need.
pub struct Red {
    curves: Vec<[Curve; PRIORITIES]>,
    random: Xoshiro256PlusPlus,
}

impl Red {
    /// For ports of such rates. The generator is not the sprayer's, so that marking changes no
    /// choice of an uplink.
    pub fn new(config: &QueueConfig, rates_bps: impl Iterator<Item = u64>, seed: u64) -> Red {
        let curves = |rate_bps| {
            config.ecn.each_ref().map(|ecn| match ecn {
                Some(ecn) => Curve::new(ecn, rate_bps),
                None => Curve::OFF,
            })
        };
        Red {
            curves: rates_bps.map(curves).collect(),
            random: Xoshiro256PlusPlus::seed_from_u64(seed ^ 0x00ec_0000_c0de),
        }
    }

    /// Whether a packet that finds `depth_bytes` in the queue of `priority` is to be marked.
    #[inline(always)]
    pub fn marks(&mut self, port: usize, priority: usize, depth_bytes: u64) -> bool {
        let curve = &self.curves[port][priority];
        if depth_bytes <= curve.kmin_bytes {
            return false;
        }
        if depth_bytes > curve.kmax_bytes {
            return true;
        }
        let probability = ((depth_bytes - curve.kmin_bytes) * curve.slope) >> 16;
        u64::from(self.random.next_u32()) < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn red(ecn: EcnConfig, rate_bps: u64) -> Red {
        let config = QueueConfig {
            limit_bytes: 1 << 20,
            packets_max: 16,
            slack_ns: 0,
            overhead_bytes: 24,
            dscp_priority: [0; 64],
            pcp_priority: None,
            ecn: [Some(ecn), None, None, None, None, None, None, None],
        };
        Red::new(&config, [rate_bps].into_iter(), 11)
    }

    /// Goal: the share of marked packets lies within five standard deviations of the curve.
    #[test]
    #[cfg_attr(miri, ignore = "draws too often")]
    fn the_curve_is_kept_within_its_binomial_interval() {
        let ecn = EcnConfig {
            kmin_bytes: 40_000,
            kmax_bytes: 160_000,
            pmax_ppm: 200_000,
            at_rate_bps: None,
        };
        let mut red = red(ecn, 10_000_000_000);
        let trials = 200_000u32;
        for (depth, expected) in [
            (0, 0.0),
            (40_000, 0.0),
            (52_000, 0.02),
            (100_000, 0.1),
            (159_999, 0.2),
            (160_000, 0.2),
            (160_001, 1.0),
            (1 << 30, 1.0),
        ] {
            let marked = (0..trials).filter(|_| red.marks(0, 0, depth)).count() as f64;
            let mean = f64::from(trials) * expected;
            let deviation = (mean * (1.0 - expected)).sqrt();
            assert!(
                (marked - mean).abs() <= 5.0 * deviation,
                "{marked} of {trials} marked at {depth} bytes, expected {mean} +- {deviation}"
            );
            assert!(!red.marks(0, 1, depth), "another queue is not marked");
        }
    }

    /// Goal: thresholds for 100 Gb/s are a tenth at 10 Gb/s, and a step is possible.
    #[test]
    fn thresholds_scale_with_the_rate() {
        let ecn = EcnConfig {
            kmin_bytes: 400_000,
            kmax_bytes: 400_000,
            pmax_ppm: 1_000_000,
            at_rate_bps: Some(100_000_000_000),
        };
        let mut red = red(ecn, 10_000_000_000);
        assert!(!red.marks(0, 0, 40_000) && red.marks(0, 0, 40_001));
    }
}
