//! A switch on several lcores: one instance on each, which together are the switch.
//!
//! An instance takes the packets whose addresses belong to its lcore: an announcement, its flow and
//! its close carry one pair of addresses and so meet on one instance. Each egress port has one
//! owner among them; the others hand packets over ([`crate::port`] tells by what they decide). What
//! only one instance hears, all are told ([`Notice`]); and of all windows of a leaf one is open at a
//! time ([`Claim`]). Rings, slots and whose turn it is are the driver's.

use packet::{Address, MacAddr};

use crate::counters::{Counters, PortCounters};
use crate::drop::DropReason;
use crate::port::PRIORITIES;
use crate::switch::Switch;
use crate::token::{Sink, Token};
use crate::types::{LeafSet, Nanos, PortId, SpineId};

/// What one instance of a switch has heard and all must know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Notice {
    /// A spine has told which leaves it reaches.
    LinkState {
        /// The spine.
        spine: SpineId,
        /// The leaves.
        reaches: LeafSet,
    },
    /// A host has told its MAC address.
    Neighbor {
        /// The port that it is behind.
        port: PortId,
        /// Its address.
        address: Address,
        /// Its MAC address.
        mac: MacAddr,
    },
}

/// Whether an instance of a leaf may open a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Claim {
    /// It may: it is the whole leaf, and counts its windows itself.
    Own,
    /// It may, and keeps the slot until it gives it back.
    Granted {
        /// The number of the leaf's latest window.
        epoch: u32,
    },
    /// Another instance has it.
    Taken,
}

impl<T: Token> Switch<T> {
    /// Takes over what another instance has heard.
    pub fn take_notice<S: Sink<T>>(&mut self, now: Nanos, notice: Notice, sink: &mut S) {
        match notice {
            Notice::LinkState { spine, reaches } => self.spine_heard(now, spine, reaches, sink),
            Notice::Neighbor { port, address, mac } => {
                let port = port.index();
                // A full table is counted where the host was heard.
                self.learn_neighbor(now, port, address, mac);
            }
        }
    }

    /// The next packet that waits for the owner of `port`: for its ring, with its priority and
    /// length.
    #[inline]
    pub fn take_staged(&mut self, port: PortId) -> Option<(T, u8, u32)> {
        let staged = self.exit.queues.take_staged(port.index())?;
        self.counters.queued -= 1;
        Some(staged)
    }

    /// Queues on a port that this instance owns what another has admitted there.
    pub fn accept<S: Sink<T>>(&mut self, port: PortId, priority: u8, token: T, sink: &mut S) {
        let len = token.wire_len();
        let refused = if self.exit.queues.is_up(port.index()) {
            match self.exit.queues.accept(port.index(), priority, token, len) {
                Ok(()) => {
                    self.counters.queued += 1;
                    return;
                }
                Err(token) => (token, DropReason::QueueMemory),
            }
        } else {
            (token, DropReason::LinkDown)
        };
        // It was counted as queued on this port, and ends there.
        self.exit.queues.count_flushed(port.index());
        self.counters.drops[refused.1.index()] += 1;
        sink.discard(refused.0, refused.1);
    }

    /// How many packets this instance can accept.
    pub fn room(&self) -> usize {
        self.exit.queues.free()
    }

    /// Bytes in each queue of `port`, the lowest priority first.
    pub fn queues_bytes(&self, port: PortId) -> [u64; PRIORITIES] {
        self.exit.queues.queues_bytes(port.index())
    }

    /// Sets what is ahead on a port of another instance: queued there, or on its way.
    pub fn set_depths(&mut self, port: PortId, beyond: &[u64; PRIORITIES]) {
        self.exit.queues.set_depths(port.index(), beyond);
    }

    /// Whether packets to a port of another instance are refused (`hand-off-full`) because too many
    /// wait for it.
    pub fn set_choked(&mut self, port: PortId, is_choked: bool) {
        self.exit.queues.set_choked(port.index(), is_choked);
    }

    /// The largest IP packet that `port` takes, in bytes.
    pub fn mtu(&self, port: PortId) -> u32 {
        self.exit.queues.mtu(port.index())
    }

    /// Packets queued on `port`, or waiting for its owner.
    pub fn queued(&self, port: PortId) -> u32 {
        self.exit.queues.queued(port.index())
    }

    /// Drops what `port` has received and the driver cannot bring to the instance it belongs to.
    pub fn ingress_refused<S: Sink<T>>(
        &mut self,
        port: PortId,
        token: T,
        reason: DropReason,
        sink: &mut S,
    ) {
        self.counters.rx += 1;
        let bytes = u64::from(token.wire_len());
        self.ports[port.index()].count_received(1, bytes);
        self.counters.drops[reason.index()] += 1;
        sink.discard(token, reason);
    }
}

/// The counters of all instances of one switch, added up.
pub fn sum<'a, T: Token + 'a>(parts: impl Iterator<Item = &'a Switch<T>>) -> Whole {
    let mut whole = Whole::default();
    for part in parts {
        whole.counters.add(part.counters());
        let ports = (0..part.ports_len()).map(|port| PortId(port as u16));
        whole.ports.resize(part.ports_len(), Default::default());
        for ((counters, queued), port) in whole.ports.iter_mut().zip(ports) {
            counters.add(&part.port_counters(port));
            *queued += u64::from(part.queued(port));
        }
    }
    whole
}

/// A whole switch.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Whole {
    /// Its counters.
    pub counters: Counters,
    /// Counters of each port, and packets queued there.
    pub ports: Vec<(PortCounters, u64)>,
}

impl Whole {
    /// Both conservation laws: of the switch and of every port. Nothing may be in rings.
    pub fn is_conserved(&self) -> bool {
        let of_port =
            |(c, queued): &(PortCounters, u64)| c.enqueued == c.tx_packets + c.flushed + queued;
        self.counters.is_conserved() && self.ports.iter().all(of_port)
    }
}
