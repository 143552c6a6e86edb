//! How a switch cuts flows into windows, and who names them.

use pipeline::WindowPlan;

use super::raw;
use super::settings::within;
use crate::choice::{Announce, Evidence, PathTest, Preset};
use crate::error::ConfigError;
use crate::fabric::silence_of;
use crate::quantity::{Probability, Time};
use crate::testbed::SEQUENTIAL_PACKETS;

/// What paths are judged by.
pub(super) fn evidence(switch: &raw::Switch) -> Result<Evidence, ConfigError> {
    let raw = &switch.measurement;
    let is_paper = raw.protocol == Some(Preset::Paper);
    let default = if is_paper {
        Evidence::ReceiveOnly
    } else {
        Evidence::SourceCounts
    };
    let evidence = raw.evidence.unwrap_or(default);
    let refuse =
        |message: String| Err(ConfigError::new("measurement.evidence".to_owned(), message));
    if is_paper && evidence != Evidence::ReceiveOnly {
        return refuse(format!(
            "{evidence} needs the closes that the paper's protocol does not send; leave it \
             receive-only, or take protocol default"
        ));
    }
    if raw.test == Some(PathTest::Sequential) && evidence == Evidence::ReceiveOnly {
        return refuse(
            "receive-only does not say what was sent, and the sequential test needs to know; take \
             source-counts or hop-counts, or test fixed"
                .to_owned(),
        );
    }
    Ok(evidence)
}

/// How sure a verdict is.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Judging {
    /// Loss rate of a link that is no failure; `None`: the detector's.
    pub p0: Option<f64>,
    /// Probability of any false alarm when every path is tested once; `None`: the detector's.
    pub alpha: Option<f64>,
    /// Packets per spine that a test needs; `None`: what the other two and the evidence ask.
    pub p_min: Option<u64>,
}

impl Judging {
    /// How windows are judged.
    pub fn rules(
        &self,
        fabric: detector::Fabric,
        evidence: Evidence,
        is_paper: bool,
    ) -> detector::Rules {
        let base = if is_paper {
            detector::Rules::paper(fabric)
        } else {
            detector::Rules::new(fabric)
        };
        let rules = detector::Rules {
            evidence: evidence.into(),
            p0: self.p0.unwrap_or(base.p0),
            alpha: self.alpha.unwrap_or(base.alpha),
            ..base
        };
        match self.p_min {
            Some(p_min) => detector::Rules { p_min, ..rules },
            None if is_paper => rules,
            None => rules.sized(),
        }
    }
}

/// How sure verdicts are to be.
pub(super) fn judging(switch: &raw::Switch) -> Result<Judging, ConfigError> {
    let raw = &switch.measurement;
    let open = |key: &str, value: Option<Probability>| match value.map(Probability::value) {
        Some(value) if value <= 0.0 || value >= 1.0 => Err(ConfigError::new(
            format!("measurement.{key}"),
            format!("{value} is out of range; choose a number between 0 and 1, such as 0.001"),
        )),
        value => Ok(value),
    };
    let p_min = raw.p_min;
    Ok(Judging {
        p0: open("p0", raw.p0)?,
        alpha: open("alpha", raw.alpha)?,
        p_min: match p_min {
            Some(packets) => Some(within("measurement.p_min", packets, 1, 1 << 40)?),
            None => None,
        },
    })
}

pub(super) fn plan(
    switch: &raw::Switch,
    path_delay_ns_max: u64,
) -> Result<WindowPlan, ConfigError> {
    let raw = &switch.measurement;
    let is_paper = raw.protocol == Some(Preset::Paper);
    let announce = raw.announce.unwrap_or(Announce::Host);
    let test = raw.test.unwrap_or(PathTest::Fixed);
    let refuse =
        |key: &str, message: &str| Err(ConfigError::new(format!("measurement.{key}"), message));
    if announce == Announce::Mixed {
        return refuse(
            "announce",
            "mixed is for testbeds, which have hosts of their own; take window, with which flows \
             that hosts announce come first",
        );
    }
    if is_paper && announce != Announce::Host {
        return refuse(
            "announce",
            "window cannot be, for the paper's threshold needs the N that hosts announce; leave \
             it host, or take protocol default",
        );
    }
    if is_paper && test == PathTest::Sequential {
        return refuse(
            "test",
            "sequential needs the closes that the paper's protocol does not send; leave it fixed, \
             or take protocol default",
        );
    }
    if is_paper && raw.spine_packets.is_some() {
        return refuse(
            "spine_packets",
            "the paper measures whole flows; leave it out, or take protocol default",
        );
    }
    let spine_packets = match (raw.spine_packets, test, announce) {
        (Some(packets), _, _) => within("measurement.spine_packets", packets, 1, 1 << 26)?,
        (None, _, _) if is_paper => 0,
        (None, PathTest::Sequential, _) => SEQUENTIAL_PACKETS,
        (None, PathTest::Fixed, Announce::Host) => 0,
        (None, PathTest::Fixed, Announce::Window | Announce::Mixed) => {
            let (leaves, spines) = (switch.fabric.leaves, switch.fabric.spines);
            let fabric = detector::Fabric { leaves, spines };
            judging(switch)?
                .rules(fabric, evidence(switch)?, false)
                .p_min
        }
    };
    let silence = raw
        .silence
        .unwrap_or(Time::new(silence_of(path_delay_ns_max)));
    let (least, most) = (Time::new(1_000), Time::new(3_600_000_000_000));
    let bits = raw.counter_bits.unwrap_or(32);
    if !matches!(bits, 16 | 32) {
        let message = format!("{bits} is no size of a counter; choose 32, or the paper's 16");
        return refuse("counter_bits", &message);
    }
    Ok(WindowPlan {
        spine_packets,
        is_off: raw.enabled == Some(false),
        finds_flows: announce == Announce::Window,
        silence_ns: within("measurement.silence", silence, least, most)?.nanos(),
        is_narrow: bits == 16,
    })
}
