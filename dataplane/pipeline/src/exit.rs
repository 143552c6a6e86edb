//! Where packets leave: the queues of all ports, and what marks congestion in them.

use crate::counters::{Counters, Note};
use crate::drop::DropReason;
use crate::port::{Queues, Row};
use crate::red::Red;
use crate::token::{Sink, Token};
use crate::types::{Nanos, PortId};

/// Where packets leave.
#[repr(C)]
pub(crate) struct Exit<T> {
    /// Packets that were cut through since [`Exit::take_cut`].
    pub(crate) cut: u64,
    pub(crate) queues: Queues<T>,
    /// ECN marking, if any queue has it.
    pub(crate) red: Option<Box<Red>>,
}

impl<T: Token> Exit<T> {
    /// Queues a packet of `len` bytes, or counts why not. True when it is queued, which the caller
    /// counts.
    #[inline(always)]
    pub(crate) fn enqueue<S: Sink<T>>(
        &mut self,
        (port, priority): (usize, u8),
        mut token: T,
        len: u32,
        counters: &mut Counters,
        sink: &mut S,
    ) -> bool {
        if self.red.is_some() {
            self.mark_congestion((port, priority), &mut token, counters);
        }
        match self.queues.enqueue(port, priority, token, len) {
            Ok(()) => true,
            Err(refused) => Exit::drop(refused, counters, sink),
        }
    }

    /// The same for a message between switches, for which there is a reserve. It is never marked: it
    /// answers to no sender.
    pub(crate) fn enqueue_message<S: Sink<T>>(
        &mut self,
        (port, priority): (usize, u8),
        token: T,
        counters: &mut Counters,
        sink: &mut S,
    ) -> bool {
        let len = token.wire_len();
        match self.queues.enqueue_message(port, priority, token, len) {
            Ok(()) => true,
            Err(refused) => Exit::drop(refused, counters, sink),
        }
    }

    /// Hands a packet that no port refuses for its length, and that would leave at once, to the driver,
    /// if it takes it; or gives it back.
    #[inline(always)]
    pub(crate) fn cut_through<S: Sink<T>>(
        &mut self,
        now: Nanos,
        port: usize,
        token: T,
        len: u32,
        sink: &mut S,
    ) -> Result<(), T> {
        if !S::CUTS_THROUGH || !self.queues.is_open(now, port, len) {
            return Err(token);
        }
        sink.cut_through(PortId(port as u16), token)?;
        self.queues.count_cut(now, port, len);
        self.cut += 1;
        Ok(())
    }

    /// How many packets were cut through since this was last asked: they were never queued.
    #[inline(always)]
    pub(crate) fn take_cut(&mut self) -> u64 {
        std::mem::take(&mut self.cut)
    }

    /// [`Exit::enqueue`] or [`Exit::cut_through`], for a packet that no port refuses for its length.
    #[inline(always)]
    pub(crate) fn enqueue_fitting<S: Sink<T>>(
        &mut self,
        now: Nanos,
        (port, priority): (usize, u8),
        token: T,
        len: u32,
        counters: &mut Counters,
        sink: &mut S,
    ) -> bool {
        let token = match self.cut_through(now, port, token, len, sink) {
            Ok(()) => return true,
            Err(token) => token,
        };
        match self.queues.door(port).put(priority, token, len) {
            Ok(()) => true,
            Err(token) => self.enqueue_hard((port, priority), token, len, counters, sink),
        }
    }

    /// [`Exit::enqueue`] of a packet that may be marked or dropped.
    #[inline(never)]
    fn enqueue_hard<S: Sink<T>>(
        &mut self,
        place: (usize, u8),
        token: T,
        len: u32,
        counters: &mut Counters,
        sink: &mut S,
    ) -> bool {
        self.enqueue(place, token, len, counters, sink)
    }

    /// Counts a packet that no queue has taken.
    #[inline(never)]
    fn drop<S: Sink<T>>(
        (token, reason): (T, DropReason),
        counters: &mut Counters,
        sink: &mut S,
    ) -> bool {
        counters.drops[reason.index()] += 1;
        sink.discard(token, reason);
        false
    }

    /// Marks the packet's ECN field by the depth of the queue that it goes to. One that the queue then
    /// refuses is not counted.
    #[inline(never)]
    fn mark_congestion(
        &mut self,
        (port, priority): (usize, u8),
        token: &mut T,
        counters: &mut Counters,
    ) {
        let Some(red) = &mut self.red else { return };
        let depth = self.queues.queue_bytes(port, priority);
        let is_taken = self.queues.takes(port, priority, token.wire_len());
        if red.marks(port, usize::from(priority), depth)
            && packet::ecn::mark(token.header_mut())
            && is_taken
        {
            counters.note(Note::EcnMarked);
        }
    }

    /// Where packets in a row, of `len` bytes each, go to one queue.
    #[inline(always)]
    pub(crate) fn row(&self, (port, priority): (usize, u8), len: u32) -> Row {
        self.queues.row(port, priority, len)
    }

    /// As [`Exit::enqueue`] into the row's queue, a packet that no port refuses for its length.
    #[inline(always)]
    pub(crate) fn push<S: Sink<T>>(
        &mut self,
        row: &mut Row,
        token: T,
        counters: &mut Counters,
        sink: &mut S,
    ) -> bool {
        match self.queues.push(row, token) {
            Ok(()) => true,
            Err(token) => {
                let is_queued;
                (*row, is_queued) = self.push_any(*row, token, counters, sink);
                is_queued
            }
        }
    }

    // The row by value, so that it need not be in memory elsewhere.
    #[inline(never)]
    fn push_any<S: Sink<T>>(
        &mut self,
        row: Row,
        token: T,
        counters: &mut Counters,
        sink: &mut S,
    ) -> (Row, bool) {
        self.queues.end_row(&row);
        let (place, len) = row.place();
        let is_queued = self.enqueue(place, token, len, counters, sink);
        (self.row(place, len), is_queued)
    }
}
