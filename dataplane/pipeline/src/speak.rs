//! What a switch itself sends: opens and closes of windows (a leaf), link state (a spine).

use packet::message::{FLAG_COUNTS, FLAG_HOP_ROOM, FLAG_SWITCH, Header, MessageKind, message_len};
use packet::{Psn, Qpn};

use crate::counters::Note;
use crate::port::MEASURED;
use crate::split::Claim;
use crate::switch::{Leaf, NO_PORT, State, Switch};
use crate::token::{Sink, Token};
use crate::types::{LeafSet, Nanos};
use crate::window::Dress;

/// Copies, back to back, of an open and of a close when it is first sent. Only these two tell a spine
/// where a window's counts begin and end, and a link that is to be named loses some: with one copy
/// it would stay unnamed about as often as it loses packets, with two as often squared.
pub const COPIES: u16 = 2;

impl<T: Token> Switch<T> {
    /// Opens a window on the next flow, if none is open and one waits.
    pub(crate) fn open_window<S: Sink<T>>(&mut self, now: Nanos, sink: &mut S) {
        let State::Leaf(leaf) = &mut self.state else {
            return;
        };
        if leaf.source.window().is_some() {
            return;
        }
        match sink.claim_window() {
            Claim::Own => {}
            Claim::Granted { epoch } => leaf.source.set_epoch(epoch),
            Claim::Taken => return,
        }
        let is_paper = leaf.source.is_paper();
        let Leaf {
            source,
            usable,
            sprayer,
            ..
        } = &mut **leaf;
        let Some(open) = source.open_next(now, usable, &mut self.counters) else {
            sink.release_window(leaf.source.epoch());
            return;
        };
        let to = open.window.leaf;
        source.begin_counts(sprayer.measured(to));
        let Some(open) = source.window() else { return };
        let usable = open.window.usable;
        let header = Header {
            kind: MessageKind::Open,
            flags: open.window.header.flags | FLAG_SWITCH,
            fanout: self.spines,
            repetition: 0,
            epoch: open.window.epoch,
            ..open.window.header
        };
        let dress = open.window.dress;
        // The paper's spines count nothing.
        let copies = if is_paper { 1 } else { COPIES };
        for spine in usable.iter() {
            for _ in 0..copies {
                self.send_over(
                    spine,
                    &dress,
                    &header,
                    |index| usable.has(index),
                    |_| 0,
                    sink,
                );
            }
        }
    }

    /// Ends the open window, tells the destination leaf, and opens the next one.
    #[cold]
    pub(crate) fn close_window<S: Sink<T>>(&mut self, now: Nanos, sink: &mut S) {
        self.end_window(now, sink);
        self.repeat_closes(now, sink);
        self.open_window(now, sink);
    }

    /// Ends the open window, whose close is due then.
    pub(crate) fn end_window<S: Sink<T>>(&mut self, now: Nanos, sink: &mut S) {
        if let State::Leaf(leaf) = &mut self.state {
            let to = leaf.source.window().map(|open| open.window.leaf);
            let is_open = to.is_some();
            if let Some(to) = to {
                leaf.source.end_counts(leaf.sprayer.measured(to));
            }
            leaf.source.close(now, &mut self.counters);
            if is_open {
                sink.release_window(leaf.source.epoch());
            }
        }
    }

    /// Sends the closes that are due: the first copy, and its repetitions.
    pub(crate) fn repeat_closes<S: Sink<T>>(&mut self, now: Nanos, sink: &mut S) {
        while let State::Leaf(leaf) = &mut self.state
            && let Some(closed) = leaf.source.due_close(now)
        {
            let closed = *closed;
            leaf.source.close_sent(now, closed.window.epoch);
            let header = Header {
                kind: MessageKind::Close,
                flags: closed.window.header.flags | FLAG_SWITCH | FLAG_COUNTS | FLAG_HOP_ROOM,
                packets: closed.window.marked,
                bytes: 0,
                fanout: self.spines,
                repetition: closed.repetition,
                epoch: closed.window.epoch,
                ..closed.window.header
            };
            let copies = if closed.repetition == 0 { COPIES } else { 1 };
            for spine in closed.window.usable.iter() {
                let is_set = |index| closed.window.usable.has(index);
                for _ in 0..copies {
                    self.send_over(
                        spine,
                        &closed.window.dress,
                        &header,
                        is_set,
                        |index| closed.window.sent[index],
                        sink,
                    );
                }
            }
        }
    }

    fn send_over<S: Sink<T>>(
        &mut self,
        spine: usize,
        dress: &Dress,
        header: &Header,
        is_set: impl Fn(usize) -> bool,
        count: impl Fn(usize) -> u32,
        sink: &mut S,
    ) {
        if let State::Leaf(leaf) = &self.state {
            let port = leaf.uplinks[spine];
            self.send(port, MEASURED, dress, header, is_set, count, sink);
        }
    }

    #[allow(
        clippy::too_many_arguments,
        reason = "a message is its header, bitmap and counts, and where it goes"
    )]
    fn send<S: Sink<T>>(
        &mut self,
        port: usize,
        priority: u8,
        dress: &Dress,
        header: &Header,
        is_set: impl Fn(usize) -> bool,
        count: impl Fn(usize) -> u32,
        sink: &mut S,
    ) {
        let len = dress.frame_len(message_len(usize::from(header.fanout), header.flags));
        let Some(mut token) = sink.alloc(len) else {
            self.counters.note(Note::MessagesUnsent);
            return;
        };
        let (peer_mac, mac) = (self.ports[port].peer_mac(), self.ports[port].mac());
        dress.write(
            token.header_mut(),
            (peer_mac, mac),
            self.message_port,
            header,
            is_set,
            count,
        );
        self.counters.generated += 1;
        self.enqueue_message((port, priority), token, sink);
    }

    /// A spine tells every leaf which leaves it reaches.
    pub(crate) fn send_link_state<S: Sink<T>>(&mut self, now: Nanos, sink: &mut S) {
        let mut reaches = LeafSet::EMPTY;
        let State::Spine(spine) = &self.state else {
            return;
        };
        for (leaf, &port) in spine.downlinks.iter().enumerate() {
            if port != NO_PORT && self.is_usable(port) {
                reaches.insert(leaf);
            }
        }
        let State::Spine(spine) = &mut self.state else {
            return;
        };
        spine.next_message_at = now.plus(self.link_state_ns.unwrap_or(u64::MAX));
        spine.sequence = spine.sequence.wrapping_add(1);
        let header = Header {
            kind: MessageKind::LinkState,
            flags: FLAG_SWITCH,
            destination_qp: Qpn(0),
            first_psn: Psn::new(0),
            mtu_bytes: 0,
            packets: 0,
            bytes: 0,
            flow_id: u64::from(spine.id.0),
            fanout: self.leaves,
            repetition: 0,
            epoch: spine.sequence,
        };
        let dress = Dress::link_local();
        for leaf in 0..usize::from(self.leaves) {
            let State::Spine(spine) = &self.state else {
                return;
            };
            let port = spine.downlinks[leaf];
            // A disabled link still tells: the leaf must learn that it is not to be used.
            if port != NO_PORT && self.exit.queues.is_up(port) {
                self.send(
                    port,
                    MEASURED,
                    &dress,
                    &header,
                    |index| reaches.has(index),
                    |_| 0,
                    sink,
                );
            }
        }
    }
}
