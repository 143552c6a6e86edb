//! One leaf pair in memory: the source leaf's switch, k paths that may lose packets, the
//! destination leaf's switch, driven event by event.
//!
//! Both leaves (and the spines, where they count) are `pipeline::Switch`es: what is measured is
//! what the product does. Time goes from one departure or arrival to the next, so queues are those
//! of a switch at line rate, not of a poll loop.

use std::collections::VecDeque;

use pipeline::fault::{Fate, Fault, LinkFaults};
use pipeline::{Nanos, PortId, Switch, WindowReport};

use crate::frame::{Memory, Packet};
use crate::host::{Arrivals, Host, Recovery};
use crate::seed::Seed;
use crate::setup::{self, Leaves, PATH_DELAY_NS};

/// The host's port of either leaf.
const HOST: PortId = PortId(0);
/// Ticks after a flow until its window has ended: the close, its repetitions, the verdict.
const ENDS_WITHIN: u64 = 10;

/// Which of a path's two links.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Leaf to spine.
    Up,
    /// Spine to leaf.
    Down,
}

/// A link that loses packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bad {
    /// Which spine's.
    pub spine: u16,
    /// Uplink or downlink.
    pub side: Side,
    /// Probability per packet.
    pub rate: f64,
}

/// Everything about a leaf pair but its seed.
#[derive(Clone, Debug, PartialEq)]
pub struct PairConfig {
    /// The switches.
    pub leaves: Leaves,
    /// Load of the uplinks by the measured flow, 0 to 1.
    pub load: f64,
    /// Distances between packets.
    pub arrivals: Arrivals,
    /// What the sender does about losses.
    pub recovery: Recovery,
    /// Loss rate of every healthy link.
    pub background: f64,
    /// Links that lose more.
    pub bad: Vec<Bad>,
}

struct Path {
    up: LinkFaults,
    down: LinkFaults,
}

/// See the file's comment.
pub struct Pair {
    source: Switch<Box<Packet>>,
    destination: Switch<Box<Packet>>,
    spines: Vec<Switch<Box<Packet>>>,
    paths: Vec<Path>,
    memory: Memory,
    host: Host,
    /// Departures that are due, by time: (nanoseconds, uplink).
    due: VecDeque<(u64, u16)>,
    /// Uplinks that have one.
    busy: u128,
    now: u64,
    tick_at: u64,
    flows: u64,
    generated: u64,
    /// Data packets that the destination leaf has passed to its host.
    pub delivered: u64,
}

impl Pair {
    /// A pair at rest.
    pub fn new(config: &PairConfig, seed: Seed) -> Pair {
        let leaves = &config.leaves;
        let spines = leaves.spines;
        let link = |spine: u16, side: Side| {
            let found = config
                .bad
                .iter()
                .find(|bad| bad.spine == spine && bad.side == side);
            let rate = found.map_or(config.background, |bad| bad.rate);
            let part = 0x100 | spine << 1 | u16::from(side == Side::Down);
            let faults: &[Fault] = if rate > 0.0 {
                &[Fault::Drop(rate)]
            } else {
                &[]
            };
            LinkFaults::new(faults, seed.part(part))
        };
        let real = if leaves.real_spines { spines } else { 0 };
        Pair {
            source: Switch::new(&setup::leaf(leaves, 0, seed.part(0))),
            destination: Switch::new(&setup::leaf(leaves, 1, seed.part(1))),
            spines: (0..real)
                .map(|x| Switch::new(&setup::spine(leaves, x, seed.part(0x400 | x))))
                .collect(),
            paths: (0..spines)
                .map(|spine| Path {
                    up: link(spine, Side::Up),
                    down: link(spine, Side::Down),
                })
                .collect(),
            memory: Memory::new(),
            host: Host::new(
                config.arrivals,
                config.recovery,
                config.load,
                spines,
                seed.part(2),
            ),
            due: VecDeque::new(),
            busy: 0,
            now: 0,
            tick_at: 0,
            flows: 0,
            generated: 0,
            delivered: 0,
        }
    }

    /// Announces and sends a flow of so many packets, until all of it has arrived and its last
    /// window has ended. What was measured meanwhile is in [`Pair::take_windows`].
    pub fn flow(&mut self, packets: u64) {
        self.begin(packets);
        while !self.host.is_done() {
            self.advance();
        }
        self.settle();
    }

    /// Announces a flow; [`Pair::advance`] sends it.
    pub fn begin(&mut self, packets: u64) {
        self.host.rest_until(self.now);
        let first = self.host.begin(packets);
        self.flows += 1;
        let message = self.memory.announcement(first as u32, packets, self.flows);
        self.source
            .ingress(Nanos(self.now), HOST, message, &mut self.memory);
        self.find_departures(true);
    }

    /// Whether the host has anything left to send.
    pub fn is_done(&self) -> bool {
        self.host.is_done()
    }

    /// Goes to the host's next packet.
    #[inline]
    pub fn advance(&mut self) {
        let at = self.host.next_at().max(self.now);
        self.depart_until(at);
        self.now = at;
        if self.now >= self.tick_at {
            self.tick();
        }
        if let Some(psn) = self.host.send(self.now) {
            let packet = self.memory.data(psn as u32);
            self.source
                .ingress(Nanos(self.now), HOST, packet, &mut self.memory);
            self.find_departures(false);
        }
    }

    /// Lets time pass until windows that are over have been reported.
    fn settle(&mut self) {
        let end = self.now + ENDS_WITHIN * PATH_DELAY_NS;
        while self.now < end {
            self.depart_until(self.tick_at);
            self.now = self.now.max(self.tick_at);
            self.tick();
        }
    }

    /// The windows that the destination leaf has reported since the last call, oldest first.
    pub fn take_windows(&mut self) -> Vec<WindowReport> {
        std::mem::take(&mut self.memory.windows)
    }

    /// Packets that the host has sent.
    pub fn sent(&self) -> u64 {
        self.host.sent
    }

    /// Packets that any switch has dropped: none, in a model that is set up right.
    pub fn dropped(&self) -> u64 {
        self.memory.dropped
    }

    /// Whether all switches obey the conservation laws.
    pub fn is_conserved(&self) -> bool {
        self.source.is_conserved()
            && self.destination.is_conserved()
            && self.spines.iter().all(Switch::is_conserved)
    }

    fn tick(&mut self) {
        let now = Nanos(self.now);
        self.source.tick(now, &mut self.memory);
        self.destination.tick(now, &mut self.memory);
        for spine in &mut self.spines {
            spine.tick(now, &mut self.memory);
        }
        self.tick_at = self.now + PATH_DELAY_NS / 2;
        self.find_departures(true);
    }

    #[inline]
    fn depart_until(&mut self, time: u64) {
        while let Some(&(at, uplink)) = self.due.front()
            && at <= time
        {
            self.due.pop_front();
            self.busy &= !(1 << uplink);
            self.depart(at, uplink);
        }
    }

    /// Sends what an uplink may send at `now`, and notes when it may send more.
    #[inline]
    fn depart(&mut self, now: u64, uplink: u16) {
        let port = PortId(uplink + 1);
        while let Some(at) = self.source.next_departure(port) {
            if at.0 > now {
                self.busy |= 1 << uplink;
                // Data packets take equal times, so this one is nearly always the last.
                let mut place = self.due.len();
                while place > 0 && self.due[place - 1].0 > at.0 {
                    place -= 1;
                }
                self.due.insert(place, (at.0, uplink));
                return;
            }
            let Some(packet) = self.source.egress(Nanos(now), port) else {
                return;
            };
            self.carry(now, uplink, packet);
        }
    }

    /// Looks which uplink has got something to send. One data packet goes to one uplink, unless a
    /// window has opened or closed with it.
    #[inline]
    fn find_departures(&mut self, all: bool) {
        let generated = self.source.counters().generated;
        let all = all || generated != self.generated;
        self.generated = generated;
        for uplink in 0..self.paths.len() as u16 {
            if self.busy >> uplink & 1 == 0
                && self.source.next_departure(PortId(uplink + 1)).is_some()
            {
                self.depart(self.now, uplink);
                if !all {
                    return;
                }
            }
        }
    }

    #[inline]
    fn carry(&mut self, now: u64, uplink: u16, packet: Box<Packet>) {
        let path = &mut self.paths[usize::from(uplink)];
        if !arrives(&mut path.up, &packet) {
            self.lose(now, packet);
            return;
        }
        let time = Nanos(now);
        let Some(spine) = self.spines.get_mut(usize::from(uplink)) else {
            return self.arrive(now, uplink, packet);
        };
        spine.ingress(time, PortId(0), packet, &mut self.memory);
        // Its ports are fast, so what comes in goes out at once.
        while let Some(packet) = self.spines[usize::from(uplink)].egress(Nanos(now), PortId(1)) {
            self.arrive(now, uplink, packet);
        }
    }

    #[inline]
    fn arrive(&mut self, now: u64, uplink: u16, packet: Box<Packet>) {
        if !arrives(&mut self.paths[usize::from(uplink)].down, &packet) {
            self.lose(now, packet);
            return;
        }
        let time = Nanos(now);
        self.destination
            .ingress(time, PortId(uplink + 1), packet, &mut self.memory);
        while let Some(packet) = self.destination.egress(time, HOST) {
            self.delivered += 1;
            self.memory.recycle(packet);
        }
    }

    #[cold]
    fn lose(&mut self, now: u64, packet: Box<Packet>) {
        if let Some(psn) = packet.psn {
            self.host.lose(now, psn);
        }
        self.memory.recycle(packet);
    }
}

#[inline]
fn arrives(link: &mut LinkFaults, packet: &Packet) -> bool {
    // A loss by chance reads no byte of the packet.
    let _ = packet;
    link.is_empty() || matches!(link.judge(&[], 0), Fate::Pass { .. })
}
