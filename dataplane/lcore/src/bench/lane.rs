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
use pipeline::{DropReason, Nanos, Note, PortId, Switch, Token};

use super::case::{self, PORTS};
use crate::failure::Failure;
use crate::gather::Gather;
use crate::packet::{Departing, LcoreSink, Packet};
use crate::taps::Taps;

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
    /// Flows that packets are of in turn.
    pub flows: u32,
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

/// A switch and what it is given.
pub struct Subject {
    /// The switch.
    pub switch: Switch<Packet>,
    /// Puts returned frames right.
    stamp: Stamp,
    /// Whether packets are measured.
    is_measured: bool,
    next_tick: Nanos,
    /// Packets handed to the switch as data.
    received: u64,
    /// What the switch had sent by each port before the first of them.
    primed: [u64; PORTS],
}

/// A switch with its ports and packets.
pub struct Lane {
    /// What it is set up for.
    pub setting: Setting,
    /// The switch that is driven.
    pub subject: Subject,
    /// One that is given the same packets, none of them measured.
    unmeasured: Option<Subject>,
    /// Memory of the frames.
    pub pool: Mempool,
    sink: LcoreSink,
    clock: Clock,
    rx: RxQueue,
    tx: Vec<TxQueue>,
    c_stamp: Stamp,
    _ports: Vec<StartedPort>,
}

impl Subject {
    /// A switch that nothing has come to.
    fn new(setting: Setting, number: u32, is_measured: bool) -> Result<Subject, Failure> {
        let Setting {
            case, frame, flows, ..
        } = setting;
        let config = case::switch(case, frame, flows, u64::from(number)).map_err(Failure::usage)?;
        Ok(Subject {
            switch: Switch::new(&config),
            stamp: stamp(setting, is_measured)?,
            is_measured,
            next_tick: Nanos(0),
            received: 0,
            primed: [0; PORTS],
        })
    }

    fn problems(&self, setting: Setting) -> Vec<String> {
        let Setting { case, flows, .. } = setting;
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
        let outputs = &tx[case::outputs(case)];
        for reason in DropReason::ALL {
            let what = format!("dropped as {}", reason.name());
            expect(&what, counters.dropped(*reason), 0);
        }
        expect("left", outputs.iter().sum(), self.received);
        // Flows take turns, and the first is the one that a source measures.
        let marked = match case {
            BenchCase::LeafSource if self.is_measured => self.received.div_ceil(u64::from(flows)),
            BenchCase::LeafSource | BenchCase::LeafDestination | BenchCase::Spine => 0,
            BenchCase::PlainIp => 0,
        };
        expect("marked", counters.noted(Note::Marked), marked);
        let counted = match case {
            BenchCase::LeafDestination if self.is_measured => self.received,
            BenchCase::LeafSource | BenchCase::LeafDestination | BenchCase::Spine => 0,
            BenchCase::PlainIp => 0,
        };
        expect("counted", counters.noted(Note::Counted), counted);
        if case == BenchCase::LeafSource {
            let fair = self.received / outputs.len() as u64;
            let off = outputs.iter().map(|sent| sent.abs_diff(fair)).max();
            // What is not measured is spread by chance where queues are equal, as they are here.
            let share = if self.is_measured && flows == 1 {
                fair / 100
            } else {
                fair / 10
            };
            if off.unwrap_or(0) > share + 64 {
                problems.push(format!("uneven shares of the uplinks: {outputs:?}"));
            }
        }
        if !self.switch.is_conserved() {
            problems.push("packets are unaccounted for".into());
        }
        problems
    }
}

/// What makes returned frames those of a setting again.
///
/// # Errors
/// When its frames are too short for that.
pub fn stamp(setting: Setting, is_measured: bool) -> Result<Stamp, Failure> {
    let Setting {
        case, frame, flows, ..
    } = setting;
    let of = |flow| case::frame(case, flow, frame as usize, is_measured);
    let stamp = match flows {
        1 => Stamp::of(&of(0)),
        _ => {
            let frames: Vec<Vec<u8>> = (0..flows).map(of).collect();
            Stamp::of_flows(frames.iter().map(Vec::as_slice))
        }
    };
    stamp.ok_or_else(|| Failure::usage(format!("a frame of {frame} bytes is too short")))
}

/// Memory whose buffers hold the frames of a setting; `number` tells pools of one process apart.
///
/// # Errors
/// What DPDK lacks.
pub fn frames(eal: &Eal, setting: Setting, number: u32) -> Result<Mempool, Failure> {
    let Setting {
        case, frame, cold, ..
    } = setting;
    let cache = if cold { 0 } else { POOL_CACHE };
    let name = format!("frames{number}");
    let mut pool = Mempool::create(eal, &name, BUFFERS, cache, room(frame), None)?;
    let flows = case::flows(case, setting.flows);
    let mut buffer = 0;
    pool.for_each_frame(|data| {
        let frame = case::frame(case, buffer % flows, frame as usize, true);
        data[..frame.len()].copy_from_slice(&frame);
        buffer += 1;
    })?;
    Ok(pool)
}

/// The ports of a lane.
pub struct Devices {
    /// The receive queue that frames come from.
    pub rx: RxQueue,
    /// A transmit queue of each port.
    pub tx: Vec<TxQueue>,
    /// The ports themselves.
    pub ports: Vec<StartedPort>,
}

impl Devices {
    /// Starts `net_null` ports whose frames are of `pool`.
    ///
    /// # Errors
    /// What DPDK lacks.
    pub fn start(
        eal: &Eal,
        setting: Setting,
        pool: &Mempool,
        number: u32,
    ) -> Result<Devices, Failure> {
        let (mut rx, mut tx, mut ports) = (None, Vec::new(), Vec::new());
        for port in 0..PORTS {
            let name = format!("net_null{}", number as usize * PORTS + port);
            eal.attach_vdev(&format!("{name},size={}", setting.frame))?;
            let mut started = Port::by_name(eal, &name)?.start(PortConfig::new(pool.clone()))?;
            if port == case::input(setting.case) {
                rx = started.rx.pop();
            }
            tx.extend(started.tx.pop());
            ports.push(started.port);
        }
        let rx = rx.ok_or_else(|| Failure::environment("net_null gave no receive queue"))?;
        Ok(Devices { rx, tx, ports })
    }
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
        let case = setting.case;
        let pool = frames(eal, setting, number)?;
        let Devices { rx, tx, ports } = Devices::start(eal, setting, &pool, number)?;
        let messages = format!("messages{number}");
        let mut lane = Lane {
            setting,
            subject: Subject::new(setting, number, true)?,
            unmeasured: None,
            pool,
            sink: LcoreSink {
                pool: Mempool::create(eal, &messages, MESSAGE_BUFFERS, 0, MESSAGE_ROOM, None)?,
                seam: Arc::new(Seam::default()),
                switch: 0,
                taps: Taps::new(0),
            },
            clock: Clock::calibrated(),
            rx,
            tx,
            c_stamp: stamp(setting, true)?,
            _ports: ports,
        };
        lane.prime()?;
        if case::measured(case, setting.flows) > 0 {
            lane.unmeasured = Some(Subject::new(setting, number, false)?);
        }
        Ok(lane)
    }

    /// Begins the measurement, so that what is measured is marked and counted from now on.
    fn prime(&mut self) -> Result<(), Failure> {
        let Setting { case, flows, .. } = self.setting;
        for flow in 0..case::measured(case, flows) {
            if let Some(open) = case::open(case, flow) {
                self.take_message(&open)?;
                while self.leaving().next().is_some() {}
            }
        }
        let Subject { switch, primed, .. } = &mut self.subject;
        for (port, primed) in primed.iter_mut().take(switch.ports_len()).enumerate() {
            *primed = switch.port_counters(PortId(port as u16)).tx_packets;
        }
        Ok(())
    }

    /// Whether the same packets can be given to a switch that does not measure them.
    pub fn has_unmeasured(&self) -> bool {
        self.unmeasured.is_some()
    }

    /// As [`Lane::run_switch`], the packets not being measured.
    pub fn run_unmeasured(&mut self, cycles: u64) -> Sample {
        let Some(other) = self.unmeasured.take() else {
            return Sample::default();
        };
        let measured = std::mem::replace(&mut self.subject, other);
        let sample = self.run_switch(cycles);
        self.unmeasured = Some(std::mem::replace(&mut self.subject, measured));
        sample
    }

    fn take_message(&mut self, frame: &[u8]) -> Result<(), Failure> {
        let lacks = || Failure::environment("no packet buffer for a message");
        let mut mbuf = self.sink.pool.alloc().ok_or_else(lacks)?;
        mbuf.write(frame).map_err(Failure::environment)?;
        let input = PortId(case::input(self.setting.case) as u16);
        let now = Nanos(self.clock.now_ns());
        let switch = &mut self.subject.switch;
        switch.ingress(now, input, Packet::from(mbuf), &mut self.sink);
        Ok(())
    }

    /// What leaves the switch by now, over all ports.
    fn leaving(&mut self) -> impl Iterator<Item = Packet> {
        let now = Nanos(self.clock.now_ns());
        let switch = &mut self.subject.switch;
        let ports = switch.ports_len() as u16;
        (0..ports).filter_map(move |port| switch.egress(now, PortId(port)))
    }

    /// Gives a burst to the switch as received now, restamped.
    #[inline]
    pub fn ingress(&mut self, now: Nanos, burst: &mut Burst) {
        let subject = &mut self.subject;
        subject.received += burst.len() as u64;
        let input = PortId(case::input(self.setting.case) as u16);
        subject.stamp.apply(burst);
        let packets = burst.drain().map(Packet::from);
        let switch = &mut subject.switch;
        switch.ingress_burst(now, input, packets, &mut self.sink);
    }

    /// Takes up to a burst that leaves by `port` now.
    #[inline]
    pub fn egress(&mut self, now: Nanos, port: usize, burst: &mut Burst) {
        let (port, room) = (PortId(port as u16), burst.room());
        let switch = &mut self.subject.switch;
        switch.egress_burst(now, port, room, &mut Departing(burst));
    }

    /// Gives time to the switch, if it is due.
    #[inline]
    pub fn tick(&mut self, now: Nanos) {
        let subject = &mut self.subject;
        if now >= subject.next_tick {
            subject.switch.tick(now, &mut self.sink);
            subject.next_tick = now.plus(TICK_NS);
        }
    }

    /// The poll loop of a switch for so many cycles: pull, push, tick.
    pub fn run_switch(&mut self, cycles: u64) -> Sample {
        let mut burst = Burst::new();
        let before = self.subject.received;
        let ports = self.subject.switch.ports_len();
        let mut gather = Gather::default();
        let begun = self.clock.tsc();
        let mut ended = begun;
        let allocations = allocation_counter::measure(|| {
            while ended.wrapping_sub(begun) < cycles {
                let now = Nanos(self.clock.at_ns(ended));
                self.rx.receive_at_most(&mut burst, self.setting.burst);
                gather.received(now, burst.len() == usize::from(self.setting.burst));
                self.ingress(now, &mut burst);
                for port in 0..ports {
                    let queued = self.subject.switch.queued(PortId(port as u16));
                    if gather.serves(port, queued) {
                        self.send(now, port, &mut burst);
                    }
                }
                self.tick(now);
                ended = self.clock.tsc();
            }
            // What waits for its turn leaves now.
            let now = Nanos(self.clock.at_ns(ended));
            for port in 0..ports {
                self.send(now, port, &mut burst);
            }
            ended = self.clock.tsc();
        });
        Sample {
            packets: self.subject.received - before,
            cycles: ended - begun,
            allocations: allocations.count_total,
        }
    }

    /// Sends what may leave by `port` now.
    #[inline(always)]
    fn send(&mut self, now: Nanos, port: usize, burst: &mut Burst) {
        loop {
            self.egress(now, port, burst);
            if burst.is_empty() {
                break;
            }
            let is_more = burst.room() == 0;
            self.tx[port].send(burst);
            burst.clear();
            if !is_more {
                break;
            }
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

    /// What the switches' counters say against what went in; empty when all is right.
    pub fn problems(&mut self) -> Vec<String> {
        let mut problems = self.subject.problems(self.setting);
        if self.setting.case == BenchCase::Spine {
            let received = self.subject.received;
            match self.told_by_spine() {
                // The record's counts are 32 bits and wrap.
                Some(hop) if hop.received == received as u32 => {}
                told => problems.push(format!("counted: {told:?} instead of {received} packets")),
            }
        }
        if let Some(unmeasured) = &self.unmeasured {
            problems.extend(unmeasured.problems(self.setting));
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
