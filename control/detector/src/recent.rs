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
use crate::tally::{Cell, Tally, slot_index};
use crate::types::{LeafId, Nanos};

/// Tests of a spine that are kept, of about 100 bytes each.
const TESTS_MAX: usize = 1024;
/// Times since which evidence is asked again, at most: the two earliest and the two latest.
pub(crate) const ONSETS_MAX: usize = 4;

/// A test. Its order is that of time, and total, so that it does not matter who reported first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Test {
    pub(crate) at_ns: Nanos,
    pub(crate) first_ns: Nanos,
    src: LeafId,
    dst: LeafId,
    /// What was seen of the whole path, or of its halves.
    pub(crate) seen: Seen,
    /// Whether it says that the path is bad or that it is not.
    pub(crate) is_failed: Option<bool>,
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

    /// Of the path from end to end.
    pub(crate) fn whole(self) -> Tally {
        match self {
            Seen::Whole(whole) => whole,
            Seen::Halves([up, down]) => up.then(down),
        }
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

    /// The tests of the paths that `is_asked` for, whose packets were all sent since `onset`.
    pub(crate) fn of(
        &self,
        is_asked: impl Fn((LeafId, LeafId)) -> bool,
        onset: Nanos,
    ) -> BTreeMap<(LeafId, LeafId), Vec<&Test>> {
        let mut tests: BTreeMap<(LeafId, LeafId), Vec<&Test>> = BTreeMap::new();
        for test in self.ordered().iter().filter(|test| test.first_ns >= onset) {
            let path = (test.src, test.dst);
            if is_asked(path) {
                tests.entry(path).or_default().push(test);
            }
        }
        tests
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
