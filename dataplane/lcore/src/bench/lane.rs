//! One lcore's share of a benchmark: a switch, its `net_null` ports, and the loop in C on the same
//! ports.
//!
//! A lane is moved to its lcore for each sample and comes back with it.

use std::sync::Arc;

use agent::seam::Seam;
use config::BenchCase;
use dpdk::bench::{Stamp, c_loop};
use dpdk::{Burst, Clock, Eal, Mempool, Port, PortConfig, RxQueue, StartedPort, TxQueue};
use packet::message::{Hop, Message};
use pipeline::{Nanos, Note, PortId, Switch, Token};

use super::case::{self, PORTS};
use crate::failure::Failure;
use crate::packet::{LcoreSink, Packet};

/// Buffers of a lane: without the pool's cache all of them go round, which no L2 cache holds.
pub const BUFFERS: u32 = 32_767;
/// Buffers that the pool keeps at hand for the lcore, unless the run is cold.
const POOL_CACHE: u32 = 256;
/// Room of a buffer; larger frames get more.
const ROOM: u32 = 2048;
const MESSAGE_BUFFERS: u32 = 255;
const MESSAGE_ROOM: u32 = 1024;
/// How often time alone is given to the switch.
const TICK_NS: u64 = 50_000;
/// Rounds of the loop in C between two looks at the clock.
const C_ROUNDS: u64 = 64;

/// What one lane is set up for.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The switch's role.
    pub case: BenchCase,
    /// Bytes of a frame.
    pub frame: u32,
    /// Packets of a poll.
    pub burst: u16,
    /// Without the pool's cache.
    pub cold: bool,
}

/// What one sample came to on one lcore.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sample {
    /// Packets received.
    pub packets: u64,
    /// Cycles of the time-stamp counter.
    pub cycles: u64,
    /// Heap allocations.
    pub allocations: u64,
}

/// A switch with its ports and packets.
pub struct Lane {
    /// What it is set up for.
    pub setting: Setting,
    /// The switch.
    pub switch: Switch<Packet>,
    /// Puts returned frames right, for the switch.
    pub stamp: Stamp,
    /// Memory of the frames.
    pub pool: Mempool,
    sink: LcoreSink,
    clock: Clock,
    next_tick: Nanos,
    rx: RxQueue,
    tx: Vec<TxQueue>,
    c_stamp: Stamp,
    /// Packets handed to the switch as data.
    pub received: u64,
    /// What the switch had sent by each port before the first of them.
    primed: [u64; PORTS],
    _ports: Vec<StartedPort>,
}

/// MiB of packet memory that a lane needs.
pub fn mib(frame: u32) -> u32 {
    crate::machine::mib_for(BUFFERS, room(frame)) + 16
}

fn room(frame: u32) -> u32 {
    ROOM.max(frame + 64)
}

impl Lane {
    /// Sets a lane up; `number` tells devices and pools of one process apart.
    ///
    /// # Errors
    /// What DPDK lacks.
    pub fn new(eal: &Eal, setting: Setting, number: u32) -> Result<Lane, Failure> {
        let Setting {
            case, frame, cold, ..
        } = setting;
        let cache = if cold { 0 } else { POOL_CACHE };
        let name = format!("frames{number}");
        let mut pool = Mempool::create(eal, &name, BUFFERS, cache, room(frame), None)?;
        let mut buffer = 0;
        pool.for_each_frame(|data| {
            let frame = case::frame(case, buffer, frame as usize);
            data[..frame.len()].copy_from_slice(&frame);
            buffer += 1;
        })?;
        let template = case::frame(case, 0, frame as usize);
        let stamp = Stamp::of(&template)
            .ok_or_else(|| Failure::usage(format!("a frame of {frame} bytes is too short")))?;
        let (mut rx, mut tx, mut ports) = (None, Vec::new(), Vec::new());
        for port in 0..PORTS {
            let name = format!("net_null{}", number as usize * PORTS + port);
            eal.attach_vdev(&format!("{name},size={frame}"))?;
            let mut started = Port::by_name(eal, &name)?.start(PortConfig::new(pool.clone()))?;
            if port == case::input(case) {
                rx = started.rx.pop();
            }
            tx.extend(started.tx.pop());
            ports.push(started.port);
        }
        let config = case::switch(case, frame, u64::from(number)).map_err(Failure::usage)?;
        let messages = format!("messages{number}");
        let mut lane = Lane {
            setting,
            switch: Switch::new(&config),
            c_stamp: stamp.clone(),
            stamp,
            pool,
            sink: LcoreSink {
                pool: Mempool::create(eal, &messages, MESSAGE_BUFFERS, 0, MESSAGE_ROOM, None)?,
                seam: Arc::new(Seam::default()),
                switch: 0,
            },
            clock: Clock::calibrated(),
            next_tick: Nanos(0),
            rx: rx.ok_or_else(|| Failure::environment("net_null gave no receive queue"))?,
            tx,
            received: 0,
            primed: [0; PORTS],
            _ports: ports,
        };
        lane.prime()?;
        Ok(lane)
    }

    /// Begins the measurement, so that every packet from now on is marked and counted.
    fn prime(&mut self) -> Result<(), Failure> {
        if let Some(open) = case::open(self.setting.case) {
            self.take_message(&open)?;
            while self.leaving().next().is_some() {}
        }
        for port in 0..self.switch.ports_len() {
            self.primed[port] = self.switch.port_counters(PortId(port as u16)).tx_packets;
        }
        Ok(())
    }

    fn take_message(&mut self, frame: &[u8]) -> Result<(), Failure> {
        let lacks = || Failure::environment("no packet buffer for a message");
        let mut mbuf = self.sink.pool.alloc().ok_or_else(lacks)?;
        mbuf.write(frame).map_err(Failure::environment)?;
        let input = PortId(case::input(self.setting.case) as u16);
        let now = Nanos(self.clock.now_ns());
        self.switch
            .ingress(now, input, Packet::from(mbuf), &mut self.sink);
        Ok(())
    }

    /// What leaves the switch by now, over all ports.
    fn leaving(&mut self) -> impl Iterator<Item = Packet> {
        let now = Nanos(self.clock.now_ns());
        let ports = self.switch.ports_len() as u16;
        (0..ports).filter_map(move |port| self.switch.egress(now, PortId(port)))
    }

    /// Gives a burst to the switch as received now, restamped.
    #[inline]
    pub fn ingress(&mut self, now: Nanos, burst: &mut Burst) {
        self.received += burst.len() as u64;
        let input = PortId(case::input(self.setting.case) as u16);
        self.stamp.apply(burst);
        let packets = burst.drain().map(Packet::from);
        self.switch
            .ingress_burst(now, input, packets, &mut self.sink);
    }

    /// Takes up to a burst that leaves by `port` now.
    #[inline]
    pub fn egress(&mut self, now: Nanos, port: usize, burst: &mut Burst) {
        let (port, room) = (PortId(port as u16), burst.room());
        self.switch.egress_burst(now, port, room, |packet| {
            let refused = burst.push(packet.into_mbuf());
            debug_assert!(refused.is_ok(), "there was room");
        });
    }

    /// Gives time to the switch, if it is due.
    #[inline]
    pub fn tick(&mut self, now: Nanos) {
        if now >= self.next_tick {
            self.switch.tick(now, &mut self.sink);
            self.next_tick = now.plus(TICK_NS);
        }
    }

    /// The poll loop of a switch for so many cycles: pull, push, tick.
    pub fn run_switch(&mut self, cycles: u64) -> Sample {
        let mut burst = Burst::new();
        let before = self.received;
        let ports = self.switch.ports_len();
        let begun = self.clock.tsc();
        let mut ended = begun;
        let allocations = allocation_counter::measure(|| {
            while ended.wrapping_sub(begun) < cycles {
                let now = Nanos(self.clock.at_ns(ended));
                self.rx.receive_at_most(&mut burst, self.setting.burst);
                self.ingress(now, &mut burst);
                for port in 0..ports {
                    self.egress(now, port, &mut burst);
                    if !burst.is_empty() {
                        self.tx[port].send(&mut burst);
                        burst.clear();
                    }
                }
                self.tick(now);
                ended = self.clock.tsc();
            }
        });
        Sample {
            packets: self.received - before,
            cycles: ended - begun,
            allocations: allocations.count_total,
        }
    }

    /// The loop in C for so many cycles.
    pub fn run_c(&mut self, cycles: u64) -> Sample {
        let tx = &mut self.tx[case::outputs(self.setting.case)];
        let begun = self.clock.tsc();
        let mut sample = Sample::default();
        while sample.cycles < cycles {
            let burst = self.setting.burst;
            sample.packets += c_loop(&mut self.rx, tx, burst, C_ROUNDS, &mut self.c_stamp);
            sample.cycles = self.clock.tsc().wrapping_sub(begun);
        }
        sample
    }

    /// What the switch's counters say against what went in; empty when all is right.
    pub fn problems(&mut self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut expect = |what: &str, is: u64, should: u64| {
            if is != should {
                problems.push(format!("{what}: {is} instead of {should} packets"));
            }
        };
        let counters = self.switch.counters();
        let tx: Vec<u64> = (0..self.switch.ports_len())
            .map(|port| {
                let sent = self.switch.port_counters(PortId(port as u16)).tx_packets;
                sent - self.primed[port]
            })
            .collect();
        let outputs = &tx[case::outputs(self.setting.case)];
        expect("dropped", counters.dropped_total(), 0);
        expect("left", outputs.iter().sum(), self.received);
        match self.setting.case {
            BenchCase::LeafSource => expect("marked", counters.noted(Note::Marked), self.received),
            BenchCase::LeafDestination => {
                expect("counted", counters.noted(Note::Counted), self.received);
            }
            BenchCase::Spine | BenchCase::PlainIp => {}
        }
        if self.setting.case == BenchCase::LeafSource {
            let fair = self.received / outputs.len() as u64;
            let off = outputs.iter().map(|sent| sent.abs_diff(fair)).max();
            if off.unwrap_or(0) > fair / 100 + 64 {
                problems.push(format!("uneven shares of the uplinks: {outputs:?}"));
            }
        }
        if self.setting.case == BenchCase::Spine {
            match self.told_by_spine() {
                // The record's counts are 32 bits and wrap.
                Some(hop) if hop.received == self.received as u32 => {}
                told => problems.push(format!(
                    "counted: {told:?} instead of {} packets",
                    self.received
                )),
            }
        }
        if !self.switch.is_conserved() {
            problems.push("packets are unaccounted for".into());
        }
        problems
    }

    /// What a close takes along from the spine.
    fn told_by_spine(&mut self) -> Option<Hop> {
        self.take_message(&case::close(self.setting.case)?).ok()?;
        let packet = self.leaving().next()?;
        let frame = packet.header();
        let port = packet::message::DEFAULT_PORT;
        let parsed = packet::parse(frame, frame.len(), port).ok()?;
        let payload = usize::from(parsed.payload)..usize::from(parsed.end);
        Message::read(&frame[payload])?.hop()
    }
}
