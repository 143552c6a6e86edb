//! Whether queues are served: how long each has waited, and how often one has starved.
//!
//! Strict priorities let a queue push those below it aside for as long as it has packets, and a wire
//! that takes nothing stops all of them. Both are looked for now and then, off the packet path, which
//! only notes what was served.

use super::{PRIORITIES, Queues};
use crate::types::Nanos;

/// How often queues are looked at: times of waiting are true to within it.
pub const WATCH_NS: u64 = 1_000_000;
/// A queue that has packets and was not served for so long, or for two of its link's longest frames,
/// starves. A queue as deep as it may be
/// by default (1 MiB) is sent in less at 1 Gbit/s (8.4 ms): only others' packets can take it that long.
pub const STARVED_NS: u64 = 10_000_000;

/// Since when the queues of a port have waited.
#[derive(Clone, Copy, Default)]
pub(super) struct Waits {
    /// The last look at which it was empty or had been served.
    since: [Nanos; PRIORITIES],
    /// Bit p: queue p has packets and was not served between the last two looks.
    waiting: u8,
    /// Bit p: queue p starves, which was counted.
    starving: u8,
}

impl<T> Queues<T> {
    /// Looks which queues were served, if it is time to.
    #[inline]
    pub fn watch(&mut self, now: Nanos) {
        if now >= self.watched_at.plus(WATCH_NS) {
            self.look(now);
        }
    }

    #[inline(never)]
    fn look(&mut self, now: Nanos) {
        self.watched_at = now;
        let ports = self.ports.iter_mut().zip(&mut self.waits);
        for ((egress, waits), rare) in ports.zip(&mut self.rare) {
            let served = std::mem::take(&mut egress.served);
            waits.waiting = egress.busy as u8 & !served;
            waits.starving &= waits.waiting;
            // A slow link is busy with two of its frames for longer than that.
            let frame =
                u64::from(egress.link_max_bytes).saturating_mul(u64::from(egress.byte_ps_256));
            let patience_ns = STARVED_NS.max(2 * (frame >> 8) / 1000);
            for queue in 0..PRIORITIES {
                let bit = 1 << queue;
                if waits.waiting & bit == 0 {
                    waits.since[queue] = now;
                } else if waits.starving & bit == 0 && now >= waits.since[queue].plus(patience_ns) {
                    waits.starving |= bit;
                    rare.starved[queue] += 1;
                }
            }
        }
    }

    /// For how long each queue of `port` had waited at the last look, in nanoseconds; 0 if it was
    /// empty or had been served.
    pub fn unserved_ns(&self, port: usize) -> [u64; PRIORITIES] {
        let waits = &self.waits[port];
        std::array::from_fn(|queue| match waits.waiting >> queue & 1 {
            0 => 0,
            _ => self.watched_at.0 - waits.since[queue].0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::queues;
    use super::*;

    const STEP_NS: u64 = 100_000;

    /// Runs for `steps` of 100 us; in each, `fill` puts packets in, and one packet may leave.
    fn run(
        queues: &mut Queues<u32>,
        from: u64,
        steps: u64,
        mut fill: impl FnMut(&mut Queues<u32>),
    ) -> u64 {
        for step in from..from + steps {
            let now = Nanos(step * STEP_NS);
            fill(queues);
            queues.dequeue(now, 0, 1, &mut Vec::new());
            queues.watch(now);
        }
        from + steps
    }

    /// Goal: a queue that higher ones push aside is told with how long it has waited, is counted
    /// once each time, and no longer when it is served.
    #[test]
    fn a_queue_that_is_pushed_aside_is_seen_to_starve() {
        let mut q = queues(1 << 20, 1024, 0);
        q.enqueue(0, 2, 1, 100).unwrap();
        q.enqueue(0, 2, 2, 100).unwrap();
        let high = |q: &mut Queues<u32>| q.enqueue(0, 6, 9, 100).unwrap();
        let at = run(&mut q, 0, 51, high);
        let waited = q.unserved_ns(0);
        assert!((4_000_000..=6_000_000).contains(&waited[2]), "{waited:?}");
        assert_eq!(waited[6], 0, "the other is served all the time");
        assert_eq!(q.counters(0).starved, [0; 8], "not for long enough yet");
        let at = run(&mut q, at, 500, high);
        assert_eq!(q.counters(0).starved, [0, 0, 1, 0, 0, 0, 0, 0]);
        assert!(q.unserved_ns(0)[2] > 40_000_000);
        // One is sent: the wait begins anew, and is counted anew.
        let at = run(&mut q, at, 20, |_| ());
        assert_eq!(q.unserved_ns(0), [0; 8]);
        q.enqueue(0, 2, 3, 100).unwrap();
        run(&mut q, at, 200, high);
        assert_eq!(q.counters(0).starved[2], 2);
    }

    /// Goal: where the wire takes nothing, all queues starve; what is empty never does.
    #[test]
    fn a_wire_that_takes_nothing_starves_all() {
        let mut q = queues(1 << 20, 1024, 0);
        q.enqueue(1, 0, 1, 100).unwrap();
        q.enqueue(1, 7, 2, 100).unwrap();
        run(&mut q, 0, 200, |_| ());
        assert_eq!(q.counters(1).starved, [1, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(q.counters(0).starved, [0; 8]);
    }
}
