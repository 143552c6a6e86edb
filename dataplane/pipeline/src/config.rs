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
    /// Its hardware address; `None`: learned from its ARP.
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
    /// Seed of the switch's generator.
    pub seed: u64,
}
