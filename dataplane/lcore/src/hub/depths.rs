//! How deep the queues of others are. `tests/loom` goes through all orders in which they are published and
//! read; it has atomics of its own in place of `super::atomic`.

use std::array::from_fn;

use crossbeam::utils::CachePadded;
use pipeline::port::PRIORITIES;

use super::atomic::{AtomicU64, Ordering};

/// Depths of one port, as its owner publishes them, and what of each lcore is in them.
#[derive(Debug)]
pub struct Depths<const QUEUES: usize = PRIORITIES> {
    version: CachePadded<AtomicU64>,
    queued: [AtomicU64; QUEUES],
    /// Bytes that the owner has ever accepted from each lcore, by priority.
    accepted: Vec<[AtomicU64; QUEUES]>,
}

impl<const QUEUES: usize> Depths<QUEUES> {
    pub(super) fn new(lcores: usize) -> Depths<QUEUES> {
        Depths {
            version: CachePadded::default(),
            queued: from_fn(|_| AtomicU64::new(0)),
            accepted: (0..lcores)
                .map(|_| from_fn(|_| AtomicU64::new(0)))
                .collect(),
        }
    }

    /// Publishes; called by the owner. Depths go first: who reads backwards never takes bytes for
    /// accepted that are not in the depths it reads, so a queue never looks shorter than it is.
    pub fn publish(&self, queued: &[u64; QUEUES], accepted: &[[u64; QUEUES]]) {
        for (place, bytes) in self.queued.iter().zip(queued) {
            place.store(*bytes, Ordering::Release);
        }
        for (places, bytes) in self.accepted.iter().zip(accepted) {
            for (place, bytes) in places.iter().zip(bytes) {
                place.store(*bytes, Ordering::Release);
            }
        }
        self.version.fetch_add(1, Ordering::Release);
    }

    /// How often it was published.
    #[inline]
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// What the owner holds, and what is on its way to it from `lcore`, which has ever sent `sent`.
    pub fn beyond(&self, lcore: usize, sent: &[u64; QUEUES]) -> [u64; QUEUES] {
        let mut beyond = [0; QUEUES];
        for (queue, bytes) in beyond.iter_mut().enumerate() {
            let accepted = self.accepted[lcore][queue].load(Ordering::Acquire);
            *bytes = sent[queue].saturating_sub(accepted);
        }
        for (bytes, place) in beyond.iter_mut().zip(&self.queued) {
            *bytes += place.load(Ordering::Acquire);
        }
        beyond
    }
}
