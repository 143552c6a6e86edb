//! Egress ports that another lcore owns.
//!
//! A switch that runs on several lcores has one instance per lcore, and each egress port has one
//! owner, which holds its queues and shapes it: so priorities stay strict. The other instances
//! decide by a model of those queues: the depths that the owner has published, and the bytes that
//! they have sent there since. Spraying, marking and tail drop read the model where they would read
//! the queue, at the same place and before anything is counted as sent.
//!
//! What an instance has admitted waits here, by priority, until the ring to the owner takes it.

use packet::ethernet;

use super::egress::{ALL, at};
use super::{PRIORITIES, Queues};

impl<T> Queues<T> {
    /// Bytes in each queue of `port`; of another's port, as the model has them.
    pub fn queues_bytes(&self, port: usize) -> [u64; PRIORITIES] {
        std::array::from_fn(|queue| self.ports[port].bytes[at(queue)])
    }

    /// The largest IP packet that `port` takes with any tags, in bytes.
    pub fn mtu(&self, port: usize) -> u32 {
        let ethernet = ethernet::HEADER_LEN + ethernet::TAGS_MAX * ethernet::TAG_LEN;
        self.ports[port]
            .link_max_bytes
            .saturating_sub(ethernet as u32)
    }

    /// How many more packets the switch can hold.
    pub fn free(&self) -> usize {
        self.slots.room() as usize
    }

    /// Takes the next packet that waits for the owner of `port`, the highest priority first. The
    /// model keeps its bytes: they are on their way to the owner's queue.
    pub fn take_staged(&mut self, port: usize) -> Option<(T, u8, u32)> {
        let egress = &mut self.ports[port];
        if egress.busy == 0 {
            return None;
        }
        let queue = egress.highest();
        let (token, len) = egress.pop(&mut self.slots)?;
        egress.popped = egress.popped.wrapping_add(1);
        egress.bytes[at(queue)] += u64::from(len);
        egress.bytes[ALL] += u64::from(len);
        Some((token, queue as u8, len))
    }

    /// Sets the model of another's port: what its owner holds, and what has been handed to the
    /// owner but is not in there yet; what waits here is added.
    pub fn set_depths(&mut self, port: usize, beyond: &[u64; PRIORITIES]) {
        let staged = self.staged_bytes(port);
        let egress = &mut self.ports[port];
        let queues = beyond.iter().zip(&staged);
        egress.bytes[ALL] = 0;
        for (queue, (beyond, staged)) in queues.enumerate() {
            egress.bytes[at(queue)] = beyond + staged;
            egress.bytes[ALL] += beyond + staged;
        }
    }

    fn staged_bytes(&self, port: usize) -> [u64; PRIORITIES] {
        let egress = &self.ports[port];
        let bytes = |queue: usize| {
            let lengths = self.slots.lengths(egress.fifos[queue]);
            lengths.map(u64::from).sum()
        };
        std::array::from_fn(bytes)
    }

    /// Whether `port` refuses packets because too many wait for its owner.
    pub fn set_choked(&mut self, port: usize, is_choked: bool) {
        self.ports[port].is_choked = is_choked;
        self.ports[port].admit(self.limit_bytes);
    }

    /// Queues a packet that another instance has admitted. Gives it back when the switch holds as
    /// many as it can: the caller has asked [`Queues::free`].
    pub fn accept(&mut self, port: usize, priority: u8, token: T, len: u32) -> Result<(), T> {
        let queue = usize::from(priority) & (PRIORITIES - 1);
        self.door(port).append(queue, token, len)?;
        self.accepted[port] += 1;
        Ok(())
    }
}

impl<T> Queues<T> {
    /// Counts a packet that was admitted to `port` and ends there.
    pub fn count_flushed(&mut self, port: usize) {
        self.rare[port].flushed += 1;
    }
}
