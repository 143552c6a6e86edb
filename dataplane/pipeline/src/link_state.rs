//! Which spines a leaf may use towards which leaf.
//!
//! A leaf sees its own uplinks; that a spine has lost its downlink to some leaf it can only be
//! told. Each spine says so on change and at a fixed interval; after three missed messages it is
//! given up.

use crate::types::{LeafId, LeafSet, Nanos, SpineSet};

/// Messages that may be missed.
const MISSED_MAX: u64 = 3;

#[derive(Clone, Copy)]
struct Spine {
    /// The uplink is up and not disabled.
    link: bool,
    /// Leaves it says it reaches.
    reaches: LeafSet,
    heard_at: Nanos,
    alive: bool,
}

/// A leaf's view of its spines.
pub struct LinkState {
    spines: Vec<Spine>,
    interval_ns: Option<u64>,
}

impl LinkState {
    /// All spines are taken to be there until their first messages are overdue.
    pub fn new(leaves: u16, spines: u16, interval_ns: Option<u64>) -> LinkState {
        let spine = Spine {
            link: false,
            reaches: LeafSet::first(usize::from(leaves)),
            heard_at: Nanos(0),
            alive: true,
        };
        LinkState {
            spines: vec![spine; usize::from(spines)],
            interval_ns,
        }
    }

    /// The uplink to `spine` can be used, or no longer. True when that is a change.
    pub fn set_link(&mut self, spine: usize, link: bool) -> bool {
        std::mem::replace(&mut self.spines[spine].link, link) != link
    }

    /// `spine` says which leaves it reaches. Tells which leaves' reach has changed by that: all
    /// that it reaches, when it had been given up.
    pub fn heard(&mut self, now: Nanos, spine: usize, reaches: LeafSet) -> LeafSet {
        let state = &mut self.spines[spine];
        state.heard_at = now;
        let before = if state.alive {
            state.reaches
        } else {
            LeafSet::EMPTY
        };
        state.alive = true;
        state.reaches = reaches;
        before.without(reaches).or(reaches.without(before))
    }

    /// The next spine that has become overdue, once.
    pub fn overdue(&mut self, now: Nanos) -> Option<usize> {
        let limit_ns = self.interval_ns? * MISSED_MAX;
        let index = self
            .spines
            .iter()
            .position(|s| s.alive && now > s.heard_at.plus(limit_ns))?;
        self.spines[index].alive = false;
        Some(index)
    }

    /// Spines that can carry packets to `leaf`.
    pub fn usable(&self, leaf: LeafId) -> SpineSet {
        let mut usable = SpineSet::EMPTY;
        for (index, spine) in self.spines.iter().enumerate() {
            if spine.link && spine.alive && spine.reaches.has(leaf.index()) {
                usable.insert(index);
            }
        }
        usable
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::Set;

    #[test]
    fn a_silent_spine_is_given_up_and_taken_back() {
        let mut state = LinkState::new(4, 2, Some(100));
        state.set_link(0, true);
        state.set_link(1, true);
        assert_eq!(state.usable(LeafId(2)), Set(0b11));
        assert!(state.heard(Nanos(90), 0, LeafSet::first(4)).is_empty());
        assert_eq!(state.overdue(Nanos(300)), None);
        assert_eq!(state.overdue(Nanos(301)), Some(1));
        assert_eq!(state.overdue(Nanos(301)), None, "told once");
        assert_eq!(state.usable(LeafId(2)), Set(0b01));
        assert_eq!(state.heard(Nanos(310), 1, Set(0b1011)), Set(0b1011));
        assert_eq!(state.heard(Nanos(310), 1, Set(0b0011)), Set(0b1000));
        assert_eq!(state.heard(Nanos(310), 1, Set(0b1011)), Set(0b1000));
        assert_eq!(
            state.usable(LeafId(2)),
            Set(0b01),
            "it has no downlink to leaf 2"
        );
        assert_eq!(state.usable(LeafId(3)), Set(0b11));
        assert!(state.set_link(0, false) && state.usable(LeafId(2)).is_empty());
    }

    #[test]
    fn without_messages_nobody_is_overdue() {
        let mut state = LinkState::new(4, 2, None);
        assert_eq!(state.overdue(Nanos(1 << 60)), None);
    }
}
