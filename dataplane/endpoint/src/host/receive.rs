//! What reaches a host: to which connection it belongs, and what it changes there.
//!
//! Called by drivers for every frame; a frame that is not right moves one counter and nothing else.

use packet::{Kind, Psn};

use super::Host;
use crate::arrivals::Arrival;
use crate::background::{self, Segment};
use crate::event::FailReason;
use crate::frame::{Reth, SYNDROME_ACK, SYNDROME_NAK_SEQUENCE, SYNDROME_NOT_READY};
use crate::incoming::{self, Body, Data, Refusal};
use crate::pattern;
use crate::reads::Answered;
use crate::receiver::Packet;
use crate::sender::Answer;
use crate::verb::Class;

impl Host {
    /// Takes a frame of which `wire_len` bytes were on the wire. Whatever it is, it is counted.
    pub fn receive(&mut self, now: u64, frame: &[u8], wire_len: usize) {
        self.receive_as::<true>(now, frame, wire_len);
    }

    /// [`Host::receive`] for a simulator: `header` holds the headers (and may hold more), of
    /// payload and ICRC nothing is looked at.
    #[inline]
    pub fn receive_header(&mut self, now: u64, header: &[u8], wire_len: usize) {
        if self.receive_common(now, header, wire_len) {
            return self.advance(now);
        }
        self.receive_as::<false>(now, header, wire_len);
    }

    #[inline]
    fn receive_as<const WHOLE: bool>(&mut self, now: u64, frame: &[u8], wire_len: usize) {
        self.advance(now);
        self.counters.frames_received += 1;
        let packet = match incoming::read::<WHOLE>(frame, wire_len, &self.config) {
            Ok(packet) => packet,
            Err(Refusal::NotRoce) if self.receive_background(frame, wire_len) => return,
            Err(refusal) => return self.refuse(refusal),
        };
        let Some(id) = self.index.get(packet.destination_qp) else {
            self.counters.unknown_qp += 1;
            return;
        };
        let qp = &mut self.qps[id as usize];
        if packet.source != qp.remote_address() {
            self.counters.wrong_source += 1;
            return;
        }
        if qp.failed.is_some() {
            self.counters.failed_qp += 1;
            return;
        }
        let psn = packet.psn;
        if packet.is_ce_marked {
            self.counters.ce_marked += 1;
            qp.congested(now, &self.config.rate_control);
        }
        match packet.body {
            Body::Data(data) => self.receive_data(now, id, psn, &data),
            Body::Ack { syndrome } => {
                self.receive_ack(now, id, psn, syndrome);
                self.settle(id);
            }
            Body::Request(reth) => {
                self.receive_request(now, id, psn, reth);
                self.settle(id);
            }
            Body::Response { len, payload } => {
                self.receive_response(now, id, psn, len, payload);
                self.settle(id);
            }
            Body::Cnp => {
                self.counters.cnps_received += 1;
                self.counters.rate_cuts += u64::from(qp.limiter.notified(now));
                self.settle(id);
            }
        }
    }

    #[inline]
    fn receive_data(&mut self, now: u64, id: u32, psn: Psn, data: &Data<'_>) {
        let qp = &mut self.qps[id as usize];
        let index = qp.receiver.index(psn);
        let shape = data.shape;
        // The stream's place is known for the next packet in order, before it is counted.
        let is_misplaced = self.config.verify_payload
            && data.reth.is_some_and(|reth| {
                qp.receiver.is_next(index) && reth.address != qp.receiver.delivered_bytes()
            });
        let packet = Packet {
            len: data.len,
            ends_message: shape.ends,
            ack_req: data.ack_req,
            takes_receive: match shape.class {
                Class::Send => shape.begins,
                _ => shape.immediate,
            },
        };
        let arrival = qp.receiver.arrive(now, index, packet, &self.config);
        if let Arrival::New { .. } = arrival {
            self.counters.received_bytes += u64::from(data.len);
            let destination = qp.local_qpn;
            if shape.immediate {
                self.counters.immediates += 1;
            }
            if self.config.verify_payload {
                let is_wrong = data.payload.is_some_and(|payload| {
                    payload != pattern::payload(destination, index as u64, payload.len())
                }) || shape.immediate
                    && data.immediate != pattern::immediate(destination, index as u64);
                self.counters.payload_errors += u64::from(is_wrong || is_misplaced);
            }
        }
        self.count_arrival(arrival);
        // Data changes what is to be told, to the peer and the owner, and nothing that is sent.
        self.settle_control(id);
        self.settle_event(id);
        self.settle_timer(id);
        if self.qps[id as usize].receiver.has_response() {
            self.settle_data(id);
        }
    }

    fn receive_ack(&mut self, now: u64, id: u32, psn: Psn, syndrome: u8) {
        let qp = &mut self.qps[id as usize];
        let counters = &mut self.counters;
        let config = &self.config;
        match syndrome {
            // An ACK with any credit count: the upper three bits are 0 (table 57).
            0..=SYNDROME_ACK => match qp.sender.acknowledge(now, psn, config) {
                Answer::BeyondSent => counters.acks_beyond_sent += 1,
                Answer::Stale => counters.acks_stale += 1,
                Answer::Obeyed | Answer::GaveUp => counters.acks_received += 1,
            },
            SYNDROME_NAK_SEQUENCE => match qp.sender.request(now, psn, config) {
                Answer::BeyondSent => counters.acks_beyond_sent += 1,
                Answer::Stale => counters.naks_ignored += 1,
                Answer::Obeyed | Answer::GaveUp => counters.naks_received += 1,
            },
            SYNDROME_NOT_READY..=0x3f => {
                let wait_ns = super::rnr::wait_ns(syndrome & 0x1f);
                match qp.sender.not_ready(now, psn, wait_ns, config) {
                    Answer::BeyondSent => counters.acks_beyond_sent += 1,
                    Answer::Stale => counters.naks_ignored += 1,
                    Answer::Obeyed => counters.rnr_naks_received += 1,
                    Answer::GaveUp => {
                        counters.rnr_naks_received += 1;
                        self.fail(id, FailReason::ReceiverNotReady);
                    }
                }
            }
            _ => counters.naks_unknown += 1,
        }
    }

    fn receive_request(&mut self, now: u64, id: u32, psn: Psn, reth: Reth) {
        let qp = &mut self.qps[id as usize];
        let bytes = u64::from(reth.message_bytes);
        let count = self.config.mtu.packets(bytes);
        if count > u64::from(self.config.receive_window_packets) {
            self.counters.reads_refused += 1;
            return;
        }
        let index = qp.receiver.index(psn);
        match qp.receiver.read(now, index, count, bytes, &self.config) {
            None => self.counters.reads_refused += 1,
            // The request is no data: only what it says about the order of packets is counted.
            Some(Arrival::New { .. } | Arrival::Duplicate) => {}
            Some(arrival) => self.count_arrival(arrival),
        }
    }

    fn receive_response(&mut self, now: u64, id: u32, psn: Psn, len: u32, payload: Option<&[u8]>) {
        let qp = &mut self.qps[id as usize];
        let (answered, index) = qp.sender.answered(now, psn, len, &self.config);
        let Answered::Arrived { arrival, .. } = answered else {
            self.counters.responses_unknown += 1;
            return;
        };
        if let Arrival::New { .. } = arrival {
            self.counters.received_bytes += u64::from(len);
            self.counters.responses_received += 1;
            let is_wrong = self.config.verify_payload
                && payload.is_some_and(|payload| {
                    let place = pattern::RESPONSES + index;
                    payload != pattern::payload(qp.local_qpn, place, payload.len())
                });
            self.counters.payload_errors += u64::from(is_wrong);
        }
        self.count_arrival(arrival);
    }

    #[inline]
    fn count_arrival(&mut self, arrival: Arrival) {
        let counters = &mut self.counters;
        match arrival {
            Arrival::New { behind } => {
                counters.received += 1;
                if behind > 0 {
                    counters.out_of_order += 1;
                    let most = counters.out_of_order_distance_max;
                    counters.out_of_order_distance_max = most.max(behind);
                }
            }
            Arrival::Duplicate => counters.spurious += 1,
            Arrival::Beyond => counters.beyond_window += 1,
            Arrival::NotReady => counters.not_ready += 1,
            Arrival::Dropped { ahead } => {
                counters.out_of_order += 1;
                let most = counters.out_of_order_distance_max;
                counters.out_of_order_distance_max = most.max(ahead);
            }
        }
    }

    /// Takes a segment of background traffic; false when it is none of ours.
    #[cold]
    fn receive_background(&mut self, frame: &[u8], wire_len: usize) -> bool {
        let Some(stream) = &mut self.background else {
            return false;
        };
        let Ok(parsed) = packet::parse(frame, wire_len, self.config.message_port) else {
            return false;
        };
        let at = usize::from(parsed.transport);
        let is_ours = parsed.kind == Kind::Ports
            && parsed.protocol == background::TCP
            && parsed.destination == self.config.address;
        let len = usize::from(parsed.end).checked_sub(at + background::HEADER_LEN);
        let (true, Some(len), Some(segment)) = (is_ours, len, frame.get(at..)) else {
            return false;
        };
        match stream.receive(parsed.source, segment, len) {
            None => return false,
            Some(Segment::Data) => self.counters.background_received += 1,
            Some(Segment::Answer { lost }) => {
                self.counters.background_lost += u64::from(lost);
            }
        }
        true
    }

    #[cold]
    fn refuse(&mut self, refusal: Refusal) {
        let counters = &mut self.counters;
        let counter = match refusal {
            Refusal::BadFrame => &mut counters.bad_frame,
            Refusal::NotOurs => &mut counters.not_ours,
            Refusal::NotRoce => &mut counters.not_roce,
            Refusal::Message => &mut counters.messages,
            Refusal::BadIcrc => &mut counters.bad_icrc,
            Refusal::BadOpcode => &mut counters.bad_opcode,
            Refusal::BadLength => &mut counters.bad_length,
        };
        *counter += 1;
    }
}
