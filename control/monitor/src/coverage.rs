//! How recently and how finely a link was measured.
//!
//! Each path test says from which loss rate on it would have seen a failure. A link is *watched* from the
//! finest of the tests over it within the horizon, and could be *named* from the finest that two paths with
//! different far leaves reach, for a conviction needs two. Two slots of half a horizon: memory is fixed and
//! needs no timer.

use detector::{LeafId, Nanos};
use serde::Serialize;

/// The finest test over a link towards one far leaf.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Best {
    far: LeafId,
    rate: f64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Slot {
    /// Time over half a horizon, plus one; 0: never used.
    index: u64,
    best: [Option<Best>; 2],
    packets: u64,
    lost: f64,
}

/// The measuring of one link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Coverage {
    slots: [Slot; 2],
    last: Option<Nanos>,
}

/// What is known of a link's measuring, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Covered {
    /// When it was last measured, in nanoseconds since 1970.
    pub last_ns: Option<u64>,
    /// A loss rate from which on a test over it would have been seen, within the horizon.
    pub watched_from: Option<f64>,
    /// The same by two paths with different far leaves: from here on it would be named.
    pub named_from: Option<f64>,
    /// Marked packets that should have passed it within the horizon.
    pub packets: u64,
    /// Of the paths over it, lost packets; they may be another link's.
    pub lost: u64,
}

impl Coverage {
    /// A test of a path over the link to or from `far`.
    pub fn add(
        &mut self,
        at: Nanos,
        horizon: Nanos,
        far: LeafId,
        visible: Option<f64>,
        packets: f64,
        lost: f64,
    ) {
        self.last = self.last.max(Some(at));
        let index = index(at, horizon);
        let slot = &mut self.slots[(index % 2) as usize];
        if slot.index > index {
            return;
        }
        if slot.index < index {
            *slot = Slot {
                index,
                ..Slot::default()
            };
        }
        slot.packets = slot.packets.saturating_add(packets.max(0.0) as u64);
        slot.lost += lost;
        if let Some(rate) = visible {
            keep(&mut slot.best, Best { far, rate });
        }
    }

    /// What the horizon before `now` holds.
    pub fn at(&self, now: Nanos, horizon: Nanos) -> Covered {
        let index = index(now, horizon);
        let live = |slot: &&Slot| slot.index != 0 && slot.index <= index && slot.index + 1 >= index;
        let mut best = [None; 2];
        let mut lost = 0.0;
        let mut covered = Covered {
            last_ns: self.last.map(|at| at.0),
            ..Covered::default()
        };
        for slot in self.slots.iter().filter(live) {
            covered.packets += slot.packets;
            lost += slot.lost;
            (slot.best.iter().flatten()).for_each(|&one| keep(&mut best, one));
        }
        covered.lost = lost.max(0.0).round() as u64;
        covered.watched_from = best[0].map(|one: Best| one.rate);
        covered.named_from = best[1].map(|one: Best| one.rate);
        covered
    }

    /// When the link was last measured.
    pub fn last(&self) -> Option<Nanos> {
        self.last
    }
}

fn index(at: Nanos, horizon: Nanos) -> u64 {
    at.0 / (horizon.0 / 2).max(1) + 1
}

/// Keeps the two finest of different far leaves, the finest first.
fn keep(best: &mut [Option<Best>; 2], new: Best) {
    let rate = |one: Option<Best>| one.map_or(f64::INFINITY, |one| one.rate);
    match best {
        [Some(first), _] if first.far == new.far => first.rate = first.rate.min(new.rate),
        [_, Some(second)] if second.far == new.far => second.rate = second.rate.min(new.rate),
        [_, second] if new.rate < rate(*second) => *second = Some(new),
        _ if best[0].is_none() => best[0] = Some(new),
        _ => {}
    }
    if rate(best[1]) < rate(best[0]) {
        best.swap(0, 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HORIZON: Nanos = Nanos(60_000_000_000);
    const T: Nanos = Nanos(6_000_000_000_000);

    /// Goal: one far leaf watches and does not name; old evidence is forgotten, its time is not.
    #[test]
    fn naming_takes_two_far_leaves() {
        let mut coverage = Coverage::default();
        coverage.add(T, HORIZON, LeafId(1), Some(0.005), 4096.0, 3.0);
        coverage.add(T, HORIZON, LeafId(1), Some(0.004), 4096.0, 0.0);
        let covered = coverage.at(T, HORIZON);
        assert_eq!(
            (covered.watched_from, covered.named_from),
            (Some(0.004), None)
        );
        coverage.add(T, HORIZON, LeafId(2), Some(0.01), 100.0, 0.0);
        let covered = coverage.at(T, HORIZON);
        assert_eq!(
            (covered.named_from, covered.packets, covered.lost),
            (Some(0.01), 8292, 3)
        );
        let later = Nanos(T.0 + 2 * HORIZON.0);
        let old = coverage.at(later, HORIZON);
        assert_eq!(
            (old.watched_from, old.packets, old.last_ns),
            (None, 0, Some(T.0))
        );
    }

    proptest! {
        /// Goal: the two numbers are the two smallest of different leaves, in whatever order they come.
        #[test]
        fn the_two_finest_are_kept(tests in proptest::collection::vec((0..6u16, 1..1000u32), 1..40)) {
            let mut coverage = Coverage::default();
            let mut by_leaf = std::collections::BTreeMap::<u16, f64>::new();
            for &(far, rate) in &tests {
                let rate = f64::from(rate) / 1e5;
                coverage.add(T, HORIZON, LeafId(far), Some(rate), 1.0, 0.0);
                let least = by_leaf.entry(far).or_insert(rate);
                *least = least.min(rate);
            }
            let mut rates: Vec<f64> = by_leaf.into_values().collect();
            rates.sort_by(f64::total_cmp);
            let covered = coverage.at(T, HORIZON);
            prop_assert_eq!(covered.watched_from, rates.first().copied());
            prop_assert_eq!(covered.named_from, rates.get(1).copied());
        }
    }
}
