//! The sequential test: alarms as soon as the evidence is there.
//!
//! Windows of a path follow each other; each gives `lost` of `sent` packets. For each of several
//! loss rates p the likelihood ratio of the window, losses at p against the tolerated rate p0, is
//!
//! ```text
//! L = (p/p0)^lost * ((1-p)/(1-p0))^(sent-lost)
//! ```
//!
//! and the Shiryaev-Roberts statistic of that rate goes on as R' = (1 + R) L: the sum, over all
//! windows in which the loss may have begun, of the evidence since. The test alarms when the
//! weighted sum over rates reaches A. Of a path that loses p0, each R less the number of windows is
//! a martingale, and so is the sum; hence the mean number of windows to a false alarm is at least
//! A (Pollak 1985; e-detectors: Shin, Ramdas, Rinaldo 2022), whatever the weights. With less loss
//! it is longer. `spraycheck sim sequential` compares it with CUSUM and GLR at equal false alarm
//! rates.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::rules::Rules;
use crate::types::{Nanos, Path};

/// Loss rates that are looked for side by side, each the double or more of the one before: between
/// two of them a rate costs a fraction of a nat.
pub const RATES: [f64; 9] = [0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.06, 0.25, 0.9];

/// Their weights, summing up to 1. Small losses need the most packets, so they get the most.
pub const WEIGHTS: [f64; 9] = [0.16, 0.2, 0.14, 0.16, 0.14, 0.1, 0.06, 0.03, 0.01];

/// Windows in which all healthy paths of the fabric together may raise alpha false alarms, by
/// default. Sixteen windows of 64 packets per spine are what one test of fixed size takes.
pub const WINDOWS_PER_HORIZON: u32 = 16;

/// Mean windows of a healthy path to a false alarm, at least, however small the fabric is. 10^8
/// marked packets are 1.6 million windows of 64: one in twenty such runs may then have an alarm.
pub const RUN_LENGTH_MIN: f64 = 3.2e7;

/// An alarm of the sequential test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Alarm {
    /// The path.
    pub path: Path,
    /// Packets since the loss most likely began.
    pub packets: u64,
    /// Losses among them.
    pub lost: u64,
    /// The logarithm of the statistic, in nats.
    pub evidence: f64,
    /// When the window closed that raised it.
    pub at_ns: Nanos,
}

/// The test of all paths; memory grows with the paths seen, up to (leaves - 1) * spines of them at
/// a destination leaf (about 300 bytes each).
#[derive(Clone, Debug)]
pub struct Sequential {
    /// ln of the likelihood ratio of a lost and of a delivered packet.
    steps: [(f64, f64); RATES.len()],
    /// A.
    alarm_at: f64,
    paths: BTreeMap<Path, [Walk; RATES.len()]>,
}

/// The evidence for one rate.
#[derive(Clone, Copy, Debug, Default)]
struct Walk {
    /// R.
    sum: f64,
    /// The logarithm of its largest term (CUSUM), and what has come since that one began.
    largest: f64,
    packets: u64,
    lost: u64,
}

/// Loss rate that "healthy" stands for if p0 is 0: a ratio needs some.
const HEALTHY_RATE_MIN: f64 = 1e-9;

impl Sequential {
    /// A test with the rules' tolerated loss. The mean number of windows of a healthy path to a
    /// false alarm is at least `windows_per_horizon` over the rules' alpha per link
    /// ([`WINDOWS_PER_HORIZON`] by default), and at least [`RUN_LENGTH_MIN`].
    pub fn new(rules: &Rules, windows_per_horizon: u32) -> Sequential {
        let healthy = rules.path_p0().max(HEALTHY_RATE_MIN);
        let steps = RATES.map(|rate| {
            let rate = rate.max(2.0 * healthy).min(1.0 - 1e-9);
            ((rate / healthy).ln(), (-rate).ln_1p() - (-healthy).ln_1p())
        });
        Sequential {
            steps,
            alarm_at: (f64::from(windows_per_horizon.max(1)) / rules.alpha_per_link())
                .max(RUN_LENGTH_MIN),
            paths: BTreeMap::new(),
        }
    }

    /// The logarithm of the statistic at which it alarms, in nats.
    pub fn alarm_at(&self) -> f64 {
        self.alarm_at.ln()
    }

    /// Mean windows of a healthy path to a false alarm, at least.
    pub fn run_length_min(&self) -> f64 {
        self.alarm_at
    }

    /// Smallest loss rate of a path that raises the alarm within `packets` packets with probability
    /// [`POWER`](crate::threshold::POWER), whatever stood before; `None` if not even a dead path
    /// does.
    pub fn min_detectable_rate(&self, packets: u64) -> Option<f64> {
        // The statistic is at least the weighted likelihood ratio of all these packets at one rate.
        let needed = |(&(per_loss, per_delivery), weight): (&(f64, f64), &f64)| {
            let missing = self.alarm_at() - weight.ln() - packets as f64 * per_delivery;
            (missing / (per_loss - per_delivery)).ceil() as u64
        };
        let lost = self.steps.iter().zip(&WEIGHTS).map(needed).min()?;
        crate::tails::rate_for_power(packets, lost, crate::threshold::POWER)
    }

    /// Packets after which a path that loses `rate` has raised the alarm with probability
    /// [`POWER`](crate::threshold::POWER); `None` if 2^32 are not enough.
    pub fn packets_needed(&self, rate: f64) -> Option<u64> {
        let sees = |packets: u64| self.min_detectable_rate(packets).is_some_and(|r| r <= rate);
        let (mut below, mut enough) = (0, 1);
        while !sees(enough) {
            below = enough;
            enough *= 2;
            if enough > 1 << 32 {
                return None;
            }
        }
        while enough - below > 1 {
            let middle = below + (enough - below) / 2;
            if sees(middle) {
                enough = middle;
            } else {
                below = middle;
            }
        }
        Some(enough)
    }

    /// Adds one window of a path: `lost` of `sent` packets, own drops taken out.
    /// After an alarm the path starts again from zero.
    pub fn add(&mut self, path: Path, sent: u64, lost: u64, at_ns: Nanos) -> Option<Alarm> {
        let lost = lost.min(sent);
        let walks = self.paths.entry(path).or_default();
        let mut statistic = 0.0;
        let (mut best, mut best_share) = (Walk::default(), 0.0);
        let rates = walks.iter_mut().zip(self.steps).zip(WEIGHTS);
        for ((walk, (per_loss, per_delivery)), weight) in rates {
            let step = lost as f64 * per_loss + (sent - lost) as f64 * per_delivery;
            walk.sum = (1.0 + walk.sum) * step.exp();
            if walk.largest <= 0.0 {
                *walk = Walk {
                    sum: walk.sum,
                    ..Walk::default()
                };
            }
            walk.largest += step;
            walk.packets += sent;
            walk.lost += lost;
            statistic += weight * walk.sum;
            if weight * walk.sum > best_share {
                (best, best_share) = (*walk, weight * walk.sum);
            }
        }
        if statistic < self.alarm_at {
            return None;
        }
        self.paths.remove(&path);
        Some(Alarm {
            path,
            packets: best.packets,
            lost: best.lost,
            evidence: statistic.min(f64::MAX).ln(),
            at_ns,
        })
    }

    /// Forgets a path, when its link or liveness changed.
    pub fn forget(&mut self, path: Path) {
        self.paths.remove(&path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::{Fabric, LeafId, SpineId};

    const PATH: Path = Path {
        src: LeafId(0),
        spine: SpineId(0),
        dst: LeafId(1),
    };

    fn sequential() -> Sequential {
        Sequential::new(
            &Rules::new(Fabric {
                leaves: 8,
                spines: 8,
            }),
            1,
        )
    }

    /// Goal: by hand: ln A = ln 3.2e7 = 17.28. Four losses of 64 packets in the first window weigh
    /// 4*ln(0.06/4e-5) + 60*ln(0.94) = 29.25 - 3.71 = 25.5 at 6 %, 22.7 after its weight of 0.06:
    /// an alarm. Two weigh at most 2*ln(0.02/4e-5) + 62*ln(0.98) = 11.2: none.
    #[test]
    fn the_statistic_by_hand() {
        assert!((sequential().alarm_at() - 17.28).abs() < 0.01);
        assert!((WEIGHTS.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert_eq!(sequential().add(PATH, 64, 2, Nanos(1)), None);
        let alarm = sequential().add(PATH, 64, 4, Nanos(2)).expect("an alarm");
        assert!((22.7..24.5).contains(&alarm.evidence), "{alarm:?}");
        assert_eq!((alarm.packets, alarm.lost), (64, 4));
    }

    /// Goal: a large fabric has a longer run length: 2,048 links, 16 windows per horizon.
    #[test]
    fn alpha_is_split_over_links() {
        let rules = Rules::new(Fabric {
            leaves: 32,
            spines: 32,
        });
        let test = Sequential::new(&rules, WINDOWS_PER_HORIZON);
        assert!((test.run_length_min() / (16.0 * 2_048.0 / 1e-3) - 1.0).abs() < 1e-9);
    }

    /// Goal: what the test says it sees is what it sees: a path that loses one in every 1/rate
    /// packets alarms within the packets that it asks for, and not with a tenth of them.
    #[test]
    fn it_knows_what_it_can_see() {
        for rate in [0.001, 0.005, 0.015] {
            let needed = sequential().packets_needed(rate).expect("enough");
            let (mut test, every) = (sequential(), (1.0 / rate) as u64);
            let alarm = (1..)
                .map(|n| n * every)
                .find(|_| test.add(PATH, every, 1, Nanos(0)).is_some())
                .expect("an alarm");
            assert!(
                alarm <= needed && needed < 10 * alarm,
                "{rate}: alarm after {alarm}, needed {needed}"
            );
            assert_eq!(sequential().min_detectable_rate(1), None);
        }
    }

    /// Goal: a path without loss never alarms and its statistic does not drift, so
    /// a failure after a long quiet time is seen as fast as at once, and told from when on.
    #[test]
    fn a_long_quiet_time_does_not_delay() {
        let mut test = sequential();
        for second in 0..100_000 {
            assert_eq!(test.add(PATH, 64, 0, Nanos(second)), None);
        }
        let alarm = test.add(PATH, 64, 4, Nanos(0)).expect("an alarm");
        assert_eq!((alarm.packets, alarm.lost), (64, 4));
    }

    /// Goal: whatever is lost, the evidence is a number.
    #[test]
    fn a_dead_path_gives_a_number() {
        let alarm = sequential()
            .add(PATH, 1 << 40, 1 << 40, Nanos(0))
            .expect("an alarm");
        assert!(alarm.evidence.is_finite(), "{alarm:?}");
    }
}
