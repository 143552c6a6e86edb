//! Events in the order of (time, sequence), given out by windows of time, and in each window owner
//! by owner.
//!
//! What an owner (a switch or a host) does reaches another only after a link's propagation. So within
//! a window of that length owners do not touch each other, and each can do all its events at once,
//! while its state is in the cache. Windows begin at multiples of their length, so that a slice of a
//! fabric has the very windows of the whole.
//!
//! Below lies a wheel of one slot a nanosecond, each first in, first out, and a heap for what is
//! further ahead: nothing is ever sorted. A bitmap tells the slots that hold something. Links take
//! 0.3 to 2 us, so only a few KiB of the wheel are in use at any time, and they move on with it.
//! Nodes come from a pool.

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
    at_ns: u64,
    frame: Option<Frame>,
    what: u32,
    next: u32,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    head: u32,
    tail: u32,
}

const EMPTY: Slot = Slot {
    head: NONE,
    tail: NONE,
};

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
    /// Where the window ends, and how long one is.
    end_ns: u64,
    window_ns: u64,
    /// Events of the window, by owner.
    lists: Vec<Slot>,
    /// Owners that have some, in the order of their first.
    owners: Vec<u32>,
}

impl Wheel {
    /// Nothing yet, for so many owners and windows of such a length: at most what any owner's doing
    /// takes to reach another.
    pub fn new(owners: usize, window_ns: u64) -> Wheel {
        Wheel {
            now_ns: 0,
            slots: Box::new([EMPTY; SLOTS as usize]),
            bits: Box::new([0; WORDS]),
            nodes: Vec::new(),
            free: NONE,
            far: BinaryHeap::new(),
            far_ns: u64::MAX,
            sequence: 0,
            len: 0,
            end_ns: 0,
            window_ns: window_ns.max(1),
            lists: vec![EMPTY; owners],
            owners: Vec::with_capacity(owners),
        }
    }

    /// How many events are to come.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is to come.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Enters an event after the window.
    #[inline(always)]
    pub fn insert(&mut self, at_ns: u64, what: u32, frame: Option<Frame>) {
        debug_assert!(
            at_ns >= self.end_ns,
            "nothing reaches others within a window"
        );
        let index = self.node(at_ns, what, frame);
        if at_ns - self.now_ns < SLOTS {
            self.append(at_ns, index);
        } else {
            self.insert_far(at_ns, index);
        }
    }

    /// Enters an event of an owner whose turn it is: in this window, or later.
    #[inline(always)]
    pub fn insert_own(&mut self, owner: usize, at_ns: u64, what: u32) {
        if at_ns >= self.end_ns {
            return self.insert(at_ns, what, None);
        }
        let index = self.node(at_ns, what, None);
        // Behind all that are not later: they went in before it. Lists are short.
        let (mut before, mut after) = (NONE, self.lists[owner].head);
        while after != NONE && self.nodes[after as usize].at_ns <= at_ns {
            (before, after) = (after, self.nodes[after as usize].next);
        }
        self.nodes[index as usize].next = after;
        let list = &mut self.lists[owner];
        match before {
            NONE => list.head = index,
            _ => self.nodes[before as usize].next = index,
        }
        if after == NONE {
            self.lists[owner].tail = index;
        }
    }

    #[inline(always)]
    fn node(&mut self, at_ns: u64, what: u32, frame: Option<Frame>) -> u32 {
        self.len += 1;
        let index = self.free;
        match self.nodes.get_mut(index as usize) {
            Some(node) => {
                self.free = node.next;
                *node = Node {
                    at_ns,
                    frame,
                    what,
                    next: NONE,
                };
                index
            }
            None => self.grow(at_ns, what, frame),
        }
    }

    #[cold]
    fn grow(&mut self, at_ns: u64, what: u32, frame: Option<Frame>) -> u32 {
        self.nodes.push(Node {
            at_ns,
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

    /// The time of the next event; `None` when nothing is to come.
    #[inline(always)]
    pub fn next_ns(&self) -> Option<u64> {
        match self.next_slot() {
            Some(at_ns) => Some(at_ns),
            None => (self.far_ns != u64::MAX).then_some(self.far_ns),
        }
    }

    /// Begins the window of the next event, which ends at `limit_ns` at the latest: hands its events
    /// to their owners, of whom `owner_of` tells by the event's word.
    #[inline(always)]
    pub fn open(&mut self, next_ns: u64, limit_ns: u64, owner_of: impl Fn(u32) -> usize) {
        let end_ns = (next_ns / self.window_ns + 1) * self.window_ns;
        self.end_ns = end_ns.min(limit_ns);
        let mut at_ns = next_ns;
        while at_ns < self.end_ns {
            self.now_ns = at_ns;
            // What comes into reach now went in before anything that will be entered for its time.
            if self.far_ns < at_ns + SLOTS {
                self.bring_near();
            }
            let place = (at_ns & MASK) as usize;
            let mut index = std::mem::replace(&mut self.slots[place], EMPTY).head;
            self.bits[place >> 6] &= !(1 << (place & 63));
            while index != NONE {
                let node = &mut self.nodes[index as usize];
                let next = std::mem::replace(&mut node.next, NONE);
                let owner = owner_of(node.what);
                let list = &mut self.lists[owner];
                if list.head == NONE {
                    list.head = index;
                    self.owners.push(owner as u32);
                } else {
                    self.nodes[list.tail as usize].next = index;
                }
                self.lists[owner].tail = index;
                index = next;
            }
            at_ns = self.next_ns().unwrap_or(u64::MAX);
        }
    }

    /// Where the window ends, in nanoseconds; between two windows, where the last one did.
    pub fn end_ns(&self) -> u64 {
        self.end_ns
    }

    /// How many owners have events in the window.
    #[inline(always)]
    pub fn owners(&self) -> usize {
        self.owners.len()
    }

    /// One of them.
    #[inline(always)]
    pub fn owner(&self, place: usize) -> usize {
        self.owners[place] as usize
    }

    /// All owners have done theirs.
    #[inline(always)]
    pub fn close(&mut self) {
        self.owners.clear();
    }

    /// Takes the owner's next event of the window.
    #[inline(always)]
    pub fn pop(&mut self, owner: usize) -> Option<Event> {
        let list = &mut self.lists[owner];
        let index = list.head;
        let node = self.nodes.get_mut(index as usize)?;
        list.head = node.next;
        let event = Event {
            at_ns: node.at_ns,
            what: node.what,
            frame: node.frame.take(),
        };
        node.next = self.free;
        self.free = index;
        self.len -= 1;
        Some(event)
    }

    /// The time of the first slot from now on that holds something.
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
    use std::collections::BTreeSet;

    const OWNERS: usize = 5;
    const WINDOW_NS: u64 = 500;

    fn owner_of(what: u32) -> usize {
        what as usize % OWNERS
    }

    /// Goal: each owner's events come by time, and of one time as they went in, whatever lies how
    /// far ahead, those that it enters for itself included; against a sorted set for each owner.
    #[test]
    fn the_order_is_time_then_sequence() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        let mut wheel = Wheel::new(OWNERS, WINDOW_NS);
        let mut model: Vec<BTreeSet<(u64, u32)>> = vec![BTreeSet::new(); OWNERS];
        let mut next = 0u32;
        let mut enter = |wheel: &mut Wheel, model: &mut Vec<BTreeSet<_>>, at_ns| {
            wheel.insert(at_ns, next, None);
            model[owner_of(next)].insert((at_ns, next));
            next += 1;
        };
        for at_ns in 0..500 {
            enter(&mut wheel, &mut model, 3 * at_ns);
        }
        let mut done = 0;
        while let Some(next_ns) = wheel.next_ns() {
            let limit_ns = if done % 7 == 0 {
                next_ns + 100
            } else {
                u64::MAX
            };
            wheel.open(next_ns, limit_ns, owner_of);
            assert!(wheel.owners() > 0);
            for place in 0..wheel.owners() {
                let owner = wheel.owner(place);
                while let Some(event) = wheel.pop(owner) {
                    let wanted = model[owner].pop_first();
                    assert_eq!(wanted, Some((event.at_ns, event.what)));
                    done += 1;
                    if done > 200_000 {
                        continue;
                    }
                    let ahead_ns = match random.next_u64() % 8 {
                        0..5 => 500 + random.next_u64() % 900,
                        5 => SLOTS - 2 + random.next_u64() % 4,
                        6 => 500 + random.next_u64() % (4 * SLOTS),
                        _ => 500 + random.next_u64() % 1_000_000,
                    };
                    enter(&mut wheel, &mut model, event.at_ns + ahead_ns);
                    if random.next_u64() % 300 == 0 {
                        // Its own, soon: its number makes it this owner's, and the last of its time.
                        let own_ns = event.at_ns + random.next_u64() % 700;
                        let what = u32::MAX / 2 / 5 * 5 + owner as u32 + 5 * done;
                        wheel.insert_own(owner, own_ns, what);
                        model[owner].insert((own_ns, what));
                    }
                }
                assert!(
                    model[owner]
                        .first()
                        .is_none_or(|&(at_ns, _)| at_ns >= wheel.end_ns)
                );
            }
            wheel.close();
        }
        assert!(model.iter().all(BTreeSet::is_empty) && wheel.is_empty() && done > 200_000);
        assert!(wheel.nodes.len() < 2_000, "nodes are used again");
    }
}
