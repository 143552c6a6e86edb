//! The adapter: connections, their turns on the link, and their time.
//!
//! Called by a driver, which carries frames and gives the time: [`Host::receive`] for what comes
//! in, [`Host::transmit`] for what goes out, [`Host::tick`] when [`Host::next_timer`] has come.
//! Guarantees: nothing allocates after the last [`Host::open_qp`]; a call costs the same however
//! many connections are open; equal calls give equal frames.

mod common;
mod receive;
mod rnr;
mod settle;
mod time;
mod transmit;
mod write;

pub(crate) use common::Template;

use std::collections::VecDeque;

use hdrhistogram::Histogram;
use packet::Qpn;

use crate::background::Stream;
use crate::config::{ConfigError, Flow, HostConfig, MESSAGE_BYTES_MAX, QpConfig};
use crate::counters::Counters;
use crate::event::{Event, OpenError, PostError};
use crate::index::QpIndex;
use crate::pacer::Pacer;
use crate::qp::Qp;
use crate::timers::Timers;
use crate::units::QpId;

/// Longest completion time that is told apart from longer ones: one hour.
const COMPLETION_NS_MAX: u64 = 3_600_000_000_000;

/// A software RNIC.
#[derive(Debug)]
pub struct Host {
    config: HostConfig,
    qps: Vec<Qp>,
    index: QpIndex,
    pacer: Pacer,
    background: Option<Stream>,
    timers: Timers,
    /// Connections with data that their rate holds back, and until when.
    paced: Timers,
    /// The latest time that was given.
    now: u64,
    /// Connections that may have data, control or events; each stands once in each.
    data_queue: VecDeque<u32>,
    control_queue: VecDeque<u32>,
    event_queue: VecDeque<u32>,
    /// Connections that do have data or control to send.
    sendable: usize,
    counters: Counters,
    completion_ns: Histogram<u64>,
}

impl Host {
    /// An adapter without connections. Allocates all that it will need but the connections.
    ///
    /// # Errors
    /// Names the first setting that cannot work.
    pub fn new(config: HostConfig) -> Result<Host, ConfigError> {
        config.check()?;
        let qps_max = config.qps_max as usize;
        // Two digits of a nanosecond count up to an hour; the bounds are constants and right.
        let completion_ns = Histogram::new_with_bounds(1, COMPLETION_NS_MAX, 2).map_err(|_| {
            let key = "completion times";
            let want = "a range that hdrhistogram takes";
            ConfigError {
                key,
                value: COMPLETION_NS_MAX,
                want,
            }
        })?;
        Ok(Host {
            config,
            qps: Vec::with_capacity(qps_max),
            index: QpIndex::new(qps_max),
            background: config.background.map(|b| Stream::new(b, &config)),
            pacer: Pacer::new(config.link_rate, config.slack_ns),
            timers: Timers::new(qps_max),
            paced: Timers::new(qps_max),
            now: 0,
            data_queue: VecDeque::with_capacity(qps_max),
            control_queue: VecDeque::with_capacity(qps_max),
            event_queue: VecDeque::with_capacity(qps_max),
            sendable: 0,
            counters: Counters::default(),
            completion_ns,
        })
    }

    /// Its settings.
    pub fn config(&self) -> &HostConfig {
        &self.config
    }

    /// Opens a reliable connection; the peer must open its end with the same numbers.
    ///
    /// # Errors
    /// When the host is full, the number is taken or reserved, or the peer is of another family.
    pub fn open_qp(&mut self, qp: QpConfig) -> Result<QpId, OpenError> {
        let number = qp.local_qpn.0;
        if self.qps.len() == self.config.qps_max as usize {
            return Err(OpenError::Full(self.config.qps_max));
        }
        for qpn in [qp.local_qpn, qp.remote_qpn] {
            if qpn.0 < 2 || qpn.0 >= 1 << 24 {
                return Err(OpenError::QpnReserved(qpn.0));
            }
        }
        if self.index.get(qp.local_qpn).is_some() {
            return Err(OpenError::QpnTaken(number));
        }
        if qp.remote_address.as_v4().is_some() != self.config.address.as_v4().is_some() {
            return Err(OpenError::OtherFamily);
        }
        let id = self.qps.len() as u32;
        self.index.insert(qp.local_qpn, id);
        self.qps.push(Qp::new(&qp, &self.config));
        Ok(QpId(id))
    }

    /// Queues a flow behind the connection's others.
    ///
    /// # Errors
    /// When there is no such connection, it has failed or is full, or the sizes are wrong.
    pub fn post(&mut self, now: u64, qp: QpId, flow: Flow) -> Result<(), PostError> {
        let state = self.qps.get_mut(qp.0 as usize);
        let state = state.ok_or(PostError::UnknownQp(qp))?;
        if state.failed.is_some() {
            return Err(PostError::Failed(qp));
        }
        let is_message = (1..=MESSAGE_BYTES_MAX).contains(&flow.message_bytes);
        if flow.bytes == 0 || flow.bytes > 1 << 50 || !is_message {
            return Err(PostError::BadSize);
        }
        if !state.sender.post(now, flow, &self.config) {
            return Err(PostError::Full(qp));
        }
        self.advance(now);
        self.settle(qp.0);
        Ok(())
    }

    /// Posts `count` receive requests on a connection. Before the first call it never lacks any;
    /// from then on each message of the peer that takes one waits until there is one.
    ///
    /// # Errors
    /// When there is no such connection, or it has failed.
    pub fn post_receives(&mut self, qp: QpId, count: u32) -> Result<(), PostError> {
        let state = self.qps.get_mut(qp.0 as usize);
        let state = state.ok_or(PostError::UnknownQp(qp))?;
        if state.failed.is_some() {
            return Err(PostError::Failed(qp));
        }
        state.receiver.post_receives(count);
        self.settle(qp.0);
        Ok(())
    }

    /// Ends background traffic, which goes on for ever otherwise.
    pub fn stop_background(&mut self) {
        if let Some(stream) = &mut self.background {
            stream.stop();
        }
    }

    /// Bits per second that a connection may send at now: its link's rate unless
    /// [`RateControl`](crate::RateControl) says less.
    pub fn rate_of(&self, qp: QpId) -> Option<u64> {
        self.qps.get(qp.0 as usize).map(|qp| qp.limiter.rate())
    }

    /// The next event, if any. Events wait in bounded room: a flow keeps its place in its
    /// connection until its event is taken.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        match self.event_queue.is_empty() {
            true => None,
            false => self.next_event(),
        }
    }

    #[inline(never)]
    fn next_event(&mut self) -> Option<Event> {
        while let Some(&id) = self.event_queue.front() {
            let qp = &mut self.qps[id as usize];
            if let Some(state) = qp.sender.take_completed() {
                let ended_ns = state.ended_ns.unwrap_or(state.started_ns);
                self.counters.flows_completed += 1;
                let taken_ns = ended_ns.saturating_sub(state.started_ns);
                self.completion_ns.saturating_record(taken_ns);
                return Some(Event::SendComplete {
                    qp: QpId(id),
                    flow_id: state.flow.flow_id,
                    started_ns: state.started_ns,
                    ended_ns,
                });
            }
            if qp.receiver.has_report() {
                let (bytes, messages) = qp.receiver.take_report();
                return Some(Event::Received {
                    qp: QpId(id),
                    bytes,
                    messages,
                });
            }
            if let (Some(reason), Some(flows)) = (qp.failed, qp.failure_due.take()) {
                return Some(Event::Failed {
                    qp: QpId(id),
                    reason,
                    flows,
                });
            }
            qp.in_event_queue = false;
            self.event_queue.pop_front();
        }
        None
    }

    /// What it has counted so far.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Completion times of flows in nanoseconds, post to last acknowledgement, two digits;
    /// those above one hour count as one hour.
    pub fn completion_ns(&self) -> &Histogram<u64> {
        &self.completion_ns
    }

    /// The connection of a local queue pair number.
    pub fn qp_of(&self, local_qpn: Qpn) -> Option<QpId> {
        self.index.get(local_qpn).map(QpId)
    }
}
