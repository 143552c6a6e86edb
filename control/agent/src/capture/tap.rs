//! A tap: where lcores copy packets for one capture, and control takes them.
//!
//! Control makes it, with all its memory, and gives it to each lcore over the seam. Each lcore has a
//! bounded set of slots of its own in it: it takes a free one, copies, and passes it on. Where none is
//! free the packet is counted as missed; nothing waits and nothing is allocated. Control keeps the tap
//! until no lcore has it, so none frees its memory either.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam::queue::ArrayQueue;

use super::filter::Filter;

/// Memory for the packets of a capture, over all lcores.
const BYTES_MAX: usize = 16 << 20;
/// Slots of an lcore, at least and at most.
const SLOTS: (usize, usize) = (64, 8192);
/// Longest part of a frame that is kept, in bytes: a jumbo frame with all its tags.
pub const SNAPLEN_MAX: usize = 9_728;
/// No interface.
const NONE: u32 = u32::MAX;

/// What happened to a packet where it was seen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// It was received on the port, and is as it came, without the tag of the link.
    In,
    /// It leaves over the port.
    Out,
    /// It ended, for that reason: as the switch had changed it by then.
    Dropped(&'static str),
}

/// A packet that an lcore sees.
#[derive(Clone, Copy, Debug)]
pub struct Seen<'a> {
    /// When, in the lcore's time.
    pub now_ns: u64,
    /// Number of the switch in its process.
    pub switch: usize,
    /// The port; none for a packet that ended in no port's name.
    pub port: Option<u16>,
    /// What happened.
    pub event: Event,
    /// Its bytes.
    pub frame: &'a [u8],
    /// Its length on the wire, in bytes.
    pub wire_len: usize,
}

/// A copy of a packet, or of its beginning.
#[derive(Debug)]
pub struct Slot {
    /// When it was seen, in the lcore's time.
    pub now_ns: u64,
    /// The interface, by its number in the capture.
    pub interface: u32,
    /// What happened.
    pub event: Event,
    /// Its length on the wire, in bytes.
    pub wire_len: u32,
    len: usize,
    bytes: Box<[u8]>,
}

impl Slot {
    /// What was kept of it.
    pub fn frame(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Which packets are wanted, and how much of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Wanted {
    /// The filter.
    pub filter: Filter,
    /// Received, sent, dropped ones.
    pub events: [bool; 3],
    /// One of so many packets that pass the filter, per lcore.
    pub sample: u64,
    /// Bytes kept of a frame.
    pub snaplen: usize,
}

/// What is counted of an interface.
#[derive(Debug, Default)]
pub struct Counts {
    /// Packets that passed the filter and were the turn's.
    pub wanted: AtomicU64,
    /// Of these, what found no free slot.
    pub missed: AtomicU64,
}

/// One lcore's slots.
#[derive(Debug)]
struct Lane {
    free: ArrayQueue<Box<Slot>>,
    full: ArrayQueue<Box<Slot>>,
    /// Packets that passed the filter here, for the sample.
    passed: AtomicU64,
}

/// The tap of one capture.
#[derive(Debug)]
pub struct Tap {
    wanted: Wanted,
    /// Per switch, the interface of each port, and behind them of what has none.
    interfaces: Vec<Vec<u32>>,
    counts: Vec<Counts>,
    lanes: Vec<Lane>,
    is_over: AtomicBool,
}

impl Tap {
    /// For so many lcores; `interfaces` has, per switch and port and then for packets without a port,
    /// whether it is captured. Interfaces are numbered in that order.
    pub fn new(lcores: usize, interfaces: &[Vec<bool>], wanted: Wanted) -> Tap {
        let snaplen = wanted.snaplen.clamp(1, SNAPLEN_MAX);
        let lcores = lcores.max(1);
        let slots = (BYTES_MAX / lcores / snaplen).clamp(SLOTS.0, SLOTS.1);
        let slot = || Slot {
            now_ns: 0,
            interface: 0,
            event: Event::In,
            wire_len: 0,
            len: 0,
            bytes: vec![0; snaplen].into(),
        };
        let lane = |_| {
            let free = ArrayQueue::new(slots);
            for _ in 0..slots {
                // As many as it was made for.
                let _ = free.push(Box::new(slot()));
            }
            let full = ArrayQueue::new(slots);
            let passed = AtomicU64::new(0);
            Lane { free, full, passed }
        };
        let mut count = 0;
        let mut number = |&is_captured: &bool| {
            count += u32::from(is_captured);
            if is_captured { count - 1 } else { NONE }
        };
        Tap {
            interfaces: interfaces
                .iter()
                .map(|ports| ports.iter().map(&mut number).collect())
                .collect(),
            counts: (0..count).map(|_| Counts::default()).collect(),
            lanes: (0..lcores).map(lane).collect(),
            is_over: AtomicBool::new(false),
            wanted,
        }
    }

    /// The lcore sees a packet: it is copied if it is wanted and there is room.
    pub fn offer(&self, lcore: usize, seen: &Seen<'_>) {
        let [received, sent, dropped] = self.wanted.events;
        let is_asked = match seen.event {
            Event::In => received,
            Event::Out => sent,
            Event::Dropped(_) => dropped,
        };
        let Some((lane, interface)) = self.lanes.get(lcore).zip(self.interface(seen)) else {
            return;
        };
        let is_dropped = matches!(seen.event, Event::Dropped(_));
        if !is_asked
            || !self
                .wanted
                .filter
                .takes(seen.frame, seen.wire_len, is_dropped)
        {
            return;
        }
        // Only this lcore writes here.
        let passed = lane.passed.load(Ordering::Relaxed);
        lane.passed.store(passed + 1, Ordering::Relaxed);
        if !passed.is_multiple_of(self.wanted.sample.max(1)) {
            return;
        }
        let counts = &self.counts[interface as usize];
        counts.wanted.fetch_add(1, Ordering::Relaxed);
        let Some(mut slot) = lane.free.pop() else {
            counts.missed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        let len = seen.frame.len().min(slot.bytes.len());
        slot.bytes[..len].copy_from_slice(&seen.frame[..len]);
        slot.len = len;
        slot.wire_len = seen.wire_len as u32;
        slot.now_ns = seen.now_ns;
        slot.interface = interface;
        slot.event = seen.event;
        // All slots of the lane have a place there.
        let _ = lane.full.push(slot);
    }

    fn interface(&self, seen: &Seen<'_>) -> Option<u32> {
        let ports = self.interfaces.get(seen.switch)?;
        let without = ports.len().checked_sub(1)?;
        let place = seen.port.map_or(without, usize::from);
        ports.get(place).copied().filter(|&number| number != NONE)
    }

    /// Takes the copies that are there, in the order of their time, and gives them to `take`; no more
    /// than `most`. Returns how many.
    pub fn drain(&self, most: usize, mut take: impl FnMut(&Slot)) -> usize {
        let mut slots: Vec<(usize, Box<Slot>)> = Vec::new();
        for (lcore, lane) in self.lanes.iter().enumerate() {
            // No more than are there now: an lcore may be faster than this loop.
            for _ in 0..lane.full.len() {
                if slots.len() == most {
                    break;
                }
                let Some(slot) = lane.full.pop() else { break };
                slots.push((lcore, slot));
            }
        }
        slots.sort_by_key(|(_, slot)| slot.now_ns);
        let taken = slots.len();
        for (lcore, slot) in slots {
            take(&slot);
            let _ = self.lanes[lcore].free.push(slot);
        }
        taken
    }

    /// Counters by interface.
    pub fn counts(&self) -> &[Counts] {
        &self.counts
    }

    /// Packets that found no free slot, over all interfaces.
    pub fn missed(&self) -> u64 {
        let missed = self.counts.iter().map(|c| c.missed.load(Ordering::Relaxed));
        missed.sum()
    }

    /// Bytes kept of a frame.
    pub fn snaplen(&self) -> usize {
        self.wanted.snaplen
    }

    /// Tells lcores to let go of it.
    pub fn end(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// Whether lcores are to let go of it.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted() -> Wanted {
        Wanted {
            filter: Filter::default(),
            events: [true; 3],
            sample: 1,
            snaplen: SNAPLEN_MAX,
        }
    }

    fn seen(port: Option<u16>, event: Event, frame: &[u8]) -> Seen<'_> {
        Seen {
            now_ns: 7,
            switch: 0,
            port,
            event,
            frame,
            wire_len: frame.len(),
        }
    }

    /// Goal: what is wanted arrives with its interface; what finds no room is counted, and room that
    /// was given back is used again.
    #[test]
    fn bounded_and_counted() {
        let tap = Tap::new(1, &[vec![false, true, true]], wanted());
        let slots = (BYTES_MAX / SNAPLEN_MAX) as u64;
        for round in 1..3u64 {
            for number in 0..slots + 10 {
                let frame = [number as u8; 60];
                tap.offer(0, &seen(Some(0), Event::In, &frame));
                tap.offer(0, &seen(Some(1), Event::In, &frame));
            }
            let mut taken = 0;
            tap.drain(usize::MAX, |slot| {
                assert_eq!((slot.interface, slot.frame()), (0, &[taken as u8; 60][..]));
                taken += 1;
            });
            assert_eq!((taken, tap.missed()), (slots, 10 * round));
        }
        tap.offer(0, &seen(None, Event::Dropped("no-route"), &[1; 9]));
        tap.offer(1, &seen(None, Event::In, &[1; 9]));
        tap.offer(0, &seen(Some(9), Event::In, &[1; 9]));
        let drained = tap.drain(5, |slot| {
            assert_eq!(
                (slot.interface, slot.event),
                (1, Event::Dropped("no-route"))
            );
        });
        assert_eq!(drained, 1);
        assert_eq!(
            tap.counts()[0].wanted.load(Ordering::Relaxed),
            2 * slots + 20
        );
    }

    /// Goal: directions, sample and snap length are kept to; several lcores give one order of time.
    #[test]
    fn only_what_was_asked_for() {
        let wanted = Wanted {
            events: [false, true, false],
            sample: 4,
            snaplen: 16,
            ..wanted()
        };
        let tap = Tap::new(2, &[vec![true, false]], wanted);
        for number in 0..40u64 {
            for event in [Event::In, Event::Out, Event::Dropped("runt")] {
                let frame = [number as u8; 99];
                let seen = Seen {
                    now_ns: 1_000 - number,
                    ..seen(Some(0), event, &frame)
                };
                tap.offer(number as usize % 2, &seen);
            }
        }
        let mut times = Vec::new();
        tap.drain(usize::MAX, |slot| {
            assert_eq!(
                (slot.event, slot.frame().len(), slot.wire_len),
                (Event::Out, 16, 99)
            );
            times.push(slot.now_ns);
        });
        assert_eq!(times.len(), 10);
        assert!(times.is_sorted(), "{times:?}");
    }
}
