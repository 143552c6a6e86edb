//! What leaves a host: whose turn it is, and its frame.
//!
//! Called by drivers in a loop, as long as there is room for frames and the link is free.

use packet::bth::BthFields;
use packet::message::{Header, MessageKind};

use super::Host;
use crate::flows::FlowState;
use crate::frame::{self, Emitted, HEADER_ROOM, Reth, SYNDROME_ACK, SYNDROME_NAK_SEQUENCE};
use crate::sender::Turn;

impl Host {
    /// Writes the next frame that is due, acknowledgements first, then connections in turn.
    ///
    /// `None` when there is nothing to send or the link is busy. The frame is written whole when
    /// `frame` holds it, else its headers alone.
    ///
    /// # Panics
    /// When `frame` is shorter than [`HEADER_ROOM`].
    pub fn transmit(&mut self, now: u64, frame: &mut [u8]) -> Option<Emitted> {
        assert!(frame.len() >= HEADER_ROOM, "no room for a frame's headers");
        self.transmit_as::<true>(now, frame)
    }

    /// [`Host::transmit`] for a simulator: the same headers, and neither payload nor ICRC.
    #[inline]
    pub fn transmit_header(&mut self, now: u64, header: &mut [u8; HEADER_ROOM]) -> Option<Emitted> {
        self.transmit_as::<false>(now, header)
    }

    #[inline]
    fn transmit_as<const WHOLE: bool>(&mut self, now: u64, frame: &mut [u8]) -> Option<Emitted> {
        if self.sendable == 0 || now < self.pacer.ready_ns() {
            return None;
        }
        let emitted = match self.transmit_control::<WHOLE>(now, frame) {
            Some(emitted) => emitted,
            None => self.transmit_data::<WHOLE>(now, frame)?,
        };
        let link_bytes = emitted.wire_len + self.config.frame_overhead_bytes;
        self.pacer.spend(now, link_bytes);
        Some(emitted)
    }

    /// Earliest time, `now` or later, at which [`Host::transmit`] gives a frame as things stand;
    /// `None` when there is nothing to send.
    #[inline]
    pub fn next_transmit(&self, now: u64) -> Option<u64> {
        (self.sendable > 0).then(|| self.pacer.ready_ns().max(now))
    }

    fn transmit_control<const WHOLE: bool>(
        &mut self,
        now: u64,
        frame: &mut [u8],
    ) -> Option<Emitted> {
        while let Some(id) = self.control_queue.pop_front() {
            let qp = &mut self.qps[id as usize];
            qp.in_control_queue = false;
            if !qp.has_control() {
                continue;
            }
            let (psn, syndrome) = match qp.receiver.take_nak(now, &self.config) {
                Some(psn) => {
                    self.counters.naks_sent += 1;
                    (psn, SYNDROME_NAK_SEQUENCE)
                }
                None => {
                    self.counters.acks_sent += 1;
                    (qp.receiver.take_ack()?, SYNDROME_ACK)
                }
            };
            let messages = qp.receiver.messages();
            let to = qp.remote_qpn;
            let emitted =
                frame::write_ack::<WHOLE>(frame, &mut qp.route, to, psn, syndrome, messages);
            self.settle(id);
            return Some(emitted);
        }
        None
    }

    fn transmit_data<const WHOLE: bool>(&mut self, now: u64, frame: &mut [u8]) -> Option<Emitted> {
        while let Some(id) = self.data_queue.pop_front() {
            let qp = &mut self.qps[id as usize];
            qp.in_data_queue = false;
            let Some(turn) = qp.sender.turn(now, &self.config) else {
                continue;
            };
            let emitted = match turn {
                Turn::Announce(flow) => self.write_announcement(id, &flow, frame),
                Turn::Data { .. } => self.write_turn::<WHOLE>(id, &turn, frame)?,
            };
            self.settle(id);
            return Some(emitted);
        }
        None
    }

    fn write_announcement(&mut self, id: u32, flow: &FlowState, frame: &mut [u8]) -> Emitted {
        let qp = &mut self.qps[id as usize];
        let header = Header {
            kind: MessageKind::Open,
            flags: 0,
            destination_qp: qp.remote_qpn,
            first_psn: qp.sender.psn(flow.first),
            mtu_bytes: self.config.mtu.bytes(),
            packets: flow.packets,
            bytes: 0,
            flow_id: flow.flow.flow_id,
            fanout: 0,
            repetition: 0,
            epoch: 0,
        };
        self.counters.announced += 1;
        frame::write_message(frame, &mut qp.route, self.config.message_port, &header)
    }

    #[inline]
    fn write_turn<const WHOLE: bool>(
        &mut self,
        id: u32,
        turn: &Turn,
        frame: &mut [u8],
    ) -> Option<Emitted> {
        let Turn::Data {
            index,
            segment,
            stream_byte,
            is_repeat,
            ack_req,
        } = *turn
        else {
            return None;
        };
        let qp = &mut self.qps[id as usize];
        let fields = BthFields {
            opcode: segment.opcode,
            destination_qp: qp.remote_qpn,
            psn: qp.sender.psn(index),
            ack_req,
            pad: (segment.len.wrapping_neg() & 3) as u8,
        };
        let reth = segment.begins_message().then_some(Reth {
            address: stream_byte,
            message_bytes: segment.message_bytes,
        });
        let len = segment.len as usize;
        self.counters.sent += 1;
        self.counters.sent_bytes += u64::from(segment.len);
        self.counters.retransmitted += u64::from(is_repeat);
        Some(frame::write_data::<WHOLE>(
            frame,
            &mut qp.route,
            &fields,
            reth,
            index,
            len,
        ))
    }
}
