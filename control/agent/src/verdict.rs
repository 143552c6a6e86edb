//! A verdict as it leaves its switch: one window, and what the test of each of its paths came to.
//!
//! [`crate::stream`] writes them, one JSON object a line; the monitor reads them and gives each path to a
//! localizer. A path is a row, for a fabric of 64 spines has 64 of them in every line:
//! `[spine, outcome, expected, received, dropped, noise, visible, hops]`.

use detector::{
    AbstainReason, Epoch, Evidence, LeafId, LinkTest, Nanos, Path, PathState, PathTest, Qpn,
    SpineId, VoidReason,
};
use serde::{Deserialize, Serialize};

/// A window's verdict. Rates are probabilities per packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WindowVerdict {
    /// Number of the verdict in its switch's stream, from 1, without gaps.
    pub seq: u64,
    /// When it was told, in nanoseconds since 1970: switches' own clocks begin at zero.
    pub at_ns: u64,
    /// From the first marked packet of the evidence to the verdict, in nanoseconds.
    pub took_ns: u64,
    /// Source leaf.
    pub src: LeafId,
    /// Destination leaf: the one that judged.
    pub dst: LeafId,
    /// Destination QP of the measured flow.
    pub qpn: u32,
    /// The window's number at its source leaf.
    pub epoch: u32,
    /// What loss was read from.
    pub evidence: Evidence,
    /// Whether the sequential test judged: then only paths that have failed may accuse.
    pub sequential: bool,
    /// The paths, by spine.
    pub paths: Vec<PathVerdict>,
}

/// One path of a window.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "Row", into = "Row")]
pub struct PathVerdict {
    /// Its spine.
    pub spine: u16,
    /// What the test came to.
    pub outcome: Outcome,
    /// Marked packets that a path without loss would have shown.
    pub expected: f64,
    /// Marked packets that came.
    pub received: u64,
    /// Marked packets that own queues dropped: no evidence.
    pub dropped: u64,
    /// Variance that the spray's noise makes, in packets squared.
    pub noise: f64,
    /// The smallest loss rate that the test would have seen; `None` if none would have been.
    pub visible: Option<f64>,
    /// By hop counts: sent into and received from the uplink, then the downlink.
    pub hops: Option<[u64; 4]>,
}

/// A path as it is written.
type Row = (
    u16,
    Outcome,
    f64,
    u64,
    u64,
    f64,
    Option<f64>,
    Option<[u64; 4]>,
);

/// What the test of a path came to, with the reason of a test that says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// No more loss than tolerated, by a test that would have seen the target rate.
    Healthy,
    /// More loss than tolerated.
    Failed,
    /// No failure seen, but too few packets to call it healthy.
    TooFewPackets,
    /// No failure seen, but the spray's noise hides the target rate.
    NoiseTooLarge,
    /// Void: a link or a spine's liveness changed.
    LinkChanged,
    /// Void: messages of two windows were mixed up.
    MoreReceivedThanSent,
    /// Void: packets of another window of the same colour.
    ColourClash,
    /// Void: own queues dropped marked packets, and the rules cannot take them out.
    KnownDrops,
    /// Void: no close came.
    NoClose,
    /// Void: nothing was sent this way.
    NothingSent,
    /// Void: the configuration changed.
    Reconfigured,
    /// Void: packets are missing, and the spine has not told its own drops.
    NoRecord,
}

impl Outcome {
    /// All, in the order of their numbers in a history.
    pub const ALL: [Outcome; 12] = [
        Outcome::Healthy,
        Outcome::Failed,
        Outcome::TooFewPackets,
        Outcome::NoiseTooLarge,
        Outcome::LinkChanged,
        Outcome::MoreReceivedThanSent,
        Outcome::ColourClash,
        Outcome::KnownDrops,
        Outcome::NoClose,
        Outcome::NothingSent,
        Outcome::Reconfigured,
        Outcome::NoRecord,
    ];

    /// The outcome as the detector has it.
    pub fn state(self) -> PathState {
        match self {
            Outcome::Healthy => PathState::Healthy,
            Outcome::Failed => PathState::Failed,
            Outcome::TooFewPackets => PathState::Abstained(AbstainReason::TooFewPackets),
            Outcome::NoiseTooLarge => PathState::Abstained(AbstainReason::NoiseTooLarge),
            Outcome::LinkChanged => PathState::Void(VoidReason::LinkChanged),
            Outcome::MoreReceivedThanSent => PathState::Void(VoidReason::MoreReceivedThanSent),
            Outcome::ColourClash => PathState::Void(VoidReason::ColourClash),
            Outcome::KnownDrops => PathState::Void(VoidReason::KnownDrops),
            Outcome::NoClose => PathState::Void(VoidReason::NoClose),
            Outcome::NothingSent => PathState::Void(VoidReason::NothingSent),
            Outcome::Reconfigured => PathState::Void(VoidReason::Reconfigured),
            Outcome::NoRecord => PathState::Void(VoidReason::NoRecord),
        }
    }

    /// Whether the path's counts say nothing.
    pub fn is_void(self) -> bool {
        matches!(self.state(), PathState::Void(_))
    }
}

impl From<PathState> for Outcome {
    fn from(state: PathState) -> Outcome {
        match state {
            PathState::Healthy => Outcome::Healthy,
            PathState::Failed => Outcome::Failed,
            PathState::Abstained(AbstainReason::TooFewPackets) => Outcome::TooFewPackets,
            PathState::Abstained(AbstainReason::NoiseTooLarge) => Outcome::NoiseTooLarge,
            PathState::Void(VoidReason::LinkChanged) => Outcome::LinkChanged,
            PathState::Void(VoidReason::MoreReceivedThanSent) => Outcome::MoreReceivedThanSent,
            PathState::Void(VoidReason::ColourClash) => Outcome::ColourClash,
            PathState::Void(VoidReason::KnownDrops) => Outcome::KnownDrops,
            PathState::Void(VoidReason::NoClose) => Outcome::NoClose,
            PathState::Void(VoidReason::NothingSent) => Outcome::NothingSent,
            PathState::Void(VoidReason::Reconfigured) => Outcome::Reconfigured,
            PathState::Void(VoidReason::NoRecord) => Outcome::NoRecord,
        }
    }
}

impl From<Row> for PathVerdict {
    fn from(
        (spine, outcome, expected, received, dropped, noise, visible, hops): Row,
    ) -> PathVerdict {
        PathVerdict {
            spine,
            outcome,
            expected,
            received,
            dropped,
            noise,
            visible,
            hops,
        }
    }
}

impl From<PathVerdict> for Row {
    fn from(p: PathVerdict) -> Row {
        (
            p.spine, p.outcome, p.expected, p.received, p.dropped, p.noise, p.visible, p.hops,
        )
    }
}

impl From<&PathTest> for PathVerdict {
    fn from(test: &PathTest) -> PathVerdict {
        PathVerdict {
            spine: test.path.spine.0,
            outcome: test.state.into(),
            expected: test.expected,
            received: test.observed,
            dropped: test.congestion_dropped,
            noise: test.noise_variance,
            visible: test.min_detectable_rate,
            hops: (test.links).map(|[up, down]| [up.sent, up.received, down.sent, down.received]),
        }
    }
}

impl WindowVerdict {
    /// The verdict of tests of one leaf pair, which ended at the same time; `None` without any.
    pub fn of(tests: &[PathTest], sequential: bool) -> Option<WindowVerdict> {
        let last = tests.last()?;
        let first_ns = tests.iter().map(|test| test.first_marked_ns.0).min()?;
        Some(WindowVerdict {
            seq: 0,
            at_ns: 0,
            took_ns: last.at_ns.0.saturating_sub(first_ns),
            src: last.path.src,
            dst: last.path.dst,
            qpn: last.qpn.0,
            epoch: last.epoch.0,
            evidence: last.evidence,
            sequential,
            paths: tests.iter().map(PathVerdict::from).collect(),
        })
    }

    /// A path's test, as the detector has it, with times since 1970. What a localizer does not read is
    /// not told, and left at rest: thresholds, intervals and probabilities follow from the counts.
    pub fn test(&self, path: &PathVerdict) -> PathTest {
        let lost = path.expected - (path.received + path.dropped) as f64;
        let link = |sent, received| LinkTest {
            sent,
            received,
            p_value: 1.0,
            failed: false,
        };
        PathTest {
            path: Path {
                src: self.src,
                spine: SpineId(path.spine),
                dst: self.dst,
            },
            qpn: Qpn(self.qpn),
            epoch: Epoch(self.epoch),
            evidence: self.evidence,
            windows: 1,
            expected: path.expected,
            observed: path.received,
            sent: None,
            congestion_dropped: path.dropped,
            lost,
            noise_variance: path.noise,
            threshold: 0.0,
            p_value: 1.0,
            state: path.outcome.state(),
            rate: (lost / path.expected.max(1.0)).clamp(0.0, 1.0),
            ci95: [0.0, 1.0],
            min_detectable_rate: path.visible,
            links: path.hops.map(|[a, b, c, d]| [link(a, b), link(c, d)]),
            first_marked_ns: Nanos(self.at_ns.saturating_sub(self.took_ns)),
            at_ns: Nanos(self.at_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every outcome is the detector's, both ways, and none is missing.
    #[test]
    fn outcomes_are_the_detectors() {
        for outcome in Outcome::ALL {
            assert_eq!(Outcome::from(outcome.state()), outcome);
        }
        assert_eq!(Outcome::ALL.iter().filter(|o| o.is_void()).count(), 8);
    }

    /// Goal: the line is what the documentation says, and reads back.
    #[test]
    fn a_path_is_a_row() {
        let line = r#"{"seq":1,"at_ns":20,"took_ns":5,"src":"leaf0","dst":"leaf1","qpn":7,"epoch":3,"evidence":"source-counts","sequential":false,"paths":[[2,"failed",100.0,90,1,0.0,0.05,null]]}"#;
        let verdict: WindowVerdict = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&verdict).unwrap(), line);
        let test = verdict.test(&verdict.paths[0]);
        assert_eq!((test.lost, test.first_marked_ns), (9.0, Nanos(15)));
        assert_eq!(WindowVerdict::of(&[], false), None);
    }
}
