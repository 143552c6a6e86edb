//! One switch on real ports or virtual devices: the TOML of `spraycheck switch`, `check` and
//! `replay`.
//!
//! The file is read into raw structs (unknown keys refused with a suggestion), then checked part
//! by part into a [`SwitchSpec`], which cannot be wrong in a way that can be seen from the file
//! alone. Every message names file, line, key, value and cure.

mod classes;
mod device;
mod faults;
mod gateway;
pub(crate) mod port;
mod ports;
pub(crate) mod raw;
mod ring;
mod routes;
pub(crate) mod settings;
mod trunk;
mod windows;

use std::net::SocketAddr;
use std::path::Path;

use detector::{LeafId, SpineId};
use pipeline::fault::Fault;
use pipeline::{Role, SwitchConfig};

use crate::choice::{Evidence, PathTest};
use crate::document;
use crate::error::ConfigError;
use crate::fabric::seed_of;

pub use device::Device;
pub use settings::{EalSpec, Idle, LCORES_MAX, Lcores, Memory};
pub use trunk::DeviceSetting;
pub(crate) use trunk::Trunks;
pub use windows::Judging;

/// A checked switch.
#[derive(Clone, PartialEq, Debug)]
pub struct SwitchSpec {
    /// Its name, also the prefix of EAL's runtime files.
    pub name: String,
    /// Names of its ports, in the order of their [`pipeline::PortId`].
    pub port_names: Vec<String>,
    /// What each port is made of; `None`: whatever the driver gives (replay).
    pub devices: Vec<Option<Device>>,
    /// The VLAN tag of each port's link, if it shares its device with others.
    pub vlans: Vec<Option<u16>>,
    /// What each port does to the link that it sends into.
    pub faults: Vec<Vec<Fault>>,
    /// What is said of devices.
    pub device_settings: Vec<DeviceSetting>,
    /// What the switch is told.
    pub config: SwitchConfig,
    /// How its control thread tests paths.
    pub test: PathTest,
    /// What its control thread reads a path's loss from.
    pub evidence: Evidence,
    /// How sure its verdicts are to be.
    pub judging: Judging,
    /// Where metrics are asked for; `None`: nowhere.
    pub metrics: Option<SocketAddr>,
    /// How DPDK is started.
    pub eal: EalSpec,
}

impl SwitchSpec {
    /// Reads and checks the file at `path`.
    pub fn read(path: &Path) -> Result<SwitchSpec, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|error| {
            ConfigError::new("", format!("cannot be read: {error}")).in_file(path)
        })?;
        SwitchSpec::parse(path, &text)
    }

    /// Checks `text`, the content of `path`.
    pub fn parse(path: &Path, text: &str) -> Result<SwitchSpec, ConfigError> {
        let raw: raw::Switch = document::parse(text).map_err(|error| error.in_file(path))?;
        resolve(raw).map_err(|error| {
            let line = document::line_of(text, &error.key);
            error.on_line(line).in_file(path)
        })
    }
}

impl SwitchSpec {
    /// How its control thread judges windows.
    pub fn rules(&self) -> detector::Rules {
        let fabric = detector::Fabric {
            leaves: self.config.leaves,
            spines: self.config.spines,
        };
        let is_paper = self.config.measurement.is_paper;
        self.judging.rules(fabric, self.evidence, is_paper)
    }
}

/// Checks part by part; the first mistake ends it.
fn resolve(raw: raw::Switch) -> Result<SwitchSpec, ConfigError> {
    check_name(&raw.name)?;
    let role = role(&raw)?;
    let message_port = settings::message_port(&raw.fabric)?;
    let parts = ports::resolve(&raw, role)?;
    let owned = gateway::prefixes(&raw, &parts.hosts)?;
    let (routes, away) = routes::resolve(&raw, role, &parts.hosts, &owned)?;
    let gateway = gateway::resolve(&raw.gateway, &parts.hosts, &away)?;
    let hold_down_ns = settings::hold_down_ns(&raw.fabric)?;
    let queue = settings::queue(&raw.queue, &parts.ports)?;
    let measurement = settings::measurement(&raw, &queue, &parts.ports)?;
    let evidence = windows::evidence(&raw)?;
    let judging = windows::judging(&raw)?;
    let eal = settings::eal(&raw.eal, &parts.ports, ring::room(&parts.devices))?;
    let device_settings = trunk::settings(&raw.device, &parts)?;
    let link_state_ns = settings::link_state_ns(&raw.fabric)?;
    let seed = seed_of(raw.seed.unwrap_or(1), &raw.name);
    Ok(SwitchSpec {
        port_names: raw.port.iter().map(|port| port.name.clone()).collect(),
        devices: parts.devices,
        vlans: parts.vlans,
        faults: parts.faults,
        device_settings,
        config: SwitchConfig {
            role,
            leaves: raw.fabric.leaves,
            spines: raw.fabric.spines,
            ports: parts.ports,
            hosts: parts.hosts,
            routes,
            message_port,
            policy: raw.spray.policy.unwrap_or(crate::Spray::Jsq2).into(),
            tie: raw
                .spray
                .tie
                .unwrap_or(settings::tie(&raw.measurement))
                .into(),
            queue,
            measurement,
            link_state_ns,
            hold_down_ns,
            gateway,
            seed,
        },
        test: raw.measurement.test.unwrap_or(PathTest::Fixed),
        evidence,
        judging,
        metrics: settings::metrics(&raw.metrics)?,
        eal,
        name: raw.name,
    })
}

fn check_name(name: &str) -> Result<(), ConfigError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.is_empty() && name.len() <= 32 && name.chars().all(is_plain) {
        return Ok(());
    }
    let message = format!(
        "\"{name}\" cannot name a switch; use up to 32 letters, digits, \"-\", \"_\" and \".\""
    );
    Err(ConfigError::new("name", message))
}

/// Size of the fabric, and which of its switches this is.
fn role(raw: &raw::Switch) -> Result<Role, ConfigError> {
    let (leaves, spines) = (raw.fabric.leaves, raw.fabric.spines);
    for (key, count, least) in [("fabric.leaves", leaves, 2), ("fabric.spines", spines, 1)] {
        if !(least..=128).contains(&count) {
            let message = format!("{count} is out of range; choose {least} to 128");
            return Err(ConfigError::new(key, message));
        }
    }
    let beyond = |count: u16, kind: &str| {
        let message = format!(
            "\"{}\" is not in a fabric of {count} {kind}; choose a lower index, or raise \
             fabric.{kind}",
            raw.role
        );
        Err(ConfigError::new("role", message))
    };
    if let Ok(LeafId(leaf)) = raw.role.parse() {
        return if leaf < leaves {
            Ok(Role::Leaf(pipeline::LeafId(leaf)))
        } else {
            beyond(leaves, "leaves")
        };
    }
    if let Ok(SpineId(spine)) = raw.role.parse() {
        return if spine < spines {
            Ok(Role::Spine(pipeline::SpineId(spine)))
        } else {
            beyond(spines, "spines")
        };
    }
    let message = format!(
        "\"{}\" is no switch; write it like leaf0 or spine3",
        raw.role
    );
    Err(ConfigError::new("role", message))
}

#[cfg(test)]
mod station_tests;
#[cfg(test)]
mod tests;
