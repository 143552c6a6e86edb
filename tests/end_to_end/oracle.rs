//! What a frame is and whether its ICRC is right, told without the project's own parser.

use std::fs::File;
use std::path::Path;

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use pcap_parser::traits::PcapReaderIterator;
use pcap_parser::{LegacyPcapReader, PcapBlockOwned, PcapError};

/// The frames of a capture.
pub(crate) fn frames(path: &Path) -> Vec<Vec<u8>> {
    let file = File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut reader = LegacyPcapReader::new(1 << 18, file).expect("a classic capture");
    let mut frames = Vec::new();
    loop {
        match reader.next() {
            Ok((used, block)) => {
                if let PcapBlockOwned::Legacy(record) = block {
                    frames.push(record.data.to_vec());
                }
                reader.consume(used);
            }
            Err(PcapError::Eof) => return frames,
            Err(PcapError::Incomplete(_)) => reader.refill().expect("the file is there"),
            Err(error) => panic!("{}: {error:?}", path.display()),
        }
    }
}

/// What etherparse says of an IP packet.
#[derive(Clone, Debug)]
pub(crate) struct IpPacket {
    /// Offset of the IP header.
    pub(crate) at: usize,
    /// Length of the datagram.
    pub(crate) len: usize,
    /// Offset of the UDP header, if it is UDP to 4791 and no fragment.
    pub(crate) roce_udp_at: Option<usize>,
    /// Last byte of the source address: the captures' hosts are .1 and .2, ::1 and ::2.
    pub(crate) source: u8,
    /// IPv6.
    pub(crate) is_v6: bool,
}

/// The IP packet of a frame; `None` for ARP, RoCEv1 and what is malformed.
pub(crate) fn ip_packet(frame: &[u8]) -> Option<IpPacket> {
    let packet = SlicedPacket::from_ethernet(frame).ok()?;
    let offset = |inner: &[u8]| inner.as_ptr() as usize - frame.as_ptr() as usize;
    let (at, len, source, is_v6) = match packet.net.as_ref()? {
        NetSlice::Ipv4(v4) => {
            let header = v4.header();
            (offset(header.slice()), usize::from(header.total_len()), header.source()[3], false)
        }
        NetSlice::Ipv6(v6) => {
            let header = v6.header();
            (offset(header.slice()), 40 + usize::from(header.payload_length()), header.source()[15], true)
        }
        NetSlice::Arp(_) => return None,
    };
    let roce_udp_at = match &packet.transport {
        Some(TransportSlice::Udp(udp)) if udp.destination_port() == 4791 => {
            // A BTH of 12 bytes and an ICRC of 4 must fit, or it is no RoCE packet.
            if udp.payload().len() < 16 {
                return None;
            }
            Some(offset(udp.slice()))
        }
        _ => None,
    };
    Some(IpPacket { at, len, roce_udp_at, source, is_v6 })
}

/// Whether the ICRC of a RoCEv2 packet is right: CRC-32 over eight bytes of ones and the datagram,
/// with what routers change read as ones. `None` where the masks are not agreed (extension
/// headers).
pub(crate) fn icrc_is_right(frame: &[u8], packet: &IpPacket) -> Option<bool> {
    let udp = packet.roce_udp_at? - packet.at;
    let mut datagram = frame[packet.at..packet.at + packet.len].to_vec();
    let end = datagram.len() - 4;
    let told: [u8; 4] = datagram.split_off(end).try_into().ok()?;
    if packet.is_v6 {
        if udp != 40 {
            return None;
        }
        datagram[0] |= 0x0f;
        datagram[1..4].fill(0xff);
        datagram[7] = 0xff;
    } else {
        datagram[1] = 0xff;
        datagram[8] = 0xff;
        datagram[10..12].fill(0xff);
    }
    datagram[udp + 6..udp + 8].fill(0xff);
    datagram[udp + 12] = 0xff;
    let mut crc = crc32fast::Hasher::new();
    crc.update(&[0xff; 8]);
    crc.update(&datagram);
    Some(crc.finalize().to_le_bytes() == told)
}

/// The frame as it should leave a router that sends it to `to` from `from`.
pub(crate) fn routed(frame: &[u8], packet: &IpPacket, to: [u8; 6], from: [u8; 6]) -> Vec<u8> {
    let mut out = frame.to_vec();
    out[..6].copy_from_slice(&to);
    out[6..12].copy_from_slice(&from);
    if packet.is_v6 {
        out[packet.at + 7] -= 1;
    } else {
        out[packet.at + 8] -= 1;
        let header_len = usize::from(out[packet.at] & 15) * 4;
        let header = &mut out[packet.at..packet.at + header_len];
        header[10..12].fill(0);
        let words = header.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let mut sum: u32 = words.sum();
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        header[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    }
    out
}
