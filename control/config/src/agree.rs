//! Whether the files of several switches are of one fabric: what one says of the other is so.
//!
//! Unlike [`crate::SwitchSet`], which gathers what shares a process, this looks at what shares cables:
//! the switches may be on machines of their own.

use std::collections::BTreeMap;
use std::path::PathBuf;

use pipeline::{Peer, PortConfig, PortKind, Role};

use crate::document;
use crate::error::ConfigError;
use crate::quantity::{Rate, Time};
use crate::switch_file::SwitchSpec;

/// Checks switches pairwise, as far as they are given; `paths` are their files, if they have some.
///
/// # Errors
/// The first disagreement, with the later file, line and key.
pub fn pairwise(specs: &[&SwitchSpec], paths: &[PathBuf]) -> Result<(), ConfigError> {
    for (index, spec) in specs.iter().enumerate() {
        let checked = specs[..index]
            .iter()
            .try_for_each(|other| alike(spec, other).and_then(|()| cable(spec, other)));
        checked
            .and_then(|()| hosts(&specs[..=index]))
            .map_err(|error| placed(error, paths.get(index)))?;
    }
    Ok(())
}

/// An error with its place in a file.
fn placed(error: ConfigError, path: Option<&PathBuf>) -> ConfigError {
    let Some(path) = path else {
        return error;
    };
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let line = document::line_of(&text, &error.key);
    error.on_line(line).in_file(path)
}

/// As [`pairwise`], and no switch of the fabric is missing.
///
/// # Errors
/// As [`pairwise`]; or which switches are missing.
pub fn complete(specs: &[&SwitchSpec], paths: &[PathBuf]) -> Result<(), ConfigError> {
    pairwise(specs, paths)?;
    let Some(first) = specs.first() else {
        return Ok(());
    };
    let leaves = (0..first.config.leaves).map(|n| Role::Leaf(pipeline::LeafId(n)));
    let spines = (0..first.config.spines).map(|n| Role::Spine(pipeline::SpineId(n)));
    let missing: Vec<String> = leaves
        .chain(spines)
        .filter(|role| !specs.iter().any(|spec| spec.config.role == *role))
        .map(name)
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!(
        "the files of {} are missing, for a fabric of {} leaves and {} spines; name them too, or make \
         fabric.leaves and fabric.spines smaller in all",
        missing.join(", "),
        first.config.leaves,
        first.config.spines
    );
    Err(ConfigError::new("fabric", message))
}

fn name(role: Role) -> String {
    match role {
        Role::Leaf(leaf) => leaf.to_string(),
        Role::Spine(spine) => spine.to_string(),
    }
}

/// What all switches of a fabric have in common.
fn alike(spec: &SwitchSpec, other: &SwitchSpec) -> Result<(), ConfigError> {
    let (a, b) = (&spec.config, &other.config);
    let (who, whose) = (name(a.role), name(b.role));
    if a.role == b.role {
        let message = format!(
            "{who} is the role of two files ({} and {}); give each its own",
            spec.name, other.name
        );
        return Err(ConfigError::new("role", message));
    }
    let time = |nanos: Option<u64>| nanos.map_or("off".to_owned(), |n| Time::new(n).to_string());
    let common = [
        ("fabric.leaves", a.leaves.to_string(), b.leaves.to_string()),
        ("fabric.spines", a.spines.to_string(), b.spines.to_string()),
        (
            "fabric.message_port",
            a.message_port.to_string(),
            b.message_port.to_string(),
        ),
        (
            "fabric.link_state",
            time(a.link_state_ns),
            time(b.link_state_ns),
        ),
        (
            "measurement.protocol",
            protocol(a.measurement.is_paper),
            protocol(b.measurement.is_paper),
        ),
    ];
    for (key, here, there) in common {
        if here != there {
            let message = format!(
                "{here} at {who}, {there} at {whose}; all switches of a fabric say the same"
            );
            return Err(ConfigError::new(key, message));
        }
    }
    Ok(())
}

fn protocol(is_paper: bool) -> String {
    if is_paper { "paper" } else { "default" }.to_owned()
}

/// The cable between two switches, if there is one: each end knows the other, and both are alike.
fn cable(spec: &SwitchSpec, other: &SwitchSpec) -> Result<(), ConfigError> {
    let (Some((place, here)), Some((far, there))) = (port_to(spec, other), port_to(other, spec))
    else {
        return Ok(());
    };
    let own = format!("{}.{}", name(spec.config.role), spec.port_names[place]);
    let its = format!("{}.{}", name(other.config.role), other.port_names[far]);
    let key = |field: &str| format!("port[{place}].{field}");
    let wrong = |field: &str, message: String| Err(ConfigError::new(key(field), message));
    if here.peer_mac != there.mac {
        let message = format!(
            "{} is not the address of {its}, which is {}; write that",
            here.peer_mac, there.mac
        );
        return wrong("peer_mac", message);
    }
    if there.peer_mac != here.mac {
        let message = format!(
            "{} of {own} is not what {its} expects, {}; mend one of them",
            here.mac, there.peer_mac
        );
        return wrong("mac", message);
    }
    if here.rate_bps != there.rate_bps {
        let message = format!(
            "{} of {own}, {} of {its}; both ends of a cable have one rate",
            Rate::new(here.rate_bps),
            Rate::new(there.rate_bps)
        );
        return wrong("rate", message);
    }
    if here.frame_max_bytes != there.frame_max_bytes {
        let message = format!(
            "frames of {own} have {} bytes, those of {its} {}: what one sends the other drops; give both one mtu",
            here.frame_max_bytes, there.frame_max_bytes
        );
        return wrong("mtu", message);
    }
    let (tag, its_tag) = (spec.vlans[place], other.vlans[far]);
    if tag != its_tag {
        let text =
            |tag: Option<u16>| tag.map_or("no VLAN id".to_owned(), |tag| format!("VLAN {tag}"));
        let message = format!(
            "{} at {own}, {} at {its}; both ends of a cable have one tag",
            text(tag),
            text(its_tag)
        );
        return wrong("vlan", message);
    }
    Ok(())
}

/// The port of one switch that leads to the other.
fn port_to<'a>(spec: &'a SwitchSpec, other: &SwitchSpec) -> Option<(usize, &'a PortConfig)> {
    let peer = match other.config.role {
        Role::Leaf(leaf) => Peer::Leaf(leaf),
        Role::Spine(spine) => Peer::Spine(spine),
    };
    let ports = spec.config.ports.iter().enumerate();
    ports
        .into_iter()
        .find(|(_, port)| port.kind == PortKind::Fabric(peer))
}

/// An address is that of one host, or of one switch.
fn hosts(specs: &[&SwitchSpec]) -> Result<(), ConfigError> {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for spec in specs {
        let role = name(spec.config.role);
        let own = spec.config.gateway.addresses.iter().enumerate();
        let own =
            own.map(|(n, address)| (format!("gateway.addresses[{n}]"), *address, role.clone()));
        let hosts = spec.config.hosts.iter().map(|host| {
            let port = usize::from(host.port);
            let at = format!("{role}.{}", spec.port_names[port]);
            (format!("port[{port}].hosts"), host.address, at)
        });
        for (key, address, who) in own.chain(hosts) {
            if let Some(other) = known.insert(address.to_string(), who.clone()) {
                let message =
                    format!("{address} at {who} is already that at {other}; give each its own");
                return Err(ConfigError::new(key, message));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
