//! `spraycheck bench sim`: packet hops a second of the simulator on one core, and whose they are.

use std::process::ExitCode;
use std::time::Instant;

use config::{Bytes, Dcqcn, SimConfig, SimLayer, TestbedLayer, Workload};
use fabric::Engine;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};

use crate::args::BenchArgs;
use crate::failure::{Failure, NO, USAGE};
use crate::{output, pages, table};

/// Leaves, and as many spines.
const SIZES: [u16; 3] = [8, 64, 128];
/// Samples of which medians are told.
const SAMPLES: usize = 5;
/// Hops of a warm-up, in which all that a steady run needs is allocated.
const WARM_HOPS: u64 = 500_000;
/// Hops between two looks at the clock.
const HOPS: u64 = 200_000;

pub(super) fn run(args: &BenchArgs) -> Result<ExitCode, Failure> {
    pages::begin_on_large();
    let mut rows = Vec::new();
    let sizes = if args.quick { &SIZES[..2] } else { &SIZES[..] };
    for &size in sizes {
        rows.push(measure(size, args.sample_s())?);
    }
    let machine = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = machine
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("unknown CPU", |rest| {
        rest.trim_start_matches([' ', '\t', ':'])
    });
    let is_sound = rows.iter().all(|row| row["accounted"] == json!(true));
    if let Some(path) = &args.json {
        output::write_json(path, &json!({"machine": model, "cases": rows}))?;
    }
    if !output::is_stdout(args.json.as_deref()) {
        let head = format!(
            "{model}; one core, medians of {SAMPLES} samples of {} s\n\n",
            args.sample_s()
        );
        output::print(&(head + &table::render(&rows)))?;
    }
    Ok(ExitCode::from(if is_sound { 0 } else { NO }))
}

/// One host a leaf, 2 QPs, 4 KiB, JSQ(2), DCQCN, selective repeat, an acknowledgement for 16
/// packets, and the measured flow in its own priority: all defaults but the size and DCQCN.
fn config(size: u16) -> Result<SimConfig, Failure> {
    let layer = SimLayer {
        fabric: TestbedLayer {
            leaves: Some(size),
            spines: Some(size),
            workload: Some(Workload::RingAllreduce),
            // 32 MiB a step: with 64 leaves the paper's 2 GiB.
            bytes: Some(Bytes::new(u64::from(size) << 25)),
            iterations: Some(1_000_000),
            ecn: Some(true),
            dcqcn: Some(Dcqcn::Paper),
            ..TestbedLayer::default()
        },
        ..SimLayer::default()
    };
    Ok(SimConfig::resolve(None, layer)?)
}

fn measure(size: u16, sample_s: f64) -> Result<Map<String, Value>, Failure> {
    let wrong = |error: fabric::SimError| Failure::new(USAGE, error.to_string());
    let mut engine = Engine::new(&config(size)?).map_err(wrong)?;
    engine.run_hops(WARM_HOPS);
    let (mut of_wall, mut of_cpu) = (Vec::new(), Vec::new());
    for _ in 0..SAMPLES {
        let (wall, cpu, before) = (Instant::now(), cpu_s(), engine.hops());
        while wall.elapsed().as_secs_f64() < sample_s {
            engine.run_hops(HOPS);
        }
        let hops = (engine.hops() - before) as f64;
        of_wall.push(hops / wall.elapsed().as_secs_f64());
        of_cpu.push(hops / (cpu_s() - cpu));
    }
    let shares = engine.run_timed(WARM_HOPS * 4);
    let account = engine.account();
    let accounted = account.links_conserved
        && account.leaked == 0
        && account.host_errors == 0
        && account.switches.iter().all(|(_, _, holds)| *holds);
    let mut row = Map::new();
    let mut put = |key: &str, value: Value| row.insert(key.to_owned(), value);
    put("case", json!(format!("sim-{size}x{size}")));
    put("packet_hops_per_s", json!(median(&mut of_wall).round()));
    // On a machine with other work the first is what was left of the core.
    put("packet_hops_per_cpu_s", json!(median(&mut of_cpu).round()));
    let share = |share: f64| json!((1000.0 * share).round() / 1000.0);
    put("engine_share", share(shares.engine));
    put("pipeline_share", share(shares.pipeline));
    put("endpoint_share", share(shares.endpoint));
    put("rss_mib", json!(peak_rss_mib()));
    put("accounted", json!(accounted));
    Ok(row)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// Seconds that this thread has had a CPU.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The most memory that the process has had so far, in MiB; 0 where the kernel does not say.
fn peak_rss_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
