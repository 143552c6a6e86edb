//! What one look at a control socket brings: rows of `spraycheck show`, read into types. A key that a switch
//! of another version lacks is zero or empty.

use std::time::Duration;

use serde::{Deserialize, Deserializer};

/// What is asked for, in this order.
pub(super) const ASKED: [&str; 7] = [
    "ports", "queues", "measured", "tests", "flows", "links", "lcores",
];

/// All of it, at one time.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Look {
    /// Since the view began.
    #[serde(skip)]
    pub(super) at: Duration,
    pub(super) ports: Vec<Port>,
    pub(super) queues: Vec<Queue>,
    pub(super) measured: Vec<Counted>,
    pub(super) tests: Vec<Test>,
    pub(super) flows: Vec<Window>,
    pub(super) links: Vec<Named>,
    pub(super) lcores: Vec<Lcore>,
}

impl Look {
    /// Names of the switches, in the order of their ports.
    pub(super) fn switches(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.ports.iter().map(|port| &*port.switch).collect();
        names.dedup();
        names
    }

    /// The lcores' own time: that of the clock, or a testbed's.
    pub(super) fn time_ms(&self) -> u64 {
        self.lcores
            .iter()
            .map(|lcore| lcore.time_ms)
            .max()
            .unwrap_or(0)
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Port {
    pub(super) switch: String,
    pub(super) port: String,
    pub(super) oper_status: String,
    pub(super) in_pkts: u64,
    pub(super) in_octets: u64,
    pub(super) out_pkts: u64,
    pub(super) out_octets: u64,
    pub(super) out_discards: u64,
}

impl Port {
    pub(super) fn is_up(&self) -> bool {
        self.oper_status == "up"
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Queue {
    pub(super) switch: String,
    pub(super) port: String,
    pub(super) queue_bytes: u64,
    pub(super) max_queue_bytes: u64,
}

/// One spine of the window that a leaf counts.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Counted {
    pub(super) switch: String,
    pub(super) src: String,
    pub(super) epoch: u64,
    pub(super) state: String,
    pub(super) announced: u64,
    pub(super) counted_in_all: u64,
    pub(super) via: String,
    pub(super) counted: u64,
    pub(super) expected: Option<f64>,
    pub(super) threshold: Option<u64>,
    pub(super) void: bool,
}

/// The test of one path.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Test {
    pub(super) src: String,
    pub(super) via: String,
    pub(super) dst: String,
    #[serde(deserialize_with = "number")]
    pub(super) expected: f64,
    pub(super) received: u64,
    #[serde(deserialize_with = "number")]
    pub(super) lost: f64,
    #[serde(deserialize_with = "number")]
    pub(super) threshold: f64,
    /// A word, or a word with its reason.
    pub(super) state: serde_json::Value,
}

impl Test {
    /// `healthy`, `failed`, `void` or `abstained`.
    pub(super) fn state(&self) -> &str {
        match &self.state {
            serde_json::Value::String(state) => state,
            serde_json::Value::Object(state) => state.keys().next().map_or("", |name| name),
            _ => "",
        }
    }
}

/// A window that was judged.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Window {
    pub(super) number: u64,
    pub(super) src: String,
    pub(super) dst: String,
    pub(super) qpn: u64,
    pub(super) epoch: u64,
    pub(super) healthy: u64,
    pub(super) failed: Vec<String>,
    pub(super) void: Vec<String>,
}

/// A link that the evidence names.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Named {
    pub(super) link: String,
    pub(super) state: String,
    #[serde(deserialize_with = "number")]
    pub(super) drop_rate: f64,
    pub(super) ci95: Option<[f64; 2]>,
    pub(super) paths: u64,
    pub(super) missing: Option<String>,
}

impl Named {
    pub(super) fn is_convicted(&self) -> bool {
        self.state == "convicted"
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Lcore {
    pub(super) rounds: u64,
    pub(super) busy_rounds: u64,
    pub(super) time_ms: u64,
}

/// A number that JSON cannot say (not finite) comes as null.
fn number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Option::<f64>::deserialize(deserializer).map(Option::unwrap_or_default)
}
