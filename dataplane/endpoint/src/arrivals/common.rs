//! The common ways of a packet: the next in order, one that fills a gap, one that is ahead. The
//! long way in [`Arrivals::arrive`] does the same.

use super::Arrivals;
use crate::config::Recovery;
use crate::timers::NEVER;

impl Arrivals {
    /// Passes the expected packet on, and what waits behind it if that is all like it: `word`, at
    /// most `most` in all. How many; `None`, and nothing has changed, where there is more to it.
    #[inline]
    pub(crate) fn pass_common(&mut self, word: u16, most: u64) -> Option<u64> {
        if !self.holes.is_empty() || most == 0 {
            return None;
        }
        if self.top == self.expected {
            self.expected += 1;
            self.top = self.expected;
            self.judged = self.expected;
            return Some(1);
        }
        self.pass_row(word, most)
    }

    #[inline(never)]
    fn pass_row(&mut self, word: u16, most: u64) -> Option<u64> {
        let mut end = self.expected + 1;
        while end < self.top {
            match self.slots[self.at(end)] {
                0 => break,
                like if like == word => end += 1,
                _ => return None,
            }
        }
        let count = end - self.expected;
        if count > most {
            return None;
        }
        for index in self.expected + 1..end {
            let at = self.at(index);
            self.slots[at] = 0;
        }
        self.expected = end;
        self.judged = self.judged.max(end);
        if end == self.top {
            self.mark_ns = NEVER;
            self.slack = 0;
        }
        Some(count)
    }

    /// Places a packet ahead of the expected one, if none is lost by that. How far behind the
    /// latest it was; the deadline may have become earlier.
    #[inline(never)]
    pub(crate) fn place_common(
        &mut self,
        now: u64,
        index: i64,
        word: u16,
        recovery: &Recovery,
    ) -> Option<u64> {
        let Recovery::SelectiveRepeat {
            reorder_window_packets,
            hole_timeout_ns,
            ..
        } = *recovery
        else {
            return None;
        };
        let ahead = (index - self.expected as i64) as u64;
        let top = self.top.max(index as u64 + 1);
        if ahead == 0
            || ahead >= self.slots.len() as u64
            || self.lost_before(top, reorder_window_packets) > self.judged
            || !self.holes.is_empty()
        {
            return None;
        }
        let at = self.at(index as u64);
        if self.slots[at] != 0 {
            return None;
        }
        self.slots[at] = word;
        self.top = top;
        if self.mark_ns == NEVER {
            self.mark = top;
            self.mark_ns = now.saturating_add(hole_timeout_ns);
        }
        Some(top - (index as u64 + 1))
    }
}
