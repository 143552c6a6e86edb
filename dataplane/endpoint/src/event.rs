//! What a host tells its owner: events to poll, and why a call was refused.

use thiserror::Error;

use crate::units::QpId;

/// Something that happened on a connection. Polled by the driver of the host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// Every packet of a flow is acknowledged; of a READ, every byte has arrived.
    SendComplete {
        /// Its connection.
        qp: QpId,
        /// Its name.
        flow_id: u64,
        /// When it was posted.
        started_ns: u64,
        /// When its last acknowledgement arrived.
        ended_ns: u64,
    },
    /// Messages that the peer has sent or written are complete: every byte of them and before them has arrived.
    /// One event may stand for several messages.
    Received {
        /// The connection.
        qp: QpId,
        /// Bytes of these messages.
        bytes: u64,
        /// How many they are.
        messages: u32,
    },
    /// The connection has given up; nothing is sent or received on it any more.
    Failed {
        /// The connection.
        qp: QpId,
        /// Why.
        reason: FailReason,
        /// Flows that were not complete, and now never will be.
        flows: u32,
    },
}

/// Why a connection gave up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FailReason {
    /// More timeouts in a row without progress than `retry_max`.
    RetriesExceeded,
    /// More answers in a row that no receive request is posted than `rnr_retry_max`.
    ReceiverNotReady,
}

/// Why a connection was not opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum OpenError {
    /// The host holds `qps_max` connections.
    #[error("the host holds no more than {0} connections; raise qps_max")]
    Full(u32),
    /// Its number is taken.
    #[error("local QPN {0} is in use in this host")]
    QpnTaken(u32),
    /// Its number is 0, 1 or above 24 bits.
    #[error("QPN {0} is reserved or above 2^24 - 1")]
    QpnReserved(u32),
    /// One end is IPv4 and the other is IPv6.
    #[error("the peer's address is of another family than the host's")]
    OtherFamily,
}

/// Why a flow was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum PostError {
    /// The host has no such connection.
    #[error("the host has no connection {0:?}")]
    UnknownQp(QpId),
    /// The connection has failed.
    #[error("connection {0:?} has failed")]
    Failed(QpId),
    /// The connection holds `flows_per_qp_max` flows.
    #[error(
        "connection {0:?} holds as many flows as it can; poll events or raise flows_per_qp_max"
    )]
    Full(QpId),
    /// No bytes, or a message of 0 or more than 2^31 bytes.
    #[error("a flow needs 1 byte or more and messages of 1 to 2^31 bytes")]
    BadSize,
}
