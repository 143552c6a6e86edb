//! The flows of a connection, oldest first: where each lies in the row of packets and bytes.
//!
//! Used by the sender. A flow stays until its event is taken, so that completion needs no room of
//! its own.

use std::collections::VecDeque;

use crate::config::Flow;
use crate::segment;
use crate::units::PathMtu;

#[derive(Clone, Copy, Debug)]
pub(crate) struct FlowState {
    pub(crate) flow: Flow,
    /// Index of its first packet.
    pub(crate) first: u64,
    pub(crate) packets: u64,
    /// Byte of the connection's stream at which it begins.
    pub(crate) base_bytes: u64,
    pub(crate) started_ns: u64,
    pub(crate) ended_ns: Option<u64>,
    announce_due: bool,
}

impl FlowState {
    /// One past its last packet.
    #[inline]
    fn end(&self) -> u64 {
        self.first + self.packets
    }

    /// Whether its announcement goes before packet `index`; true once.
    #[inline]
    pub(crate) fn takes_announcement(&mut self, index: u64) -> bool {
        let is_due = self.announce_due && self.first == index;
        self.announce_due &= !is_due;
        is_due
    }
}

/// A bounded queue of flows.
#[derive(Debug)]
pub(crate) struct Flows {
    queue: VecDeque<FlowState>,
    flows_max: usize,
    /// One past the last packet, and the last byte, of the last flow.
    end: u64,
    end_bytes: u64,
}

impl Flows {
    pub(crate) fn new(flows_max: u32) -> Flows {
        Flows {
            queue: VecDeque::with_capacity(flows_max as usize),
            flows_max: flows_max as usize,
            end: 0,
            end_bytes: 0,
        }
    }

    /// Takes a flow; false when there is no room.
    pub(crate) fn post(&mut self, now: u64, flow: Flow, mtu: PathMtu) -> bool {
        if self.queue.len() == self.flows_max {
            return false;
        }
        let packets = segment::packets(&flow, mtu);
        self.queue.push_back(FlowState {
            flow,
            first: self.end,
            packets,
            base_bytes: self.end_bytes,
            started_ns: now,
            ended_ns: None,
            announce_due: flow.announce,
        });
        self.end += packets;
        self.end_bytes += flow.bytes;
        true
    }

    /// One past the last packet posted.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The flow that packet `index` lies in.
    #[inline]
    pub(crate) fn at(&mut self, index: u64) -> Option<&mut FlowState> {
        self.queue.iter_mut().find(|state| index < state.end())
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
        self.queue.retain(|state| state.ended_ns.is_some());
        self.end = end;
        (before - self.queue.len()) as u32
    }
}
