//! Switches on real ports or virtual devices, until they are told to stop: `spraycheck switch`.
//!
//! From files to poll loops, straight through: read, place, start EAL, make pools, start devices, build
//! one worker per lcore, run. The main thread watches links and signals; lcores look only at what it
//! leaves in atomics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use agent::control::{Control, ControlConfig, Devices, Shared};
use agent::metrics::{Server, Source};
use agent::operate::Links;
use agent::result::DaemonLine;
use agent::subject::Subject;
use config::request::SwitchRequest;
use config::{Idle, InForce, Memory, SwitchSet};
use dpdk::{Clock, Eal, EalConfig};
use pipeline::Nanos;

use crate::assign::{self, Placement};
use crate::build::{self, Built};
use crate::failure::Failure;
use crate::links_up::LinkWord;
use crate::machine::Cpus;
use crate::report;
use crate::service::Service;
use crate::telemetry::{self, Named};
use crate::trunk::TrunkCounters;
use crate::worker::Worker;

/// How often what time alone causes is done.
const TICK_NS: u64 = 10_000;
/// How often counters are published.
const PUBLISH_NS: u64 = 10_000_000;
/// Rounds without a packet after which an lcore that may sleep does.
const IDLE_ROUNDS: u32 = 64;
/// How long it sleeps at a time.
const NAP: Duration = Duration::from_micros(50);
/// How often links are asked for whose drivers do not tell, and signals looked at.
const LOOK: Duration = Duration::from_millis(1);
/// Most rounds until rings between lcores are empty once nobody receives: each passes a packet on.
const SETTLE_ROUNDS: usize = 1 << 16;

/// Runs the switches of some files until it is told to stop.
///
/// # Errors
/// What keeps it from starting.
pub fn run(
    request: &SwitchRequest,
    cpus: &Cpus,
    stop: &Arc<AtomicBool>,
    tell: &mut impl FnMut(&DaemonLine),
) -> Result<(), Failure> {
    let started = Instant::now();
    let in_force = InForce::read(&request.config_paths).map_err(Failure::usage)?;
    let set = in_force.set.clone();
    build::check(&set)?;
    let placement = assign::place(cpus, &set.eal, &build::wishes(&set))?;
    for warning in &placement.warnings {
        tracing::warn!("{warning}");
    }
    let lcores = placement.cpus.len();
    let eal = Eal::init(eal_config(&set, &placement, cpus, request.eal.clone())?)?;
    let trunks: Arc<Vec<TrunkCounters>> = Arc::new(
        set.devices
            .iter()
            .map(|device| TrunkCounters::of(device.lanes.len()))
            .collect(),
    );
    let mut shared = Shared::on(
        lcores,
        set.switches.iter().map(|spec| spec.config.ports.len()),
    );
    shared.devices = devices(&set, &trunks);
    shared.links = Arc::new(Links::new(build::link_places(&set, &placement), lcores));
    let links = Arc::new(LinkWord::new(set.devices.len()));
    let Built {
        workers,
        ports,
        pools,
    } = build::build(&eal, &set, &placement, &trunks, &shared, &links)?;
    let control = start_control(&set, in_force, request, &shared, cpus)?;
    let metrics = start_metrics(&set, &shared, &ports, cpus)?;
    let asked = set.switches.iter();
    let asked = asked.map(|spec| Named::of(&spec.name, spec.port_names.clone(), &spec.config));
    telemetry::register(&eal, asked.collect(), &shared)?;
    let _watches: Vec<_> = ports
        .iter()
        .enumerate()
        .filter_map(|(device, port)| {
            let (links, of_call) = (Arc::clone(&links), port.clone());
            // A driver that cannot tell is asked below.
            port.watch_link(move || {
                links.set(device, of_call.link().map_or(true, |link| link.up));
            })
            .ok()
        })
        .collect();
    let sleeps = set.eal.idle == Idle::Sleep;
    let mut running = Vec::new();
    for (lcore, worker) in workers.into_iter().enumerate() {
        let shared = shared.clone();
        running.push(dpdk::lcore::launch(&eal, lcore as u32 + 1, move || {
            poll(worker, lcore, &shared, sleeps)
        })?);
    }
    tell(&DaemonLine::Ready {
        socket: request.socket.clone(),
    });
    let again = Arc::new(AtomicBool::new(false));
    signal_hook::flag::register(signal_hook::consts::SIGHUP, Arc::clone(&again))
        .map_err(Failure::environment)?;
    let mut service = Service::default();
    service.ready();
    while !running.iter().all(dpdk::lcore::Running::is_finished) {
        for (device, port) in ports.iter().enumerate() {
            // A driver that does not know is taken to be up, as at start.
            links.set(device, port.link().map_or(true, |link| link.up));
        }
        if stop.load(Ordering::Relaxed) && !shared.status.stop.swap(true, Ordering::Relaxed) {
            service.stopping();
        }
        if again.swap(false, Ordering::Relaxed) {
            shared.reload.store(true, Ordering::Relaxed);
        }
        service.look(&shared.lcores);
        std::thread::sleep(LOOK);
    }
    let ended: Vec<(Worker, Nanos)> = running.into_iter().map(|lcore| lcore.join()).collect();
    let workers = settle(ended);
    control.finish();
    // It reads counters of devices, which end below.
    drop(metrics);
    tell(&DaemonLine::Replay(report::of_workers(
        &set,
        &workers,
        &shared.devices.read(),
        started.elapsed(),
    )));
    drop((workers, pools));
    Ok(())
}

/// The poll loop of one lcore.
fn poll(mut worker: Worker, lcore: usize, shared: &Shared, sleeps: bool) -> (Worker, Nanos) {
    let clock = Clock::calibrated();
    let status = &shared.lcores[lcore];
    let (mut tick_at, mut publish_at) = (0, 0);
    let (mut rounds, mut busy_rounds, mut idle_rounds) = (0u64, 0u64, 0u32);
    // Time by what the round before did: a round is looked at when the next one begins.
    let (mut spent_ns, mut was_busy, mut last_ns) = ([0u64; 2], 0usize, clock.now_ns());
    worker.begin(Nanos(last_ns));
    loop {
        // All lcores of a process have one clock, so their times compare.
        let now_ns = clock.now_ns();
        spent_ns[was_busy] += now_ns.saturating_sub(last_ns);
        last_ns = now_ns;
        let now = Nanos(now_ns);
        let moved = worker.round(now);
        rounds += 1;
        busy_rounds += u64::from(moved > 0);
        was_busy = usize::from(moved > 0);
        idle_rounds = if moved > 0 {
            0
        } else {
            idle_rounds.saturating_add(1)
        };
        if sleeps && idle_rounds >= IDLE_ROUNDS {
            std::thread::sleep(NAP);
        }
        if now_ns < tick_at {
            continue;
        }
        tick_at = now_ns + TICK_NS;
        worker.tick(now);
        if now_ns < publish_at {
            continue;
        }
        publish_at = now_ns + PUBLISH_NS;
        let of_lcore = shared.switches().map(|parts| &parts[lcore]);
        for (published, part) in of_lcore.zip(worker.parts()) {
            published.publish(&part.switch);
        }
        // With one loop its status is the process's.
        let own = (lcore == 0).then_some(&*shared.status);
        for status in [status].into_iter().chain(own) {
            status.rounds.store(rounds, Ordering::Relaxed);
            status.busy_rounds.store(busy_rounds, Ordering::Relaxed);
            status.now_ns.store(now_ns, Ordering::Relaxed);
            status.idle_ns.store(spent_ns[0], Ordering::Relaxed);
            status.busy_ns.store(spent_ns[1], Ordering::Relaxed);
        }
        if shared.status.stop.load(Ordering::Relaxed) {
            return (worker, now);
        }
    }
}

/// Brings what is in rings between lcores to its queues and then drops all queues, so that every
/// packet has its end.
pub fn settle(ended: Vec<(Worker, Nanos)>) -> Vec<Worker> {
    let now = ended.iter().map(|(_, now)| *now).max().unwrap_or_default();
    let mut workers: Vec<Worker> = ended.into_iter().map(|(worker, _)| worker).collect();
    for _ in 0..SETTLE_ROUNDS {
        let moved: usize = workers.iter_mut().map(|worker| worker.settle(now)).sum();
        if moved == 0 {
            break;
        }
    }
    for worker in &mut workers {
        worker.drain(now);
    }
    workers
}

fn eal_config(
    set: &SwitchSet,
    placement: &Placement,
    cpus: &Cpus,
    extra: Vec<String>,
) -> Result<EalConfig, Failure> {
    let mib = (set.eal.size.bytes() >> 20) as u32;
    let (mut vdevs, mut pci) = (Vec::new(), Vec::new());
    for shared in &set.devices {
        match build::on_bus(&shared.device)? {
            config::Device::Vdev(text) => vdevs.push(text),
            config::Device::Pci(text) | config::Device::Interface(text) => pci.push(text),
        }
    }
    let polls = placement.cpus.iter().zip(1u32..);
    Ok(EalConfig {
        program: "spraycheckd".into(),
        lcores: std::iter::once((0, cpus.control() as u32))
            .chain(polls.map(|(&cpu, lcore)| (lcore, cpu as u32)))
            .collect(),
        main_lcore: 0,
        memory: match set.eal.memory {
            Memory::Auto => dpdk::Memory::Auto { mib },
            Memory::Hugepages => dpdk::Memory::Hugepages { mib },
            Memory::NoHuge => dpdk::Memory::NoHuge { mib },
        },
        vdevs,
        pci,
        file_prefix: set.switches[0].name.clone(),
        telemetry: true,
        extra: set.eal.arguments.iter().cloned().chain(extra).collect(),
        ..EalConfig::default()
    })
}

/// The counters of devices, for `show drops` and the report.
fn devices(set: &SwitchSet, trunks: &Arc<Vec<TrunkCounters>>) -> Devices {
    let names: Vec<String> = set
        .devices
        .iter()
        .map(|shared| shared.device.name().to_owned())
        .collect();
    let port = |lane: &config::DeviceLane| {
        let spec = &set.switches[lane.switch];
        format!("{}.{}", spec.name, spec.port_names[usize::from(lane.port)])
    };
    let ports: Vec<Vec<String>> = set
        .devices
        .iter()
        .map(|shared| shared.lanes.iter().map(port).collect())
        .collect();
    let trunks = Arc::clone(trunks);
    Devices::of(move || {
        let all = names.iter().zip(&ports).zip(trunks.iter());
        all.flat_map(|((name, ports), counters)| {
            let own = counters
                .drops()
                .map(|(counter, packets)| (name.clone(), counter, packets));
            let injected = ports.iter().zip(&counters.injected).map(|(port, lost)| {
                let lost = lost.load(Ordering::Relaxed);
                (port.clone(), "injected-loss", lost)
            });
            own.chain(injected).collect::<Vec<_>>()
        })
        .collect()
    })
}

/// The server of metrics, if the files ask for one.
fn start_metrics(
    set: &SwitchSet,
    shared: &Shared,
    ports: &[dpdk::StartedPort],
    cpus: &Cpus,
) -> Result<Option<Server>, Failure> {
    let Some(listen) = set.metrics else {
        return Ok(None);
    };
    let ports = ports.to_vec();
    let drivers = move || -> Vec<(String, String, u64)> {
        let of_port = |port: &dpdk::StartedPort| {
            // A driver that fails to answer has nothing to show this time.
            let counters = port.xstats().unwrap_or_default();
            let name = port.name().to_owned();
            counters
                .into_iter()
                .map(move |(counter, value)| (name.clone(), counter, value))
        };
        ports.iter().flat_map(of_port).collect()
    };
    let source = Source {
        switches: set.switches.iter().map(named).collect(),
        versions: versions(),
        shared: shared.clone(),
        drivers: Arc::new(drivers),
    };
    let cpus = cpus.clone();
    let server = Server::start(listen, source, move || cpus.pin_control());
    server.map(Some).map_err(Failure::environment)
}

/// A switch's name and those of its ports.
fn named(spec: &config::SwitchSpec) -> (String, Vec<String>) {
    (spec.name.clone(), spec.port_names.clone())
}

fn versions() -> Vec<(String, String)> {
    vec![
        ("spraycheck".into(), env!("CARGO_PKG_VERSION").into()),
        ("dpdk".into(), dpdk::version()),
    ]
}

fn start_control(
    set: &SwitchSet,
    in_force: InForce,
    request: &SwitchRequest,
    shared: &Shared,
    cpus: &Cpus,
) -> Result<Control, Failure> {
    let subject = Subject::Switches {
        in_force: Box::new(in_force),
        part_of: build::config_of,
    };
    let Some((rules, test)) = subject.judging() else {
        return Err(Failure::usage("no switch is given; name one file at least"));
    };
    let config = ControlConfig {
        switches: set.switches.iter().map(named).collect(),
        rules,
        test,
        subject,
        socket: request.socket.clone(),
        versions: versions(),
    };
    let cpus = cpus.clone();
    Control::start(config, shared.clone(), move || cpus.pin_control()).map_err(Failure::environment)
}
