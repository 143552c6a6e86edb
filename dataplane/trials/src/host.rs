//! The sending host: which PSN it sends next, and when.

use std::collections::VecDeque;

use rand_core::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::setup::SERVICE_PS;

/// When packets leave the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrivals {
    /// At equal distances: a paced sender, or one at the rate of its own link.
    Constant,
    /// At random ones.
    Poisson,
}

/// What a sender does about a lost packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recovery {
    /// Sends it again.
    SelectiveRepeat,
    /// Goes back to it, and sends all again from there.
    GoBackN,
}

/// Time until the sender learns of a loss: two ways of a packet through a fabric of 10 us round
/// trip, the order of what data centres have.
pub(crate) const LEARNS_AFTER_NS: u64 = 10_000;

/// A host that sends one flow after another over one QP.
pub(crate) struct Host {
    random: Xoshiro256PlusPlus,
    arrivals: Arrivals,
    recovery: Recovery,
    /// Mean distance between two packets.
    gap_ps: f64,
    next_ps: f64,
    /// PSNs of all flows so far, not wrapped.
    next: u64,
    end: u64,
    /// Lost ones, by the time at which the host learns of it.
    lost: VecDeque<(u64, u64)>,
    /// Packets sent, first and later copies.
    pub(crate) sent: u64,
}

impl Host {
    /// A host that loads `spines` uplinks by `load` (0 to 1) in sum.
    pub(crate) fn new(
        arrivals: Arrivals,
        recovery: Recovery,
        load: f64,
        spines: u16,
        seed: u64,
    ) -> Host {
        Host {
            random: Xoshiro256PlusPlus::seed_from_u64(seed),
            arrivals,
            recovery,
            gap_ps: SERVICE_PS as f64 / (load * f64::from(spines)),
            next_ps: 1_000.0,
            next: 0,
            end: 0,
            lost: VecDeque::new(),
            sent: 0,
        }
    }

    /// Its first PSN not yet sent: where the next flow begins.
    pub(crate) fn begin(&mut self, packets: u64) -> u64 {
        let first = self.end;
        self.next = first;
        self.end = first + packets;
        first
    }

    /// When it sends next, in nanoseconds.
    pub(crate) fn next_at(&self) -> u64 {
        (self.next_ps / 1000.0) as u64
    }

    /// Rests until `now`.
    pub(crate) fn rest_until(&mut self, now: u64) {
        self.next_ps = self.next_ps.max(now as f64 * 1000.0);
    }

    /// The PSN that it sends at its time; `None` if it has none then.
    pub(crate) fn send(&mut self, now: u64) -> Option<u64> {
        let gap = match self.arrivals {
            Arrivals::Constant => self.gap_ps,
            Arrivals::Poisson => {
                // 53 random bits in (0, 1].
                let uniform = ((self.random.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
                -uniform.ln() * self.gap_ps
            }
        };
        self.next_ps += gap;
        let due = self.lost.front().is_some_and(|&(at, _)| at <= now);
        if due && let Some((_, psn)) = self.lost.pop_front() {
            match self.recovery {
                Recovery::SelectiveRepeat => {
                    self.sent += 1;
                    return Some(psn);
                }
                Recovery::GoBackN => self.next = psn,
            }
        }
        if self.next >= self.end {
            return None;
        }
        self.next += 1;
        self.sent += 1;
        Some(self.next - 1)
    }

    /// Tells that the packet of a 24-bit PSN was lost.
    pub(crate) fn lose(&mut self, now: u64, psn: u32) {
        // Of all with these 24 bits, the latest that was sent.
        let below = self.end.max(1) - 1;
        let back = (below as u32).wrapping_sub(psn) & 0x00ff_ffff;
        let psn = below - u64::from(back);
        let at = now + LEARNS_AFTER_NS;
        match self.recovery {
            Recovery::SelectiveRepeat => self.lost.push_back((at, psn)),
            // What comes after a loss that is known will be sent again anyway.
            Recovery::GoBackN if self.lost.iter().any(|&(_, known)| known <= psn) => {}
            Recovery::GoBackN => {
                self.lost.clear();
                self.lost.push_back((at, psn));
            }
        }
    }

    /// Whether everything was sent and nothing is known to be lost.
    pub(crate) fn is_done(&self) -> bool {
        self.next >= self.end && self.lost.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(recovery: Recovery) -> Host {
        Host::new(Arrivals::Constant, recovery, 0.5, 8, 1)
    }

    /// Goal: selective repeat sends what was lost, go-back-N all from there.
    #[test]
    fn lost_packets_are_sent_again() {
        for (recovery, expected) in [
            (Recovery::SelectiveRepeat, vec![0, 1, 2, 1, 3, 4]),
            (Recovery::GoBackN, vec![0, 1, 2, 1, 2, 3, 4]),
        ] {
            let mut host = host(recovery);
            host.begin(5);
            let mut sent: Vec<u64> = (0..3).filter_map(|_| host.send(0)).collect();
            host.lose(0, 1);
            while let Some(psn) = host.send(LEARNS_AFTER_NS) {
                sent.push(psn);
            }
            assert_eq!(sent, expected, "{recovery:?}");
            assert!(host.is_done());
        }
    }

    /// Goal: the load is what was asked for, by both kinds of arrivals.
    #[test]
    fn the_load_is_as_asked() {
        for arrivals in [Arrivals::Constant, Arrivals::Poisson] {
            let mut host = Host::new(arrivals, Recovery::SelectiveRepeat, 0.5, 8, 3);
            host.begin(100_000);
            while !host.is_done() {
                host.send(host.next_at());
            }
            let load = 100_000.0 * SERVICE_PS as f64 / 8.0 / (host.next_at() as f64 * 1000.0);
            assert!((load - 0.5).abs() < 0.01, "{arrivals:?}: {load}");
        }
    }
}
