//! What lies between switches and hosts: links as delays, their faults, and the events under way.
//!
//! A link is not a thing of its own. It is the entry of the port that sends into it: who is at its
//! other end. A frame arrives once it was sent as a whole and has travelled. The few links with
//! faults, or that lead out of the slice, take the slow way.

use config::fabric::OVERHEAD_BYTES;
use pipeline::fault::{Fate, Fault, LinkFaults};
use pipeline::{Nanos, PortId, Switch, Token};

use crate::frame::{Frame, SimSink};
use crate::wheel::Wheel;

/// What an event's word says in its upper three bits; below are its owner (18), a switch's number or,
/// behind those, a host's, and the port (11).
pub(crate) const ARRIVE: u32 = 0 << 29;
pub(crate) const DAMAGED: u32 = 1 << 29;
pub(crate) const DEPART: u32 = 2 << 29;
pub(crate) const HOST_ARRIVE: u32 = 3 << 29;
pub(crate) const HOST_SEND: u32 = 4 << 29;
pub(crate) const HOST_TIMER: u32 = 5 << 29;
pub(crate) const KIND: u32 = 7 << 29;
const PORT_BITS: u32 = 11;
const _: () = assert!(pipeline::busy::PORTS_MAX <= 1 << PORT_BITS);

/// A port of an owner in an event's word.
pub(crate) const fn place(owner: usize, port: usize) -> u32 {
    (owner << PORT_BITS | port) as u32
}

/// Whose an event is, by its word.
#[inline(always)]
pub(crate) const fn owner_of(what: u32) -> usize {
    ((what & !KIND) >> PORT_BITS) as usize
}

/// The owner and the port of an event's word.
#[inline(always)]
pub(crate) const fn of_place(what: u32) -> (usize, usize) {
    (owner_of(what), (what & ((1 << PORT_BITS) - 1)) as usize)
}

/// A departure event is under way for the port.
const PENDING: u32 = 1;
/// The link has faults, may be down, or leads out of the slice.
const SPECIAL: u32 = 2;
/// The link is one to a host.
const TO_HOST: u32 = 4;

/// The sending end of a link.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Out {
    /// The event's word at its other end.
    pub(crate) to: u32,
    flags: u32,
}

impl Out {
    pub(crate) fn to_switch(node: usize, port: usize) -> Out {
        Out {
            to: ARRIVE | place(node, port),
            flags: 0,
        }
    }

    pub(crate) fn to_host(owner: usize) -> Out {
        Out {
            to: HOST_ARRIVE | place(owner, 0),
            flags: TO_HOST,
        }
    }
}

/// A link that does not simply deliver.
pub(crate) struct Special {
    pub(crate) node: usize,
    pub(crate) port: usize,
    /// Nobody is at its other end: it leads out of the slice.
    pub(crate) leads_out: bool,
    pub(crate) list: Vec<Fault>,
    pub(crate) is_cut: bool,
    /// What the switch was told last.
    pub(crate) was_up: bool,
    faults: LinkFaults,
    seed: u64,
    changes: u64,
    last_ns: u64,
    /// Frames that never arrived.
    pub(crate) lost: u64,
    /// Frames that arrived damaged.
    pub(crate) corrupted: u64,
    /// Frames that left the slice.
    pub(crate) left: u64,
}

impl Special {
    pub(crate) fn is_up(&self, now: Nanos) -> bool {
        !self.is_cut && self.faults.is_up(now)
    }

    /// Gives the link other faults, with chances of their own.
    pub(crate) fn set(&mut self, list: Vec<Fault>) {
        self.changes += 1;
        self.faults = LinkFaults::new(&list, self.seed ^ self.changes.rotate_left(32));
        self.list = list;
    }
}

/// A switch and where its ports lead.
pub(crate) struct Node {
    pub(crate) switch: Switch<Frame>,
    pub(crate) out: Vec<Out>,
}

/// Everything between the nodes.
pub(crate) struct Net {
    pub(crate) wheel: Wheel,
    /// Owners of events: so many switches, then the hosts.
    pub(crate) switches: usize,
    pub(crate) sink: SimSink,
    pub(crate) hops: u64,
    pub(crate) specials: Vec<Special>,
    propagation_ns: u64,
    /// Nanoseconds per byte, times 2^32, of links between switches and to hosts.
    byte_ns_q32: [u64; 2],
}

impl Net {
    /// For so many switches and hosts, and links of such a length and rates.
    pub(crate) fn new(
        owners: [usize; 2],
        propagation_ns: u64,
        fabric_bps: u64,
        host_bps: u64,
    ) -> Net {
        let of = |bps: u64| ((8_000_000_000u128 << 32) / u128::from(bps.max(1))) as u64;
        Net {
            wheel: Wheel::new(owners[0] + owners[1], propagation_ns),
            switches: owners[0],
            sink: SimSink::default(),
            hops: 0,
            specials: Vec::new(),
            propagation_ns,
            byte_ns_q32: [of(fabric_bps), of(host_bps)],
        }
    }

    /// When a frame of such a length, whose first bit is sent now, is there as a whole.
    #[inline(always)]
    fn arrival_ns(&self, now: Nanos, wire_len: u32, to_host: bool) -> u64 {
        // A byte at the slowest rate, 1 Mbit/s, has 45 bits, a frame's length 17.
        let bytes = u64::from(wire_len + OVERHEAD_BYTES);
        let sent_ns = (bytes * self.byte_ns_q32[usize::from(to_host)]) >> 32;
        now.0 + sent_ns + self.propagation_ns
    }

    /// A host sends a frame towards its leaf.
    #[inline(always)]
    pub(crate) fn send_from_host(&mut self, now: Nanos, to: u32, frame: Frame) {
        self.hops += 1;
        let at_ns = self.arrival_ns(now, frame.wire_len(), true);
        self.wheel.insert(at_ns, to, Some(frame));
    }

    #[inline(always)]
    fn send(&mut self, now: Nanos, node: usize, port: usize, out: Out, frame: Frame) {
        self.hops += 1;
        let at_ns = self.arrival_ns(now, frame.wire_len(), out.flags & TO_HOST != 0);
        if out.flags & SPECIAL != 0 {
            return self.send_special(at_ns, node, port, out, frame);
        }
        self.wheel.insert(at_ns, out.to, Some(frame));
    }

    #[cold]
    fn send_special(&mut self, at_ns: u64, node: usize, port: usize, out: Out, mut frame: Frame) {
        let found = self.special(node, port);
        let Some(special) = found.and_then(|index| self.specials.get_mut(index)) else {
            return self.wheel.insert(at_ns, out.to, Some(frame));
        };
        if special.leads_out {
            special.left += 1;
            return self.sink.give(frame);
        }
        let wire_len = frame.wire_len() as usize;
        let mut to = out.to;
        let delay_ns = match special.faults.judge(frame.header(), wire_len) {
            Fate::Lost => {
                special.lost += 1;
                return self.sink.give(frame);
            }
            Fate::Corrupted => {
                special.corrupted += 1;
                to = DAMAGED | (to & !KIND);
                0
            }
            Fate::Marked => {
                packet::ecn::mark(frame.header_mut());
                0
            }
            Fate::Pass { delay_ns } => delay_ns,
        };
        // Behind a delayed one nothing overtakes: a link is first in, first out.
        special.last_ns = special.last_ns.max(at_ns + delay_ns);
        self.wheel.insert(special.last_ns, to, Some(frame));
    }

    /// The place of a special link among [`Net::specials`].
    pub(crate) fn special(&self, node: usize, port: usize) -> Option<usize> {
        let at = |special: &Special| special.node == node && special.port == port;
        self.specials.iter().position(at)
    }

    /// Makes the link of a port special, if it is not yet.
    pub(crate) fn make_special(
        &mut self,
        node: &mut Node,
        place: (usize, usize),
        seed: u64,
    ) -> usize {
        if let Some(index) = self.special(place.0, place.1) {
            return index;
        }
        node.out[place.1].flags |= SPECIAL;
        self.specials.push(Special {
            node: place.0,
            port: place.1,
            leads_out: false,
            list: Vec::new(),
            is_cut: false,
            was_up: true,
            faults: LinkFaults::new(&[], seed),
            seed,
            changes: 0,
            last_ns: 0,
            lost: 0,
            corrupted: 0,
            left: 0,
        });
        self.specials.len() - 1
    }
}

impl Node {
    /// A frame has come in on `port`. One copy for all loops: it has most of `pipeline` in it.
    #[inline(never)]
    pub(crate) fn take(&mut self, now: Nanos, port: PortId, frame: Frame, sink: &mut SimSink) {
        self.switch.ingress(now, port, frame, sink);
    }

    /// Sends what the switch has cut through, then what the ports that were given packets may send now,
    /// and sees to it that the others are come back to.
    #[inline(always)]
    pub(crate) fn wake(&mut self, now: Nanos, index: usize, net: &mut Net) {
        if let Some((port, frame)) = net.sink.take_cut() {
            let out = self.out[port.index()];
            net.send(now, index, port.index(), out, frame);
        }
        while let Some(port) = self.switch.take_woken() {
            if self.out[port.index()].flags & PENDING == 0 {
                self.depart(now, index, port, net);
            }
        }
    }

    /// The port's link may be free.
    #[inline(always)]
    pub(crate) fn depart(&mut self, now: Nanos, index: usize, port: PortId, net: &mut Net) {
        let out = self.out[port.index()];
        if let Some(frame) = self.switch.egress(now, port) {
            net.send(now, index, port.index(), out, frame);
        }
        let next = self.switch.next_departure(port);
        let flags = &mut self.out[port.index()].flags;
        match next {
            Some(at) => {
                *flags |= PENDING;
                let what = DEPART | place(index, port.index());
                net.wheel.insert_own(at.0, what);
            }
            None => *flags &= !PENDING,
        }
    }
}
