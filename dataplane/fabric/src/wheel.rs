//! Events in the order of (time, sequence), given out by windows of time, and in each window owner
//! by owner.
//!
//! What an owner (a switch or a host) does reaches another only after a link's propagation. So within
//! a window of that length owners do not touch each other, and each can do all its events at once,
//! while its state is in the cache. Windows begin at multiples of their length, so that a slice of a
//! fabric has the very windows of the whole.
//!
//! Below lies a wheel of one bucket a window, and a heap for what is further ahead. A bucket is an
//! array that is written and read from end to end; when its window opens it is dealt out into one array
//! in which each owner's events stand side by side, and only there, among a few, is anything put in
//! order. What an owner enters for itself within the window waits beside it. Arrays are passed on from
//! bucket to bucket, so that few are in use, and those are in the cache.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::frame::Frame;

/// Buckets: 128 us of windows of 500 ns. Beyond them lie timeouts, and links below 300 Mbit/s.
const BUCKETS: usize = 256;
const WORDS: usize = BUCKETS / 64;
/// Windows are no longer than this: nothing is gained by more, and [`Wheel::place_of`] is exact.
const WINDOW_NS_MAX: u64 = 1_000_000;
/// Of the reciprocal of a window's length.
const SHIFT: u32 = 48;

/// What happens: the engine's own word for it, and the frame to which it does.
#[derive(Debug, Default)]
pub struct Event {
    /// When, in nanoseconds.
    pub at_ns: u64,
    /// What, to whom.
    pub what: u32,
    /// With which frame.
    pub frame: Option<Frame>,
}

/// An event beyond the buckets; the earliest is the greatest, for the heap.
#[derive(Debug)]
struct Far {
    key: Reverse<(u64, u64)>,
    event: Event,
}

impl PartialEq for Far {
    fn eq(&self, other: &Far) -> bool {
        self.key == other.key
    }
}

impl Eq for Far {}

impl PartialOrd for Far {
    fn partial_cmp(&self, other: &Far) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Far {
    fn cmp(&self, other: &Far) -> std::cmp::Ordering {
        self.key.cmp(&other.key)
    }
}

/// All events to come.
#[derive(Debug)]
pub struct Wheel {
    /// When the first bucket begins, and which one it is.
    base_ns: u64,
    first: usize,
    /// Where the window ends; between two windows, where the last one did.
    end_ns: u64,
    window_ns: u64,
    /// 1/`window_ns`, times 2^[`SHIFT`], rounded up.
    reciprocal: u64,
    /// How far the buckets reach.
    reach_ns: u64,
    buckets: Box<[Vec<Event>; BUCKETS]>,
    /// Buckets that hold something.
    bits: [u64; WORDS],
    /// Arrays that no bucket has.
    spare: Vec<Vec<Event>>,
    far: BinaryHeap<Far>,
    far_ns: u64,
    sequence: u64,
    /// Events that the window began with, owner by owner, each one's in order, and how many have been taken.
    ready: Vec<Event>,
    done: usize,
    /// Where the events of the owner end whose turn it is.
    until: usize,
    /// What that owner has entered for itself within the window, the next one last.
    own: Vec<Event>,
    /// By owner, while its events of the window are counted, how many; then where the next of them goes, and
    /// in the end where they end. 0 for one that has none, or has had its turn.
    ends: Vec<u32>,
    /// Owners that have some, in the order in which their first went in.
    owners: Vec<u32>,
}

impl Wheel {
    /// Nothing yet, for so many owners and windows of such a length: at most what any owner's doing
    /// takes to reach another.
    pub fn new(owners: usize, window_ns: u64) -> Wheel {
        let window_ns = window_ns.clamp(1, WINDOW_NS_MAX);
        Wheel {
            base_ns: 0,
            first: 0,
            end_ns: 0,
            window_ns,
            reciprocal: (1u64 << SHIFT).div_ceil(window_ns),
            reach_ns: window_ns * BUCKETS as u64,
            buckets: Box::new([const { Vec::new() }; BUCKETS]),
            bits: [0; WORDS],
            spare: Vec::with_capacity(BUCKETS + 1),
            far: BinaryHeap::new(),
            far_ns: u64::MAX,
            sequence: 0,
            ready: Vec::new(),
            done: 0,
            until: 0,
            own: Vec::new(),
            ends: vec![0; owners],
            owners: Vec::with_capacity(owners),
        }
    }

    /// Whether nothing is to come.
    pub fn is_empty(&self) -> bool {
        self.bits == [0; WORDS] && self.far.is_empty()
    }

    /// Enters an event after the window.
    #[inline(always)]
    pub fn insert(&mut self, at_ns: u64, what: u32, frame: Option<Frame>) {
        debug_assert!(
            at_ns >= self.end_ns,
            "nothing reaches others within a window"
        );
        if at_ns - self.base_ns >= self.reach_ns {
            return self.insert_far(at_ns, what, frame);
        }
        let place = self.place_of(at_ns);
        self.bits[place >> 6] |= 1 << (place & 63);
        if self.buckets[place].len() == self.buckets[place].capacity() {
            self.make_room(place);
        }
        // Made in its place: put together elsewhere and copied, it would wait for its own parts.
        self.buckets[place].push(Event { at_ns, what, frame });
    }

    /// Enters an event of the owner whose turn it is: in this window, or later.
    #[inline(always)]
    pub fn insert_own(&mut self, at_ns: u64, what: u32) {
        if at_ns >= self.end_ns {
            return self.insert(at_ns, what, None);
        }
        self.insert_now(at_ns, what);
    }

    /// Behind all that are not later: they went in before it.
    #[inline(never)]
    fn insert_now(&mut self, at_ns: u64, what: u32) {
        let later = self.own.iter().rposition(|event| event.at_ns > at_ns);
        let place = later.map_or(0, |later| later + 1);
        let frame = None;
        self.own.insert(place, Event { at_ns, what, frame });
    }

    /// The bucket of a time within reach.
    #[inline(always)]
    fn place_of(&self, at_ns: u64) -> usize {
        // Exact, and below 2^64: ahead < 2^8 windows, and a window < 2^20 ns, so that the product is
        // below 2^57, and what the reciprocal was rounded up by makes less than 2^48 of it.
        let ahead = ((at_ns - self.base_ns) * self.reciprocal) >> SHIFT;
        (self.first + ahead as usize) & (BUCKETS - 1)
    }

    /// Sees to it that a bucket has room: it has no array yet, or a full one.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self, place: usize) {
        let bucket = &mut self.buckets[place];
        if bucket.capacity() == 0 {
            *bucket = self.spare.pop().unwrap_or_default();
        }
        bucket.reserve(1);
    }

    #[cold]
    #[inline(never)]
    fn insert_far(&mut self, at_ns: u64, what: u32, frame: Option<Frame>) {
        self.sequence += 1;
        self.far_ns = self.far_ns.min(at_ns);
        self.far.push(Far {
            key: Reverse((at_ns, self.sequence)),
            event: Event { at_ns, what, frame },
        });
    }

    /// Where the next window begins: nothing comes before; `None` when nothing is to come.
    #[inline(always)]
    pub fn next_ns(&self) -> Option<u64> {
        let begins_ns = match self.next_bucket() {
            Some(ahead) => self.base_ns + ahead as u64 * self.window_ns,
            None if self.far_ns == u64::MAX => return None,
            None => self.far_ns,
        };
        // Of a window that a limit cut short the rest is to come.
        Some(begins_ns.max(self.end_ns))
    }

    /// How many buckets ahead the next one lies that holds something.
    #[inline(always)]
    fn next_bucket(&self) -> Option<usize> {
        let mut word = self.first >> 6;
        let mut bits = self.bits[word & (WORDS - 1)] & (u64::MAX << (self.first & 63));
        for _ in 0..=WORDS {
            if bits != 0 {
                let found = (word << 6) + bits.trailing_zeros() as usize;
                return Some(found.wrapping_sub(self.first) & (BUCKETS - 1));
            }
            word += 1;
            bits = self.bits[word & (WORDS - 1)];
        }
        None
    }

    /// Begins the window at `next_ns`, as [`Wheel::next_ns`] tells it, which ends at `limit_ns` at the
    /// latest: hands its events to their owners, of whom `owner_of` tells by the event's word.
    #[inline(always)]
    pub fn open(&mut self, next_ns: u64, limit_ns: u64, owner_of: impl Fn(u32) -> usize) {
        if next_ns - self.base_ns >= self.window_ns {
            self.advance(next_ns);
        }
        let whole_ns = self.base_ns + self.window_ns;
        self.end_ns = whole_ns.min(limit_ns);
        let place = self.first;
        if self.bits[place >> 6] >> (place & 63) & 1 == 0 {
            return;
        }
        self.bits[place >> 6] &= !(1 << (place & 63));
        let mut batch = std::mem::take(&mut self.buckets[place]);
        if self.end_ns < whole_ns {
            self.put_back(place, &mut batch);
        }
        self.deal(&mut batch, owner_of);
        // The array goes to the next bucket that needs one.
        self.spare.push(batch);
    }

    /// Deals the events of a window out to their owners.
    #[inline(always)]
    fn deal(&mut self, batch: &mut Vec<Event>, owner_of: impl Fn(u32) -> usize) {
        for event in batch.iter() {
            let owner = owner_of(event.what);
            let count = &mut self.ends[owner];
            if *count == 0 {
                self.owners.push(owner as u32);
            }
            *count += 1;
        }
        let mut begin = 0;
        for &owner in &self.owners {
            let end = &mut self.ends[owner as usize];
            (*end, begin) = (begin, begin + *end);
        }
        self.ready.resize_with(batch.len(), Event::default);
        for event in batch.drain(..) {
            let end = &mut self.ends[owner_of(event.what)];
            let mut place = *end as usize;
            *end += 1;
            // Behind all of its owner's that are not later: they went in before it. Another owner's stand
            // in front of them, and are as if they were not later.
            while let Some(before) = place.checked_sub(1).and_then(|b| self.ready.get(b))
                && before.at_ns > event.at_ns
                && owner_of(before.what) == owner_of(event.what)
            {
                self.ready.swap(place - 1, place);
                place -= 1;
            }
            self.ready[place] = event;
        }
    }

    /// Moves on to the bucket of a time.
    #[inline(always)]
    fn advance(&mut self, to_ns: u64) {
        let ahead = match to_ns - self.base_ns < self.reach_ns {
            true => (((to_ns - self.base_ns) * self.reciprocal) >> SHIFT) as usize,
            false => self.leap(to_ns),
        };
        self.base_ns += ahead as u64 * self.window_ns;
        self.first = (self.first + ahead) & (BUCKETS - 1);
        // What comes into reach now went in before anything that will be entered for its time.
        if self.far_ns - self.base_ns < self.reach_ns {
            self.bring_near();
        }
    }

    #[cold]
    fn leap(&self, to_ns: u64) -> usize {
        ((to_ns - self.base_ns) / self.window_ns) as usize
    }

    #[cold]
    #[inline(never)]
    fn bring_near(&mut self) {
        self.far_ns = u64::MAX;
        while let Some(far) = self.far.pop() {
            if far.event.at_ns - self.base_ns >= self.reach_ns {
                self.far_ns = far.event.at_ns;
                self.far.push(far);
                return;
            }
            let Event { at_ns, what, frame } = far.event;
            self.insert(at_ns, what, frame);
        }
    }

    /// Puts back into their bucket the events of the batch that come after its end.
    #[cold]
    #[inline(never)]
    fn put_back(&mut self, place: usize, batch: &mut Vec<Event>) {
        let end_ns = self.end_ns;
        let bucket = &mut self.buckets[place];
        if bucket.capacity() == 0 {
            *bucket = self.spare.pop().unwrap_or_default();
        }
        bucket.extend(batch.extract_if(.., |event| event.at_ns >= end_ns));
        if !bucket.is_empty() {
            self.bits[place >> 6] |= 1 << (place & 63);
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

    /// The turn of one of them begins, in the order of their places; tells which it is.
    #[inline(always)]
    pub fn begin_turn(&mut self, place: usize) -> usize {
        let owner = self.owners[place] as usize;
        self.until = std::mem::take(&mut self.ends[owner]) as usize;
        owner
    }

    /// Events that the window began with, from the one at `from` on, `count` at most: what was taken of
    /// them has no frame any more.
    #[inline(always)]
    pub fn ahead(&self, from: usize, count: usize) -> &[Event] {
        let end = (from + count).min(self.ready.len());
        self.ready.get(from..end).unwrap_or_default()
    }

    /// How many events that the window began with have been taken.
    #[inline(always)]
    pub fn done(&self) -> usize {
        self.done
    }

    /// Whether an event of the owner whose turn it is, entered for such a time, would be its very next,
    /// and in this window.
    #[inline(always)]
    pub fn is_next_own(&self, at_ns: u64) -> bool {
        let ready = self.ready[..self.until].get(self.done);
        at_ns < self.end_ns
            && ready.is_none_or(|next| next.at_ns > at_ns)
            && self.own.last().is_none_or(|next| next.at_ns > at_ns)
    }

    /// All owners have had their turns.
    #[inline(always)]
    pub fn close(&mut self) {
        self.owners.clear();
        self.ready.clear();
        (self.done, self.until) = (0, 0);
    }

    /// Takes the next event of the owner whose turn it is.
    #[inline(always)]
    pub fn pop(&mut self) -> Option<Event> {
        if !self.own.is_empty() {
            return self.pop_any();
        }
        if self.done == self.until {
            return None;
        }
        let event = self.ready.get_mut(self.done)?;
        self.done += 1;
        Some(Event {
            at_ns: event.at_ns,
            what: event.what,
            frame: event.frame.take(),
        })
    }

    /// Where the owner has entered events for itself: of one time, what was there before them comes first.
    #[inline(never)]
    fn pop_any(&mut self) -> Option<Event> {
        let own_ns = self.own.last().map_or(u64::MAX, |event| event.at_ns);
        match self.ready[..self.until].get_mut(self.done) {
            Some(event) if event.at_ns <= own_ns => {
                self.done += 1;
                Some(std::mem::take(event))
            }
            _ => self.own.pop(),
        }
    }

    /// The words of what is to come that has a frame, in no order: for the final account.
    pub fn pending(&self) -> impl Iterator<Item = u32> {
        let near = self.buckets.iter().flatten().chain(&self.ready);
        let all = near.chain(self.far.iter().map(|far| &far.event));
        all.filter(|event| event.frame.is_some())
            .map(|event| event.what)
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
    const REACH_NS: u64 = WINDOW_NS * BUCKETS as u64;

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
            for place in 0..wheel.owners() {
                let owner = wheel.begin_turn(place);
                while let Some(event) = wheel.pop() {
                    let wanted = model[owner].pop_first();
                    assert_eq!(wanted, Some((event.at_ns, event.what)));
                    done += 1;
                    if done > 200_000 {
                        continue;
                    }
                    let ahead_ns = match random.next_u64() % 8 {
                        0..5 => 500 + random.next_u64() % 900,
                        5 => REACH_NS - 2 + random.next_u64() % 4,
                        6 => 500 + random.next_u64() % (4 * REACH_NS),
                        _ => 500 + random.next_u64() % 1_000_000,
                    };
                    enter(&mut wheel, &mut model, event.at_ns + ahead_ns);
                    if random.next_u64() % 300 == 0 {
                        // Its own, soon: its number makes it this owner's, and the last of its time.
                        let own_ns = event.at_ns + random.next_u64() % 700;
                        let what = u32::MAX / 2 / 5 * 5 + owner as u32 + 5 * done;
                        wheel.insert_own(own_ns, what);
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
        let arrays = wheel.spare.iter().chain(wheel.buckets.iter());
        let room: usize = arrays.map(Vec::capacity).sum();
        assert!(room < 20_000, "arrays are used again: {room}");
    }
}
