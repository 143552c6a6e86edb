//! A window as the destination leaf counts it: one of a flow's two, by colour.

use crate::report::EndReason;
use crate::track::Track;
use crate::types::{Nanos, SpineSet};
use crate::window::WindowName;
use packet::Psn;

/// Whether a window's place is taken.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Empty,
    Running,
    /// Reported; kept to tell what comes late.
    Done,
}

/// One window of a row.
#[derive(Clone, Copy)]
pub(super) struct Window {
    pub(super) phase: Phase,
    /// What cut it short, if neither its close nor its last PSN will end it.
    pub(super) cut: Option<EndReason>,
    /// When it began or, once it is done, when it ended.
    pub(super) since: Nanos,
    /// When the verdict is due, whatever is missing.
    pub(super) deadline: Nanos,
    pub(super) track: Track,
    pub(super) first_marked_at: Option<Nanos>,
    /// Once an open or close has told it.
    pub(super) name: Option<WindowName>,
    /// N, once an open has come.
    pub(super) packets: u64,
    pub(super) first_psn: Option<Psn>,
    pub(super) usable: SpineSet,
    pub(super) disturbed: SpineSet,
    /// Paths over which its open has come.
    pub(super) opened: SpineSet,
    /// M, once a close has come.
    pub(super) marked: Option<u64>,
    pub(super) flushed: SpineSet,
    pub(super) hops_filled: SpineSet,
    pub(super) threshold: Option<u32>,
    /// The configuration has changed while it ran.
    pub(super) is_changed: bool,
}

impl Window {
    pub(super) fn begun(phase: Phase, now: Nanos, disturbed: SpineSet) -> Window {
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
            opened: SpineSet::EMPTY,
            marked: None,
            flushed: SpineSet::EMPTY,
            hops_filled: SpineSet::EMPTY,
            threshold: None,
            is_changed: false,
        }
    }
}
