//! What a peer answers, and what that changes in a sender.
//!
//! An answer about packets that were never sent changes nothing; the caller counts it.

use packet::Psn;

use super::Sender;
use crate::arrivals::Arrival;
use crate::config::{HostConfig, Recovery};
use crate::reads::Answered;
use crate::timers::NEVER;

/// What an acknowledgement or a request changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// The sender has moved on, or will repeat what was asked for.
    Obeyed,
    /// Nothing that was not known.
    Stale,
    /// It is about packets that were never sent.
    BeyondSent,
    /// The peer has been short of receive requests too often.
    GaveUp,
}

impl Sender {
    /// The index that `psn` means, if it was sent and is not acknowledged.
    #[inline]
    fn outstanding(&self, psn: Psn) -> Result<u64, Answer> {
        let distance = i64::from(psn.ahead_of(self.psn(self.una)));
        if distance < 0 {
            return Err(Answer::Stale);
        }
        let index = self.una + distance as u64;
        if index >= self.sent_end {
            return Err(Answer::BeyondSent);
        }
        Ok(index)
    }

    /// All up to `psn` has arrived.
    #[inline]
    pub(crate) fn acknowledge(&mut self, now: u64, psn: Psn, config: &HostConfig) -> Answer {
        match self.outstanding(psn) {
            Err(answer) => answer,
            Ok(index) => {
                let is_new = index >= self.acked;
                self.advance(now, index + 1, config);
                if is_new {
                    Answer::Obeyed
                } else {
                    Answer::Stale
                }
            }
        }
    }

    /// The packet of `psn` is missing.
    pub(crate) fn request(&mut self, now: u64, psn: Psn, config: &HostConfig) -> Answer {
        self.common_end = 0;
        let index = match self.outstanding(psn) {
            Err(answer) => return answer,
            Ok(index) => index,
        };
        // A READ request is missing as a whole, unless its answer has begun.
        let index = match self.reads.missing_from(index) {
            Some((_, true)) => return Answer::Stale,
            Some((first, false)) => first,
            None => index,
        };
        match config.recovery {
            Recovery::SelectiveRepeat {
                hole_timeout_ns, ..
            } => {
                // A request may cross the repair that answers the one before it.
                let gap_ns = self.rtt.smoothed_ns().max(hole_timeout_ns / 2);
                // A request takes many PSNs, so a peer that counts these takes one that is overtaken
                // for lost. It is, once it is old; the peer asks again.
                let sent_ns = self.reads.sent_ns(index);
                if sent_ns.is_some_and(|at| now < at.saturating_add(gap_ns + hole_timeout_ns)) {
                    return Answer::Stale;
                }
                if !self.repairs.request(index, now, gap_ns) {
                    return Answer::Stale;
                }
            }
            Recovery::GoBackN { .. } => {
                self.advance(now, index, config);
                self.next = index.max(self.una);
                self.enter_message(config);
            }
        }
        Answer::Obeyed
    }

    /// The peer has no receive request for the packet of `psn`; all before it has arrived, and it
    /// is to be sent again after `wait_ns`.
    pub(crate) fn not_ready(
        &mut self,
        now: u64,
        psn: Psn,
        wait_ns: u64,
        config: &HostConfig,
    ) -> Answer {
        self.common_end = 0;
        let index = match self.outstanding(psn) {
            Err(answer) => return answer,
            Ok(index) => index,
        };
        if self.blocked.is_some() {
            return Answer::Stale;
        }
        self.advance(now, index, config);
        self.blocked_times += 1;
        // IBTA volume 1, 9.7.5.2.8: seven means for ever.
        if config.rnr_retry_max < 7 && self.blocked_times > config.rnr_retry_max {
            return Answer::GaveUp;
        }
        self.blocked = Some(index);
        self.deadline_ns = now.saturating_add(wait_ns);
        Answer::Obeyed
    }

    /// A packet of an answer to a READ, with `len` bytes; and its index.
    pub(crate) fn answered(
        &mut self,
        now: u64,
        psn: Psn,
        len: u32,
        config: &HostConfig,
    ) -> (Answered, u64) {
        self.common_end = 0;
        let distance = i64::from(psn.ahead_of(self.psn(self.una)));
        let index = self.una as i64 + distance;
        if self.reads.is_empty() {
            return (Answered::Unknown, 0);
        }
        let answered = self.reads.arrive(now, index, len, config);
        if let Answered::Arrived {
            arrival: Arrival::New { .. },
            first,
            end,
        } = answered
        {
            // The request has arrived, and all before it.
            self.repairs.forget(first..end);
            self.advance(now, first, config);
        }
        (answered, index.max(0) as u64)
    }

    /// The peer has acknowledged all before `acked`.
    #[inline]
    fn advance(&mut self, now: u64, acked: u64, config: &HostConfig) {
        self.acked = self.acked.max(acked);
        let una = self.reads.acknowledged(self.acked);
        self.acked = self.acked.max(una);
        if una <= self.una {
            return;
        }
        self.rtt.acknowledged(now, una);
        self.una = una;
        if self.next < una {
            self.next = una;
            self.common_end = 0;
            self.enter_message(config);
        }
        self.retries = 0;
        self.blocked_times = 0;
        self.repairs.acknowledge(una);
        if self.blocked.is_some_and(|index| index < una) {
            self.blocked = None;
        }
        if self.blocked.is_none() {
            self.deadline_ns = if self.asked_end > una {
                now.saturating_add(self.timeout_ns(config))
            } else {
                NEVER
            };
        }
        self.flows.acknowledge(now, una);
    }
}
