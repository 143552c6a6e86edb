//! Which packets of a row have arrived, and which of the others are lost.
//!
//! Used by the receiver for a peer's packets and by the requester for the answers to its READs.
//! Packets are counted from 0 in 64 bits. State is a ring of two bytes per packet of the window,
//! and the table of [`Holes`].

mod common;

use crate::config::Recovery;
use crate::holes::Holes;
use crate::timers::NEVER;

/// What became of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Arrival {
    /// Accepted; so far behind the latest packet (0: it is the latest).
    New { behind: u64 },
    /// It was here before.
    Duplicate,
    /// Beyond the window.
    Beyond,
    /// Ahead of a missing one, and dropped: go-back-N. So far ahead.
    Dropped { ahead: u64 },
    /// The next in order, and dropped: the owner could not take it.
    NotReady,
}

#[derive(Debug)]
pub(crate) struct Arrivals {
    /// All before it have arrived and are with the owner.
    expected: u64,
    /// One past the latest that has arrived.
    top: u64,
    /// One slot per packet of `expected..top`, by the low bits of its index; others are 0.
    slots: Box<[u16]>,
    /// Numbers in `expected..top` that came in packets of several, but for one of each: the
    /// reorder window is one of packets.
    slack: u64,
    /// Missing packets before this one are in `holes`.
    judged: u64,
    holes: Holes,
    /// At `mark_ns`, what is missing before `mark` has been so for a hole timeout.
    mark: u64,
    mark_ns: u64,
}

impl Arrivals {
    /// A window of so many packets, a power of two; go-back-N needs none.
    pub(crate) fn new(window_packets: u32, recovery: &Recovery) -> Arrivals {
        let slots = match recovery {
            Recovery::SelectiveRepeat { .. } => window_packets as usize,
            Recovery::GoBackN { .. } => 0,
        };
        Arrivals {
            expected: 0,
            top: 0,
            slots: vec![0; slots].into(),
            slack: 0,
            judged: 0,
            holes: Holes::new(),
            mark: 0,
            mark_ns: NEVER,
        }
    }

    /// The first that has not arrived.
    #[inline]
    pub(crate) fn expected(&self) -> u64 {
        self.expected
    }

    /// One past the latest that has arrived.
    #[inline]
    pub(crate) fn top(&self) -> u64 {
        self.top
    }

    /// Whether packet `index`, not before the expected one, has arrived.
    pub(crate) fn has(&self, index: u64) -> bool {
        index < self.expected || index < self.top && self.slots[self.at(index)] != 0
    }

    #[inline]
    fn at(&self, index: u64) -> usize {
        (index & (self.slots.len() as u64 - 1)) as usize
    }

    /// Takes note of packet `index` with a word about it, not 0, for `deliver`, which is called
    /// for packets in their order and says whether the owner can take them now.
    #[inline]
    pub(crate) fn arrive(
        &mut self,
        now: u64,
        index: i64,
        word: u16,
        recovery: &Recovery,
        mut deliver: impl FnMut(u16) -> bool,
    ) -> Arrival {
        if index < self.expected as i64 {
            return Arrival::Duplicate;
        }
        if index == self.expected as i64 && self.top == self.expected {
            if !deliver(word) {
                return Arrival::NotReady;
            }
            self.pass_all(1);
            return Arrival::New { behind: 0 };
        }
        self.arrive_apart(now, index as u64, [word; 2], 1, recovery, deliver)
    }

    /// [`Arrivals::arrive`] for `count` packets in one, above 0: the last has a word of its own.
    pub(crate) fn arrive_row(
        &mut self,
        now: u64,
        index: i64,
        words: [u16; 2],
        count: u64,
        recovery: &Recovery,
        mut deliver: impl FnMut(u16) -> bool,
    ) -> Arrival {
        if index < self.expected as i64 {
            return Arrival::Duplicate;
        }
        if index == self.expected as i64 && self.top == self.expected {
            for _ in 1..count {
                deliver(words[0]);
            }
            deliver(words[1]);
            self.pass_all(count);
            return Arrival::New { behind: 0 };
        }
        self.arrive_apart(now, index as u64, words, count, recovery, deliver)
    }

    #[inline]
    fn pass_all(&mut self, count: u64) {
        self.expected += count;
        self.top = self.expected;
        self.judged = self.expected;
        self.holes.clear();
    }

    /// Enters packets that are not the next of an unbroken row.
    fn arrive_apart(
        &mut self,
        now: u64,
        index: u64,
        words: [u16; 2],
        count: u64,
        recovery: &Recovery,
        deliver: impl FnMut(u16) -> bool,
    ) -> Arrival {
        let Recovery::SelectiveRepeat {
            reorder_window_packets,
            hole_timeout_ns,
            ..
        } = *recovery
        else {
            let ahead = index - self.expected;
            if self.holes.is_empty() {
                self.holes.push(self.expected);
            }
            return Arrival::Dropped { ahead };
        };
        if index - self.expected + count > self.slots.len() as u64 {
            return Arrival::Beyond;
        }
        let at = self.at(index);
        let is_duplicate = self.slots[at] != 0;
        let behind = self.top.saturating_sub(index + count);
        if !is_duplicate {
            self.slots[at] = words[usize::from(count == 1)];
            for later in 1..count {
                let at = self.at(index + later);
                self.slots[at] = words[usize::from(later + 1 == count)];
            }
            self.top = self.top.max(index + count);
            self.slack += count - 1;
            if !self.holes.is_empty() {
                self.holes.arrived(index..index + count);
            }
        }
        self.drain(deliver);
        self.judge(now, reorder_window_packets, hole_timeout_ns);
        if is_duplicate {
            Arrival::Duplicate
        } else {
            Arrival::New { behind }
        }
    }

    /// Hands over what is next in order, as far as the owner takes it.
    #[inline]
    pub(crate) fn drain(&mut self, mut deliver: impl FnMut(u16) -> bool) {
        let begun = self.expected;
        while self.expected < self.top {
            let at = self.at(self.expected);
            let word = self.slots[at];
            if word == 0 || !deliver(word) {
                break;
            }
            self.slots[at] = 0;
            self.expected += 1;
        }
        if self.expected > begun {
            self.judged = self.judged.max(self.expected);
            self.holes.passed(self.expected);
        }
    }

    /// What is missing before this is lost by distance: the latest arrival, `top - 1`, is a reorder
    /// window or more ahead of it.
    #[inline]
    fn lost_before(&self, top: u64, reorder_window_packets: u32) -> u64 {
        top.saturating_sub(u64::from(reorder_window_packets.max(1)) + self.slack)
    }

    /// Finds what is lost by now: by distance here, by age in [`Arrivals::tick`].
    #[inline]
    fn judge(&mut self, now: u64, reorder_window_packets: u32, hole_timeout_ns: u64) {
        let end = self.lost_before(self.top, reorder_window_packets);
        if self.judged < end {
            self.condemn(end);
        }
        if self.expected == self.top {
            self.mark_ns = NEVER;
            self.slack = 0;
        } else if self.mark_ns == NEVER && self.judged < self.top {
            self.mark = self.top;
            self.mark_ns = now.saturating_add(hole_timeout_ns);
        }
    }

    /// Enters what is missing before `end` into the table, as far as there is room.
    fn condemn(&mut self, end: u64) {
        while self.judged < end && !self.holes.is_full() {
            if self.slots[self.at(self.judged)] == 0 {
                self.holes.push(self.judged);
            }
            self.judged += 1;
        }
    }

    /// Earliest time at which [`Arrivals::tick`] has something to do.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.mark_ns.min(self.holes.deadline())
    }

    /// Does what time alone causes: holes that are too old, requests to repeat.
    pub(crate) fn tick(&mut self, now: u64, recovery: &Recovery) {
        let Recovery::SelectiveRepeat {
            hole_timeout_ns, ..
        } = *recovery
        else {
            return;
        };
        if now >= self.mark_ns {
            self.condemn(self.mark);
            // A full table waits for an arrival to make room, which sets a new mark; so time does
            // not go on for ever over packets that somebody invented.
            let goes_on = self.judged >= self.mark && self.judged < self.top;
            self.mark = self.top;
            self.mark_ns = if goes_on {
                now.saturating_add(hole_timeout_ns)
            } else {
                NEVER
            };
        }
        self.holes.tick(now);
    }

    /// Whether a packet is to be asked for.
    #[inline]
    pub(crate) fn is_request_due(&self) -> bool {
        self.holes.is_due()
    }

    /// Takes the index of the next packet to ask for.
    pub(crate) fn take_request(
        &mut self,
        now: u64,
        recovery: &Recovery,
        retry_max: u32,
    ) -> Option<u64> {
        // Soft-RoCE asks once and leaves the rest to the sender's timeout.
        let (wait_ns, requests_max) = match *recovery {
            Recovery::SelectiveRepeat {
                hole_timeout_ns, ..
            } => (hole_timeout_ns, retry_max + 1),
            Recovery::GoBackN { .. } => (0, 1),
        };
        self.holes.take(now, wait_ns, requests_max)
    }
}
