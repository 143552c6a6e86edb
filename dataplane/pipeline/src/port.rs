//! Egress: eight strict-priority queues per port, bounded in bytes, behind a token bucket.
//!
//! All queues of a switch share one slab of nodes that is allocated at start, so no queue
//! allocates and the switch as a whole is bounded in packets as well. On a vdev nothing but the
//! token bucket makes a queue, and without queues neither priorities nor JSQ mean anything.

mod remote;
pub mod serve;

use std::hint::select_unpredictable;

use crate::busy::BusyPorts;
use crate::config::QueueConfig;
use crate::counters::PortCounters;
use crate::drop::DropReason;
use crate::types::Nanos;

/// Priorities of a port; the highest number goes first.
pub const PRIORITIES: usize = 8;
/// The priority of the measured flow at its source leaf.
pub const MEASURED: u8 = 7;

const NONE: u32 = u32::MAX;

struct Node<T> {
    token: Option<T>,
    len: u32,
    next: u32,
}

/// The queues and the shaper of one port: the cache lines that every packet needs, in order, and
/// what is counted behind them.
#[repr(C, align(64))]
struct Egress {
    /// When the link will be free, in picoseconds.
    free_at_ps: u64,
    /// Picoseconds per byte, in 1/256.
    byte_ps_256: u64,
    /// The longest frame that is taken: none at all while the link is down or choked.
    frame_max_bytes: u32,
    /// Bit p: queue p has packets.
    busy: u32,
    packets: u32,
    /// The longest frame of a link that is up.
    link_max_bytes: u32,
    /// Bytes by priority, and in all. The last two, which a measured packet changes, lie in one
    /// cache line.
    bytes: [u64; PRIORITIES + 1],
    /// First and last packet by priority.
    ends: [(u32, u32); PRIORITIES],
    up: bool,
    /// Another lcore's, to which too many packets are on their way.
    is_choked: bool,
    /// Bit p: queue p was served since [`Queues::watch`] looked last.
    served: u8,
    counters: PortCounters,
}

/// The place in [`Egress::bytes`] of all bytes together.
const ALL: usize = PRIORITIES;

impl Egress {
    /// Kept out of line: a loop in the packet path for a depth that few packets ask for.
    #[inline(never)]
    fn depth_bytes(&self, priority: u8) -> u64 {
        self.bytes[usize::from(priority)..ALL].iter().sum()
    }

    /// What is taken now.
    fn admit(&mut self) {
        let is_open = self.up && !self.is_choked;
        self.frame_max_bytes = if is_open { self.link_max_bytes } else { 0 };
    }

    /// Why a frame of `len` bytes is longer than what is taken now.
    #[cold]
    fn refusal(&self, len: u32) -> DropReason {
        if !self.up {
            DropReason::LinkDown
        } else if len > self.link_max_bytes {
            DropReason::Oversize
        } else {
            DropReason::HandOffFull
        }
    }

    /// Keeps the most that stood here. A backlog is at its most right before it shrinks.
    #[inline(always)]
    fn note_backlog(&mut self) {
        let most = &mut self.counters.backlog_bytes_max;
        *most = (*most).max(self.bytes[ALL]);
    }

    /// The highest priority that has packets, if any has.
    #[inline(always)]
    fn highest(&self) -> usize {
        (31 - (self.busy | 1).leading_zeros()) as usize & (PRIORITIES - 1)
    }

    /// Takes the first packet of the highest priority.
    fn pop<T>(&mut self, nodes: &mut [Node<T>], free: &mut u32) -> Option<(T, u32)> {
        let queue = self.highest();
        let index = self.ends[queue].0;
        let node = nodes.get_mut(index as usize)?;
        let (len, next) = (node.len, node.next);
        let token = node.token.take();
        self.ends[queue].0 = next;
        self.busy &= !(u32::from(next == NONE) << queue);
        node.next = *free;
        *free = index;
        self.served |= 1 << queue;
        self.bytes[queue] -= u64::from(len);
        self.bytes[ALL] -= u64::from(len);
        self.packets -= 1;
        token.map(|token| (token, len))
    }
}

/// The egress side of all ports of a switch.
pub struct Queues<T> {
    nodes: Vec<Node<T>>,
    free: u32,
    ports: Vec<Egress>,
    /// Ports that may have something queued.
    busy: BusyPorts,
    /// Since when queues wait, by port.
    waits: Vec<serve::Waits>,
    watched_at: Nanos,
    /// The longest frame that every port takes.
    least_max_bytes: u32,
    limit_bytes: u64,
    slack_ps: u64,
    overhead_bytes: u32,
}

impl<T> Queues<T> {
    /// Empty queues for ports of such rates (bits per second) and largest frames (bytes).
    pub fn new(config: &QueueConfig, ports: impl Iterator<Item = (u64, u32)>) -> Queues<T> {
        let count = config.packets_max;
        let nodes = (0..count)
            .map(|index| Node {
                token: None,
                len: 0,
                next: if index + 1 == count { NONE } else { index + 1 },
            })
            .collect();
        let ports: Vec<Egress> = ports
            .map(|(rate_bps, frame_max_bytes)| Egress {
                bytes: [0; PRIORITIES + 1],
                ends: [(NONE, NONE); PRIORITIES],
                free_at_ps: 0,
                byte_ps_256: (8_000_000_000_000u128 * 256 / u128::from(rate_bps.max(1))) as u64,
                frame_max_bytes,
                busy: 0,
                packets: 0,
                link_max_bytes: frame_max_bytes,
                up: true,
                is_choked: false,
                served: 0,
                counters: PortCounters::default(),
            })
            .collect();
        Queues {
            nodes,
            free: if count == 0 { NONE } else { 0 },
            busy: BusyPorts::new(ports.len()),
            waits: vec![serve::Waits::default(); ports.len()],
            watched_at: Nanos(0),
            least_max_bytes: ports
                .iter()
                .map(|egress| egress.link_max_bytes)
                .min()
                .unwrap_or(0),
            ports,
            limit_bytes: config.limit_bytes,
            slack_ps: config.slack_ns * 1000,
            overhead_bytes: config.overhead_bytes,
        }
    }

    /// Bytes queued on `port` at `priority` and above: what a packet of that priority waits for.
    #[inline(always)]
    pub fn depth_bytes(&self, port: usize, priority: u8) -> u64 {
        let egress = &self.ports[port];
        match priority {
            0 => egress.bytes[ALL],
            MEASURED => egress.bytes[usize::from(MEASURED)],
            _ => egress.depth_bytes(priority),
        }
    }

    /// The place of such a depth among a port's sums, if it is one of them.
    #[inline(always)]
    pub(crate) fn depth_place(priority: u8) -> Option<usize> {
        match priority {
            0 => Some(ALL),
            MEASURED => Some(usize::from(MEASURED)),
            _ => None,
        }
    }

    /// The sum at `place` of `port`.
    #[inline(always)]
    pub(crate) fn depth_at(&self, port: usize, place: usize) -> u64 {
        self.ports[port].bytes[place]
    }

    /// Bytes queued on `port` at `priority` alone.
    #[inline(always)]
    pub fn queue_bytes(&self, port: usize, priority: u8) -> u64 {
        self.ports[port].bytes[usize::from(priority)]
    }

    /// Puts a packet of `len` bytes into a queue, or gives it back with the reason.
    #[inline(always)]
    pub fn enqueue(
        &mut self,
        port: usize,
        priority: u8,
        token: T,
        len: u32,
    ) -> Result<(), (T, DropReason)> {
        let egress = &mut self.ports[port];
        let queue = usize::from(priority) & (PRIORITIES - 1);
        if len > egress.frame_max_bytes {
            return Err((token, egress.refusal(len)));
        }
        let depth = egress.bytes[queue] + u64::from(len);
        if depth > self.limit_bytes {
            egress.counters.tail_drops[queue] += 1;
            return Err((token, DropReason::TailDrop));
        }
        match self.link(port, queue, token, len) {
            Ok(()) => {
                self.ports[port].counters.enqueued += 1;
                Ok(())
            }
            Err(token) => Err((token, DropReason::QueueMemory)),
        }
    }

    /// Appends a packet to a queue, or gives it back if there is no node for it.
    #[inline(always)]
    fn link(&mut self, port: usize, queue: usize, token: T, len: u32) -> Result<(), T> {
        let index = self.free;
        let Some(next) = self.nodes.get(index as usize).map(|node| node.next) else {
            return Err(token);
        };
        self.free = next;
        let egress = &mut self.ports[port];
        let (first, last) = &mut egress.ends[queue];
        // Whether a queue is empty cannot be predicted: it is linked behind its last packet or,
        // if there is none, behind itself, which is mended below.
        let is_empty = egress.busy >> queue & 1 == 0;
        let before = select_unpredictable(is_empty, index, *last);
        *first = select_unpredictable(is_empty, index, *first);
        *last = index;
        if let Some(before) = self.nodes.get_mut(before as usize) {
            before.next = index;
        }
        let node = &mut self.nodes[index as usize];
        // A free node holds nothing: nothing is forgotten, and the compiler need not look.
        std::mem::forget(node.token.replace(token));
        node.len = len;
        node.next = NONE;
        egress.busy |= 1 << queue;
        self.busy.insert(port);
        egress.bytes[queue] += u64::from(len);
        egress.bytes[ALL] += u64::from(len);
        egress.packets += 1;
        Ok(())
    }

    /// Gives what may leave `port` at `now` to `take`, highest priority first, at line rate, up to
    /// `room` packets. Returns how many.
    #[inline(always)]
    pub fn dequeue(
        &mut self,
        now: Nanos,
        port: usize,
        room: usize,
        mut take: impl FnMut(T),
    ) -> usize {
        let egress = &mut self.ports[port];
        if egress.busy == 0 {
            return 0;
        }
        egress.note_backlog();
        let now_ps = now.0.saturating_mul(1000);
        // A port that was polled late may send what it missed, but no more than the slack.
        let earliest_ps = now_ps.saturating_sub(self.slack_ps);
        let (mut sent, mut sent_bytes, mut free_at_ps) = (0, 0, egress.free_at_ps);
        while egress.busy != 0 && sent < room && free_at_ps <= now_ps {
            let queue = egress.highest();
            let first = egress.ends[queue].0;
            // The packets that leave are linked already: they become free nodes as they are.
            let (mut next, mut last, mut bytes) = (first, first, 0);
            while sent < room
                && free_at_ps <= now_ps
                && let Some(node) = self.nodes.get_mut(next as usize)
            {
                (last, next) = (next, node.next);
                let len = node.len;
                let cost_ps = (u64::from(len + self.overhead_bytes) * egress.byte_ps_256) >> 8;
                free_at_ps = free_at_ps.max(earliest_ps) + cost_ps;
                bytes += u64::from(len);
                sent += 1;
                if let Some(token) = node.token.take() {
                    take(token);
                }
            }
            if let Some(node) = self.nodes.get_mut(last as usize) {
                node.next = self.free;
                self.free = first;
            }
            egress.ends[queue].0 = next;
            // The end of an empty queue is never read: the next packet becomes its head as well.
            egress.busy &= !(u32::from(next == NONE) << queue);
            egress.served |= 1 << queue;
            egress.bytes[queue] -= bytes;
            egress.bytes[ALL] -= bytes;
            sent_bytes += bytes;
        }
        egress.packets -= sent as u32;
        egress.free_at_ps = free_at_ps;
        egress.counters.tx_packets += sent as u64;
        egress.counters.tx_bytes += sent_bytes;
        sent
    }

    /// When [`Queues::dequeue`] will next give a packet of `port`; `None` while it is empty.
    #[inline]
    pub fn next_departure(&self, port: usize) -> Option<Nanos> {
        let egress = &self.ports[port];
        (egress.busy != 0).then(|| Nanos(egress.free_at_ps.div_ceil(1000)))
    }

    /// The first port from `from` on that has something queued.
    pub fn next_busy(&mut self, from: usize) -> Option<usize> {
        let mut port = self.busy.next(from)?;
        while self.ports[port].busy == 0 {
            self.busy.remove(port);
            port = self.busy.next(port)?;
        }
        Some(port)
    }

    /// A port that was given a packet since it was last told here, for drivers that come to a port
    /// by events and not by walking all.
    #[inline(always)]
    pub fn take_woken(&mut self) -> Option<usize> {
        let port = self.busy.next(0)?;
        self.busy.remove(port);
        Some(port)
    }

    /// Whether the link of `port` is up.
    #[inline(always)]
    pub fn is_up(&self, port: usize) -> bool {
        self.ports[port].up
    }

    /// Takes the link of `port` up or down. What a dead link has queued waits for
    /// [`Queues::flush`].
    pub fn set_up(&mut self, port: usize, up: bool) {
        self.ports[port].up = up;
        self.ports[port].admit();
    }

    /// The next packet that is queued on a port which is down, and its priority.
    pub fn flush(&mut self, port: usize) -> Option<(T, u8)> {
        let egress = &mut self.ports[port];
        if egress.up || egress.busy == 0 {
            return None;
        }
        egress.note_backlog();
        let priority = 31 - egress.busy.leading_zeros() as u8;
        let (token, _) = egress.pop(&mut self.nodes, &mut self.free)?;
        egress.counters.flushed += 1;
        Some((token, priority))
    }

    /// Packets queued on `port`.
    pub fn queued(&self, port: usize) -> u32 {
        self.ports[port].packets
    }

    /// Whether no port refuses a frame of `len` bytes for its length.
    #[inline(always)]
    pub fn takes_everywhere(&self, len: u32) -> bool {
        len <= self.least_max_bytes
    }

    /// Whether the link of `port` is up and a frame of `len` bytes too long for it.
    #[inline(always)]
    pub fn is_oversize(&self, port: usize, len: u32) -> bool {
        let egress = &self.ports[port];
        len > egress.link_max_bytes && egress.up
    }

    /// Counters of `port`.
    #[inline(always)]
    pub fn counters(&self, port: usize) -> &PortCounters {
        &self.ports[port].counters
    }

    /// Counts received packets of `port`.
    #[inline(always)]
    pub fn count_received(&mut self, port: usize, packets: u64, bytes: u64) {
        let counters = &mut self.ports[port].counters;
        counters.rx_packets += packets;
        counters.rx_bytes += bytes;
    }

    /// Asks the CPU for what receiving on `port` counts in.
    #[inline(always)]
    pub(crate) fn foresee_received(&self, port: usize) {
        if let Some(egress) = self.ports.get(port) {
            prefetch::line(&egress.counters.rx_packets);
        }
    }

    /// Asks the CPU for what a packet that leaves by `port` meets.
    #[inline(always)]
    pub(crate) fn foresee(&self, port: usize) {
        if let Some(egress) = self.ports.get(port) {
            prefetch::line(egress);
            prefetch::line(&egress.bytes[usize::from(MEASURED)]);
            prefetch::line(&egress.ends[PRIORITIES - 1]);
            prefetch::line(&egress.counters);
            prefetch::line(&egress.counters.tx_bytes);
        }
    }

    /// The conservation law of every port.
    pub fn is_conserved(&self) -> bool {
        (0..self.ports.len()).all(|port| {
            let c = &self.ports[port].counters;
            c.enqueued == c.tx_packets + c.flushed + u64::from(self.queued(port))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn next(queues: &mut Queues<u32>, now: u64) -> Option<u32> {
        let mut next = None;
        queues.dequeue(Nanos(now), 0, 1, |token| next = Some(token));
        next
    }

    pub(super) fn queues(limit_bytes: u64, packets_max: u32, slack_ns: u64) -> Queues<u32> {
        let config = QueueConfig {
            limit_bytes,
            packets_max,
            slack_ns,
            overhead_bytes: 24,
            dscp_priority: [0; 64],
            pcp_priority: None,
            ecn: [None; 8],
        };
        Queues::new(
            &config,
            [(8_000_000_000, 1000), (8_000_000_000, 1000)].into_iter(),
        )
    }

    #[test]
    fn the_highest_priority_goes_first_and_each_queue_is_fifo() {
        let mut q = queues(10_000, 16, 1_000_000);
        for (token, priority) in [(1, 0), (2, 7), (3, 3), (4, 7), (5, 0)] {
            q.enqueue(0, priority, token, 100).unwrap();
        }
        let out: Vec<u32> = std::iter::from_fn(|| next(&mut q, 1_000_000)).collect();
        assert_eq!(out, [2, 4, 3, 1, 5]);
        assert!(q.is_conserved());
    }

    #[test]
    fn the_bucket_keeps_the_line_rate() {
        // 1 byte per nanosecond; 976 + 24 bytes take 1000 ns.
        let mut q = queues(1 << 20, 1024, 0);
        for token in 0..100 {
            q.enqueue(0, 0, token, 976).unwrap();
        }
        let mut sent = 0;
        for now in 0..50_000 {
            while next(&mut q, now).is_some() {
                sent += 1;
            }
        }
        assert_eq!(sent, 50, "50 us at 1 us a packet");
        assert_eq!(q.next_departure(0), Some(Nanos(50_000)));
        assert_eq!(q.next_departure(1), None);
    }

    #[test]
    fn a_late_poll_catches_up_by_the_slack_alone() {
        let mut q = queues(1 << 20, 1024, 3_000);
        for token in 0..100 {
            q.enqueue(0, 0, token, 976).unwrap();
        }
        let burst = std::iter::from_fn(|| next(&mut q, 1_000_000)).count();
        assert_eq!(
            burst, 4,
            "three that were missed within 3 us of slack, and the one due now"
        );
    }

    #[test]
    fn every_bound_has_its_reason() {
        let mut q = queues(1_000, 3, 0);
        assert_eq!(q.enqueue(0, 0, 9, 1001), Err((9, DropReason::Oversize)));
        q.enqueue(0, 0, 1, 600).unwrap();
        assert_eq!(q.enqueue(0, 0, 2, 401), Err((2, DropReason::TailDrop)));
        q.enqueue(0, 1, 3, 600).unwrap();
        q.enqueue(1, 0, 4, 600).unwrap();
        assert_eq!(q.enqueue(1, 1, 5, 10), Err((5, DropReason::QueueMemory)));
        assert_eq!(q.counters(0).tail_drops[0], 1);
        assert_eq!(
            (
                q.depth_bytes(0, 0),
                q.depth_bytes(0, 1),
                q.depth_bytes(0, 7)
            ),
            (1200, 600, 0)
        );
        assert_eq!(q.flush(0), None, "nothing is taken from a live link");
        q.set_up(0, false);
        let flushed: Vec<_> = std::iter::from_fn(|| q.flush(0)).collect();
        assert_eq!(flushed, [(3, 1), (1, 0)]);
        assert_eq!(q.enqueue(0, 0, 6, 10), Err((6, DropReason::LinkDown)));
        q.enqueue(1, 1, 5, 10).unwrap();
        assert!(q.is_conserved());
    }
}
