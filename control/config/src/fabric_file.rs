//! A whole fabric of switches on real ports or virtual devices: the TOML of `spraycheck generate`.
//!
//! One file says sizes, addresses, rates, devices, hosts and faults; from it follow the file of each
//! switch, the hosts' addresses and the list of cables. Parts that are alike for all switches (`[spray]`,
//! `[queue]`, `[measurement]`, `[gateway]`, `[eal]`) have the same keys as in a switch's file and are
//! passed on. Every file is read back by the reader of `spraycheck switch`; what that finds is told by
//! the line and key of the fabric file that it comes from.

mod devices;
mod files;
mod hosts;
mod plan;
mod ports;
pub(crate) mod raw;
mod subnets;
mod switch_text;

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::Path;

use packet::MacAddr;

use crate::agree;
use crate::document;
use crate::error::ConfigError;
use crate::quantity::Rate;
use crate::switch_file::SwitchSpec;

/// A checked fabric.
#[derive(Clone, PartialEq, Debug)]
pub struct FabricFile {
    /// What the names of its switches begin with; may be empty.
    pub name: String,
    /// Leaves, then spines.
    pub switches: Vec<GeneratedSwitch>,
    /// Hosts by leaf.
    pub hosts: Vec<FileHost>,
    /// Cables: those of hosts, then those between leaves and spines, by leaf.
    pub cables: Vec<Cable>,
    /// Largest IP packet.
    pub mtu: u32,
    /// The prefixes of the whole fabric.
    pub prefixes: Vec<String>,
}

/// The file of one switch.
#[derive(Clone, PartialEq, Debug)]
pub struct GeneratedSwitch {
    /// `leaf0` or `spine0`.
    pub role: String,
    /// The content of its file.
    pub text: String,
    /// What that comes to.
    pub spec: SwitchSpec,
}

/// A host.
#[derive(Clone, PartialEq, Debug)]
pub struct FileHost {
    /// `h<leaf>.<n>`.
    pub name: String,
    /// Its leaf.
    pub leaf: u16,
    /// Its addresses, each with its length and its gateway.
    pub addresses: Vec<HostAddress>,
    /// The MAC address that its leaf is told; `None`: it is learned.
    pub mac: Option<MacAddr>,
    /// Whether the MAC address is given by us, so that the host has to take it.
    pub takes_mac: bool,
    /// Its interface.
    pub interface: String,
    /// The tag of its cable.
    pub vlan: Option<u16>,
}

/// An address of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostAddress {
    /// The address.
    pub address: IpAddr,
    /// Bits of it that name the leaf.
    pub length: u8,
    /// The leaf's own.
    pub gateway: IpAddr,
}

/// One cable, with the port at each end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Cable {
    /// The host or leaf, its interface or port, and the device of that port.
    pub a: CableEnd,
    /// The leaf or spine.
    pub b: CableEnd,
    /// Rate of each direction.
    pub rate: Rate,
    /// Its tag.
    pub vlan: Option<u16>,
}

/// One end of a cable.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CableEnd {
    /// Host or switch.
    pub node: String,
    /// Its interface or port.
    pub port: String,
    /// What the port is made of; a host's is its interface.
    pub device: Option<String>,
}

/// Where keys of a generated file come from: each to one of the fabric file.
type Origins = BTreeMap<String, String>;

impl FabricFile {
    /// Reads and checks the file at `path`.
    ///
    /// # Errors
    /// The first mistake, with file, line, key and cure.
    pub fn read(path: &Path) -> Result<FabricFile, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            ConfigError::new("", format!("cannot be read: {error}")).in_file(path)
        })?;
        FabricFile::parse(path, &text)
    }

    /// Checks `text`, the content of `path`.
    ///
    /// # Errors
    /// As [`FabricFile::read`].
    pub fn parse(path: &Path, text: &str) -> Result<FabricFile, ConfigError> {
        let raw: raw::File = document::parse(text).map_err(|error| error.in_file(path))?;
        // Read once already, so it is a table.
        let passed: toml::Table = toml::from_str(text).unwrap_or_default();
        resolve(&raw, &passed).map_err(|error| {
            let line = document::line_of(text, &error.key);
            error.on_line(line).in_file(path)
        })
    }

    /// Whether a text is one of a fabric, by the keys that no other file has.
    pub(crate) fn is_one(text: &str) -> bool {
        document::has_any(text, &["links", "addressing", "ports", "hosts"])
            && !document::has_any(text, &["role", "port"])
    }
}

fn resolve(raw: &raw::File, passed: &toml::Table) -> Result<FabricFile, ConfigError> {
    let plan = plan::Plan::new(raw, passed)?;
    let mut switches = Vec::new();
    for place in plan.places() {
        let (text, origins) = plan.switch_text(place)?;
        let role = place.to_string();
        // Its own place is no file, so lines of it would mislead.
        let spec = SwitchSpec::parse(Path::new(""), &text)
            .map_err(|error| plan.blame(error, &role, &origins))?;
        switches.push(GeneratedSwitch { role, text, spec });
    }
    let specs: Vec<&SwitchSpec> = switches.iter().map(|switch| &switch.spec).collect();
    let used: Vec<_> = specs
        .iter()
        .flat_map(|spec| spec.devices.iter().flatten())
        .collect();
    plan.check_devices(&used)?;
    agree::complete(&specs, &[])?;
    let cables = plan.cables(&switches);
    Ok(FabricFile {
        name: plan.name.clone(),
        hosts: plan.hosts.clone(),
        mtu: plan.mtu,
        prefixes: plan.prefixes(),
        cables,
        switches,
    })
}

#[cfg(test)]
mod tests;
