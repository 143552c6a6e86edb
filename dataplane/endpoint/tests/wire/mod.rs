//! Hosts joined by a wire in memory, for the tests: exact time, and a rule per frame.
//!
//! A rule gets each frame that leaves a host and says after how many nanoseconds it arrives:
//! never, once, or several times. Everything is ordered by (time, sequence).
#![allow(dead_code)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use endpoint::{Counters, Event, Host, HostConfig, QpConfig, QpId};
use packet::{Address, MacAddr, Psn, Qpn};

/// Address of host `i` of a test.
pub(crate) fn address(i: u32) -> Address {
    Address::v4(0x0a00_0001 + (i << 8))
}

pub(crate) fn config(i: u32) -> HostConfig {
    let mac = MacAddr([2, 0, 0, 0, (i >> 8) as u8, i as u8]);
    HostConfig {
        qps_max: 64,
        ..HostConfig::new(address(i), mac, MacAddr([2, 0, 0, 1, 0, 0]))
    }
}

/// A frame on the wire.
pub(crate) struct Frame<'a> {
    pub(crate) now: u64,
    pub(crate) from: usize,
    pub(crate) bytes: &'a [u8],
    pub(crate) opcode: u8,
    pub(crate) psn: Psn,
}

/// Nanoseconds until each of a frame's copies arrives.
pub(crate) type Arrivals = [Option<u64>; 2];

pub(crate) struct Wire {
    pub(crate) hosts: Vec<Host>,
    pub(crate) now: u64,
    pub(crate) frames: u64,
    /// Bytes of a frame that are kept, as a simulator keeps its headers alone.
    pub(crate) room: usize,
    in_flight: BinaryHeap<Reverse<Arrival>>,
}

/// Ordered by time and sequence; the host it goes to, its bytes, and how many were on the wire.
type Arrival = (u64, u64, usize, Vec<u8>, usize);

impl Wire {
    pub(crate) fn new(hosts: Vec<Host>) -> Wire {
        Wire {
            hosts,
            now: 0,
            frames: 0,
            room: 4400,
            in_flight: BinaryHeap::new(),
        }
    }

    /// Two hosts with one connection; data of host 0 begins at `first_psn`.
    pub(crate) fn pair(change: impl Fn(&mut HostConfig), first_psn: u32) -> (Wire, QpId) {
        let mut hosts = Vec::new();
        for i in 0..2 {
            let mut config = config(i);
            change(&mut config);
            hosts.push(Host::new(config).expect("a sound configuration"));
        }
        let (one, other) = (Psn::new(first_psn), Psn::new(0x1234));
        let ends = [(17, 18, 1, one, other), (18, 17, 0, other, one)];
        for (host, (local, remote, peer, first, remote_first)) in hosts.iter_mut().zip(ends) {
            host.open_qp(QpConfig {
                local_qpn: Qpn(local),
                remote_qpn: Qpn(remote),
                remote_address: address(peer),
                udp_source_port: 0xc001,
                first_psn: first,
                remote_first_psn: remote_first,
            })
            .expect("room for one connection");
        }
        (Wire::new(hosts), QpId(0))
    }

    fn next_time(&self) -> Option<u64> {
        let mut next = self.in_flight.peek().map(|Reverse(arrival)| arrival.0);
        for host in &self.hosts {
            for time in [host.next_transmit(self.now), host.next_timer()] {
                next = match (next, time) {
                    (Some(a), Some(b)) => Some(a.min(b)),
                    (a, b) => a.or(b),
                };
            }
        }
        next
    }

    /// One instant: arrivals, timers, departures, events. False when nothing is left to happen.
    pub(crate) fn step(
        &mut self,
        rule: &mut impl FnMut(&Frame<'_>) -> Arrivals,
        on_event: &mut impl FnMut(&mut Host, usize, Event, u64),
    ) -> bool {
        let Some(next) = self.next_time() else {
            return false;
        };
        self.now = self.now.max(next);
        while let Some(Reverse(arrival)) = self.in_flight.peek()
            && arrival.0 <= self.now
        {
            let Some(Reverse((_, _, to, bytes, wire_len))) = self.in_flight.pop() else {
                break;
            };
            self.hosts[to].receive(self.now, &bytes, wire_len);
        }
        let mut buffer = [0u8; 4400];
        for from in 0..self.hosts.len() {
            self.hosts[from].tick(self.now);
            let promised = self.hosts[from].next_transmit(self.now) == Some(self.now);
            let emitted = self.hosts[from].transmit(self.now, &mut buffer[..self.room]);
            assert_eq!(promised, emitted.is_some(), "next_transmit told the truth");
            if let Some(emitted) = emitted {
                let wire_len = emitted.wire_len as usize;
                let kept = wire_len.min(self.room);
                assert!(kept >= emitted.header_len as usize);
                self.carry(from, &buffer[..kept], wire_len, rule);
            }
            while let Some(event) = self.hosts[from].poll_event() {
                on_event(&mut self.hosts[from], from, event, self.now);
            }
        }
        true
    }

    fn carry(
        &mut self,
        from: usize,
        bytes: &[u8],
        wire_len: usize,
        rule: &mut impl FnMut(&Frame<'_>) -> Arrivals,
    ) {
        let parsed = packet::parse(bytes, wire_len, packet::message::DEFAULT_PORT).unwrap();
        let at = usize::from(parsed.payload);
        let frame = Frame {
            now: self.now,
            from,
            bytes,
            opcode: bytes[at],
            psn: packet::bth::psn(bytes, at),
        };
        let to = self
            .hosts
            .iter()
            .position(|h| h.config().address == parsed.destination);
        for delay in rule(&frame).into_iter().flatten() {
            self.frames += 1;
            let at = self.now + delay;
            let arrival = (at, self.frames, to.unwrap(), bytes.to_vec(), wire_len);
            self.in_flight.push(Reverse(arrival));
        }
    }

    /// Marks the frame that left last, as a congested queue does.
    pub(crate) fn mark_last(&mut self) {
        let mut all = std::mem::take(&mut self.in_flight).into_vec();
        if let Some(Reverse(last)) = all.iter_mut().max_by_key(|Reverse(arrival)| arrival.1) {
            assert!(
                packet::ecn::mark(&mut last.3),
                "hosts send ECN-capable packets"
            );
        }
        self.in_flight = all.into();
    }

    /// Steps until nothing is left to happen or `limit_ns` has come; returns the events.
    pub(crate) fn run(
        &mut self,
        limit_ns: u64,
        mut rule: impl FnMut(&Frame<'_>) -> Arrivals,
    ) -> Vec<(usize, Event)> {
        let mut events = Vec::new();
        let mut keep = |_: &mut Host, host, event, _| events.push((host, event));
        while self.now < limit_ns && self.step(&mut rule, &mut keep) {}
        events
    }

    pub(crate) fn counters(&self, host: usize) -> Counters {
        *self.hosts[host].counters()
    }
}

/// A delay of one microsecond for every frame.
pub(crate) fn in_order(_: &Frame<'_>) -> Arrivals {
    [Some(1000), None]
}

/// A seeded source of numbers for rules.
pub(crate) struct Dice(pub(crate) u64);

impl Dice {
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        ((u128::from(self.0 >> 11) * u128::from(bound)) >> 53) as u64
    }
}
