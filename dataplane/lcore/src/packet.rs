//! The driver's side of the seam: an mbuf as the pipeline's token, and where tokens go.

use std::sync::Arc;

use agent::seam::{FromSwitch, Seam};
use dpdk::{Burst, Mbuf, Mempool};
use pipeline::{DropReason, Report, Sink, Token};

use crate::taps::Taps;

/// A packet buffer that the pipeline holds.
#[derive(Debug)]
pub struct Packet(Mbuf);

impl From<Mbuf> for Packet {
    #[inline(always)]
    fn from(mbuf: Mbuf) -> Packet {
        Packet(mbuf)
    }
}

impl Packet {
    /// The buffer, to look at.
    #[inline(always)]
    pub fn mbuf(&self) -> &Mbuf {
        &self.0
    }

    /// The buffer, for a queue or a ring.
    #[inline(always)]
    pub fn into_mbuf(self) -> Mbuf {
        self.0
    }
}

/// A burst on its way out of a switch's queues.
pub struct Departing<'a>(pub &'a mut Burst);

impl Extend<Packet> for Departing<'_> {
    #[inline(always)]
    fn extend<I: IntoIterator<Item = Packet>>(&mut self, packets: I) {
        self.0.extend(packets.into_iter().map(Packet::into_mbuf));
    }
}

impl Token for Packet {
    #[inline(always)]
    fn header(&self) -> &[u8] {
        self.0.data()
    }

    #[inline(always)]
    fn header_mut(&mut self) -> &mut [u8] {
        self.0.data_mut()
    }

    #[inline(always)]
    fn wire_len(&self) -> u32 {
        self.0.len() as u32
    }

    #[inline(always)]
    fn is_whole(&self) -> bool {
        self.0.is_single_segment()
    }
}

/// Where a switch's packets and reports go beside the wire. One per lcore, set to the switch that
/// is being driven.
pub struct LcoreSink {
    /// Memory for what switches send themselves.
    pub pool: Mempool,
    /// To control.
    pub seam: Arc<Seam>,
    /// The switch that is being driven.
    pub switch: u16,
    /// Captures.
    pub taps: Taps,
}

impl Sink<Packet> for LcoreSink {
    fn alloc(&mut self, len: usize) -> Option<Packet> {
        let mut mbuf = self.pool.alloc()?;
        mbuf.set_len(len).ok()?;
        mbuf.data_mut().fill(0);
        Some(Packet::from(mbuf))
    }

    fn discard(&mut self, token: Packet, reason: DropReason) {
        let switch = usize::from(self.switch);
        self.taps.dropped(switch, reason.name(), token.mbuf());
        drop(token);
    }

    fn consume(&mut self, token: Packet) {
        drop(token);
    }

    fn report(&mut self, report: Report<'_>) -> bool {
        self.seam
            .reports
            .push(FromSwitch::new(self.switch, report))
            .is_ok()
    }
}
