//! The seam to the driver: packets as opaque owned tokens, and where they go beside the wire.

use crate::drop::DropReason;
use crate::report::Report;
use crate::split::{Claim, Notice};
use crate::types::PortId;

/// A packet that the switch holds: an mbuf on DPDK, a slot in a simulator. It moves once: into a
/// queue, to [`Sink::discard`] or to [`Sink::consume`].
pub trait Token {
    /// The frame's first bytes: at least all headers, all of the frame when it is kept whole.
    fn header(&self) -> &[u8];
    /// The same, to be rewritten.
    fn header_mut(&mut self) -> &mut [u8];
    /// Length of the frame on the wire (without FCS), in bytes.
    fn wire_len(&self) -> u32;
    /// Whether [`Token::header`] can be trusted to be one contiguous frame.
    fn is_whole(&self) -> bool {
        true
    }
}

/// What the driver does for the switch. None of it may block.
pub trait Sink<T> {
    /// An empty packet of `len` zero bytes for what the switch itself sends, if one is free.
    fn alloc(&mut self, len: usize) -> Option<T>;
    /// Takes a packet that is dropped. The switch has counted it.
    fn discard(&mut self, token: T, reason: DropReason);
    /// Takes a packet that was addressed to the switch and is done with.
    fn consume(&mut self, token: T);
    /// Hands a report to control; false when control's ring is full and it is lost.
    fn report(&mut self, report: Report<'_>) -> bool;
    /// Whether [`Sink::cut_through`] may take packets.
    const CUTS_THROUGH: bool = false;
    /// Takes a packet that leaves `port` at once, for nothing waits there and the link is free
    /// (cut-through); the switch then counts it as sent. A driver that asks for packets
    /// ([`crate::Switch::egress`]) gives it back, and it is queued; what leaves, and when, is the same.
    #[inline(always)]
    fn cut_through(&mut self, _port: PortId, token: T) -> Result<(), T> {
        Err(token)
    }
    /// Claims the leaf's one window for this instance of it. A switch that is whole has it anyway.
    fn claim_window(&mut self) -> Claim {
        Claim::Own
    }
    /// Gives the window back, which had that epoch, or would have been the one after it.
    fn release_window(&mut self, _epoch: u32) {}
    /// Tells the other instances of this switch what only one of them can hear.
    fn notice(&mut self, _notice: Notice) {}
}
