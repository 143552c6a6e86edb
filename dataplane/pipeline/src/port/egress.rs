//! What each port has: its queues' heads, its shaper, and where all ports lie.

use super::PRIORITIES;
use super::slots::{Fifo, Slots};
use crate::busy::PORTS_MAX;
use crate::config::QueueConfig;
use crate::drop::DropReason;

/// The queues and the shaper of one port. A packet for which nothing waits meets the first 64 bytes
/// alone; what else it needs stands in the order of use, and what is counted less often in
/// [`Queues::rare`].
#[repr(C, align(64))]
pub(super) struct Egress {
    /// When the link will be free, in picoseconds.
    pub(super) free_at_ps: u64,
    /// Bytes up to which a queue takes packets without a question: its limit, or less where marking begins.
    pub(super) easy_bytes: u64,
    /// Picoseconds per byte, in 1/256; a rate below 0.5 Mbit/s is taken for that.
    pub(super) byte_ps_256: u32,
    /// Bit p: queue p has packets.
    pub(super) busy: u32,
    /// The neighbour's MAC address and the port's own, as a frame has them.
    pub(super) macs: [u8; 12],
    /// The longest packet that was cut through, and packets and bytes that were since
    /// [`Egress::settle_cuts`].
    pub(super) cut_len_max: u32,
    pub(super) cut_packets: u32,
    pub(super) cut_bytes: u32,
    /// Bytes in all, and by priority, the highest first ([`at`]): the sums that most sprayed packets
    /// compare are the first two.
    pub(super) bytes: [u64; PRIORITIES + 1],
    /// Packets that came into the queues, here admitted or by another instance.
    pub(super) entered: u64,
    /// By priority.
    pub(super) fifos: [Fifo; PRIORITIES],
    pub(super) tx_packets: u64,
    pub(super) tx_bytes: u64,
    /// Most bytes that stood here at once.
    pub(super) backlog_bytes_max: u64,
    /// Bytes of a queue: none at all while the link is down or choked.
    pub(super) limit_bytes: u64,
    /// Bytes of a queue above which packets may be marked.
    pub(super) kmin_bytes: u64,
    /// Packets that were taken out by [`Egress::pop`], and not sent.
    pub(super) popped: u32,
    /// The longest frame that is taken.
    pub(super) link_max_bytes: u32,
    pub(super) up: bool,
    /// Another lcore's, to which too many packets are on their way.
    pub(super) is_choked: bool,
    /// Bit p: queue p was served since [`Queues::watch`] looked last.
    pub(super) served: u8,
}

/// A port's place is found by a shift.
const _: () = assert!(size_of::<Egress>() == 256);

/// The place in [`Egress::bytes`] of all bytes together.
pub(super) const ALL: usize = 0;

/// The place in [`Egress::bytes`] of a queue's.
#[inline(always)]
pub(super) const fn at(queue: usize) -> usize {
    PRIORITIES - (queue & (PRIORITIES - 1))
}

// What a packet that is cut through meets, and the sums that the measured flow is sprayed by.
const _: () = assert!(std::mem::offset_of!(Egress, bytes) + 8 * (at(PRIORITIES - 1) + 1) == 64);

impl Egress {
    /// A port that there is not: it takes nothing.
    pub(super) const NONE: Egress = Egress {
        free_at_ps: 0,
        easy_bytes: 0,
        byte_ps_256: 0,
        busy: 0,
        macs: [0; 12],
        cut_len_max: 0,
        cut_packets: 0,
        cut_bytes: 0,
        bytes: [0; PRIORITIES + 1],
        entered: 0,
        fifos: [Fifo::EMPTY; PRIORITIES],
        tx_packets: 0,
        tx_bytes: 0,
        backlog_bytes_max: 0,
        limit_bytes: 0,
        kmin_bytes: 0,
        popped: 0,
        link_max_bytes: 0,
        up: false,
        is_choked: false,
        served: 0,
    };

    /// Kept out of line: a loop in the packet path for a depth that few packets ask for.
    #[inline(never)]
    pub(super) fn depth_bytes(&self, priority: u8) -> u64 {
        self.bytes[ALL + 1..=at(usize::from(priority))].iter().sum()
    }

    /// Whether a packet of `len` bytes that comes now would leave now: nothing waits, and the link is
    /// free. One that may be refused or marked has to ask.
    #[inline(always)]
    pub(super) fn is_open(&self, now_ps: u64, len: u32) -> bool {
        self.busy == 0 && self.free_at_ps <= now_ps && u64::from(len) <= self.easy_bytes
    }

    /// Counts a packet that leaves without having been queued.
    #[inline(always)]
    pub(super) fn count_cut(&mut self, len: u32) {
        let Some(bytes) = self.cut_bytes.checked_add(len) else {
            self.settle_cuts();
            return self.count_first_cut(len);
        };
        self.cut_bytes = bytes;
        // No more often than once a byte: a frame has some.
        self.cut_packets = self.cut_packets.wrapping_add(1);
        self.cut_len_max = self.cut_len_max.max(len);
    }

    fn count_first_cut(&mut self, len: u32) {
        (self.cut_packets, self.cut_bytes) = (1, len);
        self.cut_len_max = self.cut_len_max.max(len);
    }

    /// Adds what was cut through to what was queued and sent.
    #[cold]
    #[inline(never)]
    fn settle_cuts(&mut self) {
        self.entered += u64::from(self.cut_packets);
        self.tx_packets += u64::from(self.cut_packets);
        self.tx_bytes += u64::from(self.cut_bytes);
        (self.cut_packets, self.cut_bytes) = (0, 0);
    }

    /// Packets that came into the queues, or would have, but for the way past them.
    pub(super) fn all_entered(&self) -> u64 {
        self.entered + u64::from(self.cut_packets)
    }

    /// Packets and bytes that left.
    pub(super) fn all_sent(&self) -> (u64, u64) {
        let packets = self.tx_packets + u64::from(self.cut_packets);
        (packets, self.tx_bytes + u64::from(self.cut_bytes))
    }

    /// Most bytes that stood here at once; what was cut through stood alone.
    pub(super) fn most_bytes(&self) -> u64 {
        self.backlog_bytes_max.max(u64::from(self.cut_len_max))
    }

    /// What is taken now, if a queue may hold `limit_bytes`.
    pub(super) fn admit(&mut self, limit_bytes: u64) {
        let is_open = self.up && !self.is_choked;
        self.limit_bytes = if is_open { limit_bytes } else { 0 };
        self.easy_bytes = self.limit_bytes.min(self.kmin_bytes);
    }

    /// Why a frame of `len` bytes is not taken into a queue.
    #[cold]
    pub(super) fn refusal(&self, len: u32) -> DropReason {
        if !self.up {
            DropReason::LinkDown
        } else if len > self.link_max_bytes {
            DropReason::Oversize
        } else if self.is_choked {
            DropReason::HandOffFull
        } else {
            DropReason::TailDrop
        }
    }

    /// How long frames take on the link, each with so many bytes beside its own.
    #[inline(always)]
    pub(super) fn wire(&self, overhead_bytes: u32) -> Wire {
        Wire {
            byte_ps_256: u64::from(self.byte_ps_256),
            overhead_bytes: u64::from(overhead_bytes),
        }
    }

    /// Packets in the queues. Both counts wrap alike.
    #[inline(always)]
    pub(super) fn queued(&self) -> u32 {
        (self.entered.wrapping_sub(self.tx_packets) as u32).wrapping_sub(self.popped)
    }

    /// Keeps the most that stood here. A backlog is at its most right before it shrinks.
    #[inline(always)]
    pub(super) fn note_backlog(&mut self) {
        self.backlog_bytes_max = self.backlog_bytes_max.max(self.bytes[ALL]);
    }

    /// The highest priority that has packets, if any has.
    #[inline(always)]
    pub(super) fn highest(&self) -> usize {
        (31 - (self.busy | 1).leading_zeros()) as usize & (PRIORITIES - 1)
    }

    /// Takes the first packet of the highest priority. Who took it counts it, as sent or as popped.
    #[inline(always)]
    pub(super) fn pop<T>(&mut self, slots: &mut Slots<T>) -> Option<(T, u32)> {
        let queue = self.highest();
        let (token, len, is_empty) = slots.pop(&mut self.fifos[queue])?;
        self.busy &= !(u32::from(is_empty) << queue);
        self.served |= 1 << queue;
        self.bytes[at(queue)] -= u64::from(len);
        self.bytes[ALL] -= u64::from(len);
        Some((token, len))
    }
}

/// What a link's time goes by.
pub(super) struct Wire {
    /// As [`Egress::byte_ps_256`].
    byte_ps_256: u64,
    /// Bytes that each frame takes beside its own.
    overhead_bytes: u64,
}

impl Wire {
    /// How long so many frames take, in picoseconds, of so many bytes in all.
    #[inline(always)]
    pub(super) fn time_ps(&self, frames: usize, bytes: u64) -> u64 {
        ((bytes + frames as u64 * self.overhead_bytes) * self.byte_ps_256) >> 8
    }

    /// How many of these frames begin within `ps`, one after the other, and their bytes.
    #[inline(never)]
    pub(super) fn begun(&self, lens: &[u32], ps: u64) -> (usize, u64) {
        let (mut frames, mut bytes) = (0, 0);
        for len in lens {
            if self.time_ps(frames, bytes) > ps {
                break;
            }
            frames += 1;
            bytes += u64::from(*len);
        }
        (frames, bytes)
    }
}

#[inline(always)]
pub(super) fn sum(lens: &[u32]) -> u64 {
    lens.iter().map(|len| u64::from(*len)).sum()
}

/// Bytes that any queue of a port of such a rate may hold before packets are marked.
pub(super) fn kmin_bytes(config: &QueueConfig, rate_bps: u64) -> u64 {
    let curves = config.ecn.iter().flatten();
    let kmins = curves.map(|ecn| ecn.thresholds_bytes(rate_bps).0);
    kmins.min().unwrap_or(u64::MAX)
}

/// All ports. There is one at each number, so that a packet's is found without a check.
#[repr(C)]
pub(super) struct Ports {
    all: Box<[Egress; PORTS_MAX]>,
    count: usize,
}

impl Ports {
    pub(super) fn new(ports: impl Iterator<Item = Egress>) -> Ports {
        let mut all: Vec<Egress> = ports.take(PORTS_MAX).collect();
        let count = all.len();
        all.resize_with(PORTS_MAX, || Egress::NONE);
        let Ok(all) = all.try_into() else {
            unreachable!("it has that length")
        };
        Ports { all, count }
    }
}

impl std::ops::Deref for Ports {
    type Target = [Egress];

    fn deref(&self) -> &[Egress] {
        &self.all[..self.count]
    }
}

impl std::ops::DerefMut for Ports {
    fn deref_mut(&mut self) -> &mut [Egress] {
        &mut self.all[..self.count]
    }
}

impl std::ops::Index<usize> for Ports {
    type Output = Egress;

    #[inline(always)]
    fn index(&self, port: usize) -> &Egress {
        debug_assert!(port < self.count, "port {port} of {}", self.count);
        &self.all[port % PORTS_MAX]
    }
}

impl std::ops::IndexMut<usize> for Ports {
    #[inline(always)]
    fn index_mut(&mut self, port: usize) -> &mut Egress {
        debug_assert!(port < self.count, "port {port} of {}", self.count);
        &mut self.all[port % PORTS_MAX]
    }
}
