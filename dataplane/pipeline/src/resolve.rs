//! ARP and neighbour discovery: what a leaf answers its hosts, learns from them and asks them.
//!
//! A leaf is the gateway of its hosts: it answers for every address of the fabric that is not
//! behind the asking port itself. It learns on host ports alone, and only addresses that belong to
//! the port; a configured MAC address is never changed.

use packet::ethernet;
use packet::ndp::{self, Discovery};
use packet::{Address, MacAddr, Parsed, arp};

use crate::config::PortKind;
use crate::counters::Note;
use crate::drop::DropReason;
use crate::forward::{Decision, Way, rewrite};
use crate::neighbor::Learned;
use crate::route::NextHop;
use crate::split::Notice;
use crate::switch::Switch;
use crate::token::{Sink, Token};
use crate::types::{Nanos, PortId};

/// Priority of what is said to hosts about addresses.
const PRIORITY: u8 = 0;

/// Where an address is, seen from a host port.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// Behind that port itself.
    This,
    /// The switch's own.
    Own,
    /// Behind another port or leaf.
    Other,
    /// Nowhere in the fabric.
    Nobody,
}

impl<T: Token> Switch<T> {
    /// Whether an address belongs to a host port: to one of its hosts, or to its prefix.
    #[inline(always)]
    pub(crate) fn belongs_to(&self, address: Address, port: usize) -> bool {
        match self.routes.lookup(address) {
            Some(NextHop::Host(host)) => self.hosts[usize::from(host)].port == port,
            Some(NextHop::Port(owner)) => usize::from(owner) == port && !self.gateway.has(address),
            Some(NextHop::Leaf(_) | NextHop::Spine(_)) | None => false,
        }
    }

    fn whose(&self, address: Address, port: usize) -> Whose {
        if self.gateway.has(address) || address == ndp::link_local(self.ports[port].mac()) {
            Whose::Own
        } else if self.belongs_to(address, port) {
            Whose::This
        } else if self.routes.lookup(address).is_some() {
            Whose::Other
        } else {
            Whose::Nobody
        }
    }

    fn learn<S: Sink<T>>(
        &mut self,
        now: Nanos,
        port: usize,
        (address, mac): (Address, MacAddr),
        sink: &mut S,
    ) {
        let is_station = !mac.is_group() && mac != MacAddr::default();
        // Only what is behind the port without a configured MAC address can be learned.
        let is_learned = matches!(self.routes.lookup(address), Some(NextHop::Port(_)))
            && self.belongs_to(address, port);
        if !is_learned || !is_station || mac == self.ports[port].mac() {
            return;
        }
        sink.notice(Notice::Neighbor {
            port: PortId(port as u16),
            address,
            mac,
        });
        match self.learn_neighbor(now, port, address, mac) {
            Learned::Known => {}
            Learned::Full => self.counters.note(Note::NeighborsFull),
        }
    }

    /// Takes a MAC address that a host has told to this instance of the switch or to another.
    pub(crate) fn learn_neighbor(
        &mut self,
        now: Nanos,
        port: usize,
        address: Address,
        mac: MacAddr,
    ) -> Learned {
        let before = self.gateway.neighbors.fresh(address);
        let learned = self.gateway.neighbors.learn(now, port, address, mac);
        // What is known of flows to this port may name another MAC address.
        if learned == Learned::Known && before.is_none_or(|(before, _)| before != mac) {
            let version = &mut self.ports[port].version;
            *version = version.wrapping_add(1);
        }
        learned
    }

    /// The MAC address of a host behind a port that has to learn it; asked for when needed, in the
    /// VLAN of the packet that is to go there: `tags` are that packet's own.
    pub(crate) fn reach<S: Sink<T>>(
        &mut self,
        now: Nanos,
        (port, tags): (usize, &[u8]),
        address: Address,
        sink: &mut S,
    ) -> Option<MacAddr> {
        let way = self.gateway.neighbors.way(now, port, address);
        if way.ask {
            self.ask((port, tags), address, way.mac, sink);
        }
        way.mac
    }

    /// To a host whose MAC address is learned, or to the switch itself, whose address lies in the
    /// port's prefix.
    #[inline(never)]
    pub(crate) fn deliver_learned<S: Sink<T>>(
        &mut self,
        now: Nanos,
        (in_port, port): (usize, u16),
        frame: &mut [u8],
        parsed: &Parsed,
        sink: &mut S,
    ) -> Result<Decision, DropReason> {
        if self.gateway.has(parsed.destination) {
            return self.take_local(now, frame, parsed, sink);
        }
        let port = usize::from(port);
        let tags = ethernet::tags(frame, usize::from(parsed.network));
        let mac = self.reach(now, (port, tags), parsed.destination, sink);
        let mac = mac.ok_or(DropReason::UnresolvedNeighbor)?;
        if let Some((_, until)) = self.gateway.neighbors.fresh(parsed.destination) {
            self.learn_port(in_port, frame, parsed, (port, mac), until);
        }
        rewrite(frame, parsed, mac, self.ports[port].mac());
        Ok(Decision::Forward(Way::plain(
            port,
            self.priority_of(frame, parsed),
        )))
    }

    /// Asks a host port who has `target`; `known` alone, if it had it last. The question goes in the
    /// VLAN that `tags` name: there the host listens, since there it is to be reached.
    fn ask<S: Sink<T>>(
        &mut self,
        (port, tags): (usize, &[u8]),
        target: Address,
        known: Option<MacAddr>,
        sink: &mut S,
    ) {
        let mac = self.ports[port].mac();
        let own = self.gateway.address_towards(target);
        let len = match target.as_v4() {
            Some(_) => arp::FRAME_LEN,
            None => ndp::FRAME_LEN,
        };
        let Some(mut token) = sink.alloc(tags.len() + len) else {
            self.counters.note(Note::MessagesUnsent);
            return;
        };
        // Written without tags, which then take the place of the addresses that move to the front.
        let frame = &mut token.header_mut()[tags.len()..];
        if let Some(target) = target.as_v4() {
            let to = known.unwrap_or(MacAddr::BROADCAST);
            let sender = own.and_then(Address::as_v4).unwrap_or(0);
            arp::write_request(frame, to, mac, sender, target);
        } else {
            let source = self.gateway.discovery_address(target, mac);
            ndp::write_solicitation(frame, known, mac, source, target);
        }
        ethernet::put_tags(token.header_mut(), tags);
        self.counters.note(Note::NeighborsAsked);
        self.counters.generated += 1;
        self.enqueue(port, PRIORITY, token, sink);
    }

    /// Takes an ARP packet: learns from it, and answers a request for what is elsewhere.
    #[inline(never)]
    pub(crate) fn answer_arp<S: Sink<T>>(
        &mut self,
        now: Nanos,
        in_port: usize,
        frame: &mut [u8],
        parsed: &Parsed,
        sink: &mut S,
    ) -> Result<Decision, DropReason> {
        let at = usize::from(parsed.network);
        let port = self.ports[in_port];
        let asked = match port.kind {
            PortKind::Host => arp::read(frame, at).ok_or(DropReason::ArpIgnored)?,
            PortKind::Fabric(_) => return Err(DropReason::ArpIgnored),
        };
        // A probe asks whether an address is taken before anybody uses it (RFC 5227, 2.1.1): it
        // has no sender, and teaches nothing.
        let is_probe = asked.is_request && asked.sender == Address::v4(0);
        if !is_probe {
            if !self.belongs_to(asked.sender, in_port) {
                return Err(DropReason::SpoofedSource);
            }
            self.learn(now, in_port, (asked.sender, asked.sender_mac), sink);
        }
        if !asked.is_request {
            return Ok(Decision::Consume);
        }
        match self.whose(asked.target, in_port) {
            Whose::Own | Whose::Other => {
                arp::answer(frame, at, port.mac());
                self.counters.note(Note::ArpAnswered);
                Ok(Decision::Reply {
                    port: in_port,
                    priority: PRIORITY,
                })
            }
            Whose::This | Whose::Nobody => Err(DropReason::ArpIgnored),
        }
    }

    /// Takes a packet of neighbour discovery from a host port; it never goes further.
    #[inline(never)]
    pub(crate) fn take_discovery<S: Sink<T>>(
        &mut self,
        now: Nanos,
        in_port: usize,
        frame: &[u8],
        parsed: &Parsed,
        sink: &mut S,
    ) -> Result<Decision, DropReason> {
        match ndp::read(frame, parsed) {
            Some(Discovery::Solicitation { target, source_mac }) => {
                let from = parsed.source;
                // A host may ask from its link-local address as well, which teaches nothing.
                let is_probe = from == Address(0);
                if self.belongs_to(from, in_port) {
                    if let Some(mac) = source_mac {
                        self.learn(now, in_port, (from, mac), sink);
                    }
                } else if !is_probe && !ndp::is_link_local(from) {
                    return Err(DropReason::SpoofedSource);
                }
                let is_own = match self.whose(target, in_port) {
                    Whose::Own => true,
                    Whose::Other => false,
                    Whose::This | Whose::Nobody => return Err(DropReason::DiscoveryIgnored),
                };
                self.answer_solicitation(in_port, frame, parsed, target, is_own, sink);
                Ok(Decision::Consume)
            }
            Some(Discovery::Advertisement { target, mac }) => {
                if !self.belongs_to(target, in_port) {
                    return Err(DropReason::SpoofedSource);
                }
                if let Some(mac) = mac {
                    self.learn(now, in_port, (target, mac), sink);
                }
                Ok(Decision::Consume)
            }
            Some(Discovery::RouterSolicitation) => {
                self.counters.note(Note::RouterSolicitations);
                Err(DropReason::DiscoveryIgnored)
            }
            None => Err(DropReason::DiscoveryIgnored),
        }
    }

    fn answer_solicitation<S: Sink<T>>(
        &mut self,
        in_port: usize,
        frame: &[u8],
        parsed: &Parsed,
        target: Address,
        is_own: bool,
        sink: &mut S,
    ) {
        let link = &frame[..usize::from(parsed.network)];
        let Some(mut token) = sink.alloc(link.len() + ndp::PACKET_LEN) else {
            self.counters.note(Note::MessagesUnsent);
            return;
        };
        let mac = self.ports[in_port].mac();
        // Who detects duplicates has no address yet: all nodes of the port hear the answer.
        let (destination, to) = if parsed.source == Address(0) {
            (ndp::ALL_NODES, ndp::multicast_mac(ndp::ALL_NODES))
        } else {
            (parsed.source, MacAddr::read(frame, ethernet::SOURCE))
        };
        let source = if is_own {
            target
        } else {
            self.gateway.discovery_address(destination, mac)
        };
        let answer = ndp::Answer {
            target,
            mac,
            source,
            destination,
            is_own,
        };
        ndp::write_advertisement(token.header_mut(), link, to, &answer);
        self.counters.note(Note::DiscoveryAnswered);
        self.counters.generated += 1;
        self.enqueue(in_port, PRIORITY, token, sink);
    }
}
