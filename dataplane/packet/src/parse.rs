//! One walk over a frame: where its headers are and what kind of packet it is.
//!
//! Lengths come from IP, never from the frame: what Ethernet padding follows the datagram is no
//! payload, and a datagram that claims more than the frame holds is an error. Whatever a frame
//! contains, the result is a [`Parsed`] whose offsets lie inside the header bytes, or a
//! [`ParseError`].

use crate::bth::Bth;
use crate::ethernet::{self, MacAddr};
use crate::ip::{self, Address, UDP, UDP_HEADER_LEN, V4_HEADER_LEN, V6_HEADER_LEN};
use crate::{ROCE_PORT, be, bth};

/// IPv6 extension headers that are walked; a longer chain is an error.
pub const EXTENSIONS_MAX: usize = 4;

/// Why a frame is no packet that a router forwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ParseError {
    /// Shorter than its Ethernet header and tags.
    Runt,
    /// Neither IPv4, IPv6 nor ARP.
    UnknownEthertype,
    /// RoCE version 1: it has no IP header to route by.
    RoceV1,
    /// The IP header is cut, or its version or header length is wrong.
    BadIpHeader,
    /// The datagram claims more bytes than the frame has, or fewer than its header.
    Truncated,
    /// The UDP header is cut, or its length does not fit the datagram.
    BadUdpLength,
    /// UDP to 4791 that ends inside the BTH or its ICRC.
    BthCut,
    /// More than [`EXTENSIONS_MAX`] IPv6 extension headers.
    TooManyExtensions,
}

/// What a packet is for the switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// RoCEv2; [`Parsed::payload`] is the offset of the BTH.
    Roce,
    /// UDP to spraycheck's port; [`Parsed::payload`] is the offset of the message.
    Message,
    /// Any other UDP or TCP; ports stand at [`Parsed::transport`].
    Ports,
    /// An IP packet without ports, or a later fragment.
    Plain,
    /// A fragment with offset 0 or above: never looked into beyond IP.
    Fragment,
    /// ARP; [`Parsed::network`] is its offset.
    Arp,
}

/// Where the parts of a frame are. Offsets count from the frame's first byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Parsed {
    /// What it is.
    pub kind: Kind,
    /// IPv6 rather than IPv4.
    pub is_v6: bool,
    /// The IP (or ARP) header.
    pub network: u16,
    /// The header behind IP.
    pub transport: u16,
    /// The UDP payload of [`Kind::Roce`] and [`Kind::Message`].
    pub payload: u16,
    /// End of the datagram.
    pub end: u16,
    /// Source address (0 for ARP).
    pub source: Address,
    /// Destination address (0 for ARP).
    pub destination: Address,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// IP protocol of the transport header.
    pub protocol: u8,
    /// The BTH of [`Kind::Roce`]; zeros for all others.
    pub bth: Bth,
}

/// Headers of the common shape: Ethernet, IPv4, UDP, BTH.
const COMMON_LEN: usize = ethernet::HEADER_LEN + V4_HEADER_LEN + UDP_HEADER_LEN + bth::HEADER_LEN;

/// Parses `frame`, of which `wire_len` bytes were on the wire: a simulator keeps only the first
/// bytes of a frame. `message_port` is the UDP port of spraycheck's messages.
pub fn parse(frame: &[u8], wire_len: usize, message_port: u16) -> Result<Parsed, ParseError> {
    match parse_common(frame, wire_len) {
        Some(parsed) => Ok(parsed),
        None => parse_any(frame, wire_len, message_port),
    }
}

/// The shape of nearly all packets: RoCEv2 over untagged IPv4, neither options nor fragments. All
/// offsets are constants, so one length check is enough. `None` for all others, right or wrong:
/// [`parse_any`] tells.
#[inline(always)]
pub fn parse_common(frame: &[u8], wire_len: usize) -> Option<Parsed> {
    const AT: usize = ethernet::HEADER_LEN;
    const UDP_AT: usize = AT + V4_HEADER_LEN;
    const BTH_AT: usize = UDP_AT + UDP_HEADER_LEN;
    let head: &[u8; COMMON_LEN] = frame.first_chunk()?;
    // Ethertype, version and header length, class; flags and offset, TTL, protocol.
    let kind = be::get32(head, ethernet::ETHERTYPE);
    let hops = be::get32(head, AT + ip::v4::FRAGMENT);
    let end = AT + usize::from(be::get16(head, AT + ip::v4::TOTAL_LEN));
    let len = usize::from(be::get16(head, UDP_AT + 4));
    if kind & 0xffff_ff00 != u32::from(ethernet::IPV4) << 16 | 0x4500
        || hops & 0x3fff_00ff != u32::from(UDP)
        || be::get16(head, UDP_AT + 2) != ROCE_PORT
        || len < UDP_HEADER_LEN + bth::HEADER_LEN + bth::ICRC_LEN
        || UDP_AT + len > end
        || end > wire_len.min(usize::from(u16::MAX))
    {
        return None;
    }
    Some(Parsed {
        kind: Kind::Roce,
        is_v6: false,
        network: AT as u16,
        transport: UDP_AT as u16,
        payload: BTH_AT as u16,
        end: end as u16,
        source: ip::v4_source(head, AT),
        destination: ip::v4_destination(head, AT),
        traffic_class: kind as u8,
        ttl: (hops >> 8) as u8,
        protocol: UDP,
        bth: Bth::read(head, BTH_AT),
    })
}

/// The walk over a frame of any shape.
#[inline(never)]
pub fn parse_any(frame: &[u8], wire_len: usize, message_port: u16) -> Result<Parsed, ParseError> {
    let (ethertype, network) = ethernet::network(frame).ok_or(ParseError::Runt)?;
    // Offsets are 16 bits; no datagram that ends beyond them fits a frame that a port can carry.
    let wire_len = wire_len.min(usize::from(u16::MAX));
    let mut parsed = match ethertype {
        ethernet::IPV4 => parse_v4(frame, wire_len, network)?,
        ethernet::IPV6 => parse_v6(frame, wire_len, network)?,
        ethernet::ARP => {
            return Ok(Parsed {
                kind: Kind::Arp,
                is_v6: false,
                network: network as u16,
                transport: network as u16,
                payload: network as u16,
                end: frame.len().min(wire_len) as u16,
                source: Address(0),
                destination: Address(0),
                traffic_class: 0,
                ttl: 0,
                protocol: 0,
                bth: Bth::default(),
            });
        }
        ethernet::ROCE_V1 => return Err(ParseError::RoceV1),
        _ => return Err(ParseError::UnknownEthertype),
    };
    if parsed.kind != Kind::Fragment {
        parse_transport(frame, &mut parsed, message_port)?;
    }
    Ok(parsed)
}

#[inline(always)]
fn parse_v4(frame: &[u8], wire_len: usize, at: usize) -> Result<Parsed, ParseError> {
    if frame.len() < at + V4_HEADER_LEN || frame[at] >> 4 != 4 {
        return Err(ParseError::BadIpHeader);
    }
    let header_len = usize::from(frame[at] & 0x0f) * 4;
    if header_len < V4_HEADER_LEN || frame.len() < at + header_len {
        return Err(ParseError::BadIpHeader);
    }
    let total = usize::from(be::get16(frame, at + ip::v4::TOTAL_LEN));
    if total < header_len || at + total > wire_len {
        return Err(ParseError::Truncated);
    }
    // More fragments, or an offset: its BTH, if it has one, is not looked at.
    let is_fragment = be::get16(frame, at + ip::v4::FRAGMENT) & 0x3fff != 0;
    Ok(Parsed {
        kind: if is_fragment {
            Kind::Fragment
        } else {
            Kind::Plain
        },
        is_v6: false,
        network: at as u16,
        transport: (at + header_len) as u16,
        payload: 0,
        end: (at + total) as u16,
        source: ip::v4_source(frame, at),
        destination: ip::v4_destination(frame, at),
        traffic_class: frame[at + ip::v4::TOS],
        ttl: frame[at + ip::v4::TTL],
        protocol: frame[at + ip::v4::PROTOCOL],
        bth: Bth::default(),
    })
}

fn parse_v6(frame: &[u8], wire_len: usize, at: usize) -> Result<Parsed, ParseError> {
    if frame.len() < at + V6_HEADER_LEN || frame[at] >> 4 != 6 {
        return Err(ParseError::BadIpHeader);
    }
    let end = at + V6_HEADER_LEN + usize::from(be::get16(frame, at + ip::v6::PAYLOAD_LEN));
    if end > wire_len {
        return Err(ParseError::Truncated);
    }
    let (protocol, transport, is_fragment) = skip_extensions(frame, at, end)?;
    Ok(Parsed {
        kind: if is_fragment {
            Kind::Fragment
        } else {
            Kind::Plain
        },
        is_v6: true,
        network: at as u16,
        transport: transport as u16,
        payload: 0,
        end: end as u16,
        source: ip::v6_address(frame, at + ip::v6::SOURCE),
        destination: ip::v6_address(frame, at + ip::v6::DESTINATION),
        traffic_class: (be::get32(frame, at) >> 20) as u8,
        ttl: frame[at + ip::v6::HOP_LIMIT],
        protocol,
        bth: Bth::default(),
    })
}

/// Walks hop-by-hop (0), routing (43), fragment (44) and destination (60) headers (RFC 8200, 4).
fn skip_extensions(frame: &[u8], at: usize, end: usize) -> Result<(u8, usize, bool), ParseError> {
    let mut protocol = frame[at + ip::v6::NEXT_HEADER];
    let mut next = at + V6_HEADER_LEN;
    let mut is_fragment = false;
    let mut walked = 0;
    while matches!(protocol, 0 | 43 | 44 | 60) && !is_fragment {
        if walked == EXTENSIONS_MAX {
            return Err(ParseError::TooManyExtensions);
        }
        if next + 8 > end || next + 8 > frame.len() {
            return Err(ParseError::BadIpHeader);
        }
        is_fragment = protocol == 44;
        let len = if is_fragment {
            8
        } else {
            8 + usize::from(frame[next + 1]) * 8
        };
        protocol = frame[next];
        next += len;
        walked += 1;
    }
    if next > end {
        return Err(ParseError::BadIpHeader);
    }
    Ok((protocol, next, is_fragment))
}

#[inline(always)]
fn parse_transport(frame: &[u8], parsed: &mut Parsed, message_port: u16) -> Result<(), ParseError> {
    let at = usize::from(parsed.transport);
    let end = usize::from(parsed.end);
    if parsed.protocol != UDP {
        if parsed.protocol == 6 && at + 4 <= end.min(frame.len()) {
            parsed.kind = Kind::Ports;
        }
        return Ok(());
    }
    if at + UDP_HEADER_LEN > end || at + UDP_HEADER_LEN > frame.len() {
        return Err(ParseError::BadUdpLength);
    }
    let len = usize::from(be::get16(frame, at + 4));
    if len < UDP_HEADER_LEN || at + len > end {
        return Err(ParseError::BadUdpLength);
    }
    let port = be::get16(frame, at + 2);
    let payload = at + UDP_HEADER_LEN;
    parsed.payload = payload as u16;
    parsed.kind = if port == ROCE_PORT {
        // The header bytes of a whole BTH; on the wire the ICRC as well.
        if len < UDP_HEADER_LEN + bth::HEADER_LEN + bth::ICRC_LEN
            || frame.len() < payload + bth::HEADER_LEN
        {
            return Err(ParseError::BthCut);
        }
        parsed.bth = Bth::read(frame, payload);
        Kind::Roce
    } else if port == message_port {
        Kind::Message
    } else {
        Kind::Ports
    };
    Ok(())
}

/// Destination MAC of a frame that [`parse()`] accepted.
#[inline(always)]
pub fn destination_mac(frame: &[u8]) -> MacAddr {
    MacAddr::read(frame, ethernet::DESTINATION)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Ethernet, IPv4, UDP to `port`, then `payload` bytes of zero.
    fn udp4(port: u16, payload: usize) -> Vec<u8> {
        let mut frame = vec![0u8; 14 + 20 + 8 + payload];
        frame[12..14].copy_from_slice(&ethernet::IPV4.to_be_bytes());
        let fields = ip::IpFields {
            source: Address::v4(0x0a00_0001),
            destination: Address::v4(0x0a00_0101),
            traffic_class: 0,
            ttl: 64,
            payload_len: 8 + payload as u16,
        };
        ip::write(&mut frame[14..], &fields);
        ip::write_udp(&mut frame[34..], 0xc000, port, payload as u16);
        frame
    }

    fn kind(frame: &[u8]) -> Result<Kind, ParseError> {
        parse(frame, frame.len(), crate::message::DEFAULT_PORT).map(|p| p.kind)
    }

    #[test]
    fn kinds_are_told_by_port() {
        assert_eq!(kind(&udp4(ROCE_PORT, 16)), Ok(Kind::Roce));
        assert_eq!(
            kind(&udp4(crate::message::DEFAULT_PORT, 56)),
            Ok(Kind::Message)
        );
        assert_eq!(kind(&udp4(53, 0)), Ok(Kind::Ports));
        let mut fragment = udp4(ROCE_PORT, 16);
        fragment[20] = 0x20;
        assert_eq!(kind(&fragment), Ok(Kind::Fragment));
    }

    #[test]
    fn lengths_that_lie_are_errors() {
        assert_eq!(kind(&udp4(ROCE_PORT, 15)), Err(ParseError::BthCut));
        let mut frame = udp4(ROCE_PORT, 16);
        frame[17] += 1; // total length beyond the frame
        assert_eq!(kind(&frame), Err(ParseError::Truncated));
        let mut frame = udp4(ROCE_PORT, 16);
        frame[39] = 7; // UDP length below its header
        assert_eq!(kind(&frame), Err(ParseError::BadUdpLength));
        let mut frame = udp4(ROCE_PORT, 16);
        frame[14] = 0x44; // header of 16 bytes
        assert_eq!(kind(&frame), Err(ParseError::BadIpHeader));
        assert_eq!(kind(&[0; 13]), Err(ParseError::Runt));
    }

    #[test]
    fn padding_is_no_payload() {
        let mut frame = udp4(ROCE_PORT, 16);
        let end = frame.len();
        frame.resize(end + 20, 0);
        assert_eq!(usize::from(parse(&frame, frame.len(), 1).unwrap().end), end);
    }

    #[test]
    fn an_extension_chain_is_bounded() {
        let with_chain = |count: usize| {
            let mut frame = vec![0u8; 14 + 40 + 8 * count + 8 + 16];
            frame[12..14].copy_from_slice(&ethernet::IPV6.to_be_bytes());
            frame[14] = 0x60;
            frame[18..20].copy_from_slice(&((8 * count + 24) as u16).to_be_bytes());
            frame[20] = if count == 0 { UDP } else { 0 };
            for index in 0..count {
                frame[54 + 8 * index] = if index + 1 == count { UDP } else { 60 };
            }
            ip::write_udp(&mut frame[54 + 8 * count..], 1, ROCE_PORT, 16);
            frame
        };
        for count in 0..=EXTENSIONS_MAX {
            assert_eq!(
                kind(&with_chain(count)),
                Ok(Kind::Roce),
                "{count} extension headers"
            );
        }
        assert_eq!(
            kind(&with_chain(EXTENSIONS_MAX + 1)),
            Err(ParseError::TooManyExtensions)
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 4096 }))]

        /// Whatever the bytes: no panic, and offsets that lie in order inside the frame.
        #[test]
        fn any_frame_is_parsed_within_its_bounds(
            mut frame in proptest::collection::vec(any::<u8>(), 0..160), shape in 0usize..4, flips in any::<[u8; 4]>(),
        ) {
            if shape > 0 {
                let mut real = udp4(if shape == 1 { ROCE_PORT } else { crate::message::DEFAULT_PORT }, 80);
                if shape == 3 { real[13] = 0xdd; real[12] = 0x86; real[14] = 0x60; }
                for (index, flip) in flips.iter().enumerate() {
                    real[12 + usize::from(*flip) % 40] ^= 1 << (index * 2);
                }
                frame = real;
            }
            let parsed = parse(&frame, frame.len(), crate::message::DEFAULT_PORT);
            if let Some(common) = parse_common(&frame, frame.len()) {
                let any = parse_any(&frame, frame.len(), crate::message::DEFAULT_PORT);
                prop_assert_eq!(any, Ok(common), "the shortcut says what the walk says");
            }
            if let Ok(p) = parsed {
                prop_assert!(p.network <= p.transport && p.transport <= p.end && usize::from(p.end) <= frame.len());
                if p.kind == Kind::Roce {
                    prop_assert!(p.payload + 16 <= p.end);
                }
            }
        }
    }
}
