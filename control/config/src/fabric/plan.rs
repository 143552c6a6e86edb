//! The rules by which indices become ports, and ports become configurations of switches.

use detector::{LeafId, Link, SpineId};
use packet::MacAddr;
use pipeline::{
    GatewayConfig, HostConfig, Measurement, NextHop, Peer, PortConfig, PortId, PortKind,
    QueueConfig, Role, Route, SwitchConfig, WindowPlan,
};

use super::{
    DSCP_PRIORITY, ECN_DEFAULT, FabricHost, FabricLink, FabricSwitch, OVERHEAD_BYTES,
    frame_max_bytes, host_address, host_mac, leaf_address, leaf_prefix, path_delay_ns_max,
    port_mac, seed_of, silence_ns, sizing, spine_address,
};
use crate::choice::Announce;
use crate::quantity::Rate;
use crate::testbed::TestbedConfig;

/// Asked by [`super::Fabric::new`] for each part.
pub(super) struct Plan<'a> {
    pub(super) config: &'a TestbedConfig,
}

impl Plan<'_> {
    pub(super) fn leaf(&self, leaf: u16) -> FabricSwitch {
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
        routes.extend((0..config.spines).map(|spine| Route {
            prefix: pipeline::Prefix::host(spine_address(spine)),
            next: NextHop::Spine(pipeline::SpineId(spine)),
        }));
        let role = Role::Leaf(pipeline::LeafId(leaf));
        self.switch(LeafId(leaf).to_string(), role, ports, hosts, routes)
    }

    pub(super) fn spine(&self, spine: u16) -> FabricSwitch {
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
            pcp_priority: None,
            ecn: [config.ecn.then_some(ECN_DEFAULT); 8],
        };
        let address = match role {
            Role::Leaf(leaf) => leaf_address(leaf.0),
            Role::Spine(spine) => spine_address(spine.0),
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
                windows: WindowPlan {
                    is_off: false,
                    spine_packets: config.window_spine_packets(),
                    finds_flows: config.announce != Announce::Host,
                    silence_ns: silence_ns(config),
                    is_narrow: config.counter_bits == 16,
                },
                ..sizing::MEASUREMENT
            },
            link_state_ns: Some(config.link_state.nanos()),
            hold_down_ns: config.hold_down.nanos(),
            gateway: GatewayConfig {
                addresses: vec![address],
                ..GatewayConfig::default()
            },
            seed: seed_of(config.seed, &name),
        };
        FabricSwitch { name, config }
    }

    pub(super) fn hosts(&self) -> Vec<FabricHost> {
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

    pub(super) fn link(&self, link: Link) -> FabricLink {
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
    pub(super) fn ends(&self, link: Link) -> ((usize, PortId), (usize, PortId)) {
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
