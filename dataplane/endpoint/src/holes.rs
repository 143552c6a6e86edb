//! Packets that a receiver knows to be lost, and when to ask for each again.
//!
//! Bounded in packets and in requests: what has no room waits for it, and what was asked for often
//! enough is left to the sender's timeout.

use crate::timers::NEVER;

/// Packets that can be asked for at a time.
const HOLES_MAX: usize = 64;
/// The wait for an answer doubles up to so many times.
const BACKOFF_MAX: u32 = 6;

#[derive(Clone, Copy, Debug)]
struct Hole {
    index: u64,
    requests: u32,
    /// When to ask again; [`NEVER`] while that is due, or no more.
    next_ns: u64,
    is_due: bool,
}

/// The table, in the order of discovery.
#[derive(Debug)]
pub(crate) struct Holes {
    table: Vec<Hole>,
}

impl Holes {
    pub(crate) fn new() -> Holes {
        Holes {
            table: Vec::with_capacity(HOLES_MAX),
        }
    }

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.table.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.table.len() == HOLES_MAX
    }

    /// Packet `index` is lost and to be asked for at once. There must be room.
    pub(crate) fn push(&mut self, index: u64) {
        debug_assert!(!self.is_full());
        self.table.push(Hole {
            index,
            requests: 0,
            next_ns: NEVER,
            is_due: true,
        });
    }

    #[inline]
    pub(crate) fn clear(&mut self) {
        self.table.clear();
    }

    /// These packets have arrived.
    #[inline]
    pub(crate) fn arrived(&mut self, row: std::ops::Range<u64>) {
        self.table.retain(|hole| !row.contains(&hole.index));
    }

    /// All before `expected` have arrived.
    #[inline]
    pub(crate) fn passed(&mut self, expected: u64) {
        if !self.table.is_empty() {
            self.table.retain(|hole| hole.index >= expected);
        }
    }

    /// Earliest time at which [`Holes::tick`] has something to do.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.table
            .iter()
            .map(|hole| hole.next_ns)
            .min()
            .unwrap_or(NEVER)
    }

    /// Makes due what has waited long enough for an answer.
    pub(crate) fn tick(&mut self, now: u64) {
        for hole in &mut self.table {
            if now >= hole.next_ns {
                hole.is_due = true;
                hole.next_ns = NEVER;
            }
        }
    }

    /// Whether a packet is to be asked for.
    #[inline]
    pub(crate) fn is_due(&self) -> bool {
        self.table.iter().any(|hole| hole.is_due)
    }

    /// Takes a packet that is to be asked for now; again after `wait_ns`, then twice that and so
    /// on, `requests_max` times in all.
    pub(crate) fn take(&mut self, now: u64, wait_ns: u64, requests_max: u32) -> Option<u64> {
        let hole = self.table.iter_mut().find(|hole| hole.is_due)?;
        hole.is_due = false;
        if hole.requests + 1 < requests_max {
            hole.next_ns = now.saturating_add(wait_ns << hole.requests.min(BACKOFF_MAX));
        }
        hole.requests += 1;
        Some(hole.index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: an unanswered request is repeated after 1, 2, 4 .. waits, and no more than allowed.
    #[test]
    fn requests_are_repeated_and_bounded() {
        let mut holes = Holes::new();
        holes.push(5);
        let (mut now, mut asked) = (0, Vec::new());
        loop {
            holes.tick(now);
            while let Some(index) = holes.take(now, 100, 4) {
                asked.push((now, index));
            }
            if holes.deadline() == NEVER {
                break;
            }
            now = holes.deadline();
        }
        assert_eq!(asked, [(0, 5), (100, 5), (300, 5), (700, 5)]);
        holes.arrived(5..6);
        assert!(holes.is_empty());
    }
}
