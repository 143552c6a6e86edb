//! Windows whose time has come, as reports; and the threshold that is set before.

use super::Destination;
use super::window::Phase;
use crate::counters::{Counters, Note};
use crate::report::{EndReason, WindowReport};
use crate::types::{Nanos, SpineSet};

impl Destination {
    /// Whether [`Destination::take_ended`] has something at `now`.
    #[inline(always)]
    pub fn has_ended(&self, now: Nanos) -> bool {
        self.next_deadline <= now
    }

    /// A window whose time has come, as a report; call until there is none.
    pub fn take_ended(&mut self, now: Nanos, counters: &mut Counters) -> Option<&WindowReport> {
        let deadline = |&(row, colour): &(u32, u8)| {
            self.rows[row as usize].windows[usize::from(colour)].deadline
        };
        let Some(place) = self.waiting.iter().position(|at| deadline(at) <= now) else {
            self.next_deadline = self
                .waiting
                .iter()
                .map(deadline)
                .min()
                .unwrap_or(Nanos::NEVER);
            return None;
        };
        let (row, colour) = self.waiting.swap_remove(place);
        self.end(now, row as usize, usize::from(colour), counters);
        counters.note(Note::WindowsReported);
        Some(&self.report)
    }

    fn end(&mut self, now: Nanos, index: usize, colour: usize, counters: &mut Counters) {
        let base = self.base(index, colour);
        let row = &mut self.rows[index];
        let window = &mut row.windows[colour];
        let report = &mut *self.report;
        report.reason = if window.cut == Some(EndReason::Timeout) {
            EndReason::Timeout
        } else if window.marked.is_some() {
            EndReason::Close
        } else if window.track.is_over() {
            EndReason::LastPsn
        } else {
            EndReason::Superseded
        };
        let is_begin_known = window.packets > 0;
        let is_end_known = window.marked.is_some() || window.track.is_over();
        if window.marked.is_none() && !self.is_paper {
            counters.note(Note::WithoutClose);
        }
        if window.marked.is_some() && is_begin_known && !window.track.is_over() {
            counters.note(Note::LastMissing);
        }
        if !is_begin_known || !is_end_known {
            counters.note(Note::WindowsPartial);
            // This leaf may have been restarted in the middle, or the other one have stopped there:
            // a packet that is missing is no evidence.
            window.disturbed = SpineSet::first(self.spines);
        } else if window.since < self.settled_at {
            // Of several devices the later ones may have begun to receive when its first packets had come.
            let unopened = window.usable.without(window.opened);
            counters.note_times(Note::WindowsPartial, u64::from(!unopened.is_empty()));
            window.disturbed = window.disturbed.or(unopened);
        }
        // A counter that may have come round says nothing. A healthy path has its share and, with
        // random ties at the paper's 60,000 packets, not a sixteenth (15 deviations) more.
        let marked = window.marked.unwrap_or(window.packets);
        let share = marked / window.usable.len().max(1) as u64;
        if share.saturating_add(share / 16) > u64::from(self.count_mask) {
            counters.note(Note::CounterOverflow);
            window.disturbed = SpineSet::first(self.spines);
        }
        if let Some(key) = self.table.key(index) {
            report.key = *key;
        }
        report.source = row.source;
        report.epoch = window.name.map_or(0, |name| name.epoch);
        report.packets = window.packets;
        report.first_psn = window.first_psn.unwrap_or_default();
        report.marked = window.marked;
        report.usable = window.usable;
        report.disturbed = window.disturbed;
        report.is_changed = window.is_changed;
        report.flushed = window.flushed;
        report.counts[..self.spines].copy_from_slice(&self.counts[base..base + self.spines]);
        report.sent[..self.spines].copy_from_slice(&self.sent[base..base + self.spines]);
        report.hops_filled = window.hops_filled;
        report.hops[..self.spines].copy_from_slice(&self.hops[base..base + self.spines]);
        report.threshold = window.threshold;
        report.failed = SpineSet::EMPTY;
        report.first_marked_at = window.first_marked_at.unwrap_or(now);
        report.ended_at = now;
        if let Some(threshold) = window.threshold {
            // It was computed from N. What was never sent is missing on no path: each path's share
            // of it comes off (the exact threshold, which falls more slowly, is not below that).
            let unsent = window
                .marked
                .map_or(0, |m| window.packets.saturating_sub(m));
            let share = unsent.div_ceil(window.usable.len().max(1) as u64);
            let threshold = u64::from(threshold).saturating_sub(share);
            let judged = window.usable.without(window.disturbed);
            for spine in judged.iter() {
                if u64::from(self.counts[base + spine]) < threshold {
                    report.failed.insert(spine);
                }
            }
            let failed = &mut self.failed_paths[row.source.index()];
            *failed = failed.without(judged).or(report.failed);
        }
        window.phase = Phase::Done;
        window.since = now;
        window.deadline = Nanos::NEVER;
    }

    /// Sets the threshold that control has computed for a window, if it is still open; false, and
    /// nothing has happened, if it is not.
    pub fn set_threshold(&mut self, row: u32, generation: u32, epoch: u32, threshold: u32) -> bool {
        let index = row as usize;
        let mut is_open = false;
        if self.table.key(index).is_some()
            && let Some(row) = self.rows.get_mut(index)
            && row.generation == generation
        {
            for window in &mut row.windows {
                if window.phase == Phase::Running
                    && window.name.is_some_and(|name| name.epoch == epoch)
                {
                    window.threshold = Some(threshold);
                    is_open = true;
                }
            }
        }
        is_open
    }
}
