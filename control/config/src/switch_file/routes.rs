//! Routes: which prefixes are behind which leaf. Those of a leaf itself say only where its hosts'
//! addresses must lie; hosts have their own routes.

use std::net::{IpAddr, Ipv6Addr};

use detector::LeafId;
use packet::Address;
use pipeline::{HostConfig, NextHop, Prefix, Role, Route};

use super::raw;
use crate::error::ConfigError;

/// Routes of a file.
const ROUTES_MAX: usize = 4096;

struct Entry {
    key: String,
    prefix: Prefix,
    leaf: LeafId,
}

/// Checks all routes and adds those of the hosts.
pub(super) fn resolve(
    raw: &raw::Switch,
    role: Role,
    hosts: &[HostConfig],
) -> Result<Vec<Route>, ConfigError> {
    let entries = read(raw)?;
    check_overlaps(&entries)?;
    let own = match role {
        Role::Leaf(leaf) => Some(LeafId(leaf.0)),
        Role::Spine(_) => None,
    };
    check_reach(raw, own, &entries)?;
    if let Some(own) = own {
        check_hosts(raw, own, &entries, hosts)?;
    }
    let local = hosts.iter().enumerate().map(|(index, host)| Route {
        prefix: Prefix::host(host.address),
        next: NextHop::Host(index as u16),
    });
    let others = entries.iter().filter(|entry| Some(entry.leaf) != own);
    let others = others.map(|entry| Route {
        prefix: entry.prefix,
        next: NextHop::Leaf(pipeline::LeafId(entry.leaf.0)),
    });
    Ok(local.chain(others).collect())
}

fn read(raw: &raw::Switch) -> Result<Vec<Entry>, ConfigError> {
    if raw.route.len() > ROUTES_MAX {
        let message = format!(
            "{} routes are more than {ROUTES_MAX}; give each leaf a prefix of its own",
            raw.route.len()
        );
        return Err(ConfigError::new("route", message));
    }
    let mut entries = Vec::with_capacity(raw.route.len());
    for (index, route) in raw.route.iter().enumerate() {
        let key = |field: &str| format!("route[{index}].{field}");
        let prefix =
            prefix(&route.prefix).map_err(|message| ConfigError::new(key("prefix"), message))?;
        let leaf: LeafId = route.leaf.parse().map_err(|_| {
            let message = format!("\"{}\" is no leaf; write it like leaf1", route.leaf);
            ConfigError::new(key("leaf"), message)
        })?;
        if leaf.0 >= raw.fabric.leaves {
            let message = format!("{leaf} is none of leaf0 to leaf{}", raw.fabric.leaves - 1);
            return Err(ConfigError::new(key("leaf"), message));
        }
        entries.push(Entry {
            key: key("prefix"),
            prefix,
            leaf,
        });
    }
    Ok(entries)
}

/// A prefix; that of one IPv6 address is made here, for [`Prefix`]'s own reading overflows on it.
fn prefix(text: &str) -> Result<Prefix, String> {
    match text
        .strip_suffix("/128")
        .unwrap_or(text)
        .parse::<Ipv6Addr>()
    {
        Ok(address) => Ok(Prefix::host(Address::from(IpAddr::V6(address)))),
        Err(_) => text.parse(),
    }
}

/// An address belongs to one leaf.
fn check_overlaps(entries: &[Entry]) -> Result<(), ConfigError> {
    for (index, entry) in entries.iter().enumerate() {
        for other in &entries[..index] {
            if entry.prefix == other.prefix && entry.leaf == other.leaf {
                let message = format!("{} is already {}; take one out", entry.prefix, other.key);
                return Err(ConfigError::new(entry.key.clone(), message));
            }
            if entry.leaf != other.leaf && entry.prefix.overlaps(&other.prefix) {
                let message = format!(
                    "{} of {} overlaps {} of {} ({}); an address is behind one leaf",
                    entry.prefix, entry.leaf, other.prefix, other.leaf, other.key
                );
                return Err(ConfigError::new(entry.key.clone(), message));
            }
        }
    }
    Ok(())
}

/// Every other leaf is reached.
fn check_reach(
    raw: &raw::Switch,
    own: Option<LeafId>,
    entries: &[Entry],
) -> Result<(), ConfigError> {
    let leaves = (0..raw.fabric.leaves)
        .map(LeafId)
        .filter(|leaf| Some(*leaf) != own);
    let missing: Vec<String> = leaves
        .filter(|leaf| !entries.iter().any(|entry| entry.leaf == *leaf))
        .map(|leaf| leaf.to_string())
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!(
        "none leads to {}; add a [[route]] with its prefix and leaf = \"{}\"",
        missing.join(", "),
        missing[0]
    );
    Err(ConfigError::new("route", message))
}

/// Hosts lie in their own leaf's prefixes, if it has any, and in no other's.
fn check_hosts(
    raw: &raw::Switch,
    own: LeafId,
    entries: &[Entry],
    hosts: &[HostConfig],
) -> Result<(), ConfigError> {
    let is_v4 = |address: Address| address.as_v4().is_some();
    let mut addresses = hosts.iter();
    for (index, port) in raw.port.iter().enumerate() {
        for (place, _) in port.hosts.iter().enumerate() {
            let Some(HostConfig { address, .. }) = addresses.next() else {
                continue;
            };
            let key = format!("port[{index}].hosts[{place}].address");
            let mut foreign = entries.iter().filter(|entry| entry.leaf != own);
            if let Some(entry) = foreign.find(|entry| entry.prefix.contains(*address)) {
                let message = format!(
                    "{address} lies in {}, which {} says is behind {}; move the host or mend the \
                     route",
                    entry.prefix, entry.key, entry.leaf
                );
                return Err(ConfigError::new(key, message));
            }
            // Prefixes of the other family say nothing about this address.
            let mut ours = entries
                .iter()
                .filter(|entry| entry.leaf == own)
                .filter(|entry| entry.prefix.to_string().contains(':') != is_v4(*address))
                .peekable();
            if ours.peek().is_some() && !ours.any(|entry| entry.prefix.contains(*address)) {
                let message = format!(
                    "{address} lies in none of the prefixes of {own}; change the address, or add \
                     a [[route]] of {own} that has it"
                );
                return Err(ConfigError::new(key, message));
            }
        }
    }
    Ok(())
}
