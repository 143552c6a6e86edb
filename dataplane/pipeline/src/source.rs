//! The source leaf's side of a measurement: which flow is measured, and which packets are marked.
//!
//! Hosts announce flows; the leaf measures one at a time ([`crate::announced`] says which). The
//! announcement is a hint only: marking starts and ends by what the leaf itself sees.

use packet::message::{FLAG_FIRST_UNKNOWN, FLAG_RESPONSES, Header};
use packet::{Psn, Space};

use crate::announced::{Announced, Announcements};
use crate::config::{Mark, Measurement};
use crate::counters::{Counters, Note};
use crate::track::{Place, Seen, Track};
use crate::types::{FANOUT_MAX, FlowKey, LeafId, Nanos, PortId, SpineSet};
use crate::window::{Dress, first_psn};

/// Times a close is sent after the first.
const CLOSE_REPEATS: u16 = 2;
/// Longest delays of a path for which a flow's colour rests after its window: one until the close
/// is there, three until the verdict at the latest, one for stragglers, one to spare.
const COLOUR_RESTS: u64 = 6;
/// Windows that are closed but still rest.
const CLOSING_MAX: usize = 16;

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
    /// The announcement, of what is left of the flow.
    pub header: Header,
    /// What its messages look like.
    pub dress: Dress,
    /// S_x: marked packets queued towards each spine.
    pub sent: [u32; FANOUT_MAX],
    /// M: their sum.
    pub marked: u64,
    port: PortId,
    /// The announcement as the host made it.
    announced: Header,
    track: Track,
    /// A PSN beyond the last was seen.
    is_past: bool,
    seen: Seen,
    opened_at: Nanos,
    last_at: Nanos,
}

/// A window that is closed; kept for the repetitions of its close, and until its colour may be used
/// again for its flow.
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
    closed_at: Nanos,
}

/// What a packet is to the measurement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Not of the measured window.
    Plain,
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

/// State of a source leaf.
pub struct Source {
    announced: Announcements,
    open: Option<Box<Open>>,
    /// Kept so that opening a window allocates nothing.
    spare: Option<Box<Open>>,
    /// At most [`CLOSING_MAX`].
    closing: Vec<Closed>,
    epoch: u32,
    is_paper: bool,
    mark: Mark,
    window_packets_max: u64,
    window_ns_max: u64,
    idle_ns_max: u64,
    path_delay_ns_max: u64,
}

impl Source {
    /// A source leaf of a fabric of `leaves`, with its hosts behind the first `ports` ports, that
    /// measures nothing yet.
    pub fn new(ports: usize, leaves: u16, config: &Measurement) -> Source {
        let blank = blank();
        Source {
            announced: Announcements::new(ports, usize::from(leaves)),
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
                announced: blank.header,
                track: Track::new(None, 0),
                is_past: false,
                seen: Seen::new(),
                opened_at: Nanos(0),
                last_at: Nanos(0),
            })),
            closing: Vec::with_capacity(CLOSING_MAX),
            epoch: 0,
            is_paper: config.is_paper,
            mark: config.mark,
            window_packets_max: config.window_packets_max,
            window_ns_max: config.window_ns_max,
            idle_ns_max: config.idle_ns_max,
            path_delay_ns_max: config.path_delay_ns_max,
        }
    }

    /// Bytes of state, for the documents.
    pub fn state_bytes(&self) -> usize {
        size_of::<Source>()
            + size_of::<Open>()
            + self.announced.state_bytes()
            + CLOSING_MAX * size_of::<Closed>()
    }

    /// The open window, if there is one.
    pub fn window(&self) -> Option<&Open> {
        self.open.as_deref()
    }

    /// The same, for its dress: that of the first marked packet is the close's, which must travel
    /// in the same class.
    #[inline(always)]
    pub(crate) fn window_mut(&mut self) -> Option<&mut Open> {
        self.open.as_deref_mut()
    }

    /// Clears both masks (once a minute, paper 3.4). The open window goes on; a flow that is to be
    /// measured later must be announced again.
    pub fn reset_masks(&mut self) {
        self.announced.clear();
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
        let is_measured = |key, header| {
            let open = self.open.as_ref();
            open.is_some_and(|open| open.key == key && open.announced == header)
        };
        let old = self.announced.get(port, leaf);
        let is_known = old.is_some_and(|old| old.key == key && old.header == header);
        if is_known || is_measured(key, header) {
            counters.note(Note::MessagesRepeated);
            return;
        }
        // The newest wins: it is the one whose packets are still to come.
        if old.is_some_and(|old| !is_measured(old.key, old.header)) {
            counters.note(Note::AnnouncementReplaced);
        }
        let flow = Announced {
            key,
            header,
            dress,
            track: Track::new(first_psn(&header), packets),
            running: false,
            is_silent: false,
        };
        self.announced.put(port, leaf, flow);
    }

    /// Takes an announcement back; true when it is the measured flow that must now be closed.
    pub fn withdraw(
        &mut self,
        port: PortId,
        key: FlowKey,
        leaf: LeafId,
        counters: &mut Counters,
    ) -> bool {
        let flow = self.announced.get(port, leaf);
        let known = flow.is_some_and(|flow| flow.key == key);
        if known {
            self.announced.forget(port, leaf);
        }
        let is_measured = self.open.as_ref().is_some_and(|open| open.key == key);
        if known || is_measured {
            counters.note(Note::Withdrawn);
        }
        is_measured
    }

    /// Where a counted packet of a host stands: follows announced flows, and tells the packets of
    /// the measured one.
    #[inline(always)]
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
        self.announced.follow(port, leaf, key, psn);
        Class::Plain
    }

    /// The host port and destination whose flow should be measured next, if no window is open; a
    /// destination to which `spines_to` knows no spine has to wait, and holds up nobody.
    pub fn select(
        &mut self,
        now: Nanos,
        spines_to: impl Fn(LeafId) -> usize,
    ) -> Option<(PortId, LeafId)> {
        if self.open.is_some() {
            return None;
        }
        let rest_ns = COLOUR_RESTS * self.path_delay_ns_max;
        self.closing
            .retain(|closed| now < closed.closed_at.plus(rest_ns));
        if self.closing.len() == CLOSING_MAX {
            return None;
        }
        let colour = self.next_epoch() & 1;
        let (is_paper, closing) = (self.is_paper, &self.closing);
        self.announced.next(|leaf, flow| {
            // The same flow in the same colour: the older window must be judged, and nothing of it
            // still on its way.
            let rests = |closed: &Closed| closed.key == flow.key && closed.epoch & 1 == colour;
            // The paper measures whole flows, since its threshold needs their N.
            let is_cut = is_paper && flow.running;
            // What is left of a flow must have a packet for every path.
            let spines = spines_to(leaf);
            let is_remnant = flow.running && flow.track.rest().1 < spines as u64;
            let is_fit = spines > 0 && !flow.is_silent && !is_cut && !is_remnant;
            is_fit && !closing.iter().any(rests)
        })
    }

    /// The number of the next window; the paper's windows have none.
    fn next_epoch(&self) -> u32 {
        if self.is_paper {
            0
        } else {
            self.epoch.wrapping_add(1)
        }
    }

    /// Opens a window on the flow that [`Source::select`] has named.
    pub fn open(
        &mut self,
        now: Nanos,
        port: PortId,
        leaf: LeafId,
        usable: SpineSet,
        counters: &mut Counters,
    ) -> Option<&Open> {
        let flow = self.announced.get(port, leaf)?;
        let mut open = self.spare.take()?;
        self.epoch = self.next_epoch();
        // The window is what is left of the flow, up to the cap.
        let (first, left) = flow.track.rest();
        let packets = left.min(self.window_packets_max);
        let mut header = Header {
            packets,
            bytes: 0,
            ..flow.header
        };
        match first {
            Some(first) => {
                header.first_psn = first;
                header.flags &= !FLAG_FIRST_UNKNOWN;
            }
            None => header.flags |= FLAG_FIRST_UNKNOWN,
        }
        *open = Open {
            key: flow.key,
            leaf,
            epoch: self.epoch,
            usable,
            header,
            dress: flow.dress,
            sent: [0; FANOUT_MAX],
            marked: 0,
            port,
            announced: flow.header,
            track: Track::new(first, packets),
            is_past: false,
            seen: Seen::new(),
            opened_at: now,
            last_at: now,
        };
        self.announced.take_turn(port, leaf);
        counters.note(Note::WindowsOpened);
        Some(self.open.insert(open))
    }

    /// Counts a marked packet that was queued towards `spine`.
    #[inline(always)]
    pub fn count_sent(&mut self, spine: usize) {
        if let Some(open) = &mut self.open {
            open.sent[spine] = open.sent[spine].wrapping_add(1);
            open.marked += 1;
        }
    }

    /// The usable spines towards `leaf` have changed, and `lost` are none any more: what the
    /// windows towards it have queued there may never arrive, and their closes say so. True when
    /// the open window is one of them.
    pub fn lose_paths(&mut self, leaf: LeafId, lost: SpineSet) -> bool {
        for closed in self.closing.iter_mut().filter(|c| c.leaf == leaf) {
            closed.usable = closed.usable.without(lost);
        }
        match &mut self.open {
            Some(open) if open.leaf == leaf => {
                open.usable = open.usable.without(lost);
                true
            }
            _ => false,
        }
    }

    /// Whether the open window has come to its cap in time, or has fallen silent.
    pub fn is_capped(&self, now: Nanos) -> bool {
        self.open.as_ref().is_some_and(|open| {
            now >= open.opened_at.plus(self.window_ns_max) || self.is_silent(now, open)
        })
    }

    fn is_silent(&self, now: Nanos, open: &Open) -> bool {
        now >= open.last_at.plus(self.idle_ns_max)
    }

    /// Closes the open window; [`Source::due_close`] then has its close (in the paper's protocol
    /// there is none).
    pub fn close(&mut self, now: Nanos, counters: &mut Counters) {
        let Some(open) = self.open.take() else {
            return;
        };
        counters.note(Note::WindowsClosed);
        let is_silent = self.is_silent(now, &open);
        let (port, leaf) = (open.port, open.leaf);
        if let Some(flow) = self.announced.get_mut(port, leaf)
            && flow.key == open.key
        {
            // Also one that was announced meanwhile: no PSN is marked twice.
            flow.track.follow(&open.track);
            flow.running = true;
            flow.is_silent = is_silent;
            // The next window's open must not overtake, in a better class, what is still on its way.
            flow.dress = open.dress;
            if flow.track.is_over() || open.is_past && flow.header == open.announced {
                self.announced.forget(port, leaf);
            }
        }
        self.closing.push(Closed {
            key: open.key,
            leaf: open.leaf,
            epoch: open.epoch,
            usable: open.usable,
            header: open.header,
            dress: open.dress,
            sent: open.sent,
            marked: open.marked,
            repetition: if self.is_paper { CLOSE_REPEATS + 1 } else { 0 },
            next_at: now,
            closed_at: now,
        });
        self.spare = Some(open);
    }

    /// The next close that is due for repetition.
    pub fn due_close(&self, now: Nanos) -> Option<&Closed> {
        self.closing
            .iter()
            .find(|closed| closed.repetition <= CLOSE_REPEATS && closed.next_at <= now)
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
    }
}

impl Open {
    #[inline(always)]
    fn classify(&mut self, now: Nanos, psn: Psn, mark: Mark, counters: &mut Counters) -> Class {
        match self.track.place(psn) {
            Place::Ahead { step, is_last } => {
                self.last_at = now;
                self.track.advance(psn, step);
                self.seen.advance(step);
                Class::Measured {
                    mark: true,
                    ends: is_last,
                }
            }
            Place::Behind { back } => {
                self.last_at = now;
                let first = self.seen.is_first(back);
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
        closed_at: Nanos(0),
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
                source.count_sent((n % 4) as usize);
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
        let mut source = Source::new(2, 8, &measurement());
        let keys: Vec<FlowKey> = [5, 2, 7]
            .map(|leaf| announce(&mut source, leaf, 16, 10, &mut counters))
            .into();
        let mut order = Vec::new();
        for round in 0..3 {
            let (port, leaf) = source.select(Nanos(round), |_| 4).unwrap();
            source.open(Nanos(round), port, leaf, SpineSet::first(4), &mut counters);
            assert_eq!(
                source.select(Nanos(round), |_| 4),
                None,
                "one measured flow at a time"
            );
            let key = keys[[5, 2, 7].iter().position(|&l| l == leaf.0).unwrap()];
            assert_eq!(send(&mut source, leaf.0, key, 0..10, &mut counters), 10);
            order.push(leaf.0);
        }
        assert_eq!(order, [2, 5, 7]);
        assert_eq!(source.select(Nanos(9), |_| 4), None, "all flows are over");
        announce(&mut source, 2, 17, 10, &mut counters);
        assert_eq!(
            source.select(Nanos(9), |_| 4),
            Some((PortId(0), LeafId(2))),
            "history is cleared when nothing else is left"
        );
    }

    #[test]
    fn only_first_copies_within_the_announced_psns_are_marked() {
        let mut counters = Counters::default();
        let mut source = Source::new(2, 8, &measurement());
        let key = announce(&mut source, 3, 16, 100, &mut counters);
        source.open(
            Nanos(0),
            PortId(0),
            LeafId(3),
            SpineSet::first(4),
            &mut counters,
        );
        assert_eq!(send(&mut source, 3, key, 0..50, &mut counters), 50);
        assert_eq!(
            send(&mut source, 3, key, 10..50, &mut counters),
            0,
            "resent"
        );
        assert_eq!(
            send(
                &mut source,
                3,
                key,
                (1 << 23) + 50..(1 << 23) + 70,
                &mut counters
            ),
            0,
            "before the first"
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
        let mut source = Source::new(2, 8, &measurement());
        let key = announce(&mut source, 3, 16, 100, &mut counters);
        source.open(
            Nanos(0),
            PortId(0),
            LeafId(3),
            SpineSet::first(4),
            &mut counters,
        );
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
        let mut source = Source::new(2, 8, &measurement());
        let key = announce(&mut source, 3, 16, 4, &mut counters);
        source.open(
            Nanos(0),
            PortId(0),
            LeafId(3),
            SpineSet::first(4),
            &mut counters,
        );
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
        let mut source = Source::new(2, 8, &measurement());
        announce(&mut source, 3, 16, 100, &mut counters);
        source.open(
            Nanos(5),
            PortId(0),
            LeafId(3),
            SpineSet::first(4),
            &mut counters,
        );
        assert!(!source.is_capped(Nanos(1_000_004)));
        assert!(source.is_capped(Nanos(1_000_005)));
    }

    #[test]
    fn a_flow_measured_in_its_middle_is_marked_from_there() {
        let mut counters = Counters::default();
        let mut source = Source::new(2, 8, &measurement());
        let key = announce(&mut source, 3, 16, 100, &mut counters);
        assert_eq!(
            send(&mut source, 3, key, 0..60, &mut counters),
            0,
            "no window is open"
        );
        source.open(
            Nanos(0),
            PortId(0),
            LeafId(3),
            SpineSet::first(4),
            &mut counters,
        );
        assert_eq!(
            send(&mut source, 3, key, 40..100, &mut counters),
            40,
            "what passed unmarked stays unmarked"
        );
    }

    #[test]
    fn a_port_cannot_push_out_the_flows_of_another() {
        let mut counters = Counters::default();
        let mut source = Source::new(2, 8, &measurement());
        let (theirs, header) = flow(3, 99, 10);
        let dress = Dress::link_local();
        source.announce(PortId(1), theirs, LeafId(3), header, dress, &mut counters);
        let mut ports = Vec::new();
        for qpn in 0..6 {
            // Port 0 announces again and again; port 1 did it once, and its flow never ends.
            announce(&mut source, 3, qpn, 10, &mut counters);
            let now = Nanos(u64::from(qpn) * 1_000_000);
            let (port, leaf) = source.select(now, |_| 4).unwrap();
            source.open(now, port, leaf, SpineSet::first(4), &mut counters);
            source.close(now, &mut counters);
            ports.push(port.0);
        }
        assert_eq!(ports, [1, 0, 1, 0, 1, 0], "ports take turns");
    }
}
