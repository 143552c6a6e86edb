//! What time alone causes in a host.
//!
//! Called by drivers: a poll loop calls [`Host::tick`] every round (it costs one look when nothing
//! is due), a simulator when [`Host::next_timer`] has come.

use super::Host;
use crate::event::FailReason;
use crate::sender::Tick;
use crate::timers::NEVER;

impl Host {
    /// A time at or before the next one at which [`Host::tick`] has something to do; `None` when
    /// time alone will cause nothing. Calling earlier or later than that is harmless.
    #[inline]
    pub fn next_timer(&self) -> Option<u64> {
        self.timers.first().map(|(at, _)| at)
    }

    /// Does what time alone causes: timeouts, and requests for what is missing too long.
    pub fn tick(&mut self, now: u64) {
        self.advance(now);
        while let Some((at, id)) = self.timers.first() {
            if at > now {
                return;
            }
            let qp = &mut self.qps[id as usize];
            if qp.receiver.deadline() <= now {
                qp.receiver.tick(now, &self.config);
            }
            if qp.sender.deadline() <= now {
                match qp.sender.tick(now, &self.config) {
                    Tick::Nothing => {}
                    Tick::TimedOut => self.counters.timeouts += 1,
                    Tick::GaveUp => {
                        self.counters.timeouts += 1;
                        self.fail(id, FailReason::RetriesExceeded);
                    }
                }
            }
            let qp = &self.qps[id as usize];
            let next = if qp.failed.is_some() {
                NEVER
            } else {
                qp.deadline()
            };
            self.timers.move_first(next);
            self.settle(id);
        }
    }

    /// Connection `id` gives up.
    pub(super) fn fail(&mut self, id: u32, reason: FailReason) {
        let qp = &mut self.qps[id as usize];
        qp.failed = Some(reason);
        qp.failure_due = Some(qp.sender.give_up());
        qp.receiver.give_up();
        self.counters.qps_failed += 1;
    }
}
