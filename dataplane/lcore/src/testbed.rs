//! A testbed run from request to result: EAL, memory, control thread, poll loop, report.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use agent::control::{Control, ControlConfig, Shared};
use agent::core::Core;
use agent::metrics::{Server, Source};
use agent::operate::{Links, Place};
use agent::result::DaemonLine;
use agent::subject::Subject;
use config::fabric::Fabric;
use config::request::TestbedRequest;
use dpdk::{Eal, Mempool};
use pipeline::{PortConfig, PortKind};

use crate::fabric::{FabricLoop, Outcome};
use crate::failure::Failure;
use crate::machine::{self, Cpus, POLL_LCORE};
use crate::plan::Plan;
use crate::report;
use crate::telemetry::{self, Named};

/// Buffers for what switches send themselves: opens, closes, link state.
const MESSAGE_BUFFERS: u32 = 8191;
/// Room of such a buffer.
const MESSAGE_ROOM: u32 = 1024;
/// Buffers that an lcore keeps at hand.
const POOL_CACHE: u32 = 256;
/// How often progress is told.
const PROGRESS: Duration = Duration::from_millis(100);

/// Runs what is asked for and writes lines to `tell` until the result.
///
/// # Errors
/// What keeps the run from starting, with the exit status that says whose fault it is.
pub fn run(
    request: &TestbedRequest,
    cpus: &Cpus,
    stop: &Arc<AtomicBool>,
    tell: &mut impl FnMut(&DaemonLine),
) -> Result<(), Failure> {
    let config = &request.config;
    let plan = Plan { config };
    let fabric = Fabric::new(config).map_err(Failure::usage)?;
    let mib = machine::mib_for(plan.buffers(), plan.frame_bytes_max())
        + machine::mib_for(MESSAGE_BUFFERS, MESSAGE_ROOM);
    let eal_config = machine::eal_config("spraycheck", cpus, mib, Vec::new(), request.eal.clone());
    let eal = machine::start(eal_config).map_err(Failure::environment)?;
    let (shared, control) = start_control(&plan, &fabric, cpus)?;
    let metrics = start_metrics(&plan, &fabric, &shared, cpus)?;
    let asked = fabric.switches.iter().map(|switch| {
        let ports = port_names(&switch.config.ports);
        Named::of(&switch.name, ports, &switch.config)
    });
    telemetry::register(&eal, asked.collect(), &shared)?;
    let running = start_loop(&eal, &plan, &fabric, shared.clone(), config.trace.is_some())?;
    tell(&DaemonLine::Ready {
        socket: config.socket.clone(),
    });
    let flows = plan.workload().map_err(Failure::usage)?.flows();
    while !running.is_finished() {
        std::thread::sleep(PROGRESS);
        if stop.load(Ordering::Relaxed) {
            shared.status.stop.store(true, Ordering::Relaxed);
        }
        let ended = shared.status.flows_ended.load(Ordering::Relaxed);
        tell(&DaemonLine::Progress {
            fabric_ms: shared.status.now_ns.load(Ordering::Relaxed) / 1_000_000,
            percent: if flows == 0 {
                100.0
            } else {
                100.0 * ended as f64 / flows as f64
            },
            text: format!("{ended} of {flows} flows"),
        });
    }
    let outcome = running.join();
    drop(metrics);
    let mut core = control.finish();
    for error in &outcome.capture_errors {
        tracing::error!("a capture of --pcap-dir is not whole: {error}");
    }
    if let (Some(path), Some(trace)) = (&config.trace, &outcome.trace) {
        trace
            .write(path)
            .map_err(|error| Failure::environment(format!("trace {}: {error}", path.display())))?;
    }
    tell(&DaemonLine::Result(Box::new(report::result(
        &plan, &fabric, &outcome, &mut core,
    ))));
    Ok(())
}

/// Runs a fabric and returns its outcome and what control found: the same without the daemon's
/// protocol, for tests.
///
/// # Errors
/// As [`run`].
pub fn run_in(
    eal: &Eal,
    plan: &Plan<'_>,
    record: bool,
) -> Result<(Fabric, Outcome, Core), Failure> {
    let fabric = Fabric::new(plan.config).map_err(Failure::usage)?;
    let (shared, control) = start_control(plan, &fabric, &Cpus::read())?;
    let running = start_loop(eal, plan, &fabric, shared, record)?;
    let outcome = running.join();
    Ok((fabric, outcome, control.finish()))
}

fn start_control(
    plan: &Plan<'_>,
    fabric: &Fabric,
    cpus: &Cpus,
) -> Result<(Shared, Control), Failure> {
    let mut shared = Shared::new(
        fabric
            .switches
            .iter()
            .map(|switch| switch.config.ports.len()),
    );
    shared.links = Arc::new(Links::new(link_places(fabric), 1));
    let config = ControlConfig {
        subject: Subject::testbed(plan.config).map_err(Failure::usage)?,
        switches: named(fabric),
        rules: plan.rules(),
        test: plan.test(),
        socket: plan.config.socket.clone(),
        versions: vec![
            ("spraycheck".into(), env!("CARGO_PKG_VERSION").into()),
            ("dpdk".into(), dpdk::version()),
            (
                "message bytes of a window".into(),
                report::message_cost(plan.config.spines, plan.config.is_paper())
                    .1
                    .to_string(),
            ),
        ],
    };
    let cpus = cpus.clone();
    let control = Control::start(config, shared.clone(), move || cpus.pin_control())
        .map_err(|error| Failure::environment(error.to_string()))?;
    Ok((shared, control))
}

/// The switches and the names of their ports.
fn named(fabric: &Fabric) -> Vec<(String, Vec<String>)> {
    let switches = fabric.switches.iter();
    switches
        .map(|switch| (switch.name.clone(), port_names(&switch.config.ports)))
        .collect()
}

/// The links between switches; those of hosts have no faults.
fn link_places(fabric: &Fabric) -> Vec<Place> {
    let links = fabric.links.iter().enumerate();
    links
        .map(|(index, link)| Place {
            link: link.link.to_string(),
            switch: link.from.0,
            port: link.from.1,
            is_fabric: true,
            lcore: 0,
            device: (index, 0),
            is_wire: true,
            seed: link.seed,
            faults: link.faults.clone(),
            is_on: !fabric.disabled.contains(&link.from),
        })
        .collect()
}

/// The server of metrics, if one is asked for. The links of a testbed are rings, which have no driver.
fn start_metrics(
    plan: &Plan<'_>,
    fabric: &Fabric,
    shared: &Shared,
    cpus: &Cpus,
) -> Result<Option<Server>, Failure> {
    let Some(listen) = plan.config.metrics else {
        return Ok(None);
    };
    let source = Source {
        switches: named(fabric),
        versions: vec![
            ("spraycheck".into(), env!("CARGO_PKG_VERSION").into()),
            ("dpdk".into(), dpdk::version()),
        ],
        shared: shared.clone(),
        drivers: Arc::new(Vec::new),
    };
    let cpus = cpus.clone();
    let server = Server::start(listen, source, move || cpus.pin_control());
    server.map(Some).map_err(Failure::environment)
}

fn start_loop(
    eal: &Eal,
    plan: &Plan<'_>,
    fabric: &Fabric,
    shared: Shared,
    record: bool,
) -> Result<dpdk::lcore::Running<Outcome>, Failure> {
    let pool = |name, buffers, room| {
        Mempool::create(eal, name, buffers, POOL_CACHE, room, None).map_err(Failure::environment)
    };
    let packets = pool("packets", plan.buffers(), plan.frame_bytes_max())?;
    let messages = pool("messages", MESSAGE_BUFFERS, MESSAGE_ROOM)?;
    let fabric_loop = FabricLoop::new(eal, plan, fabric, packets, messages, shared, record)?;
    dpdk::lcore::launch(eal, POLL_LCORE, move || fabric_loop.run()).map_err(Failure::environment)
}

fn port_names(ports: &[PortConfig]) -> Vec<String> {
    let mut hosts = 0;
    ports
        .iter()
        .map(|port| match port.kind {
            PortKind::Host => {
                hosts += 1;
                format!("host{}", hosts - 1)
            }
            PortKind::Fabric(pipeline::Peer::Leaf(leaf)) => leaf.to_string(),
            PortKind::Fabric(pipeline::Peer::Spine(spine)) => spine.to_string(),
        })
        .collect()
}
