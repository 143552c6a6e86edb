//! One direction of a cable inside a testbed: an rte_ring that the driver owns, and its faults.
//!
//! Conservation: `sent == received + lost + in_flight`. A damaged packet arrives, and is dropped
//! by whoever receives it, as a NIC does with a wrong FCS.

use std::collections::VecDeque;
use std::io;

use dpdk::{Burst, Eal, Error, Mbuf, RingReceiver, RingSender};
use pipeline::Nanos;
use pipeline::fault::{Fate, Fault, LinkFaults};

use crate::pcap::Writer;

/// Packets a ring holds: far more than a link's bandwidth-delay product in one round of the loop.
pub const RING_PACKETS: u32 = 256;
/// Packets that may wait for an injected delay or as damaged ones; more wait in the egress queue.
const HELD_MAX: usize = 4096;

/// A directed link.
pub struct Wire {
    sender: RingSender,
    receiver: RingReceiver,
    /// Packets in the ring: both ends are here, so nobody else changes it.
    inside: usize,
    faults: LinkFaults,
    is_faulty: bool,
    delayed: VecDeque<(Nanos, Mbuf)>,
    damaged: VecDeque<Mbuf>,
    /// Packets put into the link.
    pub sent: u64,
    /// Packets that came out, damaged ones included.
    pub received: u64,
    /// Packets that the injected faults lost.
    pub lost: u64,
    /// Packets that arrived damaged.
    pub corrupted: u64,
    /// A capture of what enters the link, for people who debug; it slows the run down.
    capture: Option<Writer>,
    /// The first error of that capture, which ended it.
    capture_error: Option<io::Error>,
}

impl Wire {
    /// A link of such faults; `name` is the ring's, unique in the process.
    ///
    /// # Errors
    /// When DPDK has no memory for the ring.
    pub fn new(eal: &Eal, name: &str, faults: &[Fault], seed: u64) -> Result<Wire, Error> {
        let (sender, receiver) = dpdk::ring(eal, name, RING_PACKETS, None)?;
        Ok(Wire {
            sender,
            receiver,
            inside: 0,
            faults: LinkFaults::new(faults, seed),
            is_faulty: !faults.is_empty(),
            // A link may get its faults later, when nothing is allocated; what is not used costs
            // addresses alone.
            delayed: VecDeque::with_capacity(HELD_MAX),
            damaged: VecDeque::with_capacity(HELD_MAX),
            sent: 0,
            received: 0,
            lost: 0,
            corrupted: 0,
            capture: None,
            capture_error: None,
        })
    }

    /// Writes what enters the link from now on into a capture.
    pub fn capture_into(&mut self, writer: Writer) {
        self.capture = Some(writer);
    }

    #[cold]
    fn capture(&mut self, now: Nanos, burst: &Burst) {
        let Some(writer) = &mut self.capture else {
            return;
        };
        let written = burst
            .iter()
            .try_for_each(|mbuf| writer.write(now.0, mbuf.data()));
        if let Err(error) = written {
            self.capture_error = Some(error);
            self.capture = None;
        }
    }

    /// Ends the capture; the first error it met, if any.
    pub fn end_capture(&mut self) -> Option<io::Error> {
        let ended = self.capture.take().map_or(Ok(()), Writer::finish);
        self.capture_error.take().or(ended.err())
    }

    /// How many packets [`Wire::send`] takes now.
    #[inline]
    pub fn room(&self) -> usize {
        let ring = RING_PACKETS as usize - self.inside;
        let held = self.delayed.len().max(self.damaged.len());
        if self.is_faulty {
            ring.min(HELD_MAX - held)
        } else {
            ring
        }
    }

    /// Replaces the faults, and gives back those it had. What is delayed or damaged arrives all the same.
    pub fn swap_faults(&mut self, faults: &mut Option<LinkFaults>) {
        let new = faults.take().unwrap_or_else(|| LinkFaults::new(&[], 0));
        *faults = Some(std::mem::replace(&mut self.faults, new));
        // What is on its way must be looked at to its end.
        self.is_faulty = true;
    }

    /// Whether its faults leave it up at `now`.
    pub fn is_up(&self, now: Nanos) -> bool {
        self.faults.is_up(now)
    }

    /// Puts in a burst of at most [`Wire::room`] packets.
    #[inline]
    pub fn send(&mut self, now: Nanos, burst: &mut Burst) {
        self.sent += burst.len() as u64;
        if self.capture.is_some() {
            self.capture(now, burst);
        }
        if self.is_faulty {
            self.suffer(now, burst);
        }
        self.inside += self.sender.send_burst(burst);
        debug_assert!(burst.is_empty(), "the caller has asked for room");
    }

    /// Takes out of `burst` what does not simply pass.
    fn suffer(&mut self, now: Nanos, burst: &mut Burst) {
        let mut passing = Burst::new();
        for mut mbuf in burst.drain() {
            match self.faults.judge(mbuf.data(), mbuf.len()) {
                Fate::Lost => self.lost += 1,
                Fate::Corrupted => {
                    self.corrupted += 1;
                    self.damaged.push_back(mbuf);
                }
                Fate::Marked => {
                    packet::ecn::mark(mbuf.data_mut());
                    self.pass(now, 0, mbuf, &mut passing);
                }
                Fate::Pass { delay_ns } => self.pass(now, delay_ns, mbuf, &mut passing),
            }
        }
        *burst = passing;
    }

    fn pass(&mut self, now: Nanos, delay_ns: u64, mbuf: Mbuf, passing: &mut Burst) {
        // Behind a delayed one nothing overtakes: a link is first in, first out.
        if delay_ns > 0 || !self.delayed.is_empty() {
            self.delayed.push_back((now.plus(delay_ns), mbuf));
        } else if let Err(mbuf) = passing.push(mbuf) {
            drop(mbuf);
        }
    }

    /// Takes out what has arrived by `now`. Call until the burst stays empty or short.
    #[inline]
    pub fn receive(&mut self, now: Nanos, burst: &mut Burst) {
        if self.is_faulty {
            while self.delayed.front().is_some_and(|(at, _)| *at <= now)
                && self.inside < RING_PACKETS as usize
                && let Some((_, mbuf)) = self.delayed.pop_front()
            {
                let refused = self.sender.send(mbuf);
                debug_assert!(refused.is_ok(), "the ring had room");
                self.inside += usize::from(refused.is_ok());
            }
        }
        if self.inside > 0 {
            self.inside -= self.receiver.receive_burst(burst);
        }
        self.received += burst.len() as u64;
    }

    /// Takes out a packet that has arrived damaged.
    #[inline]
    pub fn receive_damaged(&mut self) -> Option<Mbuf> {
        let mbuf = self.damaged.pop_front()?;
        self.received += 1;
        Some(mbuf)
    }

    /// Whether nothing is to be received now.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.inside == 0 && self.delayed.is_empty() && self.damaged.is_empty()
    }

    /// Packets on their way.
    pub fn in_flight(&self) -> u64 {
        (self.inside + self.delayed.len() + self.damaged.len()) as u64
    }

    /// The conservation law of the link.
    pub fn is_conserved(&self) -> bool {
        self.sent == self.received + self.lost + self.in_flight()
    }
}
