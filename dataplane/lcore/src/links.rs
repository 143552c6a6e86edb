//! All links of a testbed, and at whose end something waits.
//!
//! A fabric of 32 leaves and 32 spines has 2,112 link ends, and in a round of the poll loop most of
//! them have nothing to give. So a link that takes packets is entered at its receiver, whose walk
//! meets those links alone, in the order of its ports: the order that asking all of them would give.

use dpdk::Burst;
use pipeline::Nanos;
use pipeline::busy::Busy;

use crate::wire::Wire;

/// The links of a testbed.
pub struct Links {
    wires: Vec<Wire>,
    /// Per link, who receives from it, and which of the receiver's links it is.
    ends: Vec<(usize, usize)>,
    /// Per receiver, its links that carry something, by place there.
    waiting: Vec<Busy>,
}

impl Links {
    /// None yet, for receivers with so many incoming links each.
    pub fn new(receivers: impl Iterator<Item = usize>) -> Links {
        Links {
            wires: Vec::new(),
            ends: Vec::new(),
            waiting: receivers.map(Busy::new).collect(),
        }
    }

    /// Adds a link that ends at `place` of `receiver`; returns its number.
    pub fn add(&mut self, wire: Wire, receiver: usize, place: usize) -> usize {
        self.wires.push(wire);
        self.ends.push((receiver, place));
        self.wires.len() - 1
    }

    /// The link of a number.
    #[inline]
    pub fn wire(&self, index: usize) -> Option<&Wire> {
        self.wires.get(index)
    }

    /// The link of a number, to receive from it.
    #[inline]
    pub fn wire_mut(&mut self, index: usize) -> Option<&mut Wire> {
        self.wires.get_mut(index)
    }

    /// All of them, in the order in which they were added.
    pub fn all(&self) -> &[Wire] {
        &self.wires
    }

    /// The same, to change them.
    pub fn all_mut(&mut self) -> &mut [Wire] {
        &mut self.wires
    }

    /// Puts a burst of at most [`Wire::room`] packets into a link.
    #[inline]
    pub fn send(&mut self, now: Nanos, index: usize, burst: &mut Burst) {
        if burst.is_empty() {
            return;
        }
        let (receiver, place) = self.ends[index];
        self.waiting[receiver].insert(place);
        self.wires[index].send(now, burst);
    }

    /// The next of a receiver's links that carries something, from place `from` on.
    #[inline]
    pub fn next_waiting(&self, receiver: usize, from: usize) -> Option<usize> {
        self.waiting[receiver].next(from)
    }

    /// Ends a visit: a link that has become empty is not met again until it takes packets.
    #[inline]
    pub fn settle(&mut self, index: usize) {
        if self.wires[index].is_idle() {
            let (receiver, place) = self.ends[index];
            self.waiting[receiver].remove(place);
        }
    }
}
