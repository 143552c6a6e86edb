//! What crosses between the data plane and control: fixed structs, no packet bytes.

use packet::message::Hop;
use packet::{Psn, Qpn};

use crate::types::{FANOUT_MAX, FlowKey, LeafId, Nanos, PortId, SpineId, SpineSet};

/// Why a destination leaf ended a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EndReason {
    /// The last PSN came (preset `paper`, or the close was lost).
    LastPsn,
    /// The close came on every path, or its deadline passed.
    Close,
    /// A newer window of the same colour pushed it out.
    Superseded,
    /// Nothing came any more.
    Timeout,
}

/// A window that a destination leaf has begun to see.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Opened {
    /// Row of the flow table, and which use of the row.
    pub row: u32,
    /// Which use of the row: a threshold for an older one is ignored.
    pub generation: u32,
    /// Source leaf.
    pub source: LeafId,
    /// The window's number at its source leaf.
    pub epoch: u32,
    /// N: packets announced.
    pub packets: u64,
    /// k: usable spines.
    pub usable: SpineSet,
}

/// A window that a destination leaf has ended: the whole evidence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WindowReport {
    /// The measured flow.
    pub key: FlowKey,
    /// Source leaf.
    pub source: LeafId,
    /// The reporting leaf.
    pub destination: LeafId,
    /// The window's number at its source leaf.
    pub epoch: u32,
    /// N: packets announced; 0 when no open came.
    pub packets: u64,
    /// First PSN of the window, if known.
    pub first_psn: Psn,
    /// M: packets marked at the source; `None` when no close came.
    pub marked: Option<u64>,
    /// Spines that were usable when it opened.
    pub usable: SpineSet,
    /// Spines whose path changed while it ran: their tests are void.
    pub disturbed: SpineSet,
    /// The configuration of this leaf has changed while it ran: all its tests are void.
    pub is_changed: bool,
    /// Spines over which its close came.
    pub flushed: SpineSet,
    /// X_x: marked packets counted, by spine.
    pub counts: [u32; FANOUT_MAX],
    /// S_x: marked packets sent, by spine; valid when `marked` is.
    pub sent: [u32; FANOUT_MAX],
    /// Spines that told their own counts.
    pub hops_filled: SpineSet,
    /// What they told, by spine.
    pub hops: [Hop; FANOUT_MAX],
    /// The threshold that control had set, if it had.
    pub threshold: Option<u32>,
    /// Spines whose count was below it: the failed-paths bitmap of this window.
    pub failed: SpineSet,
    /// Why it ended.
    pub reason: EndReason,
    /// When its first marked packet came.
    pub first_marked_at: Nanos,
    /// When it ended.
    pub ended_at: Nanos,
}

/// The first marked packet of a window that a switch has dropped in its own queue, in the paper's
/// protocol: there is no close that could tell it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnDrop {
    /// Source leaf of the window.
    pub source: LeafId,
    /// Its destination leaf.
    pub destination: LeafId,
    /// Destination QP of its flow.
    pub qpn: Qpn,
    /// Its first PSN, if known.
    pub first_psn: Option<Psn>,
    /// The spine whose path it was on.
    pub spine: SpineId,
}

/// From the data plane to control.
#[derive(Clone, Copy, Debug)]
pub enum Report<'a> {
    /// A window began.
    Opened(&'a Opened),
    /// A window ended.
    Window(&'a WindowReport),
    /// A marked packet was dropped in a queue of this switch (preset `paper`).
    Dropped(&'a OwnDrop),
}

/// From control to the data plane.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Command {
    /// The per-spine threshold of a row: a count below it marks the path failed.
    Threshold {
        /// Row, as [`Opened::row`].
        row: u32,
        /// Use of the row, as [`Opened::generation`].
        generation: u32,
        /// The window it is for.
        epoch: u32,
        /// Packets.
        threshold: u32,
    },
    /// Clears the masks of available and of covered destinations (once a minute, paper 3.4).
    ResetMasks,
    /// Takes a fabric port into or out of the routing table (a known failure is disabled).
    SetEnabled {
        /// The uplink or downlink.
        port: PortId,
        /// Whether routing may use it.
        enabled: bool,
    },
}
