//! A run from a host to another leaf: sprayed, and measured or not.

use packet::head::{Head, HeadBytes};

use super::ways::{AnyWay, ShorterOfTwo, Ways};
use super::{FLAGS_AT, Next, Rest, Run, Taken, key_of, rewrite};
use crate::announced::Announcements;
use crate::config::Mark;
use crate::counters::Counters;
use crate::exit::Exit;
use crate::port::{MEASURED, Queues};
use crate::source::{Class, Open};
use crate::spray::{Choice, Uplink};
use crate::token::{Sink, Token};
use crate::track::Stride;
use crate::types::{LeafId, Nanos, PortId};

/// All that packets from a host to another leaf meet.
pub(super) struct LeafWay<'a, T> {
    pub(super) now: Nanos,
    pub(super) run: &'a Run,
    pub(super) to: LeafId,
    pub(super) choice: Choice<'a>,
    pub(super) exit: &'a mut Exit<T>,
    pub(super) counters: &'a mut Counters,
}

impl<T: Token> LeafWay<'_, T> {
    /// How packets of `priority` go if nothing but the shorter of two queues is asked for them.
    #[inline(always)]
    pub(super) fn plain(&self, priority: u8) -> Option<ShorterOfTwo> {
        let of_two = self.choice.of_two(priority == MEASURED)?;
        let place = Queues::<T>::depth_place(priority)?;
        Some(ShorterOfTwo { of_two, place })
    }

    /// The window's packets, in highest priority and marked.
    #[inline(always)]
    pub(super) fn take_measured<W: Ways<T>, S: Sink<T>, R: Rest<T>>(
        mut self,
        ways: W,
        open: &mut Open,
        which: Mark,
        mut token: T,
        rest: &mut R,
        sink: &mut S,
    ) -> (Next<T>, Taken) {
        let (mut packets, mut refused, mut unmarked) = (0, 0, 0);
        let mut dropped = None;
        let mut is_over = false;
        let mark_bits = open.mark_bits();
        let mut stride = open.stride();
        let next = loop {
            let Some(bytes) = self.run.bytes::<T, R>(&mut token) else {
                break Next::Token(Some(token));
            };
            let psn = Head::psn(bytes);
            packets += 1;
            if stride.step(psn) {
                let uplink = ways.uplink(&mut self, bytes, MEASURED);
                self.rewrite(bytes, uplink);
                bytes[FLAGS_AT] |= mark_bits;
                if self.enqueue(uplink, MEASURED, token, sink) {
                    self.choice.count_measured(uplink);
                } else {
                    refused += 1;
                    dropped = Some(uplink.spine());
                    break Next::Token(rest.next());
                }
            } else {
                open.walk(&stride);
                stride = Stride::NOTHING;
                if open.is_outside(psn) {
                    packets -= 1;
                    break Next::Unknown(token);
                }
                let class = open.classify(self.now, psn, which, self.counters);
                stride = open.stride();
                let is_marked = matches!(class, Class::Measured { mark: true, .. });
                is_over = matches!(class, Class::Measured { ends: true, .. });
                let bits = if is_marked { mark_bits } else { 0 };
                unmarked += u64::from(!is_marked);
                if let Err(spine) = self.take_alone(bits, token, sink) {
                    refused += 1;
                    dropped = is_marked.then_some(spine);
                }
                if is_over || dropped.is_some() {
                    break Next::Token(rest.next());
                }
            }
            match rest.next() {
                None => break Next::Token(None),
                Some(next) => token = next,
            }
        };
        open.walk(&stride);
        if packets > 0 {
            open.touch(self.now);
        }
        let marked = packets - unmarked - u64::from(dropped.is_some());
        open.count_marked(marked);
        let taken = Taken {
            packets,
            refused,
            marked,
            dropped,
            is_over,
        };
        (next, taken)
    }

    /// Rewrites the packet's addresses and TTL for an uplink.
    #[inline(always)]
    fn rewrite(&self, bytes: &mut HeadBytes, uplink: Uplink) {
        rewrite(bytes, self.exit.queues.macs(uplink.port()));
    }

    /// Queues a packet. True when it is queued.
    #[inline(always)]
    fn enqueue<S: Sink<T>>(
        &mut self,
        uplink: Uplink,
        priority: u8,
        token: T,
        sink: &mut S,
    ) -> bool {
        let (place, len) = ((uplink.port(), priority), self.run.wire_len);
        self.exit
            .enqueue_fitting(self.now, place, token, len, self.counters, sink)
    }

    /// One of the window's packets, marked with `bits` if with any. The spine towards which it was refused,
    /// if it was.
    #[inline(never)]
    fn take_alone<S: Sink<T>>(
        &mut self,
        bits: u8,
        mut token: T,
        sink: &mut S,
    ) -> Result<(), usize> {
        let Some(bytes) = token.header_mut().first_chunk_mut() else {
            debug_assert!(false, "its headers were read");
            return Ok(());
        };
        let uplink = AnyWay.uplink(self, bytes, MEASURED);
        self.rewrite(bytes, uplink);
        bytes[FLAGS_AT] |= bits;
        if !self.enqueue(uplink, MEASURED, token, sink) {
            return Err(uplink.spine());
        }
        if bits != 0 {
            self.choice.count_measured(uplink);
        }
        Ok(())
    }

    /// [`LeafWay::take_others`] in the way that they go.
    #[inline(always)]
    pub(super) fn take_others_by<S: Sink<T>, R: Rest<T>>(
        self,
        priority: u8,
        following: (Option<&mut Announcements>, &mut u32),
        token: T,
        rest: &mut R,
        sink: &mut S,
    ) -> (Next<T>, Taken) {
        match self.plain(priority) {
            Some(ways) => self.take_others(ways, following, token, rest, sink),
            None => self.take_others(AnyWay, following, token, rest, sink),
        }
    }

    /// Packets that are not measured; `flows` may follow theirs, and one is to be looked at when
    /// `until_sample` comes down to it.
    #[inline(always)]
    fn take_others<W: Ways<T>, S: Sink<T>, R: Rest<T>>(
        mut self,
        ways: W,
        (mut flows, until_sample): (Option<&mut Announcements>, &mut u32),
        mut token: T,
        rest: &mut R,
        sink: &mut S,
    ) -> (Next<T>, Taken) {
        let (mut packets, mut refused) = (0, 0);
        let priority = self.run.priority;
        let unseen = u64::from(until_sample.saturating_sub(1));
        let next = loop {
            if packets == unseen {
                break Next::Unknown(token);
            }
            let Some(bytes) = self.run.bytes::<T, R>(&mut token) else {
                break Next::Token(Some(token));
            };
            if let Some(flows) = &mut flows {
                let port = PortId(self.run.in_port as u16);
                let key = key_of(&self.run.head);
                flows.follow(port, self.to, &key, Head::psn(bytes));
            }
            let uplink = ways.uplink(&mut self, bytes, priority);
            self.rewrite(bytes, uplink);
            packets += 1;
            if !self.enqueue(uplink, priority, token, sink) {
                refused += 1;
            }
            match rest.next() {
                None => break Next::Token(None),
                Some(next) => token = next,
            }
        };
        *until_sample -= packets as u32;
        let taken = Taken {
            packets,
            refused,
            ..Taken::default()
        };
        (next, taken)
    }
}
