//! Captures as a poll loop sees them: what it copies into them, and where.
//!
//! Packets are seen behind a receive burst, before a transmit burst, and where a dropped one is freed.
//! While nobody captures each of these is one test of a length that the loop has at hand.

use std::sync::Arc;

use agent::capture::CAPTURES_MAX;
use agent::capture::tap::{Event, Seen, Tap};
use agent::seam::Seam;
use dpdk::Mbuf;
use pipeline::{Nanos, PortId};

/// The captures of one lcore.
#[derive(Debug)]
pub struct Taps {
    lcore: usize,
    active: Vec<Arc<Tap>>,
    /// What is being driven: when, which port.
    now: Nanos,
    port: Option<PortId>,
}

impl Taps {
    /// None yet, for an lcore.
    pub fn new(lcore: usize) -> Taps {
        Taps {
            lcore,
            active: Vec::with_capacity(CAPTURES_MAX),
            now: Nanos(0),
            port: None,
        }
    }

    /// Whether there is a capture.
    #[inline(always)]
    pub fn are_on(&self) -> bool {
        !self.active.is_empty()
    }

    /// Takes up new captures and lets go of ended ones, whose memory control frees.
    pub fn refresh(&mut self, seam: &Seam) {
        if self.are_on() {
            self.active.retain(|tap| !tap.is_over());
        }
        while self.active.len() < CAPTURES_MAX
            && let Some(tap) = seam.taps_of(self.lcore).pop()
        {
            self.active.push(tap);
        }
    }

    /// From now on a port is being driven, or none: what is dropped meanwhile is its.
    #[inline(always)]
    pub fn drive(&mut self, now: Nanos, port: Option<PortId>) {
        (self.now, self.port) = (now, port);
    }

    /// Packets that a port has received.
    #[inline(always)]
    pub fn received(&self, now: Nanos, switch: usize, port: PortId, packets: &[Mbuf]) {
        if self.are_on() {
            self.copy(now, (switch, Some(port)), Event::In, packets);
        }
    }

    /// Packets that leave over a port.
    #[inline(always)]
    pub fn sent(&self, now: Nanos, switch: usize, port: PortId, packets: &[Mbuf]) {
        if self.are_on() {
            self.copy(now, (switch, Some(port)), Event::Out, packets);
        }
    }

    /// A packet that has ended on the wire of a port.
    #[inline(always)]
    pub fn lost(&self, now: Nanos, switch: usize, port: PortId, reason: &'static str, mbuf: &Mbuf) {
        if self.are_on() {
            let place = (switch, Some(port));
            self.copy(
                now,
                place,
                Event::Dropped(reason),
                std::slice::from_ref(mbuf),
            );
        }
    }

    /// A packet that the switch being driven has dropped.
    #[inline(always)]
    pub fn dropped(&self, switch: usize, reason: &'static str, mbuf: &Mbuf) {
        if self.are_on() {
            let place = (switch, self.port);
            self.copy(
                self.now,
                place,
                Event::Dropped(reason),
                std::slice::from_ref(mbuf),
            );
        }
    }

    #[cold]
    #[inline(never)]
    fn copy(&self, now: Nanos, place: (usize, Option<PortId>), event: Event, packets: &[Mbuf]) {
        let (switch, port) = place;
        for mbuf in packets {
            let seen = Seen {
                now_ns: now.0,
                switch,
                port: port.map(|port| port.0),
                event,
                frame: mbuf.data(),
                wire_len: mbuf.total_len(),
            };
            for tap in &self.active {
                tap.offer(self.lcore, &seen);
            }
        }
    }
}
