//! Time through a switch, over rings: generator, switch and sink take turns in one thread, so
//! it is the path's own cost, without transfers between cores.
//!
//! Packets are due at a fixed rate, whether or not the thread was there: one that had to wait
//! counts its wait, so a stall of the machine shows in the tail as it would in a network.

use dpdk::{Burst, Clock, Eal, RingReceiver, RingSender};
use hdrhistogram::Histogram;
use pipeline::Nanos;

use super::lane::Lane;
use crate::failure::Failure;

/// Offered load, in nanoseconds for each packet: a million a second.
const INTERVAL_NS: u64 = 1_000;
/// Packets in a ring at most.
const RING_PACKETS: u32 = 1024;
/// Times of departure that are remembered, by the low bits of the PSN.
const STAMPS: usize = 1 << 16;
/// Time in which nothing is recorded yet.
const WARM_UP_NS: u64 = 20_000_000;
/// The longest time that is told apart.
const LONGEST_NS: u64 = 1_000_000_000;
/// Where the PSN stands in a frame of the benchmark.
const PSN_AT: usize = 51;

/// The rings around a switch.
pub struct Rings {
    to_switch: (RingSender, RingReceiver),
    from_switch: (RingSender, RingReceiver),
}

impl Rings {
    /// Two rings; `number` tells them from others of the process.
    ///
    /// # Errors
    /// When DPDK has no memory for them.
    pub fn new(eal: &Eal, number: u32) -> Result<Rings, Failure> {
        let ring = |name: &str| dpdk::ring(eal, &format!("{name}{number}"), RING_PACKETS, None);
        Ok(Rings {
            to_switch: ring("in")?,
            from_switch: ring("out")?,
        })
    }

    /// Sends packets through the switch of `lane` for `duration_ns` and tells how long each took.
    ///
    /// # Errors
    /// When the histogram's bounds were not valid, which they are.
    pub fn measure(
        &mut self,
        lane: &mut Lane,
        duration_ns: u64,
    ) -> Result<Histogram<u64>, Failure> {
        let mut times = Histogram::new_with_bounds(1, LONGEST_NS, 3).map_err(Failure::usage)?;
        let mut due_at = vec![0u64; STAMPS];
        let clock = Clock::calibrated();
        let begun = clock.now_ns();
        let mut next_ns = begun;
        let mut burst = Burst::new();
        let ports = lane.switch.ports_len();
        loop {
            let now_ns = clock.now_ns();
            if now_ns > begun + duration_ns {
                break;
            }
            self.generate(lane, now_ns, &mut next_ns, &mut due_at, &mut burst);
            let now = Nanos(now_ns);
            self.to_switch.1.receive_burst(&mut burst);
            lane.ingress(now, &mut burst);
            for port in 0..ports {
                lane.egress(now, port, &mut burst);
                if !burst.is_empty() {
                    self.from_switch.0.send_burst(&mut burst);
                    burst.clear();
                }
            }
            lane.tick(now);
            self.from_switch.1.receive_burst(&mut burst);
            let arrived_ns = clock.now_ns();
            for mbuf in burst.iter() {
                let due_ns = due_at[place_of(mbuf.data())];
                if due_ns > begun + WARM_UP_NS.min(duration_ns / 2) {
                    times.saturating_record((arrived_ns - due_ns).max(1));
                }
            }
            burst.clear();
        }
        Ok(times)
    }

    /// Puts in what is due by now, up to a burst.
    fn generate(
        &mut self,
        lane: &mut Lane,
        now_ns: u64,
        next_ns: &mut u64,
        due_at: &mut [u64],
        burst: &mut Burst,
    ) {
        // The switch stamps PSNs in the order in which packets come to it.
        let mut psn = lane.stamp.next_psn();
        while *next_ns <= now_ns
            && burst.len() < usize::from(lane.setting.burst)
            && let Some(mut mbuf) = lane.pool.alloc()
        {
            if mbuf.set_len(lane.setting.frame as usize).is_err() || burst.push(mbuf).is_err() {
                break;
            }
            due_at[psn as usize & (STAMPS - 1)] = *next_ns;
            psn = psn.wrapping_add(1);
            *next_ns += INTERVAL_NS;
        }
        self.to_switch.0.send_burst(burst);
        burst.clear();
    }
}

/// Where the time of a frame is remembered.
fn place_of(frame: &[u8]) -> usize {
    usize::from(u16::from_be_bytes([frame[PSN_AT + 1], frame[PSN_AT + 2]]))
}
