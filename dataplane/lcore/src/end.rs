//! Where a poll loop receives from and sends to: a queue of a device, or a ring.
//!
//! Rings are links inside one process, and what tests put in the place of devices.

use dpdk::{Burst, RingReceiver, RingSender, RxQueue, TxQueue};

/// What packets come out of.
pub enum Rx {
    /// A receive queue of a device.
    Device(RxQueue),
    /// A ring.
    Ring(RingReceiver),
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
