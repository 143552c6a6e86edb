//! The READs that a requester has under way, and which packets of their answers have arrived.
//!
//! Packets of answers are a row of their own, counted over all READs, so that what is not a READ
//! leaves no gap in it; [`Arrivals`] finds its holes as it does for a receiver. A lost packet of an
//! answer is read again by itself.

use std::collections::VecDeque;

use crate::arrivals::{Arrival, Arrivals};
use crate::config::HostConfig;
use crate::responder::READS_MAX;
use crate::segment::Message;

#[derive(Clone, Copy, Debug)]
struct Read {
    /// Packets `first..end` of the connection.
    first: u64,
    end: u64,
    bytes: u64,
    /// The number of its first packet among all answers.
    base: u64,
    /// When it was first sent.
    sent_ns: u64,
}

/// What became of a packet of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answered {
    /// It belongs to the READ of packets `first..end`.
    Arrived {
        arrival: Arrival,
        first: u64,
        end: u64,
    },
    /// No READ asked for it.
    Unknown,
    /// Not the length that was asked for.
    BadLength,
}

#[derive(Debug)]
pub(crate) struct Reads {
    queue: VecDeque<Read>,
    arrivals: Arrivals,
    /// One past the last packet of all answers.
    end: u64,
}

impl Reads {
    pub(crate) fn new(config: &HostConfig) -> Reads {
        let window = config.window_packets.next_power_of_two();
        Reads {
            queue: VecDeque::with_capacity(READS_MAX),
            arrivals: Arrivals::new(window, &config.recovery),
            end: 0,
        }
    }

    /// Whether nothing is under way.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whether there is no room for another.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.queue.len() == READS_MAX
    }

    /// A request was sent for the first time.
    pub(crate) fn push(&mut self, now: u64, message: &Message) {
        self.queue.push_back(Read {
            first: message.first,
            end: message.end,
            bytes: message.bytes,
            base: self.end,
            sent_ns: now,
        });
        self.end += message.end - message.first;
    }

    fn containing(&self, index: u64) -> Option<&Read> {
        let mut reads = self.queue.iter();
        reads.find(|read| (read.first..read.end).contains(&index))
    }

    /// The first packet of which no answer has arrived, of the READ that packet `index` lies in;
    /// and whether any has.
    pub(crate) fn missing_from(&self, index: u64) -> Option<(u64, bool)> {
        let read = self.containing(index)?;
        let has = |index: u64| self.arrivals.has(read.base + (index - read.first));
        let missing = (read.first..read.end).find(|&index| !has(index));
        let missing = missing.unwrap_or(read.end - 1);
        let is_begun = (read.first..read.end).any(has);
        Some((missing, is_begun))
    }

    /// When the READ that packet `index` lies in was first sent.
    pub(crate) fn sent_ns(&self, index: u64) -> Option<u64> {
        Some(self.containing(index)?.sent_ns)
    }

    /// One past the unbroken row of packets missing from `index` on, in its READ.
    pub(crate) fn missing_end(&self, index: u64) -> u64 {
        let Some(read) = self.containing(index) else {
            return index + 1;
        };
        let has = |index: u64| self.arrivals.has(read.base + (index - read.first));
        let end = (index + 1..read.end).find(|&index| has(index));
        end.unwrap_or(read.end)
    }

    /// Takes a packet of an answer: number `index` of the connection, with `len` bytes.
    pub(crate) fn arrive(
        &mut self,
        now: u64,
        index: i64,
        len: u32,
        config: &HostConfig,
    ) -> Answered {
        let Some(&read) = u64::try_from(index).ok().and_then(|i| self.containing(i)) else {
            return Answered::Unknown;
        };
        let place = index as u64 - read.first;
        let left = read.bytes - config.mtu.times(place);
        if u64::from(len) != left.min(u64::from(config.mtu.bytes())) {
            return Answered::BadLength;
        }
        let number = (read.base + place) as i64;
        let arrivals = &mut self.arrivals;
        let arrival = arrivals.arrive(now, number, 1, &config.recovery, |_| true);
        Answered::Arrived {
            arrival,
            first: read.first,
            end: read.end,
        }
    }

    /// All before `acked` is acknowledged by the peer: how far that goes with the answers that
    /// have arrived. Forgets READs that are complete.
    #[inline]
    pub(crate) fn acknowledged(&mut self, mut acked: u64) -> u64 {
        while let Some(read) = self.queue.front() {
            if acked < read.first {
                break;
            }
            let got = self.arrivals.expected().saturating_sub(read.base);
            if got < read.end - read.first {
                return read.first + got;
            }
            acked = acked.max(read.end);
            self.queue.pop_front();
        }
        acked
    }

    /// Earliest time at which [`Reads::tick`] has something to do.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.arrivals.deadline()
    }

    /// Does what time alone causes.
    pub(crate) fn tick(&mut self, now: u64, config: &HostConfig) {
        self.arrivals.tick(now, &config.recovery);
    }

    /// Whether packets of an answer are to be read again.
    #[inline]
    pub(crate) fn is_request_due(&self) -> bool {
        self.arrivals.is_request_due()
    }

    /// Takes a packet to be read again.
    pub(crate) fn take_request(&mut self, now: u64, config: &HostConfig) -> Option<u64> {
        let retry_max = config.retry_max;
        let arrivals = &mut self.arrivals;
        let number = arrivals.take_request(now, &config.recovery, retry_max)?;
        let mut reads = self.queue.iter();
        let read = reads.find(|r| number < r.base + (r.end - r.first))?;
        Some(read.first + number.saturating_sub(read.base))
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
    }
}
