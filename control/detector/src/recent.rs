//! The latest tests of one spine, one by one.
//!
//! Sums over a horizon know no time: what a path lost since a link has gone bad is thinned by all
//! that it carried before, by as much as that was, and paths over one link that were tested more and
//! less since then contradict each other. So where failed paths stay unexplained, the localizer
//! asks again of what was sent since one of them began to fail.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::OnceLock;

use crate::judge::PathState;
use crate::localize::Part;
use crate::tails::poisson_at_most;
use crate::tally::{Cell, Tally, slot_index};
use crate::types::{LeafId, Nanos};

/// Tests of a spine that are kept, of about 100 bytes each.
const TESTS_MAX: usize = 1024;
/// Times since which evidence is asked again, at most: the two earliest and the two latest.
pub(crate) const ONSETS_MAX: usize = 4;

/// What is less probable at a path's rate than this shows that it was healthy.
const REFUSED_P: f64 = 1e-3;

/// A test. Its order is that of time, and total, so that it does not matter who reported first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Test {
    at_ns: Nanos,
    first_ns: Nanos,
    src: LeafId,
    dst: LeafId,
    /// What was seen of the whole path, or of its halves.
    seen: Seen,
    /// Whether it says that the path is bad or that it is not.
    is_failed: Option<bool>,
}

/// What a test adds to the cells of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Seen {
    Whole(Tally),
    Halves([Tally; 2]),
}

impl Seen {
    /// By the part of the path.
    pub(crate) fn parts(self) -> impl Iterator<Item = (Part, Tally)> {
        let parts = match self {
            Seen::Whole(whole) => [Some((Part::Whole, whole)), None],
            Seen::Halves([up, down]) => [Some((Part::Up, up)), Some((Part::Down, down))],
        };
        parts.into_iter().flatten()
    }

    /// Packets of the path, sent and lost.
    fn whole(self) -> [f64; 2] {
        match self {
            Seen::Whole(whole) => [whole.sent(), whole.lost()],
            Seen::Halves([up, down]) => [up.sent(), up.lost() + down.lost()],
        }
    }
}

/// A time in which a path was bad.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Spell {
    /// It went bad after the first of these packets: the last before it that would have shown the loss, and
    /// did not. 0 if there were none.
    pub(crate) after: Nanos,
    /// End of the first bad test: it was bad by then.
    pub(crate) by: Nanos,
    /// End of the last bad test.
    pub(crate) to: Nanos,
}

impl Spell {
    /// Whether both may have begun at one time.
    pub(crate) fn meets(&self, other: &Spell) -> bool {
        self.after <= other.to && other.after <= self.to
    }
}

/// The latest [`TESTS_MAX`] tests that were reported.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recent {
    tests: VecDeque<Test>,
    /// The same in their order, once that was asked for.
    ordered: OnceLock<Vec<Test>>,
    /// The latest end of a test that is no longer kept.
    forgotten_ns: Option<Nanos>,
}

impl Recent {
    pub(crate) fn add(
        &mut self,
        (src, dst): (LeafId, LeafId),
        (first_ns, at_ns): (Nanos, Nanos),
        seen: Seen,
        state: PathState,
    ) {
        let test = Test {
            at_ns,
            first_ns,
            src,
            dst,
            seen,
            is_failed: match state {
                PathState::Failed => Some(true),
                PathState::Healthy => Some(false),
                PathState::Abstained(_) | PathState::Void(_) => None,
            },
        };
        if self.tests.len() == TESTS_MAX {
            let oldest = self.tests.pop_front().map(|test| test.at_ns);
            self.forgotten_ns = self.forgotten_ns.max(oldest);
        }
        self.tests.push_back(test);
        self.ordered.take();
    }

    /// The tests in the order of time: leaves report as they please, and most reports ask for nothing.
    fn ordered(&self) -> &[Test] {
        self.ordered.get_or_init(|| {
            let mut tests: Vec<Test> = self.tests.iter().copied().collect();
            tests.sort_unstable();
            tests
        })
    }

    /// When paths began to fail, of those that `is_open` leaves: the first packets of the first failed
    /// test of each, and of the first after one that was healthy. Only times since which everything is
    /// still here.
    pub(crate) fn onsets(&self, is_open: impl Fn(LeafId, LeafId) -> bool) -> Vec<Nanos> {
        let mut failing: BTreeSet<(LeafId, LeafId)> = BTreeSet::new();
        let mut onsets: BTreeSet<Nanos> = BTreeSet::new();
        for test in (self.ordered().iter()).filter(|test| is_open(test.src, test.dst)) {
            let path = (test.src, test.dst);
            match test.is_failed {
                Some(true) if failing.insert(path) => drop(onsets.insert(test.first_ns)),
                Some(false) => drop(failing.remove(&path)),
                _ => {}
            }
        }
        let whole = onsets.into_iter();
        let mut whole: Vec<Nanos> = whole.filter(|&at| Some(at) > self.forgotten_ns).collect();
        if whole.len() > ONSETS_MAX {
            whole.drain(ONSETS_MAX / 2..whole.len() - ONSETS_MAX / 2);
        }
        whole
    }

    /// When a path that now loses `rate` was bad, once or more often, by tests whose packets were all sent
    /// since `onset`. If none has failed, those that lost anything count.
    pub(crate) fn spells(&self, path: (LeafId, LeafId), rate: f64, onset: Nanos) -> Vec<Spell> {
        let tests: Vec<&Test> = self.of(path, onset).collect();
        let has_failed = tests.iter().any(|test| test.is_failed == Some(true));
        let is_bad = |test: &Test| match has_failed {
            true => test.is_failed == Some(true),
            false => test.seen.whole()[1] > 0.0,
        };
        let mut spells: Vec<Spell> = Vec::new();
        for (place, bad) in tests.iter().enumerate().filter(|(_, test)| is_bad(test)) {
            let (mut sent, mut lost) = (0.0, 0.0);
            let healthy = tests[..place].iter().rev().find(|test| {
                let [more_sent, more_lost] = test.seen.whole();
                sent += more_sent;
                lost += more_lost;
                poisson_at_most(lost.max(0.0), sent * rate / 2.0) <= REFUSED_P
            });
            let after = healthy.map_or(Nanos(0), |test| test.first_ns);
            match spells.last_mut() {
                Some(spell) if spell.to >= after => spell.to = bad.at_ns,
                _ => spells.push(Spell {
                    after,
                    by: bad.at_ns,
                    to: bad.at_ns,
                }),
            }
        }
        spells
    }

    fn of(&self, path: (LeafId, LeafId), onset: Nanos) -> impl Iterator<Item = &Test> {
        let is_of = move |test: &&Test| (test.src, test.dst) == path && test.first_ns >= onset;
        self.ordered().iter().filter(is_of)
    }

    /// Packets of a path that were sent and lost, by tests whose packets were all sent since `onset`.
    pub(crate) fn sums(&self, path: (LeafId, LeafId), onset: Nanos) -> [f64; 2] {
        self.of(path, onset).fold([0.0, 0.0], |[sent, lost], test| {
            let [more_sent, more_lost] = test.seen.whole();
            [sent + more_sent, lost + more_lost]
        })
    }

    /// The sums of all tests whose packets were all sent since `onset`.
    pub(crate) fn since(
        &self,
        onset: Nanos,
        horizon: Nanos,
    ) -> BTreeMap<(LeafId, LeafId, Part), Cell> {
        let mut cells: BTreeMap<(LeafId, LeafId, Part), Cell> = BTreeMap::new();
        for test in self.tests.iter().filter(|test| test.first_ns >= onset) {
            let index = slot_index(test.at_ns, horizon);
            for (part, tally) in test.seen.parts() {
                let cell = cells.entry((test.src, test.dst, part)).or_default();
                cell.add(index, tally, test.first_ns, test.at_ns);
            }
        }
        cells
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(recent: &mut Recent, src: u16, at: u64, state: PathState) {
        let seen = Seen::Whole(Tally::new(64.0, 0.0, 0.0));
        let times = (Nanos(at - 5), Nanos(at));
        recent.add((LeafId(src), LeafId(9)), times, seen, state);
    }

    /// Goal: a path's onset is its first failed test, and the first after a healthy one; what is
    /// explained has none.
    #[test]
    fn onsets_are_where_failures_begin() {
        let mut recent = Recent::default();
        for (at, state) in [
            (10, PathState::Failed),
            (20, PathState::Failed),
            (30, PathState::Healthy),
            (40, PathState::Failed),
        ] {
            add(&mut recent, 1, at, state);
        }
        add(&mut recent, 2, 17, PathState::Failed);
        assert_eq!(recent.onsets(|_, _| true), [Nanos(5), Nanos(12), Nanos(35)]);
        assert_eq!(recent.onsets(|src, _| src.0 == 2), [Nanos(12)]);
    }

    /// Goal: a path went bad between its last packets without a loss that would have shown it and the end of
    /// a failed test; how many packets those are depends on the rate.
    #[test]
    fn a_path_went_bad_after_it_was_healthy() {
        let mut recent = Recent::default();
        let mut add = |at: u64, lost: f64, state| {
            let seen = Seen::Whole(Tally::new(100.0, lost, 0.0));
            let times = (Nanos(at - 5), Nanos(at));
            recent.add((LeafId(1), LeafId(9)), times, seen, state);
        };
        for at in [10, 20, 30] {
            add(at, 0.0, PathState::Healthy);
        }
        for at in [40, 50] {
            add(at, 20.0, PathState::Failed);
        }
        for at in [60, 70] {
            add(at, 0.0, PathState::Healthy);
        }
        add(80, 20.0, PathState::Failed);
        let path = (LeafId(1), LeafId(9));
        let spells = |rate, onset| recent.spells(path, rate, Nanos(onset));
        let spell = |after, by, to| Spell {
            after: Nanos(after),
            by: Nanos(by),
            to: Nanos(to),
        };
        assert_eq!(spells(0.2, 0), [spell(25, 40, 50), spell(65, 80, 80)]);
        // At 5 % three tests are needed, and there were two from 60 on.
        assert_eq!(spells(0.05, 0), [spell(5, 40, 80)]);
        assert_eq!(spells(0.2, 35), [spell(0, 40, 50), spell(65, 80, 80)]);
        assert_eq!(recent.spells((LeafId(2), LeafId(9)), 0.2, Nanos(0)), []);
        assert_eq!(recent.sums(path, Nanos(45)), [400.0, 40.0]);
        assert!(!spells(0.2, 0)[0].meets(&spells(0.2, 0)[1]));
    }

    /// Goal: of what is kept in part only nothing is asked; and of many onsets two at either end.
    #[test]
    fn what_is_forgotten_is_not_asked_of() {
        let mut recent = Recent::default();
        for src in 0..8 {
            add(&mut recent, src, 10 + u64::from(src), PathState::Failed);
        }
        assert_eq!(
            recent.onsets(|_, _| true),
            [Nanos(5), Nanos(6), Nanos(11), Nanos(12)]
        );
        for at in 0..TESTS_MAX as u64 - 1 {
            add(&mut recent, 20, 100 + at, PathState::Healthy);
        }
        // One of the eight is left, and the test before it, forgotten now, ended after it had begun.
        assert_eq!(recent.onsets(|_, _| true), []);
        assert_eq!(recent.since(Nanos(90), Nanos(1000)).len(), 1);
    }
}
