//! `spraycheck bench monitor`: a monitor under load, and how long its answers take meanwhile.
//!
//! 64 leaves are played over real sockets ([`monitor::load`]); a history is written; answers are asked for over
//! HTTP all the while. For the figures of one core: `taskset -c 1 spraycheck bench monitor`. With `--nats` a relay
//! hears the leaves, and the monitor a server.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use config::monitor_file::{Login, NatsConfig};
use config::{Bytes, RelayFile};
use detector::{Fabric, Link};
use monitor::load::{Play, faults};
use monitor::nats::relay::Relay;
use monitor::run::{Monitor, MonitorSettings};
use monitor::standing::State;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use crate::args::BenchArgs;
use crate::failure::{ENVIRONMENT, Failure, NO};
use crate::{log, output, table};

/// The fabric and the load that the monitor must bear.
const FABRIC: Fabric = Fabric {
    leaves: 64,
    spines: 64,
};
const PER_SECOND: u64 = 10_000;
/// Length of a run, unless said; of `--quick`.
const SECONDS: u64 = 60;
const QUICK_SECONDS: u64 = 5;
/// Time between two rounds of questions.
const ASK: Duration = Duration::from_millis(200);
/// How long the last verdicts may take to be seen.
const PATIENCE: Duration = Duration::from_secs(60);
/// What is asked for.
const PATHS: [&str; 5] = [
    "/api/summary",
    "/api/links",
    "/api/links/leaf0%3Espine0",
    "/api/events?limit=100",
    "/metrics",
];

pub(super) fn run(args: &BenchArgs) -> Result<ExitCode, Failure> {
    let usual = if args.quick { QUICK_SECONDS } else { SECONDS };
    let seconds = args.seconds.map_or(usual, |seconds| seconds.ceil() as u64);
    let folder = std::env::temp_dir().join(format!("spraycheck-bench-{}", std::process::id()));
    let lacks = |error: &dyn std::fmt::Display| {
        Failure::new(ENVIRONMENT, format!("{}: {error}", folder.display()))
    };
    std::fs::create_dir_all(&folder).map_err(|error| lacks(&error))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| lacks(&error))?;
    let row = runtime.block_on(measure(&folder, seconds, args.nats.as_deref()));
    // What is left of it is in the way of nobody.
    let _ = std::fs::remove_dir_all(&folder);
    let row = row?;
    let is_sound = row["sound"] == json!(true);
    if let Some(path) = &args.json {
        output::write_json(path, &json!({ "cases": [row] }))?;
    }
    if !output::is_stdout(args.json.as_deref()) {
        output::print(&table::render(&[row]))?;
    }
    Ok(ExitCode::from(if is_sound { 0 } else { NO }))
}

async fn measure(
    folder: &Path,
    seconds: u64,
    nats: Option<&str>,
) -> Result<Map<String, Value>, Failure> {
    let lacks = |error: &dyn std::fmt::Display| Failure::new(ENVIRONMENT, error.to_string());
    let play = Play::new(FABRIC, folder).map_err(|error| lacks(&error))?;
    let listen = SocketAddr::from(([127, 0, 0, 1], 0));
    let history = folder.join("history.db");
    let sockets = vec![folder.to_owned()];
    let mut settings = MonitorSettings::new(FABRIC, sockets.clone(), history, listen);
    let relay = nats.map(|server| {
        let nats = NatsConfig {
            servers: vec![server.to_owned()],
            login: Login::None,
            ca_file: None,
            certificate: None,
            size: Bytes::new(1 << 30),
        };
        let name = format!("bench-{}", std::process::id());
        (settings.sockets, settings.nats) = (Vec::new(), Some(nats.clone()));
        settings.engine.name.clone_from(&name);
        relay(RelayFile {
            name,
            sockets,
            nats,
            metrics: None,
        })
    });
    let monitor = Monitor::start(settings)
        .await
        .map_err(|error| lacks(&error))?;
    let (address, begun, cpu) = (monitor.address, Instant::now(), cpu_s());
    let player = std::thread::spawn(move || play.run(PER_SECOND, seconds));
    let asker = std::thread::spawn(move || ask_for(address, Duration::from_secs(seconds)));
    while !player.is_finished() || !asker.is_finished() {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let ended = |_| lacks(&"a thread of the benchmark has panicked");
    let played = player.join().map_err(ended)?.map_err(|e| lacks(&e))?;
    let answers = asker.join().map_err(ended)?;
    let last = Instant::now();
    while monitor.shared.summary().recorded < played.verdicts && last.elapsed() < PATIENCE {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let behind_ms = last.elapsed().as_secs_f64() * 1e3;
    let (wall_s, cpu) = (begun.elapsed().as_secs_f64(), cpu_s() - cpu);
    // Every spine is looked at once more.
    tokio::time::sleep(Duration::from_secs(5)).await;
    let summary = monitor.shared.summary();
    let convicted: Vec<Link> = (monitor.shared.links().rows())
        .filter(|row| row.state == State::Convicted)
        .map(|row| row.link)
        .collect();
    let missed: u64 = monitor
        .shared
        .sources()
        .iter()
        .map(|source| source.missed)
        .sum();
    monitor.finish().await;
    drop(relay);
    let is_named = convicted == faults(FABRIC);
    let row = json!({
        "case": if nats.is_some() { "monitor-64x64-nats" } else { "monitor-64x64" },
        "verdicts": played.verdicts,
        "per_second": (played.verdicts as f64 / played.seconds).round(),
        "paths_per_second": (played.verdicts as f64 * 64.0 / played.seconds).round(),
        "recorded": summary.recorded,
        "missed": missed,
        "cpu_share": round(cpu / wall_s),
        "memory_mib_max": memory_mib(),
        "history_mib": summary.history_bytes >> 20,
        "late_ms_max": round(played.late_ms_max),
        "behind_ms": round(behind_ms),
        "answers": answers.len(),
        "answer_ms_p50": quantile(&answers, 0.5),
        "answer_ms_p99": quantile(&answers, 0.99),
        "answer_ms_max": quantile(&answers, 1.0),
        "longest": answers.last().map(|answer| answer.1),
        "named": is_named,
        "sound": is_named && summary.recorded == played.verdicts && missed == 0,
    });
    match row {
        Value::Object(row) => Ok(row),
        _ => Err(lacks(&"no row")),
    }
}

/// Runs a relay in a thread of its own until what comes back is dropped.
fn relay(file: RelayFile) -> oneshot::Sender<()> {
    let (stop, stopped) = oneshot::channel::<()>();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        let Ok(runtime) = runtime else { return };
        runtime.block_on(async {
            match Relay::start(file).await {
                Ok(relay) => {
                    let _ = stopped.await;
                    relay.finish().await;
                }
                Err(error) => log::say(&format!("relay: {error}")),
            }
        });
    });
    stop
}

/// Asks for everything again and again; how long each answer took, in milliseconds, and to what; sorted.
fn ask_for(address: SocketAddr, time: Duration) -> Vec<(f64, &'static str)> {
    let begun = Instant::now();
    let mut answers = Vec::new();
    while begun.elapsed() < time {
        for path in PATHS {
            let asked = Instant::now();
            if get(address, path).is_ok_and(|length| length > 0) {
                answers.push((asked.elapsed().as_secs_f64() * 1e3, path));
            } else {
                // No answer is as bad as one that takes for ever.
                answers.push((f64::INFINITY, path));
            }
        }
        std::thread::sleep(ASK);
    }
    answers.sort_by(|a, b| a.0.total_cmp(&b.0));
    answers
}

fn get(address: SocketAddr, path: &str) -> std::io::Result<usize> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes())?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let is_good = answer.starts_with(b"HTTP/1.0 200") || answer.starts_with(b"HTTP/1.1 200");
    Ok(if is_good { answer.len() } else { 0 })
}

fn quantile(sorted: &[(f64, &str)], part: f64) -> f64 {
    let last = sorted.len().saturating_sub(1);
    let place = (last as f64 * part).round() as usize;
    sorted.get(place).map_or(f64::NAN, |answer| round(answer.0))
}

fn round(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

/// CPU time of this process so far, in seconds.
fn cpu_s() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The most memory that this process has had, in MiB.
fn memory_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) / 1024
}
