//! The fabric file as it is written: every key there is, none checked yet.

use serde::Deserialize;

use crate::quantity::{Rate, Time};
use crate::switch_file::raw::{DevicePart, Eal, Mac, Measurement, Metrics, Queue, SprayPart};

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) name: Option<String>,
    pub(super) seed: Option<u64>,
    #[serde(default)]
    pub(super) faults: Vec<String>,
    pub(super) fabric: Size,
    pub(super) links: Links,
    pub(super) addressing: Addressing,
    #[serde(default)]
    pub(super) ports: Ports,
    #[serde(default)]
    pub(super) hosts: Hosts,
    #[serde(default)]
    pub(super) host: Vec<Host>,
    #[serde(default)]
    pub(super) switch: Vec<Switch>,
    #[serde(default)]
    pub(super) device: Vec<DevicePart>,
    // These parts go into the switches' files as they are; here only their keys are looked at.
    #[serde(default, rename = "gateway")]
    pub(super) _gateway: Gateway,
    #[serde(default, rename = "spray")]
    pub(super) _spray: SprayPart,
    #[serde(default, rename = "queue")]
    pub(super) _queue: Queue,
    #[serde(default, rename = "measurement")]
    pub(super) _measurement: Measurement,
    #[serde(default)]
    pub(super) metrics: Metrics,
    #[serde(default, rename = "eal")]
    pub(super) _eal: Eal,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Size {
    pub(super) leaves: u16,
    pub(super) spines: u16,
    pub(super) message_port: Option<u16>,
    pub(super) link_state: Option<String>,
    pub(super) hold_down: Option<Time>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Links {
    pub(super) rate: Rate,
    pub(super) host_rate: Option<Rate>,
    pub(super) mtu: Option<u32>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Addressing {
    pub(super) ipv4: Option<String>,
    pub(super) ipv4_leaf: Option<u8>,
    pub(super) ipv6: Option<String>,
    pub(super) ipv6_leaf: Option<u8>,
    pub(super) mac_block: Option<u8>,
}

/// What ports are made of, with `{switch}`, `{port}`, `{leaf}`, `{spine}` and `{host}` to fill in.
#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Ports {
    pub(super) host: Option<String>,
    pub(super) uplink: Option<String>,
    pub(super) downlink: Option<String>,
    pub(super) vlan: Option<u16>,
    pub(super) host_vlan: Option<u16>,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Hosts {
    pub(super) per_leaf: Option<u16>,
    #[serde(default)]
    pub(super) learn: bool,
    pub(super) interface: Option<String>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    pub(super) name: String,
    pub(super) mac: Option<Mac>,
    pub(super) addresses: Option<Vec<String>>,
    pub(super) interface: Option<String>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Switch {
    pub(super) name: String,
    pub(super) host: Option<String>,
    pub(super) uplink: Option<String>,
    pub(super) downlink: Option<String>,
    pub(super) metrics: Option<Metrics>,
    #[serde(default, rename = "eal")]
    pub(super) _eal: Eal,
}

#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Gateway {
    #[serde(rename = "icmp")]
    pub(super) _icmp: Option<u32>,
    #[serde(rename = "neighbors")]
    pub(super) _neighbors: Option<u32>,
    #[serde(rename = "neighbor_age")]
    pub(super) _neighbor_age: Option<Time>,
    #[serde(rename = "neighbor_ask")]
    pub(super) _neighbor_ask: Option<Time>,
}
