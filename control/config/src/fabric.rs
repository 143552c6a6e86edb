//! A testbed's settings, resolved into its switches, hosts and links.
//!
//! Called by the drivers of a whole fabric (DPDK testbed, simulator). Everything follows from the
//! settings by arithmetic: equal settings give equal fabrics. Leaves are switches `0..leaves`,
//! spines follow. A leaf's ports are its hosts, then its uplinks by spine; a spine's ports are its
//! downlinks by leaf.

mod addressing;
mod sizing;

use detector::{LeafId, Link, SpineId};
use packet::{Address, MacAddr};
use pipeline::fault::Fault;
use pipeline::{
    HostConfig, Measurement, NextHop, Peer, PortConfig, PortId, PortKind, QueueConfig, Role, Route,
    SwitchConfig,
};

use crate::error::ConfigError;
use crate::quantity::Rate;
use crate::testbed::TestbedConfig;

pub use addressing::{host_address, host_mac, leaf_prefix, port_mac};
pub use sizing::{frame_max_bytes, path_delay_ns_max};

/// Bytes on the wire beside a frame: preamble and start 8, FCS 4, gap 12 (IEEE 802.3).
pub const OVERHEAD_BYTES: u32 = 24;

/// Priority of each DSCP: its class selector (RFC 2474), with 6 as the most: 7 belongs to the
/// measured flow. Congestion notifications, at DSCP 48 by custom, come to 6.
pub const DSCP_PRIORITY: [u8; 64] = {
    let mut table = [0; 64];
    let mut dscp = 0;
    while dscp < 64 {
        let class = (dscp >> 3) as u8;
        table[dscp] = if class > 6 { 6 } else { class };
        dscp += 1;
    }
    table
};

/// All of a testbed.
#[derive(Clone, PartialEq, Debug)]
pub struct Fabric {
    /// Leaves, then spines.
    pub switches: Vec<FabricSwitch>,
    /// Hosts by leaf.
    pub hosts: Vec<FabricHost>,
    /// Every directed link between leaf and spine, in the order of [`Link`].
    pub links: Vec<FabricLink>,
    /// Ports whose link the routing table does not use (switch index, port at its sending end).
    pub disabled: Vec<(usize, PortId)>,
}

/// One switch.
#[derive(Clone, PartialEq, Debug)]
pub struct FabricSwitch {
    /// `leaf0` or `spine0`.
    pub name: String,
    /// What it is told.
    pub config: SwitchConfig,
}

/// One host.
#[derive(Clone, PartialEq, Debug)]
pub struct FabricHost {
    /// `h<leaf>.<n>`.
    pub name: String,
    /// Its leaf, as an index of [`Fabric::switches`].
    pub leaf: usize,
    /// Its port there.
    pub port: PortId,
    /// Its address, 10.LEAF.0.N+1.
    pub address: Address,
    /// Its hardware address.
    pub mac: MacAddr,
    /// That of its port at the leaf.
    pub gateway_mac: MacAddr,
    /// Rate of its link.
    pub rate: Rate,
    /// Seed of what it leaves to chance.
    pub seed: u64,
}

/// One direction of a cable between leaf and spine.
#[derive(Clone, PartialEq, Debug)]
pub struct FabricLink {
    /// Its name.
    pub link: Link,
    /// Where it begins: an index of [`Fabric::switches`], and the port there.
    pub from: (usize, PortId),
    /// Where it ends.
    pub to: (usize, PortId),
    /// Its faults.
    pub faults: Vec<Fault>,
    /// Their texts, as reports show them.
    pub specs: Vec<String>,
    /// Seed of the faults' chances.
    pub seed: u64,
}

impl Fabric {
    /// The fabric of such settings, which are checked first.
    pub fn new(config: &TestbedConfig) -> Result<Fabric, ConfigError> {
        config.check()?;
        let plan = Plan { config };
        let leaves = (0..config.leaves).map(|leaf| plan.leaf(leaf));
        let spines = (0..config.spines).map(|spine| plan.spine(spine));
        let fabric = detector::Fabric {
            leaves: config.leaves,
            spines: config.spines,
        };
        let disabled = config.disabled.0.iter().map(|&link| plan.ends(link).0);
        Ok(Fabric {
            switches: leaves.chain(spines).collect(),
            hosts: plan.hosts(),
            links: fabric.all_links().map(|link| plan.link(link)).collect(),
            disabled: disabled.collect(),
        })
    }
}

/// Seed of the part called `name` of a run with that seed: the name's FNV-1a hash, and both mixed
/// by SplitMix64's finalizer, so that parts draw unrelated numbers and no part's depend on how
/// many others there are.
pub fn seed_of(seed: u64, name: &str) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325u64;
    for byte in name.bytes() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    let mut z = state.wrapping_add(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The rules by which indices become ports, and ports become configurations.
struct Plan<'a> {
    config: &'a TestbedConfig,
}

impl Plan<'_> {
    fn leaf(&self, leaf: u16) -> FabricSwitch {
        let config = self.config;
        let own = usize::from(leaf);
        let mut ports = Vec::new();
        let mut hosts = Vec::new();
        let mut routes = Vec::new();
        for n in 0..config.hosts_per_leaf {
            let mac = host_mac(leaf, n);
            ports.push(self.port(own, n, PortKind::Host, mac, config.host_rate));
            let address = host_address(leaf, n);
            hosts.push(HostConfig {
                address,
                mac: Some(mac),
                port: n,
            });
            routes.push(Route {
                prefix: pipeline::Prefix::host(address),
                next: NextHop::Host(n),
            });
        }
        for spine in 0..config.spines {
            let peer = port_mac(self.spine_index(spine), leaf);
            let kind = PortKind::Fabric(Peer::Spine(pipeline::SpineId(spine)));
            ports.push(self.port(own, self.uplink(spine), kind, peer, config.link_rate));
        }
        routes.extend(self.leaf_routes(Some(leaf)));
        let role = Role::Leaf(pipeline::LeafId(leaf));
        self.switch(LeafId(leaf).to_string(), role, ports, hosts, routes)
    }

    fn spine(&self, spine: u16) -> FabricSwitch {
        let own = self.spine_index(spine);
        let downlinks = (0..self.config.leaves).map(|leaf| {
            let peer = port_mac(usize::from(leaf), self.uplink(spine));
            let kind = PortKind::Fabric(Peer::Leaf(pipeline::LeafId(leaf)));
            self.port(own, leaf, kind, peer, self.config.link_rate)
        });
        let role = Role::Spine(pipeline::SpineId(spine));
        let name = SpineId(spine).to_string();
        self.switch(
            name,
            role,
            downlinks.collect(),
            Vec::new(),
            self.leaf_routes(None),
        )
    }

    fn port(
        &self,
        switch: usize,
        port: u16,
        kind: PortKind,
        peer_mac: MacAddr,
        rate: Rate,
    ) -> PortConfig {
        PortConfig {
            kind,
            mac: port_mac(switch, port),
            peer_mac,
            accept_any_mac: false,
            rate_bps: rate.bits_per_second(),
            frame_max_bytes: frame_max_bytes(self.config),
        }
    }

    /// Routes to the prefixes of all leaves but `except`.
    fn leaf_routes(&self, except: Option<u16>) -> Vec<Route> {
        (0..self.config.leaves)
            .filter(|leaf| Some(*leaf) != except)
            .map(|leaf| Route {
                prefix: leaf_prefix(leaf),
                next: NextHop::Leaf(pipeline::LeafId(leaf)),
            })
            .collect()
    }

    fn switch(
        &self,
        name: String,
        role: Role,
        ports: Vec<PortConfig>,
        hosts: Vec<HostConfig>,
        routes: Vec<Route>,
    ) -> FabricSwitch {
        let config = self.config;
        let queue = QueueConfig {
            limit_bytes: config.queue_limit.bytes(),
            packets_max: sizing::packets_max(config, ports.len()),
            slack_ns: 2 * config.step.nanos(),
            overhead_bytes: OVERHEAD_BYTES,
            dscp_priority: DSCP_PRIORITY,
        };
        let config = SwitchConfig {
            role,
            leaves: config.leaves,
            spines: config.spines,
            ports,
            hosts,
            routes,
            message_port: config.message_port,
            policy: config.spray.into(),
            tie: config.tie.into(),
            queue,
            measurement: Measurement {
                is_paper: config.is_paper(),
                mark: config.mark.into(),
                path_delay_ns_max: path_delay_ns_max(config),
                ..sizing::MEASUREMENT
            },
            link_state_ns: Some(config.link_state.nanos()),
            seed: seed_of(config.seed, &name),
        };
        FabricSwitch { name, config }
    }

    fn hosts(&self) -> Vec<FabricHost> {
        let config = self.config;
        let mut hosts = Vec::new();
        for leaf in 0..config.leaves {
            for n in 0..config.hosts_per_leaf {
                let name = format!("h{leaf}.{n}");
                hosts.push(FabricHost {
                    leaf: usize::from(leaf),
                    port: PortId(n),
                    address: host_address(leaf, n),
                    mac: host_mac(leaf, n),
                    gateway_mac: port_mac(usize::from(leaf), n),
                    rate: config.host_rate,
                    seed: seed_of(config.seed, &name),
                    name,
                });
            }
        }
        hosts
    }

    fn link(&self, link: Link) -> FabricLink {
        let faults = self
            .config
            .faults
            .0
            .iter()
            .filter(|fault| fault.link == link);
        let (from, to) = self.ends(link);
        FabricLink {
            link,
            from,
            to,
            faults: faults.clone().map(|fault| fault.fault).collect(),
            specs: faults.map(|fault| fault.spec()).collect(),
            seed: seed_of(self.config.seed, &link.to_string()),
        }
    }

    /// The sending and the receiving port of a link.
    fn ends(&self, link: Link) -> ((usize, PortId), (usize, PortId)) {
        let (leaf, spine) = (link.leaf().0, link.spine().0);
        let at_leaf = (usize::from(leaf), PortId(self.uplink(spine)));
        let at_spine = (self.spine_index(spine), PortId(leaf));
        match link {
            Link::Up { .. } => (at_leaf, at_spine),
            Link::Down { .. } => (at_spine, at_leaf),
        }
    }

    fn uplink(&self, spine: u16) -> u16 {
        self.config.hosts_per_leaf + spine
    }

    fn spine_index(&self, spine: u16) -> usize {
        usize::from(self.config.leaves) + usize::from(spine)
    }
}

#[cfg(test)]
mod tests;
