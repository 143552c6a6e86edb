//! Marked packets that this switch drops in its own queue, in the paper's protocol.
//!
//! Elsewhere closes tell them: a leaf counts what it has queued, and a spine what it has dropped.
//! The paper has no closes and takes the fabric to be lossless; so control is told of the first
//! drop of each window, and that path's test is void.

use crate::report::{OwnDrop, Report};
use crate::source::Source;
use crate::switch::{State, Switch};
use crate::token::{Sink, Token};
use crate::types::{LeafId, SpineId};
use crate::window::first_psn;

impl<T: Token> Switch<T> {
    /// A packet that was marked here for `to` found no room towards `spine`.
    #[cold]
    pub(crate) fn dropped_here<S: Sink<T>>(&mut self, to: LeafId, spine: usize, sink: &mut S) {
        let State::Leaf(leaf) = &mut self.state else {
            return;
        };
        let Some(open) = leaf.source.first_drop(spine) else {
            return;
        };
        let dropped = OwnDrop {
            source: leaf.id,
            destination: to,
            qpn: open.key.qpn,
            first_psn: first_psn(&open.header),
            spine: SpineId(spine as u16),
        };
        self.tell_drop(&dropped, sink);
    }

    /// A marked packet that passed this spine found no room.
    #[cold]
    pub(crate) fn dropped_passing<S: Sink<T>>(
        &mut self,
        from: usize,
        to: usize,
        colour: usize,
        sink: &mut S,
    ) {
        let State::Spine(spine) = &mut self.state else {
            return;
        };
        // Only the paper's windows have no number.
        let window = spine.counts.first_drop(from, to, colour);
        let Some(window) = window.filter(|window| window.epoch == 0) else {
            return;
        };
        let dropped = OwnDrop {
            source: LeafId(from as u16),
            destination: LeafId(to as u16),
            qpn: window.qpn,
            first_psn: window.first,
            spine: spine.id,
        };
        self.tell_drop(&dropped, sink);
    }

    fn tell_drop<S: Sink<T>>(&mut self, dropped: &OwnDrop, sink: &mut S) {
        if !sink.report(Report::Dropped(dropped)) {
            self.counters.note(crate::counters::Note::ReportsLost);
        }
    }
}

impl Source {
    /// The open window, if it is one of the paper's and this is its first drop towards `spine`.
    fn first_drop(&mut self, spine: usize) -> Option<&crate::source::Window> {
        let is_paper = self.is_paper();
        let open = self.window_mut().filter(|_| is_paper)?;
        let is_first = !open.dropped.has(spine);
        open.dropped.insert(spine);
        is_first.then_some(&open.window)
    }
}
