//! ICMP (RFC 792) and ICMPv6 (RFC 4443): the echo that a switch answers, the errors that it sends,
//! and which packets must not be answered at all.

use crate::ethernet::{self, MacAddr};
use crate::ip::{self, Address, ICMP, ICMPV6, IpFields, V4_HEADER_LEN, V6_HEADER_LEN};
use crate::parse::{Kind, Parsed};
use crate::{be, checksum};

/// Header of an error, and of an echo: type, code, checksum and four more bytes.
pub const HEADER_LEN: usize = 8;
/// Longest ICMP error as an IP packet (RFC 1812, 4.3.2.3).
pub const V4_ERROR_LEN_MAX: usize = 576;
/// Longest ICMPv6 error as an IP packet: the least MTU of IPv6 (RFC 4443, 2.4 c).
pub const V6_ERROR_LEN_MAX: usize = 1280;
/// Longest frame of an error, VLAN tags included.
pub const ERROR_FRAME_MAX: usize =
    ethernet::HEADER_LEN + ethernet::TAGS_MAX * ethernet::TAG_LEN + V6_ERROR_LEN_MAX;

/// TTL of what a switch itself sends.
pub const TTL: u8 = 64;

/// ICMP types.
mod v4 {
    pub(super) const ECHO_REPLY: u8 = 0;
    pub(super) const UNREACHABLE: u8 = 3;
    pub(super) const ECHO_REQUEST: u8 = 8;
    pub(super) const TIME_EXCEEDED: u8 = 11;
    pub(super) const TIMESTAMP: u8 = 13;
    pub(super) const TIMESTAMP_REPLY: u8 = 14;
}

/// ICMPv6 types.
mod v6 {
    pub(super) const UNREACHABLE: u8 = 1;
    pub(super) const TOO_BIG: u8 = 2;
    pub(super) const TIME_EXCEEDED: u8 = 3;
    /// From here on messages are no errors.
    pub(super) const INFORMATIONAL: u8 = 128;
    pub(super) const ECHO_REQUEST: u8 = 128;
    pub(super) const ECHO_REPLY: u8 = 129;
    pub(super) const REDIRECT: u8 = 137;
}

/// What a switch tells the sender of a packet that it dropped.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Error {
    /// TTL or hop limit used up on the way.
    TimeExceeded,
    /// There is no route.
    NoRoute,
    /// Nothing listens there.
    NoPort,
    /// The next link takes only packets of that many bytes (RFC 1191, 4; RFC 4443, 3.2).
    TooBig {
        /// Bytes of the largest packet.
        mtu: u32,
    },
}

impl Error {
    /// Type and code.
    fn numbers(self, is_v6: bool) -> (u8, u8) {
        match (self, is_v6) {
            (Error::TimeExceeded, false) => (v4::TIME_EXCEEDED, 0),
            (Error::TimeExceeded, true) => (v6::TIME_EXCEEDED, 0),
            (Error::NoRoute, false) => (v4::UNREACHABLE, 0),
            (Error::NoRoute, true) => (v6::UNREACHABLE, 0),
            (Error::NoPort, false) => (v4::UNREACHABLE, 3),
            (Error::NoPort, true) => (v6::UNREACHABLE, 4),
            (Error::TooBig { .. }, false) => (v4::UNREACHABLE, 4),
            (Error::TooBig { .. }, true) => (v6::TOO_BIG, 0),
        }
    }
}

/// Whether the IP header has nothing behind it that would have to be worked through.
fn is_basic(parsed: &Parsed) -> bool {
    let len = if parsed.is_v6 {
        V6_HEADER_LEN
    } else {
        V4_HEADER_LEN
    };
    usize::from(parsed.transport) == usize::from(parsed.network) + len
}

/// Whether a parsed packet is an echo request, whole, without options or extension headers.
pub fn is_echo_request(frame: &[u8], parsed: &Parsed) -> bool {
    let at = usize::from(parsed.transport);
    if parsed.kind != Kind::Plain
        || !is_basic(parsed)
        || at + HEADER_LEN > usize::from(parsed.end).min(frame.len())
    {
        return false;
    }
    let request = if parsed.is_v6 {
        (ICMPV6, v6::ECHO_REQUEST)
    } else {
        (ICMP, v4::ECHO_REQUEST)
    };
    (parsed.protocol, frame[at]) == request && frame[at + 1] == 0
}

/// Turns the echo request that [`is_echo_request`] found into its reply; the MAC addresses are left
/// to the caller. The reply has the request's DSCP and is not ECN-capable (RFC 3168, 6.1.5 has no
/// use for it). A wrong ICMP checksum stays wrong by the same amount.
pub fn answer_echo(frame: &mut [u8], parsed: &Parsed) {
    let at = usize::from(parsed.network);
    let icmp = usize::from(parsed.transport);
    let reply = if parsed.is_v6 {
        v6::ECHO_REPLY
    } else {
        v4::ECHO_REPLY
    };
    let old = be::get16(frame, icmp);
    frame[icmp] = reply;
    // Exchanging the addresses changes no sum.
    let sum = checksum::mend(be::get16(frame, icmp + 2), old, be::get16(frame, icmp));
    be::put16(frame, icmp + 2, sum);
    let (first, len) = if parsed.is_v6 {
        (at + ip::v6::SOURCE, 16)
    } else {
        (at + ip::v4::SOURCE, 4)
    };
    let (source, destination) = frame[first..first + 2 * len].split_at_mut(len);
    source.swap_with_slice(destination);
    if parsed.is_v6 {
        frame[at + ip::v6::HOP_LIMIT] = TTL;
        frame[at + 1] &= !(crate::ecn::CE << 4);
    } else {
        frame[at + ip::v4::TTL] = TTL;
        frame[at + ip::v4::TOS] &= !crate::ecn::CE;
        let sum = ip::v4_checksum(&frame[at..at + V4_HEADER_LEN]);
        be::put16(frame, at + ip::v4::CHECKSUM, sum);
    }
}

/// Whether an address names one station.
fn is_unicast(address: Address, is_v6: bool) -> bool {
    match (is_v6, address.as_v4()) {
        // 0/8 and 127/8 are this network and this host, 224/3 is multicast, reserved, broadcast.
        (false, Some(number)) => !matches!(number >> 24, 0 | 127 | 224..),
        // The unspecified address, loopback, and multicast.
        (true, None) => address.0 > 1 && address.0 >> 120 != 0xff,
        // An IPv4 address in an IPv6 header is not for a wire.
        (false, None) | (true, Some(_)) => false,
    }
}

/// Whether an error may be sent in answer to this packet (RFC 1122, 3.2.2; RFC 4443, 2.4 e): not
/// to an error, not to a later fragment, not to or from what is not one station.
pub fn may_be_answered(frame: &[u8], parsed: &Parsed) -> bool {
    let at = usize::from(parsed.network);
    let transport = usize::from(parsed.transport);
    if !is_unicast(parsed.source, parsed.is_v6) || !is_unicast(parsed.destination, parsed.is_v6) {
        return false;
    }
    if parsed.kind == Kind::Fragment {
        // The offset, in the IPv4 header or in the fragment header before the transport.
        let offset = if parsed.is_v6 {
            be::get16(frame, transport - 6) & 0xfff8
        } else {
            be::get16(frame, at + ip::v4::FRAGMENT) & 0x1fff
        };
        if offset != 0 {
            return false;
        }
    }
    let is_icmp = parsed.protocol == if parsed.is_v6 { ICMPV6 } else { ICMP };
    if !is_icmp {
        return true;
    }
    // Of ICMP itself only what is known to be no error; a header that is cut is not known.
    match frame[..usize::from(parsed.end).min(frame.len())].get(transport) {
        Some(&kind) if parsed.is_v6 => kind >= v6::INFORMATIONAL && kind != v6::REDIRECT,
        Some(&kind) => matches!(
            kind,
            v4::ECHO_REQUEST | v4::ECHO_REPLY | v4::TIMESTAMP | v4::TIMESTAMP_REPLY
        ),
        None => false,
    }
}

/// Bytes of the offending packet that an error quotes: as many as are at hand and fit.
fn quoted(frame: &[u8], parsed: &Parsed) -> usize {
    let most = if parsed.is_v6 {
        V6_ERROR_LEN_MAX - V6_HEADER_LEN - HEADER_LEN
    } else {
        V4_ERROR_LEN_MAX - V4_HEADER_LEN - HEADER_LEN
    };
    let whole = usize::from(parsed.end).min(frame.len()) - usize::from(parsed.network);
    whole.min(most)
}

/// Length of the frame that [`write_error`] makes.
pub fn error_len(frame: &[u8], parsed: &Parsed) -> usize {
    usize::from(parsed.network)
        + ip::header_len_of(parsed.is_v6)
        + HEADER_LEN
        + quoted(frame, parsed)
}

/// Writes the error about the packet in `frame` into `out`, which is of [`error_len`]: from
/// `source`, of the packet's family, to the packet's own source, between the MAC addresses
/// (`to`, `from`), with the packet's VLAN tags and DSCP.
pub fn write_error(
    out: &mut [u8],
    frame: &[u8],
    parsed: &Parsed,
    error: Error,
    source: Address,
    (to, from): (MacAddr, MacAddr),
) {
    let at = usize::from(parsed.network);
    let quote = quoted(frame, parsed);
    out[..at].copy_from_slice(&frame[..at]);
    ethernet::set_addresses(out, to, from);
    let fields = IpFields {
        source,
        destination: parsed.source,
        traffic_class: parsed.traffic_class & !crate::ecn::CE,
        ttl: TTL,
        payload_len: (HEADER_LEN + quote) as u16,
    };
    let protocol = if parsed.is_v6 { ICMPV6 } else { ICMP };
    let icmp = at + ip::write_carrying(&mut out[at..], &fields, protocol);
    let message = &mut out[icmp..icmp + HEADER_LEN + quote];
    message[..HEADER_LEN].fill(0);
    (message[0], message[1]) = error.numbers(parsed.is_v6);
    if let Error::TooBig { mtu } = error {
        // Of IPv4 the upper half stays zero: an MTU is of 16 bits there.
        message[4..HEADER_LEN].copy_from_slice(&mtu.to_be_bytes());
    }
    message[HEADER_LEN..].copy_from_slice(&frame[at..at + quote]);
    let pseudo = if parsed.is_v6 {
        checksum::pseudo_v6(source, parsed.source, message.len(), ICMPV6)
    } else {
        0
    };
    let sum = checksum::finish(checksum::add(pseudo, message));
    be::put16(message, 2, sum);
}

#[cfg(test)]
mod tests;
