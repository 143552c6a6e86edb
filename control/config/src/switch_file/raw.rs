//! The file as it is written: every key there is, none checked yet.

use std::collections::BTreeMap;
use std::fmt;

use packet::MacAddr;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};

use crate::choice::{Announce, Evidence, Mark, PathTest, Preset, Spray, Tie};
use crate::quantity::{Bytes, Probability, Rate, Time, text};

#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Switch {
    /// Its name, also the prefix of DPDK's runtime files: one of a machine alone has it.
    #[schemars(extend("x-example" = "leaf0"))]
    pub(crate) name: String,
    /// Which switch of the fabric it is: `leaf0`.. or `spine0`...
    #[schemars(extend("x-example" = "leaf0"))]
    pub(crate) role: String,
    /// Seed of all that is left to chance: equal seeds and packets, equal choices.
    #[schemars(extend("x-default" = 1, "x-example" = 7))]
    pub(crate) seed: Option<u64>,
    /// The fabric that it is part of.
    pub(crate) fabric: Fabric,
    /// What the ports of one device share.
    #[serde(default)]
    pub(crate) device: Vec<DevicePart>,
    /// Its ports, in the order of their numbers. A leaf has host ports and one uplink to every
    /// spine, a spine one downlink to every leaf.
    #[serde(default)]
    pub(crate) port: Vec<Port>,
    /// What is behind other switches. Routes of a leaf itself may be given too; its hosts must then
    /// lie in them.
    #[serde(default)]
    pub(crate) route: Vec<Route>,
    /// How an uplink is chosen.
    #[serde(default)]
    pub(crate) spray: SprayPart,
    /// Egress queues: eight of each port, in strict priority.
    #[serde(default)]
    pub(crate) queue: Queue,
    /// The switch as a station of its own.
    #[serde(default)]
    pub(crate) gateway: Gateway,
    /// Measuring: windows, and how paths are judged.
    #[serde(default)]
    pub(crate) measurement: Measurement,
    /// OpenMetrics over HTTP; off without this part.
    #[serde(default)]
    pub(crate) metrics: Metrics,
    /// How DPDK is started.
    #[serde(default)]
    pub(crate) eal: Eal,
}

#[derive(Deserialize, JsonSchema, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Metrics {
    /// Address and port to answer at, over HTTP and without a password.
    #[schemars(extend("x-unless" = "off", "x-example" = "127.0.0.1:9111"))]
    pub(crate) listen: Option<String>,
}

#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fabric {
    /// Leaves of the fabric.
    #[schemars(extend("x-range" = "1 to 128", "x-example" = 8))]
    pub(crate) leaves: u16,
    /// Spines of the fabric.
    #[schemars(extend("x-range" = "1 to 128", "x-example" = 8))]
    pub(crate) spines: u16,
    /// UDP port of spraycheck's own messages.
    #[schemars(extend("x-default" = 48791, "x-range" = "1 to 65535, not 4791", "x-example" = 48791))]
    pub(crate) message_port: Option<u16>,
    /// How often spines tell leaves which downlinks they have; `off` for a switch alone, as in a replay.
    #[schemars(extend("x-default" = "100ms", "x-range" = ["1ms", "10s"], "x-example" = "100ms"))]
    pub(crate) link_state: Option<String>,
    /// A link between switches that came back is used after so long.
    #[schemars(extend("x-default" = "100ms", "x-range" = ["0ns", "3600s"], "x-example" = "10ms"))]
    pub(crate) hold_down: Option<Time>,
}

#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Port {
    /// Its name, one of the switch alone has it.
    #[schemars(extend("x-example" = "up0"))]
    pub(crate) name: String,
    /// What is at the other end: a host, a spine (uplink) or a leaf (downlink).
    #[schemars(extend("x-example" = "uplink"))]
    pub(crate) kind: Kind,
    /// The switch at the other end; host ports have none.
    #[schemars(extend("x-example" = "spine0"))]
    pub(crate) peer: Option<String>,
    /// PCI address of a NIC, `iface=` and the interface of one that DPDK shares with the kernel (mlx5), or a virtual
    /// device; with driver arguments.
    #[schemars(extend("x-unless" = "none: for replays and checks only", "x-example" = "0000:03:00.0"))]
    pub(crate) device: Option<String>,
    /// Tag of this link, where several share the device.
    #[schemars(extend("x-unless" = "no tag", "x-range" = "1 to 4094", "x-example" = 100))]
    pub(crate) vlan: Option<u16>,
    /// The port's own MAC address.
    #[schemars(extend("x-example" = "02:00:00:00:00:10"))]
    pub(crate) mac: Mac,
    /// MAC address of the port at the other end; messages from another are not believed. Host ports
    /// have none.
    #[schemars(extend("x-example" = "02:00:01:00:00:00"))]
    pub(crate) peer_mac: Option<Mac>,
    /// Rate of the link: egress is shaped to it.
    #[schemars(extend("x-range" = ["1Mbps", "1Tbps"], "x-example" = "10Gbps"))]
    pub(crate) rate: Rate,
    /// Largest IP packet; path MTU 4096 needs 4200.
    #[schemars(extend("x-default" = 4200, "x-range" = [1280, 9600], "x-unit" = "bytes", "x-example" = 1500))]
    pub(crate) mtu: Option<u32>,
    /// Whether frames to other MAC addresses are taken as well: for captures of a bridged network.
    #[schemars(extend("x-default" = false, "x-example" = true))]
    #[serde(default)]
    pub(crate) accept_any_mac: bool,
    /// Who is behind a host port. Packets from other addresses are dropped.
    #[schemars(extend("x-example" = [{"address": "10.77.0.1", "mac": "52:54:00:77:00:01"}]))]
    #[serde(default)]
    pub(crate) hosts: Vec<Host>,
    /// Prefixes behind a host port, whose hosts are learned.
    #[schemars(extend("x-example" = ["10.77.4.0/24"]))]
    #[serde(default)]
    pub(crate) prefixes: Vec<String>,
    /// What a testbed does to the link that this port sends into: drop, burst or match.
    #[schemars(extend("x-example" = ["drop=0.02"]))]
    #[serde(default)]
    pub(crate) faults: Vec<String>,
}

#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct DevicePart {
    /// The device, as ports name it.
    #[schemars(extend("x-example" = "0000:03:00.0"))]
    pub(crate) name: String,
    /// Rate of all its ports together, shared fairly among those that have something.
    #[schemars(extend("x-unless" = "the sum of its ports", "x-range" = ["1Mbps", "1Tbps"], "x-example" = "25Gbps"))]
    pub(crate) rate: Option<Rate>,
    /// The lcore that sends into it, of `eal.lcores` from 0.
    #[schemars(extend("x-unless" = "the least loaded one", "x-example" = 0))]
    pub(crate) lcore: Option<u16>,
}

#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Host {
    /// IPv4 or IPv6 address.
    #[schemars(extend("x-example" = "10.77.0.1"))]
    pub(crate) address: String,
    /// Its MAC address.
    #[schemars(extend("x-unless" = "learned from ARP or neighbour discovery", "x-example" = "52:54:00:77:00:01"))]
    pub(crate) mac: Option<Mac>,
}

#[derive(Deserialize, JsonSchema, Debug)]
#[serde(deny_unknown_fields)]
pub(crate) struct Route {
    /// Prefix; of several that hold an address the longest wins.
    #[schemars(extend("x-example" = "10.77.1.0/24"))]
    pub(crate) prefix: String,
    /// The leaf that it is behind.
    #[schemars(extend("x-example" = "leaf1"))]
    pub(crate) leaf: Option<String>,
    /// The spine whose own address it is.
    #[schemars(extend("x-example" = "spine0"))]
    pub(crate) spine: Option<String>,
}

#[derive(Deserialize, JsonSchema, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct SprayPart {
    /// How an uplink is chosen for a packet of a reliable connection; all else keeps one path.
    #[schemars(extend("x-default" = "jsq2", "x-example" = "random"))]
    pub(crate) policy: Option<Spray>,
    /// What decides between uplinks of equal depth.
    #[schemars(extend("x-unless" = "fewest-measured; random with protocol paper", "x-example" = "random"))]
    pub(crate) tie: Option<Tie>,
}

#[derive(Deserialize, JsonSchema, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Queue {
    /// Bound of each queue; what does not fit is a counted tail drop.
    #[schemars(extend("x-default" = "1MiB", "x-range" = "one frame to 1GiB", "x-example" = "256KiB"))]
    pub(crate) limit: Option<Bytes>,
    /// Bound of all queues of the switch together.
    #[schemars(extend("x-unless" = "what the queues hold in packets of 64 bytes, 1,024 to 32,768", "x-range" = [64, 1048576], "x-unit" = "packets", "x-example" = 2048))]
    pub(crate) packets: Option<u32>,
    /// How far a port may catch up that was polled late.
    #[schemars(extend("x-default" = "20us", "x-range" = ["0ns", "1s"], "x-example" = "20us"))]
    pub(crate) slack: Option<Time>,
    /// Bytes on the wire beside a frame: preamble, FCS, gap.
    #[schemars(extend("x-default" = 24, "x-range" = [0, 64], "x-unit" = "bytes", "x-example" = 24))]
    pub(crate) overhead: Option<u32>,
    /// Priority, 0 to 6, by DSCP, 0 to 63; others have that of their class, DSCP / 8, at most 6.
    #[schemars(extend("x-default" = {}, "x-example" = {"26": 3, "48": 6}))]
    #[serde(default)]
    pub(crate) dscp: BTreeMap<String, u8>,
    /// Priority, 0 to 6, by PCP, 0 to 7, of tagged packets, in place of DSCP.
    #[schemars(extend("x-unless" = "by DSCP", "x-example" = {"3": 3}))]
    pub(crate) pcp: Option<BTreeMap<String, u8>>,
    /// Marking of congestion (ECN); off without this part.
    pub(crate) ecn: Option<Ecn>,
}

#[derive(Deserialize, JsonSchema, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ecn {
    /// Bytes of a queue from which packets are marked. It goes together with `kmax`.
    #[schemars(extend("x-unless" = "400kB at 100Gbps, in proportion to the rate", "x-example" = "40kB"))]
    pub(crate) kmin: Option<Bytes>,
    /// Bytes of a queue beyond which every packet is marked.
    #[schemars(extend("x-unless" = "1600kB at 100Gbps, in proportion to the rate", "x-example" = "160kB"))]
    pub(crate) kmax: Option<Bytes>,
    /// Probability of a mark at `kmax`.
    #[schemars(extend("x-default" = 0.2, "x-range" = "0.000001 to 1", "x-example" = 0.2))]
    pub(crate) pmax: Option<Probability>,
    /// Queues that mark.
    #[schemars(extend("x-unless" = "all", "x-range" = "0 to 7", "x-example" = [3]))]
    pub(crate) priorities: Option<Vec<u8>>,
}

#[derive(Deserialize, JsonSchema, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gateway {
    /// Addresses at which the switch answers ping, and from which its ICMP errors come. They lie in
    /// no other leaf's prefix.
    #[schemars(extend("x-example" = ["10.77.0.254", "fd77::fe"]))]
    #[serde(default)]
    pub(crate) addresses: Vec<String>,
    /// Echo replies and ICMP errors per second by each port; 0 for none.
    #[schemars(extend("x-default" = 1000, "x-range" = [0, 1000000], "x-unit" = "per second", "x-example" = 1000))]
    pub(crate) icmp: Option<u32>,
    /// Addresses of its prefixes that a host port may learn at once.
    #[schemars(extend("x-default" = 256, "x-range" = [1, 65536], "x-example" = 1024))]
    pub(crate) neighbors: Option<u32>,
    /// A learned MAC address is asked for again after so long.
    #[schemars(extend("x-default" = "30s", "x-range" = ["100ms", "86400s"], "x-example" = "60s"))]
    pub(crate) neighbor_age: Option<Time>,
    /// Time between two asks for one address.
    #[schemars(extend("x-default" = "1s", "x-range" = ["100ms", "86400s"], "x-example" = "2s"))]
    pub(crate) neighbor_ask: Option<Time>,
}

#[derive(Deserialize, JsonSchema, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Measurement {
    /// `default`, or `paper`: no close, no colour, hosts are believed.
    #[schemars(extend("x-default" = "default", "x-example" = "paper"))]
    pub(crate) protocol: Option<Preset>,
    /// Which packets of the measured flow are marked: first copies, or all.
    #[schemars(extend("x-unless" = "first; all with protocol paper", "x-example" = "first"))]
    pub(crate) mark: Option<Mark>,
    /// A measured window ends after so many packets at the latest.
    #[schemars(extend("x-default" = 67108864, "x-range" = [1, 1_099_511_627_776_i64], "x-unit" = "packets", "x-example" = 1000000))]
    pub(crate) window_packets: Option<u64>,
    /// A measured window ends after so long at the latest.
    #[schemars(extend("x-default" = "60s", "x-range" = ["1us", "3600s"], "x-example" = "10s"))]
    pub(crate) window: Option<Time>,
    /// A measured window ends after so much silence.
    #[schemars(extend("x-default" = "1s", "x-range" = ["1us", "3600s"], "x-example" = "100ms"))]
    pub(crate) idle: Option<Time>,
    /// Longest way of a packet through the fabric: a verdict waits for it.
    #[schemars(extend("x-unless" = "three full queues at the slowest link", "x-range" = ["1us", "3600s"], "x-example" = "2600us"))]
    pub(crate) path_delay: Option<Time>,
    /// Flows that are counted at once, as a destination.
    #[schemars(extend("x-default" = 1024, "x-range" = [1, 65536], "x-example" = 4096))]
    pub(crate) rows: Option<u32>,
    /// How long a row without a verdict is kept.
    #[schemars(extend("x-default" = "60s", "x-range" = ["1us", "3600s"], "x-example" = "60s"))]
    pub(crate) row: Option<Time>,
    /// Who names the flows to measure: hosts announce them, or (`window`) this leaf finds busy ones
    /// by itself, announced ones first.
    #[schemars(extend("x-default" = "host", "x-example" = "window"))]
    pub(crate) announce: Option<Announce>,
    /// How a path is tested: once P_min packets are there, or after every window.
    #[schemars(extend("x-default" = "fixed", "x-example" = "sequential"))]
    pub(crate) test: Option<PathTest>,
    /// What a path's loss is read from; `hop-counts` names a link from one flow.
    #[schemars(extend("x-unless" = "source-counts; receive-only with protocol paper", "x-example" = "hop-counts"))]
    pub(crate) evidence: Option<Evidence>,
    /// Packets per spine of a window.
    #[schemars(extend("x-unless" = "the whole flow; 64 for the sequential test; P_min for flows that nobody announces", "x-range" = [1, 67108864], "x-unit" = "packets", "x-example" = 64))]
    pub(crate) spine_packets: Option<u64>,
    /// A found flow without a packet for so long has ended.
    #[schemars(extend("x-unless" = "follows from path_delay", "x-range" = ["1us", "3600s"], "x-example" = "10ms"))]
    pub(crate) silence: Option<Time>,
    /// Bits of the counters of marked packets: 32, or the paper's 16.
    #[schemars(extend("x-default" = 32, "x-range" = "16 or 32", "x-unit" = "bits", "x-example" = 16))]
    pub(crate) counter_bits: Option<u32>,
    /// Whether this leaf measures flows of its own.
    #[schemars(extend("x-default" = true, "x-example" = false))]
    pub(crate) enabled: Option<bool>,
    /// Loss rate of a link that is no failure.
    #[schemars(extend("x-unless" = "0.00002", "x-range" = "above 0, below 1", "x-example" = 0.0001))]
    pub(crate) p0: Option<Probability>,
    /// Probability of any false alarm when every path of the fabric is tested once.
    #[schemars(extend("x-unless" = "0.001", "x-range" = "above 0, below 1", "x-example" = 0.01))]
    pub(crate) alpha: Option<Probability>,
    /// Packets per spine that a test needs.
    #[schemars(extend("x-unless" = "follows from p0, alpha and evidence", "x-range" = [1, 1_099_511_627_776_i64], "x-unit" = "packets", "x-example" = 2000))]
    pub(crate) p_min: Option<u64>,
}

#[derive(Deserialize, JsonSchema, Debug, Default)]
#[serde(deny_unknown_fields)]
pub(crate) struct Eal {
    /// Where packet memory comes from.
    #[schemars(extend("x-default" = "auto", "x-example" = "hugepages"))]
    pub(crate) memory: Option<super::Memory>,
    /// How much of it, of DPDK as a whole.
    #[schemars(extend("x-default" = "256MiB", "x-range" = ["64MiB", "1TiB"], "x-example" = "1GiB"))]
    pub(crate) size: Option<Bytes>,
    /// Bytes of a packet buffer, headroom of 128 included: holds the largest frame of every port.
    #[schemars(extend("x-unless" = "follows from the largest mtu", "x-range" = "one frame to 65472", "x-example" = "4352"))]
    pub(crate) buffer: Option<Bytes>,
    /// What a poll loop does while nothing is to be done: poll on, or sleep for 50 us at a time,
    /// for devices of the kernel and several switches on one CPU.
    #[schemars(extend("x-default" = "poll", "x-example" = "sleep"))]
    pub(crate) idle: Option<super::Idle>,
    /// Poll loops, or `auto`: one per device, as far as there are CPUs.
    #[schemars(extend("x-default" = 1, "x-range" = "1 to 32, or auto", "x-example" = "auto"))]
    pub(crate) lcores: Option<super::Lcores>,
    /// CPUs of the poll loops, one each.
    #[schemars(extend("x-unless" = "chosen from those of the process", "x-example" = [2, 3]))]
    #[serde(default)]
    pub(crate) cpus: Vec<u16>,
    /// Packet buffers.
    #[schemars(extend("x-unless" = "as many as can be out at once", "x-example" = 65535))]
    pub(crate) buffers: Option<u32>,
    /// Further arguments for EAL. Those that follow from other keys are refused.
    #[schemars(extend("x-default" = [], "x-example" = ["--log-level=lib.eal:debug"]))]
    #[serde(default)]
    pub(crate) arguments: Vec<String>,
}

/// What a port is for.
#[derive(Deserialize, JsonSchema, Clone, Copy, PartialEq, Eq, Debug)]
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
