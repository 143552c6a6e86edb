//! Ethernet and VLAN tags: addresses, Ethertypes, the fields that a router rewrites.

use std::fmt;
use std::str::FromStr;

use crate::be;

/// Destination address, 6 bytes at 0.
pub const DESTINATION: usize = 0;
/// Source address, 6 bytes at 6.
pub const SOURCE: usize = 6;
/// First Ethertype, 2 bytes at 12.
pub const ETHERTYPE: usize = 12;
/// Length of an untagged header.
pub const HEADER_LEN: usize = 14;
/// Length of one VLAN tag.
pub const TAG_LEN: usize = 4;
/// VLAN tags of a host that are carried through; a third one is no IP packet to us.
pub const TAGS_MAX: usize = 2;

/// Ethertypes, IEEE registry.
pub const IPV4: u16 = 0x0800;
/// ARP.
pub const ARP: u16 = 0x0806;
/// 802.1Q customer tag.
pub const VLAN: u16 = 0x8100;
/// 802.1ad service tag.
pub const QINQ: u16 = 0x88a8;
/// IPv6.
pub const IPV6: u16 = 0x86dd;
/// RoCE version 1 (not routable, so never forwarded here).
pub const ROCE_V1: u16 = 0x8915;

/// The VLAN tags of a frame whose network header begins at `network`: a multiple of [`TAG_LEN`] bytes.
pub fn tags(frame: &[u8], network: usize) -> &[u8] {
    let end = network.saturating_sub(2).max(ETHERTYPE);
    frame.get(ETHERTYPE..end).unwrap_or(&[])
}

/// Puts tags, as [`tags`] gives them, on a frame that stands behind `tags.len()` free bytes of `out`.
/// The priority in each (PCP, DEI) becomes 0.
pub fn put_tags(out: &mut [u8], tags: &[u8]) {
    out.copy_within(tags.len()..tags.len() + ETHERTYPE, 0);
    let place = &mut out[ETHERTYPE..ETHERTYPE + tags.len()];
    place.copy_from_slice(tags);
    for tag in place.chunks_exact_mut(TAG_LEN) {
        tag[2] &= 0x0f;
    }
}

/// A MAC address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// The address of all stations.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);

    /// Whether the group bit is set (broadcast included).
    #[inline(always)]
    pub fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// Reads the six bytes at `at`; the caller has checked the length.
    #[inline(always)]
    pub fn read(bytes: &[u8], at: usize) -> MacAddr {
        let mut mac = [0; 6];
        mac.copy_from_slice(&bytes[at..at + 6]);
        MacAddr(mac)
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MacAddr {
    type Err = String;

    fn from_str(text: &str) -> Result<MacAddr, String> {
        let wrong = || format!("\"{text}\" is no MAC address; write it like 02:00:00:00:00:01");
        let mut mac = [0; 6];
        let mut parts = text.split(':');
        for byte in &mut mac {
            let part = parts.next().ok_or_else(wrong)?;
            if part.len() != 2 || !part.bytes().all(|c| c.is_ascii_hexdigit()) {
                return Err(wrong());
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| wrong())?;
        }
        if parts.next().is_some() {
            return Err(wrong());
        }
        Ok(MacAddr(mac))
    }
}

/// Writes destination and source of a frame; its header must be there.
#[inline(always)]
pub fn set_addresses(frame: &mut [u8], destination: MacAddr, source: MacAddr) {
    let header = &mut frame[..HEADER_LEN];
    header[DESTINATION..DESTINATION + 6].copy_from_slice(&destination.0);
    header[SOURCE..SOURCE + 6].copy_from_slice(&source.0);
}

/// The Ethertype behind all VLAN tags and the offset of what follows it.
///
/// `None` when the frame ends inside the tags. More than [`TAGS_MAX`] tags leave a tag's
/// Ethertype as the answer, which no caller takes for a network protocol.
#[inline(always)]
pub fn network(frame: &[u8]) -> Option<(u16, usize)> {
    if frame.len() < HEADER_LEN {
        return None;
    }
    let mut kind = be::get16(frame, ETHERTYPE);
    let mut at = HEADER_LEN;
    let mut tags = 0;
    while (kind == VLAN || kind == QINQ) && tags < TAGS_MAX {
        if frame.len() < at + TAG_LEN {
            return None;
        }
        kind = be::get16(frame, at + 2);
        at += TAG_LEN;
        tags += 1;
    }
    Some((kind, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tags that one frame has are put on another, with their ids and without their priorities.
    #[test]
    fn tags_go_from_frame_to_frame() {
        let both = [0x88, 0xa8, 0xe0, 0x05, 0x81, 0x00, 0x30, 0x1e];
        let mut frame = [7u8; 30];
        frame[12..20].copy_from_slice(&both);
        assert_eq!(tags(&frame, 22), both);
        assert!(tags(&frame, 14).is_empty() && tags(&frame, 0).is_empty());
        assert!(tags(&frame[..15], 22).is_empty());
        let mut out = [0xeeu8; 24];
        out[8..20].copy_from_slice(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        put_tags(&mut out, tags(&frame, 22));
        assert_eq!(out[..12], [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
        assert_eq!(out[12..20], [0x88, 0xa8, 0, 5, 0x81, 0, 0, 0x1e]);
        assert_eq!(out[20..], [0xee; 4]);
    }

    #[test]
    fn mac_addresses_are_read_and_shown_alike() {
        let mac: MacAddr = "02:00:0a:FF:00:01".parse().unwrap();
        assert_eq!(mac.to_string(), "02:00:0a:ff:00:01");
        for wrong in [
            "",
            "02:00:0a:ff:00",
            "02:00:0a:ff:00:01:02",
            "2:0:a:f:0:1",
            "zz:00:00:00:00:00",
            "+2:00:00:00:00:00",
        ] {
            assert!(
                wrong.parse::<MacAddr>().is_err(),
                "{wrong:?} was taken for a MAC address"
            );
        }
    }

    #[test]
    fn tags_are_skipped_and_their_end_is_checked() {
        let mut frame = [0u8; 22];
        frame[12..14].copy_from_slice(&QINQ.to_be_bytes());
        frame[16..18].copy_from_slice(&VLAN.to_be_bytes());
        frame[20..22].copy_from_slice(&IPV4.to_be_bytes());
        assert_eq!(network(&frame), Some((IPV4, 22)));
        for len in 0..22 {
            assert_eq!(
                network(&frame[..len]),
                None,
                "a frame of {len} bytes has no whole tag stack"
            );
        }
    }
}
