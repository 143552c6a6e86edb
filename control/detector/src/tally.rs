//! What the localizer remembers: losses per path, or per half of a path, over a
//! sliding horizon.
//!
//! A [`Cell`] has two slots of half a horizon each; what is older is forgotten
//! when its slot is used again. So a sum covers between half a horizon and a
//! whole one, memory is fixed, and nothing needs a timer. Numbers are kept in
//! whole 1/1024 packets: integer addition gives the same sum in any order, so the
//! verdict cannot depend on who reported first.

use crate::judge::PathTest;
use crate::tails::poisson_at_most;
use crate::types::Nanos;

/// Scale of the integers in a [`Tally`].
const PER_PACKET: f64 = 1024.0;

/// Sums over tests. All in 1/1024 packets (the noise in 1/1024 packets squared).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Tally {
    sent: u64,
    lost: i64,
    noise_variance: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Time over half a horizon, plus one; 0 = never used.
    index: u64,
    tally: Tally,
    first_ns: Nanos,
    last_ns: Nanos,
}

/// Two slots of tallies, see the file's comment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cell {
    slots: [Slot; 2],
}

/// The sum of a cell's live slots.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Sum {
    /// Packets sent (or expected).
    pub(crate) sent: f64,
    /// Packets lost; may be negative with noise.
    pub(crate) lost: f64,
    /// Variance of the loss made by the spray's noise.
    pub(crate) noise_variance: f64,
    /// First marked packet.
    pub(crate) first_ns: Nanos,
    /// Latest close.
    pub(crate) last_ns: Nanos,
}

impl Tally {
    pub(crate) fn new(sent: f64, lost: f64, noise_variance: f64) -> Tally {
        // Float to integer casts saturate; no sum of real counters gets there.
        Tally {
            sent: (sent * PER_PACKET).round() as u64,
            lost: (lost * PER_PACKET).round() as i64,
            noise_variance: (noise_variance * PER_PACKET).round() as u64,
        }
    }

    pub(crate) fn whole(test: &PathTest) -> Tally {
        Tally::new(test.expected, test.lost, test.noise_variance)
    }

    /// Packets sent.
    pub(crate) fn sent(self) -> f64 {
        self.sent as f64 / PER_PACKET
    }

    /// Packets lost.
    pub(crate) fn lost(self) -> f64 {
        self.lost as f64 / PER_PACKET
    }

    /// Of packets that went over both: sent over the first, and lost on either.
    pub(crate) fn then(self, second: Tally) -> Tally {
        Tally {
            lost: self.lost.saturating_add(second.lost),
            ..self
        }
    }

    /// Probability of so few losses where `mean` are expected; noise is shifted Poisson noise, as in the
    /// likelihood.
    pub(crate) fn at_most(self, mean: f64) -> f64 {
        let noise = self.noise_variance as f64 / PER_PACKET;
        poisson_at_most((self.lost() + noise).max(0.0), mean + noise)
    }

    pub(crate) fn plus(self, other: Tally) -> Tally {
        Tally {
            sent: self.sent.saturating_add(other.sent),
            lost: self.lost.saturating_add(other.lost),
            noise_variance: self.noise_variance.saturating_add(other.noise_variance),
        }
    }
}

/// The slot index of a moment.
pub(crate) fn slot_index(at: Nanos, horizon: Nanos) -> u64 {
    at.0 / (horizon.0 / 2).max(1) + 1
}

impl Cell {
    /// Adds a tally of slot `index`; one that is older than both slots is ignored.
    pub(crate) fn add(&mut self, index: u64, tally: Tally, first_ns: Nanos, last_ns: Nanos) {
        // Slot i lives at i mod 2, so the survivor is the newest whatever the order.
        let slot = &mut self.slots[(index % 2) as usize];
        if slot.index < index {
            *slot = Slot {
                index,
                tally,
                first_ns,
                last_ns,
            };
        } else if slot.index == index {
            slot.tally = slot.tally.plus(tally);
            slot.first_ns = slot.first_ns.min(first_ns);
            slot.last_ns = slot.last_ns.max(last_ns);
        }
    }

    /// The sum of the slots that are not older than the one before `index`.
    pub(crate) fn sum(&self, index: u64) -> Option<Sum> {
        // Two slots of this cell that are more than one apart are no one horizon.
        let newest = self.slots[0].index.max(self.slots[1].index).max(index);
        let live = self
            .slots
            .iter()
            .filter(|slot| slot.index > 0 && slot.index + 1 >= newest);
        let mut sum: Option<Slot> = None;
        for slot in live {
            sum = Some(match sum {
                None => *slot,
                Some(other) => Slot {
                    index,
                    tally: slot.tally.plus(other.tally),
                    first_ns: slot.first_ns.min(other.first_ns),
                    last_ns: slot.last_ns.max(other.last_ns),
                },
            });
        }
        sum.map(|slot| Sum {
            sent: slot.tally.sent(),
            lost: slot.tally.lost(),
            noise_variance: slot.tally.noise_variance as f64 / PER_PACKET,
            first_ns: slot.first_ns,
            last_ns: slot.last_ns,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a sum covers the slot of now and the one before, nothing older.
    #[test]
    fn old_slots_are_forgotten() {
        let mut cell = Cell::default();
        for index in 1..=5 {
            cell.add(
                index,
                Tally::new(100.0, index as f64, 0.0),
                Nanos(index),
                Nanos(index),
            );
        }
        let sum = cell.sum(5).expect("two slots");
        assert_eq!((sum.sent, sum.lost, sum.first_ns), (200.0, 9.0, Nanos(4)));
        assert_eq!(cell.sum(6).expect("one slot").lost, 5.0);
        assert_eq!(cell.sum(7), None);
    }

    /// Goal: the memory that the localizer's comment states.
    #[test]
    fn a_cell_takes_96_bytes() {
        assert_eq!(size_of::<Cell>(), 96);
    }
}
