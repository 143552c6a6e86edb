//! What a switch says by ICMP: echo replies for its own addresses, and errors about packets that
//! it dropped. What leaves by each port is bounded by a token bucket of that port.
//!
//! `ping` and `traceroute` need this, and nothing else does: a packet that is forwarded never
//! comes here.

use packet::ethernet;
use packet::icmp::{self, Error};
use packet::{MacAddr, Parsed, ip, parse};

use crate::counters::Note;
use crate::drop::DropReason;
use crate::forward::{Decision, Way, rewrite};
use crate::route::NextHop;
use crate::spray::flow_hash;
use crate::switch::{State, Switch};
use crate::token::{Sink, Token};
use crate::types::{Nanos, SpineId};

impl<T: Token> Switch<T> {
    /// A packet to the switch itself, or one that no route leads on: an echo request becomes its
    /// reply in place, whatever its length; nothing else is served.
    #[inline(never)]
    pub(crate) fn take_local<S: Sink<T>>(
        &mut self,
        now: Nanos,
        frame: &mut [u8],
        parsed: &Parsed,
        sink: &mut S,
    ) -> Result<Decision, DropReason> {
        if !self.gateway.has(parsed.destination) {
            return Err(DropReason::NoRoute);
        }
        if !icmp::is_echo_request(frame, parsed) || !icmp::may_be_answered(frame, parsed) {
            return Err(DropReason::NoService);
        }
        let Some((port, mac)) = self.way_back(now, frame, parsed, sink) else {
            self.counters.note(Note::IcmpUnsent);
            return Ok(Decision::Consume);
        };
        if !self.gateway.may_answer(now, port) {
            self.counters.note(Note::IcmpRateLimited);
            return Ok(Decision::Consume);
        }
        icmp::answer_echo(frame, parsed);
        ethernet::set_addresses(frame, mac, self.ports[port].mac());
        self.counters.note(Note::EchoAnswered);
        let priority = self.priority_of(frame, parsed);
        Ok(Decision::Reply { port, priority })
    }

    /// Drops a packet that came in, and tells its sender why if that is something to be told.
    #[cold]
    pub(crate) fn refuse<S: Sink<T>>(
        &mut self,
        now: Nanos,
        token: T,
        reason: DropReason,
        sink: &mut S,
    ) {
        self.counters.drops[reason.index()] += 1;
        let error = match reason {
            DropReason::TtlExpired => Some(Error::TimeExceeded),
            DropReason::NoRoute => Some(Error::NoRoute),
            DropReason::NoService => Some(Error::NoPort),
            // All others are silent: damaged, forged or unwanted packets, and congestion.
            DropReason::Runt
            | DropReason::MultiSegment
            | DropReason::Oversize
            | DropReason::BadFcs
            | DropReason::UnknownEthertype
            | DropReason::RoceV1
            | DropReason::BadIpHeader
            | DropReason::Truncated
            | DropReason::BadUdpLength
            | DropReason::BthCut
            | DropReason::TooManyExtensions
            | DropReason::NotForUs
            | DropReason::Multicast
            | DropReason::ArpIgnored
            | DropReason::DiscoveryIgnored
            | DropReason::SpoofedSource
            | DropReason::Transit
            | DropReason::UnresolvedNeighbor
            | DropReason::NoUplink
            | DropReason::LinkDown
            | DropReason::TailDrop
            | DropReason::QueueMemory
            | DropReason::HandOffFull
            | DropReason::SpreadFull
            | DropReason::BadMessage
            | DropReason::ForgedMessage
            | DropReason::ReserveFull => None,
        };
        if let Some(error) = error {
            self.send_error(now, token.header(), token.wire_len(), error, sink);
        }
        sink.discard(token, reason);
    }

    /// Tells the sender of a packet that its way has a smaller MTU than that, beside the drop: it is
    /// about to be dropped by the queue of `port`. A switch does not fragment, so an IPv4 packet that
    /// may be is answered alike.
    #[cold]
    pub(crate) fn tell_too_big<S: Sink<T>>(&mut self, port: usize, token: &T, sink: &mut S) {
        let now = self.gateway.ticked_at;
        let mtu = self.exit.queues.mtu(port);
        let (frame, len) = (token.header(), token.wire_len());
        self.send_error(now, frame, len, Error::TooBig { mtu }, sink);
    }

    /// To a spine itself: over the one uplink that leads to it.
    #[cold]
    pub(crate) fn send_to_spine(
        &mut self,
        spine: SpineId,
        frame: &mut [u8],
        parsed: &Parsed,
    ) -> Result<Decision, DropReason> {
        let State::Leaf(leaf) = &self.state else {
            return Err(DropReason::NoRoute);
        };
        let port = leaf.uplinks[spine.index()];
        let out = self.ports.get(port).ok_or(DropReason::LinkDown)?;
        rewrite(frame, parsed, out.peer_mac(), out.mac());
        let priority = self.priority_of(frame, parsed);
        Ok(Decision::Forward(Way::plain(port, priority)))
    }

    fn send_error<S: Sink<T>>(
        &mut self,
        now: Nanos,
        frame: &[u8],
        wire_len: u32,
        error: Error,
        sink: &mut S,
    ) {
        // Parsed once more: it was refused somewhere behind the parser.
        let Ok(parsed) = parse(frame, wire_len as usize, self.message_port) else {
            return;
        };
        // That nothing listens is told to UDP alone, whose traceroute ends by it.
        let is_told = error != Error::NoPort || parsed.protocol == ip::UDP;
        let own = self.gateway.address_towards(parsed.source);
        let (true, Some(own)) = (is_told && icmp::may_be_answered(frame, &parsed), own) else {
            return;
        };
        let Some((port, mac)) = self.way_back(now, frame, &parsed, sink) else {
            self.counters.note(Note::IcmpUnsent);
            return;
        };
        if !self.gateway.may_answer(now, port) {
            self.counters.note(Note::IcmpRateLimited);
            return;
        }
        let Some(mut token) = sink.alloc(icmp::error_len(frame, &parsed)) else {
            self.counters.note(Note::IcmpUnsent);
            return;
        };
        let macs = (mac, self.ports[port].mac());
        // Answered from the address that was asked, if it is ours.
        let source = if error == Error::NoPort {
            parsed.destination
        } else {
            own
        };
        icmp::write_error(token.header_mut(), frame, &parsed, error, source, macs);
        self.counters.note(Note::IcmpErrorsSent);
        self.counters.generated += 1;
        let priority = self.priority_of(frame, &parsed);
        self.enqueue(port, priority, token, sink);
    }

    /// Where an answer to a packet goes: the egress port, and the MAC address there.
    fn way_back<S: Sink<T>>(
        &mut self,
        now: Nanos,
        frame: &[u8],
        parsed: &Parsed,
        sink: &mut S,
    ) -> Option<(usize, MacAddr)> {
        let to = parsed.source;
        let port = match self.routes.lookup(to)? {
            NextHop::Host(host) => {
                let host = &self.hosts[usize::from(host)];
                return Some((host.port, host.mac));
            }
            NextHop::Port(port) => {
                let port = usize::from(port);
                let tags = ethernet::tags(frame, usize::from(parsed.network));
                let mac = self.reach(now, (port, tags), to, sink);
                return mac.map(|mac| (port, mac));
            }
            NextHop::Leaf(to) => match &self.state {
                State::Leaf(leaf) => {
                    let hash = flow_hash(parsed.destination.0, parsed.source.0, 0);
                    leaf.sprayer.pin(to, hash)?.port()
                }
                State::Spine(spine) => spine.downlinks[to.index()],
            },
            // A switch asks for nothing.
            NextHop::Spine(_) => return None,
        };
        self.ports.get(port).map(|p| (port, p.peer_mac()))
    }
}
