//! A token bucket for the few packets that a switch makes in answer to others.

use crate::types::Nanos;

/// So many a second, and a burst of a tenth of a second's worth.
#[derive(Clone, Debug)]
pub struct Bucket {
    /// Nanoseconds that one packet costs; 0: none is allowed.
    cost_ns: u64,
    /// Nanoseconds' worth that may be saved up.
    saved_ns_max: u64,
    /// When the bucket would be full again: the later, the emptier it is.
    full_at: Nanos,
}

impl Bucket {
    /// A full bucket for `per_second` packets; none at all for 0.
    pub fn new(per_second: u32) -> Bucket {
        let cost_ns = if per_second == 0 {
            0
        } else {
            (1_000_000_000 / u64::from(per_second)).max(1)
        };
        Bucket {
            cost_ns,
            saved_ns_max: cost_ns.max(100_000_000),
            full_at: Nanos(0),
        }
    }

    /// Takes one packet's worth; false when there is none.
    pub fn take(&mut self, now: Nanos) -> bool {
        let full_at = self.full_at.max(now).plus(self.cost_ns);
        if self.cost_ns == 0 || full_at > now.plus(self.saved_ns_max) {
            return false;
        }
        self.full_at = full_at;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "a million steps")]
    fn the_rate_and_the_burst_are_kept() {
        let mut bucket = Bucket::new(1000);
        let burst = (0..1000).filter(|_| bucket.take(Nanos(5))).count();
        assert_eq!(burst, 100, "a tenth of a second at once");
        let later = (0..1_000_000u64)
            .filter(|us| bucket.take(Nanos(5 + us * 1000)))
            .count();
        assert!((999..=1001).contains(&later), "{later} in a second");
        let rested = (0..1000)
            .filter(|_| bucket.take(Nanos(9_000_000_000)))
            .count();
        assert_eq!(rested, 100, "rest is not saved beyond the burst");
    }

    #[test]
    fn slow_buckets_hold_one_and_none_means_none() {
        let mut bucket = Bucket::new(1);
        assert!(bucket.take(Nanos(0)) && !bucket.take(Nanos(999_999_999)));
        assert!(bucket.take(Nanos(1_000_000_000)));
        assert!(!Bucket::new(0).take(Nanos(1 << 40)));
    }
}
