//! How long answers take, so that a queue that fills is not taken for loss.
//!
//! Timeouts of fixed length are made for one fabric: a switch queue of 10 MiB at 100 Gbit/s alone
//! takes 840 us, more than IRN's. So the configured timeout is the least that a sender waits, and
//! what it has measured raises it (RFC 6298: smoothed time and four deviations; one packet is
//! timed at a time, and none that was sent twice).

/// A measured timeout is at most so many times the configured one.
const RAISE_MAX: u64 = 64;
/// Before anything is measured, the configured timeout is taken so many times.
const UNMEASURED: u64 = 4;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Rtt {
    smoothed_ns: u64,
    deviation_ns: u64,
    /// One past the packet that is timed, and when it was sent.
    timed: Option<(u64, u64)>,
}

impl Rtt {
    pub(crate) fn new() -> Rtt {
        Rtt {
            smoothed_ns: 0,
            deviation_ns: 0,
            timed: None,
        }
    }

    /// A packet that asks for an answer was sent for the first time; `end` is one past it.
    #[inline]
    pub(crate) fn sent(&mut self, now: u64, end: u64) {
        if self.timed.is_none() {
            self.timed = Some((end, now));
        }
    }

    /// Something was sent again: answers are no measure for now.
    #[inline]
    pub(crate) fn cancel(&mut self) {
        self.timed = None;
    }

    /// All before `una` is acknowledged.
    #[inline]
    pub(crate) fn acknowledged(&mut self, now: u64, una: u64) {
        let Some((end, sent_ns)) = self.timed else {
            return;
        };
        if una < end {
            return;
        }
        self.timed = None;
        let taken_ns = now.saturating_sub(sent_ns).max(1);
        if self.smoothed_ns == 0 {
            self.smoothed_ns = taken_ns;
            self.deviation_ns = taken_ns / 2;
            return;
        }
        let error_ns = self.smoothed_ns.abs_diff(taken_ns);
        self.deviation_ns = self.deviation_ns - self.deviation_ns / 4 + error_ns / 4;
        self.smoothed_ns = self.smoothed_ns - self.smoothed_ns / 8 + taken_ns / 8;
    }

    /// Time within which an answer cannot have come yet; 0 when nothing is measured.
    #[inline]
    pub(crate) fn smoothed_ns(&self) -> u64 {
        self.smoothed_ns
    }

    /// The timeout where `configured_ns` is the least.
    #[inline]
    pub(crate) fn timeout_ns(&self, configured_ns: u64) -> u64 {
        if self.smoothed_ns == 0 {
            return configured_ns * UNMEASURED;
        }
        let measured_ns = self.smoothed_ns.saturating_add(4 * self.deviation_ns);
        measured_ns.clamp(configured_ns, configured_ns * RAISE_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a steady path is timed at the configured least, a slow one above its own time.
    #[test]
    fn the_timeout_follows_the_path() {
        let mut rtt = Rtt::new();
        assert_eq!(rtt.timeout_ns(100_000), 400_000, "not measured yet");
        for (taken, count) in [(10_000, 50), (900_000, 50), (10_000, 100)] {
            for index in 0..count {
                rtt.sent(0, index);
                rtt.acknowledged(taken, index);
            }
            let timeout = rtt.timeout_ns(100_000);
            let right = if taken < 100_000 {
                100_000..=100_000
            } else {
                900_000..=1_000_000
            };
            assert!(
                right.contains(&timeout),
                "{timeout} ns where answers take {taken} ns"
            );
        }
        rtt.sent(0, 7);
        rtt.cancel();
        rtt.acknowledged(1 << 40, 8);
        assert_eq!(
            rtt.timeout_ns(100_000),
            100_000,
            "a repeated packet is no measure"
        );
    }
}
