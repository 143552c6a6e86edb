//! The fabric file as it is written: every key there is, none checked yet.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::quantity::{Rate, Time};
use crate::switch_file::raw::{DevicePart, Eal, Mac, Measurement, Metrics, Queue, SprayPart};

#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// Names of switches begin with it: `lab-leaf0`.
    #[schemars(extend("x-unless" = "none", "x-example" = "lab"))]
    pub(super) name: Option<String>,
    /// Seed of all that is left to chance.
    #[schemars(extend("x-default" = 1, "x-example" = 7))]
    pub(super) seed: Option<u64>,
    /// What switches do to their links: drop, burst or match. A cable, `leaf0-spine1`, stands for
    /// both of its links.
    #[schemars(extend("x-default" = [], "x-example" = ["leaf0>spine1:drop=0.01"]))]
    #[serde(default)]
    pub(super) faults: Vec<String>,
    /// Size and messages of the fabric.
    pub(super) fabric: Size,
    /// What all links have in common.
    pub(super) links: Links,
    /// Prefixes: each leaf has a part, in which hosts count from the first address and the leaf is
    /// the last but one.
    pub(super) addressing: Addressing,
    /// What ports are made of, with `{switch}`, `{port}`, `{leaf}`, `{spine}` and `{host}` to fill in.
    #[serde(default)]
    pub(super) ports: Ports,
    /// What all hosts have in common.
    #[serde(default)]
    pub(super) hosts: Hosts,
    /// What single hosts have otherwise.
    #[serde(default)]
    pub(super) host: Vec<Host>,
    /// What single switches have otherwise.
    #[serde(default)]
    pub(super) switch: Vec<Switch>,
    /// What the ports of one device share.
    #[serde(default)]
    pub(super) device: Vec<DevicePart>,
    // These parts go into the switches' files as they are; here only their keys are looked at.
    /// As in the file of a switch; addresses follow from `addressing`.
    #[serde(default, rename = "gateway")]
    pub(super) _gateway: Gateway,
    /// As in the file of a switch.
    #[serde(default, rename = "spray")]
    pub(super) _spray: SprayPart,
    /// As in the file of a switch.
    #[serde(default, rename = "queue")]
    pub(super) _queue: Queue,
    /// As in the file of a switch.
    #[serde(default, rename = "measurement")]
    pub(super) _measurement: Measurement,
    /// As in the file of a switch: each answers there, so on one machine give each its own.
    #[serde(default)]
    pub(super) metrics: Metrics,
    /// As in the file of a switch.
    #[serde(default, rename = "eal")]
    pub(super) _eal: Eal,
}

#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Size {
    /// Leaves of the fabric.
    #[schemars(extend("x-range" = "2 to 128", "x-example" = 4))]
    pub(super) leaves: u16,
    /// Spines of the fabric.
    #[schemars(extend("x-range" = "1 to 128", "x-example" = 4))]
    pub(super) spines: u16,
    /// UDP port of spraycheck's own messages.
    #[schemars(extend("x-default" = 48791, "x-range" = "1 to 65535, not 4791", "x-example" = 48791))]
    pub(super) message_port: Option<u16>,
    /// How often spines tell leaves which downlinks they have.
    #[schemars(extend("x-default" = "100ms", "x-range" = "1ms to 10s", "x-example" = "100ms"))]
    pub(super) link_state: Option<String>,
    /// A link between switches that came back is used after so long.
    #[schemars(extend("x-default" = "100ms", "x-range" = "0ns to 3600s", "x-example" = "100ms"))]
    pub(super) hold_down: Option<Time>,
}

#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Links {
    /// Rate of links between leaves and spines: egress is shaped to it.
    #[schemars(extend("x-range" = "1Mbps to 1Tbps", "x-example" = "10Gbps"))]
    pub(super) rate: Rate,
    /// Rate of links to hosts.
    #[schemars(extend("x-unless" = "that of the others", "x-range" = "1Mbps to 1Tbps", "x-example" = "1Gbps"))]
    pub(super) host_rate: Option<Rate>,
    /// Largest IP packet of all links; path MTU 4096 needs 4200.
    #[schemars(extend("x-default" = 4200, "x-range" = [1280, 9600], "x-unit" = "bytes", "x-example" = 1500))]
    pub(super) mtu: Option<u32>,
}

#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Addressing {
    /// IPv4 prefix of the whole fabric; IPv4, IPv6 or both are there.
    #[schemars(extend("x-unless" = "none", "x-example" = "10.77.0.0/16"))]
    pub(super) ipv4: Option<String>,
    /// Length of a leaf's part of it.
    #[schemars(extend("x-default" = 16, "x-unit" = "bits", "x-example" = 24))]
    pub(super) ipv4_leaf: Option<u8>,
    /// IPv6 prefix of the whole fabric.
    #[schemars(extend("x-unless" = "none", "x-example" = "fd77::/48"))]
    pub(super) ipv6: Option<String>,
    /// Length of a leaf's part of it.
    #[schemars(extend("x-default" = 64, "x-unit" = "bits", "x-example" = 64))]
    pub(super) ipv6_leaf: Option<u8>,
    /// Fabrics that share a LAN have different ones, and so different MAC addresses.
    #[schemars(extend("x-default" = 0, "x-range" = [0, 127], "x-example" = 1))]
    pub(super) mac_block: Option<u8>,
}

/// What ports are made of, with `{switch}`, `{port}`, `{leaf}`, `{spine}` and `{host}` to fill in.
#[derive(Deserialize, JsonSchema, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Ports {
    /// Device of host ports.
    #[schemars(extend("x-unless" = "none", "x-example" = "0000:03:00.{host}"))]
    pub(super) host: Option<String>,
    /// Device of uplinks.
    #[schemars(extend("x-unless" = "none", "x-example" = "0000:04:00.{spine}"))]
    pub(super) uplink: Option<String>,
    /// Device of downlinks.
    #[schemars(extend("x-unless" = "none", "x-example" = "0000:04:00.{leaf}"))]
    pub(super) downlink: Option<String>,
    /// On shared devices every cable has its own tag, from this one on.
    #[schemars(extend("x-unless" = "no tags", "x-range" = "1 to 4094", "x-example" = 100))]
    pub(super) vlan: Option<u16>,
    /// The same of cables to hosts.
    #[schemars(extend("x-unless" = "no tags", "x-range" = "1 to 4094", "x-example" = 1000))]
    pub(super) host_vlan: Option<u16>,
}

#[derive(Deserialize, JsonSchema, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Hosts {
    /// Hosts of each leaf; their names are h0.0, h0.1 and so on.
    #[schemars(extend("x-default" = 1, "x-range" = [1, 512], "x-example" = 2))]
    pub(super) per_leaf: Option<u16>,
    /// Whether their MAC addresses are learned; otherwise `hosts.sh` sets them.
    #[schemars(extend("x-default" = false, "x-example" = true))]
    #[serde(default)]
    pub(super) learn: bool,
    /// Interface of a host, for `hosts.sh`.
    #[schemars(extend("x-default" = "eth0", "x-example" = "ens5"))]
    pub(super) interface: Option<String>,
}

#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Host {
    /// Which host.
    #[schemars(extend("x-example" = "h1.0"))]
    pub(super) name: String,
    /// It keeps its own MAC address.
    #[schemars(extend("x-unless" = "one of the fabric", "x-example" = "52:54:00:12:34:56"))]
    pub(super) mac: Option<Mac>,
    /// Its addresses, from the part of its leaf.
    #[schemars(extend("x-unless" = "counted up", "x-example" = ["10.77.1.20"]))]
    pub(super) addresses: Option<Vec<String>>,
    /// Its interface.
    #[schemars(extend("x-unless" = "that of `hosts`", "x-example" = "ens5"))]
    pub(super) interface: Option<String>,
}

#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Switch {
    /// Which switch.
    #[schemars(extend("x-example" = "leaf0"))]
    pub(super) name: String,
    /// Device of its host ports.
    #[schemars(extend("x-unless" = "that of `ports`", "x-example" = "0000:03:00.{host}"))]
    pub(super) host: Option<String>,
    /// Device of its uplinks.
    #[schemars(extend("x-unless" = "that of `ports`", "x-example" = "0000:04:00.0"))]
    pub(super) uplink: Option<String>,
    /// Device of its downlinks.
    #[schemars(extend("x-unless" = "that of `ports`", "x-example" = "0000:04:00.0"))]
    pub(super) downlink: Option<String>,
    /// Where it answers for metrics.
    #[schemars(extend("x-unless" = "that of the fabric", "x-example" = {"listen": "127.0.0.1:9112"}))]
    pub(super) metrics: Option<Metrics>,
    /// Keys of `eal` that it has otherwise.
    #[schemars(extend("x-example" = {"cpus": [2]}))]
    #[serde(default, rename = "eal")]
    pub(super) _eal: Eal,
}

#[derive(Deserialize, JsonSchema, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(super) struct Gateway {
    /// As `gateway.icmp` of a switch.
    #[schemars(extend("x-default" = 1000, "x-unit" = "per second", "x-example" = 1000))]
    #[serde(rename = "icmp")]
    pub(super) _icmp: Option<u32>,
    /// As `gateway.neighbors` of a switch.
    #[schemars(extend("x-default" = 256, "x-example" = 1024))]
    #[serde(rename = "neighbors")]
    pub(super) _neighbors: Option<u32>,
    /// As `gateway.neighbor_age` of a switch.
    #[schemars(extend("x-default" = "30s", "x-example" = "60s"))]
    #[serde(rename = "neighbor_age")]
    pub(super) _neighbor_age: Option<Time>,
    /// As `gateway.neighbor_ask` of a switch.
    #[schemars(extend("x-default" = "1s", "x-example" = "2s"))]
    #[serde(rename = "neighbor_ask")]
    pub(super) _neighbor_ask: Option<Time>,
}
