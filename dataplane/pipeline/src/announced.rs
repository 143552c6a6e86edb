//! Flows that hosts have announced, and whose turn it is to be measured.
//!
//! Each host port has one place for a flow to each destination leaf, so that no host can push out
//! another's. Whose turn it is: [`crate::turn`].

use packet::message::Header;
use packet::{Address, Psn};

use crate::track::{Place, Track};
use crate::turn::Turns;
use crate::types::{FlowKey, LeafId, LeafSet, PortId};
use crate::window::Dress;

/// A flow that a host has announced.
#[derive(Clone, Copy)]
pub struct Announced {
    /// The flow.
    pub key: FlowKey,
    /// The announcement.
    pub header: Header,
    /// What its messages look like.
    pub dress: Dress,
    /// How far it has come.
    pub track: Track,
    /// A data packet of it has passed.
    pub running: bool,
    /// Its window fell silent: it waits until it shows itself again.
    pub is_silent: bool,
}

/// All of them.
pub struct Announcements {
    leaves: usize,
    /// By host port and destination leaf.
    flows: Vec<Option<Announced>>,
    /// Destinations that `flows` has one for, by host port.
    available: Vec<LeafSet>,
    turns: Turns,
}

impl Announcements {
    /// None yet, of hosts behind the first `ports` ports towards `leaves`.
    pub fn new(ports: usize, leaves: usize) -> Announcements {
        Announcements {
            leaves,
            flows: vec![None; ports * leaves],
            available: vec![LeafSet::EMPTY; ports],
            turns: Turns::default(),
        }
    }

    /// Bytes of state, for the documents.
    pub fn state_bytes(&self) -> usize {
        size_of_val(&self.flows[..]) + size_of_val(&self.available[..])
    }

    /// Clears both masks.
    pub fn clear(&mut self) {
        self.turns.clear();
        self.available.fill(LeafSet::EMPTY);
        self.flows.fill(None);
    }

    #[inline(always)]
    fn place(&self, port: PortId, leaf: LeafId) -> usize {
        port.index() * self.leaves + leaf.index()
    }

    /// The flow of `port` to `leaf`; `None` also for a port that is no host's.
    #[inline(always)]
    pub fn get(&self, port: PortId, leaf: LeafId) -> Option<&Announced> {
        self.flows.get(self.place(port, leaf))?.as_ref()
    }

    /// The same, to be changed.
    #[inline(always)]
    pub fn get_mut(&mut self, port: PortId, leaf: LeafId) -> Option<&mut Announced> {
        let place = self.place(port, leaf);
        self.flows.get_mut(place)?.as_mut()
    }

    /// Puts `flow` into the place of `port` and `leaf`.
    pub fn put(&mut self, port: PortId, leaf: LeafId, flow: Announced) {
        let place = self.place(port, leaf);
        if let Some(slot) = self.flows.get_mut(place) {
            *slot = Some(flow);
            self.available[port.index()].insert(leaf.index());
        }
    }

    /// The flow of `port` to `leaf` is over, or taken back.
    pub fn forget(&mut self, port: PortId, leaf: LeafId) {
        let place = self.place(port, leaf);
        self.flows[place] = None;
        self.available[port.index()].remove(leaf.index());
    }

    /// Forgets all flows but those that `is_kept` by destination address and leaf.
    pub fn keep_where(&mut self, is_kept: impl Fn(Address, LeafId) -> bool) {
        for (place, slot) in self.flows.iter_mut().enumerate() {
            let leaf = place % self.leaves;
            if slot.is_some_and(|flow| !is_kept(flow.key.destination, LeafId(leaf as u16))) {
                *slot = None;
                self.available[place / self.leaves].remove(leaf);
            }
        }
    }

    /// Whether there is a flow of `port` to `leaf`.
    #[inline(always)]
    pub fn has(&self, port: PortId, leaf: LeafId) -> bool {
        self.available
            .get(port.index())
            .is_some_and(|available| available.has(leaf.index()))
    }

    /// A counted packet passes that is not measured.
    #[inline(always)]
    pub fn follow(&mut self, port: PortId, leaf: LeafId, key: &FlowKey, psn: Psn) {
        let Some(flow) = self.get_mut(port, leaf).filter(|flow| flow.key == *key) else {
            return;
        };
        let is_over = match flow.track.place(psn) {
            Place::Ahead { step, is_last } => {
                flow.track.advance(psn, step);
                flow.running = true;
                flow.is_silent = false;
                is_last
            }
            Place::Past => true,
            Place::Behind { .. } | Place::Before => false,
        };
        if is_over {
            self.forget(port, leaf);
        }
    }

    /// The flow to measure next, of those that `is_ready` allows: its host port and destination.
    pub fn next(
        &mut self,
        is_ready: impl Fn(LeafId, &Announced) -> bool,
    ) -> Option<(PortId, LeafId)> {
        let (flows, leaves) = (&self.flows, self.leaves);
        self.turns.next(&self.available, |port, leaf| {
            let flow = flows[port * leaves + leaf].as_ref();
            flow.is_some_and(|flow| is_ready(LeafId(leaf as u16), flow))
        })
    }

    /// The flow of `port` to `leaf` is measured now: others come first after it.
    pub fn take_turn(&mut self, port: PortId, leaf: LeafId) {
        self.turns.take(port, leaf);
    }
}
