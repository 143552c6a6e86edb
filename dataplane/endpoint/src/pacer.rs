//! A link's time: when the next frame may start, so that frames never exceed its rate.
//!
//! GCRA in its virtual-scheduling form (ITU-T I.371). Whole nanoseconds and the picoseconds of one
//! are kept apart, so that no rate drifts and any origin of time will do.

use crate::units::BitRate;

const PS_PER_NS: u64 = 1000;

/// The link is free at `free_ns` and `free_ps`; a frame moves that on by its own length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    free_ns: u64,
    free_ps: u64,
    slack_ns: u64,
    /// Picoseconds a byte takes, times 2^16.
    byte_ps_q16: u64,
    rate_bps: u64,
}

impl Pacer {
    pub(crate) fn new(rate: BitRate, slack_ns: u64) -> Pacer {
        let mut pacer = Pacer {
            free_ns: 0,
            free_ps: 0,
            slack_ns,
            byte_ps_q16: 0,
            rate_bps: 0,
        };
        pacer.set_rate(rate.bits_per_second());
        pacer
    }

    /// From the next frame on so many bits per second, above zero.
    pub(crate) fn set_rate(&mut self, rate_bps: u64) {
        let byte_ps_q16 = (8_000_000_000_000u128 << 16) / u128::from(rate_bps.max(1));
        self.byte_ps_q16 = byte_ps_q16.min(u128::from(u64::MAX)) as u64;
        self.rate_bps = rate_bps;
    }

    /// Bits per second.
    pub(crate) fn rate(&self) -> u64 {
        self.rate_bps
    }

    /// First nanosecond at which a frame may start.
    #[inline]
    pub(crate) fn ready_ns(&self) -> u64 {
        self.free_ns + u64::from(self.free_ps > 0)
    }

    /// Takes the link for a frame of `bytes` (its overhead included) that starts at `now`. A
    /// caller that comes late may catch up on the slack, and no more.
    #[inline]
    pub(crate) fn spend(&mut self, now: u64, bytes: u32) {
        let earliest_ns = now.saturating_sub(self.slack_ns);
        if earliest_ns > self.free_ns {
            self.free_ns = earliest_ns;
            self.free_ps = 0;
        }
        let cost_ps = (u128::from(bytes) * u128::from(self.byte_ps_q16)) >> 16;
        let free_ps = self.free_ps.saturating_add(cost_ps as u64);
        self.free_ns = self.free_ns.saturating_add(free_ps / PS_PER_NS);
        self.free_ps = free_ps % PS_PER_NS;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: 100 Gbit/s are 334.24 ns a frame of 4,178 bytes; without slack each waits for a whole ns.
    #[test]
    fn frames_are_spaced_by_the_rate() {
        let mut pacer = Pacer::new(BitRate::gbps(100), 0);
        let mut now = 0;
        for _ in 0..100_000 {
            now = now.max(pacer.ready_ns());
            pacer.spend(now, 4178);
        }
        let drift = now.abs_diff(33_424_000);
        // Each start is rounded up to whole nanoseconds, so at most one is lost a frame.
        assert!(drift <= 100_000, "{now} ns for 100,000 frames");
    }

    /// Goal: with slack, rounding costs nothing and a late caller gets the slack and no more.
    #[test]
    fn slack_is_caught_up_on() {
        let mut pacer = Pacer::new(BitRate::gbps(100), 1000);
        // As good as the wall clock's origin.
        let mut now = 1_700_000_000_000_000_000;
        let begun = now;
        for _ in 0..100_000 {
            now = now.max(pacer.ready_ns());
            pacer.spend(now, 4178);
        }
        assert!(
            (now - begun).abs_diff(33_424_000) <= 1000 + 335,
            "{} ns",
            now - begun
        );
        now += 1_000_000;
        let mut burst = 0;
        while pacer.ready_ns() <= now {
            pacer.spend(now, 4178);
            burst += 1;
        }
        assert_eq!(burst, 3, "1,000 ns of slack are three frames of 334 ns");
    }
}
