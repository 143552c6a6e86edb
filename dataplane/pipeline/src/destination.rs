//! The destination leaf's side: marked packets counted by flow and spine until the window ends.
//!
//! Each row of the flow table has one window per colour; a mark counts whether or not the open or
//! the threshold has come (paper 4). On each path the close follows the last marked packet, so a
//! path that has shown the close is complete; the verdict waits for all usable paths, or for
//! twice the longest delay of a path. A close alone never begins a window: what is left of
//! one that was judged, or was never counted, gives no verdict.

use packet::message::{Header, Hop, Message, MessageKind};
use packet::{Address, Psn, Qpn, Space};

use crate::config::Measurement;
use crate::counters::{Counters, Note};
use crate::flow_table::FlowTable;
use crate::report::{EndReason, Opened, WindowReport};
use crate::source::flow_of;
use crate::track::{Place, Stride, Track};
use crate::types::{FANOUT_MAX, FlowKey, LeafId, Nanos, SpineSet};
use crate::window::{WindowName, first_psn};

/// Rows looked at for expiry in one tick.
const SWEEP_ROWS: usize = 8;
/// Longest delays of a path until the verdict, once the end of a window is known: a close is
/// repeated after one, and takes one.
const VERDICT_DELAYS: u64 = 2;
/// Longest delays of a path within which copies of an older window's messages can still come.
const LATE_DELAYS: u64 = 4;

/// Rows looked at for one to give up: a full table must not cost a scan per marked packet.
const LOOKS_MAX: usize = 8;

/// Whether a window's place is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Empty,
    Running,
    /// Reported; kept to tell what comes late.
    Done,
}

/// One window of a row.
#[derive(Clone, Copy)]
struct Window {
    phase: Phase,
    /// What cut it short, if neither its close nor its last PSN will end it.
    cut: Option<EndReason>,
    /// When it began or, once it is done, when it ended.
    since: Nanos,
    /// When the verdict is due, whatever is missing.
    deadline: Nanos,
    track: Track,
    first_marked_at: Option<Nanos>,
    /// Once an open or close has told it.
    name: Option<WindowName>,
    /// N, once an open has come.
    packets: u64,
    first_psn: Option<Psn>,
    usable: SpineSet,
    disturbed: SpineSet,
    /// M, once a close has come.
    marked: Option<u64>,
    flushed: SpineSet,
    hops_filled: SpineSet,
    threshold: Option<u32>,
    /// The configuration has changed while it ran.
    is_changed: bool,
}

impl Window {
    fn begun(phase: Phase, now: Nanos, disturbed: SpineSet) -> Window {
        Window {
            phase,
            cut: None,
            since: now,
            deadline: Nanos::NEVER,
            track: Track::new(None, 0),
            first_marked_at: None,
            name: None,
            packets: 0,
            first_psn: None,
            usable: SpineSet::EMPTY,
            disturbed,
            marked: None,
            flushed: SpineSet::EMPTY,
            hops_filled: SpineSet::EMPTY,
            threshold: None,
            is_changed: false,
        }
    }
}

struct Row {
    source: LeafId,
    generation: u32,
    active_at: Nanos,
    /// Packets of this flow may have come before there was room for it: the first window that
    /// begins here counts too few.
    is_cut: bool,
    windows: [Window; 2],
}

impl Row {
    fn is_idle(&self) -> bool {
        self.windows.iter().all(|w| w.phase != Phase::Running)
    }
}

/// Which flows found no row lately, by their hashes: a set that may say yes of one more.
#[derive(Default)]
struct Refused {
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

/// The window that began last, as far as it is counted: what a person watches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Counting<'a> {
    /// Whether it still runs; its counts stay until another begins in its place.
    pub is_open: bool,
    /// Leaf that marks.
    pub source: LeafId,
    /// Its number at that leaf, 0 until a message has told it.
    pub epoch: u32,
    /// N, packets announced; 0 until an open has told it.
    pub packets: u64,
    /// Spines that the source leaf uses.
    pub usable: SpineSet,
    /// Spines whose path changed meanwhile.
    pub disturbed: SpineSet,
    /// What control has computed from N, in packets.
    pub threshold: Option<u32>,
    /// X_x so far, by spine.
    pub counts: &'a [u32],
}

/// State of a destination leaf.
#[repr(C, align(64))]
pub struct Destination {
    rows: Vec<Row>,
    /// X_x by row, colour, spine.
    counts: Vec<u32>,
    spines: usize,
    /// Bits of a counter X_x.
    count_mask: u32,
    next_deadline: Nanos,
    table: FlowTable,
    /// S_x, likewise.
    sent: Vec<u32>,
    /// Hop records, likewise.
    hops: Vec<Hop>,
    /// Windows that have a deadline.
    waiting: Vec<(u32, u8)>,
    /// Spines whose link to this leaf is down: nobody tests them meanwhile.
    down: SpineSet,
    /// Paths found below their threshold, by source leaf.
    failed_paths: Vec<SpineSet>,
    report: Box<WindowReport>,
    /// Row and colour of the window that began last.
    latest: (usize, usize),
    sweep: usize,
    /// The row that is looked at next when one is to be given up.
    hand: usize,
    /// Flows that found no row.
    refused: Refused,
    is_paper: bool,
    path_delay_ns_max: u64,
    row_ns_max: u64,
}

impl Destination {
    /// The empty table of `leaf` in a fabric of `leaves` and `spines`.
    pub fn new(leaf: LeafId, leaves: u16, spines: u16, config: &Measurement) -> Destination {
        let table = FlowTable::new(config.rows_max as usize);
        let rows = table.rows();
        let spines = usize::from(spines);
        let row = || Row {
            source: LeafId(0),
            generation: 0,
            active_at: Nanos(0),
            is_cut: false,
            windows: [Window::begun(Phase::Empty, Nanos(0), SpineSet::EMPTY); 2],
        };
        Destination {
            hand: 0,
            refused: Refused::default(),
            spines,
            table,
            rows: std::iter::repeat_with(row).take(rows).collect(),
            counts: vec![0; rows * 2 * spines],
            sent: vec![0; rows * 2 * spines],
            hops: vec![Hop::default(); rows * 2 * spines],
            waiting: Vec::with_capacity(rows * 2),
            next_deadline: Nanos::NEVER,
            down: SpineSet::EMPTY,
            failed_paths: vec![SpineSet::EMPTY; usize::from(leaves)],
            report: Box::new(WindowReport {
                key: FlowKey {
                    source: Address(0),
                    destination: Address(0),
                    qpn: Qpn(0),
                    space: Space::Requests,
                },
                source: LeafId(0),
                destination: leaf,
                epoch: 0,
                packets: 0,
                first_psn: Psn::new(0),
                marked: None,
                usable: SpineSet::EMPTY,
                disturbed: SpineSet::EMPTY,
                is_changed: false,
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
            latest: (0, 0),
            sweep: 0,
            is_paper: config.is_paper,
            count_mask: count_mask(config),
            path_delay_ns_max: config.path_delay_ns_max,
            row_ns_max: config.row_ns_max,
        }
    }

    /// Bytes of state, for the documents: rows, counters, buckets.
    pub fn state_bytes(&self) -> usize {
        self.table.state_bytes()
            + size_of_val(&self.rows[..])
            + size_of_val(&self.counts[..])
            + size_of_val(&self.sent[..])
            + size_of_val(&self.hops[..])
    }

    /// The failed-paths bitmap: spines below their threshold, by source leaf.
    pub fn failed_paths(&self) -> &[SpineSet] {
        &self.failed_paths
    }

    /// The window that began last; `None` before the first one, and when its row has gone to
    /// another flow.
    pub fn counting(&self) -> Option<Counting<'_>> {
        let (index, colour) = self.latest;
        let row = self.rows.get(index)?;
        let window = row.windows.get(colour)?;
        let base = self.base(index, colour);
        (window.phase != Phase::Empty).then(|| Counting {
            is_open: window.phase == Phase::Running,
            source: row.source,
            epoch: window.name.map_or(0, |name| name.epoch),
            packets: window.packets,
            usable: window.usable,
            disturbed: window.disturbed,
            threshold: window.threshold,
            counts: &self.counts[base..base + self.spines],
        })
    }

    #[cold]
    fn insert(&mut self, now: Nanos, key: &FlowKey, source: LeafId) -> Option<usize> {
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

    #[inline(always)]
    fn base(&self, row: usize, colour: usize) -> usize {
        (row * 2 + colour) * self.spines
    }

    /// A window begins. It has no deadline yet: what stood here before was reported, or never had
    /// a name.
    fn begin(&mut self, now: Nanos, row: usize, colour: usize) {
        let place = self.base(row, colour)..self.base(row, colour) + self.spines;
        self.counts[place.clone()].fill(0);
        // What no close tells is 0, and not what the window before had sent.
        self.sent[place.clone()].fill(0);
        self.hops[place].fill(Hop::default());
        let is_cut = std::mem::take(&mut self.rows[row].is_cut);
        let disturbed = if is_cut {
            SpineSet::first(self.spines)
        } else {
            self.down
        };
        self.rows[row].windows[colour] = Window::begun(Phase::Running, now, disturbed);
        self.latest = (row, colour);
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

    /// Counts a marked packet of `row` that came over `spine`. Returns true when a window ends with
    /// it (preset `paper`): [`Destination::take_ended`] then has it.
    #[inline(always)]
    pub fn count(
        &mut self,
        now: Nanos,
        index: usize,
        spine: usize,
        colour: usize,
        psn: Psn,
        counters: &mut Counters,
    ) -> bool {
        let mut stride = self.stride(index, colour);
        if stride.step(psn) {
            self.walk(now, index, spine, colour, &stride, counters);
            return false;
        }
        self.count_any(now, index, spine, colour, psn, counters)
    }

    /// What can be counted in a row: packets in order, neither the first nor the last of their
    /// window.
    #[inline(always)]
    pub(crate) fn stride(&self, index: usize, colour: usize) -> Stride {
        let window = &self.rows[index].windows[colour & 1];
        if window.phase == Phase::Running {
            window.track.stride()
        } else {
            Stride::NOTHING
        }
    }

    /// Counts what a stride has taken.
    #[inline(always)]
    pub(crate) fn walk(
        &mut self,
        now: Nanos,
        index: usize,
        spine: usize,
        colour: usize,
        stride: &Stride,
        counters: &mut Counters,
    ) {
        if stride.taken() == 0 {
            return;
        }
        let base = self.base(index, colour);
        let row = &mut self.rows[index];
        row.active_at = now;
        let taken = row.windows[colour & 1].track.walk(stride);
        counters.notes[Note::Counted as usize] += u64::from(taken);
        let count = &mut self.counts[base + spine];
        *count = count.wrapping_add(taken) & self.count_mask;
    }

    /// Counts a packet that a stride does not take, whatever it is to its window.
    #[inline(never)]
    pub(crate) fn count_any(
        &mut self,
        now: Nanos,
        index: usize,
        spine: usize,
        colour: usize,
        psn: Psn,
        counters: &mut Counters,
    ) -> bool {
        self.rows[index].active_at = now;
        let window = &self.rows[index].windows[colour];
        if window.phase != Phase::Running {
            // The source leaf lets a colour of a flow rest for longer than a packet can be late.
            if window.phase == Phase::Done && now < window.since.plus(self.path_delay_ns_max) {
                counters.note(Note::CountedLate);
                return false;
            }
            self.begin(now, index, colour);
        }
        counters.note(Note::Counted);
        let count = self.base(index, colour) + spine;
        self.counts[count] = self.counts[count].wrapping_add(1) & self.count_mask;
        let window = &mut self.rows[index].windows[colour];
        if window.first_marked_at.is_none() {
            window.first_marked_at = Some(now);
        }
        if let Place::Ahead { step, is_last } = window.track.place(psn) {
            window.track.advance(psn, step);
            if is_last {
                self.wait_after_last_psn(now, index, colour);
                return self.is_paper;
            }
        }
        false
    }

    /// The close is the exact end; if it is lost on every path, the last PSN is one. In the
    /// paper's protocol it is the end.
    fn wait_after_last_psn(&mut self, now: Nanos, row: usize, colour: usize) {
        let delays = if self.is_paper { 0 } else { VERDICT_DELAYS };
        self.wait_until(now.plus(delays * self.path_delay_ns_max), row, colour);
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

    /// The link from `spine` went up or down: its tests of the open windows are void, and so are
    /// those of windows that begin before it is back.
    pub fn set_link(&mut self, spine: usize, up: bool) {
        if up {
            self.down.remove(spine);
        } else {
            self.down.insert(spine);
        }
        self.disturb(spine);
    }

    /// The path over `spine` changed: its tests of all open windows are void.
    pub fn disturb(&mut self, spine: usize) {
        for window in self.rows.iter_mut().flat_map(|row| &mut row.windows) {
            if window.phase == Phase::Running {
                window.disturbed.insert(spine);
            }
        }
    }

    /// The configuration changes: all tests of windows that run are void.
    pub fn void_running(&mut self) {
        for window in self.rows.iter_mut().flat_map(|row| &mut row.windows) {
            if window.phase == Phase::Running {
                window.disturbed = SpineSet::first(self.spines);
                window.is_changed = true;
            }
        }
    }

    /// Counts by other settings from now on. The size of the table is that of the start.
    pub fn configure(&mut self, config: &Measurement) {
        self.count_mask = count_mask(config);
        self.path_delay_ns_max = config.path_delay_ns_max;
        self.row_ns_max = config.row_ns_max;
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

/// The bits of a counter X_x.
fn count_mask(config: &Measurement) -> u32 {
    if config.windows.is_narrow {
        u32::from(u16::MAX)
    } else {
        u32::MAX
    }
}

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
