//! Counters that lcores publish every so many rounds and control reads at any time.
//!
//! The lcore's own counters are plain numbers. Copying them into these atomics now and then costs
//! the packet path nothing between the copies, and needs no lock; a reader may see one counter a
//! moment newer than another.

mod measured;
mod versioned;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pipeline::types::{FANOUT_MAX, Set};
use pipeline::{Counters, DropReason, Note, PortCounters, PortId, SpineSet, Switch, Token};

pub use measured::Measured;

/// What [`versioned`] is made of.
mod atomic {
    pub(super) use std::hint::spin_loop;
    pub(super) use std::sync::atomic::{AtomicU64, Ordering, fence};
}

/// What one port publishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PortSnapshot {
    /// Its counters.
    pub counters: PortCounters,
    /// Bytes queued.
    pub backlog_bytes: u64,
    /// The same by priority.
    pub queue_bytes: [u64; 8],
    /// For how long each queue with packets has not been served, in nanoseconds.
    pub unserved_ns: [u64; 8],
    /// Whether the link is up.
    pub is_up: bool,
}

const PORT_WORDS: usize = 9 + 4 * 8;
const SWITCH_WORDS: usize = 5 + DropReason::COUNT + Note::COUNT;

/// The published counters of one switch.
#[derive(Debug)]
pub struct Published {
    switch: Vec<AtomicU64>,
    ports: Vec<AtomicU64>,
    /// The failed-paths bitmap: two words per source leaf.
    failed: Vec<AtomicU64>,
    measured: measured::Place,
}

impl Published {
    /// Room for a switch of so many ports.
    pub fn new(ports: usize) -> Published {
        let zeros = |count| {
            std::iter::repeat_with(AtomicU64::default)
                .take(count)
                .collect()
        };
        Published {
            switch: zeros(SWITCH_WORDS),
            ports: zeros(ports * PORT_WORDS),
            failed: zeros(2 * FANOUT_MAX),
            measured: measured::Place::new(),
        }
    }

    /// Publishes; called by the lcore that owns `switch`.
    pub fn publish<T: Token>(&self, switch: &Switch<T>) {
        let c = switch.counters();
        let head = [c.rx, c.generated, c.tx, c.consumed, c.queued];
        let words = head.iter().chain(&c.drops).chain(&c.notes);
        store(&self.switch, words.copied());
        let failed = switch.failed_paths().iter();
        store(
            &self.failed,
            failed.flat_map(|set| [set.0 as u64, (set.0 >> 64) as u64]),
        );
        self.measured.publish(switch.counting());
        for (index, words) in self.ports.chunks_exact(PORT_WORDS).enumerate() {
            let port = PortId(index as u16);
            let p = switch.port_counters(port);
            let fields = [
                p.rx_packets,
                p.rx_bytes,
                p.enqueued,
                p.tx_packets,
                p.tx_bytes,
                p.flushed,
                p.backlog_bytes_max,
                switch.depth_bytes(port, 0),
                u64::from(switch.is_up(port)),
            ];
            let (queues, unserved) = (switch.queues_bytes(port), switch.unserved_ns(port));
            let by_priority = [p.tail_drops, p.starved, queues, unserved];
            store(
                words,
                fields.iter().chain(by_priority.iter().flatten()).copied(),
            );
        }
    }

    /// The switch's counters as last published.
    pub fn counters(&self) -> Counters {
        let mut words = self.switch.iter().map(|word| word.load(Ordering::Relaxed));
        let mut next = || words.next().unwrap_or(0);
        let mut c = Counters {
            rx: next(),
            generated: next(),
            tx: next(),
            consumed: next(),
            queued: next(),
            ..Counters::default()
        };
        c.drops
            .iter_mut()
            .chain(&mut c.notes)
            .for_each(|counter| *counter = next());
        c
    }

    /// The failed-paths bitmap as last published: spines below their threshold, by source leaf.
    pub fn failed_paths(&self) -> Vec<SpineSet> {
        let word = |place: &AtomicU64| u128::from(place.load(Ordering::Relaxed));
        let set = |words: &[AtomicU64]| Set(word(&words[0]) | word(&words[1]) << 64);
        self.failed.chunks_exact(2).map(set).collect()
    }

    /// The window that this part began last to count, as last published.
    pub fn measured(&self) -> Option<Measured> {
        self.measured.read()
    }

    /// The ports as last published.
    pub fn ports(&self) -> Vec<PortSnapshot> {
        self.ports
            .chunks_exact(PORT_WORDS)
            .map(|words| {
                let mut words = words.iter().map(|word| word.load(Ordering::Relaxed));
                let mut next = || words.next().unwrap_or(0);
                let mut counters = PortCounters {
                    rx_packets: next(),
                    rx_bytes: next(),
                    enqueued: next(),
                    tx_packets: next(),
                    tx_bytes: next(),
                    flushed: next(),
                    backlog_bytes_max: next(),
                    ..PortCounters::default()
                };
                let backlog_bytes = next();
                let is_up = next() != 0;
                counters.tail_drops.fill_with(&mut next);
                counters.starved.fill_with(&mut next);
                PortSnapshot {
                    counters,
                    backlog_bytes,
                    queue_bytes: std::array::from_fn(|_| next()),
                    unserved_ns: std::array::from_fn(|_| next()),
                    is_up,
                }
            })
            .collect()
    }
}

/// The counters of a switch from what its parts have published.
pub fn sum_counters(parts: &[Published]) -> Counters {
    let mut sum = Counters::default();
    for part in parts {
        sum.add(&part.counters());
    }
    sum
}

/// The ports of a switch from what its parts have published. The depth is the largest that a part
/// sees: the owner's own, or that and what is on its way there.
pub fn sum_ports(parts: &[Published]) -> Vec<PortSnapshot> {
    let mut sums: Vec<PortSnapshot> = Vec::new();
    for part in parts {
        let ports = part.ports();
        if sums.is_empty() {
            sums = ports;
            continue;
        }
        for (sum, port) in sums.iter_mut().zip(&ports) {
            sum.counters.add(&port.counters);
            sum.backlog_bytes = sum.backlog_bytes.max(port.backlog_bytes);
            let mine = sum.queue_bytes.iter_mut().chain(&mut sum.unserved_ns);
            for (sum, part) in mine.zip(port.queue_bytes.iter().chain(&port.unserved_ns)) {
                *sum = (*sum).max(*part);
            }
            sum.is_up &= port.is_up;
        }
    }
    sums
}

fn store(places: &[AtomicU64], words: impl Iterator<Item = u64>) {
    for (place, word) in places.iter().zip(words) {
        place.store(word, Ordering::Relaxed);
    }
}

/// What an lcore publishes about itself.
#[derive(Debug, Default)]
pub struct LcoreStatus {
    /// Rounds of the poll loop.
    pub rounds: AtomicU64,
    /// Rounds in which it moved a packet.
    pub busy_rounds: AtomicU64,
    /// Its time, in nanoseconds.
    pub now_ns: AtomicU64,
    /// Nanoseconds in rounds that moved a packet.
    pub busy_ns: AtomicU64,
    /// Nanoseconds in all other rounds.
    pub idle_ns: AtomicU64,
    /// Flows completed or failed so far, of the testbed's own hosts.
    pub flows_ended: AtomicU64,
    /// It has been told to stop.
    pub stop: AtomicBool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_stored_is_read_in_the_same_order() {
        let published = Published::new(2);
        store(&published.switch, 1..);
        store(&published.ports, 1..);
        let counters = published.counters();
        assert_eq!((counters.rx, counters.queued, counters.drops[0]), (1, 5, 6));
        assert_eq!(counters.notes[Note::COUNT - 1], SWITCH_WORDS as u64);
        let ports = published.ports();
        assert_eq!(ports.len(), 2);
        assert!(ports[0].backlog_bytes == 8 && ports[0].is_up);
        assert_eq!(ports[0].counters.tail_drops[0], 10);
        assert_eq!(ports[0].counters.starved[0], 18);
        assert_eq!(ports[0].queue_bytes[0], 26);
        assert_eq!(ports[0].unserved_ns[7], PORT_WORDS as u64);
    }
}
