//! From a configuration to an engine: switches, links, hosts and their workloads.

use std::collections::VecDeque;

use agent::core::Core;
use config::fabric::{Fabric, FabricHost, path_delay_ns_max};
use config::{Announce, Change, ConfigError, SimConfig, TestbedConfig};
use endpoint::workload::{HostId, Workload, WorkloadKind};
use endpoint::{Host, HostConfig, OpenError, QpConfig};
use packet::Qpn;
use pipeline::{Nanos, PortKind, Switch};
use thiserror::Error;

use crate::engine::{Clock, Engine, PLACES};
use crate::net::{ARRIVE, Net, Node, Out, place};
use crate::plan::Plan;
use crate::station::{Station, Task};

/// A tick of switches and control at 100 Gbit/s: as often as a testbed's loop comes round.
const TICK_NS: u64 = 10_000;
/// Switches want to be called at least so often.
const TICK_NS_MAX: u64 = 100_000;
const TICK_RATE_BPS: u64 = 100_000_000_000;
/// Rows of a destination leaf's flow table: a source leaf measures one flow at a time.
const ROWS: std::ops::RangeInclusive<u32> = 64..=1024;

/// Why a simulation cannot be set up.
#[derive(Debug, Error)]
pub enum SimError {
    /// A setting is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// A workload cannot run, or its file is wrong.
    #[error("{0}")]
    Workload(String),
    /// A host cannot be made.
    #[error(transparent)]
    Host(#[from] endpoint::ConfigError),
    /// A connection cannot be opened.
    #[error("host {host}: {error}")]
    Open {
        /// Its name.
        host: String,
        /// Why not.
        error: OpenError,
    },
    /// Hosts of the slice talk to others.
    #[error(
        "slice: {from} sends to {to}, which is not in it; choose leaves whose hosts talk among \
         themselves (workload pairs: leaf2j and leaf2j+1; permutation: leafi and the one half the \
         leaves on)"
    )]
    Slice {
        /// A host of the slice.
        from: String,
        /// Its peer.
        to: String,
    },
}

/// Switches whose state stays in the CPU's second-level cache (2 MiB): with 96, 48x48, asking for it ahead
/// costs a sixth of the speed, with 128, 64x64, it gains a tenth.
const NODES_IN_CACHE: usize = 96;

impl Engine {
    /// Builds the fabric. What a steady run needs is allocated here or in its first moments.
    ///
    /// # Errors
    /// Names what cannot be simulated, and the cure.
    pub fn new(config: &SimConfig) -> Result<Engine, SimError> {
        config.check()?;
        let testbed = &config.testbed;
        let mut fabric = Fabric::new(testbed)?;
        let travel_ns = 4 * config.propagation.nanos();
        tune(&mut fabric, testbed, travel_ns);
        let is_in = |leaf: u16| config.slice.is_empty() || config.slice.iter().any(|l| l.0 == leaf);
        let (mut nodes, mut leaves) = (Vec::new(), 0);
        let mut node_of_leaf = vec![usize::MAX; usize::from(testbed.leaves)];
        for (index, switch) in fabric.switches.iter().enumerate() {
            if index < node_of_leaf.len() {
                if !is_in(index as u16) {
                    continue;
                }
                node_of_leaf[index] = nodes.len();
                leaves += 1;
            }
            nodes.push(Node {
                switch: Switch::new(&switch.config),
                out: vec![Out::to_host(0); switch.config.ports.len()],
            });
        }
        let rates = (testbed.link_rate, testbed.host_rate);
        let mut engine = Engine {
            is_large: nodes.len() > NODES_IN_CACHE,
            foreseen: 0,
            config: config.clone(),
            net: Net::new(
                [nodes.len(), leaves * usize::from(testbed.hosts_per_leaf)],
                config.propagation.nanos(),
                rates.0.bits_per_second(),
                rates.1.bits_per_second(),
            ),
            nodes,
            leaves,
            node_of_leaf,
            stations: Vec::new(),
            station_of_host: Vec::new(),
            core: Core::with_test(
                Plan { config: testbed }.rules(),
                Plan { config: testbed }.test(),
            ),
            control_delay_ns: 0,
            commands: VecDeque::new(),
            tick_ns: (TICK_NS * TICK_RATE_BPS / rates.0.bits_per_second().max(1))
                .clamp(TICK_NS, TICK_NS_MAX),
            settle_ns: Plan { config: testbed }.settle_ns() + 8 * travel_ns,
            flows_all: 0,
            changes_done: 0,
            now_ns: 0,
            tick_at_ns: 0,
            failed: Vec::new(),
            task_of_change: Vec::new(),
            reset_at_ns: 60_000_000_000,
            done_at: None,
            sent_before: 0,
            busy_ns: 0,
            clock: Clock::default(),
            is_started: false,
            places: [0; PLACES],
            fabric,
        };
        engine.join();
        engine.people()?;
        engine.break_links();
        Ok(engine)
    }

    /// Connects the ports.
    fn join(&mut self) {
        for index in 0..self.fabric.links.len() {
            let link = &self.fabric.links[index];
            let (from, to) = (link.from, link.to);
            let seed = link.seed;
            let Some(source) = self.node_of(from.0) else {
                continue;
            };
            let port = from.1.index();
            match self.node_of(to.0) {
                Some(node) => {
                    self.nodes[source].out[port] = Out::to_switch(node, to.1.index());
                }
                None => {
                    let out = (source, port);
                    let special = self.net.make_special(&mut self.nodes[source], out, seed);
                    self.net.specials[special].leads_out = true;
                }
            }
        }
    }

    /// The node of a switch of the fabric, if it is in the slice.
    pub(crate) fn node_of(&self, switch: usize) -> Option<usize> {
        match self.node_of_leaf.get(switch) {
            Some(&usize::MAX) => None,
            Some(&node) => Some(node),
            None => Some(self.leaves + switch - self.node_of_leaf.len()),
        }
    }

    /// Makes the hosts and their connections.
    fn people(&mut self) -> Result<(), SimError> {
        let testbed = self.config.testbed.clone();
        let plan = Plan { config: &testbed };
        let mut workloads = vec![plan.workload().map_err(SimError::Workload)?];
        for (_, change) in &self.config.changes {
            self.task_of_change.push(workloads.len());
            if let Change::Start(traffic) = change {
                let config = TestbedConfig {
                    workload: traffic.workload,
                    bytes: traffic.bytes,
                    qps: traffic.qps,
                    iterations: traffic.iterations,
                    announce: match traffic.announced {
                        true => Announce::Host,
                        false => Announce::Window,
                    },
                    ..testbed.clone()
                };
                let traffic_plan = Plan { config: &config };
                workloads.push(traffic_plan.workload().map_err(SimError::Workload)?);
            }
        }
        // Of hosts that announce or do not in turn, the second is as all that do not.
        let second = plan.workload_of(1).map_err(SimError::Workload)?;
        let hosts = self.fabric.hosts.clone();
        self.station_of_host = vec![usize::MAX; hosts.len()];
        for (index, host) in hosts.iter().enumerate() {
            let Some(leaf) = self.node_of(host.leaf) else {
                continue;
            };
            let qps = workloads.iter();
            let qps = qps
                .map(|work| work.qps_of(HostId(index as u32)).count())
                .sum();
            let config = tuned_host(plan.host(&self.fabric, index, qps));
            self.check_background(host, &config)?;
            let number = self.stations.len();
            let mut station =
                Station::new(Host::new(config)?, ARRIVE | place(leaf, host.port.index()));
            let mut first_qpn = 0;
            for (number, work) in workloads.iter().enumerate() {
                let is_silent = number == 0 && index % 2 == 1;
                let work = if is_silent { &second } else { work };
                station.is_timed |= work.config().kind == WorkloadKind::Trace;
                let base = station
                    .tasks
                    .last()
                    .map_or(0, |task| task.base + task.script.qps().count() as u32);
                let script = work.script(HostId(index as u32));
                for qp in script.qps() {
                    let peer: &FabricHost = &hosts[qp.peer.0 as usize];
                    if self.node_of(peer.leaf).is_none() {
                        let (from, to) = (host.name.clone(), peer.name.clone());
                        return Err(SimError::Slice { from, to });
                    }
                    let config = numbered(qp.config(peer.address), first_qpn);
                    station
                        .host
                        .open_qp(config)
                        .map_err(|error| SimError::Open {
                            host: host.name.clone(),
                            error,
                        })?;
                }
                // Numbers of the next workload begin behind all that this one may give.
                first_qpn += work.config().hosts * work.config().qps;
                station.tasks.push(Task { script, base });
            }
            self.nodes[leaf].out[host.port.index()] = Out::to_host(self.net.switches + number);
            self.station_of_host[index] = number;
            self.stations.push(station);
        }
        self.flows_all = match self.config.slice.is_empty() {
            true => workloads.iter().map(Workload::flows).sum(),
            false => 0,
        };
        Ok(())
    }

    /// Background traffic crosses the whole fabric: no slice has all of it.
    fn check_background(&self, host: &FabricHost, config: &HostConfig) -> Result<(), SimError> {
        let peers = config.background.iter().flat_map(|b| [b.to, b.from]);
        for peer in peers.flatten() {
            let peer = self.fabric.hosts.iter().find(|h| h.address == peer);
            if let Some(peer) = peer
                && self.node_of(peer.leaf).is_none()
            {
                let (from, to) = (host.name.clone(), peer.name.clone());
                return Err(SimError::Slice { from, to });
            }
        }
        Ok(())
    }

    /// Puts in the faults and the known failures that are there from the start.
    fn break_links(&mut self) {
        for index in 0..self.fabric.links.len() {
            if !self.fabric.links[index].faults.is_empty() {
                let faults = self.fabric.links[index].faults.clone();
                self.set_faults(index, faults);
            }
        }
        for (switch, port) in self.fabric.disabled.clone() {
            if let Some(node) = self.node_of(switch) {
                let command = pipeline::report::Command::SetEnabled {
                    port,
                    enabled: false,
                };
                self.command(Nanos(0), node, command);
            }
        }
    }
}

/// What differs from a testbed: ports are served in time, links have a length, and tables are as
/// large as the fabric needs.
fn tune(fabric: &mut Fabric, testbed: &TestbedConfig, travel_ns: u64) {
    let flows = 2 * u32::from(testbed.leaves) * u32::from(testbed.hosts_per_leaf);
    for switch in &mut fabric.switches {
        let config = &mut switch.config;
        // A departure is due at a whole nanosecond; what that rounds is caught up on.
        config.queue.slack_ns = 1;
        config.measurement.path_delay_ns_max = path_delay_ns_max(testbed) + travel_ns;
        config.measurement.rows_max = flows.clamp(*ROWS.start(), *ROWS.end());
        debug_assert!(config.ports.iter().any(|port| port.kind != PortKind::Host));
    }
}

fn tuned_host(config: HostConfig) -> HostConfig {
    HostConfig {
        slack_ns: 1,
        // Of a frame there are its headers alone.
        check_icrc: false,
        receive_window_packets: (4 * config.window_packets).next_power_of_two().max(256),
        ..config
    }
}

fn numbered(config: QpConfig, first: u32) -> QpConfig {
    QpConfig {
        local_qpn: Qpn(config.local_qpn.0 + first),
        remote_qpn: Qpn(config.remote_qpn.0 + first),
        ..config
    }
}
