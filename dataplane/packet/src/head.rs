//! The common shape of a frame as a few words: RoCEv2 over untagged IPv4, neither options nor
//! fragments.
//!
//! All offsets are constants, so one length check and a handful of masked loads tell the shape and
//! the flow. What has another shape, right or wrong, is for [`crate::parse()`].

use crate::bth::{Opcode, Psn, Qpn};
use crate::ip::{Address, UDP_HEADER_LEN, V4_HEADER_LEN};
use crate::{ROCE_PORT, be, bth, ethernet};

const NETWORK: usize = ethernet::HEADER_LEN;
const TRANSPORT: usize = NETWORK + V4_HEADER_LEN;

/// Offset of the BTH.
pub const BTH_AT: usize = TRANSPORT + UDP_HEADER_LEN;
/// Length of all headers.
pub const HEAD_LEN: usize = BTH_AT + bth::HEADER_LEN;

/// The bytes of all headers.
pub type HeadBytes = [u8; HEAD_LEN];

/// What tells a flow and what differs from packet to packet; words are as they stand in memory,
/// so that nothing is swapped only to be compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head {
    /// The first eight bytes: destination MAC address in the lower 48 bits.
    pub link: u64,
    /// Both IP addresses.
    pub addresses: u64,
    /// Destination QPN in the lower 24 bits, DSCP and ECN above them.
    pub flow: u32,
    /// Operation.
    pub opcode: Opcode,
    /// The byte of mark and colour.
    pub flags: u8,
    /// Time to live.
    pub ttl: u8,
}

impl Head {
    /// The words of `bytes`, the start of a frame of `wire_len` bytes, or `None` if it has another
    /// shape or a length in it is wrong.
    #[inline(always)]
    pub fn read(bytes: &HeadBytes, wire_len: u32) -> Option<Head> {
        // Bytes 12 to 15: Ethertype, version and header length, class.
        const SHAPE: u32 = u32::from_le_bytes([0xff, 0xff, 0xff, 0]);
        const SHAPE_IS: u32 = u32::from_le_bytes([8, 0, 0x45, 0]);
        // Bytes 16 to 23: total length, id, flags and offset, TTL, protocol.
        const HOPS: u64 = u64::from_le_bytes([0, 0, 0, 0, 0x3f, 0xff, 0, 0xff]);
        const HOPS_IS: u64 = u64::from_le_bytes([0, 0, 0, 0, 0, 0, 0, crate::ip::UDP]);
        // Bytes 34 to 41: ports, length, checksum.
        const PORT: u64 = u64::from_le_bytes([0, 0, 0xff, 0xff, 0, 0, 0, 0]);
        const PORT_IS: u64 = {
            let [high, low] = ROCE_PORT.to_be_bytes();
            u64::from_le_bytes([0, 0, high, low, 0, 0, 0, 0])
        };
        // Bytes 42 to 49: opcode, version, partition, mark, destination QP.
        const VERSION: u64 = u64::from_le_bytes([0, 0x0f, 0, 0, 0, 0, 0, 0]);
        let shape = get32(bytes, 12);
        let hops = get64(bytes, 16);
        let udp = get64(bytes, TRANSPORT);
        let base = get64(bytes, BTH_AT);
        let other = u64::from(shape & SHAPE ^ SHAPE_IS)
            | (hops & HOPS ^ HOPS_IS)
            | (udp & PORT ^ PORT_IS)
            | base & VERSION;
        let end = NETWORK as i32 + i32::from((hops as u16).swap_bytes());
        let len = i32::from(((udp >> 32) as u16).swap_bytes());
        let wire_len = wire_len.min(u16::MAX as u32) as i32;
        // Negative if one of the lengths is.
        let least = (UDP_HEADER_LEN + bth::HEADER_LEN + bth::ICRC_LEN) as i32;
        let lengths = (len - least) | (end - TRANSPORT as i32 - len) | (wire_len - end);
        if other != 0 || lengths < 0 {
            return None;
        }
        Some(Head {
            link: get64(bytes, 0),
            addresses: get64(bytes, NETWORK + crate::ip::v4::SOURCE),
            flow: (base >> 40) as u32 | (shape & !SHAPE),
            opcode: Opcode(base as u8),
            flags: (base >> 32) as u8,
            ttl: (hops >> 48) as u8,
        })
    }

    /// Sequence number.
    #[inline(always)]
    pub fn psn(bytes: &HeadBytes) -> Psn {
        Psn::new(be::get32(bytes, BTH_AT + bth::ACK_REQ))
    }

    /// Source and destination address.
    #[inline(always)]
    pub fn ends(&self) -> (Address, Address) {
        let [a, b, c, d, e, f, g, h] = self.addresses.to_le_bytes();
        (
            Address::v4(u32::from_be_bytes([a, b, c, d])),
            Address::v4(u32::from_be_bytes([e, f, g, h])),
        )
    }

    /// Destination QPN.
    #[inline(always)]
    pub fn qpn(&self) -> Qpn {
        let [a, b, c, _] = self.flow.to_le_bytes();
        Qpn(u32::from_be_bytes([0, a, b, c]))
    }

    /// The words of both addresses and of a destination QPN (without DSCP), as [`Head`] has them;
    /// `None` unless both are IPv4.
    pub fn words(source: Address, destination: Address, qpn: Qpn) -> Option<(u64, u32)> {
        let (source, destination) = (source.as_v4()?, destination.as_v4()?);
        let addresses = u64::from(source) << 32 | u64::from(destination);
        let [_, a, b, c] = qpn.0.to_be_bytes();
        Some((
            u64::from_le_bytes(addresses.to_be_bytes()),
            u32::from_le_bytes([a, b, c, 0]),
        ))
    }
}

/// The words that tell a flow, [`Head::addresses`] and [`Head::flow`], of a frame that begins with
/// `bytes`, whatever its shape: for who looks ahead, and does not trust them.
#[inline(always)]
pub fn flow_words(bytes: &HeadBytes) -> (u64, u32) {
    let class = get32(bytes, 12) & 0xff00_0000;
    (
        get64(bytes, NETWORK + crate::ip::v4::SOURCE),
        (get64(bytes, BTH_AT) >> 40) as u32 | class,
    )
}

/// What the packets of a run have in common: those that follow each other in a flow, of one length
/// and kind. What is true of the first is true of all whose words are the same.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    wire_len: u32,
    /// Ethertype, version and header length, class.
    shape: u32,
    link: u64,
    /// Total length, flags and offset, TTL, protocol.
    hops: u64,
    addresses: u64,
    /// Destination port and length.
    udp: u64,
    /// Opcode, version, mark and colour, destination QP.
    base: u64,
}

impl Words {
    const LINK: u64 = (1 << 48) - 1;
    const HOPS: u64 = u64::from_le_bytes([0xff, 0xff, 0, 0, 0xff, 0xff, 0xff, 0xff]);
    const UDP: u64 = u64::from_le_bytes([0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0]);
    const BASE: u64 =
        u64::from_le_bytes([0xff, 0x0f, 0, 0, bth::MARK | bth::COLOUR, 0xff, 0xff, 0xff]);

    /// Those of the packet that begins with `bytes`.
    #[inline(always)]
    pub fn of(bytes: &HeadBytes, wire_len: u32) -> Words {
        Words {
            wire_len,
            shape: get32(bytes, 12),
            link: get64(bytes, 0) & Words::LINK,
            hops: get64(bytes, 16) & Words::HOPS,
            addresses: get64(bytes, NETWORK + crate::ip::v4::SOURCE),
            udp: get64(bytes, TRANSPORT) & Words::UDP,
            base: get64(bytes, BTH_AT) & Words::BASE,
        }
    }

    /// Whether another packet has the same.
    #[inline(always)]
    pub fn are_of(&self, bytes: &HeadBytes, wire_len: u32) -> bool {
        let other = Words::of(bytes, wire_len);
        let differs = u64::from(self.wire_len ^ other.wire_len)
            | u64::from(self.shape ^ other.shape)
            | (self.link ^ other.link)
            | (self.hops ^ other.hops)
            | (self.addresses ^ other.addresses)
            | (self.udp ^ other.udp)
            | (self.base ^ other.base);
        differs == 0
    }
}

#[inline(always)]
fn get32(bytes: &HeadBytes, at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

#[inline(always)]
fn get64(bytes: &HeadBytes, at: usize) -> u64 {
    let mut word = [0; 8];
    word.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Kind, parse};
    use proptest::prelude::*;

    fn frame(payload: usize) -> Vec<u8> {
        let mut frame = vec![0u8; HEAD_LEN + payload + bth::ICRC_LEN];
        ethernet::set_addresses(
            &mut frame,
            crate::MacAddr([2, 1, 2, 3, 4, 5]),
            crate::MacAddr([2, 9, 9, 9, 9, 9]),
        );
        be::put16(&mut frame, ethernet::ETHERTYPE, ethernet::IPV4);
        let udp_payload = (bth::HEADER_LEN + payload + bth::ICRC_LEN) as u16;
        let fields = crate::ip::IpFields {
            source: Address::v4(0x0a00_0001),
            destination: Address::v4(0x0a07_0203),
            traffic_class: 0x68,
            ttl: 9,
            payload_len: UDP_HEADER_LEN as u16 + udp_payload,
        };
        crate::ip::write(&mut frame[NETWORK..], &fields);
        crate::ip::write_udp(&mut frame[TRANSPORT..], 0xc001, ROCE_PORT, udp_payload);
        let fields = bth::BthFields {
            opcode: Opcode::WRITE_LAST,
            destination_qp: Qpn(0x12_3456),
            psn: Psn::new(0xab_cdef),
            ack_req: true,
            pad: 0,
        };
        bth::write(&mut frame[BTH_AT..], &fields);
        frame
    }

    fn read(frame: &[u8], wire_len: usize) -> Option<Head> {
        Head::read(frame.first_chunk()?, wire_len as u32)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 8 } else { 4096 }))]

        /// It is there exactly for RoCE frames of that shape, and says what the walk says.
        #[test]
        fn it_agrees_with_the_walk(
            payload in 0usize..40, at in 12usize..HEAD_LEN, byte: u8, flips in 0usize..3, cut in 0usize..70,
        ) {
            let mut frame = frame(payload);
            if flips > 0 {
                frame[at] = byte;
            }
            if flips > 1 {
                frame[(at * 7 + usize::from(byte)) % HEAD_LEN] ^= byte;
            }
            let wire_len = frame.len() - cut.saturating_sub(60);
            let walked = parse(&frame, wire_len, 48791);
            let is_common = walked.is_ok_and(|p| {
                p.kind == Kind::Roce && p.network == 14 && p.transport == 34 && !p.is_v6 && p.bth.version == 0
            });
            let head = read(&frame, wire_len);
            prop_assert_eq!(head.is_some(), is_common);
            if let (Some(head), Ok(p)) = (head, walked) {
                prop_assert_eq!(head.ends(), (p.source, p.destination));
                prop_assert_eq!(head.qpn(), p.bth.destination_qp);
                prop_assert_eq!(Head::psn(frame.first_chunk().unwrap()), p.bth.psn);
                prop_assert_eq!((head.opcode, head.flags, head.ttl), (p.bth.opcode, p.bth.flags, p.ttl));
                prop_assert_eq!((head.flow >> 24) as u8, p.traffic_class);
                let words = Head::words(p.source, p.destination, p.bth.destination_qp);
                prop_assert_eq!(words, Some((head.addresses, head.flow & 0x00ff_ffff)));
                prop_assert_eq!(&head.link.to_le_bytes()[..6], &frame[..6]);
            }
        }
    }
}
