//! Ports and hosts: what each is, that each peer, name, address and device occurs once, and that
//! no link is missing.

use std::collections::HashMap;
use std::fmt::Display;
use std::hash::Hash;
use std::net::IpAddr;

use detector::{LeafId, SpineId};
use packet::{Address, MacAddr};
use pipeline::{HostConfig, Peer, PortConfig, PortKind, Role};

use super::device::Device;
use super::raw::{self, Kind};
use crate::error::ConfigError;
use crate::quantity::Rate;

/// Largest IP packet of a port unless said: a path MTU of 4096 with all its headers.
const MTU_DEFAULT: u32 = 4200;
/// Ethernet header and two VLAN tags.
const ETHERNET_BYTES: u32 = 22;
/// Addresses of hosts of one switch.
const HOSTS_MAX: usize = 4096;

/// What the ports of a file come to.
pub(super) struct Ports {
    pub(super) ports: Vec<PortConfig>,
    pub(super) devices: Vec<Option<Device>>,
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
    let mut devices = Once::new("the device");
    let mut addresses = Once::new("the address");
    let mut result = Ports {
        ports: Vec::new(),
        devices: Vec::new(),
        hosts: Vec::new(),
    };
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
        if let Some(device) = &device {
            devices.add(device.name().to_owned(), &key("device"))?;
        }
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
        result.ports.push(PortConfig {
            kind,
            mac: port.mac.0,
            peer_mac: peer_mac.or(host_macs.first().copied()).unwrap_or_default(),
            accept_any_mac: port.accept_any_mac,
            rate_bps: rate(port.rate, &key("rate"))?.bits_per_second(),
            frame_max_bytes: mtu(port.mtu, &key("mtu"))? + ETHERNET_BYTES,
        });
        result.devices.push(device);
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

fn check_name(name: &str, key: &str) -> Result<(), ConfigError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.is_empty() && name.len() <= 32 && name.chars().all(is_plain) {
        return Ok(());
    }
    let message = format!(
        "\"{name}\" cannot name a port; use up to 32 letters, digits, \"-\", \"_\" and \".\""
    );
    Err(ConfigError::new(key, message))
}

fn check_mac(mac: MacAddr, key: &str) -> Result<(), ConfigError> {
    if !mac.is_group() && mac != MacAddr::default() {
        return Ok(());
    }
    let message = format!(
        "{mac} is no address of one station (it is zero, or its group bit is set); write one \
         like 02:00:00:00:00:01"
    );
    Err(ConfigError::new(key, message))
}

fn rate(rate: Rate, key: &str) -> Result<Rate, ConfigError> {
    let (least, most) = (Rate::new(1_000_000), Rate::new(1_000_000_000_000));
    if (least..=most).contains(&rate) {
        return Ok(rate);
    }
    let message = format!("{rate} is out of range; choose {least} to {most}");
    Err(ConfigError::new(key, message))
}

fn mtu(mtu: Option<u32>, key: &str) -> Result<u32, ConfigError> {
    // IPv6 asks for 1280 of every link (RFC 8200, 5); our longest message then fits as well.
    let mtu = mtu.unwrap_or(MTU_DEFAULT);
    if (1280..=9600).contains(&mtu) {
        return Ok(mtu);
    }
    let message = format!(
        "{mtu} is out of range; choose 1280 to 9600 (bytes of the largest IP packet; path MTU 4096 \
         needs 4200)"
    );
    Err(ConfigError::new(key, message))
}

/// What is at the other end, by kind and peer.
fn kind(
    raw: &raw::Switch,
    role: Role,
    port: &raw::Port,
    index: usize,
) -> Result<PortKind, ConfigError> {
    let wrong = |field: &str, message: String| {
        Err(ConfigError::new(format!("port[{index}].{field}"), message))
    };
    let (own, kinds) = match role {
        Role::Leaf(_) => ("leaf", "host and uplink"),
        Role::Spine(_) => ("spine", "downlink"),
    };
    let fits = match port.kind {
        Kind::Host | Kind::Uplink => matches!(role, Role::Leaf(_)),
        Kind::Downlink => matches!(role, Role::Spine(_)),
    };
    if !fits {
        let message = format!("\"{}\" is no port of a {own}, which has {kinds}", port.kind);
        return wrong("kind", message);
    }
    if port.kind == Kind::Host {
        if port.peer.is_some() {
            return wrong(
                "peer",
                "a host port has none; take it out, and list its hosts".into(),
            );
        }
        if port.hosts.is_empty() {
            let message = "a host port needs the addresses behind it, for it takes packets from \
                           no others; add hosts = [{ address = \"10.0.0.1\" }]";
            return wrong("hosts", message.into());
        }
        return Ok(PortKind::Host);
    }
    if !port.hosts.is_empty() {
        let message = format!(
            "{} has no hosts; take them out, or make it a host port",
            port.kind.with_article()
        );
        return wrong("hosts", message);
    }
    let Some(peer) = port.peer.as_deref() else {
        let example = if port.kind == Kind::Uplink {
            "spine0"
        } else {
            "leaf0"
        };
        let message = format!(
            "{} needs one; add peer = \"{example}\"",
            port.kind.with_article()
        );
        return wrong("peer", message);
    };
    let (leaves, spines) = (raw.fabric.leaves, raw.fabric.spines);
    match port.kind {
        Kind::Downlink => match peer.parse() {
            Ok(LeafId(leaf)) if leaf < leaves => {
                Ok(PortKind::Fabric(Peer::Leaf(pipeline::LeafId(leaf))))
            }
            _ => wrong(
                "peer",
                format!("\"{peer}\" is none of leaf0 to leaf{}", leaves - 1),
            ),
        },
        Kind::Uplink | Kind::Host => match peer.parse() {
            Ok(SpineId(spine)) if spine < spines => {
                Ok(PortKind::Fabric(Peer::Spine(pipeline::SpineId(spine))))
            }
            _ => wrong(
                "peer",
                format!("\"{peer}\" is none of spine0 to spine{}", spines - 1),
            ),
        },
    }
}

fn peer_mac(
    port: &raw::Port,
    kind: PortKind,
    index: usize,
) -> Result<Option<MacAddr>, ConfigError> {
    let key = format!("port[{index}].peer_mac");
    match (kind, port.peer_mac) {
        (PortKind::Host, None) => Ok(None),
        (PortKind::Host, Some(_)) => {
            let message = "a host port has none; put the MAC address beside its host";
            Err(ConfigError::new(key, message))
        }
        (PortKind::Fabric(_), Some(mac)) => {
            check_mac(mac.0, &key)?;
            Ok(Some(mac.0))
        }
        (PortKind::Fabric(_), None) => {
            let message = format!(
                "\"{}\" needs the MAC address of the port at its other end; add peer_mac",
                port.name
            );
            Err(ConfigError::new(key, message))
        }
    }
}

/// An address that one host can have.
fn address(text: &str, key: &str) -> Result<Address, ConfigError> {
    let parsed: IpAddr = text.parse().map_err(|_| {
        let message = format!("\"{text}\" is no IP address; write it like 10.0.0.1 or fd00::1");
        ConfigError::new(key, message)
    })?;
    let is_broadcast = matches!(parsed, IpAddr::V4(v4) if v4.is_broadcast());
    if parsed.is_unspecified() || parsed.is_multicast() || parsed.is_loopback() || is_broadcast {
        let message = format!("{text} is no address of one host; write one like 10.0.0.1");
        return Err(ConfigError::new(key, message));
    }
    Ok(Address::from(parsed))
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
