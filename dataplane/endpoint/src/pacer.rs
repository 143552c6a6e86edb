//! A link's time: when the next frame may start, so that frames never exceed its rate.
//!
//! GCRA in its virtual-scheduling form (ITU-T I.371), in picoseconds so that no rate drifts.

use crate::config::BitRate;

const PS_PER_NS: u64 = 1000;

/// The link is free at `free_ps`; a frame moves that on by its own length.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    free_ps: u64,
    slack_ps: u64,
    /// Picoseconds a byte takes, times 2^16.
    byte_ps_q16: u64,
}

impl Pacer {
    pub(crate) fn new(rate: BitRate, slack_ns: u64) -> Pacer {
        let byte_ps_q16 = ((8_000_000_000_000u128 << 16) / u128::from(rate.bits_per_second()))
            .min(u128::from(u64::MAX >> 16));
        Pacer {
            free_ps: 0,
            slack_ps: slack_ns * PS_PER_NS,
            byte_ps_q16: byte_ps_q16 as u64,
        }
    }

    /// First nanosecond at which a frame may start.
    #[inline]
    pub(crate) fn ready_ns(&self) -> u64 {
        self.free_ps.div_ceil(PS_PER_NS)
    }

    /// Takes the link for a frame of `bytes` (its overhead included) that starts at `now`. A
    /// caller that comes late may catch up on the slack, and no more.
    #[inline]
    pub(crate) fn spend(&mut self, now: u64, bytes: u32) {
        let earliest_ps = (now * PS_PER_NS).saturating_sub(self.slack_ps);
        let cost_ps = (u128::from(bytes) * u128::from(self.byte_ps_q16) >> 16) as u64;
        self.free_ps = self.free_ps.max(earliest_ps).saturating_add(cost_ps);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: 100 Gbit/s are 334.24 ns a frame of 4,178 bytes, without drift.
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
        let mut pacer = Pacer::new(BitRate::gbps(100), 1000);
        for _ in 0..100_000 {
            now = now.max(pacer.ready_ns());
            pacer.spend(now, 4178);
        }
    }

    /// Goal: with slack, rounding costs nothing and a late caller gets the slack and no more.
    #[test]
    fn slack_is_caught_up_on() {
        let mut pacer = Pacer::new(BitRate::gbps(100), 1000);
        let mut now = 0;
        for _ in 0..100_000 {
            now = now.max(pacer.ready_ns());
            pacer.spend(now, 4178);
        }
        assert!(now.abs_diff(33_424_000) < 1000, "{now} ns");
        now += 1_000_000;
        let mut burst = 0;
        while pacer.ready_ns() <= now {
            pacer.spend(now, 4178);
            burst += 1;
        }
        assert_eq!(burst, 3, "1,000 ns of slack are three frames of 334 ns");
    }
}
