//! Routes: which prefixes are behind which leaf. Those of a leaf itself say only where its hosts'
//! addresses must lie; hosts have their own routes.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

use detector::{LeafId, SpineId};
use packet::Address;
use pipeline::{HostConfig, NextHop, Prefix, Role, Route};

use super::gateway::Owned;
use super::raw;
use crate::error::ConfigError;

/// Routes of a file.
const ROUTES_MAX: usize = 4096;

/// A route to another switch.
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) prefix: Prefix,
    to: To,
}

/// Where it leads.
#[derive(Clone, Copy, PartialEq, Eq)]
enum To {
    Leaf(LeafId),
    Spine(SpineId),
}

impl fmt::Display for To {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            To::Leaf(leaf) => leaf.fmt(f),
            To::Spine(spine) => spine.fmt(f),
        }
    }
}

/// Checks all routes and adds those of the hosts and prefixes of host ports. Those to other switches
/// are given back as well.
pub(super) fn resolve(
    raw: &raw::Switch,
    role: Role,
    hosts: &[HostConfig],
    owned: &[Owned],
) -> Result<(Vec<Route>, Vec<Entry>), ConfigError> {
    let entries = read(raw)?;
    check_overlaps(&entries)?;
    let own = match role {
        Role::Leaf(leaf) => Some(LeafId(leaf.0)),
        Role::Spine(_) => None,
    };
    if let (Role::Spine(_), Some(entry)) = (role, entries.iter().find(|e| e.is_to_spine())) {
        let message = format!(
            "{} leads to {}; only leaves are joined to spines",
            entry.prefix, entry.to
        );
        return Err(ConfigError::new(entry.key.clone(), message));
    }
    check_reach(raw, own, &entries)?;
    if let Some(own) = own {
        check_hosts(raw, own, &entries, hosts)?;
        for part in owned {
            check_owned(own, &entries, part)?;
        }
    }
    let local = hosts.iter().enumerate().map(|(index, host)| Route {
        prefix: Prefix::host(host.address),
        next: NextHop::Host(index as u16),
    });
    let prefixes = owned.iter().map(|part| Route {
        prefix: part.prefix,
        next: NextHop::Port(part.port),
    });
    let mut others = entries;
    others.retain(|entry| own.is_none_or(|own| entry.to != To::Leaf(own)));
    let away = others.iter().map(|entry| Route {
        prefix: entry.prefix,
        next: match entry.to {
            To::Leaf(leaf) => NextHop::Leaf(pipeline::LeafId(leaf.0)),
            To::Spine(spine) => NextHop::Spine(pipeline::SpineId(spine.0)),
        },
    });
    Ok((local.chain(prefixes).chain(away).collect(), others))
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
        let to = to(raw, route, &key)?;
        entries.push(Entry {
            key: key("prefix"),
            prefix,
            to,
        });
    }
    Ok(entries)
}

/// Where a route leads.
fn to(
    raw: &raw::Switch,
    route: &raw::Route,
    key: &dyn Fn(&str) -> String,
) -> Result<To, ConfigError> {
    match (route.leaf.as_deref(), route.spine.as_deref()) {
        (Some(text), None) => {
            let leaf: LeafId = text.parse().map_err(|_| {
                let message = format!("\"{text}\" is no leaf; write it like leaf1");
                ConfigError::new(key("leaf"), message)
            })?;
            if leaf.0 >= raw.fabric.leaves {
                let message = format!("{leaf} is none of leaf0 to leaf{}", raw.fabric.leaves - 1);
                return Err(ConfigError::new(key("leaf"), message));
            }
            Ok(To::Leaf(leaf))
        }
        (None, Some(text)) => {
            let spine: SpineId = text.parse().map_err(|_| {
                let message = format!("\"{text}\" is no spine; write it like spine1");
                ConfigError::new(key("spine"), message)
            })?;
            if spine.0 >= raw.fabric.spines {
                let message = format!(
                    "{spine} is none of spine0 to spine{}",
                    raw.fabric.spines - 1
                );
                return Err(ConfigError::new(key("spine"), message));
            }
            Ok(To::Spine(spine))
        }
        (None, None) | (Some(_), Some(_)) => {
            let message = "a route leads to one switch; give leaf = \"leaf1\" for the hosts of a \
                           leaf, or spine = \"spine0\" for a spine's own address";
            Err(ConfigError::new(key("leaf"), message))
        }
    }
}

impl Entry {
    fn is_to_spine(&self) -> bool {
        matches!(self.to, To::Spine(_))
    }
}

/// A prefix; that of one IPv6 address is made here, for [`Prefix`]'s own reading overflows on it.
pub(super) fn prefix(text: &str) -> Result<Prefix, String> {
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
            if entry.prefix == other.prefix && entry.to == other.to {
                let message = format!("{} is already {}; take one out", entry.prefix, other.key);
                return Err(ConfigError::new(entry.key.clone(), message));
            }
            if entry.to != other.to && entry.prefix.overlaps(&other.prefix) {
                let message = format!(
                    "{} of {} overlaps {} of {} ({}); an address is behind one leaf",
                    entry.prefix, entry.to, other.prefix, other.to, other.key
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
        .filter(|leaf| !entries.iter().any(|entry| entry.to == To::Leaf(*leaf)))
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
    let mut addresses = hosts.iter();
    for (index, port) in raw.port.iter().enumerate() {
        for (place, _) in port.hosts.iter().enumerate() {
            let Some(HostConfig { address, .. }) = addresses.next() else {
                continue;
            };
            let key = format!("port[{index}].hosts[{place}].address");
            let mut foreign = entries.iter().filter(|entry| entry.to != To::Leaf(own));
            if let Some(entry) = foreign.find(|entry| entry.prefix.contains(*address)) {
                let message = format!(
                    "{address} lies in {}, which {} says is behind {}; move the host or mend the \
                     route",
                    entry.prefix, entry.key, entry.to
                );
                return Err(ConfigError::new(key, message));
            }
            let ours = ours(own, entries, address.as_v4().is_some());
            if !ours.is_empty() && !ours.iter().any(|entry| entry.prefix.contains(*address)) {
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

/// The routes of a leaf itself of one family: those of the other say nothing about its addresses.
fn ours(own: LeafId, entries: &[Entry], is_v4: bool) -> Vec<&Entry> {
    entries
        .iter()
        .filter(|entry| entry.to == To::Leaf(own))
        .filter(|entry| entry.prefix.to_string().contains(':') != is_v4)
        .collect()
}

/// So does the prefix of a host port.
fn check_owned(own: LeafId, entries: &[Entry], part: &Owned) -> Result<(), ConfigError> {
    let prefix = part.prefix;
    let mut foreign = entries.iter().filter(|entry| entry.to != To::Leaf(own));
    if let Some(entry) = foreign.find(|entry| entry.prefix.overlaps(&prefix)) {
        let message = format!(
            "{prefix} overlaps {}, which {} says is behind {}; change one of them",
            entry.prefix, entry.key, entry.to
        );
        return Err(ConfigError::new(part.key.clone(), message));
    }
    let ours = ours(own, entries, !prefix.to_string().contains(':'));
    if !ours.is_empty() && !ours.iter().any(|entry| entry.prefix.covers(&prefix)) {
        let message = format!(
            "{prefix} lies in none of the prefixes of {own}; change it, or add a [[route]] of \
             {own} that has it"
        );
        return Err(ConfigError::new(part.key.clone(), message));
    }
    Ok(())
}
