//! A flow cut into messages and packets: what packet number `i` of it is.
//!
//! Pure arithmetic, asked for every packet sent and again for every one repaired, so that a
//! sender keeps nothing per packet.

use packet::Opcode;

use crate::config::Flow;
use crate::units::PathMtu;

/// One packet of a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Segment {
    pub(crate) opcode: Opcode,
    /// Payload bytes.
    pub(crate) len: u32,
    /// Where they begin in the flow.
    pub(crate) offset_bytes: u64,
    /// Length of the message that they belong to.
    pub(crate) message_bytes: u32,
}

impl Segment {
    /// Whether the message ends here.
    pub(crate) fn ends_message(&self) -> bool {
        self.opcode == Opcode::WRITE_LAST || self.opcode == Opcode::WRITE_ONLY
    }

    /// Whether the packet carries a RETH.
    pub(crate) fn begins_message(&self) -> bool {
        self.opcode == Opcode::WRITE_FIRST || self.opcode == Opcode::WRITE_ONLY
    }
}

/// Packets of a flow.
pub(crate) fn packets(flow: &Flow, mtu: PathMtu) -> u64 {
    let whole = flow.bytes / flow.message_bytes;
    let rest = flow.bytes % flow.message_bytes;
    let tail = if rest > 0 { mtu.packets(rest) } else { 0 };
    whole * mtu.packets(flow.message_bytes) + tail
}

/// Packet `index` of a flow, below [`packets`].
#[inline]
pub(crate) fn segment(flow: &Flow, mtu: PathMtu, index: u64) -> Segment {
    let per_message = mtu.packets(flow.message_bytes);
    let message = index / per_message;
    let inside = index - message * per_message;
    let begin = message * flow.message_bytes;
    let message_bytes = flow.message_bytes.min(flow.bytes - begin);
    let offset = inside * u64::from(mtu.bytes());
    let left = message_bytes - offset;
    let is_last = left <= u64::from(mtu.bytes());
    let opcode = match (inside == 0, is_last) {
        (true, true) => Opcode::WRITE_ONLY,
        (true, false) => Opcode::WRITE_FIRST,
        (false, false) => Opcode::WRITE_MIDDLE,
        (false, true) => Opcode::WRITE_LAST,
    };
    Segment {
        opcode,
        len: left.min(u64::from(mtu.bytes())) as u32,
        offset_bytes: begin + offset,
        message_bytes: message_bytes as u32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Goal: the packets of a flow are its bytes, in order, in well-formed messages.
        #[test]
        fn segments_cover_a_flow(bytes in 1u64..100_000, message_bytes in 1u64..20_000, shift in 8u32..=12) {
            prop_assume!(bytes / message_bytes < 2000);
            let mtu = PathMtu::new(1 << shift).unwrap();
            let flow = Flow { flow_id: 0, bytes, message_bytes, announce: false };
            let (mut at, mut open) = (0, false);
            for index in 0..packets(&flow, mtu) {
                let s = segment(&flow, mtu, index);
                prop_assert_eq!(s.offset_bytes, at);
                prop_assert_eq!(s.begins_message(), !open);
                prop_assert!(s.len > 0 && (s.len == mtu.bytes() || s.ends_message()));
                at += u64::from(s.len);
                open = !s.ends_message();
                prop_assert!(open || at % message_bytes == 0 || at == bytes);
            }
            prop_assert_eq!(at, bytes);
            prop_assert!(!open);
        }
    }
}
