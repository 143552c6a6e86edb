//! Which verdicts of a stream have been taken: every one counts once, however often it is delivered.
//!
//! A verdict's identity is (fabric, leaf, boot, sequence): a switch numbers its verdicts from 1 without gaps
//! and draws a new boot number when it starts, so that a number is never used twice. One [`Seen`] stands for
//! one (leaf, boot). It holds a floor, below which all are settled, and the few numbers above that came
//! early; when too many came early, the gaps are given up and counted.

use std::collections::BTreeSet;

/// Numbers above the floor that are remembered. A message system redelivers what was in flight, which is
/// fewer.
pub const EARLY_MAX: usize = 4096;

/// The numbers of one stream that have been taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seen {
    /// The lowest number that is still to come.
    floor: u64,
    early: BTreeSet<u64>,
    given_up: u64,
}

impl Default for Seen {
    fn default() -> Seen {
        Seen::from(1, [])
    }
}

impl Seen {
    /// A stream of which everything below `floor` is settled, and `early` taken above it.
    pub fn from(floor: u64, early: impl IntoIterator<Item = u64>) -> Seen {
        let mut seen = Seen {
            floor,
            early: BTreeSet::new(),
            given_up: 0,
        };
        for seq in early {
            seen.take(seq);
        }
        seen
    }

    /// Takes a number; false if it was taken, or given up, before.
    pub fn take(&mut self, seq: u64) -> bool {
        if seq < self.floor || !self.early.insert(seq) {
            return false;
        }
        self.close_up();
        while self.early.len() > EARLY_MAX {
            self.skip_to(self.early.first().copied().unwrap_or(self.floor));
        }
        true
    }

    /// Whether a number has been taken or given up.
    pub fn has(&self, seq: u64) -> bool {
        seq < self.floor || self.early.contains(&seq)
    }

    /// Nothing below `oldest` will ever come: the switch no longer keeps it. Returns how many are lost.
    pub fn skip_to(&mut self, oldest: u64) -> u64 {
        if oldest <= self.floor {
            return 0;
        }
        let above = self.early.split_off(&oldest);
        let lost = oldest - self.floor - self.early.len() as u64;
        self.early = above;
        self.floor = oldest;
        self.given_up += lost;
        self.close_up();
        lost
    }

    /// The lowest number that is still to come.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// Numbers that will not come.
    pub fn given_up(&self) -> u64 {
        self.given_up
    }

    fn close_up(&mut self) {
        while self.early.remove(&self.floor) {
            self.floor += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Goal: too many early ones cost the gap, which is counted, and memory stays bounded.
    #[test]
    fn a_gap_is_given_up_when_too_many_wait() {
        let mut seen = Seen::default();
        for seq in 3..=EARLY_MAX as u64 + 3 {
            assert!(seen.take(seq));
        }
        assert_eq!((seen.given_up(), seen.floor()), (2, EARLY_MAX as u64 + 4));
        assert!(!seen.take(1), "what was given up is not counted later");
    }

    proptest! {
        /// Goal: in any order and with any repetition each number is taken exactly once, and a memory that
        /// is rebuilt from floor and early ones goes on the same.
        #[test]
        fn each_number_counts_once(
            order in Just((1..=60u64).collect::<Vec<_>>()).prop_shuffle(),
            again in proptest::collection::vec(1..=60u64, 0..60),
            cut in 0..60usize,
        ) {
            let mut seen = Seen::default();
            let mut taken = 0;
            for (step, seq) in order.iter().enumerate() {
                taken += u64::from(seen.take(*seq));
                if let Some(repeat) = again.get(step) && order[..=step].contains(repeat) {
                    prop_assert!(!seen.take(*repeat));
                }
                if step == cut {
                    let early: Vec<u64> = (seen.floor()..=60).filter(|&s| seen.has(s)).collect();
                    let rebuilt = Seen::from(seen.floor(), early);
                    prop_assert_eq!(&rebuilt, &seen);
                    seen = rebuilt;
                }
            }
            prop_assert_eq!((taken, seen.floor(), seen.given_up()), (60, 61, 0));
        }

        /// Goal: what is skipped and what was taken add up.
        #[test]
        fn skipping_counts_what_is_lost(taken in proptest::collection::btree_set(1..100u64, 0..50), to in 1..120u64) {
            let mut seen = Seen::from(1, taken.iter().copied());
            let floor = seen.floor();
            let expected = (floor..to).filter(|seq| !taken.contains(seq)).count() as u64;
            prop_assert_eq!(seen.skip_to(to), expected);
            prop_assert!(seen.floor() >= to.max(floor));
        }
    }
}
