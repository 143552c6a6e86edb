//! A packet's way through the switch, top to bottom: parse, classify, route, choose the uplink,
//! mark or count, rewrite, enqueue. Every early exit is a [`DropReason`]. What is addressed to the
//! switch itself goes to [`crate::hear`].

use packet::bth::{self, COLOUR, MARK};
use packet::ethernet;
use packet::message::{self, FLAG_SWITCH, Message, MessageKind};
use packet::{Kind, MacAddr, Parsed, ip, ndp, parse};

use crate::config::{Peer, PortKind};
use crate::counters::Note;
use crate::drop::DropReason;
use crate::port::MEASURED;
use crate::route::NextHop;
use crate::run::Others;
use crate::source::Class;
use crate::spray::{Uplink, flow_hash};
use crate::switch::{Host, Leaf, Spine, State, Switch};
use crate::token::{Sink, Token};
use crate::types::{FlowKey, LeafId, Nanos, PortId, SpineId};
use crate::window::{Dress, WindowName};

/// What becomes of a packet.
pub(crate) enum Decision {
    /// It goes on.
    Forward(Way),
    /// It has become an answer to whoever sent it.
    Reply { port: usize, priority: u8 },
    /// It was for the switch.
    Consume,
}

/// Where a packet goes, and what its fate there is counted as.
pub(crate) struct Way {
    pub(crate) port: usize,
    pub(crate) priority: u8,
    pub(crate) count: Count,
}

impl Way {
    /// One on which nothing is counted.
    pub(crate) fn plain(port: usize, priority: u8) -> Way {
        Way {
            port,
            priority,
            count: Count::Nothing,
        }
    }
}

/// What is counted once the packet is queued, or is not.
pub(crate) enum Count {
    Nothing,
    /// A message between switches, for which there is room beyond a queue's limit.
    Message,
    /// Marked here for `leaf` over `uplink`; `ends` the window.
    Marked {
        leaf: LeafId,
        uplink: Uplink,
        ends: bool,
    },
    /// Marked elsewhere, passing this spine.
    Passing {
        from: usize,
        to: usize,
        colour: usize,
    },
}

impl<T: Token> Switch<T> {
    /// Takes what `port` has received.
    #[inline]
    pub fn ingress_burst<S: Sink<T>>(
        &mut self,
        now: Nanos,
        port: PortId,
        tokens: impl IntoIterator<Item = T>,
        sink: &mut S,
    ) {
        let mut tokens = Others(tokens.into_iter());
        let mut next = tokens.next();
        while let Some(token) = next {
            next = self.take_run(now, port.index(), token, &mut tokens, sink);
        }
    }

    /// Takes one packet that `port` has received.
    #[inline]
    pub fn ingress<S: Sink<T>>(&mut self, now: Nanos, port: PortId, token: T, sink: &mut S) {
        let mut nothing = std::iter::empty();
        let mut next = Some(token);
        while let Some(token) = next {
            next = self.take_run(now, port.index(), token, &mut nothing, sink);
        }
    }

    /// The whole way, which a packet goes whose flow is not known.
    #[inline(never)]
    pub(crate) fn take_unknown<S: Sink<T>>(
        &mut self,
        now: Nanos,
        in_port: usize,
        mut token: T,
        sink: &mut S,
    ) {
        let bytes = u64::from(token.wire_len());
        self.counters.rx += 1;
        self.ports[in_port].count_received(1, bytes);
        let decision = self.decide_any(now, in_port, &mut token, sink);
        self.settle(now, decision, token, sink);
    }

    /// Carries out what was decided.
    fn settle<S: Sink<T>>(
        &mut self,
        now: Nanos,
        decision: Result<Decision, DropReason>,
        token: T,
        sink: &mut S,
    ) {
        match decision {
            Ok(Decision::Forward(way)) => self.forward(now, way, token, sink),
            Ok(Decision::Reply { port, priority }) => {
                self.counters.consumed += 1;
                self.counters.generated += 1;
                self.enqueue(port, priority, token, sink);
            }
            Ok(Decision::Consume) => {
                self.counters.consumed += 1;
                sink.consume(token);
            }
            Err(reason) => self.refuse(now, token, reason, sink),
        }
    }

    /// Takes a packet that `port` has received damaged: its FCS was wrong.
    pub fn ingress_damaged<S: Sink<T>>(&mut self, port: PortId, token: T, sink: &mut S) {
        self.counters.rx += 1;
        let bytes = u64::from(token.wire_len());
        self.ports[port.index()].count_received(1, bytes);
        self.counters.drops[DropReason::BadFcs.index()] += 1;
        sink.discard(token, DropReason::BadFcs);
    }

    fn decide_any<S: Sink<T>>(
        &mut self,
        now: Nanos,
        in_port: usize,
        token: &mut T,
        sink: &mut S,
    ) -> Result<Decision, DropReason> {
        if !token.is_whole() {
            return Err(DropReason::MultiSegment);
        }
        let wire_len = token.wire_len() as usize;
        let frame = token.header_mut();
        let parsed = parse(frame, wire_len, self.message_port)?;
        if parsed.kind == Kind::Arp {
            return self.answer_arp(now, in_port, frame, &parsed, sink);
        }
        self.decide(now, in_port, frame, &parsed, sink)
    }

    fn decide<S: Sink<T>>(
        &mut self,
        now: Nanos,
        in_port: usize,
        frame: &mut [u8],
        parsed: &Parsed,
        sink: &mut S,
    ) -> Result<Decision, DropReason> {
        let port = &self.ports[in_port];
        let to_mac = packet::parse::destination_mac(frame);
        if to_mac.is_group() {
            if port.kind == PortKind::Host && ndp::is_discovery(frame, parsed) {
                return self.take_discovery(now, in_port, frame, parsed, sink);
            }
            return Err(DropReason::Multicast);
        }
        if to_mac != port.mac() && !port.accept_any_mac {
            return Err(DropReason::NotForUs);
        }
        let kind = port.kind;
        self.note_kind(parsed);
        match (kind, &mut self.state) {
            (PortKind::Host, State::Leaf(_)) => {
                self.take_from_host(now, in_port, frame, parsed, sink)
            }
            (PortKind::Fabric(Peer::Spine(spine)), State::Leaf(_)) => {
                self.take_from_spine(now, in_port, spine, frame, parsed, sink)
            }
            (PortKind::Fabric(Peer::Leaf(from)), State::Spine(_)) => {
                self.through_spine(now, in_port, from, frame, parsed, sink)
            }
            // A configuration that was checked has no other combination.
            (PortKind::Host | PortKind::Fabric(_), _) => Err(DropReason::NoRoute),
        }
    }

    fn note_kind(&mut self, parsed: &Parsed) {
        match parsed.kind {
            Kind::Roce => {
                self.counters.note(Note::Roce);
                if parsed.bth.opcode.is_reserved() || parsed.bth.version != 0 {
                    self.counters.note(Note::ReservedOpcode);
                }
            }
            Kind::Fragment => self.counters.note(Note::Fragments),
            Kind::Message | Kind::Ports | Kind::Plain | Kind::Arp => {}
        }
    }

    /// From a host: nothing it says about marks, priorities or switches is believed.
    fn take_from_host<S: Sink<T>>(
        &mut self,
        now: Nanos,
        in_port: usize,
        frame: &mut [u8],
        parsed: &Parsed,
        sink: &mut S,
    ) -> Result<Decision, DropReason> {
        if parsed.kind == Kind::Plain && ndp::is_discovery(frame, parsed) {
            return self.take_discovery(now, in_port, frame, parsed, sink);
        }
        if !self.belongs_to(parsed.source, in_port) {
            return Err(DropReason::SpoofedSource);
        }
        if parsed.kind == Kind::Message {
            return self.host_message(now, in_port, frame, *parsed, sink);
        }
        if parsed.bth.flags & (MARK | COLOUR) != 0 {
            frame[usize::from(parsed.payload) + bth::RESV8A] &= !(MARK | COLOUR);
            self.counters.note(Note::MarksCleared);
        }
        if parsed.ttl <= 1 && !self.gateway.has(parsed.destination) {
            return Err(DropReason::TtlExpired);
        }
        match self.routes.lookup(parsed.destination) {
            Some(NextHop::Host(host)) => self.deliver(in_port, host, frame, parsed),
            Some(NextHop::Leaf(leaf)) => self.send_to_leaf(now, in_port, leaf, frame, parsed, sink),
            Some(NextHop::Port(port)) => {
                self.deliver_learned(now, (in_port, port), frame, parsed, sink)
            }
            Some(NextHop::Spine(spine)) => self.send_to_spine(spine, frame, parsed),
            None => self.take_local(now, frame, parsed, sink),
        }
    }

    /// Towards another leaf: measured or not, over which spine, marked or not.
    fn send_to_leaf<S: Sink<T>>(
        &mut self,
        now: Nanos,
        in_port: usize,
        to: LeafId,
        frame: &mut [u8],
        parsed: &Parsed,
        sink: &mut S,
    ) -> Result<Decision, DropReason> {
        self.learn_leaf(in_port, frame, parsed, to);
        let mut class = self.classify(now, in_port, to, parsed);
        if class == Class::Past {
            self.close_window(now, sink);
            // It may well be the first of the next window.
            class = self.classify(now, in_port, to, parsed);
        } else if class == Class::Sampled {
            self.sample(now, in_port, to, frame, *parsed);
        }
        let asked = self.priority_of(frame, parsed);
        let State::Leaf(leaf) = &mut self.state else {
            return Err(DropReason::NoRoute);
        };
        let Leaf {
            source, sprayer, ..
        } = &mut **leaf;
        let at = usize::from(parsed.payload);
        let is_sprayed = parsed.kind == Kind::Roce && parsed.bth.opcode.is_sprayed();
        let is_measured = matches!(class, Class::Measured { .. });
        let priority = if is_measured { MEASURED } else { asked };
        let (headers, copy) = (&*frame, *parsed);
        let hash = move || hash_of(headers, &copy);
        let queues = &self.exit.queues;
        let uplink = if is_sprayed {
            sprayer.choose(to, is_measured, hash, |uplink: Uplink| {
                queues.depth_bytes(uplink.port(), priority)
            })
        } else {
            sprayer.pin(to, hash())
        };
        let uplink = uplink.ok_or(DropReason::NoUplink)?;
        let mut count = Count::Nothing;
        if let (Class::Measured { mark: true, ends }, Some(open)) = (class, source.window_mut()) {
            frame[at + bth::RESV8A] |= open.mark_bits();
            if open.window.marked == 0 {
                open.window.dress = Dress::of(frame, parsed);
            }
            count = Count::Marked {
                leaf: to,
                uplink,
                ends,
            };
        }
        let port = uplink.port();
        rewrite(
            frame,
            parsed,
            self.ports[port].peer_mac(),
            self.ports[port].mac(),
        );
        Ok(Decision::Forward(Way {
            port,
            priority,
            count,
        }))
    }

    /// What a packet of a host is to the measurement; only data packets are anything to it.
    fn classify(&mut self, now: Nanos, in_port: usize, to: LeafId, parsed: &Parsed) -> Class {
        match &mut self.state {
            State::Leaf(leaf) if parsed.kind == Kind::Roce && parsed.bth.opcode.is_counted() => {
                let key = flow_key(parsed);
                let port = PortId(in_port as u16);
                let psn = parsed.bth.psn;
                leaf.source
                    .classify(now, port, to, &key, psn, &mut self.counters)
            }
            State::Leaf(_) | State::Spine(_) => Class::Plain,
        }
    }

    /// Looks at a packet of a flow that nobody may have announced.
    #[cold]
    #[inline(never)]
    fn sample(&mut self, now: Nanos, in_port: usize, to: LeafId, frame: &[u8], parsed: Parsed) {
        if let State::Leaf(leaf) = &mut self.state {
            let flow = (flow_key(&parsed), parsed.bth.psn);
            let dress = Dress::of(frame, &parsed);
            let port = PortId(in_port as u16);
            (leaf.source).sample(now, port, to, flow, dress, &mut self.counters);
        }
    }

    /// From a spine: counted if marked, then to its host.
    fn take_from_spine<S: Sink<T>>(
        &mut self,
        now: Nanos,
        in_port: usize,
        spine: SpineId,
        frame: &mut [u8],
        parsed: &Parsed,
        sink: &mut S,
    ) -> Result<Decision, DropReason> {
        if parsed.kind == Kind::Message {
            return self.switch_message(now, in_port, spine, frame, *parsed, sink);
        }
        let flags = parsed.bth.flags;
        if flags & (MARK | COLOUR) != 0 {
            frame[usize::from(parsed.payload) + bth::RESV8A] = flags & !(MARK | COLOUR);
            if flags & MARK != 0 && parsed.bth.opcode.is_counted() {
                let colour = usize::from(flags & COLOUR != 0);
                self.count_marked(now, spine, colour, parsed, sink);
            }
        }
        if parsed.ttl <= 1 && !self.gateway.has(parsed.destination) {
            return Err(DropReason::TtlExpired);
        }
        match self.routes.lookup(parsed.destination) {
            Some(NextHop::Host(host)) => self.deliver(in_port, host, frame, parsed),
            Some(NextHop::Port(port)) => {
                self.deliver_learned(now, (in_port, port), frame, parsed, sink)
            }
            Some(NextHop::Leaf(_) | NextHop::Spine(_)) => Err(DropReason::Transit),
            None => self.take_local(now, frame, parsed, sink),
        }
    }

    fn count_marked<S: Sink<T>>(
        &mut self,
        now: Nanos,
        spine: SpineId,
        colour: usize,
        parsed: &Parsed,
        sink: &mut S,
    ) {
        let State::Leaf(leaf) = &mut self.state else {
            return;
        };
        let key = flow_key(parsed);
        let source = || self.routes.leaf_of(key.source);
        let counters = &mut self.counters;
        let Some(row) = leaf.destination.row_of(now, &key, source) else {
            counters.note(Note::FlowTableFull);
            return;
        };
        let (spine, psn) = (spine.index(), parsed.bth.psn);
        if (leaf.destination).count(now, row, spine, colour, psn, counters) {
            self.report_ended(now, sink);
        }
    }

    /// Through a spine: down to the leaf, the marked ones counted by where they come from.
    fn through_spine<S: Sink<T>>(
        &mut self,
        now: Nanos,
        in_port: usize,
        from: LeafId,
        frame: &mut [u8],
        parsed: &Parsed,
        sink: &mut S,
    ) -> Result<Decision, DropReason> {
        let to = match self.routes.lookup(parsed.destination) {
            Some(NextHop::Leaf(to)) if to != from => to,
            Some(NextHop::Leaf(_)) => return Err(DropReason::Transit),
            Some(NextHop::Host(_) | NextHop::Port(_) | NextHop::Spine(_)) | None => {
                return self.take_local(now, frame, parsed, sink);
            }
        };
        let State::Spine(spine) = &mut self.state else {
            return Err(DropReason::NoRoute);
        };
        let Spine {
            counts, downlinks, ..
        } = &mut **spine;
        if parsed.ttl <= 1 {
            return Err(DropReason::TtlExpired);
        }
        let at = usize::from(parsed.payload);
        let mut count = Count::Nothing;
        if parsed.kind == Kind::Message {
            if MacAddr::read(frame, ethernet::SOURCE) != self.ports[in_port].peer_mac() {
                return Err(DropReason::ForgedMessage);
            }
            let payload = frame
                .get_mut(at..usize::from(parsed.end))
                .ok_or(DropReason::BadMessage)?;
            let header = Message::read(payload).ok_or(DropReason::BadMessage)?.header;
            match header.kind {
                MessageKind::Open if header.flags & FLAG_SWITCH != 0 => {
                    counts.open(from.index(), to.index(), WindowName::of(&header));
                }
                MessageKind::Close if header.flags & FLAG_SWITCH != 0 => {
                    let window = WindowName::of(&header);
                    let (from, to) = (from.index(), to.index());
                    if let Some(hop) = counts.close(from, to, window, header.repetition) {
                        message::fill_hop(payload, &hop);
                    }
                }
                MessageKind::Open
                | MessageKind::Close
                | MessageKind::Withdraw
                | MessageKind::LinkState => {
                    return Err(DropReason::BadMessage);
                }
            }
            count = Count::Message;
        } else if parsed.bth.flags & MARK != 0 {
            count = Count::Passing {
                from: from.index(),
                to: to.index(),
                colour: usize::from(parsed.bth.flags & COLOUR != 0),
            };
        }
        let out = downlinks[to.index()];
        let out_port = self.ports.get(out).ok_or(DropReason::LinkDown)?;
        let (peer_mac, mac) = (out_port.peer_mac(), out_port.mac());
        self.learn_port(in_port, frame, parsed, (out, peer_mac), Nanos::NEVER);
        rewrite(frame, parsed, peer_mac, mac);
        let priority = self.priority_of(frame, parsed);
        Ok(Decision::Forward(Way {
            port: out,
            priority,
            count,
        }))
    }

    /// To a host of this leaf.
    fn deliver(
        &mut self,
        in_port: usize,
        host: u16,
        frame: &mut [u8],
        parsed: &Parsed,
    ) -> Result<Decision, DropReason> {
        let Host { mac, port } = self.hosts[usize::from(host)];
        self.learn_port(in_port, frame, parsed, (port, mac), Nanos::NEVER);
        rewrite(frame, parsed, mac, self.ports[port].mac());
        Ok(Decision::Forward(Way::plain(
            port,
            self.priority_of(frame, parsed),
        )))
    }

    /// The priority that a packet asks for; never that of the measured flow.
    pub(crate) fn priority_of(&self, frame: &[u8], parsed: &Parsed) -> u8 {
        let network = usize::from(parsed.network);
        match &self.pcp_priority {
            // The innermost tag is the host's own; its PCP is the upper three bits (802.1Q, 9.6).
            Some(table) if network > ethernet::HEADER_LEN => {
                table[usize::from(frame[network - ethernet::TAG_LEN] >> 5)]
            }
            Some(_) | None => self.dscp_priority[usize::from(parsed.traffic_class >> 2)],
        }
    }

    /// Into the queue; what was marked is counted as sent only if the queue took it.
    #[inline(always)]
    fn forward<S: Sink<T>>(&mut self, now: Nanos, way: Way, token: T, sink: &mut S) {
        if matches!(way.count, Count::Message) {
            self.enqueue_message((way.port, way.priority), token, sink);
            return;
        }
        let queued = self.enqueue(way.port, way.priority, token, sink);
        match (way.count, &mut self.state) {
            (Count::Nothing | Count::Message, _) => {}
            (
                Count::Marked {
                    leaf: to,
                    uplink,
                    ends,
                },
                State::Leaf(leaf),
            ) => {
                if queued {
                    self.counters.note(Note::Marked);
                    leaf.source.count_marked();
                    leaf.sprayer.count_measured(to, uplink.spine());
                } else {
                    self.dropped_here(to, uplink.spine(), sink);
                }
                if ends {
                    self.close_window(now, sink);
                }
            }
            (Count::Passing { from, to, colour }, State::Spine(spine)) => {
                let cell = spine.counts.cell_of(from, to, colour);
                spine.counts.count(cell, 1, u32::from(queued));
                if !queued {
                    self.dropped_passing(from, to, colour, sink);
                }
            }
            (Count::Marked { .. }, State::Spine(_)) | (Count::Passing { .. }, State::Leaf(_)) => {}
        }
    }
}

/// The fields a router changes: both MAC addresses, TTL and its checksum.
#[inline(always)]
pub(crate) fn rewrite(frame: &mut [u8], parsed: &Parsed, to: MacAddr, from: MacAddr) {
    ethernet::set_addresses(frame, to, from);
    let at = usize::from(parsed.network);
    if parsed.is_v6 {
        frame[at + ip::v6::HOP_LIMIT] -= 1;
    } else {
        ip::v4_decrement_ttl(frame, at);
    }
}

#[inline(always)]
fn flow_key(parsed: &Parsed) -> FlowKey {
    FlowKey {
        source: parsed.source,
        destination: parsed.destination,
        qpn: parsed.bth.destination_qp,
        space: parsed.bth.opcode.space(),
    }
}

/// Hash of what keeps a packet on its path: addresses alone for fragments, whose ports are not in
/// every piece; ports and destination QP where there are some.
#[inline(always)]
pub(crate) fn hash_of(frame: &[u8], parsed: &Parsed) -> u64 {
    let at = usize::from(parsed.transport);
    let rest = match parsed.kind {
        Kind::Roce => {
            let qpn = parsed.bth.destination_qp.0;
            u64::from(packet::be::get32(frame, at)) << 24 | u64::from(qpn)
        }
        Kind::Ports | Kind::Message => u64::from(packet::be::get32(frame, at)),
        Kind::Plain | Kind::Fragment | Kind::Arp => 0,
    };
    flow_hash(
        parsed.source.0,
        parsed.destination.0,
        rest ^ u64::from(parsed.protocol) << 56,
    )
}
