//! The short way, of runs: packets that follow each other in a flow that is known
//! ([`crate::known`]). The steps are those of [`crate::forward`], with what was found before
//! instead of lookups and checks; whatever holds for the first of a run because of its words is not
//! asked again for the others.
//!
//! Whatever is out of the ordinary (a mark from a host, no uplink, a TTL that runs out) is left,
//! untouched and uncounted, to the whole way.

use packet::bth::{self, COLOUR, MARK};
use packet::head::{BTH_AT, Head, HeadBytes, Words};
use packet::{Kind, MacAddr, Parsed, ethernet, ip};

use crate::config::PortKind;
use crate::counters::Note;
use crate::known::{Found, RowHint, Toward};
use crate::port::{MEASURED, Queues};
use crate::source::{Class, Part};
use crate::spray::{Depths, flow_hash};
use crate::switch::{Leaf, State, Switch};
use crate::token::{Sink, Token};
use crate::types::{FANOUT_MAX, FlowKey, LeafId, Nanos, PortId};

/// Where mark and colour stand.
const FLAGS_AT: usize = BTH_AT + bth::RESV8A;

/// A run that is about to be taken.
struct Run {
    in_port: usize,
    head: Head,
    words: Words,
    wire_len: u32,
    /// The priority that it asks for.
    priority: u8,
}

impl Run {
    /// The headers of a packet that belongs to it.
    #[inline(always)]
    fn bytes<'a, T: Token>(&self, token: &'a mut T) -> Option<&'a mut HeadBytes> {
        let (is_whole, wire_len) = (token.is_whole(), token.wire_len());
        let bytes = token.header_mut().first_chunk_mut()?;
        (is_whole && self.words.are_of(bytes, wire_len)).then_some(bytes)
    }
}

/// What ends a run.
enum Next<T> {
    /// Whatever comes next, if anything does.
    Token(Option<T>),
    /// A packet that has to go the whole way.
    Unknown(T),
}

impl<T: Token> Switch<T> {
    /// Takes `first` and what belongs to the same run from `rest`; returns the packet behind it.
    #[inline(always)]
    pub(crate) fn take_run<S: Sink<T>>(
        &mut self,
        now: Nanos,
        in_port: usize,
        mut first: T,
        rest: &mut impl Iterator<Item = T>,
        sink: &mut S,
    ) -> Option<T> {
        let next = match self.begin_run(now, in_port, &mut first) {
            Some((run, Toward::Leaf(leaf))) => self.run_to_leaf(now, &run, leaf, first, rest, sink),
            Some((run, Toward::Port(out, macs))) => {
                self.run_to_port(now, &run, (usize::from(out), macs), first, rest, sink)
            }
            None => Next::Unknown(first),
        };
        match next {
            Next::Token(next) => next,
            Next::Unknown(token) => {
                self.take_unknown(now, in_port, token, sink);
                rest.next()
            }
        }
    }

    /// Whether a packet can go the short way, and where.
    #[inline(always)]
    fn begin_run(&mut self, now: Nanos, in_port: usize, token: &mut T) -> Option<(Run, Toward)> {
        let (is_whole, wire_len) = (token.is_whole(), token.wire_len());
        let bytes: &HeadBytes = token.header_mut().first_chunk()?;
        let head = Head::read(bytes, wire_len)?;
        let port = &self.ports[in_port];
        let is_plain = head.opcode.is_sprayed() && !head.opcode.is_reserved();
        if !is_whole || !port.takes(head.link) || head.ttl <= 1 || !is_plain {
            return None;
        }
        let flow = self.known.find(now, &head, port.scope)?;
        let toward = flow.toward;
        let priority = flow.priority;
        match toward {
            Toward::Leaf(_) if head.flags & (MARK | COLOUR) != 0 => return None,
            Toward::Port(out, _) if self.ports[usize::from(out)].version != flow.version => {
                return None;
            }
            Toward::Leaf(_) | Toward::Port(..) => {}
        }
        let run = Run {
            in_port,
            words: Words::of(bytes, wire_len),
            head,
            wire_len,
            priority,
        };
        Some((run, toward))
    }

    /// Counts what a run has brought.
    #[inline(always)]
    fn count_run(&mut self, run: &Run, packets: u64, refused: u64) {
        self.counters.rx += packets;
        self.counters.queued += packets - refused;
        self.counters.notes[Note::Roce as usize] += packets;
        let bytes = packets * u64::from(run.wire_len);
        self.exit.queues.count_received(run.in_port, packets, bytes);
    }

    /// Towards another leaf: measured or not, over which spine, marked or not.
    #[inline(always)]
    fn run_to_leaf<S: Sink<T>>(
        &mut self,
        now: Nanos,
        run: &Run,
        to: LeafId,
        mut token: T,
        rest: &mut impl Iterator<Item = T>,
        sink: &mut S,
    ) -> Next<T> {
        let Switch {
            state,
            exit,
            ports,
            counters,
            ..
        } = self;
        let State::Leaf(leaf) = state else {
            return Next::Unknown(token);
        };
        let Leaf {
            source,
            sprayer,
            uplinks,
            ..
        } = &mut **leaf;
        let mut part = Part::None;
        if run.head.opcode.is_counted() {
            let port = PortId(run.in_port as u16);
            let Some(found) = source.part(port, to, &run.head) else {
                return Next::Unknown(token);
            };
            part = found;
        }
        if sprayer.usable_count(to) == 0 {
            return Next::Unknown(token);
        }
        let mut choice = sprayer.toward(to);
        let is_of_two = choice.is_of_two();
        let (mut packets, mut refused, mut marked) = (0, 0, 0);
        let (mut is_past, mut is_over) = (false, false);
        let next = loop {
            let Some(bytes) = token
                .header_mut()
                .first_chunk_mut::<{ packet::head::HEAD_LEN }>()
            else {
                break Next::Unknown(token);
            };
            let (mut priority, mut mark) = (run.priority, 0);
            match &mut part {
                Part::None => {}
                Part::Followed(announced) => {
                    let port = PortId(run.in_port as u16);
                    announced.follow(port, to, &key_of(&run.head), Head::psn(bytes));
                }
                Part::Window(open, which) => {
                    let psn = Head::psn(bytes);
                    if open.step(now, psn) {
                        (priority, mark) = (MEASURED, open.mark_bits());
                    } else {
                        match open.classify(now, psn, *which, counters) {
                            Class::Plain => {}
                            Class::Past => {
                                is_past = true;
                                break Next::Unknown(token);
                            }
                            Class::Measured {
                                mark: is_marked,
                                ends,
                            } => {
                                priority = MEASURED;
                                mark = if is_marked { open.mark_bits() } else { 0 };
                                is_over = ends;
                            }
                        }
                    }
                }
            }
            let hash = || hash_of_head(bytes, &run.head);
            let is_measured = priority == MEASURED;
            let queues = &exit.queues;
            let place = Queues::<T>::depth_place(priority).filter(|_| is_of_two);
            let spine = match place {
                Some(place) => choice.shorter_of_two(
                    is_measured,
                    &Uplinks {
                        queues,
                        ports: uplinks,
                        place,
                    },
                ),
                None => {
                    let depths = |spine: usize| queues.depth_bytes(uplinks[spine], priority);
                    let Some(spine) = choice.next(is_measured, hash, depths) else {
                        break Next::Unknown(token);
                    };
                    spine
                }
            };
            let port = uplinks[spine & (FANOUT_MAX - 1)];
            let out = &ports[port];
            bytes[ethernet::DESTINATION..ethernet::ETHERTYPE].copy_from_slice(&out.macs);
            ip::v4_decrement_ttl(bytes, ethernet::HEADER_LEN);
            bytes[FLAGS_AT] |= mark;
            packets += 1;
            let is_queued = exit.enqueue((port, priority), token, run.wire_len, counters, sink);
            if !is_queued {
                refused += 1;
            } else if mark != 0
                && let Part::Window(open, _) = &mut part
            {
                marked += 1;
                open.count_sent(spine);
                choice.count_measured(spine);
            }
            if is_over {
                break Next::Token(rest.next());
            }
            let Some(mut next) = rest.next() else {
                break Next::Token(None);
            };
            if run.bytes(&mut next).is_none() {
                break Next::Token(Some(next));
            }
            token = next;
        };
        self.counters.notes[Note::Marked as usize] += marked;
        self.count_run(run, packets, refused);
        if is_past || is_over {
            self.close_window(now, sink);
        }
        next
    }

    /// Out of a port: from a spine to a host, counted if marked, or through a spine.
    #[inline(always)]
    fn run_to_port<S: Sink<T>>(
        &mut self,
        now: Nanos,
        run: &Run,
        (port, macs): (usize, [u8; 12]),
        mut token: T,
        rest: &mut impl Iterator<Item = T>,
        sink: &mut S,
    ) -> Next<T> {
        let flags = run.head.flags;
        let is_fabric = self.ports[run.in_port].kind != PortKind::Host;
        let colour = usize::from(flags & COLOUR != 0);
        let is_marked = flags & MARK != 0;
        let (mut row, mut cell, mut clear) = (None, None, 0);
        match &self.state {
            _ if flags & (MARK | COLOUR) == 0 => {}
            State::Leaf(_) => {
                if !is_fabric {
                    return Next::Unknown(token);
                }
                clear = MARK | COLOUR;
                if is_marked && run.head.opcode.is_counted() {
                    row = self.row_of_run(now, run);
                    if row.is_none() {
                        return Next::Unknown(token);
                    }
                }
            }
            State::Spine(spine) => {
                if is_marked {
                    let (from, to) = (self.ports[run.in_port].peer, self.ports[port].peer);
                    let (from, to) = (usize::from(from), usize::from(to));
                    cell = Some(spine.counts.cell_of(from, to, colour));
                }
            }
        }
        let spine = usize::from(self.ports[run.in_port].peer);
        let (mut packets, mut refused) = (0, 0);
        let mut is_ended = false;
        let Switch {
            state,
            exit,
            counters,
            ..
        } = self;
        let next = loop {
            let Some(bytes) = token
                .header_mut()
                .first_chunk_mut::<{ packet::head::HEAD_LEN }>()
            else {
                break Next::Unknown(token);
            };
            if let (Some(row), State::Leaf(leaf)) = (row, &mut *state) {
                let psn = Head::psn(bytes);
                is_ended = leaf
                    .destination
                    .count(now, row, spine, colour, psn, counters);
            }
            bytes[..ethernet::ETHERTYPE].copy_from_slice(&macs);
            ip::v4_decrement_ttl(bytes, ethernet::HEADER_LEN);
            bytes[FLAGS_AT] &= !clear;
            packets += 1;
            let place = (port, run.priority);
            if !exit.enqueue(place, token, run.wire_len, counters, sink) {
                refused += 1;
            }
            if is_ended {
                break Next::Token(rest.next());
            }
            let Some(mut next) = rest.next() else {
                break Next::Token(None);
            };
            if run.bytes(&mut next).is_none() {
                break Next::Token(Some(next));
            }
            token = next;
        };
        if let (Some(cell), State::Spine(spine)) = (cell, state) {
            let queued = (packets - refused) as u32;
            spine.counts.count(cell, packets as u32, queued);
        }
        self.count_run(run, packets, refused);
        if is_ended {
            self.report_ended(now, sink);
        }
        next
    }

    /// The row in which a run is counted; `None` if there is none left.
    #[inline(always)]
    fn row_of_run(&mut self, now: Nanos, run: &Run) -> Option<usize> {
        let State::Leaf(leaf) = &mut self.state else {
            return None;
        };
        let destination = &mut leaf.destination;
        let flow = self
            .known
            .find(now, &run.head, self.ports[run.in_port].scope)?;
        let responses = run.head.opcode.is_response();
        let hint = flow.hint;
        if hint.responses == responses && destination.is_row(hint.row as usize, hint.generation) {
            return Some(hint.row as usize);
        }
        let key = key_of(&run.head);
        let source = || self.routes.leaf_of(key.source);
        let row = destination.row_of(now, &key, source)?;
        flow.hint = RowHint {
            row: row as u32,
            generation: destination.generation(row),
            responses,
        };
        Some(row)
    }

    /// Remembers that such packets go to `leaf`.
    pub(crate) fn learn_leaf(
        &mut self,
        in_port: usize,
        frame: &[u8],
        parsed: &Parsed,
        leaf: LeafId,
    ) {
        self.learn_flow(in_port, frame, parsed, Toward::Leaf(leaf), Nanos::NEVER, 0);
    }

    /// Remembers until `until` that such packets go out of a port to a MAC address.
    pub(crate) fn learn_port(
        &mut self,
        in_port: usize,
        frame: &[u8],
        parsed: &Parsed,
        (port, to): (usize, MacAddr),
        until: Nanos,
    ) {
        let out = &self.ports[port];
        let mut macs = out.macs;
        macs[..6].copy_from_slice(&to.0);
        let toward = Toward::Port(port as u16, macs);
        self.learn_flow(in_port, frame, parsed, toward, until, out.version);
    }

    fn learn_flow(
        &mut self,
        in_port: usize,
        frame: &[u8],
        parsed: &Parsed,
        toward: Toward,
        until: Nanos,
        version: u32,
    ) {
        let Some(bytes) = frame.first_chunk().filter(|_| parsed.kind == Kind::Roce) else {
            return;
        };
        // Its lengths were found right.
        if let Some(head) = Head::read(bytes, u32::MAX) {
            let found = Found {
                toward,
                priority: self.priority_of(frame, parsed),
                until,
                version,
            };
            self.known.learn(&head, self.ports[in_port].scope, found);
        }
    }
}

/// What waits for a leaf's uplinks, in the sums at one place.
struct Uplinks<'a, T> {
    queues: &'a Queues<T>,
    ports: &'a [usize; FANOUT_MAX],
    place: usize,
}

impl<T> Depths for Uplinks<'_, T> {
    #[inline(always)]
    fn depth_bytes(&self, spine: usize) -> u64 {
        let port = self.ports[spine & (FANOUT_MAX - 1)];
        self.queues.depth_at(port, self.place)
    }
}

/// The flow of a packet.
#[inline(always)]
fn key_of(head: &Head) -> FlowKey {
    let (source, destination) = head.ends();
    FlowKey {
        source,
        destination,
        qpn: head.qpn(),
        space: head.opcode.space(),
    }
}

/// As [`crate::forward::hash_of`].
#[inline(never)]
fn hash_of_head(bytes: &HeadBytes, head: &Head) -> u64 {
    let (source, destination) = head.ends();
    let ports = packet::be::get32(bytes, BTH_AT - ip::UDP_HEADER_LEN);
    let rest = u64::from(ports) << 24 | u64::from(head.qpn().0);
    flow_hash(source.0, destination.0, rest ^ u64::from(ip::UDP) << 56)
}
