//! A connection: both halves, its route, and where it stands in the host's queues.
//!
//! Used by [`Host`](crate::Host) only.

use packet::{Address, Qpn};

use crate::config::{HostConfig, QpConfig};
use crate::event::FailReason;
use crate::receiver::Receiver;
use crate::route::Route;
use crate::sender::Sender;

#[derive(Debug)]
pub(crate) struct Qp {
    pub(crate) local_qpn: Qpn,
    pub(crate) remote_qpn: Qpn,
    pub(crate) route: Route,
    pub(crate) sender: Sender,
    pub(crate) receiver: Receiver,
    /// Set for good once the connection has given up.
    pub(crate) failed: Option<FailReason>,
    /// Flows lost by that, until reported.
    pub(crate) failure_due: Option<u32>,
    /// Whether its number stands in the queue of data, control and events.
    pub(crate) in_data_queue: bool,
    pub(crate) in_control_queue: bool,
    pub(crate) in_event_queue: bool,
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
            sender: Sender::new(qp.first_psn, host),
            receiver: Receiver::new(qp.remote_first_psn, host),
            failed: None,
            failure_due: None,
            in_data_queue: false,
            in_control_queue: false,
            in_event_queue: false,
            counts_as_data: false,
            counts_as_control: false,
        }
    }

    pub(crate) fn remote_address(&self) -> Address {
        self.route.destination()
    }

    /// Whether an acknowledgement or a request is due.
    #[inline]
    pub(crate) fn has_control(&self) -> bool {
        self.failed.is_none() && self.receiver.has_control()
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
