//! One switch on real ports or virtual devices: the poll loop of `spraycheck switch`.
//!
//! Time is the cycle counter's, read once a round. The main thread watches link states and
//! signals; the lcore only looks at what they have left in atomics.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use agent::control::{Control, ControlConfig, Shared};
use agent::result::DaemonLine;
use config::request::SwitchRequest;
use config::{Idle, Memory, SwitchSpec};
use dpdk::{Burst, Clock, Eal, EalConfig, Mempool, StartedPort};
use pipeline::{Nanos, PortId, Switch, SwitchConfig};

use crate::device::Device;
use crate::failure::Failure;
use crate::machine::{Cpus, POLL_LCORE};
use crate::packet::{LcoreSink, Packet};
use crate::report;

/// Descriptors of each queue: short, so that packets queue where priorities are kept.
const DESCRIPTORS: u16 = 256;
/// Buffers that an lcore keeps at hand.
const POOL_CACHE: u32 = 256;
/// How often what time alone causes is done.
const TICK_NS: u64 = 10_000;
/// How often counters are published.
const PUBLISH_NS: u64 = 10_000_000;
/// Rounds without a packet after which an lcore that may sleep does.
const IDLE_ROUNDS: u32 = 64;
/// How long it sleeps at a time.
const NAP: Duration = Duration::from_micros(50);
/// How often link states and signals are looked at.
const LOOK: Duration = Duration::from_millis(10);

/// Runs the switch of a file until it is told to stop.
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
    let spec = SwitchSpec::read(&request.config_path).map_err(Failure::usage)?;
    let devices = devices(&spec)?;
    let eal = Eal::init(eal_config(&spec, &devices, cpus, request.eal.clone()))?;
    let count = spec.config.queue.packets_max
        + devices.len() as u32 * 2 * u32::from(DESCRIPTORS)
        + 4 * POOL_CACHE;
    let pool = Mempool::create(
        &eal,
        "packets",
        count,
        POOL_CACHE,
        spec.eal.buffer_bytes,
        None,
    )?;
    let (ports, live) = start_ports(&eal, &devices, &pool)?;
    let shared = Shared::new([spec.config.ports.len()]);
    let control = start_control(&spec, request, &shared, cpus)?;
    let links: Arc<Vec<AtomicBool>> =
        Arc::new(ports.iter().map(|_| AtomicBool::new(true)).collect());
    let (config, of_loop, links_of_loop, pool_of_loop) = (
        spec.config.clone(),
        shared.clone(),
        Arc::clone(&links),
        pool.clone(),
    );
    let sleeps = spec.eal.idle == Idle::Sleep;
    let running = dpdk::lcore::launch(&eal, POLL_LCORE, move || {
        poll(
            &config,
            live,
            pool_of_loop,
            &of_loop,
            &links_of_loop,
            sleeps,
        )
    })?;
    tell(&DaemonLine::Ready {
        socket: request.socket.clone(),
    });
    while !running.is_finished() {
        for (port, up) in ports.iter().zip(links.iter()) {
            // A driver that cannot tell is taken to be up, as at start.
            up.store(port.link().map_or(true, |link| link.up), Ordering::Relaxed);
        }
        if stop.load(Ordering::Relaxed) {
            shared.status.stop.store(true, Ordering::Relaxed);
        }
        std::thread::sleep(LOOK);
    }
    let switch = running.join();
    control.finish();
    let conservation_ok = switch.is_conserved();
    tell(&DaemonLine::Replay(report::of_switch(
        &spec.port_names,
        &switch,
        conservation_ok,
        started.elapsed(),
    )));
    Ok(())
}

/// The devices of all ports; a switch that runs needs one for each.
fn devices(spec: &SwitchSpec) -> Result<Vec<config::Device>, Failure> {
    let of = |(name, device): (&String, &Option<config::Device>)| {
        device.clone().ok_or_else(|| {
            Failure::usage(format!(
                "port \"{name}\" has no device; add one, like device = \"0000:03:00.0\" or \"net_tap0,iface=tap0\""
            ))
        })
    };
    spec.port_names.iter().zip(&spec.devices).map(of).collect()
}

fn eal_config(
    spec: &SwitchSpec,
    devices: &[config::Device],
    cpus: &Cpus,
    extra: Vec<String>,
) -> EalConfig {
    let mib = (spec.eal.size.bytes() >> 20) as u32;
    let (mut vdevs, mut pci) = (Vec::new(), Vec::new());
    for device in devices {
        match device {
            config::Device::Vdev(text) => vdevs.push(text.clone()),
            config::Device::Pci(text) => pci.push(text.clone()),
        }
    }
    EalConfig {
        program: "spraycheckd".into(),
        lcores: vec![(0, cpus.control() as u32), (POLL_LCORE, cpus.poll() as u32)],
        main_lcore: 0,
        memory: match spec.eal.memory {
            Memory::Auto => dpdk::Memory::Auto { mib },
            Memory::Hugepages => dpdk::Memory::Hugepages { mib },
            Memory::NoHuge => dpdk::Memory::NoHuge { mib },
        },
        vdevs,
        pci,
        file_prefix: spec.name.clone(),
        telemetry: true,
        extra: spec.eal.arguments.iter().cloned().chain(extra).collect(),
        ..EalConfig::default()
    }
}

fn start_ports(
    eal: &Eal,
    devices: &[config::Device],
    pool: &Mempool,
) -> Result<(Vec<StartedPort>, Vec<Device>), Failure> {
    let mut ports = Vec::new();
    let mut started = Vec::new();
    for device in devices {
        let config = dpdk::PortConfig {
            rx_descriptors: DESCRIPTORS,
            tx_descriptors: DESCRIPTORS,
            promiscuous: true,
            ..dpdk::PortConfig::new(pool.clone())
        };
        let (device, port) = Device::start(eal, device.name(), config)?;
        ports.push(port);
        started.push(device);
    }
    Ok((ports, started))
}

fn start_control(
    spec: &SwitchSpec,
    request: &SwitchRequest,
    shared: &Shared,
    cpus: &Cpus,
) -> Result<Control, Failure> {
    let config = ControlConfig {
        switches: vec![(spec.name.clone(), spec.port_names.clone())],
        rules: spec.rules(),
        test: crate::plan::test_of(spec.test),
        socket: request.socket.clone(),
        versions: vec![
            ("spraycheck".into(), env!("CARGO_PKG_VERSION").into()),
            ("dpdk".into(), dpdk::version()),
        ],
    };
    let cpus = cpus.clone();
    Control::start(config, shared.clone(), move || cpus.pin_control()).map_err(Failure::environment)
}

/// The poll loop: pull, push, and at intervals tick, links, commands, counters.
fn poll(
    config: &SwitchConfig,
    mut ports: Vec<Device>,
    pool: Mempool,
    shared: &Shared,
    links: &[AtomicBool],
    sleeps: bool,
) -> Switch<Packet> {
    let clock = Clock::calibrated();
    let start_ns = clock.now_ns();
    let mut switch = Switch::new(config);
    let mut sink = LcoreSink {
        pool,
        seam: Arc::clone(&shared.seam),
        switch: 0,
    };
    let mut burst = Burst::new();
    let (mut tick_at, mut publish_at) = (0, 0);
    let (mut rounds, mut busy_rounds, mut idle_rounds) = (0u64, 0u64, 0u32);
    loop {
        let now_ns = clock.now_ns() - start_ns;
        let now = Nanos(now_ns);
        let mut moved = 0;
        for (index, port) in ports.iter_mut().enumerate() {
            moved += port.receive(&mut burst);
            switch.ingress_burst(
                now,
                PortId(index as u16),
                burst.drain().map(Packet::from),
                &mut sink,
            );
        }
        for (index, port) in ports.iter_mut().enumerate() {
            moved += port.send_due(&mut switch, now, PortId(index as u16));
        }
        rounds += 1;
        busy_rounds += u64::from(moved > 0);
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
        for (index, up) in links.iter().enumerate() {
            switch.set_link(
                now,
                PortId(index as u16),
                up.load(Ordering::Relaxed),
                &mut sink,
            );
        }
        while let Some(to) = shared.seam.commands.pop() {
            switch.apply(now, to.command, &mut sink);
        }
        switch.tick(now, &mut sink);
        if now_ns < publish_at {
            continue;
        }
        publish_at = now_ns + PUBLISH_NS;
        for published in shared.published.iter() {
            published.publish(&switch);
        }
        shared.status.rounds.store(rounds, Ordering::Relaxed);
        shared
            .status
            .busy_rounds
            .store(busy_rounds, Ordering::Relaxed);
        shared.status.now_ns.store(now_ns, Ordering::Relaxed);
        if shared.status.stop.load(Ordering::Relaxed) {
            switch.drain(now, &mut sink);
            return switch;
        }
    }
}
