//! `bench`: the data plane on `net_null` ports, beside a plain loop in C on the same ports.
//!
//! Every sample of the switch has one of the loop in C right behind it, in the same process, and
//! figures are medians of ratios of such neighbours: what else runs on the machine meets both.

pub mod case;
pub mod lane;
pub mod latency;
pub mod pair;
pub mod place;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use agent::result::{BenchResult, BenchRow, DaemonLine};
use config::bench::SAMPLES;
use config::request::BenchRequest;
use dpdk::{Clock, Eal, FreeHugepages};

use self::lane::{Lane, Sample, Setting};
use self::pair::Pair;
use self::place::Others;
use crate::failure::Failure;
use crate::machine::{self, Cpus};

/// Which loop a sample is taken of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Loop {
    Switch,
    /// The switch, its packets not being measured.
    Unmeasured,
    C,
}

/// Measures what is asked for.
///
/// # Errors
/// What keeps it from starting.
pub fn run(
    request: &BenchRequest,
    cpus: &Cpus,
    stop: &Arc<AtomicBool>,
    tell: &mut impl FnMut(&DaemonLine),
) -> Result<(), Failure> {
    let is_preferred = place::prefer_this_process();
    if request.lcores as usize > cpus.len() {
        return Err(Failure::environment(format!(
            "--lcores {}: this process may use {} CPUs, and each lcore needs one for itself",
            request.lcores,
            cpus.len()
        )));
    }
    let frame = request.frames.iter().copied().max().unwrap_or(0);
    // Pools come and go; what one leaves behind is not always where the next one fits.
    let mib = 2 * (request.lcores + u32::from(request.split)) * lane::mib(frame);
    let hugepages = FreeHugepages::read().mib() >= u64::from(mib);
    let mut config = machine::eal_config("spraycheck", cpus, mib, Vec::new(), request.eal.clone());
    config.lcores.truncate(1);
    config
        .lcores
        .extend((0..request.lcores).map(|lane| (1 + lane, cpus.poll_of(lane as usize) as u32)));
    let mut result = BenchResult {
        machine: place::machine(),
        dpdk: dpdk::version(),
        hugepages,
        load_before: place::load(),
        is_preferred,
        seconds: request.seconds,
        samples: SAMPLES,
        ..BenchResult::default()
    };
    let others = Others::new();
    let eal = machine::start(config)?;
    tell(&DaemonLine::Ready { socket: None });
    let settings = settings(request);
    for (done, setting) in settings.iter().enumerate() {
        tell(&DaemonLine::Progress {
            fabric_ms: 0,
            percent: 100.0 * done as f64 / settings.len() as f64,
            text: format!(
                "{}, frames of {} bytes, bursts of {}",
                setting.case.name(),
                setting.frame,
                setting.burst
            ),
        });
        // Each takes as many numbers as it has lcores; a pair of them, one more on either side.
        let number = done as u32 * (request.lcores + 1);
        let row = match request.split {
            true => measure_pair(&eal, *setting, request, number, stop)?,
            false => measure(&eal, *setting, request, number, stop)?,
        };
        match row {
            Some(row) => result.cases.push(row),
            None => {
                result.partial = true;
                break;
            }
        }
    }
    result.others_cpus = others.cpus();
    tell(&DaemonLine::Bench(result));
    Ok(())
}

fn settings(request: &BenchRequest) -> Vec<Setting> {
    let mut settings = Vec::new();
    for &case in &request.cases {
        for &frame in &request.frames {
            for &burst in &request.bursts {
                settings.push(Setting {
                    case,
                    frame,
                    burst,
                    cold: request.cold,
                    flows: request.flows,
                });
            }
        }
    }
    settings
}

/// One row; `None` when it was stopped.
fn measure(
    eal: &Eal,
    setting: Setting,
    request: &BenchRequest,
    number: u32,
    stop: &AtomicBool,
) -> Result<Option<BenchRow>, Failure> {
    let mut lanes = (0..request.lcores)
        .map(|lane| Lane::new(eal, setting, number + lane))
        .collect::<Result<Vec<Lane>, Failure>>()?;
    let all = lanes.len();
    let has_unmeasured = lanes.iter().all(Lane::has_unmeasured);
    let hz = Clock::calibrated().hz() as f64;
    let cycles = (request.seconds * hz) as u64;
    // Caches and predictors learn each loop before it is timed.
    for which in [Loop::Unmeasured, Loop::Switch, Loop::C] {
        sample(eal, &mut lanes, all, which, cycles / 4)?;
    }
    let (mut ours, mut theirs, mut ratios, mut scaling) = (vec![], vec![], vec![], vec![]);
    let (mut unmeasured, mut added) = (vec![], vec![]);
    let (mut packets, mut allocations) = (0, 0);
    for _ in 0..SAMPLES {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let without = match has_unmeasured {
            true => Some(sample(eal, &mut lanes, all, Loop::Unmeasured, cycles)?),
            false => None,
        };
        let switch = sample(eal, &mut lanes, all, Loop::Switch, cycles)?;
        let c_loop = sample(eal, &mut lanes, all, Loop::C, cycles)?;
        let (rate, c_rate) = (rate(&switch, hz), rate(&c_loop, hz));
        packets += switch.iter().map(|sample| sample.packets).sum::<u64>();
        allocations += switch.iter().map(|sample| sample.allocations).sum::<u64>();
        if let Some(without) = without {
            let without = self::rate(&without, hz);
            unmeasured.push(without);
            // Cycles are the inverse of rates.
            added.push(100.0 * (without / rate - 1.0));
        }
        if all > 1 {
            let one = sample(eal, &mut lanes, 1, Loop::Switch, cycles)?;
            let c_one = sample(eal, &mut lanes, 1, Loop::C, cycles)?;
            let (one, c_one) = (self::rate(&one, hz), self::rate(&c_one, hz));
            scaling.push((rate / one) / (c_rate / c_one));
        }
        ours.push(rate);
        theirs.push(c_rate);
        ratios.push(rate / c_rate);
    }
    let lane = lanes.remove(0);
    let duration_ns = (request.seconds * 1e9) as u64;
    let (lane, times) = match all {
        1 => latency::on_one(eal, lane, number, duration_ns)?,
        _ => latency::on_two(eal, lane, number, duration_ns)?,
    };
    lanes.insert(0, lane);
    let rate = median(&mut ours);
    let ratio = median(&mut ratios);
    let measuring = has_unmeasured.then(|| median(&mut added));
    Ok(Some(BenchRow {
        mpps: rate / 1e6,
        cycles_per_packet: hz * all as f64 / rate,
        c_loop_mpps: median(&mut theirs) / 1e6,
        ratio_to_c_loop: ratio,
        ratio_range: [ratios[0], ratios[ratios.len() - 1]],
        unmeasured_cycles_per_packet: has_unmeasured
            .then(|| hz * all as f64 / median(&mut unmeasured)),
        measuring_percent: measuring,
        measuring_percent_range: measuring.map(|_| [added[0], added[added.len() - 1]]),
        p50_ns: times[0],
        p99_ns: times[1],
        allocations_per_packet: allocations as f64 / packets.max(1) as f64,
        scaling_to_c_loop: (all > 1).then(|| median(&mut scaling)),
        problems: lanes.iter_mut().flat_map(Lane::problems).collect(),
        ..row(setting, request)
    }))
}

/// The row of a setting, without figures.
fn row(setting: Setting, request: &BenchRequest) -> BenchRow {
    BenchRow {
        case: setting.case.name().into(),
        vdev: "net_null".into(),
        frame: setting.frame,
        burst: setting.burst,
        lcores: request.lcores,
        split: request.split,
        flows: case::flows(setting.case, setting.flows),
        cold: setting.cold,
        ..BenchRow::default()
    }
}

/// One row of the split form, beside the loop in C on one lcore; `None` when it was stopped.
fn measure_pair(
    eal: &Eal,
    setting: Setting,
    request: &BenchRequest,
    number: u32,
    stop: &AtomicBool,
) -> Result<Option<BenchRow>, Failure> {
    let duration_ns = (request.seconds * 1e9) as u64;
    let times = pair::latency(eal, setting, number + 2, duration_ns)?;
    let mut lanes = vec![Lane::new(eal, setting, number)?];
    let mut pair = Pair::on_devices(eal, setting, number + 1)?;
    let hz = Clock::calibrated().hz() as f64;
    let cycles = (request.seconds * hz) as u64;
    sample(eal, &mut lanes, 1, Loop::C, cycles / 4)?;
    let (mut ours, mut theirs, mut ratios) = (vec![], vec![], vec![]);
    let (mut packets, mut allocations) = (0, 0);
    for number in 0..=SAMPLES {
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let (back, switch) = pair.run(eal, cycles)?;
        pair = back;
        // The first is for caches and predictors.
        if number == 0 {
            continue;
        }
        let c_loop = sample(eal, &mut lanes, 1, Loop::C, cycles)?;
        let (rate, c_rate) = (rate(&[switch], hz), rate(&c_loop, hz));
        packets += switch.packets;
        allocations += switch.allocations;
        ours.push(rate);
        theirs.push(c_rate);
        ratios.push(rate / c_rate);
    }
    let rate = median(&mut ours);
    let ratio = median(&mut ratios);
    Ok(Some(BenchRow {
        mpps: rate / 1e6,
        cycles_per_packet: 2.0 * hz / rate,
        c_loop_mpps: median(&mut theirs) / 1e6,
        ratio_to_c_loop: ratio,
        ratio_range: [ratios[0], ratios[ratios.len() - 1]],
        p50_ns: times[0],
        p99_ns: times[1],
        allocations_per_packet: allocations as f64 / packets.max(1) as f64,
        problems: pair.problems(),
        ..row(setting, request)
    }))
}

/// Runs one of the loops on the first `count` lanes at once.
fn sample(
    eal: &Eal,
    lanes: &mut Vec<Lane>,
    count: usize,
    which: Loop,
    cycles: u64,
) -> Result<Vec<Sample>, Failure> {
    let rest = lanes.split_off(count);
    let waiting = Arc::new(AtomicUsize::new(count));
    let mut running = Vec::new();
    for (index, mut lane) in lanes.drain(..).enumerate() {
        let waiting = Arc::clone(&waiting);
        let job = move || {
            waiting.fetch_sub(1, Ordering::AcqRel);
            while waiting.load(Ordering::Acquire) > 0 {
                std::hint::spin_loop();
            }
            let sample = match which {
                Loop::Switch => lane.run_switch(cycles),
                Loop::Unmeasured => lane.run_unmeasured(cycles),
                Loop::C => lane.run_c(cycles),
            };
            (lane, sample)
        };
        running.push(dpdk::lcore::launch(eal, 1 + index as u32, job)?);
    }
    let mut samples = Vec::new();
    for running in running {
        let (lane, sample) = wait(running);
        lanes.push(lane);
        samples.push(sample);
    }
    lanes.extend(rest);
    Ok(samples)
}

/// Joins without taking the CPU that an lcore may be on.
fn wait<T>(running: dpdk::lcore::Running<T>) -> T {
    while !running.is_finished() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    running.join()
}

/// Packets a second over all lcores.
fn rate(samples: &[Sample], hz: f64) -> f64 {
    let of_one = |sample: &Sample| sample.packets as f64 * hz / sample.cycles.max(1) as f64;
    samples.iter().map(of_one).sum()
}

/// The one in the middle; `values` are sorted by it.
fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}
