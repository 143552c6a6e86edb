//! The short way, of runs: packets that follow each other in a flow that is known
//! ([`crate::known`]). The steps are those of [`crate::forward`], with what was found before
//! instead of lookups and checks; whatever holds for the first of a run because of its words is not
//! asked again for the others.
//!
//! Whatever is out of the ordinary (a mark from a host, no uplink, a TTL that runs out) is left,
//! untouched and uncounted, to the whole way.

mod leaf_way;
mod tally;
mod ways;

use packet::bth::{self, COLOUR, MARK};
use packet::head::{BTH_AT, Head, HeadBytes, Words};
use packet::{Kind, MacAddr, Parsed, ethernet, ip};

use crate::config::PortKind;
use crate::counters::Note;
use crate::known::{Found, RowHint, Toward};
use crate::port::{MEASURED, Row};
use crate::run::leaf_way::LeafWay;
use crate::run::tally::Tally;
use crate::run::ways::AnyWay;
use crate::source::Part;
use crate::switch::{Leaf, State, Switch};
use crate::token::{Sink, Token};
use crate::track::Stride;
use crate::types::{FlowKey, LeafId, Nanos, PortId};

/// Where mark and colour stand.
const FLAGS_AT: usize = BTH_AT + bth::RESV8A;

/// A run that is about to be taken.
struct Run {
    in_port: usize,
    /// The number of the leaf or spine at the other end of the port that it leaves by, if it is but one.
    to: u16,
    head: Head,
    words: Words,
    wire_len: u32,
    /// The priority that it asks for.
    priority: u8,
}

/// What has come behind a packet.
pub(crate) trait Rest<T>: Iterator<Item = T> {
    /// Nothing ever: every run is of one packet.
    const IS_NOTHING: bool;
}

/// Others.
pub(crate) struct Others<I>(pub(crate) I);

impl<I: Iterator> Iterator for Others<I> {
    type Item = I::Item;

    #[inline(always)]
    fn next(&mut self) -> Option<I::Item> {
        self.0.next()
    }
}

impl<I: Iterator> Rest<I::Item> for Others<I> {
    const IS_NOTHING: bool = false;
}

impl<T> Rest<T> for std::iter::Empty<T> {
    const IS_NOTHING: bool = true;
}

impl Run {
    /// The headers of a packet that belongs to it. Where nothing else has come, it is the run's first.
    #[inline(always)]
    fn bytes<'a, T: Token, R: Rest<T>>(&self, token: &'a mut T) -> Option<&'a mut HeadBytes> {
        if R::IS_NOTHING {
            return token.header_mut().first_chunk_mut();
        }
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
    pub(crate) fn take_run<S: Sink<T>, R: Rest<T>>(
        &mut self,
        now: Nanos,
        in_port: usize,
        mut first: T,
        rest: &mut R,
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
        let is_plain = head.opcode.is_sprayed()
            && !head.opcode.is_reserved()
            && self.exit.queues.takes_everywhere(wire_len);
        if !is_whole || !port.takes(head.link) || head.ttl <= 1 || !is_plain {
            return None;
        }
        let flow = self.known.find(now, &head, port.scope)?;
        let toward = flow.toward;
        let priority = flow.priority;
        match toward {
            Toward::Leaf(_) if head.flags & (MARK | COLOUR) != 0 => return None,
            // What was configured is true of all versions.
            Toward::Port(out, _)
                if flow.until != Nanos::NEVER
                    && self.ports[usize::from(out)].version != flow.version =>
            {
                return None;
            }
            Toward::Leaf(_) | Toward::Port(..) => {}
        }
        let run = Run {
            in_port,
            to: flow.peer,
            words: Words::of(bytes, wire_len),
            head,
            wire_len,
            priority,
        };
        Some((run, toward))
    }

    /// Counts what a run has brought.
    #[inline(always)]
    fn count_run<S: Sink<T>>(&mut self, run: &Run, taken: Taken) {
        let packets = taken.packets;
        let cut = match S::CUTS_THROUGH {
            true => self.exit.take_cut(),
            false => 0,
        };
        self.counters.rx += packets;
        self.counters.tx += cut;
        self.counters.queued += packets - taken.refused - cut;
        self.counters.notes[Note::Roce as usize] += packets;
        self.counters.notes[Note::Marked as usize] += taken.marked;
        let bytes = packets * u64::from(run.wire_len);
        self.ports[run.in_port].count_received(packets, bytes);
    }

    /// Towards another leaf: measured or not.
    #[inline(always)]
    fn run_to_leaf<S: Sink<T>, R: Rest<T>>(
        &mut self,
        now: Nanos,
        run: &Run,
        to: LeafId,
        token: T,
        rest: &mut R,
        sink: &mut S,
    ) -> Next<T> {
        let Switch {
            state,
            exit,
            counters,
            ..
        } = self;
        let State::Leaf(leaf) = state else {
            return Next::Unknown(token);
        };
        let Leaf {
            source, sprayer, ..
        } = &mut **leaf;
        let choice = sprayer.toward(to);
        if choice.count() == 0 {
            return Next::Unknown(token);
        }
        let way = LeafWay {
            now,
            run,
            to,
            choice,
            exit,
            counters,
        };
        let port = PortId(run.in_port as u16);
        let priority = run.priority;
        let (next, taken) = if !run.head.opcode.is_counted() {
            let mut never = u32::MAX;
            way.take_others_by(priority, (None, &mut never), token, rest, sink)
        } else {
            match source.part(port, to, &run.head) {
                None => return Next::Unknown(token),
                Some(Part::Unmeasured(flows, until_sample)) => {
                    way.take_others_by(priority, (flows, until_sample), token, rest, sink)
                }
                Some(Part::Window(open, which)) => match way.plain(MEASURED) {
                    Some(of_two) => way.take_measured(of_two, open, which, token, rest, sink),
                    None => way.take_measured(AnyWay, open, which, token, rest, sink),
                },
            }
        };
        let (dropped, is_over) = (taken.dropped, taken.is_over);
        self.count_run::<S>(run, taken);
        if let Some(spine) = dropped {
            self.dropped_here(to, spine, sink);
        }
        if is_over {
            self.close_window(now, sink);
        }
        next
    }

    /// Out of a port: from a spine to a host, counted if marked, or through a spine.
    #[inline(always)]
    fn run_to_port<S: Sink<T>, R: Rest<T>>(
        &mut self,
        now: Nanos,
        run: &Run,
        (port, macs): (usize, [u8; 12]),
        mut token: T,
        rest: &mut R,
        sink: &mut S,
    ) -> Next<T> {
        let flags = run.head.flags;
        let is_fabric = self.ports[run.in_port].kind != PortKind::Host;
        let colour = usize::from(flags & COLOUR != 0);
        let is_marked = flags & MARK != 0;
        let (mut row, mut passing, mut clear) = (None, None, 0);
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
            State::Spine(_) => {
                if is_marked {
                    let from = self.ports[run.in_port].peer;
                    passing = Some((usize::from(from), usize::from(run.to)));
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
        let mut tally = match (row, &mut *state) {
            (Some(row), State::Leaf(leaf)) => Some(Tally {
                destination: &mut leaf.destination,
                path: (row, spine, colour),
            }),
            _ => None,
        };
        let mut stride = tally.as_ref().map_or(Stride::NOTHING, Tally::stride);
        let (place, len) = ((port, run.priority), run.wire_len);
        let mut row = match R::IS_NOTHING {
            true => Row::NONE,
            false => exit.row(place, len),
        };
        let next = loop {
            let Some(bytes) = run.bytes::<T, R>(&mut token) else {
                break Next::Token(Some(token));
            };
            if let Some(tally) = &mut tally
                && !stride.step(Head::psn(bytes))
            {
                (stride, is_ended) = tally.count_any(now, stride, Head::psn(bytes), counters);
            }
            rewrite(bytes, &macs);
            bytes[FLAGS_AT] &= !clear;
            packets += 1;
            let is_queued = match R::IS_NOTHING {
                true => exit.enqueue_fitting(now, place, token, len, counters, sink),
                false => exit.push(&mut row, token, counters, sink),
            };
            if !is_queued {
                refused += 1;
            }
            match rest.next() {
                next if is_ended => break Next::Token(next),
                None => break Next::Token(None),
                Some(next) => token = next,
            }
        };
        exit.queues.end_row(&row);
        if let Some(mut tally) = tally {
            tally.walk(now, &stride, counters);
        }
        if let (Some((from, to)), State::Spine(spine)) = (passing, state) {
            let cell = spine.counts.cell_of(from, to, colour);
            let queued = (packets - refused) as u32;
            spine.counts.count(cell, packets as u32, queued);
        }
        let taken = Taken {
            packets,
            refused,
            ..Taken::default()
        };
        self.count_run::<S>(run, taken);
        if let Some((from, to)) = passing
            && refused > 0
        {
            self.dropped_passing(from, to, colour, sink);
        }
        if is_ended {
            self.report_ended(now, sink);
        }
        next
    }

    /// The row in which a run is counted; `None` if its flow has none.
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
        // A flow that is new takes its row, or finds none, on the whole way.
        let row = destination.find(&key_of(&run.head))?;
        flow.hint = RowHint {
            row: row as u32,
            generation: destination.generation(row),
            responses,
        };
        Some(row)
    }

    /// Forgets what was found out about flows: the next packet of each goes the whole way. That
    /// changes nothing but speed.
    pub fn forget_flows(&mut self) {
        self.known.forget();
    }

    /// Remembers that such packets go to `leaf`.
    pub(crate) fn learn_leaf(
        &mut self,
        in_port: usize,
        frame: &[u8],
        parsed: &Parsed,
        leaf: LeafId,
    ) {
        let toward = Toward::Leaf(leaf);
        self.learn_flow(in_port, frame, parsed, toward, Nanos::NEVER, (0, leaf.0));
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
        let (version, peer) = (out.version, out.peer);
        self.learn_flow(in_port, frame, parsed, toward, until, (version, peer));
    }

    fn learn_flow(
        &mut self,
        in_port: usize,
        frame: &[u8],
        parsed: &Parsed,
        toward: Toward,
        until: Nanos,
        (version, peer): (u32, u16),
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
                peer,
            };
            self.known.learn(&head, self.ports[in_port].scope, found);
        }
    }
}

/// What a run has come to.
#[derive(Default)]
struct Taken {
    packets: u64,
    /// Of them, what no queue took.
    refused: u64,
    /// Of them, what was marked and queued.
    marked: u64,
    /// The spine towards which the last, a marked one, was refused.
    dropped: Option<usize>,
    /// The window's last was among them.
    is_over: bool,
}

/// Rewrites a packet's addresses and TTL.
#[inline(always)]
fn rewrite(bytes: &mut HeadBytes, macs: &[u8; 12]) {
    bytes[ethernet::DESTINATION..ethernet::ETHERTYPE].copy_from_slice(macs);
    ip::v4_decrement_ttl(bytes, ethernet::HEADER_LEN);
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
