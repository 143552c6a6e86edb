//! The switches of one leaf pair: leaf 0 with the sender, leaf 1 with the receiver, k spines
//! between them, or k cables when spines would only pass packets on.

use packet::{Address, MacAddr, message};
use pipeline::{
    GatewayConfig, HostConfig, LeafId, Mark, Measurement, NextHop, Peer, Policy, PortConfig,
    PortKind, Prefix, QueueConfig, Role, Route, SpineId, SwitchConfig, Tie,
};

use crate::frame::WIRE_BYTES;

/// Path MTU of the measured flow, bytes.
pub(crate) const MTU_BYTES: u32 = 4096;
/// Rate of every fabric link, bits per second.
const LINK_BPS: u64 = 100_000_000_000;
/// Bytes on the wire beside the frame: preamble, FCS, gap.
const OVERHEAD_BYTES: u32 = 24;
/// Time that one data packet takes on a link, picoseconds.
pub(crate) const SERVICE_PS: u64 =
    (WIRE_BYTES + OVERHEAD_BYTES) as u64 * 8 * 1_000_000 / (LINK_BPS / 1_000_000);
/// G, the longest way of a packet from leaf to leaf: sixteen packets before it. JSQ(2) keeps
/// queues far shorter (two choices: log log k), also at a load of 0.97.
pub(crate) const PATH_DELAY_NS: u64 = 16 * SERVICE_PS / 1000;
/// Packets that a leaf may hold.
const PACKETS_MAX: u32 = 1 << 14;
/// Host links and what spines send are never the bottleneck.
const FAST: u64 = 1000;

/// What of the two leaves a trial chooses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Leaves {
    /// k, spines.
    pub spines: u16,
    /// How uplinks are chosen.
    pub policy: Policy,
    /// What decides between equal uplinks.
    pub tie: Tie,
    /// Which packets are marked.
    pub mark: Mark,
    /// The paper's protocol: no close, no colour.
    pub is_paper: bool,
    /// Packets of one window at most.
    pub window_packets_max: u64,
    /// Whether spines are switches of their own, that fill in their counts, or cables.
    pub real_spines: bool,
}

pub(crate) fn host(leaf: u16) -> Address {
    Address::v4(0x0a00_0001 | u32::from(leaf) << 16)
}

fn mac(switch: u16, port: u16) -> MacAddr {
    MacAddr([2, 0, 0, switch as u8, 0, port as u8])
}

/// Destination and source of what the sending host sends.
pub(crate) fn host_macs() -> (MacAddr, MacAddr) {
    (mac(0, 0), mac(0xff, 0))
}

/// Leaf 0 or 1. Port 0 is the host's, port x + 1 leads to spine x.
pub(crate) fn leaf(leaves: &Leaves, index: u16, seed: u64) -> SwitchConfig {
    let uplinks = (0..leaves.spines).map(|spine| {
        let peer_mac = if leaves.real_spines {
            mac(2 + spine, index)
        } else {
            mac(1 - index, spine + 1)
        };
        PortConfig {
            kind: PortKind::Fabric(Peer::Spine(SpineId(spine))),
            mac: mac(index, spine + 1),
            peer_mac,
            ..port(LINK_BPS)
        }
    });
    let to_host = PortConfig {
        kind: PortKind::Host,
        mac: mac(index, 0),
        peer_mac: MacAddr::default(),
        ..port(LINK_BPS * FAST)
    };
    SwitchConfig {
        role: Role::Leaf(LeafId(index)),
        ports: std::iter::once(to_host).chain(uplinks).collect(),
        hosts: vec![HostConfig {
            address: host(index),
            mac: Some(mac(0xff, index)),
            port: 0,
        }],
        routes: routes(|leaf| {
            if leaf == index {
                NextHop::Host(0)
            } else {
                NextHop::Leaf(LeafId(leaf))
            }
        }),
        ..switch(leaves, seed)
    }
}

/// A spine. Port l leads to leaf l.
pub(crate) fn spine(leaves: &Leaves, index: u16, seed: u64) -> SwitchConfig {
    let ports = (0..2).map(|leaf| PortConfig {
        kind: PortKind::Fabric(Peer::Leaf(LeafId(leaf))),
        mac: mac(2 + index, leaf),
        peer_mac: mac(leaf, index + 1),
        ..port(LINK_BPS * FAST)
    });
    SwitchConfig {
        role: Role::Spine(SpineId(index)),
        ports: ports.collect(),
        routes: routes(|leaf| NextHop::Leaf(LeafId(leaf))),
        ..switch(leaves, seed)
    }
}

fn routes(next: impl Fn(u16) -> NextHop) -> Vec<Route> {
    (0..2)
        .map(|leaf| Route {
            prefix: Prefix::host(host(leaf)),
            next: next(leaf),
        })
        .collect()
}

fn port(rate_bps: u64) -> PortConfig {
    PortConfig {
        kind: PortKind::Host,
        mac: MacAddr::default(),
        peer_mac: MacAddr::default(),
        accept_any_mac: false,
        rate_bps,
        frame_max_bytes: WIRE_BYTES.max(1518),
    }
}

fn switch(leaves: &Leaves, seed: u64) -> SwitchConfig {
    SwitchConfig {
        role: Role::Leaf(LeafId(0)),
        leaves: 2,
        spines: leaves.spines,
        ports: Vec::new(),
        hosts: Vec::new(),
        routes: Vec::new(),
        message_port: message::DEFAULT_PORT,
        policy: leaves.policy,
        tie: leaves.tie,
        queue: QueueConfig {
            limit_bytes: 10 << 20,
            packets_max: PACKETS_MAX,
            // Departures are taken when they are due, to the nanosecond.
            slack_ns: 1,
            overhead_bytes: OVERHEAD_BYTES,
            dscp_priority: [0; 64],
            pcp_priority: None,
            ecn: [None; 8],
        },
        measurement: Measurement {
            windows: pipeline::WindowPlan::default(),
            is_paper: leaves.is_paper,
            mark: leaves.mark,
            window_packets_max: leaves.window_packets_max,
            window_ns_max: u64::MAX / 2,
            idle_ns_max: u64::MAX / 2,
            path_delay_ns_max: PATH_DELAY_NS,
            rows_max: 4,
            row_ns_max: 60_000_000_000,
        },
        link_state_ns: None,
        hold_down_ns: 0,
        gateway: GatewayConfig::default(),
        seed,
    }
}
