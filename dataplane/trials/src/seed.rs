//! Seeds by purpose: what calibrates never tests.
//!
//! A seed is 64 bits that are packed, not hashed: purpose (1), study (15), trial (32), part (16).
//! Two seeds that differ in any of these are different numbers, so no trial shares its chances
//! with a calibration, whatever numbers people choose.

/// What a seed is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Trials whose error rates are printed.
    Test,
    /// Trials from which thresholds come.
    Calibration,
}

/// The seed of one trial, from which its parts have theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seed(u64);

impl Seed {
    /// The seed of trial number `trial` of `study` (its lowest 15 bits).
    pub fn new(purpose: Purpose, study: u16, trial: u32) -> Seed {
        let purpose = match purpose {
            Purpose::Test => 0,
            Purpose::Calibration => 1 << 63,
        };
        Seed(purpose | u64::from(study & 0x7fff) << 48 | u64::from(trial) << 16)
    }

    /// The seed of one part of the trial: a switch, a link, the arrivals.
    pub fn part(self, part: u16) -> u64 {
        self.0 | u64::from(part)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// Goal: no two of a grid of seeds are equal, and the purpose alone tells two sets apart.
    #[test]
    fn seeds_are_disjoint() {
        let mut all = BTreeSet::new();
        let mut expected = 0;
        for purpose in [Purpose::Test, Purpose::Calibration] {
            for study in [0, 1, 7, 0x7fff] {
                for trial in [0, 1, 999, u32::MAX] {
                    for part in [0, 1, 300, u16::MAX] {
                        let seed = Seed::new(purpose, study, trial).part(part);
                        assert_eq!(seed >> 63 == 1, purpose == Purpose::Calibration);
                        all.insert(seed);
                        expected += 1;
                    }
                }
            }
        }
        assert_eq!(all.len(), expected);
    }
}
