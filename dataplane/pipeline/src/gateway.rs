//! What a switch is beside a forwarder: addresses of its own, neighbours that it has learned, and
//! a bound on what it says in answer to others.

use packet::{Address, MacAddr, ndp};

use crate::bucket::Bucket;
use crate::config::{PortKind, SwitchConfig};
use crate::neighbor::Neighbors;
use crate::route::{NextHop, Route};
use crate::types::Nanos;

/// State of the part of a switch that answers.
pub(crate) struct Gateway {
    /// Its own addresses, at least one of each family that it is to speak.
    addresses: Vec<Address>,
    /// Allows echo replies and errors, by the port that they leave by: who floods takes nobody else's.
    icmp: Vec<Bucket>,
    /// The time of the latest tick, for answers to what is found too late to be told the time.
    pub(crate) ticked_at: Nanos,
    /// MAC addresses of hosts that are not configured.
    pub(crate) neighbors: Neighbors,
}

impl Gateway {
    /// That of a switch of such a configuration.
    pub(crate) fn new(config: &SwitchConfig) -> Gateway {
        let owned: Vec<(Vec<Address>, bool)> = (0u16..)
            .zip(&config.ports)
            .map(|(index, port)| {
                if port.kind != PortKind::Host {
                    return (Vec::new(), false);
                }
                let hosts = config.hosts.iter();
                let hosts = hosts.filter(|host| host.port == index && host.mac.is_none());
                let has_prefix = config
                    .routes
                    .iter()
                    .any(|route| route.next == NextHop::Port(index));
                (hosts.map(|host| host.address).collect(), has_prefix)
            })
            .collect();
        Gateway {
            addresses: config.gateway.addresses.clone(),
            icmp: vec![Bucket::new(config.gateway.icmp_per_second); config.ports.len()],
            ticked_at: Nanos(0),
            neighbors: Neighbors::new(
                &config.gateway.neighbors,
                owned.iter().map(|(hosts, prefix)| (&hosts[..], *prefix)),
            ),
        }
    }

    /// Takes one answer's worth of a port's share; false when there is none.
    pub(crate) fn may_answer(&mut self, now: Nanos, port: usize) -> bool {
        self.icmp
            .get_mut(port)
            .is_some_and(|bucket| bucket.take(now))
    }

    /// Whether an address is the switch's own.
    #[inline]
    pub(crate) fn has(&self, address: Address) -> bool {
        self.addresses.contains(&address)
    }

    /// The own address that speaks to `other`: of its family, and with the longest prefix in
    /// common, so that a host hears the gateway of its own subnet.
    pub(crate) fn address_towards(&self, other: Address) -> Option<Address> {
        let is_v4 = other.as_v4().is_some();
        let own = self.addresses.iter();
        own.filter(|address| address.as_v4().is_some() == is_v4)
            .max_by_key(|address| (address.0 ^ other.0).leading_zeros())
            .copied()
    }

    /// The IPv6 address that asks and answers neighbours on a port with that MAC address: without
    /// one of its own, the port's link-local one.
    pub(crate) fn discovery_address(&self, other: Address, mac: MacAddr) -> Address {
        if ndp::is_link_local(other) {
            return ndp::link_local(mac);
        }
        self.address_towards(other)
            .unwrap_or_else(|| ndp::link_local(mac))
    }
}

/// The routes of a switch: a host whose MAC address is not configured is behind its port like any
/// other that is learned. The switch's own addresses are not among them: a prefix length more
/// would cost every packet of a spine a probe, and they are what no route leads to, or lie in the
/// prefix of a port whose packets are looked at anyway.
pub(crate) fn routes(config: &SwitchConfig) -> Vec<Route> {
    let routes = config.routes.iter().map(|route| match route.next {
        NextHop::Host(host) => {
            let host = &config.hosts[usize::from(host)];
            let next = if host.mac.is_some() {
                route.next
            } else {
                NextHop::Port(host.port)
            };
            Route { next, ..*route }
        }
        NextHop::Leaf(_) | NextHop::Spine(_) | NextHop::Port(_) => *route,
    });
    routes.collect()
}
