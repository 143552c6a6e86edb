//! The split form: a source leaf on two lcores, of which one receives and decides and the other owns
//! the uplinks. The workers are those of `spraycheck switch`.
//!
//! Nothing holds the receiving lcore back but its own speed, and more than the owner sends would be
//! refused as `hand-off-full`: here it receives only while the owner keeps up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use agent::control::Shared;
use dpdk::{Clock, Eal, Mbuf, Mempool, RingReceiver, RingSender, StartedPort};
use pipeline::split::{self, Whole};
use pipeline::{DropReason, Nanos, Note, PortId, Switch};

use super::case::{self, PORTS};
use super::lane::{Devices, Sample, Setting, frames, stamp};
use super::latency::{Collector, Generator, RING_PACKETS};
use crate::build;
use crate::end::{Returning, Rx, Tx};
use crate::failure::Failure;
use crate::hub::Hub;
use crate::links_up::LinkWord;
use crate::shares::Shares;
use crate::trunk::{Dealer, Inlet, Lane, Outlet, TrunkCounters};
use crate::worker::{Setup, Worker};

const LCORES: usize = 2;
/// How often time alone is given to the instances.
const TICK_NS: u64 = 50_000;
/// Packets that wait for the ring to the owner at which no more are received.
const STAGED: u64 = 64;
/// Rounds after which what was put in has come out.
const ROUNDS: usize = 64;
/// Bytes that a frame takes on its wire beside its own: preamble, FCS, gap.
const OVERHEAD_BYTES: u32 = 24;

/// A source leaf on two lcores.
pub struct Pair {
    workers: Vec<Worker>,
    /// Whether packets are received.
    is_open: Arc<AtomicBool>,
    /// Puts messages in.
    to_host_port: RingSender,
    pool: Mempool,
    setting: Setting,
    clock: Clock,
    trunks: Arc<Vec<TrunkCounters>>,
    _ports: Vec<StartedPort>,
}

/// Where the data of a pair comes from and goes to.
struct Ends {
    data: Rx,
    uplinks: Vec<Tx>,
}

impl Pair {
    /// On `net_null` ports; `number` tells devices and pools of one process apart.
    ///
    /// # Errors
    /// What DPDK lacks.
    pub fn on_devices(eal: &Eal, setting: Setting, number: u32) -> Result<Pair, Failure> {
        let pool = frames(eal, setting, number)?;
        let Devices { rx, tx, ports } = Devices::start(eal, setting, &pool, number)?;
        let is_open = Arc::new(AtomicBool::new(false));
        let data = Rx::Returning(Box::new(Returning {
            queue: rx,
            stamp: stamp(setting, true)?,
            most: setting.burst,
            is_open: Arc::clone(&is_open),
        }));
        let uplinks = tx.into_iter().skip(1).map(Tx::Device).collect();
        let ends = Ends { data, uplinks };
        Pair::new(eal, setting, number, (pool, ports), is_open, ends)
    }

    /// Between rings, with what puts packets in and takes them out.
    fn on_rings(
        eal: &Eal,
        setting: Setting,
        number: u32,
        duration_ns: u64,
    ) -> Result<(Pair, Generator, Collector), Failure> {
        let pool = frames(eal, setting, number)?;
        let ring = |name: String| dpdk::ring(eal, &name, RING_PACKETS, None);
        let (to, data) = ring(format!("pair-in{number}"))?;
        let (mut uplinks, mut from): (Vec<Tx>, Vec<RingReceiver>) = (Vec::new(), Vec::new());
        for port in 1..PORTS {
            let (sender, receiver) = ring(format!("pair-out{number}-{port}"))?;
            uplinks.push(Tx::Ring(sender));
            from.push(receiver);
        }
        let ends = Ends {
            data: Rx::Ring(data),
            uplinks,
        };
        let stamp = stamp(setting, true)?;
        let most = (setting.frame, setting.burst);
        let is_open = Arc::new(AtomicBool::new(false));
        let memory = (pool.clone(), Vec::new());
        let pair = Pair::new(eal, setting, number, memory, is_open, ends)?;
        // Last, for time begins with it.
        let generator = Generator::new(to, &pool, Some(stamp), most);
        let collector = Collector::new(from, generator.begun_ns(), duration_ns)?;
        Ok((pair, generator, collector))
    }

    fn new(
        eal: &Eal,
        setting: Setting,
        number: u32,
        (pool, ports): (Mempool, Vec<StartedPort>),
        is_open: Arc<AtomicBool>,
        ends: Ends,
    ) -> Result<Pair, Failure> {
        let config = case::switch(
            setting.case,
            setting.frame,
            setting.flows,
            u64::from(number),
        )
        .map_err(Failure::usage)?;
        let lane = |port: usize| Lane {
            switch: 0,
            port: PortId(port as u16),
            vlan: None,
        };
        let inlet = |rx| Inlet {
            rx,
            dealer: Dealer::new(&[lane(0)]),
            device: 0,
            // All of it belongs to the lcore that has it.
            is_spread: true,
        };
        let host_port = format!("pair-host{number}");
        let (to_host_port, messages) = dpdk::ring(eal, &host_port, RING_PACKETS, None)?;
        let inlets = [Rx::Ring(messages), ends.data].map(inlet);
        let mut inlets: Vec<Vec<Inlet>> = vec![inlets.into(), Vec::new()];
        let outlet = |(index, tx): (usize, Tx)| {
            let shares = Shares::new(1, None, 0, OVERHEAD_BYTES);
            Outlet::new(tx, &[lane(index + 1)], shares, index + 1)
        };
        let uplinks = ends.uplinks.into_iter().enumerate().map(outlet);
        let mut outlets: Vec<Vec<Outlet>> = vec![Vec::new(), uplinks.collect()];
        let shared = Shared::on(LCORES, [PORTS]);
        let hub = Arc::new(Hub::new([PORTS].into_iter(), LCORES));
        let trunks: Arc<Vec<TrunkCounters>> =
            Arc::new((0..PORTS).map(|_| TrunkCounters::default()).collect());
        let links = Arc::new(LinkWord::new(PORTS));
        let rings = build::rings(eal, &format!("pair{number}"), LCORES)?;
        let worker = |(lcore, rings)| {
            let config = build::config_of(&config, lcore, LCORES);
            Worker::new(Setup {
                lcore: (lcore, LCORES),
                switches: vec![Switch::new(&config)],
                // The host's port stays with its lcore.
                owners: vec![
                    (0..PORTS)
                        .map(|port| (usize::from(port > 0), port))
                        .collect(),
                ],
                inlets: std::mem::take(&mut inlets[lcore]),
                outlets: std::mem::take(&mut outlets[lcore]),
                trunks: Arc::clone(&trunks),
                rings,
                pool: pool.clone(),
                seam: Arc::clone(&shared.seam),
                hub: Arc::clone(&hub),
                changes: Arc::default(),
                links: Arc::clone(&links),
            })
        };
        let mut pair = Pair {
            workers: rings.into_iter().enumerate().map(worker).collect(),
            is_open,
            to_host_port,
            pool,
            setting,
            clock: Clock::calibrated(),
            trunks,
            _ports: ports,
        };
        pair.prime()?;
        Ok(pair)
    }

    /// Begins the measurement.
    fn prime(&mut self) -> Result<(), Failure> {
        if let Some(open) = case::open(self.setting.case, 0) {
            let lacks = || Failure::environment("no packet buffer for a message");
            let mut mbuf: Mbuf = self.pool.alloc().ok_or_else(lacks)?;
            mbuf.write(&open).map_err(Failure::environment)?;
            let refused = self.to_host_port.send(mbuf);
            debug_assert!(refused.is_ok(), "the ring is empty");
        }
        for _ in 0..ROUNDS {
            let now = Nanos(self.clock.now_ns());
            for worker in &mut self.workers {
                worker.round(now);
                worker.tick(now);
            }
        }
        Ok(())
    }

    /// Runs both lcores for so many cycles; counts what has left.
    ///
    /// # Errors
    /// When an lcore is busy.
    pub fn run(mut self, eal: &Eal, cycles: u64) -> Result<(Pair, Sample), Failure> {
        let waiting = Arc::new(AtomicUsize::new(LCORES));
        let mut running = Vec::new();
        for (lcore, mut worker) in self.workers.drain(..).enumerate() {
            let (waiting, is_open) = (Arc::clone(&waiting), Arc::clone(&self.is_open));
            let clock = self.clock;
            let job = move || {
                waiting.fetch_sub(1, Ordering::AcqRel);
                while waiting.load(Ordering::Acquire) > 0 {
                    std::hint::spin_loop();
                }
                let mut sample = Sample::default();
                let (begun, sent) = (clock.tsc(), tx_of(&worker));
                let mut next_tick = 0;
                let allocations = allocation_counter::measure(|| {
                    while sample.cycles < cycles {
                        if lcore == 0 {
                            let staged = worker.parts()[0].switch.counters().queued;
                            is_open.store(staged < STAGED, Ordering::Relaxed);
                        }
                        round(&mut worker, clock.now_ns(), &mut next_tick);
                        sample.cycles = clock.tsc().wrapping_sub(begun);
                    }
                });
                sample.packets = tx_of(&worker) - sent;
                sample.allocations = allocations.count_total;
                (worker, sample)
            };
            running.push(dpdk::lcore::launch(eal, 1 + lcore as u32, job)?);
        }
        let mut whole = Sample::default();
        for running in running {
            let (worker, sample) = super::wait(running);
            self.workers.push(worker);
            whole.packets += sample.packets;
            whole.cycles = whole.cycles.max(sample.cycles);
            whole.allocations += sample.allocations;
        }
        self.is_open.store(false, Ordering::Relaxed);
        Ok((self, whole))
    }

    /// What is wrong with its counters; empty when all is right. Ends it.
    pub fn problems(mut self) -> Vec<String> {
        // What is on its way between the lcores leaves, and nothing more comes.
        for _ in 0..ROUNDS * ROUNDS {
            let now = Nanos(self.clock.now_ns());
            self.workers.iter_mut().for_each(|worker| {
                worker.round(now);
            });
        }
        let whole = self.whole();
        let received = self.trunks[0].rx.load(Ordering::Relaxed);
        let opened = u64::from(case::open(self.setting.case, 0).is_some());
        let data = received - opened;
        let flows = u64::from(self.setting.flows);
        let counters = &whole.counters;
        let mut problems = Vec::new();
        for (what, is, should) in [
            ("received", counters.rx, received),
            ("marked", counters.noted(Note::Marked), data.div_ceil(flows)),
            (
                "refused between lcores",
                counters.dropped(DropReason::HandOffFull),
                0,
            ),
            ("dropped", counters.dropped_total(), 0),
            ("still queued", counters.queued, 0),
        ] {
            if is != should {
                problems.push(format!("{what}: {is} instead of {should} packets"));
            }
        }
        if !whole.is_conserved() {
            problems.push("packets are unaccounted for".into());
        }
        problems
    }

    fn whole(&self) -> Whole {
        split::sum(self.workers.iter().map(|worker| &worker.parts()[0].switch))
    }
}

fn tx_of(worker: &Worker) -> u64 {
    worker.parts()[0].switch.counters().tx
}

/// Median and 99th percentile of the time through such a pair: the generator takes turns with the
/// receiving lcore, the sink with the owner.
///
/// # Errors
/// When DPDK lacks what it takes.
pub fn latency(
    eal: &Eal,
    setting: Setting,
    number: u32,
    duration_ns: u64,
) -> Result<[u64; 2], Failure> {
    let (mut pair, mut generator, mut collector) =
        Pair::on_rings(eal, setting, number, duration_ns)?;
    let (Some(mut owner), Some(mut receiver)) = (pair.workers.pop(), pair.workers.pop()) else {
        return Err(Failure::environment("a pair has two lcores"));
    };
    let until_ns = generator.begun_ns() + duration_ns;
    let receiving = dpdk::lcore::launch(eal, 1, move || {
        let clock = Clock::calibrated();
        let mut next_tick = 0;
        loop {
            let now_ns = clock.now_ns();
            if now_ns > until_ns {
                return receiver;
            }
            generator.put(now_ns);
            round(&mut receiver, now_ns, &mut next_tick);
        }
    })?;
    let owning = dpdk::lcore::launch(eal, 2, move || {
        let clock = Clock::calibrated();
        let mut next_tick = 0;
        loop {
            let now_ns = clock.now_ns();
            if now_ns > until_ns {
                return (owner, collector.times_ns());
            }
            round(&mut owner, now_ns, &mut next_tick);
            collector.take(&clock);
        }
    });
    pair.workers.push(super::wait(receiving));
    let (owner, times) = super::wait(owning?);
    pair.workers.push(owner);
    Ok(times)
}

/// A round of a worker, with what time alone causes when it is due.
fn round(worker: &mut Worker, now_ns: u64, next_tick: &mut u64) {
    worker.round(Nanos(now_ns));
    if now_ns >= *next_tick {
        worker.tick(Nanos(now_ns));
        *next_tick = now_ns + TICK_NS;
    }
}
