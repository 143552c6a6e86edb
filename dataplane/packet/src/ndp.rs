//! IPv6 neighbour discovery (RFC 4861): solicitations and advertisements, read with all the checks
//! that section 7.1 asks for, and written.

use crate::ethernet::{self, MacAddr};
use crate::ip::{self, Address, ICMPV6, IpFields, V6_HEADER_LEN};
use crate::parse::{Kind, Parsed};
use crate::{be, checksum};

/// All nodes of a link, `ff02::1`.
pub const ALL_NODES: Address = Address(0xff02 << 112 | 1);

const ROUTER_SOLICITATION: u8 = 133;
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const REDIRECT: u8 = 137;

/// Type, code, checksum, flags and target.
const HEADER_LEN: usize = 24;
/// A link-layer address option, kind, length in eights of bytes, address.
const OPTION_LEN: usize = 8;
const SOURCE_OPTION: u8 = 1;
const TARGET_OPTION: u8 = 2;
/// Bytes behind Ethernet and its tags of what is written here.
pub const PACKET_LEN: usize = V6_HEADER_LEN + HEADER_LEN + OPTION_LEN;
/// Length of the frame that [`write_solicitation`] makes.
pub const FRAME_LEN: usize = ethernet::HEADER_LEN + PACKET_LEN;

/// The only hop limit that is believed: nothing that was forwarded has it.
const HOP_LIMIT: u8 = 255;

/// The sender is a router.
const ROUTER: u8 = 0x80;
/// In answer to a solicitation of one station.
const SOLICITED: u8 = 0x40;
/// Goes over what the receiver knew before.
const OVERRIDE: u8 = 0x20;

/// A message of neighbour discovery that has passed all checks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Discovery {
    /// Who has `target`?
    Solicitation {
        /// The address that is asked for.
        target: Address,
        /// The asker's hardware address, if it tells it.
        source_mac: Option<MacAddr>,
    },
    /// `target` is at `mac`.
    Advertisement {
        /// The address.
        target: Address,
        /// Its hardware address, if told.
        mac: Option<MacAddr>,
    },
    /// Is there a router?
    RouterSolicitation,
}

/// Whether a parsed packet is of neighbour discovery, whatever its worth: such a packet never
/// leaves its link.
#[inline]
pub fn is_discovery(frame: &[u8], parsed: &Parsed) -> bool {
    parsed.is_v6
        && parsed.protocol == ICMPV6
        && parsed.kind == Kind::Plain
        && matches!(
            frame.get(usize::from(parsed.transport)),
            Some(ROUTER_SOLICITATION..=REDIRECT)
        )
}

/// Reads the packet of [`is_discovery`]; `None` when any check fails, or it is of another type.
pub fn read(frame: &[u8], parsed: &Parsed) -> Option<Discovery> {
    let at = usize::from(parsed.transport);
    let message = frame.get(at..usize::from(parsed.end))?;
    let is_basic = at == usize::from(parsed.network) + V6_HEADER_LEN;
    if !is_basic || parsed.ttl != HOP_LIMIT || message.len() < 8 || message[1] != 0 {
        return None;
    }
    let sum = checksum::pseudo_v6(parsed.source, parsed.destination, message.len(), ICMPV6);
    if checksum::finish(checksum::add(sum, message)) != 0 {
        return None;
    }
    if message[0] == ROUTER_SOLICITATION {
        return Some(Discovery::RouterSolicitation);
    }
    if message.len() < HEADER_LEN {
        return None;
    }
    let target = ip::v6_address(message, 8);
    if is_multicast(target) {
        return None;
    }
    match message[0] {
        SOLICITATION => {
            let source_mac = option(&message[HEADER_LEN..], SOURCE_OPTION)?;
            // Duplicate address detection asks all that could have it, and tells nothing.
            let is_probe = parsed.source == Address(0);
            if is_probe && (parsed.destination != solicited_node(target) || source_mac.is_some()) {
                return None;
            }
            Some(Discovery::Solicitation { target, source_mac })
        }
        ADVERTISEMENT => {
            if is_multicast(parsed.destination) && message[4] & SOLICITED != 0 {
                return None;
            }
            let mac = option(&message[HEADER_LEN..], TARGET_OPTION)?;
            Some(Discovery::Advertisement { target, mac })
        }
        _ => None,
    }
}

/// The link-layer address in the option of such a kind, if it is there; `None` when the options
/// are malformed.
fn option(mut options: &[u8], kind: u8) -> Option<Option<MacAddr>> {
    let mut found = None;
    while !options.is_empty() {
        let len = usize::from(*options.get(1)?) * 8;
        if len == 0 || len > options.len() {
            return None;
        }
        if options[0] == kind && len == OPTION_LEN {
            found = Some(MacAddr::read(options, 2));
        }
        options = &options[len..];
    }
    Some(found)
}

fn is_multicast(address: Address) -> bool {
    address.0 >> 120 == 0xff
}

/// The multicast address that whoever has `target` listens to (RFC 4291, 2.7.1).
pub fn solicited_node(target: Address) -> Address {
    Address(0xff02 << 112 | 0x1_ff00_0000 | target.0 & 0xff_ffff)
}

/// The MAC address of an IPv6 multicast address (RFC 2464, 7).
pub fn multicast_mac(address: Address) -> MacAddr {
    let [a, b, c, d] = (address.0 as u32).to_be_bytes();
    MacAddr([0x33, 0x33, a, b, c, d])
}

/// The link-local address of a port with that MAC address (RFC 4291, appendix A).
pub fn link_local(mac: MacAddr) -> Address {
    let [a, b, c, d, e, f] = mac.0;
    let id = u64::from_be_bytes([a ^ 2, b, c, 0xff, 0xfe, d, e, f]);
    Address(0xfe80 << 112 | u128::from(id))
}

/// Whether an address is link-local (RFC 4291, 2.5.6).
pub fn is_link_local(address: Address) -> bool {
    address.0 >> 118 == 0xfe80 >> 6
}

/// What [`write_advertisement`] says.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// The address that was asked for.
    pub target: Address,
    /// Where packets to it go.
    pub mac: MacAddr,
    /// The answering router's own address.
    pub source: Address,
    /// Who asked; [`ALL_NODES`] for one that has no address yet.
    pub destination: Address,
    /// The target is the router's own: the answer goes over what was known. For the address of
    /// another, for which the router stands in, it does not (RFC 4861, 7.2.8).
    pub is_own: bool,
}

/// Writes the answer into `out`: behind `link`, the Ethernet header and tags of the question, the
/// [`PACKET_LEN`] bytes of the advertisement. It goes to the MAC address `to`.
pub fn write_advertisement(out: &mut [u8], link: &[u8], to: MacAddr, answer: &Answer) {
    out[..link.len()].copy_from_slice(link);
    ethernet::set_addresses(out, to, answer.mac);
    let solicited = if answer.destination == ALL_NODES {
        0
    } else {
        SOLICITED
    };
    let over = if answer.is_own { OVERRIDE } else { 0 };
    write(
        &mut out[link.len()..],
        (answer.source, answer.destination),
        (ADVERTISEMENT, ROUTER | solicited | over),
        answer.target,
        (TARGET_OPTION, answer.mac),
    );
}

/// Writes the frame, of [`FRAME_LEN`], in which a port with the address `source` and `mac` asks who
/// has `target`: the one that last had it, if known, else all that could.
pub fn write_solicitation(
    out: &mut [u8],
    known: Option<MacAddr>,
    mac: MacAddr,
    source: Address,
    target: Address,
) {
    let group = solicited_node(target);
    let (to, destination) = match known {
        Some(known) => (known, target),
        None => (multicast_mac(group), group),
    };
    ethernet::set_addresses(out, to, mac);
    be::put16(out, ethernet::ETHERTYPE, ethernet::IPV6);
    write(
        &mut out[ethernet::HEADER_LEN..],
        (source, destination),
        (SOLICITATION, 0),
        target,
        (SOURCE_OPTION, mac),
    );
}

fn write(
    out: &mut [u8],
    (source, destination): (Address, Address),
    (kind, flags): (u8, u8),
    target: Address,
    (option, mac): (u8, MacAddr),
) {
    let fields = IpFields {
        source,
        destination,
        traffic_class: 0,
        ttl: HOP_LIMIT,
        payload_len: (HEADER_LEN + OPTION_LEN) as u16,
    };
    ip::write_carrying(out, &fields, ICMPV6);
    let message = &mut out[V6_HEADER_LEN..PACKET_LEN];
    message.fill(0);
    message[0] = kind;
    message[4] = flags;
    message[8..24].copy_from_slice(&target.0.to_be_bytes());
    message[24..26].copy_from_slice(&[option, 1]);
    message[26..32].copy_from_slice(&mac.0);
    let sum = checksum::pseudo_v6(source, destination, message.len(), ICMPV6);
    let sum = checksum::finish(checksum::add(sum, message));
    be::put16(message, 2, sum);
}

#[cfg(test)]
mod tests;
