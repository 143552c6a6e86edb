//! A replay: one switch over captures, through net_pcap devices, until they end.
//!
//! The same poll loop as a switch on real ports has, but time advances by a fixed step per round:
//! the result depends on captures and seed alone.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use agent::result::DaemonLine;
use agent::seam::Seam;
use config::request::ReplayRequest;
use config::switch_file::SwitchSpec;
use dpdk::{Burst, Mempool, StartedPort};
use pipeline::{Nanos, PortId, Switch, SwitchConfig};

use crate::device::Device;
use crate::failure::Failure;
use crate::machine::{self, Cpus, POLL_LCORE};
use crate::packet::{LcoreSink, Packet};
use crate::pcap;
use crate::report;
use crate::split;
use crate::taps::Taps;

/// How far time advances per round.
const STEP_NS: u64 = 10_000;
/// Rounds without a packet after which the captures have ended: a poll of net_pcap that gives
/// nothing has reached the end of its file.
const QUIET_ROUNDS: u32 = 16;
/// Time that passes after the last packet, so that windows end and closes are repeated.
const SETTLE_NS: u64 = 2_000_000_000;
/// Packet buffers.
const BUFFERS: u32 = 8191;

/// Runs what is asked for.
///
/// # Errors
/// What keeps it from starting, or from writing its captures.
pub fn run(
    request: &ReplayRequest,
    cpus: &Cpus,
    stop: &Arc<AtomicBool>,
    tell: &mut impl FnMut(&DaemonLine),
) -> Result<(), Failure> {
    let started = Instant::now();
    let spec = SwitchSpec::read(&request.config_path).map_err(Failure::usage)?;
    let dealt = split::deal(
        &spec.config,
        &spec.port_names,
        &request.inputs,
        request.split,
    )?;
    let captures = Captures::prepare(&request.out_dir, &spec.port_names, &dealt)?;
    let room = spec
        .config
        .ports
        .iter()
        .map(|port| port.frame_max_bytes)
        .max()
        .unwrap_or(0)
        .max(2048)
        + 64;
    let mib = machine::mib_for(BUFFERS, room);
    let eal = machine::start(machine::eal_config(
        "spraycheck",
        cpus,
        mib,
        captures.vdevs(),
        request.eal.clone(),
    ))?;
    let pool = Mempool::create(&eal, "packets", BUFFERS, 256, room, None)?;
    let start = |index| {
        let name = format!("net_pcap{index}");
        Device::start(&eal, &name, dpdk::PortConfig::new(pool.clone()))
    };
    let started_ports: Result<Vec<_>, Failure> = (0..spec.port_names.len()).map(start).collect();
    let (devices, ports): (Vec<Device>, Vec<StartedPort>) = started_ports?.into_iter().unzip();
    tell(&DaemonLine::Ready { socket: None });
    let config = spec.config.clone();
    let stop = Arc::clone(stop);
    let pool_of_loop = pool.clone();
    let running = dpdk::lcore::launch(&eal, POLL_LCORE, move || {
        poll(&config, devices, pool_of_loop, &stop)
    })?;
    let switch = running.join();
    // The captures are whole once the ports are closed.
    drop(ports);
    let conservation_ok = switch.is_conserved() && pool.in_use() == 0;
    captures.clean();
    tell(&DaemonLine::Replay(report::of_switch(
        &spec.port_names,
        &switch,
        conservation_ok,
        started.elapsed(),
    )));
    Ok(())
}

/// The captures that go in, and those that come out.
struct Captures {
    inputs: Vec<PathBuf>,
    outputs: Vec<PathBuf>,
}

impl Captures {
    /// Writes what each port receives; a port without input gets an empty capture.
    fn prepare(
        out_dir: &Path,
        names: &[String],
        dealt: &[Vec<Vec<u8>>],
    ) -> Result<Captures, Failure> {
        let wrong = |path: &Path, error: std::io::Error| {
            Failure::environment(format!(
                "{}: {error}; name a folder that can be written with --out",
                path.display()
            ))
        };
        std::fs::create_dir_all(out_dir).map_err(|error| wrong(out_dir, error))?;
        let path = |name: &str, kind: &str| out_dir.join(format!("{name}{kind}"));
        let captures = Captures {
            inputs: names.iter().map(|name| path(name, ".in.tmp")).collect(),
            outputs: names.iter().map(|name| path(name, ".pcap")).collect(),
        };
        for (file, frames) in captures.inputs.iter().zip(dealt) {
            pcap::write(file, frames.iter().map(Vec::as_slice))
                .map_err(|error| wrong(file, error))?;
        }
        for file in captures.inputs.iter().chain(&captures.outputs) {
            // EAL takes a comma for the end of a device argument.
            if file.to_string_lossy().contains(',') {
                return Err(Failure::usage(format!(
                    "{}: a path for net_pcap has no comma",
                    file.display()
                )));
            }
        }
        Ok(captures)
    }

    fn vdevs(&self) -> Vec<String> {
        let pairs = self.inputs.iter().zip(&self.outputs).enumerate();
        pairs
            .map(|(index, (input, output))| {
                format!(
                    "net_pcap{index},rx_pcap={},tx_pcap={}",
                    input.display(),
                    output.display()
                )
            })
            .collect()
    }

    /// Takes the inputs away again.
    fn clean(&self) {
        for file in &self.inputs {
            if let Err(error) = std::fs::remove_file(file) {
                tracing::warn!("{}: {error}", file.display());
            }
        }
    }
}

/// The poll loop: pull, push, tick, until nothing moves any more.
fn poll(
    config: &SwitchConfig,
    mut ports: Vec<Device>,
    pool: Mempool,
    stop: &AtomicBool,
) -> Switch<Packet> {
    let mut switch = Switch::new(config);
    let mut sink = LcoreSink {
        pool,
        seam: Arc::new(Seam::default()),
        switch: 0,
        taps: Taps::new(0),
    };
    let mut burst = Burst::new();
    let mut now = Nanos(0);
    let mut quiet = 0;
    let mut settled_at = Nanos::NEVER;
    while now < settled_at && !stop.load(Ordering::Relaxed) {
        now = now.plus(STEP_NS);
        let mut moved = 0;
        for (index, device) in ports.iter_mut().enumerate() {
            device.receive(&mut burst);
            moved += burst.len();
            switch.ingress_burst(
                now,
                PortId(index as u16),
                burst.drain().map(Packet::from),
                &mut sink,
            );
        }
        for (index, device) in ports.iter_mut().enumerate() {
            moved += device.send_due(&mut switch, now, PortId(index as u16));
        }
        switch.tick(now, &mut sink);
        quiet = if moved == 0 { quiet + 1 } else { 0 };
        if quiet == QUIET_ROUNDS && settled_at == Nanos::NEVER {
            settled_at = now.plus(SETTLE_NS);
        }
    }
    switch.drain(now, &mut sink);
    switch
}
