//! One deadline per connection, the earliest of all at hand.
//!
//! A binary heap with a position per connection. Deadlines mostly move later (every
//! acknowledgement does that), so a later one is not entered until the earlier has come up: a
//! steady stream costs one move per timeout and connection, not one per packet.

/// No deadline.
pub(crate) const NEVER: u64 = u64::MAX;
const ABSENT: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Timers {
    heap: Vec<(u64, u32)>,
    place: Box<[u32]>,
}

impl Timers {
    /// Room for connections `0..count`.
    pub(crate) fn new(count: usize) -> Timers {
        Timers {
            heap: Vec::with_capacity(count),
            place: vec![ABSENT; count].into(),
        }
    }

    /// A time at or before the earliest deadline.
    #[inline]
    pub(crate) fn first(&self) -> Option<(u64, u32)> {
        self.heap.first().copied()
    }

    /// Sees to it that `qp` comes up at `at` or earlier.
    #[inline]
    pub(crate) fn at_latest(&mut self, qp: u32, at: u64) {
        if at == NEVER {
            return;
        }
        let place = self.place[qp as usize];
        if place == ABSENT {
            self.heap.push((at, qp));
            self.rise(self.heap.len() - 1);
        } else if at < self.heap[place as usize].0 {
            self.heap[place as usize].0 = at;
            self.rise(place as usize);
        }
    }

    /// Moves the first entry to `at`, or takes it out.
    pub(crate) fn move_first(&mut self, at: u64) {
        if at == NEVER {
            let (_, qp) = self.heap.swap_remove(0);
            self.place[qp as usize] = ABSENT;
            if self.heap.is_empty() {
                return;
            }
        } else {
            self.heap[0].0 = at;
        }
        self.sink(0);
    }

    /// Takes `qp` out.
    pub(crate) fn remove(&mut self, qp: u32) {
        let place = std::mem::replace(&mut self.place[qp as usize], ABSENT);
        if place == ABSENT {
            return;
        }
        let at = place as usize;
        self.heap.swap_remove(at);
        if at < self.heap.len() {
            self.put(at, self.heap[at]);
            self.sink(at);
            self.rise(at);
        }
    }

    fn rise(&mut self, mut at: usize) {
        let entry = self.heap[at];
        while at > 0 && entry < self.heap[(at - 1) / 2] {
            self.put(at, self.heap[(at - 1) / 2]);
            at = (at - 1) / 2;
        }
        self.put(at, entry);
    }

    fn sink(&mut self, mut at: usize) {
        let entry = self.heap[at];
        loop {
            let mut child = 2 * at + 1;
            if child + 1 < self.heap.len() && self.heap[child + 1] < self.heap[child] {
                child += 1;
            }
            if child >= self.heap.len() || entry <= self.heap[child] {
                break;
            }
            self.put(at, self.heap[child]);
            at = child;
        }
        self.put(at, entry);
    }

    fn put(&mut self, at: usize, entry: (u64, u32)) {
        self.heap[at] = entry;
        self.place[entry.1 as usize] = at as u32;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Goal: what is taken out does not come up, and the others do, in order.
        #[test]
        fn what_is_taken_out_is_gone(times in proptest::collection::vec(0u64..1000, 1..60), gone in proptest::collection::vec(0u32..60, 0..30)) {
            let mut timers = Timers::new(60);
            for (qp, &at) in times.iter().enumerate() {
                timers.at_latest(qp as u32, at);
            }
            for &qp in &gone {
                timers.remove(qp);
            }
            let left = times.iter().enumerate().map(|(qp, &at)| (at, qp as u32));
            let mut wanted: Vec<_> = left.filter(|(_, qp)| !gone.contains(qp)).collect();
            wanted.sort();
            let mut got = Vec::new();
            while let Some(first) = timers.first() {
                got.push(first);
                timers.move_first(NEVER);
            }
            prop_assert_eq!(got, wanted);
        }

        /// Goal: deadlines come up in order, each at the earliest time it was given.
        #[test]
        fn deadlines_come_up_in_order(asked in proptest::collection::vec((0u32..50, 0u64..1000), 1..200)) {
            let mut timers = Timers::new(50);
            let mut earliest = [NEVER; 50];
            for (qp, at) in asked {
                timers.at_latest(qp, at);
                earliest[qp as usize] = earliest[qp as usize].min(at);
            }
            let mut wanted: Vec<_> = (0..50u32).map(|qp| (earliest[qp as usize], qp)).filter(|e| e.0 != NEVER).collect();
            wanted.sort();
            let mut got = Vec::new();
            while let Some(first) = timers.first() {
                got.push(first);
                timers.move_first(NEVER);
            }
            prop_assert_eq!(got, wanted);
        }
    }
}
