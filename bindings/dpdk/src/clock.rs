//! Time from the CPU's cycle counter, at a few nanoseconds per reading.
//!
//! Workers read it once per turn of their loop. The counter is calibrated once per process, and
//! all clocks of a process share that start and that rate, so their times compare. Needs an
//! invariant counter that is equal on all CPUs, as any x86 server of the last decade has.

use std::sync::OnceLock;
use std::thread;
use std::time::Duration;

use dpdk_sys as sys;

/// Long enough that a microsecond of error at either end is 0.01 %.
const CALIBRATION: Duration = Duration::from_millis(20);

/// Fractional bits of the scale from ticks to nanoseconds.
const SHIFT: u32 = 32;

static CLOCK: OnceLock<Clock> = OnceLock::new();

/// The process's cycle-counter clock. Copy it to where it is needed.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    start_tsc: u64,
    hz: u64,
    ns_per_tick_q32: u64,
}

impl Clock {
    /// The process's clock. The first call calibrates it, which takes 20 ms.
    pub fn calibrated() -> Self {
        *CLOCK.get_or_init(|| {
            let (tsc0, ns0) = sample();
            thread::sleep(CALIBRATION);
            let (tsc1, ns1) = sample();
            Self::from_samples(tsc0, tsc1.saturating_sub(tsc0), ns1.saturating_sub(ns0))
        })
    }

    fn from_samples(start_tsc: u64, ticks: u64, ns: u64) -> Self {
        // A counter that stands still would divide by zero; time then stands still as well.
        let ticks = u128::from(ticks.max(1));
        let ns = u128::from(ns.max(1));
        let narrow = |wide: u128| u64::try_from(wide).unwrap_or(u64::MAX);
        Self {
            start_tsc,
            hz: narrow(ticks * 1_000_000_000 / ns),
            ns_per_tick_q32: narrow((ns << SHIFT) / ticks),
        }
    }

    /// Nanoseconds since this process calibrated its clock.
    #[inline]
    pub fn now_ns(self) -> u64 {
        self.at_ns(self.tsc())
    }

    /// Nanoseconds from this process's calibration to a reading of the raw counter.
    #[inline]
    pub fn at_ns(self, tsc: u64) -> u64 {
        self.ticks_to_ns(tsc.wrapping_sub(self.start_tsc))
    }

    /// The raw counter.
    #[inline]
    pub fn tsc(self) -> u64 {
        tsc()
    }

    /// Counter ticks per second.
    pub fn hz(self) -> u64 {
        self.hz
    }

    /// The length of `ticks` in nanoseconds.
    #[inline]
    pub fn ticks_to_ns(self, ticks: u64) -> u64 {
        let wide = u128::from(ticks) * u128::from(self.ns_per_tick_q32);
        // Fits for 500 years.
        (wide >> SHIFT) as u64
    }
}

#[inline]
fn tsc() -> u64 {
    // SAFETY: reads a counter and needs no EAL.
    unsafe { sys::shim_tsc() }
}

/// A counter reading and the kernel's time at the same moment. Of several tries the one with
/// the least between its two counter readings is the one that was not interrupted.
fn sample() -> (u64, u64) {
    let one = || {
        let before = tsc();
        let ns = monotonic_raw_ns();
        let after = tsc();
        let width = after.wrapping_sub(before);
        (width, before.wrapping_add(width / 2), ns)
    };
    let first = one();
    let (_, tsc, ns) = (0..9).map(|_| one()).fold(
        first,
        |best, next| {
            if next.0 < best.0 { next } else { best }
        },
    );
    (tsc, ns)
}

/// The kernel's clock that no time daemon slews.
fn monotonic_raw_ns() -> u64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for the answer; a failure leaves it zero.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC_RAW, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(time.tv_nsec).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    /// Agrees with the standard library's clock within 1 %.
    #[test]
    fn agrees_with_instant() {
        let clock = Clock::calibrated();
        let (ns0, start) = (clock.now_ns(), Instant::now());
        thread::sleep(Duration::from_millis(200));
        let (ns1, elapsed) = (clock.now_ns(), start.elapsed());
        let ours = u128::from(ns1 - ns0);
        let theirs = elapsed.as_nanos();
        assert!(
            ours.abs_diff(theirs) * 100 < theirs,
            "{ours} ns against {theirs} ns"
        );
        assert!(clock.hz() > 1_000_000, "{} Hz", clock.hz());
    }

    /// Samples that are each off by as much as an uninterrupted reading can be (half a microsecond
    /// either way) leave a drift below 100 ppm: less than 100 us in a second.
    #[test]
    fn drift_of_a_second_is_below_100_ppm() {
        let hz = 2_300_000_000_u64;
        let true_ns = 20_000_000_u64;
        for (early_ns, late_ns) in [(0, 0), (500, 500), (0, 1000), (1000, 0)] {
            let ticks = true_ns * hz / 1_000_000_000;
            let clock = Clock::from_samples(0, ticks, true_ns - early_ns + late_ns);
            let second_ns = clock.ticks_to_ns(hz);
            let off_ns = second_ns.abs_diff(1_000_000_000);
            assert!(off_ns < 100_000, "{early_ns}, {late_ns}: {off_ns} ns off");
        }
    }

    /// The scale is exact to a nanosecond a second and does not overflow after a century.
    #[test]
    fn scale() {
        let clock = Clock::from_samples(0, 46_000_000, 20_000_000);
        assert_eq!(clock.hz(), 2_300_000_000);
        assert!(clock.ticks_to_ns(2_300_000_000).abs_diff(1_000_000_000) <= 1);
        let century_s = 3_155_760_000_u64;
        let ns = clock.ticks_to_ns(century_s * 2_300_000_000);
        assert!(ns.abs_diff(century_s * 1_000_000_000) < 1_000 * century_s);
    }
}
