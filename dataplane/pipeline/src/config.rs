//! What a switch is told before it starts. Values are taken as right: `control/config` reads,
//! checks and explains what people write.

use packet::{Address, MacAddr};

use crate::route::Route;
use crate::spray::{Policy, Tie};
use crate::types::{LeafId, SpineId};

/// Which switch of the fabric this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    /// A leaf: has hosts, sprays, marks and counts.
    Leaf(LeafId),
    /// A spine: forwards between leaves.
    Spine(SpineId),
}

/// What is at the other end of a fabric port.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Peer {
    /// A leaf (the port is a downlink).
    Leaf(LeafId),
    /// A spine (the port is an uplink).
    Spine(SpineId),
}

/// What a port is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PortKind {
    /// Towards hosts, whom nobody vouches for.
    Host,
    /// Towards another switch of the fabric.
    Fabric(Peer),
}

/// A host behind a host port: one address of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostConfig {
    /// Its address; a route of the same address names it.
    pub address: Address,
    /// Its hardware address; `None`: learned from its ARP or neighbour discovery.
    pub mac: Option<MacAddr>,
    /// The port it is behind.
    pub port: u16,
}

/// One port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PortConfig {
    /// Host or fabric.
    pub kind: PortKind,
    /// Its own hardware address.
    pub mac: MacAddr,
    /// The neighbour's, on fabric ports.
    pub peer_mac: MacAddr,
    /// Takes frames whatever their destination MAC (captures of a bridged network).
    pub accept_any_mac: bool,
    /// Line rate in bits per second; the egress is shaped to it.
    pub rate_bps: u64,
    /// Largest frame, without FCS, in bytes.
    pub frame_max_bytes: u32,
}

/// The queues of every egress port.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct QueueConfig {
    /// Bound of each of the eight queues, in bytes (the paper assumes 10 MiB).
    pub limit_bytes: u64,
    /// Packets that the whole switch may hold.
    pub packets_max: u32,
    /// How far a port may catch up after it was polled late, in nanoseconds.
    pub slack_ns: u64,
    /// Bytes on the wire for each frame beside the frame: preamble, FCS and gap are 24.
    pub overhead_bytes: u32,
    /// Priority 0 to 6 of each DSCP. 7 belongs to the measured flow.
    pub dscp_priority: [u8; 64],
    /// Priority 0 to 6 of each PCP of a VLAN tag. `None`: the DSCP counts, tagged or not.
    pub pcp_priority: Option<[u8; 8]>,
    /// ECN marking of each of the eight queues.
    pub ecn: [Option<EcnConfig>; 8],
}

/// The marking curve of a queue, by its depth when a packet comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct EcnConfig {
    /// Up to here nothing is marked.
    pub kmin_bytes: u64,
    /// Beyond here everything is.
    pub kmax_bytes: u64,
    /// Probability at Kmax, in millionths.
    pub pmax_ppm: u32,
    /// The line rate that both thresholds are for; a port of another has them in proportion.
    /// `None`: they are the same at every port.
    pub at_rate_bps: Option<u64>,
}

impl EcnConfig {
    /// Kmin and Kmax at a port of such a rate.
    pub fn thresholds_bytes(&self, rate_bps: u64) -> (u64, u64) {
        let scaled = |bytes: u64| match self.at_rate_bps {
            Some(at) => (u128::from(bytes) * u128::from(rate_bps) / u128::from(at.max(1))) as u64,
            None => bytes,
        };
        (scaled(self.kmin_bytes), scaled(self.kmax_bytes))
    }
}

/// What a switch does as a station of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GatewayConfig {
    /// Its own addresses: they answer echo requests, and are the source of its ICMP errors.
    pub addresses: Vec<Address>,
    /// Echo replies and ICMP errors per second, for each port that they leave by.
    pub icmp_per_second: u32,
    /// How MAC addresses of hosts are learned.
    pub neighbors: NeighborConfig,
}

impl Default for GatewayConfig {
    /// No addresses: nothing is answered but ARP and neighbour discovery.
    fn default() -> GatewayConfig {
        GatewayConfig {
            addresses: Vec::new(),
            icmp_per_second: 1000,
            neighbors: NeighborConfig::default(),
        }
    }
}

/// How MAC addresses of hosts are learned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NeighborConfig {
    /// Addresses of a host port's prefixes that are learned at once.
    pub per_port_max: u32,
    /// An address that was told so long ago is asked for again.
    pub age_ns: u64,
    /// Time between two asks for one address.
    pub ask_ns: u64,
}

impl Default for NeighborConfig {
    /// RFC 4861, section 10: REACHABLE_TIME and RETRANS_TIMER.
    fn default() -> NeighborConfig {
        NeighborConfig {
            per_port_max: 256,
            age_ns: 30_000_000_000,
            ask_ns: 1_000_000_000,
        }
    }
}

/// Which packets of the measured flow are marked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// The first copy of each PSN: retransmissions then hide nothing.
    First,
    /// All (the paper's way).
    All,
}

/// How flows are measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Measurement {
    /// The paper's protocol: no close, no colour, the window ends at the announced last PSN.
    pub is_paper: bool,
    /// Which packets are marked.
    pub mark: Mark,
    /// Cap of a window in packets: announcing buys nobody the highest priority for long.
    pub window_packets_max: u64,
    /// Cap of a window in time.
    pub window_ns_max: u64,
    /// A window without a packet for so long is closed.
    pub idle_ns_max: u64,
    /// G: the longest a packet can stay on its way to the destination leaf.
    pub path_delay_ns_max: u64,
    /// Rows of the flow table at the destination leaf.
    pub rows_max: u32,
    /// A row without a verdict for so long is given up (the paper's minute).
    pub row_ns_max: u64,
    /// How flows are cut into windows, and who names them.
    pub windows: WindowPlan,
}

/// How flows are cut into windows, and who names them. The default: hosts, one window for a flow,
/// counters of 32 bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct WindowPlan {
    /// Packets of a window for each usable spine; 0: as many as the flow has. Found flows need a
    /// number, for nobody tells how many packets they have.
    pub spine_packets: u64,
    /// No window is opened. What other leaves send is still counted and judged.
    pub is_off: bool,
    /// The source leaf finds busy flows by itself; those that hosts announce come first.
    pub finds_flows: bool,
    /// A found flow without a packet for so long has ended.
    pub silence_ns: u64,
    /// The destination leaf counts in 16 bits, as the paper's switch does. A window in which a
    /// healthy path would have more packets than that gives no verdict.
    pub is_narrow: bool,
}

/// A whole switch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SwitchConfig {
    /// Leaf or spine, and which.
    pub role: Role,
    /// Leaves of the fabric.
    pub leaves: u16,
    /// Spines of the fabric.
    pub spines: u16,
    /// Ports, in the order of their [`crate::PortId`].
    pub ports: Vec<PortConfig>,
    /// Hosts of this leaf.
    pub hosts: Vec<HostConfig>,
    /// Routes; local hosts included.
    pub routes: Vec<Route>,
    /// UDP port of spraycheck's messages.
    pub message_port: u16,
    /// How uplinks are chosen.
    pub policy: Policy,
    /// What decides between equal uplinks.
    pub tie: Tie,
    /// Queues.
    pub queue: QueueConfig,
    /// Measurement.
    pub measurement: Measurement,
    /// Spines send link state this often; three missed and a leaf gives the spine up. `None`: no
    /// link state on this fabric (one switch alone, as in a replay).
    pub link_state_ns: Option<u64>,
    /// A fabric link that came back is used after so long; 0: at once.
    pub hold_down_ns: u64,
    /// Its own addresses, and its neighbours.
    pub gateway: GatewayConfig,
    /// Seed of the switch's generator.
    pub seed: u64,
}
