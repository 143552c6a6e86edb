//! Tests aggregated counts: path by path healthy, failed, void or abstained.
//!
//! The agent calls [`Judge::judge`] with each [`Aggregate`] and sends the
//! [`PathTest`]s to the monitor, whose localizer reads them. A healthy path
//! fails with probability at most alpha over the paths of the fabric; marked
//! packets that our own queues dropped are never evidence; no verdict is silent.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::aggregate::{Aggregate, PathSums};
use crate::rules::{Evidence, Rules, ThresholdRule};
use crate::tails::{binomial_at_least, clopper_pearson};
use crate::threshold::{Threshold, reference_excess, threshold};
use crate::types::{Epoch, Nanos, Path, Qpn};
use crate::window::VoidReason;

/// What a test says about a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PathState {
    /// No more loss than tolerated, by a test that would have seen the target
    /// rate.
    Healthy,
    /// More loss than tolerated.
    Failed,
    /// Not testable.
    Void(VoidReason),
    /// No failure seen, but the test was too weak to call the path healthy.
    Abstained(AbstainReason),
}

/// Why a test abstained; its `min_detectable_rate` tells what it could have seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AbstainReason {
    /// The spray's noise hides the target rate.
    NoiseTooLarge,
    /// Too few packets for the target rate.
    TooFewPackets,
}

impl std::fmt::Display for AbstainReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            AbstainReason::NoiseTooLarge => "noise-too-large",
            AbstainReason::TooFewPackets => "too-few-packets",
        })
    }
}

/// Loss on one of a path's two links, by hop counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkTest {
    /// Marked packets sent into the link.
    pub sent: u64,
    /// Marked packets that came out.
    pub received: u64,
    /// P(at least this loss) on a link that loses what is tolerated.
    pub p_value: f64,
    /// Whether that is improbable at alpha over the fabric's links.
    pub failed: bool,
}

/// The test of one path, with its evidence. Rates are probabilities per packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathTest {
    /// The path.
    pub path: Path,
    /// QPN of the latest window in it.
    pub qpn: Qpn,
    /// Epoch of the latest window in it.
    pub epoch: Epoch,
    /// What the loss was read from.
    pub evidence: Evidence,
    /// Windows added up; 0 for a void test.
    pub windows: u32,
    /// Packets that a path without loss would have shown: S, or lambda.
    pub expected: f64,
    /// X, packets seen.
    pub observed: u64,
    /// S, if known.
    pub sent: Option<u64>,
    /// Packets dropped in our own queues; no evidence.
    pub congestion_dropped: u64,
    /// Packets missing: expected - observed - dropped in our own queues.
    /// Negative if a receive-only count exceeds its share.
    pub lost: f64,
    /// Variance of `lost` that the spray's noise makes, packets squared.
    pub noise_variance: f64,
    /// The path fails if observed + own drops is below this many packets.
    pub threshold: f64,
    /// P(at least this loss) on a healthy path.
    pub p_value: f64,
    /// The verdict.
    pub state: PathState,
    /// Estimated loss rate, at least 0.
    pub rate: f64,
    /// 95 % interval of the loss rate: Clopper-Pearson for exact counts, widened
    /// by two standard deviations of the noise for receive-only ones.
    pub ci95: [f64; 2],
    /// Smallest loss rate that would have been seen with probability 0.99;
    /// `None` if not even a dead path would.
    pub min_detectable_rate: Option<f64>,
    /// Uplink and downlink by hop counts.
    pub links: Option<[LinkTest; 2]>,
    /// First marked packet that was counted.
    pub first_marked_ns: Nanos,
    /// When the last window of the test closed.
    pub at_ns: Nanos,
}

/// Judges aggregates by fixed rules.
#[derive(Clone, Debug)]
pub struct Judge {
    rules: Rules,
    /// Thresholds by (evidence, packets, windows): with an even spray the same
    /// few come up again and again. Emptied when full.
    thresholds: BTreeMap<(Evidence, u64, u32), Threshold>,
    /// Exact intervals by (lost, packets), for the same reason.
    intervals: BTreeMap<(u64, u64), [f64; 2]>,
}

/// Bound on remembered thresholds and intervals (about 100 bytes each).
const REMEMBERED_MAX: usize = 4096;

impl Judge {
    /// A judge for these rules.
    pub fn new(rules: Rules) -> Judge {
        Judge {
            rules,
            thresholds: BTreeMap::new(),
            intervals: BTreeMap::new(),
        }
    }

    /// The rules it judges by.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Tests every path of the aggregate, in its order.
    pub fn judge(&mut self, aggregate: &Aggregate) -> Vec<PathTest> {
        aggregate
            .paths
            .iter()
            .map(|sums| self.test(aggregate, sums))
            .collect()
    }

    fn test(&mut self, aggregate: &Aggregate, sums: &PathSums) -> PathTest {
        let evidence = match (self.rules.evidence, sums.sent, sums.hop) {
            (Evidence::HopCounts, Some(_), Some(_)) => Evidence::HopCounts,
            (Evidence::HopCounts | Evidence::SourceCounts, _, _) => Evidence::SourceCounts,
            (Evidence::ReceiveOnly, _, _) => Evidence::ReceiveOnly,
        };
        let expected = match (evidence, sums.sent) {
            (Evidence::ReceiveOnly, _) => sums.lambda,
            (_, sent) => sent.unwrap_or(0) as f64,
        };
        let accounted = (sums.received + sums.congestion_dropped) as f64;
        let lost = expected - accounted;
        let mut test = PathTest {
            path: sums.path,
            qpn: aggregate.qpn,
            epoch: aggregate.epoch,
            evidence,
            windows: sums.windows,
            expected,
            observed: sums.received,
            sent: sums.sent,
            congestion_dropped: sums.congestion_dropped,
            lost,
            noise_variance: 0.0,
            threshold: expected,
            p_value: 1.0,
            state: PathState::Healthy,
            rate: 0.0,
            ci95: [0.0, 1.0],
            min_detectable_rate: None,
            links: None,
            first_marked_ns: sums.first_marked_ns,
            at_ns: sums.closed_ns,
        };
        // A sibling median of 0 is no reference either.
        if sums.windows == 0 || expected <= 0.0 {
            test.state = PathState::Void(sums.void.unwrap_or(VoidReason::NothingSent));
            return test;
        }
        let limit = self.threshold(evidence, expected, sums.windows);
        test.threshold = expected - limit.allowed_loss;
        test.min_detectable_rate = limit.min_detectable_rate;
        test.rate = (lost / expected).clamp(0.0, 1.0);
        if evidence == Evidence::ReceiveOnly {
            test.noise_variance = self.rules.noise.variance(expected, sums.windows);
        }
        test.p_value = self.p_value(&test);
        test.ci95 = self.interval(&test);
        test.links = (evidence == Evidence::HopCounts)
            .then(|| self.link_tests(sums))
            .flatten();
        test.state = self.state(&test, lost > limit.allowed_loss);
        test
    }

    fn threshold(&mut self, evidence: Evidence, expected: f64, windows: u32) -> Threshold {
        // Receive-only shares need not be whole packets: keyed by their bits.
        let key = (evidence, expected.to_bits(), windows);
        if let Some(known) = self.thresholds.get(&key) {
            return *known;
        }
        if self.thresholds.len() >= REMEMBERED_MAX {
            self.thresholds.clear();
        }
        let new = threshold(&self.rules, evidence, expected, windows);
        self.thresholds.insert(key, new);
        new
    }

    fn p_value(&self, test: &PathTest) -> f64 {
        let packets = test.expected.round() as u64;
        let noise = self.rules.noise;
        if test.evidence != Evidence::ReceiveOnly {
            return binomial_at_least(packets, test.lost.max(0.0) as u64, self.rules.path_p0());
        }
        noise.at_least(
            test.lost - reference_excess(&self.rules, test.expected, test.windows),
            test.expected,
            test.windows,
            self.rules.path_p0(),
        )
    }

    fn state(&self, test: &PathTest, failed: bool) -> PathState {
        let sees_target = test
            .min_detectable_rate
            .is_some_and(|rate| rate <= self.rules.target_rate);
        if failed {
            PathState::Failed
        } else if sees_target || matches!(self.rules.threshold, ThresholdRule::Paper { .. }) {
            // The paper's test knows no third answer.
            PathState::Healthy
        } else if test.evidence == Evidence::ReceiveOnly && self.rules.noise.sigma > 0.0 {
            PathState::Abstained(AbstainReason::NoiseTooLarge)
        } else {
            PathState::Abstained(AbstainReason::TooFewPackets)
        }
    }

    /// The path's loss split at the spine. What the spine's own queues dropped
    /// lies between the two numbers of the spine and is in neither.
    fn link_tests(&self, sums: &PathSums) -> Option<[LinkTest; 2]> {
        let (at_spine, sent_on) = sums.hop?;
        let link = |sent: u64, received: u64| {
            let p_value = binomial_at_least(sent, sent - received.min(sent), self.rules.p0);
            LinkTest {
                sent,
                received,
                p_value,
                failed: p_value <= self.rules.alpha_per_link(),
            }
        };
        Some([link(sums.sent?, at_spine), link(sent_on, sums.received)])
    }

    fn interval(&mut self, test: &PathTest) -> [f64; 2] {
        let packets = test.expected.round().max(0.0) as u64;
        let spread = 2.0 * test.noise_variance.sqrt();
        let [low, _] = self.exact_interval(test.lost - spread, packets);
        let [_, high] = self.exact_interval(test.lost + spread, packets);
        [low, high]
    }

    fn exact_interval(&mut self, lost: f64, packets: u64) -> [f64; 2] {
        let lost = (lost.max(0.0).round() as u64).min(packets);
        if self.intervals.len() >= REMEMBERED_MAX {
            self.intervals.clear();
        }
        *self
            .intervals
            .entry((lost, packets))
            .or_insert_with(|| clopper_pearson(lost, packets, 0.95))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aggregate::Aggregator;
    use crate::noise::Noise;
    use crate::rules::Reference;
    use crate::types::{Fabric, LeafId, SpineId};
    use crate::window::{EndReason, HopRecord, Window};

    const FABRIC: Fabric = Fabric {
        leaves: 8,
        spines: 2,
    };

    /// Two spines, S = 4,096 each.
    fn window(counts: [u64; 2], congestion_dropped: [u64; 2]) -> Window {
        Window {
            src: LeafId(1),
            dst: LeafId(2),
            qpn: Qpn(7),
            epoch: Epoch(3),
            announced: 8_192,
            marked: Some(8_192),
            usable: vec![SpineId(0), SpineId(1)],
            counts: counts.to_vec(),
            sent: Some(vec![4_096; 2]),
            congestion_dropped: congestion_dropped.to_vec(),
            hops: None,
            void: Vec::new(),
            end: EndReason::Close,
            first_marked_ns: Nanos(1),
            closed_ns: Nanos(2),
        }
    }

    fn judged(rules: Rules, window: &Window) -> Vec<PathTest> {
        let aggregate = Aggregator::new(rules).add(window).expect("a window");
        Judge::new(rules).judge(&aggregate)
    }

    fn states(rules: Rules, window: &Window) -> Vec<PathState> {
        judged(rules, window)
            .iter()
            .map(|test| test.state)
            .collect()
    }

    /// Goal: by hand: 32 links, alpha 1e-3/32 = 3.1e-5 each; P(Poisson(0.164) >= 3)
    /// = 6.5e-4, >= 4 2.6e-5: 3 losses of 4,096 pass, 4 fail, if the target is a rate that is to
    /// be seen at any cost (0.25 %: 10 losses).
    #[test]
    fn source_counts_by_hand() {
        let rules = Rules {
            p_min: 1,
            target_rate: 0.0025,
            ..Rules::new(FABRIC)
        };
        let tests = judged(rules, &window([4_093, 4_092], [0, 0]));
        assert_eq!(tests[0].state, PathState::Healthy, "{:?}", tests[0]);
        assert_eq!(tests[1].state, PathState::Failed, "{:?}", tests[1]);
        assert_eq!((tests[0].threshold, tests[1].lost), (4_093.0, 4.0));
        assert!(tests[1].p_value < 3.1e-5 && tests[0].p_value > 3.1e-5);
        assert!((tests[1].rate - 4.0 / 4_096.0).abs() < 1e-12);
    }

    /// Goal: what our own queues dropped is no loss; in the paper preset it makes
    /// the test void; more received than sent is void.
    #[test]
    fn own_drops_are_no_evidence() {
        let rules = Rules {
            p_min: 1,
            ..Rules::new(FABRIC)
        };
        let dropped = window([3_000, 4_096], [1_096, 0]);
        assert_eq!(states(rules, &dropped), [PathState::Healthy; 2]);
        let paper = Rules {
            p_min: 1,
            ..Rules::paper(FABRIC)
        };
        assert_eq!(
            states(paper, &dropped)[0],
            PathState::Void(VoidReason::KnownDrops)
        );
        let twice = window([4_000, 4_097], [97, 0]);
        assert_eq!(
            states(rules, &twice),
            [PathState::Void(VoidReason::MoreReceivedThanSent); 2]
        );
    }

    /// Goal: a black hole fails by every kind of evidence, though nothing arrives.
    #[test]
    fn a_black_hole_fails() {
        for evidence in [
            Evidence::ReceiveOnly,
            Evidence::SourceCounts,
            Evidence::HopCounts,
        ] {
            let rules = Rules {
                evidence,
                p_min: 1,
                ..Rules::new(FABRIC)
            };
            assert_eq!(
                states(rules, &window([0, 4_096], [0, 0]))[0],
                PathState::Failed,
                "{evidence:?}"
            );
        }
        let paper = Rules {
            p_min: 1,
            ..Rules::paper(FABRIC)
        };
        assert_eq!(
            states(paper, &window([0, 4_096], [0, 0]))[0],
            PathState::Failed
        );
    }

    /// Goal: the paper's threshold by hand: lambda = 4,096, s = 2: 4,096 - 128.
    #[test]
    fn the_papers_test_by_hand() {
        let rules = Rules {
            p_min: 1,
            threshold: ThresholdRule::Paper { sensitivity: 2.0 },
            ..Rules::paper(FABRIC)
        };
        assert_eq!(
            states(rules, &window([3_968, 3_967], [0, 0])),
            [PathState::Healthy, PathState::Failed]
        );
    }

    /// Goal: receive-only with the noise of random ties sees nothing at 4,096
    /// packets, says so, and says what it could have seen.
    #[test]
    fn too_much_noise_abstains() {
        let rules = Rules {
            noise: Noise::RANDOM_TIE,
            p_min: 1,
            ..Rules::new(FABRIC).with_evidence(Evidence::ReceiveOnly)
        };
        let rules = Rules { p_min: 1, ..rules };
        let test = &judged(rules, &window([4_090, 4_091], [0, 0]))[0];
        assert_eq!(
            test.state,
            PathState::Abstained(AbstainReason::NoiseTooLarge)
        );
        assert!(
            test.min_detectable_rate.expect("a dead path is seen") > 0.05,
            "{test:?}"
        );
    }

    /// Goal: without a close nothing is believed outside the paper preset, and a
    /// link that changed voids its own path, or all of them without S.
    #[test]
    fn what_cannot_be_tested_is_void() {
        let mut lost_close = window([1_000, 4_096], [0, 0]);
        (lost_close.sent, lost_close.marked) = (None, None);
        let source = Rules {
            p_min: 1,
            ..Rules::new(FABRIC)
        };
        let receive = Rules {
            evidence: Evidence::ReceiveOnly,
            ..source
        };
        for rules in [source, receive] {
            assert_eq!(
                states(rules, &lost_close),
                [PathState::Void(VoidReason::NoClose); 2]
            );
        }
        let announced = Rules {
            reference: Reference::Announced,
            ..receive
        };
        assert_eq!(states(announced, &lost_close)[0], PathState::Failed);
        let mut changed = window([1_000, 4_096], [0, 0]);
        changed.void = vec![(SpineId(0), VoidReason::LinkChanged)];
        assert_eq!(
            states(source, &changed),
            [PathState::Void(VoidReason::LinkChanged), PathState::Healthy]
        );
        assert_eq!(
            states(receive, &changed),
            [PathState::Void(VoidReason::LinkChanged); 2]
        );
    }

    /// Goal: hop counts split the loss: 30 lost on the downlink, 50 dropped in the
    /// spine's queue count for neither link.
    #[test]
    fn hop_counts_split_the_path() {
        let mut w = window([4_096 - 80, 4_096], [50, 0]);
        let full = HopRecord {
            received: Some(4_096),
            sent: None,
            dropped: Some(50),
        };
        w.hops = Some(vec![full, HopRecord::default()]);
        let rules = Rules {
            p_min: 1,
            ..Rules::new(FABRIC).with_evidence(Evidence::HopCounts)
        };
        let rules = Rules { p_min: 1, ..rules };
        let tests = judged(rules, &w);
        let [up, down] = tests[0].links.expect("split");
        assert_eq!((up.sent - up.received, down.sent - down.received), (0, 30));
        assert!(!up.failed && down.failed);
        assert_eq!(
            tests[1].evidence,
            Evidence::SourceCounts,
            "no record, no split"
        );
    }
}
