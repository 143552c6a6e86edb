//! The rules by which windows are judged: fabric, evidence, reference, noise,
//! error rates. One value of [`Rules`] per detector, built by the agent from its
//! configuration and shared by the aggregator and the judge.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use crate::noise::Noise;
use crate::threshold::PAPER_SENSITIVITY;
use crate::types::{Fabric, Nanos};

/// What a path's loss is read from. Ordered from weak to strong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Evidence {
    /// X against an even share of the marked packets (paper section 3.5).
    ReceiveOnly,
    /// X against S of the close; the spray's noise drops out.
    SourceCounts,
    /// As source counts, split at the spine into the path's two links.
    HopCounts,
}

/// The count that a healthy path should show, for receive-only evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reference {
    /// lambda = N/k, the paper's; believes the host's N.
    Announced,
    /// lambda = M/k of the source leaf's close.
    Marked,
    /// The median of the sibling spines' counts. Needs neither N nor M and is
    /// deaf to retransmissions, but breaks when half of the spines fail alike.
    SiblingMedian,
    /// The count that seven eighths of the sibling spines do not exceed. As the median, but it
    /// holds while an eighth of the spines, rounded up, and one more are healthy.
    SiblingUpper,
}

/// The rule that makes a receive-only threshold.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ThresholdRule {
    /// t = lambda - s*sqrt(N/k) (paper section 3.5).
    Paper {
        /// s, the sensitivity.
        sensitivity: f64,
    },
    /// From the calibrated noise and the error rate, see
    /// [`threshold`](crate::threshold).
    Calibrated,
}

/// What to do with marked packets that our own queues are known to have dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum KnownDrops {
    /// Take them out of the evidence.
    TakeOut,
    /// The path's test is void: the paper assumes a lossless fabric.
    Void,
}

/// All rules of judging, see the file's comment.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rules {
    /// Size of the fabric; alpha is split over its links.
    pub fabric: Fabric,
    /// Strongest evidence to use; a path without hop records falls back to its
    /// source counts, never further.
    pub evidence: Evidence,
    /// Reference of receive-only tests.
    pub reference: Reference,
    /// Threshold of receive-only tests.
    pub threshold: ThresholdRule,
    /// Noise of the spray, for receive-only tests.
    pub noise: Noise,
    /// Loss rate that one healthy link may have (probability per packet). A path
    /// is two links, so it tolerates twice that.
    pub p0: f64,
    /// Probability of any false alarm when every path of the fabric is tested
    /// once.
    pub alpha: f64,
    /// Packets per spine that a test needs; shorter windows are added up.
    pub p_min: u64,
    /// What happens to known drops.
    pub known_drops: KnownDrops,
    /// Loss rate of a path that a test must be able to see to call it healthy;
    /// a test that could not abstains.
    pub target_rate: f64,
    /// Aggregated counts of a leaf pair are forgotten when no window came for
    /// this long.
    pub expiry: Nanos,
}

/// Loss rate of a healthy link that is tolerated by default: two packets in
/// 10^5. Optical links are specified far better (IEEE 802.3 asks for a frame
/// loss ratio under 6.2e-10 at 100G); the paper's smallest failure is 200 times
/// worse.
pub const DEFAULT_P0: f64 = 2e-5;

/// False alarms per round over all paths of the fabric, by default.
pub const DEFAULT_ALPHA: f64 = 1e-3;

/// The smallest failure that the paper detects (its Fig. 9): 0.5 %.
pub const DEFAULT_TARGET_RATE: f64 = 0.005;

/// Paper, section 4: data-plane state is erased after one minute.
pub const DEFAULT_EXPIRY: Nanos = Nanos(60_000_000_000);

/// P_min of rules that were sized before: a search over exact tails takes tens of millions of
/// instructions, and every switch and every run of a sweep asks for the same few.
static SIZED: Mutex<Vec<(Rules, Option<u64>)>> = Mutex::new(Vec::new());
/// Of so many; all are forgotten when there are more.
const SIZED_MAX: usize = 64;

impl Rules {
    /// The default preset: source counts, and for receive-only evidence ties to
    /// the uplink with the fewest marked packets.
    pub fn new(fabric: Fabric) -> Rules {
        let rules = Rules {
            fabric,
            evidence: Evidence::SourceCounts,
            reference: Reference::Marked,
            threshold: ThresholdRule::Calibrated,
            noise: Noise::of_default(fabric.spines),
            p0: DEFAULT_P0,
            alpha: DEFAULT_ALPHA,
            p_min: 0,
            known_drops: KnownDrops::TakeOut,
            target_rate: DEFAULT_TARGET_RATE,
            expiry: DEFAULT_EXPIRY,
        };
        rules.sized()
    }

    /// The paper's method at its P_min for 0.5 % (60,000 packets per spine,
    /// section 5.3), with the noise of JSQ(2) and random ties at low load.
    pub fn paper(fabric: Fabric) -> Rules {
        Rules {
            evidence: Evidence::ReceiveOnly,
            reference: Reference::Announced,
            threshold: ThresholdRule::Paper {
                sensitivity: PAPER_SENSITIVITY,
            },
            noise: Noise::RANDOM_TIE,
            p_min: 60_000,
            known_drops: KnownDrops::Void,
            ..Rules::new(fabric)
        }
    }

    /// The same rules with other evidence, and P_min made to fit it.
    pub fn with_evidence(self, evidence: Evidence) -> Rules {
        Rules { evidence, ..self }.sized()
    }

    /// The same rules with the P_min that their target rate needs; unchanged if
    /// no number of packets is enough (then tests abstain).
    pub fn sized(self) -> Rules {
        // What P_min was before is no part of the question.
        let asked = Rules { p_min: 0, ..self };
        let mut known = SIZED.lock().unwrap_or_else(PoisonError::into_inner);
        let found = known.iter().find(|(rules, _)| *rules == asked);
        let needed = match found {
            Some(&(_, needed)) => needed,
            None => {
                let needed = crate::threshold::packets_needed(&asked, asked.target_rate);
                if known.len() == SIZED_MAX {
                    known.clear();
                }
                known.push((asked, needed));
                needed
            }
        };
        match needed {
            Some(p_min) => Rules { p_min, ..self },
            None => self,
        }
    }

    /// Error probability of one link's test: alpha split over all links of the fabric.
    pub fn alpha_per_link(&self) -> f64 {
        self.alpha / self.fabric.links().max(1) as f64
    }

    /// Error probability of one path's test: that of a link. Links are what is convicted, and it
    /// takes two failed paths that share one; so of L leaves alpha*(L-1)/2 false path alarms are
    /// to be expected per round, and far fewer than alpha false convictions.
    pub fn alpha_per_path(&self) -> f64 {
        self.alpha_per_link()
    }

    /// Loss rate that a healthy path may have: 1 - (1 - p0)^2.
    pub fn path_p0(&self) -> f64 {
        let kept = 1.0 - self.p0;
        1.0 - kept * kept
    }

    /// False path alarms to expect per day if every path is tested `rounds` times
    /// a day and loses exactly what is tolerated (an upper bound otherwise).
    pub fn expected_false_alarms_per_day(&self, rounds: f64) -> f64 {
        self.alpha_per_path() * self.fabric.paths() as f64 * rounds
    }
}
