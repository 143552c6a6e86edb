//! Opens and closes, as they come over each path.

use packet::Address;
use packet::message::{Header, Message, MessageKind};

use super::window::{Phase, Window};
use super::{Destination, VERDICT_DELAYS};
use crate::counters::{Counters, Note};
use crate::report::{EndReason, Opened};
use crate::source::flow_of;
use crate::types::{LeafId, Nanos, SpineSet};
use crate::window::{WindowName, first_psn};

/// Longest delays of a path within which copies of an older window's messages can still come.
const LATE_DELAYS: u64 = 4;

/// What has become of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Taken {
    /// It is taken in.
    Done,
    /// A window is new by it.
    Opened(Opened),
    /// It has ended the window that stood in its place, and is to be taken once more when that one
    /// was reported.
    Again,
}

impl Destination {
    /// Takes an open or close that came over `spine` for a flow between `addresses` (source,
    /// destination); returns what control is to be told of a window that is new. What ends by it
    /// is due for [`Destination::take_ended`] at once.
    ///
    /// An open that finds another window in its place ends that one; it is to be taken once more
    /// after that window was reported: [`Taken::Again`].
    pub fn message(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        addresses: (Address, Address),
        source: LeafId,
        spine: usize,
        counters: &mut Counters,
    ) -> Taken {
        let header = message.header;
        let key = flow_of(&header, addresses.0, addresses.1);
        let colour = (header.epoch & 1) as usize;
        let is_open = header.kind == MessageKind::Open;
        let row = match self.table.find(&key) {
            Some(row) => row,
            None if !is_open => {
                counters.note(Note::ClosesUnknown);
                return Taken::Done;
            }
            None => match self.insert(now, &key, source) {
                Some(row) => row,
                None => {
                    counters.note(Note::FlowTableFull);
                    return Taken::Done;
                }
            },
        };
        self.rows[row].active_at = now;
        let name = WindowName::of(&header);
        let window = &self.rows[row].windows[colour];
        if window.name != Some(name) || window.phase == Phase::Done {
            if self.is_late(now, window, &name) {
                counters.note(Note::MessagesRepeated);
                return Taken::Done;
            }
            match window.phase {
                Phase::Empty | Phase::Done if !is_open => {
                    counters.note(Note::ClosesUnknown);
                    return Taken::Done;
                }
                Phase::Empty | Phase::Done => {
                    let is_cut = window.cut == Some(EndReason::Superseded);
                    self.begin(now, row, colour);
                    if is_cut {
                        // What came over other paths may have been counted as the older one's.
                        let mut others = SpineSet::first(self.spines);
                        others.remove(spine);
                        let disturbed = &mut self.rows[row].windows[colour].disturbed;
                        *disturbed = disturbed.or(others);
                    }
                }
                Phase::Running if window.name.is_some() => {
                    // The older window has lost its end, and what came of the newer before this
                    // message was counted as the older's.
                    counters.note(Note::ColourClash);
                    let older = &mut self.rows[row].windows[colour];
                    older.disturbed = SpineSet::first(self.spines);
                    older.cut = Some(EndReason::Superseded);
                    self.wait_until(now, row, colour);
                    return if is_open { Taken::Again } else { Taken::Done };
                }
                Phase::Running if is_open && now > window.since.plus(self.path_delay_ns_max) => {
                    // Marks may overtake the open of another path, but not by that much.
                    counters.note(Note::WindowsUnnamed);
                    self.begin(now, row, colour);
                }
                Phase::Running => {}
            }
            self.rows[row].windows[colour].name = Some(name);
        }
        if is_open {
            self.rows[row].windows[colour].opened.insert(spine);
            self.take_open(now, message, row, colour, counters)
        } else {
            self.take_close(now, message, (row, colour), spine, counters);
            Taken::Done
        }
    }

    /// Whether a message of `name` is a late copy, seen from the window that has its place: of
    /// that one, which is reported, or of one before.
    fn is_late(&self, now: Nanos, window: &Window, name: &WindowName) -> bool {
        let Some(held) = window.name else {
            return false;
        };
        // Later than that it is no copy but a leaf that was restarted.
        window.cut != Some(EndReason::Superseded)
            && now < window.since.plus(LATE_DELAYS * self.path_delay_ns_max)
            && (held == *name || !self.is_paper && !held.is_before(name.epoch))
    }

    fn listed(&self, message: &Message<'_>) -> SpineSet {
        let mut listed = SpineSet::EMPTY;
        for index in (0..self.spines).filter(|&index| message.is_set(index)) {
            listed.insert(index);
        }
        listed
    }

    fn take_open(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        row: usize,
        colour: usize,
        counters: &mut Counters,
    ) -> Taken {
        let header = &message.header;
        if self.rows[row].windows[colour].packets > 0 {
            counters.note(Note::MessagesRepeated);
            return Taken::Done;
        }
        self.end_before(now, header, row, colour);
        let listed = self.listed(message);
        let window = &mut self.rows[row].windows[colour];
        window.packets = header.expected_packets();
        window.usable = listed;
        window.first_psn = first_psn(header);
        window.track = window.track.rebased(window.first_psn, window.packets);
        if window.track.is_over() {
            self.wait_after_last_psn(now, row, colour);
        }
        let row_state = &self.rows[row];
        Taken::Opened(Opened {
            row: row as u32,
            generation: row_state.generation,
            source: row_state.source,
            epoch: header.epoch,
            packets: header.expected_packets(),
            usable: listed,
        })
    }

    /// The source leaf has closed the flow's older window before it opened this one: its verdict
    /// is due although it may have lost every close.
    fn end_before(&mut self, now: Nanos, header: &Header, row: usize, colour: usize) {
        let before = &self.rows[row].windows[colour ^ 1];
        if before.phase == Phase::Running
            && before.name.is_some_and(|name| name.is_before(header.epoch))
        {
            let deadline = now.plus(VERDICT_DELAYS * self.path_delay_ns_max);
            self.wait_until(deadline, row, colour ^ 1);
        }
    }

    fn take_close(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        (row, colour): (usize, usize),
        spine: usize,
        counters: &mut Counters,
    ) {
        let base = self.base(row, colour);
        let listed = self.listed(message);
        let window = &mut self.rows[row].windows[colour];
        if window.flushed.has(spine) {
            counters.note(Note::MessagesRepeated);
        } else {
            window.flushed.insert(spine);
            if let Some(hop) = message.hop().filter(|hop| usize::from(hop.spine) == spine) {
                self.hops[base + spine] = hop;
                window.hops_filled.insert(spine);
            }
        }
        if window.marked.is_none() {
            window.marked = Some(message.header.packets);
            if window.usable.is_empty() {
                window.usable = listed;
            }
            for index in 0..self.spines {
                self.sent[base + index] = message.count(index).unwrap_or(0);
            }
        }
        // What a spine had queued when it dropped out is lost, unless its close has come after it.
        let dropped_out = window.usable.without(listed).without(window.flushed);
        window.disturbed = window.disturbed.or(dropped_out);
        let missing = window.usable.without(window.disturbed);
        let delays = if missing.without(window.flushed).is_empty() {
            0
        } else {
            VERDICT_DELAYS
        };
        self.wait_until(now.plus(delays * self.path_delay_ns_max), row, colour);
    }
}
