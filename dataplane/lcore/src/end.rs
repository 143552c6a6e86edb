//! Where a poll loop receives from and sends to: a queue of a device, or a ring.
//!
//! Rings are links inside one process, and what tests put in the place of devices.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dpdk::bench::Stamp;
use dpdk::{Burst, RingReceiver, RingSender, RxQueue, TxQueue};

/// What packets come out of.
pub enum Rx {
    /// A receive queue of a device.
    Device(RxQueue),
    /// A ring.
    Ring(RingReceiver),
    /// A receive queue of a benchmark.
    Returning(Box<Returning>),
}

/// A receive queue of a benchmark, whose frames have been sent before and are put right again.
pub struct Returning {
    /// The queue.
    pub queue: RxQueue,
    /// What puts them right.
    pub stamp: Stamp,
    /// Packets of a poll at most.
    pub most: u16,
    /// Whether anything is received.
    pub is_open: Arc<AtomicBool>,
}

impl Returning {
    fn receive(&mut self, burst: &mut Burst) -> usize {
        if !self.is_open.load(Ordering::Relaxed) {
            return 0;
        }
        let count = self.queue.receive_at_most(burst, self.most);
        self.stamp.apply(burst);
        count
    }
}

/// What packets go into.
pub enum Tx {
    /// A transmit queue of a device.
    Device(TxQueue),
    /// A ring.
    Ring(RingSender),
}

impl Rx {
    /// Appends what has arrived to the burst. Returns how many packets that are.
    #[inline]
    pub fn receive(&mut self, burst: &mut Burst) -> usize {
        match self {
            Rx::Device(queue) => queue.receive(burst),
            Rx::Ring(ring) => ring.receive_burst(burst),
            Rx::Returning(queue) => queue.receive(burst),
        }
    }
}

impl Tx {
    /// Sends as many packets as it takes, from the first on; the others stay.
    #[inline]
    pub fn send(&mut self, burst: &mut Burst) -> usize {
        match self {
            Tx::Device(queue) => queue.send(burst),
            Tx::Ring(ring) => ring.send_burst(burst),
        }
    }
}
