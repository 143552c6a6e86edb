//! What is told of links.

use detector::Link;
use serde::{Deserialize, Serialize};

use crate::standing::State;

/// What is told of a link whose state changed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Number in the history; 0 before it is there.
    #[serde(default)]
    pub id: u64,
    /// When, in nanoseconds since 1970.
    pub at_ns: u64,
    /// What happened.
    pub kind: Kind,
    /// To which link.
    pub link: Link,
    /// State before.
    pub from: State,
    /// State after.
    pub to: State,
    /// Loss rate.
    pub drop_rate: f64,
    /// Its 95 % interval; of a conviction.
    pub ci95: Option<[f64; 2]>,
    /// What would complete a suspicion; who acknowledged, and what was said.
    #[serde(default)]
    pub text: String,
}

/// Kinds of events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A link is suspect.
    Suspected,
    /// A link is convicted.
    Convicted,
    /// A convicted link has been seen to be good, or a suspicion has not been confirmed.
    Cleared,
    /// A cleared link has stayed good.
    Healthy,
    /// Somebody has seen a conviction.
    Acknowledged,
    /// A link was taken out of routing, or should be.
    Routing,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Kind; 6] = [
        Kind::Suspected,
        Kind::Convicted,
        Kind::Cleared,
        Kind::Healthy,
        Kind::Acknowledged,
        Kind::Routing,
    ];

    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Suspected => "suspected",
            Kind::Convicted => "convicted",
            Kind::Cleared => "cleared",
            Kind::Healthy => "healthy",
            Kind::Acknowledged => "acknowledged",
            Kind::Routing => "routing",
        }
    }
}
