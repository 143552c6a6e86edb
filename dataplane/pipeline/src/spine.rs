//! A spine's counts of marked packets: by leaf they came from, leaf they go to, and colour.
//!
//! No flow table: a leaf measures one flow at a time, so these three tell the window. An open
//! tags the counters with its window's name; a close that passes takes the counts along if the tag is its
//! own, and names the link that lost the packets.

use packet::message::Hop;

use crate::window::WindowName;

/// Counts of one (from, to, colour).
#[derive(Clone, Copy, Default)]
struct Cell {
    window: Option<WindowName>,
    received: u32,
    sent: u32,
    dropped: u32,
    /// What the first close took along.
    told: Option<Hop>,
    /// Control was told that something was dropped.
    is_drop_told: bool,
}

/// State of a spine.
pub struct SpineCounts {
    spine: u16,
    leaves: usize,
    cells: Vec<Cell>,
}

impl SpineCounts {
    /// Counts of spine number `spine` in a fabric of `leaves`.
    pub fn new(spine: u16, leaves: u16) -> SpineCounts {
        let leaves = usize::from(leaves);
        SpineCounts {
            spine,
            leaves,
            cells: vec![Cell::default(); leaves * leaves * 2],
        }
    }

    /// Bytes of state, for the documents.
    pub fn state_bytes(&self) -> usize {
        size_of_val(&self.cells[..])
    }

    /// The number of the counts of such packets.
    #[inline(always)]
    pub fn cell_of(&self, from: usize, to: usize, colour: usize) -> usize {
        (from * self.leaves + to) * 2 + colour
    }

    /// Asks the CPU for the counts `cell`.
    #[inline(always)]
    pub(crate) fn foresee(&self, cell: usize) {
        if let Some(cell) = self.cells.get(cell) {
            prefetch::line(cell);
        }
    }

    fn cell(&mut self, from: usize, to: usize, colour: usize) -> &mut Cell {
        let cell = self.cell_of(from, to, colour);
        &mut self.cells[cell]
    }

    /// Of the counts `cell` so many marked packets came, of which so many were queued and the others
    /// dropped in the spine's own queue.
    #[inline(always)]
    pub fn count(&mut self, cell: usize, received: u32, queued: u32) {
        let cell = &mut self.cells[cell];
        cell.received = cell.received.wrapping_add(received);
        cell.sent = cell.sent.wrapping_add(queued);
        cell.dropped = cell.dropped.wrapping_add(received - queued);
    }

    /// The window of whose marked packets the first has just been dropped; `None` when that was
    /// told before, or no open has passed.
    pub fn first_drop(&mut self, from: usize, to: usize, colour: usize) -> Option<WindowName> {
        let cell = self.cell(from, to, colour);
        let is_told = std::mem::replace(&mut cell.is_drop_told, true);
        cell.window.filter(|_| !is_told)
    }

    /// An open passed: its window's counts begin at zero.
    pub fn open(&mut self, from: usize, to: usize, window: WindowName) {
        let cell = self.cell(from, to, (window.epoch & 1) as usize);
        if cell.window != Some(window) {
            *cell = Cell {
                window: Some(window),
                ..Cell::default()
            };
        }
    }

    /// A close passes: the record it takes along, if this spine has seen the window's open.
    ///
    /// The first copy, or the one right behind it, follows the last marked packet, so its counts are
    /// the window's; repetitions tell the same. If both were lost before this spine there is none:
    /// when a repetition comes, a newer window whose opens were lost may have been counted here too.
    pub fn close(
        &mut self,
        from: usize,
        to: usize,
        window: WindowName,
        repetition: u16,
    ) -> Option<Hop> {
        let spine = self.spine;
        let cell = self.cell(from, to, (window.epoch & 1) as usize);
        if cell.window != Some(window) {
            return None;
        }
        if repetition == 0 && cell.told.is_none() {
            cell.told = Some(Hop {
                spine,
                received: cell.received,
                sent: cell.sent,
                dropped: cell.dropped,
            });
        }
        cell.told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::message::{Header, MessageKind};
    use packet::{Psn, Qpn};

    fn window(epoch: u32, first: u32) -> WindowName {
        WindowName::of(&Header {
            kind: MessageKind::Open,
            flags: 0,
            destination_qp: Qpn(1),
            first_psn: Psn::new(first),
            mtu_bytes: 0,
            packets: 0,
            bytes: 0,
            flow_id: 0,
            fanout: 4,
            repetition: 0,
            epoch,
        })
    }

    #[test]
    fn a_window_is_counted_between_its_open_and_close() {
        let mut counts = SpineCounts::new(3, 4);
        counts.count(counts.cell_of(0, 1, 1), 1, 1);
        assert_eq!(
            counts.close(0, 1, window(1, 100), 0),
            None,
            "no open: what stands there is another window's"
        );
        counts.open(0, 1, window(1, 100));
        counts.open(0, 1, window(1, 100));
        for n in 0..10 {
            counts.count(counts.cell_of(0, 1, 1), 1, u32::from(n != 4));
        }
        counts.count(counts.cell_of(0, 1, 0), 1, 1);
        counts.count(counts.cell_of(0, 2, 1), 1, 1);
        let hop = Hop {
            spine: 3,
            received: 10,
            sent: 9,
            dropped: 1,
        };
        assert_eq!(counts.close(0, 1, window(1, 100), 0), Some(hop));
        assert_eq!(
            counts.close(0, 1, window(1, 100), 0),
            Some(hop),
            "the copy behind it"
        );
        // The open of the next window of this colour is lost before this spine.
        counts.count(counts.cell_of(0, 1, 1), 1, 1);
        assert_eq!(
            counts.close(0, 1, window(1, 100), 1),
            Some(hop),
            "repetitions tell the same"
        );
        assert_eq!(
            counts.close(0, 1, window(3, 100), 0),
            None,
            "an older window's counts are not told"
        );
        assert_eq!(
            counts.close(0, 1, window(1, 200), 0),
            None,
            "a leaf that was restarted counts its epochs anew"
        );
        counts.open(0, 1, window(5, 300));
        assert_eq!(
            counts.close(0, 1, window(5, 300), 1),
            None,
            "where the window ended here, only its first close knows"
        );
    }
}
