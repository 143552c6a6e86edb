//! The destination leaf's side: marked packets counted by flow and spine until the window ends.
//!
//! A fixed table, keyed by flow. Each row has one window per colour; a mark counts whether or not
//! the open or the threshold has come (paper 4). On each path the close follows the last marked
//! packet, so a path that has shown the close is complete; the verdict waits for all usable paths,
//! or for three times the longest delay of a path.

use packet::message::{FLAG_FIRST_UNKNOWN, Header, Hop, Message, MessageKind};
use packet::{Address, Psn, Qpn, Space};

use crate::config::Measurement;
use crate::counters::{Counters, Note};
use crate::report::{EndReason, Opened, WindowReport};
use crate::source::flow_of;
use crate::track::{Place, Track};
use crate::types::{FANOUT_MAX, FlowKey, LeafId, Nanos, SpineSet};

const NONE: u32 = u32::MAX;

/// Epochs this little behind the last reported one are late copies; further behind, the source
/// leaf has started anew.
const LATE_EPOCHS: u32 = 64;
/// Rows looked at for expiry in one tick.
const SWEEP_ROWS: usize = 8;

/// One window of a row.
#[derive(Clone, Copy)]
struct Window {
    /// Its number, once an open or close has told it.
    epoch: Option<u32>,
    /// N.
    packets: u64,
    first_psn: Option<Psn>,
    usable: SpineSet,
    disturbed: SpineSet,
    /// M, once a close has come.
    marked: Option<u64>,
    flushed: SpineSet,
    hops_filled: SpineSet,
    track: Track,
    /// Reported: what still comes within its PSNs is late, what comes beyond begins the next one.
    is_done: bool,
    is_timed_out: bool,
    threshold: Option<u32>,
    first_marked_at: Option<Nanos>,
    /// When the verdict is due, whatever is missing.
    deadline: Nanos,
}

impl Window {
    fn empty() -> Window {
        Window {
            epoch: None,
            packets: 0,
            first_psn: None,
            usable: SpineSet::EMPTY,
            disturbed: SpineSet::EMPTY,
            marked: None,
            flushed: SpineSet::EMPTY,
            hops_filled: SpineSet::EMPTY,
            track: Track::new(None, 0),
            is_done: false,
            is_timed_out: false,
            threshold: None,
            first_marked_at: None,
            deadline: Nanos::NEVER,
        }
    }

    /// Waits for nothing.
    fn is_idle(&self) -> bool {
        self.is_done || self.epoch.is_none() && self.first_marked_at.is_none()
    }
}

struct Row {
    key: FlowKey,
    source: LeafId,
    generation: u32,
    active_at: Nanos,
    windows: [Window; 2],
    /// The last window that was reported.
    reported: Option<u32>,
    /// The next row of the same hash bucket, or of the free list.
    next: u32,
    in_use: bool,
}

/// State of a destination leaf.
pub struct Destination {
    spines: usize,
    rows: Vec<Row>,
    buckets: Vec<u32>,
    free: u32,
    /// X_x by row, colour, spine.
    counts: Vec<u32>,
    /// S_x, likewise.
    sent: Vec<u32>,
    /// Hop records, likewise.
    hops: Vec<Hop>,
    /// Windows that have a deadline.
    waiting: Vec<(u32, u8)>,
    next_deadline: Nanos,
    /// Paths found below their threshold, by source leaf.
    failed_paths: Vec<SpineSet>,
    report: Box<WindowReport>,
    sweep: usize,
    is_paper: bool,
    path_delay_ns_max: u64,
    row_ns_max: u64,
}

impl Destination {
    /// The empty table of `leaf` in a fabric of `leaves` and `spines`.
    pub fn new(leaf: LeafId, leaves: u16, spines: u16, config: &Measurement) -> Destination {
        let rows = config.rows_max.max(1) as usize;
        let spines = usize::from(spines);
        let key = FlowKey {
            source: Address(0),
            destination: Address(0),
            qpn: Qpn(0),
            space: Space::Requests,
        };
        Destination {
            spines,
            rows: (0..rows)
                .map(|index| Row {
                    key,
                    source: LeafId(0),
                    generation: 0,
                    active_at: Nanos(0),
                    windows: [Window::empty(); 2],
                    reported: None,
                    next: if index + 1 == rows {
                        NONE
                    } else {
                        index as u32 + 1
                    },
                    in_use: false,
                })
                .collect(),
            buckets: vec![NONE; (rows * 2).next_power_of_two()],
            free: 0,
            counts: vec![0; rows * 2 * spines],
            sent: vec![0; rows * 2 * spines],
            hops: vec![Hop::default(); rows * 2 * spines],
            waiting: Vec::with_capacity(rows * 2),
            next_deadline: Nanos::NEVER,
            failed_paths: vec![SpineSet::EMPTY; usize::from(leaves)],
            report: Box::new(WindowReport {
                key,
                source: LeafId(0),
                destination: leaf,
                epoch: 0,
                packets: 0,
                first_psn: Psn::new(0),
                marked: None,
                usable: SpineSet::EMPTY,
                disturbed: SpineSet::EMPTY,
                flushed: SpineSet::EMPTY,
                counts: [0; FANOUT_MAX],
                sent: [0; FANOUT_MAX],
                hops_filled: SpineSet::EMPTY,
                hops: [Hop::default(); FANOUT_MAX],
                threshold: None,
                failed: SpineSet::EMPTY,
                reason: EndReason::Close,
                first_marked_at: Nanos(0),
                ended_at: Nanos(0),
            }),
            sweep: 0,
            is_paper: config.is_paper,
            path_delay_ns_max: config.path_delay_ns_max,
            row_ns_max: config.row_ns_max,
        }
    }

    /// Bytes of state, for the documents: rows, counters, buckets.
    pub fn state_bytes(&self) -> usize {
        size_of_val(&self.rows[..])
            + size_of_val(&self.buckets[..])
            + size_of_val(&self.counts[..])
            + size_of_val(&self.sent[..])
            + size_of_val(&self.hops[..])
    }

    /// The failed-paths bitmap: spines below their threshold, by source leaf.
    pub fn failed_paths(&self) -> &[SpineSet] {
        &self.failed_paths
    }

    #[inline(always)]
    fn bucket(&self, key: &FlowKey) -> usize {
        (key.hash() >> 32) as usize & (self.buckets.len() - 1)
    }

    #[inline(always)]
    fn find(&self, key: &FlowKey) -> Option<usize> {
        let mut at = self.buckets[self.bucket(key)];
        while let Some(row) = self.rows.get(at as usize) {
            if row.key == *key {
                return Some(at as usize);
            }
            at = row.next;
        }
        None
    }

    #[inline(always)]
    fn find_or_insert(
        &mut self,
        now: Nanos,
        key: &FlowKey,
        source: impl FnOnce() -> Option<LeafId>,
    ) -> Option<usize> {
        match self.find(key) {
            Some(index) => Some(index),
            None => self.insert(now, key, source()?),
        }
    }

    #[cold]
    fn insert(&mut self, now: Nanos, key: &FlowKey, source: LeafId) -> Option<usize> {
        if self.free == NONE {
            self.reclaim();
        }
        let index = self.free;
        let row = self.rows.get_mut(index as usize)?;
        self.free = row.next;
        row.key = *key;
        row.source = source;
        row.generation = row.generation.wrapping_add(1);
        row.active_at = now;
        row.reported = None;
        row.in_use = true;
        let bucket = self.bucket(key);
        self.rows[index as usize].next = self.buckets[bucket];
        self.buckets[bucket] = index;
        let index = index as usize;
        for colour in 0..2 {
            self.clear(index, colour);
        }
        Some(index)
    }

    /// Frees the row that has been idle longest of those that wait for nothing.
    fn reclaim(&mut self) {
        let idle = (0..self.rows.len())
            .filter(|&index| {
                self.rows[index].in_use && self.rows[index].windows.iter().all(Window::is_idle)
            })
            .min_by_key(|&index| self.rows[index].active_at);
        if let Some(index) = idle {
            self.release(index);
        }
    }

    fn release(&mut self, index: usize) {
        let bucket = self.bucket(&self.rows[index].key);
        let after = self.rows[index].next;
        if self.buckets[bucket] == index as u32 {
            self.buckets[bucket] = after;
        } else {
            let mut at = self.buckets[bucket] as usize;
            while self.rows[at].next != index as u32 {
                at = self.rows[at].next as usize;
            }
            self.rows[at].next = after;
        }
        self.waiting.retain(|&(row, _)| row as usize != index);
        let row = &mut self.rows[index];
        row.in_use = false;
        row.next = self.free;
        self.free = index as u32;
    }

    #[inline(always)]
    fn base(&self, row: usize, colour: usize) -> usize {
        (row * 2 + colour) * self.spines
    }

    fn clear(&mut self, row: usize, colour: usize) {
        let base = self.base(row, colour);
        self.counts[base..base + self.spines].fill(0);
        self.rows[row].windows[colour] = Window::empty();
    }

    /// Counts a marked packet that came over `spine`; `source` tells the leaf of a flow that is
    /// new. Returns true when a window ends with it
    /// (preset `paper`): [`Destination::take_ended`] then has it.
    #[inline]
    #[allow(
        clippy::too_many_arguments,
        reason = "the packet path passes what it has parsed, unpacked"
    )]
    pub fn count(
        &mut self,
        now: Nanos,
        key: &FlowKey,
        source: impl FnOnce() -> Option<LeafId>,
        spine: usize,
        colour: usize,
        psn: Psn,
        counters: &mut Counters,
    ) -> bool {
        let Some(row) = self.find_or_insert(now, key, source) else {
            counters.note(Note::FlowTableFull);
            return false;
        };
        self.rows[row].active_at = now;
        if self.rows[row].windows[colour].is_done {
            // Within the PSNs of a window that is reported: late. Beyond: the next window.
            if matches!(
                self.rows[row].windows[colour].track.place(psn),
                Place::Behind { .. }
            ) {
                counters.note(Note::CountedLate);
                return false;
            }
            self.clear(row, colour);
        }
        counters.note(Note::Counted);
        let base = self.base(row, colour);
        self.counts[base + spine] = self.counts[base + spine].wrapping_add(1);
        let window = &mut self.rows[row].windows[colour];
        if window.first_marked_at.is_none() {
            window.first_marked_at = Some(now);
        }
        if let Place::Ahead { step, is_last } = window.track.place(psn) {
            window.track.advance(psn, step);
            if is_last {
                // The close is the exact end; if it is lost on every path, this is one.
                let wait_ns = if self.is_paper {
                    0
                } else {
                    3 * self.path_delay_ns_max
                };
                self.wait_until(now.plus(wait_ns), row, colour);
                return self.is_paper;
            }
        }
        false
    }

    fn wait_until(&mut self, deadline: Nanos, row: usize, colour: usize) {
        let window = &mut self.rows[row].windows[colour];
        if window.deadline == Nanos::NEVER {
            self.waiting.push((row as u32, colour as u8));
        }
        window.deadline = window.deadline.min(deadline);
        self.next_deadline = self.next_deadline.min(window.deadline);
    }

    /// Takes an open or close that came over `spine` for a flow between `addresses` (source,
    /// destination); returns what control is to be told of a window that is new. What ends by it
    /// is due for [`Destination::take_ended`] at once.
    pub fn message(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        addresses: (Address, Address),
        source: LeafId,
        spine: usize,
        counters: &mut Counters,
    ) -> Option<Opened> {
        let header = message.header;
        let key = flow_of(&header, addresses.0, addresses.1);
        let Some(row) = self.find_or_insert(now, &key, || Some(source)) else {
            counters.note(Note::FlowTableFull);
            return None;
        };
        self.rows[row].active_at = now;
        let colour = (header.epoch & 1) as usize;
        let is_late = |reported: u32| reported.wrapping_sub(header.epoch) < LATE_EPOCHS;
        if !self.is_paper && self.rows[row].reported.is_some_and(is_late) {
            counters.note(Note::MessagesRepeated);
            return None;
        }
        if self.rows[row].windows[colour].is_done {
            self.clear(row, colour);
        }
        match self.rows[row].windows[colour].epoch {
            Some(epoch) if epoch != header.epoch => {
                // Two windows of one colour at once: the older has lost its end, and the newer
                // cannot be told from it. The older ends now, the newer counts from its next copy.
                counters.note(Note::ColourClash);
                self.rows[row].windows[colour].disturbed = SpineSet::first(self.spines);
                self.wait_until(now, row, colour);
                return None;
            }
            Some(_) => {}
            None => self.rows[row].windows[colour].epoch = Some(header.epoch),
        }
        let mut listed = SpineSet::EMPTY;
        for index in (0..self.spines).filter(|&index| message.is_set(index)) {
            listed.insert(index);
        }
        match header.kind {
            MessageKind::Close => {
                self.take_close(now, message, listed, (row, colour), spine, counters);
                None
            }
            MessageKind::Open => {
                self.take_open(now, &header, listed, (row, colour), spine, counters)
            }
            MessageKind::Withdraw | MessageKind::LinkState => None,
        }
    }

    fn take_open(
        &mut self,
        now: Nanos,
        header: &Header,
        listed: SpineSet,
        (row, colour): (usize, usize),
        spine: usize,
        counters: &mut Counters,
    ) -> Option<Opened> {
        // On this path, whatever came before the open has arrived or is lost.
        let before = &mut self.rows[row].windows[colour ^ 1];
        if !self.is_paper && !before.is_done && before.epoch.is_some() {
            before.flushed.insert(spine);
            self.end_if_flushed(now, row, colour ^ 1);
        }
        let window = &mut self.rows[row].windows[colour];
        if window.packets > 0 {
            counters.note(Note::MessagesRepeated);
            return None;
        }
        let first = (header.flags & FLAG_FIRST_UNKNOWN == 0).then_some(header.first_psn);
        window.packets = header.expected_packets();
        window.usable = listed;
        window.first_psn = first;
        window.track = window.track.rebased(first, window.packets);
        if window.track.is_over() {
            let wait_ns = if self.is_paper {
                0
            } else {
                3 * self.path_delay_ns_max
            };
            self.wait_until(now.plus(wait_ns), row, colour);
        }
        let row_state = &self.rows[row];
        Some(Opened {
            row: row as u32,
            generation: row_state.generation,
            source: row_state.source,
            epoch: header.epoch,
            packets: header.expected_packets(),
            usable: listed,
        })
    }

    fn take_close(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        listed: SpineSet,
        (row, colour): (usize, usize),
        spine: usize,
        counters: &mut Counters,
    ) {
        let base = self.base(row, colour);
        let window = &mut self.rows[row].windows[colour];
        if window.flushed.has(spine) {
            counters.note(Note::MessagesRepeated);
            return;
        }
        window.flushed.insert(spine);
        if window.marked.is_none() {
            window.marked = Some(message.header.packets);
            if window.usable.is_empty() {
                window.usable = listed;
            }
            window.disturbed = window.disturbed.or(window.usable.without(listed));
            for index in 0..self.spines {
                self.sent[base + index] = message.count(index).unwrap_or(0);
            }
        }
        if let Some(hop) = message.hop().filter(|hop| usize::from(hop.spine) == spine) {
            self.hops[base + spine] = hop;
            window.hops_filled.insert(spine);
        }
        self.wait_until(now.plus(3 * self.path_delay_ns_max), row, colour);
        self.end_if_flushed(now, row, colour);
    }

    fn end_if_flushed(&mut self, now: Nanos, row: usize, colour: usize) {
        let window = &self.rows[row].windows[colour];
        if window
            .usable
            .without(window.disturbed)
            .without(window.flushed)
            .is_empty()
        {
            self.wait_until(now, row, colour);
        }
    }

    /// Whether [`Destination::take_ended`] has something at `now`.
    #[inline(always)]
    pub fn has_ended(&self, now: Nanos) -> bool {
        self.next_deadline <= now
    }

    /// A window whose time has come, as a report; call until there is none.
    pub fn take_ended(&mut self, now: Nanos, counters: &mut Counters) -> Option<&WindowReport> {
        let due = self.waiting.iter().position(|&(row, colour)| {
            self.rows[row as usize].windows[usize::from(colour)].deadline <= now
        });
        let Some(place) = due else {
            let deadlines = self.waiting.iter().map(|&(row, colour)| {
                self.rows[row as usize].windows[usize::from(colour)].deadline
            });
            self.next_deadline = deadlines.min().unwrap_or(Nanos::NEVER);
            return None;
        };
        let (row, colour) = self.waiting.swap_remove(place);
        self.end(now, row as usize, usize::from(colour));
        counters.note(Note::WindowsReported);
        Some(&self.report)
    }

    fn end(&mut self, now: Nanos, index: usize, colour: usize) {
        let base = self.base(index, colour);
        let row = &mut self.rows[index];
        let window = &mut row.windows[colour];
        let report = &mut *self.report;
        report.key = row.key;
        report.source = row.source;
        report.epoch = window.epoch.unwrap_or(0);
        report.packets = window.packets;
        report.first_psn = window.first_psn.unwrap_or_default();
        report.marked = window.marked;
        report.usable = window.usable;
        report.disturbed = window.disturbed;
        report.flushed = window.flushed;
        report.counts[..self.spines].copy_from_slice(&self.counts[base..base + self.spines]);
        report.sent[..self.spines].copy_from_slice(&self.sent[base..base + self.spines]);
        report.hops_filled = window.hops_filled;
        report.hops[..self.spines].copy_from_slice(&self.hops[base..base + self.spines]);
        report.threshold = window.threshold;
        report.failed = SpineSet::EMPTY;
        if let Some(threshold) = window.threshold {
            for spine in window.usable.without(window.disturbed).iter() {
                if self.counts[base + spine] < threshold {
                    report.failed.insert(spine);
                }
            }
        }
        report.reason = if window.is_timed_out {
            EndReason::Timeout
        } else if window.marked.is_some() {
            EndReason::Close
        } else if window.track.is_over() {
            EndReason::LastPsn
        } else {
            EndReason::Superseded
        };
        report.first_marked_at = window.first_marked_at.unwrap_or(now);
        report.ended_at = now;
        let failed = &mut self.failed_paths[row.source.index()];
        *failed = failed.without(window.usable).or(report.failed);
        row.reported = Some(report.epoch);
        window.is_done = true;
        window.deadline = Nanos::NEVER;
    }

    /// Sets the threshold that control has computed for a window, if it is still open.
    pub fn set_threshold(&mut self, row: u32, generation: u32, epoch: u32, threshold: u32) {
        if let Some(row) = self.rows.get_mut(row as usize)
            && row.in_use
            && row.generation == generation
        {
            for window in &mut row.windows {
                if window.epoch == Some(epoch) && !window.is_done {
                    window.threshold = Some(threshold);
                }
            }
        }
    }

    /// The path over `spine` changed: its tests of all open windows are void.
    pub fn disturb(&mut self, spine: usize) {
        for row in self.rows.iter_mut().filter(|row| row.in_use) {
            for window in row.windows.iter_mut().filter(|window| !window.is_idle()) {
                window.disturbed.insert(spine);
            }
        }
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
            if !row.in_use || now < row.active_at.plus(self.row_ns_max) {
                continue;
            }
            if row.windows.iter().all(Window::is_idle) {
                self.release(index);
                continue;
            }
            counters.note(Note::RowsExpired);
            for colour in 0..2 {
                if !self.rows[index].windows[colour].is_idle() {
                    self.rows[index].windows[colour].is_timed_out = true;
                    self.wait_until(now, index, colour);
                }
            }
        }
    }
}
