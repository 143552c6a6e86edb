//! Links that go down and come back.
//!
//! A link that goes down is out at once, and what it had queued takes another way where there is
//! one. A link that comes back is used after a hold-down time: one that flaps would otherwise lose
//! packets, and end a window, with every flap.

use packet::bth::{self, COLOUR, MARK};
use packet::{Kind, ethernet, parse};

use crate::config::{Peer, PortKind};
use crate::counters::Note;
use crate::drop::DropReason;
use crate::forward::hash_of;
use crate::port::MEASURED;
use crate::route::NextHop;
use crate::spray::Uplink;
use crate::switch::{State, Switch};
use crate::token::{Sink, Token};
use crate::types::{Nanos, PortId};

/// Which ports have come back too lately to be used.
pub(crate) struct Holds {
    hold_ns: u64,
    /// Until when each port is held; [`Nanos::NEVER`] when it is not.
    until: Vec<Nanos>,
    /// The first of them to end.
    next_at: Nanos,
}

impl Holds {
    pub(crate) fn new(hold_ns: u64, ports: usize) -> Holds {
        Holds {
            hold_ns,
            until: vec![Nanos::NEVER; ports],
            next_at: Nanos::NEVER,
        }
    }

    pub(crate) fn is_held(&self, port: usize) -> bool {
        self.until[port] != Nanos::NEVER
    }

    fn set(&mut self, port: usize, until: Nanos) {
        self.until[port] = until;
        self.next_at = self.until.iter().copied().min().unwrap_or(Nanos::NEVER);
    }

    fn begin(&mut self, now: Nanos, port: usize) {
        if self.hold_ns > 0 {
            self.set(port, now.plus(self.hold_ns));
        }
    }

    fn end(&mut self, port: usize) {
        self.set(port, Nanos::NEVER);
    }

    /// A port whose time is over, once.
    fn take_due(&mut self, now: Nanos) -> Option<usize> {
        if now < self.next_at || self.next_at == Nanos::NEVER {
            return None;
        }
        let port = self.until.iter().position(|&until| until <= now)?;
        self.end(port);
        Some(port)
    }
}

impl<T: Token> Switch<T> {
    /// The link of `port` went up or down.
    pub fn set_link<S: Sink<T>>(&mut self, now: Nanos, port: PortId, up: bool, sink: &mut S) {
        self.change_link(now, port.index(), up, true, sink);
    }

    /// Drops all that is queued, so that every token is back with its owner.
    pub fn drain<S: Sink<T>>(&mut self, now: Nanos, sink: &mut S) {
        for port in 0..self.ports.len() {
            self.change_link(now, port, false, false, sink);
        }
    }

    /// Gives back to routing the ports whose hold-down is over.
    pub(crate) fn end_holds<S: Sink<T>>(&mut self, now: Nanos, sink: &mut S) {
        while let Some(port) = self.holds.take_due(now) {
            self.link_changed(now, port, sink);
        }
    }

    fn change_link<S: Sink<T>>(
        &mut self,
        now: Nanos,
        index: usize,
        up: bool,
        spreads: bool,
        sink: &mut S,
    ) {
        if self.exit.queues.is_up(index) == up {
            return;
        }
        self.exit.queues.set_up(index, up);
        let kind = self.ports[index].kind;
        // A host has one link: waiting to use it would lose what could be delivered.
        match (up, kind) {
            (true, PortKind::Fabric(_)) => self.holds.begin(now, index),
            (true, PortKind::Host) | (false, _) => self.holds.end(index),
        }
        // What comes over the link is affected by its state alone, not by what routing may use.
        if let (State::Leaf(leaf), PortKind::Fabric(Peer::Spine(spine))) = (&mut self.state, kind) {
            leaf.destination.set_link(spine.index(), up);
        }
        // First routing forgets the link, then its packets are routed again.
        self.link_changed(now, index, sink);
        while let Some((mut token, priority)) = self.exit.queues.flush(index) {
            self.counters.queued -= 1;
            match spreads
                .then(|| self.other_way(&mut token, priority))
                .flatten()
            {
                Some(port) => {
                    if self.enqueue(port, priority, token, sink) {
                        self.counters.note(Note::Resprayed);
                    }
                }
                None => {
                    self.counters.drops[DropReason::LinkDown.index()] += 1;
                    sink.discard(token, DropReason::LinkDown);
                }
            }
        }
    }

    /// The uplink over which a packet goes that was queued on a dead one; its MAC addresses are
    /// set for it. `None` when there is none: on spines and host ports, or when no uplink is left.
    ///
    /// A packet of the measured flow loses its mark: it was counted as sent over the dead uplink,
    /// whose path is void for the window, and must not be counted on another path. A message of
    /// ours ends with its link: it says what went over that path, to whom it cannot come any more.
    fn other_way(&mut self, token: &mut T, priority: u8) -> Option<usize> {
        let State::Leaf(leaf) = &mut self.state else {
            return None;
        };
        let sprayer = &mut leaf.sprayer;
        let wire_len = token.wire_len() as usize;
        let frame = token.header_mut();
        let parsed = parse(frame, wire_len, self.message_port).ok()?;
        let Some(NextHop::Leaf(to)) = self.routes.lookup(parsed.destination) else {
            return None;
        };
        let at = usize::from(parsed.payload);
        let is_sprayed = match parsed.kind {
            Kind::Message => return None,
            Kind::Roce => {
                frame[at + bth::RESV8A] &= !(MARK | COLOUR);
                bth::opcode(frame, at).is_sprayed()
            }
            Kind::Ports | Kind::Plain | Kind::Fragment | Kind::Arp => false,
        };
        let hash = hash_of(frame, &parsed);
        let queues = &self.exit.queues;
        let uplink = if is_sprayed {
            sprayer.choose(
                to,
                priority == MEASURED,
                || hash,
                |uplink: Uplink| queues.depth_bytes(uplink.port(), priority),
            )
        } else {
            sprayer.pin(to, hash)
        };
        let port = uplink?.port();
        let out = &self.ports[port];
        ethernet::set_addresses(frame, out.peer_mac(), out.mac());
        Some(port)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holds_end_one_by_one_and_can_be_cut_short() {
        let mut holds = Holds::new(100, 3);
        assert_eq!(holds.take_due(Nanos(1 << 40)), None);
        holds.begin(Nanos(5), 1);
        holds.begin(Nanos(7), 0);
        holds.begin(Nanos(9), 2);
        holds.end(2);
        assert!(holds.is_held(0) && holds.is_held(1) && !holds.is_held(2));
        assert_eq!(holds.take_due(Nanos(104)), None);
        assert_eq!(holds.take_due(Nanos(105)), Some(1));
        assert_eq!(holds.take_due(Nanos(106)), None);
        assert_eq!(holds.take_due(Nanos(500)), Some(0));
        assert_eq!(holds.take_due(Nanos(500)), None);
        let mut none = Holds::new(0, 1);
        none.begin(Nanos(5), 0);
        assert!(!none.is_held(0), "no hold-down time, no hold-down");
    }
}
