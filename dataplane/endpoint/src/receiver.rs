//! The receiving half of a connection: which packets have arrived, and what to tell the sender.
//!
//! Called by [`Host`](crate::Host) only. PSNs wrap at the edge of the crate and nowhere else.
//! Payload is placed as it comes and never buffered. Only a receiver that is short of receive
//! requests holds messages back, and says so.

mod inbox;

use packet::Psn;

use crate::arrivals::{Arrival, Arrivals};
use crate::config::HostConfig;
use crate::responder::{Responder, Response};
use crate::timers::NEVER;
use inbox::{ACK_REQ, ENDS_MESSAGE, Inbox, READ, TAKES_RECEIVE};

/// A data packet in short.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Packet {
    pub(crate) len: u32,
    pub(crate) ends_message: bool,
    pub(crate) ack_req: bool,
    /// Whether it takes a receive request of ours.
    pub(crate) takes_receive: bool,
}

/// What is to be told to the sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Notice {
    /// All up to this PSN has arrived.
    Ack(Psn),
    /// This PSN is missing.
    Nak(Psn),
    /// There is no receive request for this PSN.
    NotReady(Psn),
}

#[derive(Debug)]
pub(crate) struct Receiver {
    first_psn: Psn,
    arrivals: Arrivals,
    inbox: Inbox,
    responder: Responder,
}

impl Receiver {
    pub(crate) fn new(first_psn: Psn, config: &HostConfig) -> Receiver {
        Receiver {
            first_psn,
            arrivals: Arrivals::new(config.receive_window_packets, &config.recovery),
            inbox: Inbox::new(config.ack_every_packets),
            responder: Responder::new(),
        }
    }

    /// The index that `psn` means: the one nearest to the expected packet. Negative when it lies
    /// before the first.
    #[inline]
    pub(crate) fn index(&self, psn: Psn) -> i64 {
        let expected = self.arrivals.expected();
        let distance = psn.ahead_of(self.psn(expected));
        expected as i64 + i64::from(distance)
    }

    /// The PSN of packet `index`.
    #[inline]
    pub(crate) fn psn(&self, index: u64) -> Psn {
        self.first_psn.plus(index as u32)
    }

    /// Bytes of all packets in order so far.
    #[inline]
    pub(crate) fn delivered_bytes(&self) -> u64 {
        self.inbox.delivered_bytes
    }

    /// Whether `index` is the next in order.
    #[inline]
    pub(crate) fn is_next(&self, index: i64) -> bool {
        index == self.arrivals.expected() as i64
    }

    /// Takes note of data packet `index`.
    #[inline]
    pub(crate) fn arrive(
        &mut self,
        now: u64,
        index: i64,
        packet: Packet,
        config: &HostConfig,
    ) -> Arrival {
        let mut word = packet.len as u16 + 1;
        if packet.takes_receive {
            word |= TAKES_RECEIVE;
        }
        if packet.ends_message {
            word |= ENDS_MESSAGE;
        }
        if packet.ack_req {
            word |= ACK_REQ;
        }
        let inbox = &mut self.inbox;
        let arrivals = &mut self.arrivals;
        let arrival = arrivals.arrive(now, index, word, &config.recovery, |w| inbox.take(w));
        if arrival == Arrival::Duplicate {
            inbox.ack_due = true;
        }
        arrival
    }

    /// Takes note of a full packet in the midst of a message, if that leaves nothing to be told.
    /// How far behind the latest it was, and a time by which [`Receiver::tick`] is due.
    #[inline]
    pub(crate) fn arrive_common(
        &mut self,
        now: u64,
        index: i64,
        mtu_bytes: u32,
        config: &HostConfig,
    ) -> Option<(u64, u64)> {
        let inbox = &mut self.inbox;
        let arrivals = &mut self.arrivals;
        let word = mtu_bytes as u16 + 1;
        if index != arrivals.expected() as i64 {
            let behind = arrivals.place_common(now, index, word, &config.recovery)?;
            return Some((behind, arrivals.deadline()));
        }
        let most = inbox.ack_every.saturating_sub(inbox.unacknowledged + 1);
        let behind = arrivals.top().saturating_sub(index as u64 + 1);
        let count = arrivals.pass_common(word, u64::from(most))?;
        inbox.unacknowledged += count as u32;
        inbox.delivered_bytes += count * u64::from(mtu_bytes);
        inbox.open_bytes += count * u64::from(mtu_bytes);
        Some((behind, NEVER))
    }

    /// Whether no READ of the peer is to be answered.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.responder.is_empty()
    }

    /// Takes a READ request for packets `index..index + count`; `None` when the table of requests
    /// is full, as if it had been lost.
    pub(crate) fn read(
        &mut self,
        now: u64,
        index: i64,
        count: u64,
        bytes: u64,
        config: &HostConfig,
    ) -> Option<Arrival> {
        let (inbox, arrivals) = (&mut self.inbox, &mut self.arrivals);
        if !self.responder.has_room() {
            return None;
        }
        let words = [READ, READ | ENDS_MESSAGE];
        let recovery = &config.recovery;
        let arrival = arrivals.arrive_row(now, index, words, count, recovery, |w| inbox.take(w));
        match arrival {
            Arrival::New { .. } => self.responder.push(index as u64, count, bytes, false),
            // What lies a window back has been acknowledged by its answer long ago.
            Arrival::Duplicate => {
                let window = i64::from(config.receive_window_packets);
                if index >= 0 && self.arrivals.expected() as i64 - index <= window {
                    self.responder.push(index as u64, count, bytes, true);
                }
            }
            Arrival::Beyond | Arrival::Dropped { .. } | Arrival::NotReady => {}
        }
        Some(arrival)
    }

    /// Whether an answer to a READ is due.
    #[inline]
    pub(crate) fn has_response(&self) -> bool {
        self.responder.is_busy(self.arrivals.expected())
    }

    /// Takes the next packet of an answer.
    pub(crate) fn take_response(&mut self, mtu_bytes: u32) -> Option<Response> {
        self.responder.take(self.arrivals.expected(), mtu_bytes)
    }

    /// From now on messages need receive requests, of which `count` more are posted.
    pub(crate) fn post_receives(&mut self, count: u32) {
        let inbox = &mut self.inbox;
        inbox.receives = Some(inbox.receives.unwrap_or(0).saturating_add(count));
        let before = self.arrivals.expected();
        self.arrivals.drain(|word| inbox.take(word));
        inbox.ack_due |= self.arrivals.expected() > before;
    }

    /// Earliest time at which [`Receiver::tick`] has something to do.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.arrivals.deadline()
    }

    /// Does what time alone causes: holes that are too old, requests to repeat.
    pub(crate) fn tick(&mut self, now: u64, config: &HostConfig) {
        self.arrivals.tick(now, &config.recovery);
    }

    /// Whether a notice is due. An ACK waits for answers to READs, which say the same and more:
    /// it must not go ahead of them.
    #[inline]
    pub(crate) fn has_notice(&self) -> bool {
        self.inbox.not_ready_due
            || self.arrivals.is_request_due()
            || self.inbox.ack_due && !self.has_response()
    }

    /// Takes what is to be told.
    pub(crate) fn take_notice(&mut self, now: u64, config: &HostConfig) -> Option<Notice> {
        let retry_max = config.retry_max;
        let expected = self.arrivals.expected();
        if let Some(index) = self.arrivals.take_request(now, &config.recovery, retry_max) {
            return Some(Notice::Nak(self.psn(index)));
        }
        if std::mem::take(&mut self.inbox.not_ready_due) {
            return Some(Notice::NotReady(self.psn(expected)));
        }
        if !self.inbox.ack_due || self.has_response() {
            return None;
        }
        self.inbox.ack_due = false;
        self.inbox.unacknowledged = 0;
        Some(Notice::Ack(self.psn(expected.wrapping_sub(1))))
    }

    /// Message sequence number, for the AETH.
    #[inline]
    pub(crate) fn messages(&self) -> u32 {
        self.inbox.messages
    }

    /// Whether messages wait to be reported.
    #[inline]
    pub(crate) fn has_report(&self) -> bool {
        self.inbox.reported_messages > 0
    }

    /// Takes the messages completed since the last call: bytes and how many.
    pub(crate) fn take_report(&mut self) -> (u64, u32) {
        (
            std::mem::take(&mut self.inbox.reported_bytes),
            std::mem::take(&mut self.inbox.reported_messages),
        )
    }

    /// Answers nothing more.
    pub(crate) fn give_up(&mut self) {
        self.responder.clear();
    }
}

#[cfg(test)]
mod tests;
