//! What leaves a host: whose turn it is, and its frame.
//!
//! Called by drivers in a loop, as long as there is room for frames and the link is free.

use packet::message::MessageKind;

use super::Host;
use crate::frame::{self, Emitted, HEADER_ROOM};
use crate::frame::{SYNDROME_ACK, SYNDROME_NAK_SEQUENCE, SYNDROME_NOT_READY};
use crate::receiver::Notice;
use crate::sender::Turn;
use crate::timers::NEVER;

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
        self.advance(now);
        if now < self.pacer.ready_ns() {
            return None;
        }
        if self.background.is_some()
            && let Some(emitted) = self.transmit_background(now, frame)
        {
            return Some(emitted);
        }
        self.release_paced();
        if self.sendable == 0 {
            return None;
        }
        let emitted = if self.control_queue.is_empty() {
            self.transmit_data::<WHOLE>(now, frame)?
        } else {
            match self.transmit_control::<WHOLE>(now, frame) {
                Some(emitted) => emitted,
                None => self.transmit_data::<WHOLE>(now, frame)?,
            }
        };
        let link_bytes = emitted.wire_len + self.config.frame_overhead_bytes;
        self.pacer.spend(now, link_bytes);
        Some(emitted)
    }

    /// Earliest time, `now` or later, at which [`Host::transmit`] gives a frame as things stand;
    /// `None` when there is nothing to send.
    #[inline]
    pub fn next_transmit(&self, now: u64) -> Option<u64> {
        let mut at = if self.sendable > 0 {
            now
        } else {
            self.paced.first().map_or(NEVER, |(at, _)| at)
        };
        if let Some(stream) = &self.background {
            at = at.min(stream.ready_ns());
        }
        (at != NEVER).then(|| at.max(now).max(self.pacer.ready_ns()))
    }

    #[cold]
    fn transmit_background(&mut self, now: u64, frame: &mut [u8]) -> Option<Emitted> {
        let stream = self.background.as_mut()?;
        if stream.ready_ns() > now {
            return None;
        }
        let overhead = self.config.frame_overhead_bytes;
        let emitted = stream.transmit(now, frame, overhead)?;
        self.counters.background_sent += u64::from(emitted.wire_len > emitted.header_len);
        self.pacer.spend(now, emitted.wire_len + overhead);
        Some(emitted)
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
            let emitted = self.write_control::<WHOLE>(now, id, frame);
            self.settle_control(id);
            self.settle_timer(id);
            if emitted.is_some() {
                return emitted;
            }
        }
        None
    }

    fn write_control<const WHOLE: bool>(
        &mut self,
        now: u64,
        id: u32,
        frame: &mut [u8],
    ) -> Option<Emitted> {
        let qp = &mut self.qps[id as usize];
        let counters = &mut self.counters;
        let to = qp.remote_qpn;
        if qp.failed.is_some() {
            let flow = qp.sender.take_withdrawn()?;
            counters.withdrawn += 1;
            return Some(self.write_message(id, MessageKind::Withdraw, &flow, frame));
        }
        if std::mem::take(&mut qp.cnp_due) {
            counters.cnps_sent += 1;
            let dscp = self.config.cnp_dscp;
            return Some(frame::write_cnp::<WHOLE>(frame, &mut qp.route, to, dscp));
        }
        let (psn, syndrome) = match qp.receiver.take_notice(now, &self.config)? {
            Notice::Nak(psn) => {
                counters.naks_sent += 1;
                (psn, SYNDROME_NAK_SEQUENCE)
            }
            Notice::NotReady(psn) => {
                counters.rnr_naks_sent += 1;
                (psn, SYNDROME_NOT_READY | self.config.rnr_timer)
            }
            Notice::Ack(psn) => {
                counters.acks_sent += 1;
                (psn, SYNDROME_ACK)
            }
        };
        let messages = qp.receiver.messages();
        let route = &mut qp.route;
        let emitted = frame::write_ack::<WHOLE>(frame, route, to, psn, syndrome, messages);
        Some(emitted)
    }

    #[inline]
    fn transmit_data<const WHOLE: bool>(&mut self, now: u64, frame: &mut [u8]) -> Option<Emitted> {
        if let Some(&id) = self.data_queue.front()
            && let Some(emitted) = self.write_common::<WHOLE>(id, frame)
        {
            // Its turn is over, and there is more.
            if self.data_queue.len() > 1 {
                self.data_queue.pop_front();
                self.data_queue.push_back(id);
            }
            return Some(emitted);
        }
        while let Some(id) = self.data_queue.pop_front() {
            let qp = &mut self.qps[id as usize];
            qp.in_data_queue = false;
            if !qp.counts_as_data {
                continue;
            }
            let emitted = self.write_data::<WHOLE>(now, id, frame);
            self.settle_data(id);
            self.settle_timer(id);
            if emitted.is_some() {
                return emitted;
            }
        }
        None
    }

    /// Writes a packet of connection `id`: an answer to a READ, or one of its own.
    #[inline]
    fn write_data<const WHOLE: bool>(
        &mut self,
        now: u64,
        id: u32,
        frame: &mut [u8],
    ) -> Option<Emitted> {
        let qp = &mut self.qps[id as usize];
        if qp.receiver.has_response() {
            qp.answers_next = !qp.answers_next;
            let is_own_turn = !qp.answers_next && qp.sender.can_send(self.config.window_packets);
            if !is_own_turn
                && let Some(response) = qp.receiver.take_response(self.config.mtu.bytes())
            {
                let emitted = self.write_response::<WHOLE>(now, id, &response, frame);
                // An acknowledgement may have waited for this.
                self.settle_control(id);
                return Some(emitted);
            }
        }
        match qp.sender.turn(now, &self.config)? {
            Turn::Announce(flow) => {
                self.counters.announced += 1;
                Some(self.write_message(id, MessageKind::Open, &flow, frame))
            }
            Turn::Packet(packet) => Some(self.write_packet::<WHOLE>(now, id, &packet, frame)),
        }
    }
}
