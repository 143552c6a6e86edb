//! Time through a switch, over rings, from when a packet was due until it is out.
//!
//! On one lcore generator, switch and sink take turns in one thread: the path's own cost, without
//! transfers between cores. On two, one lcore generates and takes in, the other has the switch: two
//! transfers between cores are in it.
//!
//! Packets are due at a fixed rate, whether or not the thread was there: one that had to wait
//! counts its wait, so a stall of the machine shows in the tail as it would in a network.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dpdk::bench::Stamp;
use dpdk::{Burst, Clock, Eal, Mempool, RingReceiver, RingSender};
use hdrhistogram::Histogram;
use pipeline::Nanos;

use super::lane::Lane;
use crate::failure::Failure;

/// Offered load, in nanoseconds for each packet: a million a second.
const INTERVAL_NS: u64 = 1_000;
/// Packets in a ring at most.
pub const RING_PACKETS: u32 = 1024;
/// Time in which nothing is recorded yet.
const WARM_UP_NS: u64 = 20_000_000;
/// The longest time that is told apart.
const LONGEST_NS: u64 = 1_000_000_000;
/// Where a packet's number stands: in its payload, behind all that a switch reads or writes.
const NUMBER_AT: usize = 54;

/// Puts packets in when they are due.
pub struct Generator {
    to: RingSender,
    pool: Mempool,
    /// Puts frames right here, where the switch's side does not.
    stamp: Option<Stamp>,
    frame: usize,
    most: usize,
    begun_ns: u64,
    number: u32,
    burst: Burst,
}

impl Generator {
    /// For frames of `frame` bytes, at most `most` at once; time begins now.
    pub fn new(
        to: RingSender,
        pool: &Mempool,
        stamp: Option<Stamp>,
        (frame, most): (u32, u16),
    ) -> Generator {
        Generator {
            to,
            pool: pool.clone(),
            stamp,
            frame: frame as usize,
            most: usize::from(most),
            begun_ns: Clock::calibrated().now_ns(),
            number: 0,
            burst: Burst::new(),
        }
    }

    /// When its first packet is due.
    pub fn begun_ns(&self) -> u64 {
        self.begun_ns
    }

    /// Puts in what is due by now, up to a burst and as far as the ring has room.
    pub fn put(&mut self, now_ns: u64) {
        let room = (self.to.capacity() - self.to.len()).min(self.most);
        while due_ns(self.begun_ns, self.number) <= now_ns
            && self.burst.len() < room
            && let Some(mut mbuf) = self.pool.alloc()
        {
            if mbuf.set_len(self.frame).is_err() {
                break;
            }
            let number = self.number.to_ne_bytes();
            mbuf.data_mut()[NUMBER_AT..NUMBER_AT + number.len()].copy_from_slice(&number);
            if self.burst.push(mbuf).is_err() {
                break;
            }
            self.number = self.number.wrapping_add(1);
        }
        if self.burst.is_empty() {
            return;
        }
        if let Some(stamp) = &mut self.stamp {
            stamp.apply(&mut self.burst);
        }
        self.to.send_burst(&mut self.burst);
        debug_assert!(self.burst.is_empty(), "the ring had room");
    }
}

/// When a packet is due.
fn due_ns(begun_ns: u64, number: u32) -> u64 {
    begun_ns + u64::from(number) * INTERVAL_NS
}

/// Takes packets in and notes how long each took.
pub struct Collector {
    from: Vec<RingReceiver>,
    begun_ns: u64,
    warm_ns: u64,
    times: Histogram<u64>,
    burst: Burst,
}

impl Collector {
    /// Of packets that were due from `begun_ns` on, over `duration_ns`.
    ///
    /// # Errors
    /// When the histogram's bounds were not valid, which they are.
    pub fn new(
        from: Vec<RingReceiver>,
        begun_ns: u64,
        duration_ns: u64,
    ) -> Result<Collector, Failure> {
        Ok(Collector {
            from,
            begun_ns,
            warm_ns: WARM_UP_NS.min(duration_ns / 2),
            times: Histogram::new_with_bounds(1, LONGEST_NS, 3).map_err(Failure::usage)?,
            burst: Burst::new(),
        })
    }

    /// Takes in what has come.
    pub fn take(&mut self, clock: &Clock) {
        for from in &mut self.from {
            if from.receive_burst(&mut self.burst) == 0 {
                continue;
            }
            let arrived_ns = clock.now_ns();
            for mbuf in self.burst.iter() {
                let Some(number) = mbuf.data().get(NUMBER_AT..).and_then(<[u8]>::first_chunk)
                else {
                    continue;
                };
                let due_ns = due_ns(self.begun_ns, u32::from_ne_bytes(*number));
                if due_ns > self.begun_ns + self.warm_ns {
                    let time = arrived_ns.saturating_sub(due_ns).max(1);
                    self.times.saturating_record(time);
                }
            }
            self.burst.clear();
        }
    }

    /// Median and 99th percentile.
    pub fn times_ns(&self) -> [u64; 2] {
        [0.5, 0.99].map(|quantile| self.times.value_at_quantile(quantile))
    }
}

/// The rings around a switch: to it and from it.
struct Rings {
    to_switch: RingReceiver,
    from_switch: RingSender,
}

impl Rings {
    /// One round of the switch of `lane`.
    fn round(&mut self, lane: &mut Lane, now: Nanos, burst: &mut Burst) {
        self.to_switch.receive_burst(burst);
        lane.ingress(now, burst);
        for port in 0..lane.subject.switch.ports_len() {
            lane.egress(now, port, burst);
            if !burst.is_empty() {
                self.from_switch.send_burst(burst);
                burst.clear();
            }
        }
        lane.tick(now);
    }
}

/// Both sides of the rings around the switch of `lane`; `number` tells them from others of the
/// process.
fn around(
    eal: &Eal,
    lane: &Lane,
    number: u32,
    duration_ns: u64,
) -> Result<(Generator, Rings, Collector), Failure> {
    let ring = |name: &str| dpdk::ring(eal, &format!("{name}{number}"), RING_PACKETS, None);
    let (to, to_switch) = ring("in")?;
    let (from_switch, from) = ring("out")?;
    let setting = lane.setting;
    let generator = Generator::new(to, &lane.pool, None, (setting.frame, setting.burst));
    let collector = Collector::new(vec![from], generator.begun_ns(), duration_ns)?;
    let rings = Rings {
        to_switch,
        from_switch,
    };
    Ok((generator, rings, collector))
}

/// Median and 99th percentile of the time through the switch of a lane, all on lcore 1.
///
/// # Errors
/// When DPDK lacks what it takes.
pub fn on_one(
    eal: &Eal,
    mut lane: Lane,
    number: u32,
    duration_ns: u64,
) -> Result<(Lane, [u64; 2]), Failure> {
    let (mut generator, mut rings, mut collector) = around(eal, &lane, number, duration_ns)?;
    let running = dpdk::lcore::launch(eal, 1, move || {
        let clock = Clock::calibrated();
        let mut burst = Burst::new();
        loop {
            let now_ns = clock.now_ns();
            if now_ns > generator.begun_ns() + duration_ns {
                return (lane, collector.times_ns());
            }
            generator.put(now_ns);
            rings.round(&mut lane, Nanos(now_ns), &mut burst);
            collector.take(&clock);
        }
    })?;
    Ok(super::wait(running))
}

/// The same with both ends on lcore 1 and the switch on lcore 2.
///
/// # Errors
/// When DPDK lacks what it takes.
pub fn on_two(
    eal: &Eal,
    mut lane: Lane,
    number: u32,
    duration_ns: u64,
) -> Result<(Lane, [u64; 2]), Failure> {
    let (mut generator, mut rings, mut collector) = around(eal, &lane, number, duration_ns)?;
    let is_over = Arc::new(AtomicBool::new(false));
    let is_over_here = Arc::clone(&is_over);
    let switch = dpdk::lcore::launch(eal, 2, move || {
        let clock = Clock::calibrated();
        let mut burst = Burst::new();
        while !is_over_here.load(Ordering::Relaxed) {
            rings.round(&mut lane, Nanos(clock.now_ns()), &mut burst);
        }
        lane
    })?;
    let ends = dpdk::lcore::launch(eal, 1, move || {
        let clock = Clock::calibrated();
        loop {
            let now_ns = clock.now_ns();
            if now_ns > generator.begun_ns() + duration_ns {
                return collector.times_ns();
            }
            generator.put(now_ns);
            collector.take(&clock);
        }
    });
    // The switch stops in either case, or nothing could end it.
    let times = ends.map(super::wait);
    is_over.store(true, Ordering::Relaxed);
    Ok((super::wait(switch), times?))
}
