//! The file as it is written: every key there is, none checked yet.

use std::collections::BTreeMap;
use std::fmt;

use packet::MacAddr;
use serde::{Deserialize, Deserializer};

use crate::choice::{Announce, Evidence, Mark, PathTest, Preset, Spray, Tie};
use crate::quantity::{Bytes, Probability, Rate, Time, text};

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Switch {
    pub(super) name: String,
    pub(super) role: String,
    pub(super) seed: Option<u64>,
    pub(super) fabric: Fabric,
    #[serde(default)]
    pub(super) device: Vec<DevicePart>,
    #[serde(default)]
    pub(super) port: Vec<Port>,
    #[serde(default)]
    pub(super) route: Vec<Route>,
    #[serde(default)]
    pub(super) spray: SprayPart,
    #[serde(default)]
    pub(super) queue: Queue,
    #[serde(default)]
    pub(super) gateway: Gateway,
    #[serde(default)]
    pub(super) measurement: Measurement,
    #[serde(default)]
    pub(super) eal: Eal,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Fabric {
    pub(super) leaves: u16,
    pub(super) spines: u16,
    pub(super) message_port: Option<u16>,
    /// A time, or `off`.
    pub(super) link_state: Option<String>,
    pub(super) hold_down: Option<Time>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Port {
    pub(super) name: String,
    pub(super) kind: Kind,
    pub(super) peer: Option<String>,
    pub(super) device: Option<String>,
    pub(super) vlan: Option<u16>,
    pub(super) mac: Mac,
    pub(super) peer_mac: Option<Mac>,
    pub(super) rate: Rate,
    pub(super) mtu: Option<u32>,
    #[serde(default)]
    pub(super) accept_any_mac: bool,
    #[serde(default)]
    pub(super) hosts: Vec<Host>,
    #[serde(default)]
    pub(super) prefixes: Vec<String>,
    #[serde(default)]
    pub(super) faults: Vec<String>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct DevicePart {
    pub(super) name: String,
    pub(super) rate: Option<Rate>,
    pub(super) lcore: Option<u16>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    pub(super) address: String,
    pub(super) mac: Option<Mac>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Route {
    pub(super) prefix: String,
    pub(super) leaf: Option<String>,
    pub(super) spine: Option<String>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct SprayPart {
    pub(super) policy: Option<Spray>,
    pub(super) tie: Option<Tie>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Queue {
    pub(super) limit: Option<Bytes>,
    pub(super) packets: Option<u32>,
    pub(super) slack: Option<Time>,
    pub(super) overhead: Option<u32>,
    #[serde(default)]
    pub(super) dscp: BTreeMap<String, u8>,
    pub(super) pcp: Option<BTreeMap<String, u8>>,
    pub(super) ecn: Option<Ecn>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Ecn {
    pub(super) kmin: Option<Bytes>,
    pub(super) kmax: Option<Bytes>,
    pub(super) pmax: Option<Probability>,
    pub(super) priorities: Option<Vec<u8>>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Gateway {
    #[serde(default)]
    pub(super) addresses: Vec<String>,
    pub(super) icmp: Option<u32>,
    pub(super) neighbors: Option<u32>,
    pub(super) neighbor_age: Option<Time>,
    pub(super) neighbor_ask: Option<Time>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Measurement {
    pub(super) protocol: Option<Preset>,
    pub(super) mark: Option<Mark>,
    pub(super) window_packets: Option<u64>,
    pub(super) window: Option<Time>,
    pub(super) idle: Option<Time>,
    pub(super) path_delay: Option<Time>,
    pub(super) rows: Option<u32>,
    pub(super) row: Option<Time>,
    pub(super) announce: Option<Announce>,
    pub(super) test: Option<PathTest>,
    pub(super) evidence: Option<Evidence>,
    pub(super) spine_packets: Option<u64>,
    pub(super) silence: Option<Time>,
    pub(super) counter_bits: Option<u32>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Eal {
    pub(super) memory: Option<super::Memory>,
    pub(super) size: Option<Bytes>,
    pub(super) buffer: Option<Bytes>,
    pub(super) idle: Option<super::Idle>,
    pub(super) lcores: Option<super::Lcores>,
    #[serde(default)]
    pub(super) cpus: Vec<u16>,
    pub(super) buffers: Option<u32>,
    #[serde(default)]
    pub(super) arguments: Vec<String>,
}

/// What a port is for.
#[derive(Deserialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    Host,
    Uplink,
    Downlink,
}

impl Kind {
    /// For a sentence.
    pub(super) fn with_article(self) -> &'static str {
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
pub(super) struct Mac(pub(super) MacAddr);

impl<'de> Deserialize<'de> for Mac {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Mac, D::Error> {
        text::read(deserializer, "a MAC address such as \"02:00:00:00:00:01\"").map(Mac)
    }
}
