//! Rows of the flow table: who gets one, and whose is given up.

use super::Destination;
use super::window::{Phase, Window};
use crate::counters::{Counters, Note};
use crate::report::EndReason;
use crate::types::{FlowKey, LeafId, Nanos, SpineSet};

/// Rows looked at for expiry in one tick.
const SWEEP_ROWS: usize = 8;
/// Rows looked at for one to give up: a full table must not cost a scan per marked packet.
const LOOKS_MAX: usize = 8;

pub(super) struct Row {
    pub(super) source: LeafId,
    pub(super) generation: u32,
    pub(super) active_at: Nanos,
    /// Packets of this flow may have come before there was room for it: the first window that
    /// begins here counts too few.
    pub(super) is_cut: bool,
    pub(super) windows: [Window; 2],
}

impl Row {
    pub(super) fn is_idle(&self) -> bool {
        self.windows.iter().all(|w| w.phase != Phase::Running)
    }
}

/// Which flows found no row lately, by their hashes: a set that may say yes of one more.
#[derive(Default)]
pub(super) struct Refused {
    bits: [u64; 16],
    latest_at: Nanos,
}

impl Refused {
    fn place(&self, key: &FlowKey) -> (usize, u64) {
        let hash = key.hash();
        ((hash >> 60) as usize, 1 << (hash >> 54 & 63))
    }

    fn insert(&mut self, now: Nanos, key: &FlowKey) {
        let (word, bit) = self.place(key);
        self.bits[word] |= bit;
        self.latest_at = now;
    }

    /// Whether a flow is in it; empty once nothing was put in for `keep_ns`.
    fn has(&mut self, now: Nanos, key: &FlowKey, keep_ns: u64) -> bool {
        if now >= self.latest_at.plus(keep_ns) {
            self.bits = [0; 16];
        }
        let (word, bit) = self.place(key);
        self.bits[word] & bit != 0
    }
}

impl Destination {
    #[cold]
    pub(super) fn insert(&mut self, now: Nanos, key: &FlowKey, source: LeafId) -> Option<usize> {
        if self.table.is_full() {
            self.release_idle();
        }
        let Some(index) = self.table.insert(key) else {
            self.refused.insert(now, key);
            return None;
        };
        let row = &mut self.rows[index];
        row.source = source;
        row.generation = row.generation.wrapping_add(1);
        row.active_at = now;
        row.is_cut = self.refused.has(now, key, self.row_ns_max);
        row.windows = [Window::begun(Phase::Empty, now, SpineSet::EMPTY); 2];
        Some(index)
    }

    /// Gives up a row that waits for nothing: of those that are looked at, the one that has been
    /// idle longest.
    fn release_idle(&mut self) {
        let mut oldest: Option<usize> = None;
        for _ in 0..LOOKS_MAX.min(self.rows.len()) {
            let at = self.hand;
            self.hand = if at + 1 == self.rows.len() { 0 } else { at + 1 };
            let active_at = |row: usize| self.rows[row].active_at;
            let is_older = oldest.is_none_or(|oldest| active_at(at) < active_at(oldest));
            if self.rows[at].is_idle() && is_older {
                oldest = Some(at);
            }
        }
        if let Some(row) = oldest {
            self.release(row);
        }
    }

    /// The flow of `row` is forgotten: whoever remembers its row finds another generation.
    fn release(&mut self, row: usize) {
        self.table.release(row);
        self.rows[row].generation = self.rows[row].generation.wrapping_add(1);
    }

    /// Whether `row` is still that of the flow it had in `generation`.
    #[inline(always)]
    pub fn is_row(&self, row: usize, generation: u32) -> bool {
        self.rows
            .get(row)
            .is_some_and(|row| row.generation == generation)
    }

    /// How often the flow of `row` has changed.
    pub fn generation(&self, row: usize) -> u32 {
        self.rows[row].generation
    }

    /// The row in which marked packets of `key` are counted; `source` tells the leaf of a flow that is
    /// new. `None` if there is no room for it.
    pub fn row_of(
        &mut self,
        now: Nanos,
        key: &FlowKey,
        source: impl FnOnce() -> Option<LeafId>,
    ) -> Option<usize> {
        let found = self.find(key);
        found.or_else(|| self.insert(now, key, source()?))
    }

    /// The row of `key`, if it has one.
    pub fn find(&self, key: &FlowKey) -> Option<usize> {
        self.table.find(key)
    }

    /// Looks at a few rows: what has been silent too long is reported, then its row freed.
    pub fn sweep(&mut self, now: Nanos, counters: &mut Counters) {
        for _ in 0..SWEEP_ROWS.min(self.rows.len()) {
            self.sweep = if self.sweep + 1 >= self.rows.len() {
                0
            } else {
                self.sweep + 1
            };
            let index = self.sweep;
            let row = &self.rows[index];
            if self.table.key(index).is_none() || now < row.active_at.plus(self.row_ns_max) {
                continue;
            }
            if row.is_idle() {
                self.release(index);
                continue;
            }
            counters.note(Note::RowsExpired);
            for colour in 0..2 {
                let window = &mut self.rows[index].windows[colour];
                if window.phase == Phase::Running {
                    window.cut = Some(EndReason::Timeout);
                    self.wait_until(now, index, colour);
                }
            }
        }
    }
}
