//! The next packet of a sender, made: new data, a READ request, a repair.

use packet::Opcode;

use super::{Packet, Sender, Turn};
use crate::config::HostConfig;
use crate::segment::{Message, Segment};
use crate::timers::NEVER;
use crate::verb::Verb;

impl Sender {
    #[inline]
    pub(super) fn new_turn(&mut self, now: u64, config: &HostConfig) -> Option<Turn> {
        if !self.has_new(u64::from(config.window_packets)) {
            return None;
        }
        let index = self.next;
        if self.current.is_announced
            && index == self.current.first
            && std::mem::take(&mut self.current.is_announced)
            && let Some(announcement) = self.flows.announce(index)
        {
            return Some(Turn::Announce(announcement));
        }
        let is_repeat = index < self.sent_end;
        if self.current.verb == Verb::Read {
            return Some(Turn::Packet(self.read_turn(now, is_repeat, config)));
        }
        self.next += 1;
        self.sent_end = self.sent_end.max(self.next);
        let segment = self.current.segment(index, config.mtu);
        // The last packet that the window lets out asks as well, or nobody would open it.
        let every = u64::from(config.ack_every_packets);
        let window = u64::from(config.window_packets);
        let ack_req = segment.ends
            || is_repeat
            || self.next - self.una >= window
            || self.next >= self.asked_end + every;
        if ack_req {
            self.asks(now, self.next, is_repeat, config);
        }
        let packet = packet_of(&self.current, segment, index, is_repeat, ack_req);
        if segment.ends {
            self.enter_message(config);
        }
        self.common_end = self.common_from(config);
        Some(Turn::Packet(packet))
    }

    /// The request for what the current message has left.
    fn read_turn(&mut self, now: u64, is_repeat: bool, config: &HostConfig) -> Packet {
        let index = self.next;
        let message = self.current;
        self.next = message.end;
        self.sent_end = self.sent_end.max(self.next);
        if !is_repeat {
            self.reads.push(now, &message);
        }
        // The first packet of the answer is an answer.
        self.asks(now, index + 1, is_repeat, config);
        self.asked_end = self.next;
        self.enter_message(config);
        request_of(&message, index, message.end, is_repeat, config)
    }

    /// A packet that asks for an answer goes; `end` is one past it.
    #[inline]
    fn asks(&mut self, now: u64, end: u64, is_repeat: bool, config: &HostConfig) {
        self.asked_end = end;
        if is_repeat {
            self.rtt.cancel();
        } else {
            self.rtt.sent(now, end);
        }
        if self.deadline_ns == NEVER {
            self.deadline_ns = now.saturating_add(self.timeout_ns(config));
        }
    }

    /// Takes the packet that has waited longest for being sent again.
    pub(super) fn repair(&mut self, now: u64, config: &HostConfig) -> Option<Turn> {
        let (index, single) = match self.repairs.take(now) {
            Some((index, times)) => {
                if index == self.una && times <= config.retry_max {
                    self.deadline_ns = now.saturating_add(self.timeout_ns(config));
                }
                (index, false)
            }
            None => (self.reads.take_request(now, config)?, true),
        };
        if !config.recovery.is_selective() {
            // All behind the missing packet has been dropped.
            self.next = index;
            self.enter_message(config);
            return self.new_turn(now, config);
        }
        self.rtt.cancel();
        let message = self.flows.message_at(index, config.mtu);
        if index < message.first || index >= message.end {
            return None;
        }
        let packet = if message.verb == Verb::Read {
            let end = if single {
                index + 1
            } else {
                self.reads.missing_end(index)
            };
            request_of(&message, index, end, true, config)
        } else {
            let segment = message.segment(index, config.mtu);
            packet_of(&message, segment, index, true, true)
        };
        Some(Turn::Packet(packet))
    }
}

#[inline]
fn packet_of(
    message: &Message,
    segment: Segment,
    index: u64,
    is_repeat: bool,
    ack_req: bool,
) -> Packet {
    let names = segment.begins && message.verb.has_address();
    Packet {
        index,
        opcode: segment.opcode,
        len: segment.len,
        reth: names.then_some((message.stream_byte, message.bytes as u32)),
        has_immediate: segment.ends && message.verb.has_immediate(),
        is_repeat,
        ack_req,
    }
}

/// The request for packets `index..end` of a READ.
fn request_of(
    message: &Message,
    index: u64,
    end: u64,
    is_repeat: bool,
    config: &HostConfig,
) -> Packet {
    let bytes = message.bytes_of(index, end, config.mtu);
    let address = message.stream_byte + config.mtu.times(index - message.first);
    Packet {
        index,
        opcode: Opcode::READ_REQUEST,
        len: 0,
        reth: Some((address, bytes as u32)),
        has_immediate: false,
        is_repeat,
        ack_req: true,
    }
}
