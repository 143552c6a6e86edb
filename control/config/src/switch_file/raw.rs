//! The file as it is written: every key there is, none checked yet.

use std::collections::BTreeMap;
use std::fmt;

use packet::MacAddr;
use serde::{Deserialize, Deserializer};

use crate::choice::{Announce, Evidence, Mark, PathTest, Preset, Spray, Tie};
use crate::quantity::{Bytes, Probability, Rate, Time, text};

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Switch {
    pub(crate) name: String,
    pub(crate) role: String,
    pub(crate) seed: Option<u64>,
    pub(crate) fabric: Fabric,
    #[serde(default)]
    pub(crate) device: Vec<DevicePart>,
    #[serde(default)]
    pub(crate) port: Vec<Port>,
    #[serde(default)]
    pub(crate) route: Vec<Route>,
    #[serde(default)]
    pub(crate) spray: SprayPart,
    #[serde(default)]
    pub(crate) queue: Queue,
    #[serde(default)]
    pub(crate) gateway: Gateway,
    #[serde(default)]
    pub(crate) measurement: Measurement,
    #[serde(default)]
    pub(crate) metrics: Metrics,
    #[serde(default)]
    pub(crate) eal: Eal,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Metrics {
    pub(crate) listen: Option<String>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fabric {
    pub(crate) leaves: u16,
    pub(crate) spines: u16,
    pub(crate) message_port: Option<u16>,
    /// A time, or `off`.
    pub(crate) link_state: Option<String>,
    pub(crate) hold_down: Option<Time>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) peer: Option<String>,
    pub(crate) device: Option<String>,
    pub(crate) vlan: Option<u16>,
    pub(crate) mac: Mac,
    pub(crate) peer_mac: Option<Mac>,
    pub(crate) rate: Rate,
    pub(crate) mtu: Option<u32>,
    #[serde(default)]
    pub(crate) accept_any_mac: bool,
    #[serde(default)]
    pub(crate) hosts: Vec<Host>,
    #[serde(default)]
    pub(crate) prefixes: Vec<String>,
    #[serde(default)]
    pub(crate) faults: Vec<String>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct DevicePart {
    pub(crate) name: String,
    pub(crate) rate: Option<Rate>,
    pub(crate) lcore: Option<u16>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Host {
    pub(crate) address: String,
    pub(crate) mac: Option<Mac>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Route {
    pub(crate) prefix: String,
    pub(crate) leaf: Option<String>,
    pub(crate) spine: Option<String>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct SprayPart {
    pub(crate) policy: Option<Spray>,
    pub(crate) tie: Option<Tie>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Queue {
    pub(crate) limit: Option<Bytes>,
    pub(crate) packets: Option<u32>,
    pub(crate) slack: Option<Time>,
    pub(crate) overhead: Option<u32>,
    #[serde(default)]
    pub(crate) dscp: BTreeMap<String, u8>,
    pub(crate) pcp: Option<BTreeMap<String, u8>>,
    pub(crate) ecn: Option<Ecn>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ecn {
    pub(crate) kmin: Option<Bytes>,
    pub(crate) kmax: Option<Bytes>,
    pub(crate) pmax: Option<Probability>,
    pub(crate) priorities: Option<Vec<u8>>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gateway {
    #[serde(default)]
    pub(crate) addresses: Vec<String>,
    pub(crate) icmp: Option<u32>,
    pub(crate) neighbors: Option<u32>,
    pub(crate) neighbor_age: Option<Time>,
    pub(crate) neighbor_ask: Option<Time>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measurement {
    pub(crate) protocol: Option<Preset>,
    pub(crate) mark: Option<Mark>,
    pub(crate) window_packets: Option<u64>,
    pub(crate) window: Option<Time>,
    pub(crate) idle: Option<Time>,
    pub(crate) path_delay: Option<Time>,
    pub(crate) rows: Option<u32>,
    pub(crate) row: Option<Time>,
    pub(crate) announce: Option<Announce>,
    pub(crate) test: Option<PathTest>,
    pub(crate) evidence: Option<Evidence>,
    pub(crate) spine_packets: Option<u64>,
    pub(crate) silence: Option<Time>,
    pub(crate) counter_bits: Option<u32>,
    pub(crate) enabled: Option<bool>,
    pub(crate) p0: Option<Probability>,
    pub(crate) alpha: Option<Probability>,
    pub(crate) p_min: Option<u64>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Eal {
    pub(crate) memory: Option<super::Memory>,
    pub(crate) size: Option<Bytes>,
    pub(crate) buffer: Option<Bytes>,
    pub(crate) idle: Option<super::Idle>,
    pub(crate) lcores: Option<super::Lcores>,
    #[serde(default)]
    pub(crate) cpus: Vec<u16>,
    pub(crate) buffers: Option<u32>,
    #[serde(default)]
    pub(crate) arguments: Vec<String>,
}

/// What a port is for.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Kind {
    Host,
    Uplink,
    Downlink,
}

impl Kind {
    /// For a sentence.
    pub(crate) fn with_article(self) -> &'static str {
        match self {
            Kind::Host => "a host port",
            Kind::Uplink => "an uplink",
            Kind::Downlink => "a downlink",
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Host => "host",
            Kind::Uplink => "uplink",
            Kind::Downlink => "downlink",
        })
    }
}

/// A MAC address, read by its own rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Mac(pub(crate) MacAddr);

impl<'de> Deserialize<'de> for Mac {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Mac, D::Error> {
        text::read(deserializer, "a MAC address such as \"02:00:00:00:00:01\"").map(Mac)
    }
}
