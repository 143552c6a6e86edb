//! Window mode: the source leaf finds busy flows by itself, for hosts that announce nothing.
//!
//! It looks at each [`SAMPLE_EVERY`]th data packet that is not measured already; a flow that shows
//! itself twice within the silence after which a flow counts as ended is busy, and takes the place
//! of its host port and destination. When nothing announced is waiting, [`crate::turn`] says which
//! place is next. State is bounded per port: a host with many flows pushes out its own alone.
//!
//! A window of a found flow begins at the first packet that comes after it was opened. Which PSNs
//! were marked in earlier windows is not kept: a later copy is a packet like any other to a test
//! that goes by what was marked, and a QP that is used again may have any PSN.

use packet::message::{FLAG_FIRST_UNKNOWN, FLAG_RESPONSES, Header};
use packet::{Address, Psn, Space};

use super::{Class, Open, Source, blank};
use crate::counters::{Counters, Note};
use crate::track::Track;
use crate::turn::Turns;
use crate::types::{FlowKey, LeafId, LeafSet, Nanos, PortId, SpineSet, mix};
use crate::window::Dress;

/// Data packets of which one is looked at. A prime, so that flows which take turns in a pattern
/// are all seen; large enough that looking costs the average packet a hundredth of its time.
const SAMPLE_EVERY: u32 = 31;
/// Flows of a port that can be on the way to being busy.
const PLACES: usize = 64;

/// A flow that was looked at once.
#[derive(Clone, Copy, Default)]
struct Glimpse {
    tag: u32,
    at: Nanos,
}

/// A busy flow.
#[derive(Clone, Copy)]
struct Found {
    key: FlowKey,
    dress: Dress,
    /// The PSN that was seen last: tells a window from one of the same QP before a restart.
    psn: Psn,
    seen_at: Nanos,
}

/// What a source leaf knows of flows that nobody has announced.
pub(super) struct Finder {
    leaves: usize,
    silence_ns: u64,
    glimpses: Vec<[Glimpse; PLACES]>,
    /// By host port and destination leaf.
    flows: Vec<Option<Found>>,
    /// Destinations that `flows` has one for, by host port.
    available: Vec<LeafSet>,
    turns: Turns,
    /// The port whose places are swept next.
    sweep: usize,
}

impl Finder {
    /// One that has found nothing yet, for hosts behind the first `ports` ports.
    pub(super) fn new(ports: usize, leaves: usize, silence_ns: u64) -> Finder {
        Finder {
            leaves,
            silence_ns,
            glimpses: vec![[Glimpse::default(); PLACES]; ports],
            flows: vec![None; ports * leaves],
            available: vec![LeafSet::EMPTY; ports],
            turns: Turns::default(),
            sweep: 0,
        }
    }

    /// Bytes of state, for the documents.
    pub(super) fn state_bytes(&self) -> usize {
        size_of::<Finder>()
            + size_of_val(&self.glimpses[..])
            + size_of_val(&self.flows[..])
            + size_of_val(&self.available[..])
    }

    /// Whether the flow was looked at lately.
    fn is_busy(&mut self, now: Nanos, port: usize, key: &FlowKey) -> bool {
        let hash = key.hash();
        let glimpse = &mut self.glimpses[port][(hash >> 58) as usize % PLACES];
        // 0 is the tag of no flow.
        let tag = (hash >> 16) as u32 | 1;
        let is_busy = glimpse.tag == tag && now < glimpse.at.plus(self.silence_ns);
        *glimpse = Glimpse { tag, at: now };
        is_busy
    }

    fn forget(&mut self, port: usize, leaf: usize) {
        self.flows[port * self.leaves + leaf] = None;
        self.available[port].remove(leaf);
    }

    /// As [`crate::announced::Announcements::keep_where`].
    pub(super) fn keep_where(&mut self, is_kept: impl Fn(Address, LeafId) -> bool) {
        for place in 0..self.flows.len() {
            let leaf = place % self.leaves;
            let flow = self.flows[place];
            if flow.is_some_and(|flow| !is_kept(flow.key.destination, LeafId(leaf as u16))) {
                self.forget(place / self.leaves, leaf);
            }
        }
    }

    /// Flows end after another silence from now on.
    pub(super) fn set_silence(&mut self, silence_ns: u64) {
        self.silence_ns = silence_ns;
    }

    /// Forgets what has ended, port by port: it must not be asked for in every tick.
    fn sweep(&mut self, now: Nanos) {
        let Some(&leaves) = self.available.get(self.sweep) else {
            return;
        };
        let port = self.sweep;
        for leaf in leaves.iter() {
            let flow = &self.flows[port * self.leaves + leaf];
            if flow.is_none_or(|flow| now >= flow.seen_at.plus(self.silence_ns)) {
                self.forget(port, leaf);
            }
        }
        self.sweep = (port + 1) % self.available.len();
    }
}

impl Source {
    /// Packets until the next one is looked at.
    pub(super) fn sample_every(finder: Option<&Finder>) -> u32 {
        // Without a finder it comes round every few thousand million packets, and nothing happens.
        finder.map_or(u32::MAX, |_| SAMPLE_EVERY)
    }

    /// Looks at a data packet of a host that [`Source::classify`] has called [`Class::Sampled`].
    #[cold]
    pub(crate) fn sample(
        &mut self,
        now: Nanos,
        port: PortId,
        leaf: LeafId,
        (key, psn): (FlowKey, Psn),
        dress: Dress,
        counters: &mut Counters,
    ) {
        self.until_sample = Source::sample_every(self.finder.as_deref());
        let is_announced = self.announced.get(port, leaf);
        let Some(finder) = &mut self.finder else {
            return;
        };
        let place = port.index() * finder.leaves + leaf.index();
        // What hosts announce is measured by what they say.
        let is_announced = is_announced.is_some_and(|flow| flow.key == key);
        if is_announced || place >= finder.flows.len() || !finder.is_busy(now, port.index(), &key) {
            return;
        }
        let slot = &mut finder.flows[place];
        if slot.is_none_or(|old| old.key != key) {
            counters.note(Note::FlowsFound);
        }
        *slot = Some(Found {
            key,
            dress,
            psn,
            seen_at: now,
        });
        finder.available[port.index()].insert(leaf.index());
    }

    /// Opens the next window, if none is open and a flow waits for one: an announced flow, or else
    /// one that was found. `usable` has the usable spines by destination.
    pub(crate) fn open_next(
        &mut self,
        now: Nanos,
        usable: &[SpineSet],
        counters: &mut Counters,
    ) -> Option<&Open> {
        if let Some((port, leaf)) = self.select(now, |to| usable[to.index()].len()) {
            return self.open(now, port, leaf, usable[leaf.index()], counters);
        }
        if self.is_off {
            return None;
        }
        let (port, leaf) = self.select_found(now, usable)?;
        self.open_found(now, port, leaf, usable[leaf.index()], counters)
    }

    fn select_found(&mut self, now: Nanos, usable: &[SpineSet]) -> Option<(PortId, LeafId)> {
        if self.open.is_some() || self.closing.is_full() {
            return None;
        }
        let colour = self.next_epoch() & 1;
        let (closing, announced) = (&self.closing, &self.announced);
        let finder = self.finder.as_deref_mut()?;
        finder.sweep(now);
        let (flows, leaves, silence_ns) = (&finder.flows, finder.leaves, finder.silence_ns);
        finder.turns.next(&finder.available, |port, leaf| {
            let (to, from) = (LeafId(leaf as u16), PortId(port as u16));
            flows[port * leaves + leaf].is_some_and(|flow| {
                let is_announced = announced.get(from, to).is_some_and(|a| a.key == flow.key);
                now < flow.seen_at.plus(silence_ns)
                    && !is_announced
                    && !usable[leaf].is_empty()
                    && !closing.rests(&flow.key, colour)
            })
        })
    }

    fn open_found(
        &mut self,
        now: Nanos,
        port: PortId,
        leaf: LeafId,
        usable: SpineSet,
        counters: &mut Counters,
    ) -> Option<&Open> {
        let finder = self.finder.as_deref_mut()?;
        let flow = finder.flows[port.index() * finder.leaves + leaf.index()]?;
        finder.turns.take(port, leaf);
        let silence_ns = finder.silence_ns;
        let packets = self.window_packets(now, &flow.key, u64::MAX, usable);
        let responses = match flow.key.space {
            Space::Requests => 0,
            Space::Responses => FLAG_RESPONSES,
        };
        let header = Header {
            flags: FLAG_FIRST_UNKNOWN | responses,
            destination_qp: flow.key.qpn,
            first_psn: flow.psn,
            packets,
            // A leaf that is restarted counts its epochs from 1 again; this it does not repeat.
            flow_id: mix(&[now.0, u64::from(flow.psn.number())]),
            ..blank().header
        };
        let mut open = self.begin(now, (port, leaf), flow.key, usable, counters)?;
        open.window.header = header;
        open.window.dress = flow.dress;
        open.track = Track::new(None, packets);
        open.idle_ns_max = silence_ns;
        open.is_found = true;
        Some(self.open.insert(open))
    }

    /// The window of a found flow is closed.
    pub(super) fn close_found(&mut self, open: &Open, is_silent: bool) {
        let Some(finder) = &mut self.finder else {
            return;
        };
        let (port, leaf) = (open.port.index(), open.window.leaf.index());
        // Another flow may have taken its place meanwhile.
        if let Some(flow) = &mut finder.flows[port * finder.leaves + leaf]
            && flow.key == open.window.key
        {
            flow.seen_at = flow.seen_at.max(open.last_at);
            flow.dress = open.window.dress;
            if is_silent {
                finder.forget(port, leaf);
            }
        }
    }
}

impl Class {
    /// The class of a packet that is not measured, when `left` more come before the next look.
    #[inline(always)]
    pub(super) fn unmeasured(left: &mut u32) -> Class {
        *left = left.wrapping_sub(1);
        if *left == 0 {
            Class::Sampled
        } else {
            Class::Plain
        }
    }
}
