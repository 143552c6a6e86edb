//! IPv4 and IPv6: the fields a router reads and changes, and the incremental checksum.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::be;

/// IP protocol number of ICMP.
pub const ICMP: u8 = 1;
/// IP protocol number of UDP.
pub const UDP: u8 = 17;
/// IP protocol number of ICMPv6.
pub const ICMPV6: u8 = 58;
/// Smallest IPv4 header.
pub const V4_HEADER_LEN: usize = 20;
/// IPv6 header.
pub const V6_HEADER_LEN: usize = 40;
/// Length of a UDP header.
pub const UDP_HEADER_LEN: usize = 8;

/// An address of either family as one number, IPv4 in its IPv6-mapped form (RFC 4291, 2.5.5.2).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address(pub u128);

/// What stands before an IPv4 address in its mapped form.
const V4_MAPPED: u128 = 0xffff_0000_0000;

impl Address {
    /// The address of an IPv4 number.
    #[inline(always)]
    pub const fn v4(number: u32) -> Address {
        Address(V4_MAPPED | number as u128)
    }

    /// The IPv4 number, if it is one.
    #[inline(always)]
    pub const fn as_v4(self) -> Option<u32> {
        if self.0 >> 32 == V4_MAPPED >> 32 {
            Some(self.0 as u32)
        } else {
            None
        }
    }
}

impl From<IpAddr> for Address {
    fn from(address: IpAddr) -> Address {
        match address {
            IpAddr::V4(v4) => Address::v4(v4.to_bits()),
            IpAddr::V6(v6) => Address(v6.to_bits()),
        }
    }
}

impl From<Address> for IpAddr {
    fn from(address: Address) -> IpAddr {
        match address.as_v4() {
            Some(number) => IpAddr::V4(Ipv4Addr::from_bits(number)),
            None => IpAddr::V6(Ipv6Addr::from_bits(address.0)),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        IpAddr::from(*self).fmt(f)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// IPv4 field offsets.
pub mod v4 {
    /// Type of service: DSCP and ECN.
    pub const TOS: usize = 1;
    /// Total length.
    pub const TOTAL_LEN: usize = 2;
    /// Flags and fragment offset.
    pub const FRAGMENT: usize = 6;
    /// Time to live.
    pub const TTL: usize = 8;
    /// Protocol.
    pub const PROTOCOL: usize = 9;
    /// Header checksum.
    pub const CHECKSUM: usize = 10;
    /// Source address.
    pub const SOURCE: usize = 12;
    /// Destination address.
    pub const DESTINATION: usize = 16;
}

/// IPv6 field offsets.
pub mod v6 {
    /// Payload length.
    pub const PAYLOAD_LEN: usize = 4;
    /// Next header.
    pub const NEXT_HEADER: usize = 6;
    /// Hop limit.
    pub const HOP_LIMIT: usize = 7;
    /// Source address.
    pub const SOURCE: usize = 8;
    /// Destination address.
    pub const DESTINATION: usize = 24;
}

/// Source address of the IPv4 header at `at`.
#[inline(always)]
pub fn v4_source(frame: &[u8], at: usize) -> Address {
    Address::v4(be::get32(frame, at + v4::SOURCE))
}

/// Destination address of the IPv4 header at `at`.
#[inline(always)]
pub fn v4_destination(frame: &[u8], at: usize) -> Address {
    Address::v4(be::get32(frame, at + v4::DESTINATION))
}

/// The 16 bytes at `at` as an IPv6 address.
#[inline(always)]
pub fn v6_address(frame: &[u8], at: usize) -> Address {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&frame[at..at + 16]);
    Address(u128::from_be_bytes(bytes))
}

/// Takes one from the TTL of the IPv4 header at `at` and mends its checksum (RFC 1624).
///
/// The TTL must be above zero. A header whose checksum was wrong stays wrong by the same amount.
#[inline(always)]
pub fn v4_decrement_ttl(frame: &mut [u8], at: usize) {
    // One check for all three bytes.
    let header = &mut frame[at..at + V4_HEADER_LEN];
    header[v4::TTL] -= 1;
    // A sum of ones' complement is the same in either order of bytes (RFC 1071, 2.B): one in the
    // upper byte is one in the lower.
    let (before, behind) = (header[v4::CHECKSUM], header[v4::CHECKSUM + 1]);
    let sum = u32::from(u16::from_le_bytes([before, behind])) + 1;
    let sum = (sum + (sum >> 16)) as u16;
    header[v4::CHECKSUM..v4::CHECKSUM + 2].copy_from_slice(&sum.to_le_bytes());
}

/// Checksum of the IPv4 header `header` (whole, its checksum field read as zero).
pub fn v4_checksum(header: &[u8]) -> u16 {
    let mut sum = 0u32;
    for (index, pair) in header.chunks_exact(2).enumerate() {
        if index != v4::CHECKSUM / 2 {
            sum += u32::from(be::get16(pair, 0));
        }
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// What [`write()`] puts into an IP header.
#[derive(Clone, Copy, Debug)]
pub struct IpFields {
    /// Source; both addresses are of one family, which is the header's.
    pub source: Address,
    /// Destination.
    pub destination: Address,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// Bytes behind the header.
    pub payload_len: u16,
}

/// Length of the header that [`write()`] makes for such an address.
#[inline]
pub fn header_len(address: Address) -> usize {
    if address.as_v4().is_some() {
        V4_HEADER_LEN
    } else {
        V6_HEADER_LEN
    }
}

/// Length of a header of that family without options.
#[inline]
pub fn header_len_of(is_v6: bool) -> usize {
    if is_v6 { V6_HEADER_LEN } else { V4_HEADER_LEN }
}

/// Writes an IP header that carries UDP at the start of `out` and returns its length.
pub fn write(out: &mut [u8], fields: &IpFields) -> usize {
    write_carrying(out, fields, UDP)
}

/// Writes an IP header that carries `protocol` at the start of `out` and returns its length.
///
/// IPv4 gets no options, DF set and identification 0 (RFC 6864: an atomic datagram).
pub fn write_carrying(out: &mut [u8], fields: &IpFields, protocol: u8) -> usize {
    match (fields.source.as_v4(), fields.destination.as_v4()) {
        (Some(source), Some(destination)) => {
            let header = &mut out[..V4_HEADER_LEN];
            header.fill(0);
            header[0] = 0x45;
            header[v4::TOS] = fields.traffic_class;
            let total = V4_HEADER_LEN as u16 + fields.payload_len;
            header[v4::TOTAL_LEN..v4::TOTAL_LEN + 2].copy_from_slice(&total.to_be_bytes());
            header[v4::FRAGMENT] = 0x40;
            header[v4::TTL] = fields.ttl;
            header[v4::PROTOCOL] = protocol;
            header[v4::SOURCE..v4::SOURCE + 4].copy_from_slice(&source.to_be_bytes());
            header[v4::DESTINATION..v4::DESTINATION + 4]
                .copy_from_slice(&destination.to_be_bytes());
            let sum = v4_checksum(header);
            header[v4::CHECKSUM..v4::CHECKSUM + 2].copy_from_slice(&sum.to_be_bytes());
            V4_HEADER_LEN
        }
        _ => {
            let header = &mut out[..V6_HEADER_LEN];
            header.fill(0);
            header[0] = 0x60 | fields.traffic_class >> 4;
            header[1] = fields.traffic_class << 4;
            header[v6::PAYLOAD_LEN..v6::PAYLOAD_LEN + 2]
                .copy_from_slice(&fields.payload_len.to_be_bytes());
            header[v6::NEXT_HEADER] = protocol;
            header[v6::HOP_LIMIT] = fields.ttl;
            header[v6::SOURCE..v6::SOURCE + 16].copy_from_slice(&fields.source.0.to_be_bytes());
            header[v6::DESTINATION..v6::DESTINATION + 16]
                .copy_from_slice(&fields.destination.0.to_be_bytes());
            V6_HEADER_LEN
        }
    }
}

/// Writes a UDP header at the start of `out`; `payload_len` counts what follows it.
///
/// The checksum is 0, as RoCEv2 senders leave it (over IPv6 by RFC 6936).
pub fn write_udp(out: &mut [u8], source_port: u16, destination_port: u16, payload_len: u16) {
    out[0..2].copy_from_slice(&source_port.to_be_bytes());
    out[2..4].copy_from_slice(&destination_port.to_be_bytes());
    out[4..6].copy_from_slice(&(UDP_HEADER_LEN as u16 + payload_len).to_be_bytes());
    out[6..8].fill(0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A TTL decrement keeps a right checksum right, for every header.
        #[test]
        fn the_incremental_checksum_agrees_with_the_whole_one(
            source: u32, destination: u32, class: u8, ttl in 1u8.., len in 0u16..9000,
        ) {
            let mut header = [0u8; V4_HEADER_LEN];
            let fields = IpFields {
                source: Address::v4(source), destination: Address::v4(destination),
                traffic_class: class, ttl, payload_len: len,
            };
            write(&mut header, &fields);
            v4_decrement_ttl(&mut header, 0);
            // 0x0000 and 0xffff are the same number in ones' complement (RFC 1624, 3).
            let kept = be::get16(&header, v4::CHECKSUM);
            let whole = v4_checksum(&header);
            prop_assert!(kept == whole || kept ^ whole == 0xffff && (kept == 0 || whole == 0));
            prop_assert_eq!(header[v4::TTL], ttl - 1);
            let (slice, _) = etherparse::Ipv4Header::from_slice(&header).unwrap();
            prop_assert_eq!(slice.source, source.to_be_bytes());
        }
    }

    #[test]
    fn addresses_keep_their_family() {
        for text in ["10.0.3.1", "::1", "fd77::2", "255.255.255.255", "::"] {
            let address = Address::from(text.parse::<IpAddr>().unwrap());
            assert_eq!(address.to_string(), text);
        }
    }

    #[test]
    fn an_ipv6_header_reads_back() {
        let mut header = [0u8; V6_HEADER_LEN];
        let source = Address::from("fd00::1".parse::<IpAddr>().unwrap());
        let destination = Address::from("fd00::2".parse::<IpAddr>().unwrap());
        write(
            &mut header,
            &IpFields {
                source,
                destination,
                traffic_class: 0x6a,
                ttl: 64,
                payload_len: 100,
            },
        );
        let (read, _) = etherparse::Ipv6Header::from_slice(&header).unwrap();
        assert_eq!(
            (read.traffic_class, read.hop_limit, read.payload_length),
            (0x6a, 64, 100)
        );
        assert_eq!(read.destination, destination.0.to_be_bytes());
    }
}
