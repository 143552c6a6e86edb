//! Packets that end in the switch: announcements of hosts, messages of other switches.
//!
//! `crate::forward` hands them over when it has found that they are addressed to the switch and,
//! from a host, that their sender is no other's.

use packet::message::{FLAG_COUNTS, FLAG_SWITCH, Message, MessageKind};
use packet::{Address, MacAddr, Parsed, ethernet};

use crate::counters::Note;
use crate::destination::Taken;
use crate::drop::DropReason;
use crate::forward::Decision;
use crate::report::Report;
use crate::route::NextHop;
use crate::source::flow_of;
use crate::split::Notice;
use crate::switch::{State, Switch};
use crate::token::{Sink, Token};
use crate::types::{LeafId, LeafSet, Nanos, PortId, SpineId};
use crate::window::Dress;

impl<T: Token> Switch<T> {
    /// A host announces a flow or takes it back; nothing else of a host is a message.
    #[cold]
    pub(crate) fn host_message<S: Sink<T>>(
        &mut self,
        now: Nanos,
        in_port: usize,
        frame: &[u8],
        parsed: Parsed,
        sink: &mut S,
    ) -> Result<Decision, DropReason> {
        let payload = frame
            .get(usize::from(parsed.payload)..usize::from(parsed.end))
            .ok_or(DropReason::BadMessage)?;
        let message = Message::read(payload).ok_or(DropReason::BadMessage)?;
        let header = message.header;
        if header.flags & FLAG_SWITCH != 0 {
            return Err(DropReason::ForgedMessage);
        }
        let NextHop::Leaf(to) = self
            .routes
            .lookup(parsed.destination)
            .ok_or(DropReason::NoRoute)?
        else {
            // Between hosts of one leaf there is no fabric link to measure.
            self.counters.note(Note::AnnouncementUseless);
            return Ok(Decision::Consume);
        };
        let State::Leaf(leaf) = &mut self.state else {
            return Err(DropReason::BadMessage);
        };
        let key = flow_of(&header, parsed.source, parsed.destination);
        match header.kind {
            MessageKind::Open => {
                let dress = Dress::of(frame, &parsed);
                leaf.source.announce(
                    PortId(in_port as u16),
                    key,
                    to,
                    header,
                    dress,
                    &mut self.counters,
                );
                self.open_window(now, sink);
            }
            MessageKind::Withdraw => {
                let port = PortId(in_port as u16);
                if leaf.source.withdraw(port, key, to, &mut self.counters) {
                    self.close_window(now, sink);
                }
            }
            MessageKind::Close | MessageKind::LinkState => return Err(DropReason::ForgedMessage),
        }
        Ok(Decision::Consume)
    }

    /// A message of another switch, from the spine that is configured to be there.
    #[cold]
    pub(crate) fn switch_message<S: Sink<T>>(
        &mut self,
        now: Nanos,
        in_port: usize,
        spine: SpineId,
        frame: &[u8],
        parsed: Parsed,
        sink: &mut S,
    ) -> Result<Decision, DropReason> {
        if MacAddr::read(frame, ethernet::SOURCE) != self.ports[in_port].peer_mac() {
            return Err(DropReason::ForgedMessage);
        }
        let payload = frame
            .get(usize::from(parsed.payload)..usize::from(parsed.end))
            .ok_or(DropReason::BadMessage)?;
        let message = Message::read(payload).ok_or(DropReason::BadMessage)?;
        if message.header.flags & FLAG_SWITCH == 0 {
            return Err(DropReason::BadMessage);
        }
        let header = &message.header;
        match header.kind {
            MessageKind::LinkState => {
                // A spine that counts other leaves, or another one than the cable should lead to.
                if header.fanout != self.leaves || header.flow_id != u64::from(spine.0) {
                    return Err(DropReason::BadMessage);
                }
                let mut reaches = LeafSet::EMPTY;
                for index in (0..usize::from(header.fanout)).filter(|&x| message.is_set(x)) {
                    reaches.insert(index);
                }
                sink.notice(Notice::LinkState { spine, reaches });
                self.spine_heard(now, spine, reaches, sink);
            }
            MessageKind::Open | MessageKind::Close => {
                let needed = match header.kind {
                    MessageKind::Close => FLAG_COUNTS,
                    MessageKind::Open | MessageKind::Withdraw | MessageKind::LinkState => 0,
                };
                let Some(NextHop::Leaf(source)) = self.routes.lookup(parsed.source) else {
                    return Err(DropReason::BadMessage);
                };
                let Some(NextHop::Host(_) | NextHop::Port(_)) =
                    self.routes.lookup(parsed.destination)
                else {
                    return Err(DropReason::BadMessage);
                };
                if header.fanout != self.spines || header.flags & needed != needed {
                    return Err(DropReason::BadMessage);
                }
                let addresses = (parsed.source, parsed.destination);
                self.take_window_message(now, &message, addresses, source, spine, sink);
            }
            MessageKind::Withdraw => return Err(DropReason::BadMessage),
        }
        Ok(Decision::Consume)
    }

    /// An open or close of another leaf.
    fn take_window_message<S: Sink<T>>(
        &mut self,
        now: Nanos,
        message: &Message<'_>,
        addresses: (Address, Address),
        source: LeafId,
        spine: SpineId,
        sink: &mut S,
    ) {
        loop {
            let State::Leaf(leaf) = &mut self.state else {
                return;
            };
            let taken = leaf.destination.message(
                now,
                message,
                addresses,
                source,
                spine.index(),
                &mut self.counters,
            );
            if let Taken::Opened(opened) = &taken
                && !sink.report(Report::Opened(opened))
            {
                self.counters.note(Note::ReportsLost);
            }
            self.report_ended(now, sink);
            if taken != Taken::Again {
                return;
            }
        }
    }
}
