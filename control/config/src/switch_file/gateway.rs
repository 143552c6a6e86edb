//! The switch as a station: its own addresses, and the prefixes of its host ports.

use packet::Address;
use pipeline::{GatewayConfig, HostConfig, NeighborConfig, Prefix};

use super::port::address;
use super::raw;
use super::routes::{Entry, prefix};
use super::settings::within;
use crate::error::ConfigError;
use crate::quantity::Time;

/// Addresses that a switch may have: each packet to no known place is compared with all.
const ADDRESSES_MAX: usize = 16;
/// Prefixes of all host ports.
const PREFIXES_MAX: usize = 256;

/// A prefix that a host port owns.
pub(super) struct Owned {
    pub(super) key: String,
    pub(super) prefix: Prefix,
    pub(super) port: u16,
}

/// Checks the `[gateway]` part. `routes` are those to other switches.
pub(super) fn resolve(
    raw: &raw::Gateway,
    hosts: &[HostConfig],
    routes: &[Entry],
) -> Result<GatewayConfig, ConfigError> {
    if raw.addresses.len() > ADDRESSES_MAX {
        let message = format!(
            "{} addresses are more than {ADDRESSES_MAX}; one of each family and subnet is enough",
            raw.addresses.len()
        );
        return Err(ConfigError::new("gateway.addresses", message));
    }
    let mut addresses: Vec<Address> = Vec::new();
    for (index, text) in raw.addresses.iter().enumerate() {
        let key = format!("gateway.addresses[{index}]");
        let own = address(text, &key)?;
        let taken = if addresses.contains(&own) {
            Some("is listed twice".to_owned())
        } else if hosts.iter().any(|host| host.address == own) {
            Some("is that of a host".to_owned())
        } else {
            let entry = routes.iter().find(|entry| entry.prefix.contains(own));
            entry.map(|entry| {
                format!(
                    "lies in {}, which {} leads elsewhere",
                    entry.prefix, entry.key
                )
            })
        };
        if let Some(why) = taken {
            let message = format!("{own} {why}; give the switch an address of its own");
            return Err(ConfigError::new(key, message));
        }
        addresses.push(own);
    }
    let default = NeighborConfig::default();
    let time = |key: &str, value: Option<Time>, default_ns: u64| {
        let value = value.unwrap_or(Time::new(default_ns));
        let (least, most) = (Time::new(100_000_000), Time::new(86_400_000_000_000));
        within(key, value, least, most).map(Time::nanos)
    };
    let neighbors = raw.neighbors.unwrap_or(default.per_port_max);
    Ok(GatewayConfig {
        addresses,
        icmp_per_second: within("gateway.icmp", raw.icmp.unwrap_or(1000), 0, 1_000_000)?,
        neighbors: NeighborConfig {
            per_port_max: within("gateway.neighbors", neighbors, 1, 1 << 16)?,
            age_ns: time("gateway.neighbor_age", raw.neighbor_age, default.age_ns)?,
            ask_ns: time("gateway.neighbor_ask", raw.neighbor_ask, default.ask_ns)?,
        },
    })
}

/// Checks the prefixes of host ports: none overlaps another, or holds a host of another port.
pub(super) fn prefixes(raw: &raw::Switch, hosts: &[HostConfig]) -> Result<Vec<Owned>, ConfigError> {
    let mut owned: Vec<Owned> = Vec::new();
    for (port, part) in (0u16..).zip(&raw.port) {
        for (place, text) in part.prefixes.iter().enumerate() {
            let key = format!("port[{port}].prefixes[{place}]");
            let prefix = prefix(text).map_err(|message| ConfigError::new(key.clone(), message))?;
            if let Some(other) = owned.iter().find(|other| other.prefix.overlaps(&prefix)) {
                let message = format!(
                    "{prefix} overlaps {} ({}); an address is behind one port",
                    other.prefix, other.key
                );
                return Err(ConfigError::new(key, message));
            }
            let mut strangers = hosts.iter().filter(|host| host.port != port);
            if let Some(host) = strangers.find(|host| prefix.contains(host.address)) {
                let message = format!(
                    "{prefix} holds {}, a host of port {}; an address is behind one port",
                    host.address,
                    raw.port[usize::from(host.port)].name
                );
                return Err(ConfigError::new(key, message));
            }
            owned.push(Owned { key, prefix, port });
        }
    }
    if owned.len() > PREFIXES_MAX {
        let message = format!(
            "{} prefixes of host ports are more than {PREFIXES_MAX}; take larger ones",
            owned.len()
        );
        return Err(ConfigError::new("port", message));
    }
    Ok(owned)
}
