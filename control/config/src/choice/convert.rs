//! The words as the data plane and the detector have them.

use super::{Evidence, Mark, Spray, Tie};

impl From<Spray> for pipeline::Policy {
    fn from(spray: Spray) -> pipeline::Policy {
        match spray {
            Spray::Jsq2 => pipeline::Policy::Jsq2,
            Spray::Jsq => pipeline::Policy::Jsq,
            Spray::Random => pipeline::Policy::Random,
            Spray::RoundRobin => pipeline::Policy::RoundRobin,
            Spray::Ecmp => pipeline::Policy::Ecmp,
        }
    }
}

impl From<pipeline::Policy> for Spray {
    fn from(policy: pipeline::Policy) -> Spray {
        match policy {
            pipeline::Policy::Jsq2 => Spray::Jsq2,
            pipeline::Policy::Jsq => Spray::Jsq,
            pipeline::Policy::Random => Spray::Random,
            pipeline::Policy::RoundRobin => Spray::RoundRobin,
            pipeline::Policy::Ecmp => Spray::Ecmp,
        }
    }
}

impl From<pipeline::Tie> for Tie {
    fn from(tie: pipeline::Tie) -> Tie {
        match tie {
            pipeline::Tie::FewestMeasured => Tie::FewestMeasured,
            pipeline::Tie::Random => Tie::Random,
        }
    }
}

impl From<Tie> for pipeline::Tie {
    fn from(tie: Tie) -> pipeline::Tie {
        match tie {
            Tie::FewestMeasured => pipeline::Tie::FewestMeasured,
            Tie::Random => pipeline::Tie::Random,
        }
    }
}

impl From<Mark> for pipeline::Mark {
    fn from(mark: Mark) -> pipeline::Mark {
        match mark {
            Mark::First => pipeline::Mark::First,
            Mark::All => pipeline::Mark::All,
        }
    }
}

impl From<Evidence> for detector::Evidence {
    fn from(evidence: Evidence) -> detector::Evidence {
        match evidence {
            Evidence::ReceiveOnly => detector::Evidence::ReceiveOnly,
            Evidence::SourceCounts => detector::Evidence::SourceCounts,
            Evidence::HopCounts => detector::Evidence::HopCounts,
        }
    }
}
