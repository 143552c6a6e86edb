//! A connection: both halves, its route and rate, and where it stands in the host's queues.
//!
//! Used by [`Host`](crate::Host) only.

use packet::{Address, Qpn};

use crate::config::{HostConfig, QpConfig};
use crate::dcqcn::{Limiter, RateControl};
use crate::event::FailReason;
use crate::host::Template;
use crate::receiver::Receiver;
use crate::route::Route;
use crate::sender::Sender;

#[derive(Debug)]
pub(crate) struct Qp {
    pub(crate) local_qpn: Qpn,
    pub(crate) remote_qpn: Qpn,
    pub(crate) route: Route,
    /// Headers of its middle packets.
    pub(crate) common: Template,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    pub(crate) limiter: Limiter,
    /// Whether a congestion notification is due, and when the next may be.
    pub(crate) cnp_due: bool,
    cnp_next_ns: u64,
    /// Whether an answer to a READ goes before what is ours to send: they take turns.
    pub(crate) answers_next: bool,
    /// Set for good once the connection has given up.
    pub(crate) failed: Option<FailReason>,
    /// Flows lost by that, until reported.
    pub(crate) failure_due: Option<u32>,
    /// Whether its number stands in the queue of data, control and events.
    pub(crate) in_data_queue: bool,
    pub(crate) in_control_queue: bool,
    pub(crate) in_event_queue: bool,
    /// Whether it waits for its rate to let a packet out.
    pub(crate) is_paced: bool,
    /// Whether it has data or control to send, as the host has counted it.
    pub(crate) counts_as_data: bool,
    pub(crate) counts_as_control: bool,
}

impl Qp {
    pub(crate) fn new(qp: &QpConfig, host: &HostConfig) -> Qp {
        Qp {
            local_qpn: qp.local_qpn,
            remote_qpn: qp.remote_qpn,
            route: Route::new(host, qp.remote_address, qp.udp_source_port),
            common: Template::EMPTY,
            sender: Sender::new(qp.first_psn, host),
            receiver: Receiver::new(qp.remote_first_psn, host),
            limiter: Limiter::new(&host.rate_control, host.link_rate, host.slack_ns),
            cnp_due: false,
            cnp_next_ns: 0,
            answers_next: false,
            failed: None,
            failure_due: None,
            in_data_queue: false,
            in_control_queue: false,
            in_event_queue: false,
            is_paced: false,
            counts_as_data: false,
            counts_as_control: false,
        }
    }

    #[inline]
    pub(crate) fn remote_address(&self) -> Address {
        self.route.destination()
    }

    /// A packet of the peer has met congestion. The receiver of a marked packet tells the sender,
    /// at most once an interval (annex A17.9.3; the interval is the preset's).
    pub(crate) fn congested(&mut self, now: u64, control: &RateControl) {
        let RateControl::Dcqcn(dcqcn) = control else {
            return;
        };
        if now >= self.cnp_next_ns {
            self.cnp_due = true;
            self.cnp_next_ns = now.saturating_add(dcqcn.cnp_interval_ns);
        }
    }

    /// Whether there is data to send, its rate apart.
    #[inline]
    pub(crate) fn has_data(&self, window_packets: u32) -> bool {
        self.failed.is_none()
            && (self.sender.can_send(window_packets) || self.receiver.has_response())
    }

    /// Whether an acknowledgement, a request or a message is due.
    #[inline]
    pub(crate) fn has_control(&self) -> bool {
        if self.failed.is_some() {
            return self.sender.flows().has_withdrawn();
        }
        self.cnp_due || self.receiver.has_notice()
    }

    /// Whether there is something to tell the owner.
    #[inline]
    pub(crate) fn has_event(&self) -> bool {
        self.sender.flows().has_completed()
            || self.receiver.has_report()
            || self.failure_due.is_some()
    }

    /// Earliest time at which a tick has something to do.
    #[inline]
    pub(crate) fn deadline(&self) -> u64 {
        self.sender.deadline().min(self.receiver.deadline())
    }
}
