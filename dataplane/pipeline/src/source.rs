//! The source leaf's side of a measurement: which flow is measured, and which packets are marked.
//!
//! Hosts announce flows; the leaf measures one at a time. `available[d]` holds a flow to
//! destination leaf d that is announced and not over; the lowest d that is available and not in
//! `history` is taken; history is cleared when none is left (paper 3.4). The announcement is a
//! hint only: marking starts and ends by what the leaf itself sees.

use packet::message::{FLAG_FIRST_UNKNOWN, FLAG_RESPONSES, Header};
use packet::{Psn, Space};

use crate::config::{Mark, Measurement};
use crate::counters::{Counters, Note};
use crate::track::{Place, Seen, Track};
use crate::types::{FANOUT_MAX, FlowKey, LeafId, LeafSet, Nanos, PortId, SpineSet};
use crate::window::Dress;

/// Times a close is sent after the first.
const CLOSE_REPEATS: u16 = 2;
/// Closed windows whose closes still wait to be repeated.
const CLOSING_MAX: usize = 4;

/// A flow that a host has announced.
#[derive(Clone, Copy)]
struct Announced {
    key: FlowKey,
    port: PortId,
    header: Header,
    dress: Dress,
    track: Track,
    /// A data packet of it has passed.
    running: bool,
}

/// The window that is open.
pub struct Open {
    /// The flow.
    pub key: FlowKey,
    /// Its destination leaf.
    pub leaf: LeafId,
    /// The window's number.
    pub epoch: u32,
    /// The spines usable when it opened.
    pub usable: SpineSet,
    /// The announcement.
    pub header: Header,
    /// What its messages look like.
    pub dress: Dress,
    /// S_x: marked packets queued towards each spine.
    pub sent: [u32; FANOUT_MAX],
    /// M: their sum.
    pub marked: u64,
    port: PortId,
    track: Track,
    seen: Seen,
    opened_at: Nanos,
    last_at: Nanos,
}

/// A window that is closed; kept for the repetitions of its close.
#[derive(Clone, Copy)]
pub struct Closed {
    /// The flow.
    pub key: FlowKey,
    /// Its destination leaf.
    pub leaf: LeafId,
    /// The window's number.
    pub epoch: u32,
    /// Spines that were usable all the time.
    pub usable: SpineSet,
    /// The announcement.
    pub header: Header,
    /// What its messages look like.
    pub dress: Dress,
    /// S_x.
    pub sent: [u32; FANOUT_MAX],
    /// M.
    pub marked: u64,
    /// Which copy in time comes next.
    pub repetition: u16,
    next_at: Nanos,
}

/// What a packet is to the measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Not of the measured flow.
    Plain,
    /// Of the measured flow: highest priority; marked or not; whether it ends the window.
    Measured {
        /// To be marked and counted.
        mark: bool,
        /// The last of the window.
        ends: bool,
    },
}

/// State of a source leaf.
pub struct Source {
    available: Vec<Option<Announced>>,
    history: LeafSet,
    open: Option<Box<Open>>,
    /// Kept so that opening a window allocates nothing.
    spare: Option<Box<Open>>,
    /// At most [`CLOSING_MAX`].
    closing: Vec<Closed>,
    /// The last window of each colour: which flow, and when it closed.
    recent: [Option<(FlowKey, Nanos)>; 2],
    epoch: u32,
    is_paper: bool,
    mark: Mark,
    window_packets_max: u64,
    window_ns_max: u64,
    idle_ns_max: u64,
    path_delay_ns_max: u64,
}

impl Source {
    /// A source leaf of a fabric of `leaves` that measures nothing yet.
    pub fn new(leaves: u16, config: &Measurement) -> Source {
        let blank = blank();
        Source {
            available: vec![None; usize::from(leaves)],
            history: LeafSet::EMPTY,
            open: None,
            spare: Some(Box::new(Open {
                key: blank.key,
                leaf: blank.leaf,
                epoch: 0,
                usable: SpineSet::EMPTY,
                header: blank.header,
                dress: blank.dress,
                sent: [0; FANOUT_MAX],
                marked: 0,
                port: PortId(0),
                track: Track::new(None, 0),
                seen: Seen::new(),
                opened_at: Nanos(0),
                last_at: Nanos(0),
            })),
            closing: Vec::with_capacity(CLOSING_MAX),
            recent: [None; 2],
            epoch: 0,
            is_paper: config.is_paper,
            mark: config.mark,
            window_packets_max: config.window_packets_max,
            window_ns_max: config.window_ns_max,
            idle_ns_max: config.idle_ns_max,
            path_delay_ns_max: config.path_delay_ns_max,
        }
    }

    /// The open window, if there is one.
    pub fn window(&self) -> Option<&Open> {
        self.open.as_deref()
    }

    /// Clears both masks (once a minute). A flow that runs stays available if it shows itself again.
    pub fn reset_masks(&mut self) {
        self.history = LeafSet::EMPTY;
        self.available.fill(None);
    }

    /// Takes an announcement of a host on `port` for a flow towards `leaf`.
    pub fn announce(
        &mut self,
        port: PortId,
        key: FlowKey,
        leaf: LeafId,
        header: Header,
        dress: Dress,
        counters: &mut Counters,
    ) {
        let packets = header.expected_packets();
        if packets == 0 {
            counters.note(Note::AnnouncementUseless);
            return;
        }
        counters.note(Note::Announced);
        if self
            .open
            .as_ref()
            .is_some_and(|open| open.key == key && open.header.flow_id == header.flow_id)
        {
            counters.note(Note::MessagesRepeated);
            return;
        }
        let slot = &mut self.available[leaf.index()];
        match slot {
            Some(old) if old.key == key && old.header == header => {
                counters.note(Note::MessagesRepeated);
                return;
            }
            // The newest wins: it is the one whose packets are still to come.
            Some(old)
                if old.running
                    && !old.track.is_over()
                    && self.open.as_ref().is_none_or(|open| open.key != old.key) =>
            {
                counters.note(Note::AnnouncementReplaced);
            }
            Some(old) if !old.running => counters.note(Note::AnnouncementReplaced),
            _ => {}
        }
        let first = (header.flags & FLAG_FIRST_UNKNOWN == 0).then_some(header.first_psn);
        *slot = Some(Announced {
            key,
            port,
            header,
            dress,
            track: Track::new(first, packets),
            running: false,
        });
    }

    /// Takes an announcement back; true when it is the measured flow that must now be closed.
    pub fn withdraw(&mut self, key: FlowKey, leaf: LeafId, counters: &mut Counters) -> bool {
        let slot = &mut self.available[leaf.index()];
        let known = slot.as_ref().is_some_and(|flow| flow.key == key);
        if known {
            *slot = None;
        }
        let is_measured = self.open.as_ref().is_some_and(|open| open.key == key);
        if known || is_measured {
            counters.note(Note::Withdrawn);
        }
        is_measured
    }

    /// Where a counted packet of a host stands: follows announced flows, and tells the packets of
    /// the measured one.
    #[inline]
    pub fn classify(
        &mut self,
        now: Nanos,
        port: PortId,
        leaf: LeafId,
        key: &FlowKey,
        psn: Psn,
        counters: &mut Counters,
    ) -> Class {
        if let Some(open) = &mut self.open
            && open.leaf == leaf
            && open.port == port
            && open.key == *key
        {
            return open.classify(now, psn, self.mark, counters);
        }
        if let Some(flow) = &mut self.available[leaf.index()]
            && flow.port == port
            && flow.key == *key
            && let Place::Ahead { step, .. } = flow.track.place(psn)
        {
            flow.track.advance(psn, step);
            flow.running = true;
        }
        Class::Plain
    }

    /// The destination whose flow should be measured next, if no window is open.
    pub fn select(&mut self, now: Nanos) -> Option<LeafId> {
        if self.open.is_some() || self.closing.len() == CLOSING_MAX {
            return None;
        }
        let mut available = LeafSet::EMPTY;
        let guard_ns = 4 * self.path_delay_ns_max;
        let colour = (self.epoch.wrapping_add(1) & 1) as usize;
        for (index, slot) in self.available.iter_mut().enumerate() {
            let Some(flow) = slot else { continue };
            if flow.track.is_over() {
                *slot = None;
                continue;
            }
            // The paper measures whole flows, since its threshold needs their N.
            if self.is_paper && flow.running {
                continue;
            }
            // The same flow in the same colour: the older window's last packets must have arrived.
            let clash = self.recent[colour]
                .is_some_and(|(key, at)| key == flow.key && now < at.plus(guard_ns));
            if !clash {
                available.insert(index);
            }
        }
        if available.without(self.history).is_empty() {
            self.history = LeafSet::EMPTY;
        }
        available
            .without(self.history)
            .lowest()
            .map(|index| LeafId(index as u16))
    }

    /// Opens a window on the flow that [`Source::select`] has named.
    pub fn open(
        &mut self,
        now: Nanos,
        leaf: LeafId,
        usable: SpineSet,
        counters: &mut Counters,
    ) -> Option<&Open> {
        let flow = self.available[leaf.index()].as_ref()?;
        let mut open = self.spare.take()?;
        self.epoch = self.epoch.wrapping_add(1);
        // The window is what is left of the flow, up to the cap.
        let (first, left) = flow.track.rest();
        let packets = left.min(self.window_packets_max);
        let mut header = Header {
            packets,
            bytes: 0,
            ..flow.header
        };
        match first {
            Some(first) => header.first_psn = first,
            None => header.flags |= FLAG_FIRST_UNKNOWN,
        }
        *open = Open {
            key: flow.key,
            leaf,
            epoch: if self.is_paper { 0 } else { self.epoch },
            usable,
            header,
            dress: flow.dress,
            sent: [0; FANOUT_MAX],
            marked: 0,
            port: flow.port,
            track: Track::new(first, packets),
            seen: Seen::new(),
            opened_at: now,
            last_at: now,
        };
        self.history.insert(leaf.index());
        counters.note(Note::WindowsOpened);
        Some(self.open.insert(open))
    }

    /// Counts a marked packet that was queued towards `spine`; the first also lends its dress to
    /// the close, which must travel in the same class.
    #[inline(always)]
    pub fn count_sent(&mut self, spine: usize, dress: Option<Dress>) {
        if let Some(open) = &mut self.open {
            if let Some(dress) = dress {
                open.dress = dress;
            }
            open.sent[spine] = open.sent[spine].wrapping_add(1);
            open.marked += 1;
        }
    }

    /// A spine's path changed: its test of the open window will be void.
    pub fn disturb(&mut self, spine: usize) {
        if let Some(open) = &mut self.open {
            open.usable.remove(spine);
        }
    }

    /// Whether the open window has come to its cap in time, or has fallen silent.
    pub fn is_capped(&self, now: Nanos) -> bool {
        self.open.as_ref().is_some_and(|open| {
            now >= open.opened_at.plus(self.window_ns_max)
                || now >= open.last_at.plus(self.idle_ns_max)
        })
    }

    /// Closes the open window; [`Source::due_close`] then has its close (in the paper's protocol
    /// there is none).
    pub fn close(&mut self, now: Nanos, counters: &mut Counters) {
        let Some(open) = self.open.take() else {
            return;
        };
        counters.note(Note::WindowsClosed);
        let slot = &mut self.available[open.leaf.index()];
        if let Some(flow) = slot
            && flow.key == open.key
        {
            flow.track.follow(&open.track);
            flow.running = true;
            if flow.track.is_over() {
                *slot = None;
            }
        }
        self.recent[(self.epoch & 1) as usize] = Some((open.key, now));
        if !self.is_paper {
            self.closing.push(Closed {
                key: open.key,
                leaf: open.leaf,
                epoch: open.epoch,
                usable: open.usable,
                header: open.header,
                dress: open.dress,
                sent: open.sent,
                marked: open.marked,
                repetition: 0,
                next_at: now,
            });
        }
        self.spare = Some(open);
    }

    /// The next close that is due for repetition.
    pub fn due_close(&self, now: Nanos) -> Option<&Closed> {
        self.closing.iter().find(|closed| closed.next_at <= now)
    }

    /// The copy of `epoch`'s close that was due has been sent.
    pub fn close_sent(&mut self, now: Nanos, epoch: u32) {
        for closed in self
            .closing
            .iter_mut()
            .filter(|closed| closed.epoch == epoch)
        {
            closed.repetition += 1;
            closed.next_at = now.plus(self.path_delay_ns_max);
        }
        self.closing
            .retain(|closed| closed.repetition <= CLOSE_REPEATS);
    }
}

impl Open {
    #[inline]
    fn classify(&mut self, now: Nanos, psn: Psn, mark: Mark, counters: &mut Counters) -> Class {
        self.last_at = now;
        match self.track.place(psn) {
            Place::Ahead { step, is_last } => {
                self.track.advance(psn, step);
                self.seen.advance(step);
                Class::Measured {
                    mark: true,
                    ends: is_last,
                }
            }
            Place::Behind { back } => {
                let first = self.seen.is_first(back);
                if !first {
                    counters.note(Note::LaterCopies);
                }
                Class::Measured {
                    mark: first || mark == Mark::All,
                    ends: false,
                }
            }
            Place::Outside => {
                counters.note(Note::PsnOutside);
                Class::Plain
            }
        }
    }
}

fn blank() -> Closed {
    Closed {
        key: FlowKey {
            source: packet::Address(0),
            destination: packet::Address(0),
            qpn: packet::Qpn(0),
            space: Space::Requests,
        },
        leaf: LeafId(0),
        epoch: 0,
        usable: SpineSet::EMPTY,
        header: Header {
            kind: packet::message::MessageKind::Open,
            flags: 0,
            destination_qp: packet::Qpn(0),
            first_psn: Psn::new(0),
            mtu_bytes: 0,
            packets: 0,
            bytes: 0,
            flow_id: 0,
            fanout: 0,
            repetition: 0,
            epoch: 0,
        },
        dress: Dress::link_local(),
        sent: [0; FANOUT_MAX],
        marked: 0,
        repetition: 0,
        next_at: Nanos(0),
    }
}

/// The flow that a message with such a header, between such addresses, speaks of.
pub fn flow_of(header: &Header, source: packet::Address, destination: packet::Address) -> FlowKey {
    let space = if header.flags & FLAG_RESPONSES != 0 {
        Space::Responses
    } else {
        Space::Requests
    };
    FlowKey {
        source,
        destination,
        qpn: header.destination_qp,
        space,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use packet::{Address, Qpn};

    fn measurement() -> Measurement {
        Measurement {
            is_paper: false,
            mark: Mark::First,
            window_packets_max: 1 << 20,
            window_ns_max: 1_000_000_000,
            idle_ns_max: 1_000_000,
            path_delay_ns_max: 1_000,
            rows_max: 16,
            row_ns_max: 60_000_000_000,
        }
    }

    fn flow(leaf: u16, qpn: u32, packets: u64) -> (FlowKey, Header) {
        let header = Header {
            destination_qp: Qpn(qpn),
            packets,
            mtu_bytes: 1024,
            ..blank().header
        };
        (
            flow_of(&header, Address::v4(1), Address::v4(100 + u32::from(leaf))),
            header,
        )
    }

    fn announce(
        source: &mut Source,
        leaf: u16,
        qpn: u32,
        packets: u64,
        counters: &mut Counters,
    ) -> FlowKey {
        let (key, header) = flow(leaf, qpn, packets);
        source.announce(
            PortId(0),
            key,
            LeafId(leaf),
            header,
            Dress::link_local(),
            counters,
        );
        key
    }

    /// Sends `psns` of `key` and returns how many were marked.
    fn send(
        source: &mut Source,
        leaf: u16,
        key: FlowKey,
        psns: std::ops::Range<u32>,
        counters: &mut Counters,
    ) -> u32 {
        let mut marked = 0;
        for n in psns {
            let class = source.classify(
                Nanos(1),
                PortId(0),
                LeafId(leaf),
                &key,
                Psn::new(n),
                counters,
            );
            if let Class::Measured { mark: true, ends } = class {
                marked += 1;
                source.count_sent((n % 4) as usize, None);
                if ends {
                    source.close(Nanos(1), counters);
                }
            }
        }
        marked
    }

    #[test]
    fn destinations_take_turns_lowest_first() {
        let mut counters = Counters::default();
        let mut source = Source::new(8, &measurement());
        let keys: Vec<FlowKey> = [5, 2, 7]
            .map(|leaf| announce(&mut source, leaf, 16, 10, &mut counters))
            .into();
        let mut order = Vec::new();
        for round in 0..3 {
            let leaf = source.select(Nanos(round)).unwrap();
            source.open(Nanos(round), leaf, SpineSet::first(4), &mut counters);
            assert_eq!(
                source.select(Nanos(round)),
                None,
                "one measured flow at a time"
            );
            let key = keys[[5, 2, 7].iter().position(|&l| l == leaf.0).unwrap()];
            assert_eq!(send(&mut source, leaf.0, key, 0..10, &mut counters), 10);
            order.push(leaf.0);
        }
        assert_eq!(order, [2, 5, 7]);
        assert_eq!(source.select(Nanos(9)), None, "all flows are over");
        announce(&mut source, 2, 17, 10, &mut counters);
        assert_eq!(
            source.select(Nanos(9)),
            Some(LeafId(2)),
            "history is cleared when nothing else is left"
        );
    }

    #[test]
    fn only_first_copies_within_the_announced_psns_are_marked() {
        let mut counters = Counters::default();
        let mut source = Source::new(8, &measurement());
        let key = announce(&mut source, 3, 16, 100, &mut counters);
        source.open(Nanos(0), LeafId(3), SpineSet::first(4), &mut counters);
        assert_eq!(send(&mut source, 3, key, 0..50, &mut counters), 50);
        assert_eq!(
            send(&mut source, 3, key, 10..50, &mut counters),
            0,
            "resent"
        );
        assert_eq!(
            send(&mut source, 3, key, 100..120, &mut counters),
            0,
            "beyond the last"
        );
        assert_eq!(source.window().unwrap().marked, 50);
        assert_eq!(
            (
                counters.noted(Note::LaterCopies),
                counters.noted(Note::PsnOutside)
            ),
            (40, 20)
        );
        assert_eq!(send(&mut source, 3, key, 50..100, &mut counters), 50);
        assert!(source.window().is_none(), "the last PSN ends the window");
        let closed = source.due_close(Nanos(1)).unwrap();
        assert_eq!(
            (closed.marked, closed.sent[..4].iter().sum::<u32>()),
            (100, 100)
        );
    }

    #[test]
    fn a_flow_is_bound_to_its_port_and_space() {
        let mut counters = Counters::default();
        let mut source = Source::new(8, &measurement());
        let key = announce(&mut source, 3, 16, 100, &mut counters);
        source.open(Nanos(0), LeafId(3), SpineSet::first(4), &mut counters);
        let other_space = FlowKey {
            space: Space::Responses,
            ..key
        };
        for (port, key) in [(PortId(1), key), (PortId(0), other_space)] {
            assert_eq!(
                source.classify(Nanos(0), port, LeafId(3), &key, Psn::new(0), &mut counters),
                Class::Plain
            );
        }
    }

    #[test]
    fn closes_are_repeated_twice_and_then_forgotten() {
        let mut counters = Counters::default();
        let mut source = Source::new(8, &measurement());
        let key = announce(&mut source, 3, 16, 4, &mut counters);
        source.open(Nanos(0), LeafId(3), SpineSet::first(4), &mut counters);
        send(&mut source, 3, key, 0..4, &mut counters);
        let mut sent = Vec::new();
        for now in 1..10_000 {
            while let Some(closed) = source.due_close(Nanos(now)) {
                let epoch = closed.epoch;
                sent.push((now, closed.repetition));
                source.close_sent(Nanos(now), epoch);
            }
        }
        assert_eq!(sent, [(1, 0), (1001, 1), (2001, 2)]);
    }

    #[test]
    fn silence_and_time_end_a_window() {
        let mut counters = Counters::default();
        let mut source = Source::new(8, &measurement());
        announce(&mut source, 3, 16, 100, &mut counters);
        source.open(Nanos(5), LeafId(3), SpineSet::first(4), &mut counters);
        assert!(!source.is_capped(Nanos(1_000_004)));
        assert!(source.is_capped(Nanos(1_000_005)));
    }

    #[test]
    fn a_flow_measured_in_its_middle_is_marked_from_there() {
        let mut counters = Counters::default();
        let mut source = Source::new(8, &measurement());
        let key = announce(&mut source, 3, 16, 100, &mut counters);
        assert_eq!(
            send(&mut source, 3, key, 0..60, &mut counters),
            0,
            "no window is open"
        );
        source.open(Nanos(0), LeafId(3), SpineSet::first(4), &mut counters);
        assert_eq!(
            send(&mut source, 3, key, 40..100, &mut counters),
            40,
            "what passed unmarked stays unmarked"
        );
    }
}
