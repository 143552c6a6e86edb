//! Congestion Experienced (RFC 3168): set by a congested queue, and by the `ecn` fault of a link.

use crate::{be, checksum, ethernet, ip};

/// The two ECN bits of the traffic class; both set: Congestion Experienced.
pub const CE: u8 = 0b11;

/// Sets Congestion Experienced in an ECN-capable packet and mends the IPv4 checksum. True when the
/// packet was changed: one that is not ECN-capable is left alone, and so is one that has it.
///
/// The ICRC of RoCEv2 stays right: it masks the traffic class and the checksum.
pub fn mark(frame: &mut [u8]) -> bool {
    let Some((kind, at)) = ethernet::network(frame) else {
        return false;
    };
    if kind == ethernet::IPV4 && frame.len() >= at + ip::V4_HEADER_LEN {
        let class = frame[at + ip::v4::TOS];
        if class & CE == 0 || class & CE == CE {
            return false;
        }
        // The first word: version, header length and the class.
        let old = be::get16(frame, at);
        frame[at + ip::v4::TOS] = class | CE;
        let sum = checksum::mend(
            be::get16(frame, at + ip::v4::CHECKSUM),
            old,
            be::get16(frame, at),
        );
        be::put16(frame, at + ip::v4::CHECKSUM, sum);
        return true;
    }
    if kind == ethernet::IPV6 && frame.len() >= at + ip::V6_HEADER_LEN {
        // The class straddles two bytes; its ECN bits are bits 5 and 4 of the second.
        let bits = frame[at + 1] >> 4 & CE;
        if bits == 0 || bits == CE {
            return false;
        }
        frame[at + 1] |= CE << 4;
        return true;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;
    use crate::ip::IpFields;

    fn fields(source: Address, destination: Address, traffic_class: u8) -> IpFields {
        IpFields {
            source,
            destination,
            traffic_class,
            ttl: 9,
            payload_len: 0,
        }
    }

    /// What a class becomes, and whether that is a change.
    fn expected(class: u8) -> (u8, bool) {
        match class & CE {
            0 | CE => (class, false),
            _ => (class | CE, true),
        }
    }

    #[test]
    fn only_capable_packets_are_marked_and_the_checksum_stays_right() {
        for class in 0..=255u8 {
            for tags in 0..3 {
                let at = 14 + 4 * tags;
                let mut frame = vec![0u8; at + 20];
                for tag in 0..tags {
                    be::put16(&mut frame, 12 + 4 * tag, ethernet::VLAN);
                }
                be::put16(&mut frame, at - 2, ethernet::IPV4);
                let (source, destination) = (Address::v4(0x0a00_0001), Address::v4(0x0a01_0001));
                ip::write(&mut frame[at..], &fields(source, destination, class));
                let (marked, changed) = expected(class);
                assert_eq!(mark(&mut frame), changed);
                assert_eq!(frame[at + 1], marked);
                assert_eq!(
                    be::get16(&frame, at + 10),
                    ip::v4_checksum(&frame[at..]),
                    "class {class}"
                );
            }
        }
    }

    #[test]
    fn ipv6_is_marked_and_everything_else_left_alone() {
        for class in 0..=255u8 {
            let mut frame = [0u8; 54];
            be::put16(&mut frame, 12, ethernet::IPV6);
            ip::write(&mut frame[14..], &fields(Address(1), Address(2), class));
            let (marked, changed) = expected(class);
            assert_eq!(mark(&mut frame), changed);
            assert_eq!((be::get32(&frame, 14) >> 20) as u8, marked);
            assert_eq!(frame[14] >> 4, 6);
        }
        let mut arp = [0xffu8; 42];
        be::put16(&mut arp, 12, ethernet::ARP);
        let before = arp;
        assert!(!mark(&mut arp) && arp == before);
        assert!(!mark(&mut [0; 13]));
    }
}
