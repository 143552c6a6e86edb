//! The source leaf's side of a measurement: which flow is measured, and which packets are marked.
//!
//! Hosts announce flows; the leaf measures one at a time ([`crate::announced`] says which). The
//! announcement is a hint only: marking starts and ends by what the leaf itself sees.

use packet::bth::{COLOUR, MARK};
use packet::head::Head;
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

/// What is known of a window as long as it exists, open or closed.
#[derive(Clone, Copy)]
pub struct Window {
    /// The flow.
    pub key: FlowKey,
    /// Its destination leaf.
    pub leaf: LeafId,
    /// The window's number.
    pub epoch: u32,
    /// The spines usable when it opened, and ever since.
    pub usable: SpineSet,
    /// The announcement, of what is left of the flow.
    pub header: Header,
    /// What its messages look like.
    pub dress: Dress,
    /// S_x: marked packets queued towards each spine.
    pub sent: [u32; FANOUT_MAX],
    /// M: their sum.
    pub marked: u64,
}

/// The window that is open.
pub struct Open {
    /// What its close will tell.
    pub window: Window,
    /// Mark and colour as its packets carry them.
    mark_bits: u8,
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
    /// What its close tells.
    pub window: Window,
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

/// What tells packets of a window by their words alone: addresses, QPN, and above it port and PSN
/// space.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Sign(u64, u64);

impl Sign {
    /// That of no packet: no QPN has so many bits.
    const NONE: Sign = Sign(0, u64::MAX);

    #[inline(always)]
    fn new(words: (u64, u32), port: PortId, is_response: bool) -> Sign {
        let place = u64::from(port.0) << 32 | u64::from(is_response) << 48;
        Sign(words.0, u64::from(words.1) | place)
    }

    fn of(key: &FlowKey, port: PortId) -> Sign {
        let words = Head::words(key.source, key.destination, key.qpn);
        let is_response = key.space == Space::Responses;
        words.map_or(Sign::NONE, |words| Sign::new(words, port, is_response))
    }
}

/// What a run of packets is to the measurement.
pub(crate) enum Part<'a> {
    /// Nothing.
    None,
    /// Perhaps an announced flow, that is followed.
    Followed(&'a mut Announcements),
    /// The open window.
    Window(&'a mut Open, Mark),
}

/// State of a source leaf.
pub struct Source {
    /// The packets of the open window.
    sign: Sign,
    open: Option<Box<Open>>,
    announced: Announcements,
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
        Source {
            sign: Sign::NONE,
            announced: Announcements::new(ports, usize::from(leaves)),
            open: None,
            spare: Some(Box::new(Open {
                window: blank(),
                mark_bits: MARK,
                port: PortId(0),
                announced: blank().header,
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
            open.is_some_and(|open| open.window.key == key && open.announced == header)
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
        let is_measured = self
            .open
            .as_ref()
            .is_some_and(|open| open.window.key == key);
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
            && open.window.leaf == leaf
            && open.port == port
            && open.window.key == *key
        {
            return open.classify(now, psn, self.mark, counters);
        }
        self.announced.follow(port, leaf, key, psn);
        Class::Plain
    }

    /// What counted packets with these words are to the measurement. `None` if the next one must go
    /// the whole way: the first that is marked gives the window's messages their looks.
    #[inline(always)]
    pub(crate) fn part(&mut self, port: PortId, leaf: LeafId, head: &Head) -> Option<Part<'_>> {
        let words = (head.addresses, head.flow & 0x00ff_ffff);
        let sign = Sign::new(words, port, head.opcode.is_response());
        if sign == self.sign
            && let Some(open) = &mut self.open
        {
            let is_dressed = open.window.marked > 0;
            return is_dressed.then_some(Part::Window(open, self.mark));
        }
        Some(if self.announced.has(port, leaf) {
            Part::Followed(&mut self.announced)
        } else {
            Part::None
        })
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
            let rests = |closed: &Closed| {
                closed.window.key == flow.key && closed.window.epoch & 1 == colour
            };
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
            window: Window {
                key: flow.key,
                leaf,
                epoch: self.epoch,
                usable,
                header,
                dress: flow.dress,
                sent: [0; FANOUT_MAX],
                marked: 0,
            },
            mark_bits: if self.epoch & 1 == 1 {
                MARK | COLOUR
            } else {
                MARK
            },
            port,
            announced: flow.header,
            track: Track::new(first, packets),
            is_past: false,
            seen: Seen::new(),
            opened_at: now,
            last_at: now,
        };
        self.sign = Sign::of(&open.window.key, port);
        self.announced.take_turn(port, leaf);
        counters.note(Note::WindowsOpened);
        Some(self.open.insert(open))
    }

    /// Counts a marked packet that was queued towards `spine`.
    #[inline(always)]
    pub fn count_sent(&mut self, spine: usize) {
        if let Some(open) = &mut self.open {
            open.count_sent(spine);
        }
    }

    /// The usable spines towards `leaf` have changed, and `lost` are none any more: what the
    /// windows towards it have queued there may never arrive, and their closes say so. True when
    /// the open window is one of them.
    pub fn lose_paths(&mut self, leaf: LeafId, lost: SpineSet) -> bool {
        for closed in self.closing.iter_mut().filter(|c| c.window.leaf == leaf) {
            closed.window.usable = closed.window.usable.without(lost);
        }
        match &mut self.open {
            Some(open) if open.window.leaf == leaf => {
                open.window.usable = open.window.usable.without(lost);
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
        self.sign = Sign::NONE;
        counters.note(Note::WindowsClosed);
        let is_silent = self.is_silent(now, &open);
        let (port, leaf) = (open.port, open.window.leaf);
        if let Some(flow) = self.announced.get_mut(port, leaf)
            && flow.key == open.window.key
        {
            // Also one that was announced meanwhile: no PSN is marked twice.
            flow.track.follow(&open.track);
            flow.running = true;
            flow.is_silent = is_silent;
            // The next window's open must not overtake, in a better class, what is still on its way.
            flow.dress = open.window.dress;
            if flow.track.is_over() || open.is_past && flow.header == open.announced {
                self.announced.forget(port, leaf);
            }
        }
        self.closing.push(Closed {
            window: open.window,
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
            .filter(|closed| closed.window.epoch == epoch)
        {
            closed.repetition += 1;
            closed.next_at = now.plus(self.path_delay_ns_max);
        }
    }
}

impl Open {
    /// What a marked packet of the window carries.
    pub(crate) fn mark_bits(&self) -> u8 {
        self.mark_bits
    }

    /// Counts a marked packet that was queued towards `spine`.
    #[inline(always)]
    pub(crate) fn count_sent(&mut self, spine: usize) {
        let sent = &mut self.window.sent[spine & (FANOUT_MAX - 1)];
        *sent = sent.wrapping_add(1);
        self.window.marked += 1;
    }

    /// Takes the flow's next packet, if it is the one that is due and not the window's last: it is to be
    /// marked. False, and nothing has happened, for any other.
    #[inline(always)]
    pub(crate) fn step(&mut self, now: Nanos, psn: Psn) -> bool {
        let is_next = self.track.step(psn);
        if is_next {
            self.last_at = now;
            self.seen.step();
        }
        is_next
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

fn blank() -> Window {
    Window {
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
mod tests;
