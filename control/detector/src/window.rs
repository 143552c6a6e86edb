//! What a destination leaf's data plane yields for one measured window.
//!
//! The agent fills a [`Window`] from the fixed structs of the data plane and
//! gives it to the [`Aggregator`](crate::Aggregator). Nothing here judges;
//! [`Window::check`] only refuses what cannot be a window at all.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::types::{Epoch, Fabric, LeafId, Nanos, OutsideFabric, Path, Qpn, SpineId};

/// One measured window at its destination leaf. `usable`, `counts`,
/// `congestion_dropped`, and `sent` and `hops` when there, have one entry per
/// usable spine, in the same order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Source leaf.
    pub src: LeafId,
    /// Destination leaf.
    pub dst: LeafId,
    /// Destination QPN of the measured flow.
    pub qpn: Qpn,
    /// Number of the window at its source leaf.
    pub epoch: Epoch,
    /// N, packets announced; 0 when nobody announced any.
    pub announced: u64,
    /// M, packets actually marked; `None` if no close came.
    pub marked: Option<u64>,
    /// Usable spines of (src, dst), ascending; k is their number.
    pub usable: Vec<SpineId>,
    /// X, marked packets counted per usable spine.
    pub counts: Vec<u64>,
    /// S, marked packets sent per usable spine after the source leaf's own
    /// queues; `None` if no close came.
    pub sent: Option<Vec<u64>>,
    /// Marked packets dropped in our own queues on the way, after S was counted.
    pub congestion_dropped: Vec<u64>,
    /// The spines' own records, if closes carried room for them.
    pub hops: Option<Vec<HopRecord>>,
    /// Usable spines whose counts say nothing, with the reason.
    pub void: Vec<(SpineId, VoidReason)>,
    /// What ended the window.
    pub end: EndReason,
    /// When the first marked packet of the window was counted.
    pub first_marked_ns: Nanos,
    /// When the window closed.
    pub closed_ns: Nanos,
}

/// Marked packets of one window at one spine, each number absent if the close
/// that should have brought it did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopRecord {
    /// Received from the source leaf.
    pub received: Option<u64>,
    /// Sent to the destination leaf.
    pub sent: Option<u64>,
    /// Dropped in the spine's own queues.
    pub dropped: Option<u64>,
}

/// Why a path of a window could not be tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum VoidReason {
    /// A link or the liveness of the spine changed during the window.
    LinkChanged,
    /// X + congestion drops exceed S: messages of two windows were mixed up.
    MoreReceivedThanSent,
    /// Packets of another window of the same colour were counted.
    ColourClash,
    /// Our own queues dropped marked packets, and the rules (the paper's: any
    /// drop is taken for a failure) cannot take them out.
    KnownDrops,
    /// No close came, so M and S are not known.
    NoClose,
    /// Packets are missing, and the spine has not told how many its own queues dropped.
    NoRecord,
    /// No packet was sent on this path.
    NothingSent,
    /// The configuration has changed while the window ran, or while its counts waited for more.
    Reconfigured,
}

/// What ended a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// A counted PSN at or past the last one.
    LastPsn,
    /// The close of its source leaf.
    Close,
    /// The sequential test had seen enough.
    Alarm,
    /// Nothing came for too long.
    Timeout,
}

/// A window that contradicts itself or the fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// A per-spine list has not one entry per usable spine.
    #[error("`{list}` has {len} entries for {usable} usable spines")]
    Length {
        /// Which list.
        list: &'static str,
        /// Its length.
        len: usize,
        /// The number of usable spines.
        usable: usize,
    },
    /// `usable` is empty, unsorted or has duplicates.
    #[error("the usable spines are not an ascending list of at least one")]
    UsableNotAscending,
    /// A path is not one between two different leaves of the fabric.
    #[error(transparent)]
    OutsideFabric(#[from] OutsideFabric),
}

impl Window {
    /// Refuses a window whose lists do not fit each other or the fabric.
    ///
    /// # Errors
    /// The first contradiction found.
    pub fn check(&self, fabric: Fabric) -> Result<(), WindowError> {
        let usable = self.usable.len();
        if usable == 0 || !self.usable.is_sorted_by(|a, b| a < b) {
            return Err(WindowError::UsableNotAscending);
        }
        let lists = [
            ("counts", Some(self.counts.len())),
            ("sent", self.sent.as_ref().map(Vec::len)),
            ("congestion_dropped", Some(self.congestion_dropped.len())),
            ("hops", self.hops.as_ref().map(Vec::len)),
        ];
        for (list, len) in lists {
            if let Some(len) = len.filter(|&len| len != usable) {
                return Err(WindowError::Length { list, len, usable });
            }
        }
        for &spine in &self.usable {
            let path = Path {
                src: self.src,
                spine,
                dst: self.dst,
            };
            if !fabric.contains(path) {
                return Err(OutsideFabric { path, fabric }.into());
            }
        }
        Ok(())
    }

    /// Why the path via `spine` is void, if the data plane said so.
    pub fn void_reason(&self, spine: SpineId) -> Option<VoidReason> {
        self.void
            .iter()
            .find(|(void, _)| *void == spine)
            .map(|&(_, reason)| reason)
    }
}

impl HopRecord {
    /// Packets the spine sent on towards the destination leaf: what it says, or
    /// else what it received less its own drops.
    pub fn sent_on(&self) -> Option<u64> {
        self.sent
            .or_else(|| self.received?.checked_sub(self.dropped?))
    }
}

impl fmt::Display for VoidReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VoidReason::LinkChanged => "link-changed",
            VoidReason::MoreReceivedThanSent => "more-received-than-sent",
            VoidReason::ColourClash => "colour-clash",
            VoidReason::KnownDrops => "known-drops",
            VoidReason::NoClose => "no-close",
            VoidReason::NoRecord => "no-record",
            VoidReason::NothingSent => "nothing-sent",
            VoidReason::Reconfigured => "reconfigured",
        })
    }
}

impl fmt::Display for EndReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            EndReason::LastPsn => "last-psn",
            EndReason::Close => "close",
            EndReason::Alarm => "alarm",
            EndReason::Timeout => "timeout",
        })
    }
}
