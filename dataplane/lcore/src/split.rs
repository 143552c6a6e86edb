//! Deals out captures to the ports of a switch, before a replay.
//!
//! A capture that was taken on a bridge holds both directions. Split by source address, the
//! frames of a port's own hosts come in there, and those of everybody else over an uplink, as if
//! they had crossed the fabric. Frames without an IP or ARP source follow the MAC address that
//! sent others; what is still unknown goes to the port that the capture was named for.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use etherparse::{NetSlice, SlicedPacket};
use packet::{Address, arp};
use pipeline::route::RouteTable;
use pipeline::{NextHop, Peer, PortKind, SwitchConfig};

use crate::failure::Failure;
use crate::pcap;

/// Which frames come in at which port: per port of the switch, in order.
///
/// # Errors
/// When a capture cannot be read or a port is named that the switch lacks.
pub fn deal(
    config: &SwitchConfig,
    port_names: &[String],
    inputs: &[(String, PathBuf)],
    split: bool,
) -> Result<Vec<Vec<Vec<u8>>>, Failure> {
    let mut dealt = vec![Vec::new(); port_names.len()];
    let mut files: Vec<(&Path, Vec<usize>)> = Vec::new();
    for (name, path) in inputs {
        let port = port_names
            .iter()
            .position(|port| port == name)
            .ok_or_else(|| {
                Failure::usage(format!(
                    "no port is called \"{name}\"; the switch has {}",
                    port_names.join(", ")
                ))
            })?;
        match files.iter_mut().find(|(file, _)| split && *file == path) {
            Some((_, ports)) => ports.push(port),
            None => files.push((path, vec![port])),
        }
    }
    for (path, ports) in files {
        let frames = pcap::read(path)?;
        if !split {
            dealt[ports[0]].extend(frames);
            continue;
        }
        let owners = owners(config, &frames, &ports);
        for (frame, port) in frames.into_iter().zip(owners) {
            dealt[port].push(frame);
        }
    }
    Ok(dealt)
}

/// The port of each frame.
fn owners(config: &SwitchConfig, frames: &[Vec<u8>], named: &[usize]) -> Vec<usize> {
    let is_fabric = |port: &usize| matches!(config.ports[*port].kind, PortKind::Fabric(_));
    let over_fabric = named
        .iter()
        .copied()
        .find(is_fabric)
        .or_else(|| (0..config.ports.len()).find(is_fabric));
    let routes = RouteTable::new(&config.routes);
    // A host of ours at its port; another leaf's at the downlink to that leaf, or else at an uplink.
    let port_of = |source| match routes.lookup(source) {
        Some(NextHop::Host(host)) => Some(usize::from(config.hosts[usize::from(host)].port)),
        Some(NextHop::Leaf(leaf)) => {
            let downlink = PortKind::Fabric(Peer::Leaf(leaf));
            let port = config.ports.iter().position(|port| port.kind == downlink);
            port.or(over_fabric)
        }
        None => over_fabric,
    };
    let mut by_mac: BTreeMap<[u8; 6], usize> = BTreeMap::new();
    let mut owners: Vec<Option<usize>> = Vec::with_capacity(frames.len());
    for frame in frames {
        let owner = source_of(frame).and_then(port_of);
        if let (Some(port), Some(mac)) = (owner, mac_of(frame)) {
            by_mac.entry(mac).or_insert(port);
        }
        owners.push(owner);
    }
    let unknown = |frame: &Vec<u8>| {
        mac_of(frame)
            .and_then(|mac| by_mac.get(&mac).copied())
            .unwrap_or(named[0])
    };
    owners
        .into_iter()
        .zip(frames)
        .map(|(owner, frame)| owner.unwrap_or_else(|| unknown(frame)))
        .collect()
}

fn mac_of(frame: &[u8]) -> Option<[u8; 6]> {
    frame.get(6..12)?.try_into().ok()
}

/// The network source of a frame, read by another parser than the switch's own.
fn source_of(frame: &[u8]) -> Option<Address> {
    if let Some((packet::ethernet::ARP, at)) = packet::ethernet::network(frame) {
        return arp::read(frame, at).map(|packet| packet.sender);
    }
    let sliced = SlicedPacket::from_ethernet(frame).ok()?;
    let address = match sliced.net? {
        NetSlice::Ipv4(v4) => IpAddr::from(v4.header().source_addr()),
        NetSlice::Ipv6(v6) => IpAddr::from(v6.header().source_addr()),
        NetSlice::Arp(_) => return None,
    };
    Some(Address::from(address))
}
