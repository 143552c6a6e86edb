//! What reaches a host: to which connection it belongs, and what it changes there.
//!
//! Called by drivers for every frame; a frame that is not right moves one counter and nothing else.

use super::Host;
use crate::frame::{SYNDROME_ACK, SYNDROME_NAK_SEQUENCE};
use crate::incoming::{self, Body, Refusal, Write};
use crate::pattern;
use crate::receiver::Arrival;
use crate::sender::Answer;

impl Host {
    /// Takes a frame of which `wire_len` bytes were on the wire. Whatever it is, it is counted.
    pub fn receive(&mut self, now: u64, frame: &[u8], wire_len: usize) {
        self.receive_as::<true>(now, frame, wire_len);
    }

    /// [`Host::receive`] for a simulator: `header` holds the headers (and may hold more), of
    /// payload and ICRC nothing is looked at.
    #[inline]
    pub fn receive_header(&mut self, now: u64, header: &[u8], wire_len: usize) {
        self.receive_as::<false>(now, header, wire_len);
    }

    #[inline]
    fn receive_as<const WHOLE: bool>(&mut self, now: u64, frame: &[u8], wire_len: usize) {
        self.counters.frames_received += 1;
        let packet = match incoming::read::<WHOLE>(frame, wire_len, &self.config) {
            Ok(packet) => packet,
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
        self.counters.ce_marked += u64::from(packet.is_ce_marked);
        match packet.body {
            Body::Write(write) => {
                let index = qp.receiver.index(packet.psn);
                self.receive_write(now, id, index, &write);
            }
            Body::Ack { syndrome } => {
                let (answer, is_request) = match syndrome {
                    SYNDROME_NAK_SEQUENCE => {
                        (qp.sender.request(now, packet.psn, &self.config), true)
                    }
                    // An ACK with any credit count: the upper three bits are 0 (table 57).
                    0..=SYNDROME_ACK => {
                        (qp.sender.acknowledge(now, packet.psn, &self.config), false)
                    }
                    _ => {
                        self.counters.naks_unknown += 1;
                        return;
                    }
                };
                self.count_answer(answer, is_request);
            }
            Body::Cnp => {
                self.counters.cnps_received += 1;
                return;
            }
        }
        self.settle(id);
    }

    #[inline]
    fn receive_write(&mut self, now: u64, id: u32, index: i64, write: &Write<'_>) {
        let qp = &mut self.qps[id as usize];
        let counters = &mut self.counters;
        // The stream's place is known for the next packet in order, before it is counted.
        let is_misplaced = self.config.verify_payload
            && qp.receiver.is_next(index)
            && write
                .reth
                .is_some_and(|reth| reth.address != qp.receiver.delivered_bytes());
        let arrival = qp.receiver.arrive(
            now,
            index,
            write.len,
            write.ends_message,
            write.ack_req,
            &self.config,
        );
        match arrival {
            Arrival::New { behind } => {
                counters.received += 1;
                counters.received_bytes += u64::from(write.len);
                counters.out_of_order += u64::from(behind > 0);
                counters.out_of_order_distance_max = counters.out_of_order_distance_max.max(behind);
                let is_wrong = self.config.verify_payload
                    && write.payload.is_some_and(|payload| {
                        let (at, len) = (index as u64, payload.len());
                        payload != pattern::payload(qp.local_qpn, at, len)
                    });
                counters.payload_errors += u64::from(is_wrong || is_misplaced);
            }
            Arrival::Duplicate => counters.spurious += 1,
            Arrival::Beyond => counters.beyond_window += 1,
            Arrival::Dropped { ahead } => {
                counters.out_of_order += 1;
                counters.out_of_order_distance_max = counters.out_of_order_distance_max.max(ahead);
            }
        }
    }

    fn count_answer(&mut self, answer: Answer, is_request: bool) {
        let counters = &mut self.counters;
        let counter = match (answer, is_request) {
            (Answer::BeyondSent, _) => &mut counters.acks_beyond_sent,
            (Answer::Stale, true) => &mut counters.naks_ignored,
            (Answer::Stale, false) => &mut counters.acks_stale,
            (Answer::Advanced | Answer::Obeyed, true) => &mut counters.naks_received,
            (Answer::Advanced | Answer::Obeyed, false) => &mut counters.acks_received,
        };
        *counter += 1;
    }

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
