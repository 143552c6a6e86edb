//! The sequential test: an alarm as soon as the evidence is there.
//!
//! The agent feeds it the source counts of back-to-back small windows of a path,
//! (S, lost) each; it keeps one number per path and assumed rate and never has to
//! be sized for the smallest failure. It is a CUSUM (Page 1954): the
//! log-likelihood ratio of "loses p1" against "loses what is tolerated", started
//! again whenever it falls below zero,
//!
//! ```text
//! W = max(0, W + lost*ln(p1/p0) + (S - lost)*ln((1 - p1)/(1 - p0)))
//! ```
//!
//! and it alarms at W >= h. Several p1 run side by side, so that small losses are
//! seen at all and large ones at once. One CUSUM with likelihood-ratio steps
//! crosses h in the mean no sooner than after e^h windows (Lorden 1971); with
//! h = ln(rates/alpha) the rates together alarm about once in 1/alpha windows of a
//! healthy path, or more seldom.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::rules::Rules;
use crate::types::{Nanos, Path};

/// Loss rates that are looked for side by side: each reacts best near itself and
/// well up to about three times it.
pub const ALTERNATIVES: [f64; 5] = [0.0005, 0.002, 0.01, 0.1, 0.9];

/// An alarm of the sequential test.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Alarm {
    /// The path.
    pub path: Path,
    /// Packets since the statistic last stood at zero.
    pub packets: u64,
    /// Losses among them.
    pub lost: u64,
    /// The statistic W, in nats.
    pub evidence: f64,
    /// When the window closed that raised it.
    pub at_ns: Nanos,
}

/// One CUSUM per path and alternative; memory grows with the paths seen, up to
/// (leaves - 1) * spines of them at a destination leaf (about 150 bytes each).
#[derive(Clone, Debug)]
pub struct Sequential {
    /// ln of the likelihood ratio of a lost and of a delivered packet.
    steps: [(f64, f64); ALTERNATIVES.len()],
    alarm_at: f64,
    paths: BTreeMap<Path, [Walk; ALTERNATIVES.len()]>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Walk {
    evidence: f64,
    packets: u64,
    lost: u64,
}

/// Loss rate that "healthy" stands for if p0 is 0: a ratio needs some.
const HEALTHY_RATE_MIN: f64 = 1e-9;

impl Sequential {
    /// A test with the rules' tolerated loss; alpha per window of a path is the
    /// rules' alpha over the fabric's paths and `windows_per_horizon`, so that all
    /// paths together give at most about alpha false alarms per horizon of that
    /// many windows each.
    pub fn new(rules: &Rules, windows_per_horizon: u32) -> Sequential {
        let alpha = rules.alpha_per_path() / f64::from(windows_per_horizon.max(1));
        let healthy = rules.path_p0().max(HEALTHY_RATE_MIN);
        let steps = ALTERNATIVES.map(|rate| {
            let rate = rate.max(2.0 * healthy);
            ((rate / healthy).ln(), (-rate).ln_1p() - (-healthy).ln_1p())
        });
        let alarm_at = (ALTERNATIVES.len() as f64 / alpha).ln();
        Sequential {
            steps,
            alarm_at,
            paths: BTreeMap::new(),
        }
    }

    /// The statistic at which it alarms, in nats.
    pub fn alarm_at(&self) -> f64 {
        self.alarm_at
    }

    /// Smallest loss rate of a path that raises the alarm within `packets` packets with probability
    /// [`POWER`](crate::threshold::POWER), whatever stood before; `None` if not even a dead path
    /// does.
    pub fn min_detectable_rate(&self, packets: u64) -> Option<f64> {
        let needed = |&(per_loss, per_delivery): &(f64, f64)| {
            let missing = self.alarm_at - packets as f64 * per_delivery;
            (missing / (per_loss - per_delivery)).ceil() as u64
        };
        let lost = self.steps.iter().map(needed).min()?;
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
        let mut alarm: Option<Alarm> = None;
        for (walk, (per_loss, per_delivery)) in walks.iter_mut().zip(self.steps) {
            let step = lost as f64 * per_loss + (sent - lost) as f64 * per_delivery;
            walk.evidence += step;
            walk.packets += sent;
            walk.lost += lost;
            if walk.evidence <= 0.0 {
                *walk = Walk::default();
            }
            let Walk {
                evidence,
                packets,
                lost,
            } = *walk;
            if evidence >= self.alarm_at && alarm.is_none_or(|other| other.evidence < evidence) {
                alarm = Some(Alarm {
                    path,
                    packets,
                    lost,
                    evidence,
                    at_ns,
                });
            }
        }
        if alarm.is_some() {
            self.paths.remove(&path);
        }
        alarm
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

    /// Goal: by hand: h = ln(5 * 448 / 1e-3) = 14.62; three losses of 64 packets
    /// weigh 3*ln(0.1/4e-5) + 61*ln(0.9) = 23.5 - 6.4 = 17.0 at 10 %: an alarm; two
    /// weigh at most 2*ln(0.01/4e-5) + 62*ln(0.99) = 10.4: none.
    #[test]
    fn the_statistic_by_hand() {
        let mut test = sequential();
        assert!(
            (test.alarm_at() - 14.62).abs() < 0.01,
            "{}",
            test.alarm_at()
        );
        assert_eq!(test.add(PATH, 64, 2, Nanos(1)), None);
        let alarm = sequential().add(PATH, 64, 3, Nanos(2)).expect("an alarm");
        assert!((alarm.evidence - 17.0).abs() < 0.1, "{alarm:?}");
        assert_eq!((alarm.packets, alarm.lost), (64, 3));
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
    /// a failure after a long quiet time is seen as fast as at once.
    #[test]
    fn a_long_quiet_time_does_not_delay() {
        let mut test = sequential();
        for second in 0..100_000 {
            assert_eq!(test.add(PATH, 64, 0, Nanos(second)), None);
        }
        assert!(test.add(PATH, 64, 3, Nanos(0)).is_some());
    }
}
