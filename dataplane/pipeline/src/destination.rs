//! The destination leaf's side: marked packets counted by flow and spine until the window ends.
//!
//! Each row of the flow table has one window per colour; a mark counts whether or not the open or
//! the threshold has come (paper 4). On each path the close follows the last marked packet, so a
//! path that has shown the close is complete; the verdict waits for all usable paths, or for
//! twice the longest delay of a path. A close alone never begins a window: what is left of
//! one that was judged, or was never counted, gives no verdict.

use packet::message::Hop;
use packet::{Address, Psn, Qpn, Space};

use crate::config::Measurement;
use crate::counters::{Counters, Note};
use crate::flow_table::FlowTable;
use crate::report::{EndReason, WindowReport};
use crate::track::{Place, Stride};
use crate::types::{FANOUT_MAX, FlowKey, LeafId, Nanos, SpineSet};

mod ended;
mod message;
mod rows;
mod window;

pub use message::Taken;
use rows::{Refused, Row};
use window::{Phase, Window};

/// Longest delays of a path until the verdict, once the end of a window is known: a close is
/// repeated after one, and takes one.
const VERDICT_DELAYS: u64 = 2;

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
    /// Windows that began before may have begun before all devices received.
    settled_at: Nanos,
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
            settled_at: Nanos(0),
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

    /// Devices have begun to receive one after the other. Of a window that begins before this time a path
    /// is judged only if its open has come over it, which goes before all that is counted.
    pub fn settle_until(&mut self, at: Nanos) {
        self.settled_at = at;
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
}

/// The bits of a counter X_x.
fn count_mask(config: &Measurement) -> u32 {
    if config.windows.is_narrow {
        u32::from(u16::MAX)
    } else {
        u32::MAX
    }
}
