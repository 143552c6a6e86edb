//! What a run of marked packets counts for at the destination leaf.

use packet::Psn;

use crate::counters::Counters;
use crate::destination::Destination;
use crate::track::Stride;
use crate::types::Nanos;

/// Marked packets of one flow and colour that come over one spine.
pub(super) struct Tally<'a> {
    pub(super) destination: &'a mut Destination,
    /// Row, spine, colour.
    pub(super) path: (usize, usize, usize),
}

impl Tally<'_> {
    /// What can be counted in a row from here.
    #[inline(always)]
    pub(super) fn stride(&self) -> Stride {
        let (row, _, colour) = self.path;
        self.destination.stride(row, colour)
    }

    /// Takes a packet behind what `stride` has taken. What can be counted from there, and whether a
    /// window ends with the packet.
    #[inline(never)]
    pub(super) fn count_any(
        &mut self,
        now: Nanos,
        stride: Stride,
        psn: Psn,
        counters: &mut Counters,
    ) -> (Stride, bool) {
        self.walk(now, &stride, counters);
        let (row, spine, colour) = self.path;
        let Tally { destination, .. } = self;
        let is_ended = destination.count_any(now, row, spine, colour, psn, counters);
        (self.stride(), is_ended)
    }

    /// Counts what `stride` has taken.
    #[inline(always)]
    pub(super) fn walk(&mut self, now: Nanos, stride: &Stride, counters: &mut Counters) {
        let (row, spine, colour) = self.path;
        let Tally { destination, .. } = self;
        destination.walk(now, row, spine, colour, stride, counters);
    }
}
