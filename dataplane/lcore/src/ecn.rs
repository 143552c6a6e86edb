//! Sets Congestion Experienced in a frame (RFC 3168), as the `ecn` fault and a congested queue do.

use packet::{be, ethernet, ip};

/// Congestion Experienced.
const CE: u8 = 0b11;

/// Marks an ECN-capable IP packet and mends the IPv4 checksum; leaves all others alone.
pub fn mark(frame: &mut [u8]) {
    let Some((kind, at)) = ethernet::network(frame) else {
        return;
    };
    if kind == ethernet::IPV4 && frame.len() >= at + ip::V4_HEADER_LEN {
        if frame[at + ip::v4::TOS] & CE != 0 {
            frame[at + ip::v4::TOS] |= CE;
            let header_len = usize::from(frame[at] & 0x0f) * 4;
            if let Some(header) = frame.get(at..at + header_len) {
                let sum = ip::v4_checksum(header);
                be::put16(frame, at + ip::v4::CHECKSUM, sum);
            }
        }
    } else if kind == ethernet::IPV6 && frame.len() >= at + ip::V6_HEADER_LEN {
        // The class straddles two bytes; its ECN bits are bits 5 and 4 of the second.
        if frame[at + 1] & 0x30 != 0 {
            frame[at + 1] |= 0x30;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::Address;
    use packet::ip::IpFields;

    #[test]
    fn only_capable_packets_are_marked_and_the_checksum_stays_right() {
        for class in 0..=255u8 {
            let mut frame = [0u8; 34];
            be::put16(&mut frame, 12, ethernet::IPV4);
            let fields = IpFields {
                source: Address::v4(1),
                destination: Address::v4(2),
                traffic_class: class,
                ttl: 9,
                payload_len: 0,
            };
            ip::write(&mut frame[14..], &fields);
            mark(&mut frame);
            let expected = if class & CE == 0 { class } else { class | CE };
            assert_eq!(frame[15], expected);
            assert_eq!(be::get16(&frame, 24), ip::v4_checksum(&frame[14..]));
        }
    }
}
