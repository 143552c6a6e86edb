//! Waiting room of verdicts: one bounded lane for each leaf, served in turns.
//!
//! A leaf that floods fills its own lane and then waits (its connection is not read); the lanes of others
//! are served as before. Turns are by paths, not by verdicts, so that long verdicts take no larger share
//! (deficit round robin, Shreedhar and Varghese 1995).

use std::collections::VecDeque;
use std::sync::Arc;

/// Verdicts that wait in one lane.
pub const LANE_MAX: usize = 256;
/// Lanes: as many leaves as a fabric can have, and as many switches again that answer for several.
pub const LANES_MAX: usize = 256;
/// Paths that a lane may hand over in one turn; the largest verdict has 128.
const QUANTUM: usize = 128;

/// Why something does not get in; it is handed back.
#[derive(Debug, PartialEq, Eq)]
pub enum Refused<T> {
    /// The lane is full: offer it again later.
    LaneFull(T),
    /// There are too many lanes.
    TooManyLanes(T),
}

#[derive(Debug)]
struct Lane<T> {
    name: Arc<str>,
    waiting: VecDeque<(usize, T)>,
    deficit: usize,
}

/// All lanes, see the file's comment.
#[derive(Debug)]
pub struct Lanes<T> {
    lanes: Vec<Lane<T>>,
    turn: usize,
    /// The lane whose turn it is has not had all of it.
    is_cut: bool,
    waiting: usize,
}

impl<T> Default for Lanes<T> {
    fn default() -> Lanes<T> {
        Lanes {
            lanes: Vec::new(),
            turn: 0,
            is_cut: false,
            waiting: 0,
        }
    }
}

impl<T> Lanes<T> {
    /// Puts `item`, which costs so many paths, in the lane of `name`.
    ///
    /// # Errors
    /// The item, when there is no room for it.
    pub fn offer(&mut self, name: &Arc<str>, paths: usize, item: T) -> Result<(), Refused<T>> {
        let found = self.lanes.iter().position(|lane| lane.name == *name);
        let index = match found {
            Some(index) => index,
            None if self.lanes.len() == LANES_MAX => {
                // An empty lane is one that nobody misses.
                let Some(empty) = self.lanes.iter().position(|lane| lane.waiting.is_empty()) else {
                    return Err(Refused::TooManyLanes(item));
                };
                self.lanes[empty].name = Arc::clone(name);
                empty
            }
            None => {
                self.lanes.push(Lane {
                    name: Arc::clone(name),
                    waiting: VecDeque::new(),
                    deficit: 0,
                });
                self.lanes.len() - 1
            }
        };
        let lane = &mut self.lanes[index];
        if lane.waiting.len() >= LANE_MAX {
            return Err(Refused::LaneFull(item));
        }
        lane.waiting.push_back((paths.clamp(1, QUANTUM), item));
        self.waiting += 1;
        Ok(())
    }

    /// Takes up to `max` items, the lanes in turns.
    pub fn take(&mut self, max: usize) -> Vec<T> {
        let mut taken = Vec::with_capacity(max.min(self.waiting));
        while taken.len() < max && self.waiting > 0 {
            let count = self.lanes.len();
            let lane = &mut self.lanes[self.turn % count];
            if !std::mem::take(&mut self.is_cut) {
                lane.deficit += QUANTUM;
            }
            while let Some(&(cost, _)) = lane.waiting.front() {
                if cost > lane.deficit {
                    break;
                }
                if taken.len() == max {
                    self.is_cut = true;
                    return taken;
                }
                lane.deficit -= cost;
                if let Some((_, item)) = lane.waiting.pop_front() {
                    self.waiting -= 1;
                    taken.push(item);
                }
            }
            // A lane that has nothing saves nothing up.
            if lane.waiting.is_empty() {
                lane.deficit = 0;
            }
            self.turn = (self.turn + 1) % count;
        }
        taken
    }

    /// Items that wait.
    pub fn waiting(&self) -> usize {
        self.waiting
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn name(lane: usize) -> Arc<str> {
        format!("leaf{lane}").into()
    }

    /// Goal: a flooding leaf fills its own lane and no other; it is told to wait.
    #[test]
    fn a_flood_stays_in_its_lane() {
        let mut lanes = Lanes::default();
        for item in 0..LANE_MAX {
            assert_eq!(lanes.offer(&name(0), 1, (0, item)), Ok(()));
        }
        assert_eq!(
            lanes.offer(&name(0), 1, (0, 0)),
            Err(Refused::LaneFull((0, 0)))
        );
        assert_eq!(lanes.offer(&name(1), 128, (1, 0)), Ok(()));
        let first = lanes.take(129);
        assert!(
            first.contains(&(1, 0)),
            "one turn of the flood at most is before it: {first:?}"
        );
        assert_eq!(lanes.waiting(), LANE_MAX + 1 - 129);
    }

    /// Goal: there are never more lanes than the bound, and an empty one makes room.
    #[test]
    fn lanes_are_bounded() {
        let mut lanes = Lanes::default();
        for lane in 0..LANES_MAX {
            assert_eq!(lanes.offer(&name(lane), 1, lane), Ok(()));
        }
        let new = name(LANES_MAX);
        assert_eq!(lanes.offer(&new, 1, 7), Err(Refused::TooManyLanes(7)));
        assert_eq!(lanes.take(1).len(), 1);
        assert_eq!(lanes.offer(&new, 1, 7), Ok(()));
    }

    proptest! {
        /// Goal: nothing is lost or turned round within a lane, and whatever the others offer a lane gets its
        /// share of every full turn, in paths.
        #[test]
        fn every_lane_gets_its_share(costs in proptest::collection::vec((0..5usize, 1..=128usize), 1..200), step in 1..40usize) {
            let mut lanes = Lanes::default();
            let mut offered = [const { Vec::new() }; 5];
            for (item, &(lane, cost)) in costs.iter().enumerate() {
                prop_assert!(lanes.offer(&name(lane), cost, (lane, item, cost)).is_ok());
                offered[lane].push(item);
            }
            let mut got = [const { Vec::new() }; 5];
            let mut paths = [0usize; 5];
            while lanes.waiting() > 0 {
                for (lane, item, cost) in lanes.take(step) {
                    got[lane].push(item);
                    paths[lane] += cost;
                }
                for lane in 0..5 {
                    for other in 0..5 {
                        let both_wait = got[lane].len() < offered[lane].len() && !offered[other].is_empty();
                        // Two turns, and what they leave for the next.
                        prop_assert!(!both_wait || paths[other] <= paths[lane] + 4 * QUANTUM,
                            "{paths:?} while {lane} waits");
                    }
                }
            }
            prop_assert_eq!(got, offered);
        }
    }
}
