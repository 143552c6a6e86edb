//! A host's data packets and messages, from what is to be said to the bytes.

use packet::Opcode;
use packet::bth::BthFields;
use packet::message::{Header, MessageKind};

use super::Host;
use crate::flows::Announcement;
use crate::frame::{self, Emitted, Head, Reth, SYNDROME_ACK};
use crate::pattern;
use crate::responder::Response;
use crate::sender::Packet;
use crate::verb;

impl Host {
    pub(super) fn write_message(
        &mut self,
        id: u32,
        kind: MessageKind,
        flow: &Announcement,
        frame: &mut [u8],
    ) -> Emitted {
        let qp = &mut self.qps[id as usize];
        let header = Header {
            kind,
            flags: 0,
            destination_qp: qp.remote_qpn,
            first_psn: qp.sender.psn(flow.first),
            mtu_bytes: self.config.mtu.bytes(),
            packets: flow.packets,
            bytes: 0,
            flow_id: flow.flow_id,
            fanout: 0,
            repetition: 0,
            epoch: 0,
        };
        frame::write_message(frame, &mut qp.route, self.config.message_port, &header)
    }

    #[inline]
    pub(super) fn write_packet<const WHOLE: bool>(
        &mut self,
        now: u64,
        id: u32,
        packet: &Packet,
        frame: &mut [u8],
    ) -> Emitted {
        let qp = &mut self.qps[id as usize];
        let to = qp.remote_qpn;
        let head = Head {
            bth: BthFields {
                opcode: packet.opcode,
                destination_qp: to,
                psn: qp.sender.psn(packet.index),
                ack_req: packet.ack_req,
                pad: (packet.len.wrapping_neg() & 3) as u8,
            },
            reth: packet.reth.map(|(address, message_bytes)| Reth {
                address,
                message_bytes,
            }),
            aeth: None,
            immediate: packet
                .has_immediate
                .then(|| pattern::immediate(to, packet.index)),
            place: packet.index,
            len: packet.len as usize,
        };
        let counters = &mut self.counters;
        if packet.opcode == Opcode::READ_REQUEST {
            counters.read_requests_sent += 1;
        } else {
            counters.sent += 1;
            counters.sent_bytes += u64::from(packet.len);
            counters.retransmitted += u64::from(packet.is_repeat);
        }
        let emitted = frame::write_packet::<WHOLE>(frame, &mut qp.route, &head);
        let link_bytes = emitted.wire_len + self.config.frame_overhead_bytes;
        qp.limiter.sent(now, link_bytes);
        self.learn_common(id, packet.opcode.0, frame, &emitted);
        emitted
    }

    pub(super) fn write_response<const WHOLE: bool>(
        &mut self,
        now: u64,
        id: u32,
        response: &Response,
        frame: &mut [u8],
    ) -> Emitted {
        let qp = &mut self.qps[id as usize];
        let has_aeth = response.begins || response.ends;
        let head = Head {
            bth: BthFields {
                opcode: verb::response_opcode(response.begins, response.ends),
                destination_qp: qp.remote_qpn,
                psn: qp.receiver.psn(response.index),
                ack_req: false,
                pad: (response.len.wrapping_neg() & 3) as u8,
            },
            reth: None,
            aeth: has_aeth.then(|| (SYNDROME_ACK, qp.receiver.messages())),
            immediate: None,
            place: pattern::RESPONSES + response.index,
            len: response.len as usize,
        };
        let counters = &mut self.counters;
        counters.sent += 1;
        counters.responses_sent += 1;
        counters.sent_bytes += u64::from(response.len);
        counters.retransmitted += u64::from(response.is_repeat);
        let emitted = frame::write_packet::<WHOLE>(frame, &mut qp.route, &head);
        let link_bytes = emitted.wire_len + self.config.frame_overhead_bytes;
        qp.limiter.sent(now, link_bytes);
        emitted
    }
}
