//! The flows of a connection, oldest first: where each lies in the row of packets and bytes.
//!
//! Used by the sender. A flow stays until its event is taken, so that completion needs no room of
//! its own.

use std::collections::VecDeque;

use crate::config::{Flow, HostConfig};
use crate::segment::Message;
use crate::units::PathMtu;
use crate::verb::Verb;

/// What the switches are told about a flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Announcement {
    pub(crate) flow_id: u64,
    /// Index of its first packet.
    pub(crate) first: u64,
    pub(crate) packets: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowState {
    pub(crate) flow: Flow,
    /// Index of its first packet.
    first: u64,
    packets: u64,
    /// Bytes and packets of each of its messages but the last.
    message_bytes: u64,
    message_packets: u64,
    /// Byte of the connection's stream at which it begins.
    base_bytes: u64,
    pub(crate) started_ns: u64,
    pub(crate) ended_ns: Option<u64>,
    announce_due: bool,
    is_announced: bool,
}

impl FlowState {
    /// One past its last packet.
    #[inline]
    fn end(&self) -> u64 {
        self.first + self.packets
    }

    fn announcement(&self) -> Announcement {
        Announcement {
            flow_id: self.flow.flow_id,
            first: self.first,
            packets: self.packets,
        }
    }

    /// The message that packet `index` of the connection lies in.
    fn message(&self, index: u64, mtu: PathMtu) -> Message {
        let number = (index - self.first) / self.message_packets;
        let first = self.first + number * self.message_packets;
        let begin = number * self.message_bytes;
        let bytes = self.message_bytes.min(self.flow.bytes - begin);
        Message {
            verb: self.flow.verb,
            first,
            end: first + mtu.packets(bytes),
            bytes,
            stream_byte: self.base_bytes + begin,
            is_announced: self.announce_due && first == self.first,
        }
    }
}

/// Packets that a READ request may ask for: several of them fit the window.
pub(crate) fn read_packets_max(window_packets: u32) -> u64 {
    u64::from(window_packets / 4).max(1)
}

/// A bounded queue of flows.
#[derive(Debug)]
pub(crate) struct Flows {
    queue: VecDeque<FlowState>,
    flows_max: usize,
    /// One past the last packet, and the last byte sent, of the last flow.
    end: u64,
    end_bytes: u64,
    /// Announced flows that will not be, until that is said.
    withdrawn: VecDeque<Announcement>,
}

impl Flows {
    pub(crate) fn new(flows_max: u32) -> Flows {
        Flows {
            queue: VecDeque::with_capacity(flows_max as usize),
            flows_max: flows_max as usize,
            end: 0,
            end_bytes: 0,
            withdrawn: VecDeque::with_capacity(flows_max as usize),
        }
    }

    /// Takes a flow; false when there is no room.
    pub(crate) fn post(&mut self, now: u64, flow: Flow, config: &HostConfig) -> bool {
        if self.queue.len() == self.flows_max {
            return false;
        }
        let mtu = config.mtu;
        let is_read = flow.verb == Verb::Read;
        let message_bytes = if is_read {
            let most = mtu.times(read_packets_max(config.window_packets));
            flow.message_bytes.min(most)
        } else {
            flow.message_bytes
        };
        let message_packets = mtu.packets(message_bytes);
        let rest = flow.bytes % message_bytes;
        let tail = if rest > 0 { mtu.packets(rest) } else { 0 };
        let packets = flow.bytes / message_bytes * message_packets + tail;
        self.queue.push_back(FlowState {
            flow,
            first: self.end,
            packets,
            message_bytes,
            message_packets,
            base_bytes: self.end_bytes,
            started_ns: now,
            ended_ns: None,
            announce_due: flow.announce && !is_read,
            is_announced: false,
        });
        self.end += packets;
        if !is_read {
            self.end_bytes += flow.bytes;
        }
        true
    }

    /// The message that packet `index` lies in, empty when nothing is posted so far.
    pub(crate) fn message_at(&self, index: u64, mtu: PathMtu) -> Message {
        let state = self.queue.iter().find(|state| index < state.end());
        state.map_or(Message::none(index), |state| state.message(index, mtu))
    }

    /// Takes the announcement of the flow that begins with packet `index`.
    pub(crate) fn announce(&mut self, index: u64) -> Option<Announcement> {
        let state = self.queue.iter_mut().find(|state| state.first == index)?;
        if !std::mem::take(&mut state.announce_due) {
            return None;
        }
        state.is_announced = true;
        Some(state.announcement())
    }

    /// All packets before `una` are acknowledged.
    #[inline]
    pub(crate) fn acknowledge(&mut self, now: u64, una: u64) {
        for state in &mut self.queue {
            if state.ended_ns.is_none() && una >= state.end() {
                state.ended_ns = Some(now);
            }
        }
    }

    /// Whether a complete flow waits to be taken.
    #[inline]
    pub(crate) fn has_completed(&self) -> bool {
        self.queue.front().is_some_and(|f| f.ended_ns.is_some())
    }

    /// Takes the oldest flow if it is complete.
    pub(crate) fn take_completed(&mut self) -> Option<FlowState> {
        self.queue.front()?.ended_ns?;
        self.queue.pop_front()
    }

    /// Drops what is not complete, and ends the row at packet `end`; returns how many flows.
    pub(crate) fn give_up(&mut self, end: u64) -> u32 {
        let before = self.queue.len();
        let withdrawn = &mut self.withdrawn;
        self.queue.retain(|state| {
            let is_complete = state.ended_ns.is_some();
            if !is_complete && state.is_announced {
                withdrawn.push_back(state.announcement());
            }
            is_complete
        });
        self.end = end;
        (before - self.queue.len()) as u32
    }

    /// Whether the end of an announced flow is to be told.
    #[inline]
    pub(crate) fn has_withdrawn(&self) -> bool {
        !self.withdrawn.is_empty()
    }

    /// Takes an announced flow that will not be.
    pub(crate) fn take_withdrawn(&mut self) -> Option<Announcement> {
        self.withdrawn.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Address, MacAddr};
    use proptest::prelude::*;

    proptest! {
        /// Goal: the packets of a flow are its bytes, in order, in well-formed messages.
        #[test]
        fn messages_cover_a_flow(
            bytes in 1u64..100_000, message_bytes in 1u64..20_000, shift in 8u32..=12, read: bool,
        ) {
            prop_assume!(bytes / message_bytes < 2000);
            let mac = MacAddr([2, 0, 0, 0, 0, 1]);
            let mtu = PathMtu::new(1 << shift).unwrap();
            let config = HostConfig { mtu, ..HostConfig::new(Address::v4(1), mac, mac) };
            let verb = if read { Verb::Read } else { Verb::Send };
            let flow = Flow { verb, flow_id: 0, bytes, message_bytes, announce: true };
            let mut flows = Flows::new(1);
            prop_assert!(flows.post(0, flow, &config) && !flows.post(0, flow, &config));
            let (mut index, mut at) = (0, 0);
            while index < flows.end {
                let message = flows.message_at(index, mtu);
                prop_assert_eq!((message.first, message.stream_byte), (index, at));
                prop_assert_eq!(message.is_announced, index == 0 && !read);
                prop_assert!(!read || message.end - index <= 16);
                let mut inside = 0;
                for packet in index..message.end {
                    prop_assert_eq!(flows.message_at(packet, mtu), message);
                    inside += message.bytes_of(packet, packet + 1, mtu);
                    if !read {
                        let s = message.segment(packet, mtu);
                        prop_assert_eq!(s.begins, packet == index);
                        prop_assert!(s.len > 0 && (s.len == mtu.bytes() || s.ends));
                    }
                }
                prop_assert_eq!(inside, message.bytes);
                at += message.bytes;
                index = message.end;
            }
            prop_assert_eq!(at, bytes);
            prop_assert_eq!(flows.message_at(index, mtu), Message::none(index));
        }
    }
}
