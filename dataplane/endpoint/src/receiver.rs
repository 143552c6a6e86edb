//! The receiving half of a connection: which packets have arrived, and what to tell the sender.
//!
//! Called by [`Host`](crate::Host) only. Packets are counted from 0 in 64 bits, so that PSNs wrap
//! at the edge of the crate and nowhere else. Payload is placed as it comes and never buffered;
//! state is a ring of two bytes per packet of the window, and the table of [`Holes`].

use packet::Psn;

use crate::config::{HostConfig, Recovery};
use crate::holes::Holes;
use crate::timers::NEVER;

// A slot of the window: the length in the low 13 bits, and what the packet was.
const PRESENT: u16 = 0x8000;
const ENDS_MESSAGE: u16 = 0x4000;
const ACK_REQ: u16 = 0x2000;
const LEN: u16 = 0x1fff;

/// What became of a data packet.
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
}

#[derive(Debug)]
pub(crate) struct Receiver {
    first_psn: Psn,
    /// All before it have arrived.
    expected: u64,
    /// One past the latest that has arrived.
    top: u64,
    /// One slot per packet of `expected..top`, by the low bits of its index; others are 0.
    slots: Box<[u16]>,
    /// Missing packets before this one are in `holes`.
    judged: u64,
    holes: Holes,
    /// At `mark_ns`, what is missing before `mark` has been so for a hole timeout.
    mark: u64,
    mark_ns: u64,
    /// In-order packets since the last acknowledgement.
    unacknowledged: u32,
    ack_due: bool,
    /// Message sequence number: messages complete.
    messages: u32,
    delivered_bytes: u64,
    reported_bytes: u64,
    reported_messages: u32,
    open_bytes: u64,
}

impl Receiver {
    pub(crate) fn new(first_psn: Psn, config: &HostConfig) -> Receiver {
        let slots = match config.recovery {
            Recovery::SelectiveRepeat { .. } => config.receive_window_packets as usize,
            Recovery::GoBackN { .. } => 0,
        };
        Receiver {
            first_psn,
            expected: 0,
            top: 0,
            slots: vec![0; slots].into(),
            judged: 0,
            holes: Holes::new(),
            mark: 0,
            mark_ns: NEVER,
            unacknowledged: 0,
            ack_due: false,
            messages: 0,
            delivered_bytes: 0,
            reported_bytes: 0,
            reported_messages: 0,
            open_bytes: 0,
        }
    }

    /// The index that `psn` means: the one nearest to the expected packet. Negative when it lies
    /// before the first.
    #[inline]
    pub(crate) fn index(&self, psn: Psn) -> i64 {
        let expected = self.first_psn.plus(self.expected as u32);
        self.expected as i64 + i64::from(psn.ahead_of(expected))
    }

    /// Bytes of all packets in order so far.
    #[inline]
    pub(crate) fn delivered_bytes(&self) -> u64 {
        self.delivered_bytes
    }

    /// Whether `index` is the next in order.
    #[inline]
    pub(crate) fn is_next(&self, index: i64) -> bool {
        index == self.expected as i64
    }

    /// Takes note of packet `index`.
    #[inline]
    pub(crate) fn arrive(
        &mut self,
        now: u64,
        index: i64,
        len: u32,
        ends_message: bool,
        ack_req: bool,
        config: &HostConfig,
    ) -> Arrival {
        if index < self.expected as i64 {
            self.ack_due = true;
            return Arrival::Duplicate;
        }
        let index = index as u64;
        let mut slot = PRESENT | len as u16;
        if ends_message {
            slot |= ENDS_MESSAGE;
        }
        if ack_req {
            slot |= ACK_REQ;
        }
        if index == self.expected && self.top == self.expected {
            self.deliver(slot, config);
            self.top = self.expected;
            self.judged = self.expected;
            self.holes.clear();
            return Arrival::New { behind: 0 };
        }
        match config.recovery {
            Recovery::SelectiveRepeat {
                reorder_window_packets,
                hole_timeout_ns,
                ..
            } => {
                let arrival = self.place(index, slot, config);
                self.judge(now, u64::from(reorder_window_packets), hole_timeout_ns);
                arrival
            }
            Recovery::GoBackN { .. } => {
                let ahead = index - self.expected;
                if self.holes.is_empty() {
                    self.holes.push(self.expected);
                }
                Arrival::Dropped { ahead }
            }
        }
    }

    /// Enters a packet that is not the next of an unbroken row.
    fn place(&mut self, index: u64, slot: u16, config: &HostConfig) -> Arrival {
        let mask = self.slots.len() as u64 - 1;
        if index - self.expected > mask {
            return Arrival::Beyond;
        }
        let at = (index & mask) as usize;
        if self.slots[at] != 0 {
            self.ack_due = true;
            return Arrival::Duplicate;
        }
        self.slots[at] = slot;
        let behind = self.top.saturating_sub(index + 1);
        self.top = self.top.max(index + 1);
        while self.expected < self.top {
            let at = (self.expected & mask) as usize;
            if self.slots[at] == 0 {
                break;
            }
            let slot = std::mem::take(&mut self.slots[at]);
            self.deliver(slot, config);
        }
        self.judged = self.judged.max(self.expected);
        self.holes.arrived(index, self.expected);
        Arrival::New { behind }
    }

    /// Finds what is lost by now: by distance here, by age in [`Receiver::tick`].
    fn judge(&mut self, now: u64, reorder_window: u64, hole_timeout_ns: u64) {
        // Lost: the latest arrival, top - 1, is a window or more ahead of it.
        self.condemn(self.top.saturating_sub(reorder_window.max(1)));
        if self.expected == self.top {
            self.mark_ns = NEVER;
        } else if self.mark_ns == NEVER && self.judged < self.top {
            self.mark = self.top;
            self.mark_ns = now.saturating_add(hole_timeout_ns);
        }
    }

    /// Enters what is missing before `end` into the table, as far as there is room.
    fn condemn(&mut self, end: u64) {
        let mask = self.slots.len() as u64 - 1;
        while self.judged < end && !self.holes.is_full() {
            if self.slots[(self.judged & mask) as usize] == 0 {
                self.holes.push(self.judged);
            }
            self.judged += 1;
        }
    }

    /// Counts the next packet in order.
    #[inline]
    fn deliver(&mut self, slot: u16, config: &HostConfig) {
        self.expected += 1;
        self.unacknowledged += 1;
        let len = u64::from(slot & LEN);
        self.delivered_bytes += len;
        self.open_bytes += len;
        if slot & ENDS_MESSAGE != 0 {
            self.messages = self.messages.wrapping_add(1);
            self.reported_messages += 1;
            self.reported_bytes += self.open_bytes;
            self.open_bytes = 0;
        }
        if slot & ACK_REQ != 0 || self.unacknowledged >= config.ack_every_packets {
            self.ack_due = true;
        }
    }

    /// Earliest time at which [`Receiver::tick`] has something to do.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.mark_ns.min(self.holes.deadline())
    }

    /// Does what time alone causes: holes that are too old, requests to repeat.
    pub(crate) fn tick(&mut self, now: u64, config: &HostConfig) {
        let Recovery::SelectiveRepeat {
            hole_timeout_ns, ..
        } = config.recovery
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

    /// Whether an ACK or a NAK is due.
    #[inline]
    pub(crate) fn has_control(&self) -> bool {
        self.ack_due || self.holes.is_due()
    }

    /// Takes the PSN of the next packet to ask for.
    pub(crate) fn take_nak(&mut self, now: u64, config: &HostConfig) -> Option<Psn> {
        // Soft-RoCE asks once and leaves the rest to the sender's timeout.
        let (wait_ns, requests_max) = match config.recovery {
            Recovery::SelectiveRepeat {
                hole_timeout_ns, ..
            } => (hole_timeout_ns, config.retry_max + 1),
            Recovery::GoBackN { .. } => (0, 1),
        };
        let index = self.holes.take(now, wait_ns, requests_max)?;
        Some(self.first_psn.plus(index as u32))
    }

    /// Takes the cumulative acknowledgement that is due: the PSN up to which all has arrived.
    pub(crate) fn take_ack(&mut self) -> Option<Psn> {
        if !self.ack_due {
            return None;
        }
        self.ack_due = false;
        self.unacknowledged = 0;
        Some(self.first_psn.plus(self.expected.wrapping_sub(1) as u32))
    }

    /// Message sequence number, for the AETH.
    #[inline]
    pub(crate) fn messages(&self) -> u32 {
        self.messages
    }

    /// Whether messages wait to be reported.
    #[inline]
    pub(crate) fn has_report(&self) -> bool {
        self.reported_messages > 0
    }

    /// Takes the messages completed since the last call: bytes and how many.
    pub(crate) fn take_report(&mut self) -> (u64, u32) {
        (
            std::mem::take(&mut self.reported_bytes),
            std::mem::take(&mut self.reported_messages),
        )
    }
}

#[cfg(test)]
mod tests;
