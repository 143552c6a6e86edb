//! The adapter: connections, their turns on the link, and their time.
//!
//! Called by a driver, which carries frames and gives the time: [`Host::receive`] for what comes
//! in, [`Host::transmit`] for what goes out, [`Host::tick`] when [`Host::next_timer`] has come.
//! Guarantees: nothing allocates after the last [`Host::open_qp`]; a call costs the same however
//! many connections are open; equal calls give equal frames.

use std::collections::VecDeque;

use hdrhistogram::Histogram;
use packet::Qpn;
use packet::bth::BthFields;
use packet::message::{Header, MessageKind};

use crate::config::{ConfigError, Flow, HostConfig, MESSAGE_BYTES_MAX, QpConfig, QpId};
use crate::counters::Counters;
use crate::event::{Event, FailReason, OpenError, PostError};
use crate::frame::{self, Emitted, HEADER_ROOM, Reth, SYNDROME_ACK, SYNDROME_NAK_SEQUENCE};
use crate::incoming::{self, Body, Refusal, Write};
use crate::index::QpIndex;
use crate::pacer::Pacer;
use crate::pattern::Pattern;
use crate::qp::Qp;
use crate::receiver::Arrival;
use crate::sender::{Answer, FlowState, Turn};
use crate::timers::Timers;

/// Longest completion time that is told apart from longer ones: one hour.
const COMPLETION_NS_MAX: u64 = 3_600_000_000_000;

/// A software RNIC.
#[derive(Debug)]
pub struct Host {
    config: HostConfig,
    qps: Vec<Qp>,
    index: QpIndex,
    pattern: Pattern,
    pacer: Pacer,
    timers: Timers,
    /// Connections that may have data, control or events; each stands once in each.
    data_queue: VecDeque<u32>,
    control_queue: VecDeque<u32>,
    event_queue: VecDeque<u32>,
    /// Connections that do have data or control to send.
    sendable: usize,
    counters: Counters,
    completion_ns: Histogram<u64>,
}

impl Host {
    /// An adapter without connections. Allocates all that it will need but the connections.
    ///
    /// # Errors
    /// Names the first setting that cannot work.
    pub fn new(config: HostConfig) -> Result<Host, ConfigError> {
        config.check()?;
        let qps_max = config.qps_max as usize;
        // Two digits of a nanosecond count up to an hour; the bounds are constants and right.
        let completion_ns = Histogram::new_with_bounds(1, COMPLETION_NS_MAX, 2).map_err(|_| {
            let key = "completion times";
            let want = "a range that hdrhistogram takes";
            ConfigError {
                key,
                value: COMPLETION_NS_MAX,
                want,
            }
        })?;
        Ok(Host {
            config,
            qps: Vec::with_capacity(qps_max),
            index: QpIndex::new(qps_max),
            pattern: Pattern::new(),
            pacer: Pacer::new(config.link_rate, config.slack_ns),
            timers: Timers::new(qps_max),
            data_queue: VecDeque::with_capacity(qps_max),
            control_queue: VecDeque::with_capacity(qps_max),
            event_queue: VecDeque::with_capacity(qps_max),
            sendable: 0,
            counters: Counters::default(),
            completion_ns,
        })
    }

    /// Its settings.
    pub fn config(&self) -> &HostConfig {
        &self.config
    }

    /// Opens a reliable connection; the peer must open its end with the same numbers.
    ///
    /// # Errors
    /// When the host is full, the number is taken or reserved, or the peer is of another family.
    pub fn open_qp(&mut self, qp: QpConfig) -> Result<QpId, OpenError> {
        let number = qp.local_qpn.0;
        if self.qps.len() == self.config.qps_max as usize {
            return Err(OpenError::Full(self.config.qps_max));
        }
        for qpn in [qp.local_qpn, qp.remote_qpn] {
            if qpn.0 < 2 || qpn.0 >= 1 << 24 {
                return Err(OpenError::QpnReserved(qpn.0));
            }
        }
        if self.index.get(qp.local_qpn).is_some() {
            return Err(OpenError::QpnTaken(number));
        }
        if qp.remote_address.as_v4().is_some() != self.config.address.as_v4().is_some() {
            return Err(OpenError::OtherFamily);
        }
        let id = self.qps.len() as u32;
        self.index.insert(qp.local_qpn, id);
        self.qps.push(Qp::new(&qp, &self.config));
        Ok(QpId(id))
    }

    /// Queues a flow behind the connection's others.
    ///
    /// # Errors
    /// When there is no such connection, it has failed or is full, or the sizes are wrong.
    pub fn post(&mut self, now: u64, qp: QpId, flow: Flow) -> Result<(), PostError> {
        let state = self.qps.get_mut(qp.0 as usize);
        let state = state.ok_or(PostError::UnknownQp(qp))?;
        if state.failed.is_some() {
            return Err(PostError::Failed(qp));
        }
        let is_message = (1..=MESSAGE_BYTES_MAX).contains(&flow.message_bytes);
        if flow.bytes == 0 || flow.bytes > 1 << 50 || !is_message {
            return Err(PostError::BadSize);
        }
        if !state.sender.post(now, flow, &self.config) {
            return Err(PostError::Full(qp));
        }
        self.settle(qp.0);
        Ok(())
    }

    /// Writes the next frame that is due, acknowledgements first, then connections in turn.
    ///
    /// `None` when there is nothing to send or the link is busy. The frame is written whole when
    /// `frame` holds it, else its headers alone.
    ///
    /// # Panics
    /// When `frame` is shorter than [`HEADER_ROOM`].
    pub fn transmit(&mut self, now: u64, frame: &mut [u8]) -> Option<Emitted> {
        assert!(frame.len() >= HEADER_ROOM, "no room for a frame's headers");
        if self.sendable == 0 || now < self.pacer.ready_ns() {
            return None;
        }
        let emitted = match self.transmit_control(now, frame) {
            Some(emitted) => emitted,
            None => self.transmit_data(now, frame)?,
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

    fn transmit_control(&mut self, now: u64, frame: &mut [u8]) -> Option<Emitted> {
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
            let emitted = frame::write_ack(frame, &qp.route, to, psn, syndrome, messages);
            self.settle(id);
            return Some(emitted);
        }
        None
    }

    fn transmit_data(&mut self, now: u64, frame: &mut [u8]) -> Option<Emitted> {
        while let Some(id) = self.data_queue.pop_front() {
            let qp = &mut self.qps[id as usize];
            qp.in_data_queue = false;
            let Some(turn) = qp.sender.turn(now, &self.config) else {
                continue;
            };
            let emitted = match turn {
                Turn::Announce(flow) => self.write_announcement(id, &flow, frame),
                Turn::Data { .. } => self.write_turn(id, &turn, frame)?,
            };
            self.settle(id);
            return Some(emitted);
        }
        None
    }

    fn write_announcement(&mut self, id: u32, flow: &FlowState, frame: &mut [u8]) -> Emitted {
        let qp = &self.qps[id as usize];
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
        frame::write_message(frame, &qp.route, self.config.message_port, &header)
    }

    #[inline]
    fn write_turn(&mut self, id: u32, turn: &Turn, frame: &mut [u8]) -> Option<Emitted> {
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
        let qp = &self.qps[id as usize];
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
        let payload = self
            .pattern
            .payload(qp.remote_qpn, index, segment.len as usize);
        self.counters.sent += 1;
        self.counters.sent_bytes += u64::from(segment.len);
        self.counters.retransmitted += u64::from(is_repeat);
        Some(frame::write_data(frame, &qp.route, &fields, reth, payload))
    }

    /// Takes a frame of which `wire_len` bytes were on the wire. Whatever it is, it is counted.
    pub fn receive(&mut self, now: u64, frame: &[u8], wire_len: usize) {
        self.counters.frames_received += 1;
        let packet = match incoming::read(frame, wire_len, &self.config) {
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
        let is_misplaced = qp.receiver.is_next(index)
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
                        payload != self.pattern.payload(qp.local_qpn, at, len)
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

    /// A time at or before the next one at which [`Host::tick`] has something to do; `None` when
    /// time alone will cause nothing. Calling earlier or later than that is harmless.
    #[inline]
    pub fn next_timer(&self) -> Option<u64> {
        self.timers.first().map(|(at, _)| at)
    }

    /// Does what time alone causes: timeouts, and requests for what is missing too long.
    pub fn tick(&mut self, now: u64) {
        while let Some((at, id)) = self.timers.first() {
            if at > now {
                return;
            }
            let qp = &mut self.qps[id as usize];
            if qp.receiver.deadline() <= now {
                qp.receiver.tick(now, &self.config);
            }
            if qp.sender.deadline() <= now {
                self.counters.timeouts += 1;
                if !qp.sender.time_out(now, &self.config) {
                    self.fail(id, FailReason::RetriesExceeded);
                }
            }
            let qp = &self.qps[id as usize];
            let next = if qp.failed.is_some() {
                crate::timers::NEVER
            } else {
                qp.deadline()
            };
            self.timers.move_first(next);
            self.settle(id);
        }
    }

    fn fail(&mut self, id: u32, reason: FailReason) {
        let qp = &mut self.qps[id as usize];
        qp.failed = Some(reason);
        qp.failure_due = Some(qp.sender.give_up());
        self.counters.qps_failed += 1;
    }

    /// The next event, if any. Events wait in bounded room: a flow keeps its place in its
    /// connection until its event is taken.
    pub fn poll_event(&mut self) -> Option<Event> {
        while let Some(&id) = self.event_queue.front() {
            let qp = &mut self.qps[id as usize];
            if let Some(state) = qp.sender.take_completed() {
                let ended_ns = state.ended_ns.unwrap_or(state.started_ns);
                self.counters.flows_completed += 1;
                let taken_ns = ended_ns.saturating_sub(state.started_ns);
                self.completion_ns.saturating_record(taken_ns);
                return Some(Event::SendComplete {
                    qp: QpId(id),
                    flow_id: state.flow.flow_id,
                    started_ns: state.started_ns,
                    ended_ns,
                });
            }
            if qp.receiver.has_report() {
                let (bytes, messages) = qp.receiver.take_report();
                return Some(Event::Received {
                    qp: QpId(id),
                    bytes,
                    messages,
                });
            }
            if let (Some(reason), Some(flows)) = (qp.failed, qp.failure_due.take()) {
                return Some(Event::Failed {
                    qp: QpId(id),
                    reason,
                    flows,
                });
            }
            qp.in_event_queue = false;
            self.event_queue.pop_front();
        }
        None
    }

    /// Brings the host's queues and timers up to date after a change in connection `id`.
    #[inline]
    fn settle(&mut self, id: u32) {
        let qp = &mut self.qps[id as usize];
        let has_data = qp.sender.can_send(self.config.window_packets);
        if has_data != qp.counts_as_data {
            qp.counts_as_data = has_data;
            self.sendable = self.sendable + usize::from(has_data) - usize::from(!has_data);
        }
        if has_data && !qp.in_data_queue {
            qp.in_data_queue = true;
            self.data_queue.push_back(id);
        }
        let has_control = qp.has_control();
        if has_control != qp.counts_as_control {
            qp.counts_as_control = has_control;
            self.sendable = self.sendable + usize::from(has_control) - usize::from(!has_control);
        }
        if has_control && !qp.in_control_queue {
            qp.in_control_queue = true;
            self.control_queue.push_back(id);
        }
        if qp.has_event() && !qp.in_event_queue {
            qp.in_event_queue = true;
            self.event_queue.push_back(id);
        }
        if qp.failed.is_none() {
            self.timers.at_latest(id, qp.deadline());
        }
    }

    /// What it has counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Completion times of flows in nanoseconds, post to last acknowledgement, two digits;
    /// those above one hour count as one hour.
    pub fn completion_ns(&self) -> &Histogram<u64> {
        &self.completion_ns
    }

    /// The connection of a local queue pair number.
    pub fn qp_of(&self, local_qpn: Qpn) -> Option<QpId> {
        self.index.get(local_qpn).map(QpId)
    }
}
