//! The sending half of a connection: what to send next, what is acknowledged, what to repeat.
//!
//! Called by [`Host`](crate::Host) only. Packets are counted from 0 in 64 bits, as in the
//! receiver. Nothing is kept per packet: a packet follows from its index and its message.

mod answer;
mod time;
mod turn;

pub(crate) use answer::Answer;
pub(crate) use time::Tick;

use packet::{Opcode, Psn};

use crate::config::{Flow, HostConfig};
use crate::flows::{Announcement, FlowState, Flows};
use crate::reads::Reads;
use crate::repairs::Repairs;
use crate::rtt::Rtt;
use crate::segment::Message;
use crate::timers::NEVER;
use crate::verb::Verb;

/// What to send.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turn {
    /// The announcement of a flow.
    Announce(Announcement),
    /// A packet.
    Packet(Packet),
}

/// A packet of a request, or a READ request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) index: u64,
    pub(crate) opcode: Opcode,
    /// Payload bytes.
    pub(crate) len: u32,
    /// Address and length, where the packet names them.
    pub(crate) reth: Option<(u64, u32)>,
    pub(crate) has_immediate: bool,
    pub(crate) is_repeat: bool,
    pub(crate) ack_req: bool,
}

#[derive(Debug)]
pub(crate) struct Sender {
    first_psn: Psn,
    /// First packet that is not acknowledged.
    una: u64,
    /// Next packet to send.
    next: u64,
    /// One past the last ever sent; `next` lies before it while go-back-N goes again.
    sent_end: u64,
    /// What the peer has acknowledged, ahead of `una` where answers to READs are missing.
    acked: u64,
    /// The message that `next` lies in; empty when nothing is posted.
    current: Message,
    flows: Flows,
    reads: Reads,
    repairs: Repairs,
    /// One past the last packet that asked for an acknowledgement: only those are owed one.
    asked_end: u64,
    /// Packets before this one are common: in the midst of their message and of the window, new,
    /// wanting no answer. 0 whenever there may be something else to do.
    common_end: u64,
    deadline_ns: u64,
    retries: u32,
    /// The packet for which the peer had no receive request; nothing is sent until the deadline.
    blocked: Option<u64>,
    blocked_times: u32,
    rtt: Rtt,
}

impl Sender {
    pub(crate) fn new(first_psn: Psn, config: &HostConfig) -> Sender {
        Sender {
            first_psn,
            una: 0,
            next: 0,
            sent_end: 0,
            acked: 0,
            current: Message::none(0),
            flows: Flows::new(config.flows_per_qp_max),
            reads: Reads::new(config),
            repairs: Repairs::new(),
            asked_end: 0,
            common_end: 0,
            deadline_ns: NEVER,
            retries: 0,
            blocked: None,
            blocked_times: 0,
            rtt: Rtt::new(),
        }
    }

    /// The PSN of packet `index`.
    #[inline]
    pub(crate) fn psn(&self, index: u64) -> Psn {
        self.first_psn.plus(index as u32)
    }

    /// Takes a flow; false when there is no room.
    pub(crate) fn post(&mut self, now: u64, flow: Flow, config: &HostConfig) -> bool {
        let is_taken = self.flows.post(now, flow, config);
        self.enter_message(config);
        is_taken
    }

    /// The opcode of the next packet if it is a common one.
    #[inline]
    pub(crate) fn common_opcode(&self) -> Option<u8> {
        if self.next >= self.common_end {
            return None;
        }
        Some(self.current.verb.opcode(false, false).0)
    }

    /// Takes the next packet, which is a common one; its index.
    #[inline]
    pub(crate) fn take_common(&mut self) -> u64 {
        let index = self.next;
        self.next += 1;
        self.sent_end = self.next;
        index
    }

    /// How far the packets from `next` on are common ones.
    #[inline]
    fn common_from(&self, config: &HostConfig) -> u64 {
        let is_inside = self.next > self.current.first && self.next < self.current.end;
        if !is_inside || self.next != self.sent_end || self.current.verb == Verb::Read {
            return 0;
        }
        // After each of them the window must still be open, or the last would have to ask.
        let window = self.una + u64::from(config.window_packets);
        let asked = self.asked_end + u64::from(config.ack_every_packets);
        self.current.end.min(window).min(asked) - 1
    }

    /// Looks up the message that `next` lies in, unless it is at hand.
    #[inline]
    fn enter_message(&mut self, config: &HostConfig) {
        if self.next < self.current.first || self.next >= self.current.end {
            self.current = self.flows.message_at(self.next, config.mtu);
        }
    }

    /// Whether [`Sender::turn`] gives something.
    #[inline]
    pub(crate) fn can_send(&self, window_packets: u32) -> bool {
        if self.blocked.is_some() {
            return false;
        }
        self.has_new(u64::from(window_packets))
            || self.repairs.is_waiting()
            || self.reads.is_request_due()
    }

    /// Whether a packet that is not under repair may go.
    #[inline]
    fn has_new(&self, window_packets: u64) -> bool {
        if self.next >= self.current.end {
            return false;
        }
        let in_flight = self.next - self.una;
        if self.current.verb != Verb::Read {
            return in_flight < window_packets;
        }
        // A request takes the PSNs of its whole answer, and a place among the READs under way.
        let is_known = self.next < self.sent_end;
        in_flight + (self.current.end - self.next) <= window_packets
            && (is_known || !self.reads.is_full())
    }

    /// Takes the next thing to send: repairs first, then an announcement, then new data.
    #[inline]
    pub(crate) fn turn(&mut self, now: u64, config: &HostConfig) -> Option<Turn> {
        self.common_end = 0;
        if self.blocked.is_some() {
            return None;
        }
        if self.repairs.is_waiting() || self.reads.is_request_due() {
            return self.repair(now, config);
        }
        self.new_turn(now, config)
    }

    /// The flows, for their events.
    #[inline]
    pub(crate) fn flows(&self) -> &Flows {
        &self.flows
    }

    /// Takes the oldest flow if it is complete.
    pub(crate) fn take_completed(&mut self) -> Option<FlowState> {
        self.flows.take_completed()
    }

    /// Takes a flow whose announcement no longer holds.
    pub(crate) fn take_withdrawn(&mut self) -> Option<Announcement> {
        self.flows.take_withdrawn()
    }

    /// Drops all flows and timers; returns how many flows were not complete.
    pub(crate) fn give_up(&mut self) -> u32 {
        let lost = self.flows.give_up(self.next);
        self.common_end = 0;
        self.current = Message::none(self.next);
        self.repairs.acknowledge(u64::MAX);
        self.reads.clear();
        self.blocked = None;
        self.deadline_ns = NEVER;
        lost
    }
}
