//! The source leaf's side of a measurement: which flow is measured, and which packets are marked.
//!
//! Hosts announce flows; the leaf measures one at a time ([`crate::announced`] says which). The
//! announcement is a hint only: marking starts and ends by what the leaf itself sees.

use packet::bth::{COLOUR, MARK};
use packet::head::Head;
use packet::message::{FLAG_FIRST_UNKNOWN, FLAG_RESPONSES, Header};
use packet::{Address, Psn, Space};

use crate::announced::{Announced, Announcements};
use crate::config::{Mark, Measurement};
use crate::counters::{Counters, Note};
use crate::track::{Seen, Track};
use crate::types::{FANOUT_MAX, FlowKey, LeafId, Nanos, PortId, SpineSet};
use crate::window::{Dress, first_psn};

mod closing;
mod find;
mod open;

pub use closing::Closed;
use closing::Closing;
use find::Finder;
pub use open::{Class, Open};

/// Windows are stretched to so many times their packets at most, while the next one cannot open: a
/// flow that has been fast for one short window may not be so for long.
const STRETCH_MAX: u64 = 64;

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
    /// S_x: marked packets queued towards each spine; while it is open, what the sprayer had sent there
    /// before.
    pub sent: [u32; FANOUT_MAX],
    /// M: their sum.
    pub marked: u64,
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
    /// Not measured now. It may be an announced flow, that is followed; so many packets later, less
    /// one, one is looked at.
    Unmeasured(Option<&'a mut Announcements>, &'a mut u32),
    /// The open window.
    Window(&'a mut Open, Mark),
}

/// Who looks for busy flows, in window mode; made beside a running leaf to be put into it.
pub struct Searcher(Option<Box<Finder>>);

impl Searcher {
    /// That of such settings, for hosts behind the first `ports` ports.
    pub(crate) fn new(ports: usize, leaves: u16, config: &Measurement) -> Searcher {
        let windows = &config.windows;
        // The paper's windows are whole flows of which hosts have told N.
        let is_asked = windows.finds_flows && !config.is_paper;
        let finder = || Finder::new(ports, usize::from(leaves), windows.silence_ns);
        Searcher(is_asked.then(|| Box::new(finder())))
    }
}

/// State of a source leaf.
#[repr(C, align(64))]
pub struct Source {
    /// The packets of the open window.
    sign: Sign,
    open: Option<Box<Open>>,
    /// Data packets until one is looked at.
    until_sample: u32,
    mark: Mark,
    announced: Announcements,
    /// In window mode.
    finder: Option<Box<Finder>>,
    /// Kept so that opening a window allocates nothing.
    spare: Option<Box<Open>>,
    closing: Closing,
    epoch: u32,
    is_paper: bool,
    /// No window is opened.
    is_off: bool,
    /// Packets of a window for each spine; 0: as many as the flow has.
    spine_packets: u64,
    window_packets_max: u64,
    window_ns_max: u64,
    idle_ns_max: u64,
    path_delay_ns_max: u64,
}

impl Source {
    /// A source leaf of a fabric of `leaves`, with its hosts behind the first `ports` ports, that
    /// measures nothing yet.
    pub fn new(ports: usize, leaves: u16, config: &Measurement) -> Source {
        let windows = &config.windows;
        let Searcher(finder) = Searcher::new(ports, leaves, config);
        Source {
            sign: Sign::NONE,
            announced: Announcements::new(ports, usize::from(leaves)),
            until_sample: Source::sample_every(finder.as_deref()),
            finder,
            open: None,
            spare: Some(Box::new(Open {
                window: blank(),
                mark_bits: MARK,
                port: PortId(0),
                opened: SpineSet::EMPTY,
                announced: blank().header,
                track: Track::new(None, 0),
                is_past: false,
                is_renewed: false,
                seen: Seen::new(),
                opened_at: Nanos(0),
                last_at: Nanos(0),
                idle_ns_max: 0,
                is_found: false,
                dropped: SpineSet::EMPTY,
            })),
            closing: Closing::new(),
            epoch: 0,
            is_paper: config.is_paper,
            is_off: windows.is_off,
            mark: config.mark,
            spine_packets: spine_packets(config),
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
            + self
                .finder
                .as_ref()
                .map_or(0, |finder| finder.state_bytes())
            + Closing::STATE_BYTES
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

    /// Whether the paper's protocol is spoken.
    pub(crate) fn is_paper(&self) -> bool {
        self.is_paper
    }

    /// Clears both masks (once a minute, paper 3.4). The open window goes on; a flow that is to be
    /// measured later must be announced again.
    pub fn reset_masks(&mut self) {
        self.announced.clear();
    }

    /// Measures by other settings from now on; no window is open. `searcher` is exchanged when the leaf
    /// looks for flows from now on, or no longer does.
    pub(crate) fn configure(&mut self, config: &Measurement, searcher: &mut Searcher) {
        self.is_off = config.windows.is_off;
        self.mark = config.mark;
        self.spine_packets = spine_packets(config);
        self.window_packets_max = config.window_packets_max;
        self.window_ns_max = config.window_ns_max;
        self.idle_ns_max = config.idle_ns_max;
        self.path_delay_ns_max = config.path_delay_ns_max;
        match (&mut self.finder, &searcher.0) {
            (Some(finder), Some(_)) => finder.set_silence(config.windows.silence_ns),
            (finder, _) => std::mem::swap(finder, &mut searcher.0),
        }
        self.until_sample = Source::sample_every(self.finder.as_deref());
    }

    /// Routes have changed: flows that no longer lead to their leaf are not waited for.
    pub(crate) fn keep_where(&mut self, leads: impl Fn(Address, LeafId) -> bool) {
        self.announced.keep_where(&leads);
        if let Some(finder) = &mut self.finder {
            finder.keep_where(&leads);
        }
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
        if let Some(open) = &mut self.open
            && open.window.key == key
        {
            open.is_renewed = true;
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
        Class::unmeasured(&mut self.until_sample)
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
        let is_announced = self.announced.has(port, leaf);
        let followed = is_announced.then_some(&mut self.announced);
        Some(Part::Unmeasured(followed, &mut self.until_sample))
    }

    /// The host port and destination whose flow should be measured next, if no window is open; a
    /// destination to which `spines_to` knows no spine has to wait, and holds up nobody.
    pub fn select(
        &mut self,
        now: Nanos,
        spines_to: impl Fn(LeafId) -> usize,
    ) -> Option<(PortId, LeafId)> {
        if self.open.is_some() || self.is_off {
            return None;
        }
        self.closing.forget_rested(now, self.path_delay_ns_max);
        if self.closing.is_full() {
            return None;
        }
        let colour = self.next_epoch() & 1;
        let (is_paper, closing) = (self.is_paper, &self.closing);
        self.announced.next(|leaf, flow| {
            // The paper measures whole flows, since its threshold needs their N.
            let is_cut = is_paper && flow.running;
            // What is left of a flow must have a packet for every path.
            let spines = spines_to(leaf);
            let is_remnant = flow.running && flow.track.rest().1 < spines as u64;
            let is_fit = spines > 0 && !flow.is_silent && !is_cut && !is_remnant;
            is_fit && !closing.rests(&flow.key, colour)
        })
    }

    /// The number of the latest window.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Another instance of this leaf has opened the latest window, of that number.
    pub fn set_epoch(&mut self, epoch: u32) {
        self.epoch = epoch;
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
        let flow = *self.announced.get(port, leaf)?;
        // The window is what is left of the flow, up to the cap.
        let (first, left) = flow.track.rest();
        let packets = self.window_packets(now, &flow.key, left, usable);
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
        self.announced.take_turn(port, leaf);
        let mut open = self.begin(now, (port, leaf), flow.key, usable, counters)?;
        open.window.header = header;
        open.window.dress = flow.dress;
        open.announced = flow.header;
        open.track = Track::new(first, packets);
        Some(self.open.insert(open))
    }

    /// Packets of a window on flow `key`, of which `left` are to come.
    ///
    /// If the flow's other colour still rests when as many as planned have come, the window goes on
    /// until it may be used: else the flow would go unmeasured meanwhile.
    fn window_packets(&self, now: Nanos, key: &FlowKey, left: u64, usable: SpineSet) -> u64 {
        let planned = match self.spine_packets {
            0 => u64::MAX,
            packets => packets.saturating_mul(usable.len() as u64),
        };
        let until_free = match self.spine_packets {
            0 => 0,
            // The window after the next one has the other colour.
            _ => self.closing.packets_until_free(
                now,
                key,
                self.next_epoch().wrapping_add(1) & 1,
                self.path_delay_ns_max,
            ),
        };
        let stretched = planned.max(until_free.min(planned.saturating_mul(STRETCH_MAX)));
        left.min(self.window_packets_max).min(stretched)
    }

    /// What all windows begin with.
    fn begin(
        &mut self,
        now: Nanos,
        (port, leaf): (PortId, LeafId),
        key: FlowKey,
        usable: SpineSet,
        counters: &mut Counters,
    ) -> Option<Box<Open>> {
        let mut open = self.spare.take()?;
        self.epoch = self.next_epoch();
        *open = Open {
            window: Window {
                key,
                leaf,
                epoch: self.epoch,
                usable,
                ..blank()
            },
            mark_bits: if self.epoch & 1 == 1 {
                MARK | COLOUR
            } else {
                MARK
            },
            port,
            opened: usable,
            announced: blank().header,
            track: Track::new(None, 0),
            is_past: false,
            is_renewed: false,
            seen: Seen::new(),
            opened_at: now,
            last_at: now,
            idle_ns_max: self.idle_ns_max,
            is_found: false,
            dropped: SpineSet::EMPTY,
        };
        self.sign = Sign::of(&open.window.key, port);
        counters.note(Note::WindowsOpened);
        Some(open)
    }

    /// Counts a marked packet that was queued.
    #[inline(always)]
    pub fn count_marked(&mut self) {
        if let Some(open) = &mut self.open {
            open.count_marked(1);
        }
    }

    /// The open window begins, the sprayer having sent so many marked packets towards its leaf by spine.
    pub(crate) fn begin_counts(&mut self, measured: &[u32; FANOUT_MAX]) {
        if let Some(open) = &mut self.open {
            open.window.sent = *measured;
        }
    }

    /// The open window ends, the sprayer having sent so many by now: the differences are S_x.
    pub(crate) fn end_counts(&mut self, measured: &[u32; FANOUT_MAX]) {
        let Some(open) = &mut self.open else { return };
        // To other spines nothing was sent; one that comes back is levelled with the others.
        let opened = open.opened;
        for (spine, (sent, now)) in open.window.sent.iter_mut().zip(measured).enumerate() {
            let before = *sent;
            *sent = if opened.has(spine) {
                now.wrapping_sub(before)
            } else {
                0
            };
        }
    }

    /// The usable spines towards `leaf` have changed, and `lost` are none any more: what the
    /// windows towards it have queued there may never arrive, and their closes say so. True when
    /// the open window is one of them.
    pub fn lose_paths(&mut self, leaf: LeafId, lost: SpineSet) -> bool {
        self.closing.lose_paths(leaf, lost);
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
            now >= open.opened_at.plus(self.window_ns_max) || open.is_silent(now)
        })
    }

    /// Closes the open window; [`Source::due_close`] then has its close (in the paper's protocol
    /// there is none).
    pub fn close(&mut self, now: Nanos, counters: &mut Counters) {
        let Some(open) = self.open.take() else {
            return;
        };
        self.sign = Sign::NONE;
        counters.note(Note::WindowsClosed);
        if open.track.has_wrapped() {
            counters.note(Note::WindowsWrapped);
        }
        let is_silent = open.is_silent(now);
        let (port, leaf) = (open.port, open.window.leaf);
        if open.is_found {
            self.close_found(&open, is_silent);
        } else if let Some(flow) = self.announced.get_mut(port, leaf)
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
        self.closing
            .push(open.window, open.opened_at, now, !self.is_paper);
        self.spare = Some(open);
    }

    /// The next close that is due for repetition.
    pub fn due_close(&self, now: Nanos) -> Option<&Closed> {
        self.closing.due(now)
    }

    /// The copy of `epoch`'s close that was due has been sent.
    pub fn close_sent(&mut self, now: Nanos, epoch: u32) {
        self.closing.sent(epoch, now.plus(self.path_delay_ns_max));
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

/// Packets of a window for each spine; 0: as many as the flow has, as the paper measures.
fn spine_packets(config: &Measurement) -> u64 {
    if config.is_paper {
        0
    } else {
        config.windows.spine_packets
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
