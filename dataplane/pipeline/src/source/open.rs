//! The window that is open: which packets are its own, and which of them are marked.

use packet::Psn;
use packet::message::Header;

use super::Window;
use crate::config::Mark;
use crate::counters::{Counters, Note};
use crate::track::{Place, Seen, Stride, Track};
use crate::types::{Nanos, PortId, SpineSet};

/// What a packet is to the measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Not of the measured window.
    Plain,
    /// Likewise, and to be looked at: `Source::sample`.
    Sampled,
    /// Of the measured flow, beyond the window's last PSN: the window is over.
    Past,
    /// Of the measured flow: highest priority; marked or not; whether it ends the window.
    Measured {
        /// To be marked and counted.
        mark: bool,
        /// The last of the window.
        ends: bool,
    },
}

/// The window that is open.
pub struct Open {
    /// What its close will tell.
    pub window: Window,
    /// Mark and colour as its packets carry them.
    pub(super) mark_bits: u8,
    pub(super) port: PortId,
    /// The spines usable when it opened.
    pub(super) opened: SpineSet,
    /// The announcement as the host made it.
    pub(super) announced: Header,
    pub(super) track: Track,
    /// A PSN beyond the last was seen.
    pub(super) is_past: bool,
    /// Another flow of the same QP is announced: a PSN outside the window is that one's.
    pub(super) is_renewed: bool,
    pub(super) seen: Seen,
    pub(super) opened_at: Nanos,
    pub(super) last_at: Nanos,
    /// Without a packet for so long it is closed.
    pub(super) idle_ns_max: u64,
    /// Of a flow that this leaf has found.
    pub(super) is_found: bool,
    /// Spines towards which a marked packet was dropped here (preset `paper`).
    pub(crate) dropped: SpineSet,
}

impl Open {
    pub(super) fn is_silent(&self, now: Nanos) -> bool {
        now >= self.last_at.plus(self.idle_ns_max)
    }

    /// What a marked packet of the window carries.
    pub(crate) fn mark_bits(&self) -> u8 {
        self.mark_bits
    }

    /// Counts all marked packets of a run.
    #[inline(always)]
    pub(crate) fn count_marked(&mut self, packets: u64) {
        self.window.marked += packets;
    }

    /// A run of the flow's packets comes.
    #[inline(always)]
    pub(crate) fn touch(&mut self, now: Nanos) {
        self.last_at = now;
    }

    /// Whether a PSN lies beyond the window or before it.
    pub(crate) fn is_outside(&self, psn: Psn) -> bool {
        matches!(self.track.place(psn), Place::Before | Place::Past)
    }

    /// What can be taken in a row: packets that are all to be marked.
    #[inline(always)]
    pub(crate) fn stride(&self) -> Stride {
        self.track.stride()
    }

    /// What a stride has taken has come.
    #[inline(always)]
    pub(crate) fn walk(&mut self, stride: &Stride) {
        self.track.walk(stride);
        self.seen.walk(stride);
    }

    /// What a packet of the flow is to the window.
    #[inline(never)]
    pub(crate) fn classify(
        &mut self,
        now: Nanos,
        psn: Psn,
        mark: Mark,
        counters: &mut Counters,
    ) -> Class {
        match self.track.place(psn) {
            Place::Ahead { step, is_last } => {
                self.last_at = now;
                counters.note_times(Note::PsnsSkipped, u64::from(step) - 1);
                self.track.advance(psn, step);
                self.seen.advance(psn, step);
                Class::Measured {
                    mark: true,
                    ends: is_last,
                }
            }
            Place::Behind { back } => {
                self.last_at = now;
                let first = self.seen.is_first(psn, back);
                if !first {
                    counters.note(Note::LaterCopies);
                }
                Class::Measured {
                    mark: first || mark == Mark::All,
                    ends: false,
                }
            }
            Place::Before => {
                counters.note(Note::PsnOutside);
                if self.is_renewed {
                    self.is_past = true;
                    return Class::Past;
                }
                Class::Plain
            }
            Place::Past => {
                counters.note(Note::PsnOutside);
                self.is_past = true;
                Class::Past
            }
        }
    }
}
