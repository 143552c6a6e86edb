//! The common packet, sent and received without going the long way.
//!
//! Nearly all packets are the middle ones of a message, full, wanting no answer, on a connection
//! where nothing is being repaired. They change a few numbers and nothing that the host's queues
//! and timers follow from. Whatever is not just so goes the long way, which does the same for
//! these packets: the tests of transport hold for both.

use packet::parse::parse_common;
use packet::{bth, ethernet, ip};

use super::Host;
use crate::frame::{self, Emitted};
use crate::verb;

/// Headers of a middle packet at most: IPv6, no extended header.
pub(crate) const LEN_MAX: usize =
    ethernet::HEADER_LEN + ip::V6_HEADER_LEN + ip::UDP_HEADER_LEN + bth::HEADER_LEN;

/// The headers of a connection's middle packets, but for the PSN.
#[derive(Debug)]
pub(crate) struct Template {
    bytes: [u8; LEN_MAX],
    /// Length of the headers; 0 while there are none.
    len: usize,
}

impl Template {
    pub(crate) const EMPTY: Template = Template {
        bytes: [0; LEN_MAX],
        len: 0,
    };

    /// Keeps the headers of a middle packet that was written the long way.
    fn keep(&mut self, frame: &[u8], len: usize) {
        self.bytes[..len].copy_from_slice(&frame[..len]);
        self.len = len;
    }
}

impl Host {
    /// Writes the next packet of connection `id` if it is a common one. The connection keeps its
    /// place among those with data.
    #[inline]
    pub(super) fn write_common<const WHOLE: bool>(
        &mut self,
        id: u32,
        frame: &mut [u8],
    ) -> Option<Emitted> {
        let qp = &mut self.qps[id as usize];
        let opcode = qp.sender.common_opcode()?;
        let template = &qp.common;
        let at = template.len.wrapping_sub(bth::HEADER_LEN);
        if template.bytes.get(at) != Some(&opcode) || !qp.receiver.is_idle() || qp.limiter.limits()
        {
            return None;
        }
        let index = qp.sender.take_common();
        frame[..LEN_MAX].copy_from_slice(&template.bytes);
        let psn = qp.sender.psn(index).number();
        frame[at + bth::ACK_REQ..at + bth::ACK_REQ + 4].copy_from_slice(&psn.to_be_bytes());
        let mtu_bytes = self.config.mtu.bytes();
        self.counters.sent += 1;
        self.counters.sent_bytes += u64::from(mtu_bytes);
        let len = mtu_bytes as usize;
        let to = qp.remote_qpn;
        Some(frame::finish::<WHOLE>(
            frame,
            at,
            template.len,
            to,
            index,
            len,
            0,
        ))
    }

    /// A packet was written the long way: the next like it need not be.
    #[inline]
    pub(super) fn learn_common(&mut self, id: u32, opcode: u8, frame: &[u8], emitted: &Emitted) {
        let template = &mut self.qps[id as usize].common;
        let at = template.len.wrapping_sub(bth::HEADER_LEN);
        if verb::is_middle(opcode) && template.bytes.get(at) != Some(&opcode) {
            template.keep(frame, emitted.header_len as usize);
        }
    }

    /// Takes a frame's headers if it is a common packet; false, and nothing has changed, when it
    /// is not.
    #[inline]
    pub(super) fn receive_common(&mut self, now: u64, header: &[u8], wire_len: usize) -> bool {
        let Some(parsed) = parse_common(header, wire_len) else {
            return false;
        };
        let at = usize::from(parsed.payload);
        let mtu_bytes = self.config.mtu.bytes();
        let udp_len = usize::from(u16::from_be_bytes([header[at - 4], header[at - 3]]));
        let is_full =
            udp_len == ip::UDP_HEADER_LEN + bth::HEADER_LEN + mtu_bytes as usize + bth::ICRC_LEN;
        // No padding and version 0; no congestion; no acknowledgement wanted.
        if !verb::is_middle(parsed.bth.opcode.0)
            || !is_full
            || header[at + bth::FLAGS] & 0x3f != 0
            || parsed.traffic_class & 3 == 3
            || header[at + bth::ACK_REQ] & 0x80 != 0
            || parsed.destination != self.config.address
        {
            return false;
        }
        let Some(id) = self.index.get(parsed.bth.destination_qp) else {
            return false;
        };
        let qp = &mut self.qps[id as usize];
        if parsed.source != qp.remote_address() || qp.failed.is_some() {
            return false;
        }
        let index = qp.receiver.index(parsed.bth.psn);
        let arrival = qp
            .receiver
            .arrive_common(now, index, mtu_bytes, &self.config);
        let Some((behind, deadline_ns)) = arrival else {
            return false;
        };
        self.timers.at_latest(id, deadline_ns);
        let counters = &mut self.counters;
        counters.frames_received += 1;
        counters.received += 1;
        counters.received_bytes += u64::from(mtu_bytes);
        if behind > 0 {
            counters.out_of_order += 1;
            let most = counters.out_of_order_distance_max;
            counters.out_of_order_distance_max = most.max(behind);
        }
        true
    }
}
