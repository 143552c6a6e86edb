//! Egress: eight strict-priority queues per port, bounded in bytes, behind a token bucket.
//!
//! All queues of a switch share slots that are allocated at start (`slots`), so no queue
//! allocates and the switch as a whole is bounded in packets as well. On a vdev nothing but the
//! token bucket makes a queue, and without queues neither priorities nor JSQ mean anything.

mod egress;
mod remote;
mod reserve;
pub mod serve;
mod slots;

use crate::busy::BusyPorts;
use crate::config::QueueConfig;
use crate::counters::PortCounters;
use crate::drop::DropReason;
use crate::types::Nanos;
use egress::{ALL, Egress, Ports, at, kmin_bytes, sum};
pub use reserve::Reserve;
use slots::{Fifo, Slots};

/// Priorities of a port; the highest number goes first.
pub const PRIORITIES: usize = 8;
/// The priority of the measured flow at its source leaf.
pub const MEASURED: u8 = 7;

/// A row takes as many packets, 2 to this power, before it looks at the queue again.
const ROW_SHIFT: u32 = 6;

/// Packets in a row on their way into one queue, which is told of them at the end.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    fifo: Fifo,
    /// How many more it takes.
    left: u32,
    packets: u32,
    len: u32,
    port: usize,
    queue: usize,
}

impl Row {
    /// One that takes nothing.
    pub(crate) const NONE: Row = Row {
        fifo: Fifo::EMPTY,
        left: 0,
        packets: 0,
        len: 0,
        port: 0,
        queue: 0,
    };

    /// Its port and priority, and the bytes of its packets.
    pub(crate) fn place(&self) -> ((usize, u8), u32) {
        ((self.port, self.queue as u8), self.len)
    }
}

/// The way into the queues of one port.
pub(crate) struct Door<'a, T> {
    egress: &'a mut Egress,
    slots: &'a mut Slots<T>,
    busy: &'a mut BusyPorts,
    port: usize,
}

impl<T> Door<'_, T> {
    /// Puts a packet of `len` bytes, which is no longer than the port's frames, into a queue that takes it
    /// without a question, or gives it back.
    #[inline(always)]
    pub(crate) fn put(self, priority: u8, token: T, len: u32) -> Result<(), T> {
        let queue = usize::from(priority) & (PRIORITIES - 1);
        if self.egress.bytes[at(queue)] + u64::from(len) > self.egress.easy_bytes {
            return Err(token);
        }
        self.append(queue, token, len)
    }

    /// Appends a packet to a queue, or gives it back if there is no slot for it.
    #[inline(always)]
    fn append(self, queue: usize, token: T, len: u32) -> Result<(), T> {
        self.slots.push(&mut self.egress.fifos[queue], token, len)?;
        self.appended(queue, len);
        Ok(())
    }

    /// The same with a message between switches, which may take a slot of the reserve.
    fn append_message(self, queue: usize, token: T, len: u32) -> Result<(), T> {
        let fifo = &mut self.egress.fifos[queue];
        self.slots.push_message(fifo, token, len)?;
        self.appended(queue, len);
        Ok(())
    }

    /// A packet of `len` bytes has come into a queue.
    #[inline(always)]
    fn appended(self, queue: usize, len: u32) {
        let egress = self.egress;
        if egress.busy == 0 {
            self.busy.insert(self.port);
        }
        egress.busy |= 1 << queue;
        egress.bytes[at(queue)] += u64::from(len);
        egress.bytes[ALL] += u64::from(len);
        egress.entered += 1;
    }
}

/// The egress side of all ports of a switch.
#[repr(C)]
pub struct Queues<T> {
    ports: Ports,
    slack_ps: u64,
    /// The longest frame that every port takes.
    least_max_bytes: u32,
    overhead_bytes: u32,
    slots: Slots<T>,
    /// Ports that may have something queued.
    busy: BusyPorts,
    /// What ports count beside what [`Egress`] does.
    rare: Vec<PortCounters>,
    /// Packets of each port that another instance has admitted, and counted.
    accepted: Vec<u64>,
    /// Since when queues wait, by port.
    waits: Vec<serve::Waits>,
    watched_at: Nanos,
    limit_bytes: u64,
    /// What messages between switches have beyond that ([`Reserve`]).
    reserve_bytes: u64,
}

impl<T> Queues<T> {
    /// Empty queues for ports of such rates (bits per second) and largest frames (bytes), and a reserve
    /// for messages.
    pub fn new(
        config: &QueueConfig,
        reserve: Reserve,
        ports: impl Iterator<Item = (u64, u32)>,
    ) -> Queues<T> {
        let ports: Vec<(u64, u32)> = ports.collect();
        let queues = ports.len() * PRIORITIES;
        let slots = Slots::new(config.packets_max, reserve.packets, queues);
        let links = ports.iter().map(|&(rate_bps, frame_max_bytes)| Egress {
            byte_ps_256: u32::try_from(8_000_000_000_000u128 * 256 / u128::from(rate_bps.max(1)))
                .unwrap_or(u32::MAX),
            link_max_bytes: frame_max_bytes,
            up: true,
            kmin_bytes: kmin_bytes(config, rate_bps),
            ..Egress::NONE
        });
        let links = links.map(|mut egress| {
            egress.admit(config.limit_bytes);
            egress
        });
        Queues {
            slots,
            busy: BusyPorts::new(ports.len()),
            waits: vec![serve::Waits::default(); ports.len()],
            rare: vec![PortCounters::default(); ports.len()],
            accepted: vec![0; ports.len()],
            watched_at: Nanos(0),
            least_max_bytes: ports.iter().map(|port| port.1).min().unwrap_or(0),
            ports: Ports::new(links),
            limit_bytes: config.limit_bytes,
            reserve_bytes: reserve.bytes,
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
            MEASURED => egress.bytes[at(usize::from(MEASURED))],
            _ if egress.bytes[ALL] == 0 => 0,
            _ => egress.depth_bytes(priority),
        }
    }

    /// The place of such a depth among a port's sums, if it is one of them.
    #[inline(always)]
    pub(crate) fn depth_place(priority: u8) -> Option<usize> {
        match priority {
            0 => Some(ALL),
            MEASURED => Some(at(usize::from(MEASURED))),
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
        self.ports[port].bytes[at(usize::from(priority))]
    }

    /// Whether a queue takes a packet of `len` bytes now.
    pub(crate) fn takes(&self, port: usize, priority: u8, len: u32) -> bool {
        let egress = &self.ports[port];
        let depth = egress.bytes[at(usize::from(priority))] + u64::from(len);
        depth <= egress.limit_bytes && len <= egress.link_max_bytes && self.slots.room() > 0
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
        let egress = &self.ports[port];
        let queue = usize::from(priority) & (PRIORITIES - 1);
        let depth = egress.bytes[at(queue)] + u64::from(len);
        if len > egress.link_max_bytes || depth > egress.limit_bytes {
            let reason = egress.refusal(len);
            self.rare[port].refused(queue, reason);
            return Err((token, reason));
        }
        self.door(port)
            .append(queue, token, len)
            .map_err(|token| (token, DropReason::QueueMemory))
    }

    /// The way into the queues of `port`.
    #[inline(always)]
    pub(crate) fn door(&mut self, port: usize) -> Door<'_, T> {
        Door {
            egress: &mut self.ports[port],
            slots: &mut self.slots,
            busy: &mut self.busy,
            port,
        }
    }

    /// Where packets in a row, of `len` bytes each, go to one queue.
    #[inline(always)]
    pub(crate) fn row(&self, port: usize, priority: u8, len: u32) -> Row {
        let egress = &self.ports[port];
        let queue = usize::from(priority) & (PRIORITIES - 1);
        let bytes = egress.easy_bytes.saturating_sub(egress.bytes[at(queue)]);
        // Most often there is room for more than a burst, and nothing is divided.
        let fit = if bytes >> ROW_SHIFT >= u64::from(len) {
            1 << ROW_SHIFT
        } else {
            (bytes as u32).checked_div(len).unwrap_or(0)
        };
        Row {
            fifo: egress.fifos[queue],
            left: fit.min(self.slots.room()),
            packets: 0,
            len,
            port,
            queue,
        }
    }

    /// Puts a packet, which is known to be no longer than the port's frames, into a row, or gives it
    /// back: [`Queues::enqueue`] tells why, or takes it after all, after [`Queues::end_row`].
    #[inline(always)]
    pub(crate) fn push(&mut self, row: &mut Row, token: T) -> Result<(), T> {
        if row.left == 0 {
            return Err(token);
        }
        self.slots.put(&mut row.fifo, token, row.len)?;
        row.left -= 1;
        row.packets += 1;
        Ok(())
    }

    /// What a row has taken is queued.
    #[inline(always)]
    pub(crate) fn end_row(&mut self, row: &Row) {
        if row.packets == 0 {
            return;
        }
        let egress = &mut self.ports[row.port];
        egress.fifos[row.queue] = row.fifo;
        if egress.busy == 0 {
            self.busy.insert(row.port);
        }
        egress.busy |= 1 << row.queue;
        self.slots.count(row.packets);
        let bytes = u64::from(row.packets) * u64::from(row.len);
        egress.bytes[at(row.queue)] += bytes;
        egress.bytes[ALL] += bytes;
        egress.entered += u64::from(row.packets);
    }

    /// Whether a packet of `len` bytes, no longer than the port's frames, that is put into a queue of
    /// `port` at `now` would leave at once.
    #[inline(always)]
    pub(crate) fn is_open(&self, now: Nanos, port: usize, len: u32) -> bool {
        let now_ps = now.0.saturating_mul(1000);
        self.ports[port].is_open(now_ps, len) && self.slots.room() > 0
    }

    /// Counts such a packet, which leaves without having been queued, and the time that the link
    /// takes for it.
    #[inline(always)]
    pub(crate) fn count_cut(&mut self, now: Nanos, port: usize, len: u32) {
        let earliest_ps = now.0.saturating_mul(1000).saturating_sub(self.slack_ps);
        let egress = &mut self.ports[port];
        let wire = egress.wire(self.overhead_bytes);
        let taken_ps = wire.time_ps(1, u64::from(len));
        egress.free_at_ps = egress.free_at_ps.max(earliest_ps) + taken_ps;
        egress.count_cut(len);
    }

    /// Adds what may leave `port` at `now` to `out`, highest priority first, at line rate, up to
    /// `room` packets. Returns how many.
    #[inline(always)]
    pub fn dequeue(
        &mut self,
        now: Nanos,
        port: usize,
        room: usize,
        out: &mut impl Extend<T>,
    ) -> usize {
        let egress = &mut self.ports[port];
        if egress.busy == 0 {
            return 0;
        }
        egress.note_backlog();
        let now_ps = now.0.saturating_mul(1000);
        // A port that was polled late may send what it missed, but no more than the slack.
        let earliest_ps = now_ps.saturating_sub(self.slack_ps);
        let wire = egress.wire(self.overhead_bytes);
        let (mut sent, mut sent_bytes, mut free_at_ps) = (0, 0, egress.free_at_ps);
        while egress.busy != 0 && sent < room && free_at_ps <= now_ps {
            let queue = egress.highest();
            let fifo = &mut egress.fifos[queue];
            // Whatever it missed, the link is busy until later than `earliest_ps` from now on.
            free_at_ps = free_at_ps.max(earliest_ps);
            let front = self.slots.front(*fifo, room - sent);
            let (mut count, mut bytes) = (front.lens.len(), sum(front.lens));
            let mut taken_ps = wire.time_ps(count, bytes);
            if free_at_ps + taken_ps > now_ps {
                (count, bytes) = wire.begun(front.lens, now_ps - free_at_ps);
                taken_ps = wire.time_ps(count, bytes);
            }
            free_at_ps += taken_ps;
            out.extend(front.take(count));
            sent += count;
            let is_empty = self.slots.advance(fifo, count as u32);
            egress.busy &= !(u32::from(is_empty) << queue);
            egress.served |= 1 << queue;
            egress.bytes[at(queue)] -= bytes;
            egress.bytes[ALL] -= bytes;
            sent_bytes += bytes;
        }
        egress.free_at_ps = free_at_ps;
        egress.tx_packets += sent as u64;
        egress.tx_bytes += sent_bytes;
        sent
    }

    /// The same for one packet.
    #[inline(always)]
    pub fn dequeue_one(&mut self, now: Nanos, port: usize) -> Option<T> {
        let egress = &mut self.ports[port];
        if egress.busy == 0 {
            return None;
        }
        egress.note_backlog();
        let now_ps = now.0.saturating_mul(1000);
        if egress.free_at_ps > now_ps {
            return None;
        }
        let (token, len) = egress.pop(&mut self.slots)?;
        let wire = egress.wire(self.overhead_bytes);
        let earliest_ps = now_ps.saturating_sub(self.slack_ps);
        let len = u64::from(len);
        egress.free_at_ps = egress.free_at_ps.max(earliest_ps) + wire.time_ps(1, len);
        egress.tx_packets += 1;
        egress.tx_bytes += len;
        Some(token)
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

    /// The MAC addresses that frames to the neighbour of `port` get: they lie where its queues do.
    #[inline(always)]
    pub(crate) fn macs(&self, port: usize) -> &[u8; 12] {
        &self.ports[port].macs
    }

    /// Sets the neighbour's MAC address and the port's own.
    pub(crate) fn set_macs(&mut self, port: usize, macs: [u8; 12]) {
        self.ports[port].macs = macs;
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
        self.ports[port].admit(self.limit_bytes);
    }

    /// The next packet that is queued on a port which is down, and its priority.
    pub fn flush(&mut self, port: usize) -> Option<(T, u8)> {
        let egress = &mut self.ports[port];
        if egress.up || egress.busy == 0 {
            return None;
        }
        egress.note_backlog();
        let priority = 31 - egress.busy.leading_zeros() as u8;
        let (token, _) = egress.pop(&mut self.slots)?;
        egress.popped = egress.popped.wrapping_add(1);
        self.rare[port].flushed += 1;
        Some((token, priority))
    }

    /// Packets queued on `port`.
    pub fn queued(&self, port: usize) -> u32 {
        self.ports[port].queued()
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
    pub fn counters(&self, port: usize) -> PortCounters {
        let egress = &self.ports[port];
        let (tx_packets, tx_bytes) = egress.all_sent();
        PortCounters {
            enqueued: egress.all_entered() - self.accepted[port],
            tx_packets,
            tx_bytes,
            backlog_bytes_max: egress.most_bytes(),
            ..self.rare[port]
        }
    }

    /// Asks the CPU for what a packet meets that leaves `port` at once.
    #[inline(always)]
    pub(crate) fn foresee(&self, port: usize) {
        prefetch::line(&self.ports[port]);
    }

    /// The conservation law of every port, and that its queues hold what is counted.
    pub fn is_conserved(&self) -> bool {
        (0..self.ports.len()).all(|port| {
            let (egress, c) = (&self.ports[port], self.counters(port));
            let queues = egress.fifos.iter();
            let held: usize = queues.map(|fifo| self.slots.lengths(*fifo).count()).sum();
            let queued = u64::from(self.queued(port));
            held as u64 == queued && c.enqueued == c.tx_packets + c.flushed + queued
        })
    }
}

#[cfg(test)]
mod tests;
