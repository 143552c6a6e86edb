//! One port: whether each of its keys is possible by itself and for the switch's role.

use std::net::IpAddr;

use detector::{LeafId, SpineId};
use packet::{Address, MacAddr};
use pipeline::{Peer, PortKind, Role};

use super::raw::{self, Kind};
use crate::error::ConfigError;
use crate::quantity::Rate;

/// Largest IP packet of a port unless said: a path MTU of 4096 with all its headers.
const MTU_DEFAULT: u32 = 4200;

pub(super) fn check_name(name: &str, key: &str) -> Result<(), ConfigError> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if !name.is_empty() && name.len() <= 32 && name.chars().all(is_plain) {
        return Ok(());
    }
    let message = format!(
        "\"{name}\" cannot name a port; use up to 32 letters, digits, \"-\", \"_\" and \".\""
    );
    Err(ConfigError::new(key, message))
}

pub(crate) fn check_mac(mac: MacAddr, key: &str) -> Result<(), ConfigError> {
    if !mac.is_group() && mac != MacAddr::default() {
        return Ok(());
    }
    let message = format!(
        "{mac} is no address of one station (it is zero, or its group bit is set); write one \
         like 02:00:00:00:00:01"
    );
    Err(ConfigError::new(key, message))
}

pub(super) fn rate(rate: Rate, key: &str) -> Result<Rate, ConfigError> {
    let (least, most) = (Rate::new(1_000_000), Rate::new(1_000_000_000_000));
    if (least..=most).contains(&rate) {
        return Ok(rate);
    }
    let message = format!("{rate} is out of range; choose {least} to {most}");
    Err(ConfigError::new(key, message))
}

pub(crate) fn mtu(mtu: Option<u32>, key: &str) -> Result<u32, ConfigError> {
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
pub(super) fn kind(
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
        if port.hosts.is_empty() && port.prefixes.is_empty() {
            let message = "a host port needs the addresses behind it, for it takes packets from \
                           no others; add hosts = [{ address = \"10.0.0.1\" }], or prefixes = \
                           [\"10.0.0.0/24\"]";
            return wrong("hosts", message.into());
        }
        return Ok(PortKind::Host);
    }
    if !port.prefixes.is_empty() {
        let message = format!(
            "{} has none; take them out, or write a [[route]]",
            port.kind.with_article()
        );
        return wrong("prefixes", message);
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

pub(super) fn peer_mac(
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
pub(crate) fn address(text: &str, key: &str) -> Result<Address, ConfigError> {
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
