//! A fabric file, checked as far as no switch's file says it better, with what follows for each place.

use std::fmt;

use detector::Link;

use super::devices::{self, Names};
use super::subnets::{self, Subnets};
use super::{Cable, CableEnd, FileHost, GeneratedSwitch, Origins, hosts, raw};
use crate::error::ConfigError;
use crate::fault::{FaultSpec, read_faults};
use crate::quantity::Rate;

/// Highest VLAN id (802.1Q, 9.6).
const VLAN_MAX: u32 = 4094;
/// Blocks of MAC addresses: a bit of the second byte tells ports and hosts apart.
const BLOCKS: u8 = 128;

/// One switch's place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Place {
    Leaf(u16),
    Spine(u16),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Leaf(leaf) => write!(f, "leaf{leaf}"),
            Place::Spine(spine) => write!(f, "spine{spine}"),
        }
    }
}

/// A fault of a link, and the key that says so.
pub(super) struct PlannedFault {
    pub(super) link: Link,
    pub(super) spec: String,
    pub(super) key: String,
}

/// A fabric file with what follows from it.
pub(super) struct Plan<'a> {
    pub(super) raw: &'a raw::File,
    /// The same file as a table, for the parts that are passed on.
    pub(super) passed: &'a toml::Table,
    pub(super) name: String,
    pub(super) mtu: u32,
    pub(super) rate: Rate,
    pub(super) host_rate: Rate,
    pub(super) block: u8,
    pub(super) subnets: Vec<Subnets>,
    pub(super) hosts: Vec<FileHost>,
    pub(super) faults: Vec<PlannedFault>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(
        raw: &'a raw::File,
        passed: &'a toml::Table,
    ) -> Result<Plan<'a>, ConfigError> {
        check_size(raw)?;
        let per_leaf = hosts::per_leaf(raw)?;
        let subnets = subnets::read(&raw.addressing, raw.fabric.leaves, per_leaf)?;
        let block = raw.addressing.mac_block.unwrap_or(0);
        if block >= BLOCKS {
            let message = format!("{block} is out of range; choose 0 to {}", BLOCKS - 1);
            return Err(ConfigError::new("addressing.mac_block", message));
        }
        check_vlans(raw, per_leaf)?;
        check_switches(raw)?;
        let mtu = crate::switch_file::port::mtu(raw.links.mtu, "links.mtu")?;
        Ok(Plan {
            raw,
            passed,
            name: raw.name.clone().unwrap_or_default(),
            mtu,
            rate: raw.links.rate,
            host_rate: raw.links.host_rate.unwrap_or(raw.links.rate),
            block,
            hosts: hosts::resolve(raw, &subnets, block)?,
            subnets,
            faults: faults(raw)?,
        })
    }

    /// All switches: leaves, then spines.
    pub(super) fn places(&self) -> impl Iterator<Item = Place> {
        let leaves = (0..self.raw.fabric.leaves).map(Place::Leaf);
        leaves.chain((0..self.raw.fabric.spines).map(Place::Spine))
    }

    /// The prefixes of all hosts and switches.
    pub(super) fn prefixes(&self) -> Vec<String> {
        self.subnets.iter().map(|family| family.fabric()).collect()
    }

    /// The tag of a cable between switches.
    pub(super) fn vlan(&self, leaf: u16, spine: u16) -> Option<u16> {
        let first = self.raw.ports.vlan?;
        Some(first + leaf * self.raw.fabric.spines + spine)
    }

    /// The device of a port, and the key that says so.
    pub(super) fn device(
        &self,
        kind: &str,
        names: Names<'_>,
    ) -> Result<(Option<String>, String), ConfigError> {
        let own = self
            .raw
            .switch
            .iter()
            .position(|part| part.name == names.switch);
        let of_kind = |host: &'a Option<String>, uplink, downlink| match kind {
            "host" => host,
            "uplink" => uplink,
            _ => downlink,
        };
        let own = own.and_then(|index| {
            let part = &self.raw.switch[index];
            let pattern = of_kind(&part.host, &part.uplink, &part.downlink).as_deref()?;
            Some((pattern, format!("switch[{index}].{kind}")))
        });
        let all = || {
            let ports = &self.raw.ports;
            let pattern = of_kind(&ports.host, &ports.uplink, &ports.downlink).as_deref()?;
            Some((pattern, format!("ports.{kind}")))
        };
        match own.or_else(all) {
            Some((pattern, key)) => Ok((Some(devices::fill(pattern, names, &key)?), key)),
            None => Ok((None, format!("ports.{kind}"))),
        }
    }

    /// The mistake that the reader of a switch's file has found, as one of this file.
    pub(super) fn blame(&self, error: ConfigError, role: &str, origins: &Origins) -> ConfigError {
        let mut key = error.key.as_str();
        // The longest known beginning: `port[1].device` before `port[1]`.
        let origin = loop {
            if let Some(origin) = origins.get(key) {
                break Some(format!("{origin}{}", &error.key[key.len()..]));
            }
            match key.rfind(['.', '[']) {
                Some(at) => key = &key[..at],
                None => break None,
            }
        };
        let message = format!("{} (in the file of {role})", error.message);
        ConfigError::new(origin.unwrap_or(error.key), message)
    }

    /// Every cable.
    pub(super) fn cables(&self, switches: &[GeneratedSwitch]) -> Vec<Cable> {
        let leaves = usize::from(self.raw.fabric.leaves);
        let end = |switch: usize, port: usize| {
            let GeneratedSwitch { role, spec, .. } = &switches[switch];
            CableEnd {
                node: role.clone(),
                port: spec.port_names[port].clone(),
                device: spec.devices[port].as_ref().map(ToString::to_string),
            }
        };
        let per_leaf = self.hosts.len() / leaves.max(1);
        let of_hosts = self.hosts.iter().enumerate().map(|(index, host)| Cable {
            a: CableEnd {
                node: host.name.clone(),
                port: host.interface.clone(),
                device: None,
            },
            b: end(usize::from(host.leaf), index % per_leaf.max(1)),
            rate: self.host_rate,
            vlan: host.vlan,
        });
        let between = (0..self.raw.fabric.leaves)
            .flat_map(|leaf| (0..self.raw.fabric.spines).map(move |spine| (leaf, spine)));
        let between = between.map(|(leaf, spine)| Cable {
            a: end(usize::from(leaf), per_leaf + usize::from(spine)),
            b: end(leaves + usize::from(spine), usize::from(leaf)),
            rate: self.rate,
            vlan: self.vlan(leaf, spine),
        });
        of_hosts.chain(between).collect()
    }
}

fn check_size(raw: &raw::File) -> Result<(), ConfigError> {
    let (leaves, spines) = (raw.fabric.leaves, raw.fabric.spines);
    for (key, count, least) in [("leaves", leaves, 2), ("spines", spines, 1)] {
        if !(least..=128).contains(&count) {
            let message = format!("{count} is out of range; choose {least} to 128");
            return Err(ConfigError::new(format!("fabric.{key}"), message));
        }
    }
    Ok(())
}

/// Every cable has a tag that there is, and on a shared device no two have the same.
fn check_vlans(raw: &raw::File, per_leaf: u16) -> Result<(), ConfigError> {
    let leaves = u32::from(raw.fabric.leaves);
    let between = leaves * u32::from(raw.fabric.spines);
    let of_hosts = leaves * u32::from(per_leaf);
    let ranges = [
        (
            "ports.vlan",
            raw.ports.vlan,
            between,
            "cables between switches",
        ),
        (
            "ports.host_vlan",
            raw.ports.host_vlan,
            of_hosts,
            "cables to hosts",
        ),
    ];
    for (key, first, count, what) in ranges {
        let Some(first) = first else { continue };
        let last = u32::from(first) + count - 1;
        if first == 0 || last > VLAN_MAX {
            let message = format!(
                "{count} {what} have VLAN ids from {first} to {last}, and there are 1 to {VLAN_MAX}; \
                 begin with 1 to {}",
                (VLAN_MAX + 1).saturating_sub(count)
            );
            return Err(ConfigError::new(key, message));
        }
    }
    if let (Some(a), Some(b)) = (raw.ports.vlan, raw.ports.host_vlan) {
        let (a, b) = (u32::from(a), u32::from(b));
        if a < b + of_hosts && b < a + between {
            let message = format!(
                "{b} to {} are used twice: cables between switches have {a} to {}; begin with {}",
                b + of_hosts - 1,
                a + between - 1,
                a + between
            );
            return Err(ConfigError::new("ports.host_vlan", message));
        }
    }
    Ok(())
}

/// What is said of single switches is said of one that is there, once.
fn check_switches(raw: &raw::File) -> Result<(), ConfigError> {
    let (leaves, spines) = (raw.fabric.leaves, raw.fabric.spines);
    for (index, part) in raw.switch.iter().enumerate() {
        let key = |field: &str| format!("switch[{index}].{field}");
        let wrong = |field: &str, message: String| Err(ConfigError::new(key(field), message));
        let mut roles = (0..leaves)
            .map(Place::Leaf)
            .chain((0..spines).map(Place::Spine));
        let Some(place) = roles.find(|place| place.to_string() == part.name) else {
            let message = format!(
                "\"{}\" is no switch of this fabric; write leaf0 to leaf{} or spine0 to spine{}",
                part.name,
                leaves - 1,
                spines - 1
            );
            return wrong("name", message);
        };
        if raw.switch[..index]
            .iter()
            .any(|other| other.name == part.name)
        {
            return wrong(
                "name",
                format!("{} is described twice; join the two", part.name),
            );
        }
        let strange = match place {
            Place::Leaf(_) if part.downlink.is_some() => Some(("downlink", "a leaf", "uplink")),
            Place::Spine(_) if part.uplink.is_some() => Some(("uplink", "a spine", "downlink")),
            Place::Spine(_) if part.host.is_some() => Some(("host", "a spine", "downlink")),
            _ => None,
        };
        if let Some((field, kind, instead)) = strange {
            let message = format!(
                "{} is {kind}, which has no {field}; write {instead}",
                part.name
            );
            return wrong(field, message);
        }
    }
    Ok(())
}

/// All faults, by link.
fn faults(raw: &raw::File) -> Result<Vec<PlannedFault>, ConfigError> {
    let mut faults = Vec::new();
    for (index, text) in raw.faults.iter().enumerate() {
        let key = format!("faults[{index}]");
        let read =
            read_faults(text).map_err(|error| ConfigError::new(key.clone(), error.to_string()))?;
        for fault in read {
            let (leaf, spine) = match fault.link {
                Link::Up { leaf, spine } | Link::Down { leaf, spine } => (leaf.0, spine.0),
            };
            if leaf >= raw.fabric.leaves || spine >= raw.fabric.spines {
                let message = format!(
                    "{} is no link of {} leaves and {} spines; name one that is there",
                    fault.link, raw.fabric.leaves, raw.fabric.spines
                );
                return Err(ConfigError::new(key, message));
            }
            faults.push(PlannedFault {
                link: fault.link,
                spec: FaultSpec(fault.fault).to_string(),
                key: key.clone(),
            });
        }
    }
    Ok(faults)
}
