//! The invariant CRC of RoCEv2: CRC-32 over what no switch may change (IBTA annex A17).
//!
//! Covered: eight bytes of ones in place of the InfiniBand local route header, the IP and UDP
//! headers, the BTH and all behind it. Fields that routers change count as ones: TTL, type of
//! service and checksum of IPv4; traffic class, flow label and hop limit of IPv6; the UDP
//! checksum; byte 4 of the BTH.

use crate::bth;
use crate::ip::{UDP_HEADER_LEN, V4_HEADER_LEN, V6_HEADER_LEN};

/// Longest prefix that has masked bytes: IPv4 with all options, UDP, BTH up to byte 4.
const MASKED_MAX: usize = 60 + UDP_HEADER_LEN + bth::RESV8A + 1;

/// The ICRC of a datagram, as it stands on the wire (little endian).
///
/// `datagram` runs from the IP header to the last byte before the ICRC; `udp_at` is the offset of
/// its UDP header. `None` when that is no IPv4 header of 20 to 60 bytes or plain IPv6 header with
/// UDP and BTH behind it: extension headers have no agreed mask.
pub fn icrc(datagram: &[u8], udp_at: usize) -> Option<[u8; 4]> {
    let masked_len = udp_at + UDP_HEADER_LEN + bth::RESV8A + 1;
    if masked_len > MASKED_MAX || datagram.len() < masked_len {
        return None;
    }
    let mut head = [0xffu8; 8 + MASKED_MAX];
    let masked = &mut head[8..8 + masked_len];
    masked.copy_from_slice(&datagram[..masked_len]);
    match (masked[0] >> 4, udp_at) {
        (4, V4_HEADER_LEN..=60) => {
            for at in [1, 8, 10, 11] {
                masked[at] = 0xff;
            }
        }
        (6, V6_HEADER_LEN) => {
            masked[0] |= 0x0f;
            for at in [1, 2, 3, 7] {
                masked[at] = 0xff;
            }
        }
        _ => return None,
    }
    for at in [
        udp_at + 6,
        udp_at + 7,
        udp_at + UDP_HEADER_LEN + bth::RESV8A,
    ] {
        masked[at] = 0xff;
    }
    let mut crc = crc32fast::Hasher::new();
    crc.update(&head[..8 + masked_len]);
    crc.update(&datagram[masked_len..]);
    Some(crc.finalize().to_le_bytes())
}

/// Whether the last four bytes of `datagram` (IP header to ICRC) are its right ICRC.
pub fn is_right(datagram: &[u8], udp_at: usize) -> bool {
    let Some(end) = datagram.len().checked_sub(bth::ICRC_LEN) else {
        return false;
    };
    icrc(&datagram[..end], udp_at).is_some_and(|right| right == datagram[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SEND Only of a Soft-RoCE sender, taken from a capture of two Linux guests.
    fn frame_of_a_real_stack() -> Vec<u8> {
        let path = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../../tests/corpus/rxe-rc-short.pcap"
        );
        let file = std::fs::read(path).expect("the corpus is part of the repository");
        let len = u32::from_le_bytes(file[32..36].try_into().unwrap()) as usize;
        file[40..40 + len].to_vec()
    }

    #[test]
    fn agrees_with_a_real_stack_and_ignores_what_routers_change() {
        let frame = frame_of_a_real_stack();
        let mut datagram = frame[14..].to_vec();
        assert!(is_right(&datagram, 20), "the sender's own ICRC");
        for (at, what) in [
            (1, "type of service"),
            (8, "TTL"),
            (10, "checksum"),
            (26, "UDP checksum"),
            (32, "BTH byte 4"),
        ] {
            datagram[at] ^= 0x01;
            assert!(is_right(&datagram, 20), "{what} is no part of the ICRC");
        }
        datagram[36] ^= 0x01;
        assert!(!is_right(&datagram, 20), "BTH byte 8 is a part of the ICRC");
    }

    #[test]
    fn nonsense_has_no_icrc() {
        assert_eq!(icrc(&[0x45; 30], 20), None, "ends before the BTH");
        assert_eq!(icrc(&[0x65; 80], 48), None, "extension header");
        assert_eq!(icrc(&[0x15; 80], 20), None, "no IP version");
        assert!(!is_right(&[], 0));
    }
}
