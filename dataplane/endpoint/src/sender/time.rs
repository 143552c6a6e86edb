//! What time alone causes in a sender: retransmission timeouts, and the end of a wait for a peer
//! without receive requests.

use super::Sender;
use crate::config::{HostConfig, Recovery};
use crate::timers::NEVER;

/// Up to so many packets in flight the lower timeout applies (IRN, 4.1).
const FEW_IN_FLIGHT: u64 = 3;
/// Timeouts double up to so many times.
const BACKOFF_MAX: u32 = 5;

/// What became due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Tick {
    Nothing,
    TimedOut,
    GaveUp,
}

impl Sender {
    pub(super) fn timeout_ns(&self, config: &HostConfig) -> u64 {
        let base = match config.recovery {
            Recovery::SelectiveRepeat {
                rto_low_ns,
                rto_high_ns,
                ..
            } => {
                if self.next - self.una <= FEW_IN_FLIGHT {
                    rto_low_ns
                } else {
                    rto_high_ns
                }
            }
            Recovery::GoBackN { rto_ns } => rto_ns,
        };
        self.rtt.timeout_ns(base) << self.retries.min(BACKOFF_MAX)
    }

    /// When [`Sender::tick`] is due.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.deadline_ns.min(self.reads.deadline())
    }

    /// Does what is due by `now`.
    pub(crate) fn tick(&mut self, now: u64, config: &HostConfig) -> Tick {
        self.common_end = 0;
        if self.reads.deadline() <= now {
            self.reads.tick(now, config);
        }
        if self.deadline_ns > now {
            return Tick::Nothing;
        }
        if let Some(index) = self.blocked.take() {
            match config.recovery {
                Recovery::SelectiveRepeat { .. } => self.repairs.insist(index, now),
                Recovery::GoBackN { .. } => {
                    self.next = index;
                    self.enter_message(config);
                }
            }
            self.deadline_ns = now.saturating_add(self.timeout_ns(config));
            return Tick::Nothing;
        }
        self.time_out(now, config)
    }

    /// Sends a packet again, unless that was tried often enough.
    ///
    /// With coalesced acknowledgements the first unacknowledged packet has mostly arrived, and
    /// what is missing is the last that asked for an answer. So that one goes first (and shows the
    /// receiver all that is missing before it), unless the receiver has named the other as lost or
    /// the first try has changed nothing.
    fn time_out(&mut self, now: u64, config: &HostConfig) -> Tick {
        if self.retries >= config.retry_max {
            self.deadline_ns = NEVER;
            return Tick::GaveUp;
        }
        self.retries += 1;
        match config.recovery {
            Recovery::SelectiveRepeat { .. } => {
                let is_named = self.repairs.knows(self.una);
                let index = if is_named || self.retries > 1 {
                    self.una
                } else {
                    self.una.max(self.asked_end.saturating_sub(1))
                };
                // Of a READ, what its answer lacks.
                let missing = self.reads.missing_from(index);
                let index = missing.map_or(index, |(first, _)| first);
                self.repairs.insist(index, now);
            }
            Recovery::GoBackN { .. } => {
                self.next = self.una;
                self.enter_message(config);
            }
        }
        self.deadline_ns = now.saturating_add(self.timeout_ns(config));
        Tick::TimedOut
    }
}
