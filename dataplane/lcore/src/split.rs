//! Deals out captures to the ports of a switch, before a replay.
//!
//! A capture that was taken on a bridge holds both directions. Split by source address, the
//! frames of a port's own hosts come in there, and those of everybody else over an uplink, as if
//! they had crossed the fabric. Frames without an IP or ARP source follow the MAC address that
//! sent others; what is still unknown goes to the port that the capture was named for.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use etherparse::{NetSlice, SlicedPacket};
use packet::{Address, arp};
use pcap_parser::{LegacyPcapReader, PcapBlockOwned, PcapError, traits::PcapReaderIterator};
use pipeline::{PortKind, SwitchConfig};

use crate::failure::Failure;

/// Longest record of a capture, in bytes: as libpcap's own limit.
const RECORD_MAX: usize = 1 << 18;

/// The frames of a classic pcap file, in order.
///
/// # Errors
/// When it cannot be read, or is no Ethernet capture of that kind.
pub fn read(path: &Path) -> Result<Vec<Vec<u8>>, Failure> {
    let wrong = |what: String| Failure::usage(format!("capture {}: {what}", path.display()));
    let file = File::open(path).map_err(|error| wrong(error.to_string()))?;
    let mut reader = LegacyPcapReader::new(RECORD_MAX, file)
        .map_err(|error| wrong(format!("no classic pcap file ({error:?}); convert it with `editcap -F pcap`")))?;
    let mut frames = Vec::new();
    loop {
        match reader.next() {
            Ok((used, block)) => {
                match block {
                    PcapBlockOwned::LegacyHeader(header) if header.network.0 != 1 => {
                        return Err(wrong(format!("link type {} is not Ethernet", header.network.0)));
                    }
                    PcapBlockOwned::Legacy(record) => frames.push(record.data.to_vec()),
                    PcapBlockOwned::LegacyHeader(_) | PcapBlockOwned::NG(_) => {}
                }
                reader.consume(used);
            }
            Err(PcapError::Eof) => return Ok(frames),
            Err(PcapError::Incomplete(_)) => {
                reader.refill().map_err(|error| wrong(format!("{error:?}")))?;
            }
            Err(error) => return Err(wrong(format!("record {}: {error:?}", frames.len()))),
        }
    }
}

/// Writes frames as a classic pcap file with microsecond stamps that count them.
///
/// # Errors
/// What the file system says.
pub fn write<'a>(path: &Path, frames: impl IntoIterator<Item = &'a [u8]>) -> io::Result<()> {
    let mut out = BufWriter::new(File::create(path)?);
    out.write_all(&0xa1b2_c3d4u32.to_le_bytes())?;
    out.write_all(&[2, 0, 4, 0])?;
    out.write_all(&[0; 8])?;
    out.write_all(&65_535u32.to_le_bytes())?;
    out.write_all(&1u32.to_le_bytes())?;
    for (number, frame) in frames.into_iter().enumerate() {
        let (seconds, micros) = (number / 1_000_000, number % 1_000_000);
        for word in [seconds, micros, frame.len(), frame.len()] {
            out.write_all(&(word as u32).to_le_bytes())?;
        }
        out.write_all(frame)?;
    }
    out.flush()
}

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
        let port = port_names.iter().position(|port| port == name).ok_or_else(|| {
            Failure::usage(format!("no port is called \"{name}\"; the switch has {}", port_names.join(", ")))
        })?;
        match files.iter_mut().find(|(file, _)| split && *file == path) {
            Some((_, ports)) => ports.push(port),
            None => files.push((path, vec![port])),
        }
    }
    for (path, ports) in files {
        let frames = read(path)?;
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
    let fabric = named.iter().copied().find(is_fabric).or_else(|| (0..config.ports.len()).find(is_fabric));
    let mut by_mac: BTreeMap<[u8; 6], usize> = BTreeMap::new();
    let mut owners: Vec<Option<usize>> = Vec::with_capacity(frames.len());
    for frame in frames {
        let owner = source_of(frame).and_then(|source| {
            let host = config.hosts.iter().find(|host| host.address == source);
            host.map(|host| usize::from(host.port)).or(fabric)
        });
        if let (Some(port), Some(mac)) = (owner, mac_of(frame)) {
            by_mac.entry(mac).or_insert(port);
        }
        owners.push(owner);
    }
    let unknown = |frame: &Vec<u8>| mac_of(frame).and_then(|mac| by_mac.get(&mac).copied()).unwrap_or(named[0]);
    owners.into_iter().zip(frames).map(|(owner, frame)| owner.unwrap_or_else(|| unknown(frame))).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("frames.pcap");
        let frames: Vec<Vec<u8>> = (0..100u8).map(|n| vec![n; usize::from(n) + 14]).collect();
        write(&path, frames.iter().map(Vec::as_slice)).unwrap();
        assert_eq!(read(&path).unwrap(), frames);
        std::fs::write(&path, b"no capture at all, and long enough").unwrap();
        let error = read(&path).unwrap_err();
        assert!(error.exit_code == 2 && error.message.contains("frames.pcap"), "{error}");
    }
}
