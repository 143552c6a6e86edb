//! Windows that are closed: their closes are repeated, and their colours rest.

use super::Window;
use crate::types::{FlowKey, LeafId, Nanos, SpineSet};

/// Times a close is sent again, a longest delay after its first copies ([`crate::speak::COPIES`]).
const CLOSE_REPEATS: u16 = 1;
/// Longest delays of a path for which a flow's colour rests after its window: one until the first
/// close is there, two more until the verdict at the latest. The open of the next window of this
/// colour is sent after that, and on its path nothing overtakes it. Should a path be slower than the
/// longest delay, the destination leaf finds two windows in one place, and both are void.
const COLOUR_RESTS: u64 = 3;
/// Windows that are closed but still rest.
const CLOSING_MAX: usize = 16;

/// A window that is closed; kept for the repetitions of its close, and until its colour may be used
/// again for its flow.
#[derive(Clone, Copy)]
pub struct Closed {
    /// What its close tells.
    pub window: Window,
    /// Which copy in time comes next.
    pub repetition: u16,
    next_at: Nanos,
    opened_at: Nanos,
    closed_at: Nanos,
}

/// All that rest, in the order in which they were closed.
pub(super) struct Closing {
    /// At most [`CLOSING_MAX`].
    windows: Vec<Closed>,
}

impl Closing {
    /// Bytes of state, for the documents.
    pub(super) const STATE_BYTES: usize = CLOSING_MAX * size_of::<Closed>();

    pub(super) fn new() -> Closing {
        Closing {
            windows: Vec::with_capacity(CLOSING_MAX),
        }
    }

    /// Those whose colours have rested long enough are forgotten.
    pub(super) fn forget_rested(&mut self, now: Nanos, path_delay_ns_max: u64) {
        let rest_ns = COLOUR_RESTS * path_delay_ns_max;
        self.windows
            .retain(|closed| now < closed.closed_at.plus(rest_ns));
    }

    /// Whether no other window may be opened, for want of room.
    pub(super) fn is_full(&self) -> bool {
        self.windows.len() == CLOSING_MAX
    }

    /// Whether `key` has a window of this colour here: it must be judged, and nothing of it still be on
    /// its way, before the next one.
    pub(super) fn rests(&self, key: &FlowKey, colour: u32) -> bool {
        let is_alike =
            |closed: &Closed| closed.window.key == *key && closed.window.epoch & 1 == colour;
        self.windows.iter().any(is_alike)
    }

    /// Packets that flow `key` sends, at the pace of its latest window, until `colour` is free for it.
    pub(super) fn packets_until_free(
        &self,
        now: Nanos,
        key: &FlowKey,
        colour: u32,
        path_delay_ns_max: u64,
    ) -> u64 {
        let of_flow = |closed: &&Closed| closed.window.key == *key;
        let Some(latest) = self.windows.iter().rev().find(of_flow) else {
            return 0;
        };
        let rests = |closed: &&Closed| of_flow(closed) && closed.window.epoch & 1 == colour;
        let rest_ns = COLOUR_RESTS * path_delay_ns_max;
        let free_at = self.windows.iter().filter(rests);
        let free_at = free_at.map(|closed| closed.closed_at.plus(rest_ns)).max();
        let wait_ns = free_at.map_or(0, |at| at.0.saturating_sub(now.0));
        let took_ns = latest.closed_at.0.saturating_sub(latest.opened_at.0).max(1);
        let packets = u128::from(wait_ns) * u128::from(latest.window.marked);
        u64::try_from(packets.div_ceil(u128::from(took_ns))).unwrap_or(u64::MAX)
    }

    /// What windows towards `leaf` have queued at spines `lost` may never arrive.
    pub(super) fn lose_paths(&mut self, leaf: LeafId, lost: SpineSet) {
        for closed in self.windows.iter_mut().filter(|c| c.window.leaf == leaf) {
            closed.window.usable = closed.window.usable.without(lost);
        }
    }

    /// A window that was opened then is closed; whether its close is to be sent.
    pub(super) fn push(&mut self, window: Window, opened_at: Nanos, now: Nanos, is_told: bool) {
        self.windows.push(Closed {
            window,
            repetition: if is_told { 0 } else { CLOSE_REPEATS + 1 },
            next_at: now,
            opened_at,
            closed_at: now,
        });
    }

    /// The next whose close is due.
    pub(super) fn due(&self, now: Nanos) -> Option<&Closed> {
        self.windows
            .iter()
            .find(|closed| closed.repetition <= CLOSE_REPEATS && closed.next_at <= now)
    }

    /// A copy of `epoch`'s close has been sent; the next is due at `next_at`.
    pub(super) fn sent(&mut self, epoch: u32, next_at: Nanos) {
        for closed in self
            .windows
            .iter_mut()
            .filter(|closed| closed.window.epoch == epoch)
        {
            closed.repetition += 1;
            closed.next_at = next_at;
        }
    }
}
