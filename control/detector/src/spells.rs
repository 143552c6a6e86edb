//! When a path was bad, by its latest tests, and whether two paths saw one fault.

use crate::recent::Test;
use crate::tally::Tally;
use crate::types::Nanos;

/// What is less probable at a path's rate than this shows that it was healthy.
const REFUSED_P: f64 = 1e-3;

/// A time in which a path was bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spell {
    /// It went bad after the first of these packets: the last before it that would have shown the loss, and
    /// did not. 0 if there were none.
    after: Nanos,
    /// End of the first bad test: it was bad by then.
    by: Nanos,
    /// First packet of the last bad test: it was still bad after that.
    still: Nanos,
    /// End of the last bad test.
    to: Nanos,
}

impl Spell {
    /// Of a path of which nothing is known.
    pub(crate) const UNKNOWN: Spell = Spell {
        after: Nanos(0),
        by: Nanos(u64::MAX),
        still: Nanos(0),
        to: Nanos(u64::MAX),
    };

    /// The spells of a path that now loses `rate`, by its tests in their order. If none has failed, those that
    /// lost anything count.
    pub(crate) fn all(tests: &[&Test], rate: f64) -> Vec<Spell> {
        let has_failed = tests.iter().any(|test| test.is_failed == Some(true));
        let is_bad = |test: &Test| match has_failed {
            true => test.is_failed == Some(true),
            false => test.seen.whole().lost() > 0.0,
        };
        let mut spells: Vec<Spell> = Vec::new();
        for (place, bad) in tests.iter().enumerate().filter(|(_, test)| is_bad(test)) {
            let mut before = Tally::default();
            let healthy = tests[..place].iter().rev().find(|test| {
                before = before.plus(test.seen.whole());
                before.at_most(before.sent() * rate / 2.0) <= REFUSED_P
            });
            let after = healthy.map_or(Nanos(0), |test| test.first_ns);
            match spells.last_mut() {
                Some(spell) if spell.to >= after => {
                    (spell.still, spell.to) = (spell.still.max(bad.first_ns), bad.at_ns);
                }
                _ => spells.push(Spell {
                    after,
                    by: bad.at_ns,
                    still: bad.first_ns,
                    to: bad.at_ns,
                }),
            }
        }
        spells
    }

    /// The time for which one fault that both have seen must have lasted, if they may have begun together:
    /// from when the first of them was bad by, to when the last was still bad. The end lies before the
    /// begin if a moment is enough.
    pub(crate) fn shared(&self, other: &Spell) -> Option<[Nanos; 2]> {
        let is_one = self.after <= other.to && other.after <= self.to;
        is_one.then(|| [self.by.min(other.by), self.still.max(other.still)])
    }
}

/// What was seen of a path by the tests that lie within such a time.
pub(crate) fn within(tests: &[&Test], [from, to]: [Nanos; 2]) -> Tally {
    let is_within = |test: &&&Test| test.first_ns >= from && test.at_ns <= to;
    let tallies = tests.iter().filter(is_within).map(|test| test.seen.whole());
    tallies.fold(Tally::default(), Tally::plus)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::PathState;
    use crate::recent::{Recent, Seen};
    use crate::types::LeafId;

    /// The spells of a path with tests of 100 packets: when each of them ended, what it lost, the variance
    /// of that by noise.
    fn spells(tests: &[(u64, f64, f64)], rate: f64, onset: u64) -> Vec<Spell> {
        let path = (LeafId(1), LeafId(9));
        let mut recent = Recent::default();
        for &(at, lost, noise) in tests {
            let seen = Seen::Whole(Tally::new(100.0, lost, noise));
            let state = match lost > 0.0 {
                true => PathState::Failed,
                false => PathState::Healthy,
            };
            recent.add(path, (Nanos(at - 5), Nanos(at)), seen, state);
        }
        let tests = recent.of(|asked| asked == path, Nanos(onset));
        let sum = within(&tests[&path], [Nanos(45), Nanos(70)]);
        assert_eq!((sum.sent(), sum.lost()), (300.0, 20.0));
        Spell::all(&tests[&path], rate)
    }

    /// Goal: a path went bad between its last packets without a loss that would have shown it and the end of
    /// a failed test; how many packets those are depends on the rate, and on how loud the noise is.
    #[test]
    fn a_path_went_bad_after_it_was_healthy() {
        let tests = |noise| {
            let tests = [(10, 0.0), (20, 0.0), (30, 0.0), (40, 20.0), (50, 20.0)];
            let more = [(60, 0.0), (70, 0.0), (80, 20.0)];
            let tests = tests.into_iter().chain(more);
            tests
                .map(|(at, lost)| (at, lost, noise))
                .collect::<Vec<_>>()
        };
        let spell = |after, by, still, to| Spell {
            after: Nanos(after),
            by: Nanos(by),
            still: Nanos(still),
            to: Nanos(to),
        };
        let quiet = tests(0.0);
        let [first, second] = [spell(25, 40, 45, 50), spell(65, 80, 75, 80)];
        assert_eq!(spells(&quiet, 0.2, 0), [first, second]);
        // At 5 % three tests are needed, and there were two from 60 on.
        assert_eq!(spells(&quiet, 0.05, 0), [spell(5, 40, 75, 80)]);
        assert_eq!(spells(&quiet, 0.2, 35), [spell(0, 40, 45, 50), second]);
        // A deviation of 20 packets in each test hides ten losses.
        assert_eq!(spells(&tests(400.0), 0.2, 0), [spell(0, 40, 75, 80)]);
        assert_eq!(first.shared(&second), None);
        assert_eq!(first.shared(&first), Some([Nanos(40), Nanos(45)]));
    }
}
