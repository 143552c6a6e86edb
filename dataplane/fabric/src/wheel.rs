//! Events in the order of (time, sequence): a wheel of one slot a nanosecond, each first in, first
//! out, and a heap for what lies further ahead.
//!
//! With a slot for each nanosecond nothing is ever sorted: events of one time come out as they went
//! in. A bitmap tells the slots that hold something. Links take 0.3 to 2 us, so only a few KiB of the
//! wheel are in use at any time, and they move on with it. Nodes come from a pool.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::frame::Frame;

/// Slots: 16 us. Beyond them lie timeouts, and links below 2 Gbit/s.
const SLOTS: u64 = 1 << 14;
const MASK: u64 = SLOTS - 1;
const WORDS: usize = SLOTS as usize / 64;
const NONE: u32 = u32::MAX;

/// What happens: the engine's own word for it, and the frame to which it does.
#[derive(Debug)]
pub struct Event {
    /// When, in nanoseconds.
    pub at_ns: u64,
    /// What, to whom.
    pub what: u32,
    /// With which frame.
    pub frame: Option<Frame>,
}

#[derive(Debug)]
struct Node {
    frame: Option<Frame>,
    what: u32,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u32,
    tail: u32,
}

/// All events to come.
#[derive(Debug)]
pub struct Wheel {
    now_ns: u64,
    /// Of a fixed size, so that no place in them is checked.
    slots: Box<[Slot; SLOTS as usize]>,
    bits: Box<[u64; WORDS]>,
    nodes: Vec<Node>,
    free: u32,
    /// (time, sequence, node) of what is beyond the wheel.
    far: BinaryHeap<Reverse<(u64, u64, u32)>>,
    far_ns: u64,
    sequence: u64,
    len: usize,
}

impl Default for Wheel {
    fn default() -> Wheel {
        let empty = Slot {
            head: NONE,
            tail: NONE,
        };
        Wheel {
            now_ns: 0,
            slots: Box::new([empty; SLOTS as usize]),
            bits: Box::new([0; WORDS]),
            nodes: Vec::new(),
            free: NONE,
            far: BinaryHeap::new(),
            far_ns: u64::MAX,
            sequence: 0,
            len: 0,
        }
    }
}

impl Wheel {
    /// The time of the last event that was taken, in nanoseconds.
    #[inline(always)]
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// How many events are to come.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is to come.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Enters an event; one in the past happens now.
    #[inline(always)]
    pub fn insert(&mut self, at_ns: u64, what: u32, frame: Option<Frame>) {
        let index = self.free;
        let index = match self.nodes.get_mut(index as usize) {
            Some(node) => {
                self.free = node.next;
                node.what = what;
                node.frame = frame;
                node.next = NONE;
                index
            }
            None => self.grow(what, frame),
        };
        self.len += 1;
        let at_ns = at_ns.max(self.now_ns);
        if at_ns - self.now_ns < SLOTS {
            self.append(at_ns, index);
        } else {
            self.insert_far(at_ns, index);
        }
    }

    #[cold]
    fn grow(&mut self, what: u32, frame: Option<Frame>) -> u32 {
        self.nodes.push(Node {
            frame,
            what,
            next: NONE,
        });
        self.nodes.len() as u32 - 1
    }

    #[inline(always)]
    fn append(&mut self, at_ns: u64, index: u32) {
        let place = (at_ns & MASK) as usize;
        let slot = &mut self.slots[place];
        if slot.head == NONE {
            slot.head = index;
            self.bits[place >> 6] |= 1 << (place & 63);
        } else {
            self.nodes[slot.tail as usize].next = index;
        }
        slot.tail = index;
    }

    #[cold]
    fn insert_far(&mut self, at_ns: u64, index: u32) {
        self.sequence += 1;
        self.far.push(Reverse((at_ns, self.sequence, index)));
        self.far_ns = self.far_ns.min(at_ns);
    }

    /// Takes the next event.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Event> {
        let mut place = (self.now_ns & MASK) as usize;
        if self.slots[place].head == NONE {
            place = self.advance()?;
        }
        let slot = &mut self.slots[place];
        let index = slot.head;
        let node = &mut self.nodes[index as usize];
        slot.head = node.next;
        if node.next == NONE {
            self.bits[place >> 6] &= !(1 << (place & 63));
        }
        let event = Event {
            at_ns: self.now_ns,
            what: node.what,
            frame: node.frame.take(),
        };
        node.next = self.free;
        self.free = index;
        self.len -= 1;
        Some(event)
    }

    /// Goes to the next time at which something happens; its slot.
    #[inline(always)]
    fn advance(&mut self) -> Option<usize> {
        let at_ns = match self.next_slot() {
            Some(at_ns) => at_ns,
            None if self.far_ns != u64::MAX => self.far_ns,
            None => return None,
        };
        self.now_ns = at_ns;
        // What comes into reach now went in before anything that will be entered for its time.
        if self.far_ns < at_ns + SLOTS {
            self.bring_near();
        }
        Some((at_ns & MASK) as usize)
    }

    /// The time of the first slot after now that holds something.
    #[inline(always)]
    fn next_slot(&self) -> Option<u64> {
        let place = (self.now_ns & MASK) as usize;
        let mut word = place >> 6;
        let mut bits = self.bits[word] & (u64::MAX << (place & 63));
        for _ in 0..=WORDS {
            if bits != 0 {
                let found = (word << 6) as u64 | u64::from(bits.trailing_zeros());
                return Some(self.now_ns + (found.wrapping_sub(self.now_ns) & MASK));
            }
            word = (word + 1) % WORDS;
            bits = self.bits[word];
        }
        None
    }

    #[cold]
    fn bring_near(&mut self) {
        while let Some(&Reverse((at_ns, _, index))) = self.far.peek() {
            if at_ns - self.now_ns >= SLOTS {
                self.far_ns = at_ns;
                return;
            }
            self.far.pop();
            self.append(at_ns, index);
        }
        self.far_ns = u64::MAX;
    }

    /// Whatever is to come, in no order: for the final account.
    pub fn pending(&self) -> impl Iterator<Item = u32> {
        self.nodes
            .iter()
            .filter(|node| node.frame.is_some())
            .map(|node| node.what)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_core::{Rng, SeedableRng};
    use rand_xoshiro::Xoshiro256PlusPlus;

    /// Goal: events come out by time, and of one time as they went in, whatever lies how far ahead;
    /// against a sorted list.
    #[test]
    fn the_order_is_time_then_sequence() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut wheel = Wheel::default();
        let mut model: std::collections::BTreeSet<(u64, u32)> = Default::default();
        let mut next = 0u32;
        for round in 0..200_000 {
            let ahead = match random.next_u64() % 8 {
                0 => 0,
                1..5 => random.next_u64() % 900,
                5 => SLOTS - 2 + random.next_u64() % 4,
                6 => random.next_u64() % (4 * SLOTS),
                _ => random.next_u64() % 1_000_000,
            };
            if round < 100_000 && random.next_u64() % 9 < 5 || model.is_empty() {
                wheel.insert(wheel.now_ns() + ahead, next, None);
                model.insert((wheel.now_ns() + ahead, next));
                next += 1;
            } else {
                let event = wheel.pop().expect("the list is not empty");
                assert_eq!(Some((event.at_ns, event.what)), model.pop_first());
            }
            assert_eq!(wheel.len(), model.len());
        }
        while let Some(wanted) = model.pop_first() {
            let event = wheel.pop().expect("as many as in the list");
            assert_eq!((event.at_ns, event.what), wanted);
        }
        assert!(wheel.pop().is_none() && wheel.is_empty());
        assert!(wheel.nodes.len() < 40_000, "nodes are used again");
    }
}
