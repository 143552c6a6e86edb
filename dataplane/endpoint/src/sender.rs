//! The sending half of a connection: what to send next, what is acknowledged, what to repeat.
//!
//! Called by [`Host`](crate::Host) only. Packets are counted from 0 in 64 bits, as in the
//! receiver. Nothing is kept per packet: a packet follows from its index and the flow it lies in.

use packet::Psn;

use crate::config::{Flow, HostConfig, Recovery};
use crate::flows::{FlowState, Flows};
use crate::repairs::Repairs;
use crate::rtt::Rtt;
use crate::segment::{self, Segment};
use crate::timers::NEVER;
use crate::units::PathMtu;

/// Up to so many packets in flight the lower timeout applies (IRN, 4.1).
const FEW_IN_FLIGHT: u64 = 3;
/// Timeouts double up to so many times.
const BACKOFF_MAX: u32 = 5;

/// What to send.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Turn {
    /// The announcement of a flow.
    Announce(FlowState),
    /// A data packet.
    Data {
        index: u64,
        segment: Segment,
        /// Byte of the connection's stream at which its message or payload begins.
        stream_byte: u64,
        is_repeat: bool,
        ack_req: bool,
    },
}

/// What an acknowledgement or a request changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Advanced,
    Obeyed,
    Stale,
    BeyondSent,
}

#[derive(Debug)]
pub(crate) struct Sender {
    first_psn: Psn,
    /// First packet that is not acknowledged.
    una: u64,
    /// Next packet to send.
    next: u64,
    /// One past the last ever sent; `next` lies before it while go-back-N goes again.
    sent_end: u64,
    flows: Flows,
    repairs: Repairs,
    /// One past the last packet that asked for an acknowledgement: only those are owed one.
    asked_end: u64,
    deadline_ns: u64,
    retries: u32,
    rtt: Rtt,
}

impl Sender {
    pub(crate) fn new(first_psn: Psn, config: &HostConfig) -> Sender {
        Sender {
            first_psn,
            una: 0,
            next: 0,
            sent_end: 0,
            flows: Flows::new(config.flows_per_qp_max),
            repairs: Repairs::new(),
            asked_end: 0,
            deadline_ns: NEVER,
            retries: 0,
            rtt: Rtt::new(),
        }
    }

    /// The PSN of packet `index`.
    #[inline]
    pub(crate) fn psn(&self, index: u64) -> Psn {
        self.first_psn.plus(index as u32)
    }

    /// Takes a flow; false when there is no room.
    pub(crate) fn post(&mut self, now: u64, flow: Flow, config: &HostConfig) -> bool {
        self.flows.post(now, flow, config.mtu)
    }

    /// Whether [`Sender::turn`] gives something.
    #[inline]
    pub(crate) fn can_send(&self, window_packets: u32) -> bool {
        let is_open = self.next - self.una < u64::from(window_packets);
        self.repairs.is_waiting() || self.next < self.flows.end() && is_open
    }

    /// Takes the next thing to send: repairs first, then an announcement, then new data.
    #[inline]
    pub(crate) fn turn(&mut self, now: u64, config: &HostConfig) -> Option<Turn> {
        if let Some((index, times)) = self.repairs.take(now) {
            if index == self.una && times <= config.retry_max {
                self.deadline_ns = now.saturating_add(self.timeout_ns(config));
            }
            self.rtt.cancel();
            return self.data(index, true, true, config.mtu);
        }
        if !self.can_send(config.window_packets) {
            return None;
        }
        let index = self.next;
        let flow = self.flows.at(index)?;
        if flow.takes_announcement(index) {
            return Some(Turn::Announce(*flow));
        }
        self.next += 1;
        let is_repeat = index < self.sent_end;
        self.sent_end = self.sent_end.max(self.next);
        // The last packet that the window lets out asks as well, or nobody would open it.
        let every = u64::from(config.ack_every_packets);
        let is_full = self.next - self.una >= u64::from(config.window_packets);
        let asks = is_repeat || is_full || self.next.is_multiple_of(every);
        let turn = self.data(index, is_repeat, asks, config.mtu);
        if let Some(Turn::Data { ack_req: true, .. }) = turn {
            self.asked_end = self.next;
            if is_repeat {
                self.rtt.cancel();
            } else {
                self.rtt.sent(now, self.next);
            }
            if self.deadline_ns == NEVER {
                self.deadline_ns = now.saturating_add(self.timeout_ns(config));
            }
        }
        turn
    }

    #[inline]
    fn data(&mut self, index: u64, is_repeat: bool, asks: bool, mtu: PathMtu) -> Option<Turn> {
        let state = self.flows.at(index)?;
        let segment = segment::segment(&state.flow, mtu, index - state.first);
        Some(Turn::Data {
            index,
            segment,
            stream_byte: state.base_bytes + segment.offset_bytes,
            is_repeat,
            ack_req: asks || segment.ends_message(),
        })
    }

    /// How far `psn` lies from the first packet that is not acknowledged.
    #[inline]
    fn distance(&self, psn: Psn) -> i64 {
        i64::from(psn.ahead_of(self.psn(self.una)))
    }

    /// All up to `psn` has arrived.
    #[inline]
    pub(crate) fn acknowledge(&mut self, now: u64, psn: Psn, config: &HostConfig) -> Answer {
        let end = self.una as i64 + self.distance(psn) + 1;
        if end <= self.una as i64 {
            return Answer::Stale;
        }
        if end as u64 > self.sent_end {
            return Answer::BeyondSent;
        }
        self.advance(now, end as u64, config);
        Answer::Advanced
    }

    /// The packet of `psn` is missing.
    pub(crate) fn request(&mut self, now: u64, psn: Psn, config: &HostConfig) -> Answer {
        let index = self.una as i64 + self.distance(psn);
        if index < self.una as i64 {
            return Answer::Stale;
        }
        let index = index as u64;
        if index >= self.sent_end {
            return Answer::BeyondSent;
        }
        match config.recovery {
            Recovery::SelectiveRepeat {
                hole_timeout_ns, ..
            } => {
                // A request may cross the repair that answers the one before it.
                let gap_ns = self.rtt.smoothed_ns().max(hole_timeout_ns / 2);
                if !self.repairs.request(index, now, gap_ns) {
                    return Answer::Stale;
                }
            }
            Recovery::GoBackN { .. } => {
                if index > self.una {
                    self.advance(now, index, config);
                }
                self.next = index;
            }
        }
        Answer::Obeyed
    }

    fn advance(&mut self, now: u64, una: u64, config: &HostConfig) {
        self.rtt.acknowledged(now, una);
        self.una = una;
        self.next = self.next.max(una);
        self.retries = 0;
        self.repairs.acknowledge(una);
        self.deadline_ns = if self.asked_end > una {
            now.saturating_add(self.timeout_ns(config))
        } else {
            NEVER
        };
        self.flows.acknowledge(now, una);
    }

    fn timeout_ns(&self, config: &HostConfig) -> u64 {
        let base = match config.recovery {
            Recovery::SelectiveRepeat {
                rto_low_ns,
                rto_high_ns,
                ..
            } => {
                if self.next - self.una <= FEW_IN_FLIGHT {
                    rto_low_ns
                } else {
                    rto_high_ns
                }
            }
            Recovery::GoBackN { rto_ns } => rto_ns,
        };
        self.rtt.timeout_ns(base) << self.retries.min(BACKOFF_MAX)
    }

    /// When [`Sender::time_out`] is due.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.deadline_ns
    }

    /// Sends a packet again; false when that was tried often enough.
    ///
    /// With coalesced acknowledgements the first unacknowledged packet has mostly arrived, and
    /// what is missing is the last that asked for an answer. So that one goes first (and shows the
    /// receiver all that is missing before it), unless the receiver has named the other as lost or
    /// the first try has changed nothing.
    pub(crate) fn time_out(&mut self, now: u64, config: &HostConfig) -> bool {
        if self.retries >= config.retry_max {
            self.deadline_ns = NEVER;
            return false;
        }
        self.retries += 1;
        match config.recovery {
            Recovery::SelectiveRepeat { .. } => {
                let is_named = self.repairs.knows(self.una);
                let index = if is_named || self.retries > 1 {
                    self.una
                } else {
                    self.una.max(self.asked_end.saturating_sub(1))
                };
                self.repairs.insist(index, now);
            }
            Recovery::GoBackN { .. } => self.next = self.una,
        }
        self.deadline_ns = now.saturating_add(self.timeout_ns(config));
        true
    }

    /// The flows, for their events.
    #[inline]
    pub(crate) fn flows(&self) -> &Flows {
        &self.flows
    }

    /// Takes the oldest flow if it is complete.
    pub(crate) fn take_completed(&mut self) -> Option<FlowState> {
        self.flows.take_completed()
    }

    /// Drops all flows and timers; returns how many flows were not complete.
    pub(crate) fn give_up(&mut self) -> u32 {
        let lost = self.flows.give_up(self.next);
        self.repairs.acknowledge(u64::MAX);
        self.deadline_ns = NEVER;
        lost
    }
}
