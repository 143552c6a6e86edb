//! When a port is served: in every round or, while packets come faster than rounds go, once there
//! are enough of them for it.
//!
//! A call to a driver costs as much for one packet as for many, and what a full receive burst brings
//! is spread over all uplinks. So as long as bursts come full, a port waits for `ENOUGH` packets
//! or for its turn, which it has every `TURNS` rounds; an lcore that keeps up serves every port
//! in every round. What waits is in the port's queues, where JSQ and priorities see it.

use pipeline::Nanos;

/// Packets that are sent without waiting for more: half a burst.
const ENOUGH: u32 = 16;
/// A port is served every so many rounds at least.
const TURNS: u32 = 4;
/// A round that took longer is no reason to wait for more of them: a packet is not kept back for
/// longer than [`TURNS`] of these.
const ROUND_NS_MAX: u64 = 2_000;

/// Whose turn it is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gather {
    round: u32,
    at: Nanos,
    is_gathering: bool,
}

impl Gather {
    /// A round at `now` has received; `is_full` says whether a burst was as large as it could be.
    #[inline(always)]
    pub fn received(&mut self, now: Nanos, is_full: bool) {
        self.round = self.round.wrapping_add(1);
        self.is_gathering = is_full & (now.0.wrapping_sub(self.at.0) < ROUND_NS_MAX);
        self.at = now;
    }

    /// Whether port number `port`, for which `queued` packets wait, is served in this round.
    #[inline(always)]
    pub fn serves(&self, port: usize, queued: u32) -> bool {
        !self.is_gathering
            || queued >= ENOUGH
            || self.round.wrapping_add(port as u32).is_multiple_of(TURNS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of 1 us until each of `ports` ports with `queued` packets was served.
    fn rounds(gather: &mut Gather, is_full: bool, queued: u32, step_ns: u64) -> Vec<u32> {
        let from = gather.at.0;
        let mut served = vec![0; 8];
        for round in 1..=8u32 {
            gather.received(Nanos(from + u64::from(round) * step_ns), is_full);
            for (port, first) in served.iter_mut().enumerate() {
                if *first == 0 && gather.serves(port, queued) {
                    *first = round;
                }
            }
        }
        served
    }

    #[test]
    fn an_idle_lcore_serves_at_once_and_a_busy_one_in_turns() {
        let mut gather = Gather::default();
        assert_eq!(rounds(&mut gather, false, 1, 1_000), [1; 8]);
        let mut busy = rounds(&mut gather, true, 1, 1_000);
        assert!(busy.iter().all(|&round| round <= TURNS), "{busy:?}");
        busy.sort_unstable();
        assert_eq!(busy, [1, 1, 2, 2, 3, 3, 4, 4], "as many in each round");
        assert_eq!(rounds(&mut gather, true, ENOUGH, 1_000), [1; 8]);
        assert_eq!(rounds(&mut gather, true, 1, ROUND_NS_MAX), [1; 8]);
    }
}
