//! Ports and hosts: what each is, that each peer, name, address and device occurs once, and that
//! no link is missing.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;

use packet::MacAddr;
use pipeline::busy::PORTS_MAX;
use pipeline::fault::Fault;
use pipeline::{HostConfig, Peer, PortConfig, PortKind, Role};

use super::device::Device;
use super::faults;
use super::port::{address, check_mac, check_name, kind, mtu, peer_mac, rate};
use super::raw;
use super::ring;
use super::trunk::Trunks;
use crate::error::ConfigError;

/// Ethernet header and two VLAN tags.
const ETHERNET_BYTES: u32 = 22;
/// Addresses of hosts of one switch.
const HOSTS_MAX: usize = 4096;

/// What the ports of a file come to.
pub(super) struct Ports {
    pub(super) ports: Vec<PortConfig>,
    pub(super) devices: Vec<Option<Device>>,
    pub(super) vlans: Vec<Option<u16>>,
    pub(super) faults: Vec<Vec<Fault>>,
    pub(super) hosts: Vec<HostConfig>,
}

/// Remembers under which key each value was first seen.
struct Once<T> {
    what: &'static str,
    seen: HashMap<T, String>,
}

impl<T: Hash + Eq + Display> Once<T> {
    fn new(what: &'static str) -> Once<T> {
        Once {
            what,
            seen: HashMap::new(),
        }
    }

    fn add(&mut self, value: T, key: &str) -> Result<(), ConfigError> {
        if let Some(first) = self.seen.get(&value) {
            let message = format!(
                "{} {value} is already that of {first}; give each its own",
                self.what
            );
            return Err(ConfigError::new(key, message));
        }
        self.seen.insert(value, key.to_owned());
        Ok(())
    }
}

/// Checks all ports.
pub(super) fn resolve(raw: &raw::Switch, role: Role) -> Result<Ports, ConfigError> {
    let mut names = Once::new("the name");
    let mut macs = Once::new("the MAC address");
    let mut peers = Once::new("the peer");
    let mut trunks = Trunks::default();
    let mut addresses = Once::new("the address");
    let mut result = Ports {
        ports: Vec::new(),
        devices: Vec::new(),
        vlans: Vec::new(),
        faults: Vec::new(),
        hosts: Vec::new(),
    };
    if raw.port.len() > PORTS_MAX {
        let message = format!(
            "{} ports are more than the {PORTS_MAX} of a switch; spread its hosts over more leaves",
            raw.port.len()
        );
        return Err(ConfigError::new("port", message));
    }
    for (index, port) in raw.port.iter().enumerate() {
        let key = |field: &str| format!("port[{index}].{field}");
        check_name(&port.name, &key("name"))?;
        names.add(port.name.clone(), &key("name"))?;
        check_mac(port.mac.0, &key("mac"))?;
        macs.add(port.mac.0, &key("mac"))?;
        let kind = kind(raw, role, port, index)?;
        if let PortKind::Fabric(_) = kind {
            peers.add(port.peer.clone().unwrap_or_default(), &key("peer"))?;
        }
        let peer_mac = peer_mac(port, kind, index)?;
        if let Some(mac) = peer_mac {
            macs.add(mac, &key("peer_mac"))?;
        }
        let device = port.device.as_deref().map(Device::read).transpose();
        let device = device.map_err(|message| ConfigError::new(key("device"), message))?;
        trunks.add(device.as_ref(), port.vlan, &format!("port[{index}]"))?;
        let mut host_macs: Vec<MacAddr> = Vec::new();
        for (place, host) in port.hosts.iter().enumerate() {
            let key = |field: &str| format!("port[{index}].hosts[{place}].{field}");
            let address = address(&host.address, &key("address"))?;
            addresses.add(address, &key("address"))?;
            let mac = host.mac.map(|mac| mac.0);
            if let Some(mac) = mac {
                check_mac(mac, &key("mac"))?;
                // One host may have several addresses, but it is behind one port.
                if !host_macs.contains(&mac) {
                    macs.add(mac, &key("mac"))?;
                    host_macs.push(mac);
                }
            }
            result.hosts.push(HostConfig {
                address,
                mac,
                port: index as u16,
            });
        }
        let frame_max_bytes = mtu(port.mtu, &key("mtu"))? + ETHERNET_BYTES;
        if let Some(device) = &device {
            ring::check(device, frame_max_bytes, &key("device"))?;
        }
        result.ports.push(PortConfig {
            kind,
            mac: port.mac.0,
            peer_mac: peer_mac.or(host_macs.first().copied()).unwrap_or_default(),
            accept_any_mac: port.accept_any_mac,
            rate_bps: rate(port.rate, &key("rate"))?.bits_per_second(),
            frame_max_bytes,
        });
        result.devices.push(device);
        result.vlans.push(port.vlan);
        result.faults.push(faults::read(&port.faults, index)?);
    }
    check_links(raw, role, &result.ports)?;
    if result.hosts.len() > HOSTS_MAX {
        let message = format!(
            "{} addresses of hosts are more than {HOSTS_MAX}; spread them over more leaves",
            result.hosts.len()
        );
        return Err(ConfigError::new("port", message));
    }
    Ok(result)
}

/// Every spine has its uplink, every leaf its downlink.
fn check_links(raw: &raw::Switch, role: Role, ports: &[PortConfig]) -> Result<(), ConfigError> {
    let has = |peer: Peer| ports.iter().any(|port| port.kind == PortKind::Fabric(peer));
    let (kind, missing): (&str, Vec<String>) = match role {
        Role::Leaf(_) => {
            let spines = (0..raw.fabric.spines).map(pipeline::SpineId);
            (
                "uplink",
                spines
                    .filter(|s| !has(Peer::Spine(*s)))
                    .map(|s| s.to_string())
                    .collect(),
            )
        }
        Role::Spine(_) => {
            let leaves = (0..raw.fabric.leaves).map(pipeline::LeafId);
            (
                "downlink",
                leaves
                    .filter(|l| !has(Peer::Leaf(*l)))
                    .map(|l| l.to_string())
                    .collect(),
            )
        }
    };
    if missing.is_empty() {
        return Ok(());
    }
    let message = format!(
        "no {kind} goes to {}; add a [[port]] with kind = \"{kind}\" and peer = \"{}\", or make \
         the fabric smaller",
        missing.join(", "),
        missing[0]
    );
    Err(ConfigError::new("port", message))
}
