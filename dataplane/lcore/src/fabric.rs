//! The poll loop of a testbed: all switches, links and hosts of a fabric, run to completion on
//! one lcore.
//!
//! One round: every link is emptied into the switch or host at its end (pull), every host and
//! every egress port sends what is due (push), and what time alone causes is done (tick). Fabric
//! time advances by a fixed step per round, so a run depends on its seed alone, not on the speed
//! of the machine or a stalled core.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub use ::fabric::report::{Ending, LinkOutcome};
use agent::control::Shared;
use config::fabric::Fabric;
use dpdk::{Burst, Eal, Mempool};
use endpoint::workload::FlowTotals;
use pipeline::report::Command;
use pipeline::{Counters, Nanos, PortCounters, PortId, Switch, Token};

use crate::failure::Failure;
use crate::hosts::Hosts;
use crate::links::Links;
use crate::packet::{Departing, LcoreSink, Packet};
use crate::pcap::Writer;
use crate::plan::Plan;
use crate::taps::Taps;
use crate::trace::Trace;
use crate::wire::Wire;

/// Rounds between two looks at the clock, the stop flag and the published counters.
const ROUNDS_PER_LOOK: u64 = 256;
/// Rounds without a packet after which the lcore lets others have its CPU. Shorter gaps belong to a
/// busy fabric, whose time goes on by rounds: giving way in each would only slow it down.
const IDLE_ROUNDS: u64 = 16;
/// Packets that one port moves in one round at most.
const BURST: usize = 32;

/// A switch and the links of its ports.
struct Node {
    switch: Switch<Packet>,
    /// Per port, the link that ends there.
    incoming: Vec<usize>,
    /// Per port, the link that begins there.
    outgoing: Vec<usize>,
    /// Ports whose outgoing link has faults and may go down, and whether it is up.
    moody: Vec<(PortId, bool)>,
}

/// What a run leaves behind.
pub struct Outcome {
    /// Why it ended.
    pub ending: Ending,
    /// Counters of each switch and its ports, and whether both conservation laws hold.
    pub switches: Vec<(Counters, Vec<PortCounters>, bool)>,
    /// Per fabric link in the order of the configuration: packets sent, lost, damaged.
    pub links: Vec<LinkOutcome>,
    /// Whether every link's law holds.
    pub links_conserved: bool,
    /// Packets still on links.
    pub in_flight: u64,
    /// Packets that links lost or damaged.
    pub link_injected: u64,
    /// The hosts' flows.
    pub flows: FlowTotals,
    /// Whether a host saw a wrong byte, and other things that must not be.
    pub host_errors: u64,
    /// Link traversals.
    pub packet_hops: u64,
    /// Fabric time at the end.
    pub now: Nanos,
    /// Wall-clock time of the loop.
    pub elapsed: Duration,
    /// Captures that could not be written to their end, and why.
    pub capture_errors: Vec<String>,
    /// Packet buffers that were not given back: a leak.
    pub leaked: u32,
    /// The recorded calls, if recording was asked for.
    pub trace: Option<Trace>,
}

/// All of a testbed.
pub struct FabricLoop {
    now: Nanos,
    step_ns: u64,
    settle_ns: u64,
    limit: Duration,
    /// Packets of a port after which all ports of its switch send.
    burst: usize,
    nodes: Vec<Node>,
    links: Links,
    fabric_wires: usize,
    hosts: Hosts,
    sink: LcoreSink,
    shared: Shared,
    pool: Mempool,
    messages: Mempool,
    trace: Option<Trace>,
}

impl FabricLoop {
    /// Builds the fabric. Everything that a run needs is allocated here.
    ///
    /// # Errors
    /// When DPDK has no memory for the rings, or the hosts cannot run the workload.
    pub fn new(
        eal: &Eal,
        plan: &Plan<'_>,
        fabric: &Fabric,
        pool: Mempool,
        messages: Mempool,
        shared: Shared,
        record: bool,
    ) -> Result<FabricLoop, Failure> {
        let mut nodes: Vec<Node> = fabric
            .switches
            .iter()
            .map(|switch| Node {
                switch: Switch::new(&switch.config),
                incoming: vec![usize::MAX; switch.config.ports.len()],
                outgoing: vec![usize::MAX; switch.config.ports.len()],
                moody: Vec::with_capacity(switch.config.ports.len()),
            })
            .collect();
        let of_switches = nodes.iter().map(|node| node.incoming.len());
        let mut links = Links::new(of_switches.chain(fabric.hosts.iter().map(|_| 1)));
        for (index, link) in fabric.links.iter().enumerate() {
            let (from, to) = (&link.from, &link.to);
            let wire = Wire::new(eal, &format!("link{index}"), &link.faults, link.seed)?;
            if !link.faults.is_empty() {
                nodes[from.0].moody.push((from.1, true));
            }
            let wire = links.add(wire, to.0, to.1.index());
            nodes[from.0].outgoing[from.1.index()] = wire;
            nodes[to.0].incoming[to.1.index()] = wire;
        }
        let fabric_wires = fabric.links.len();
        if let Some(folder) = &plan.config.pcap_dir {
            capture_links(folder, fabric, links.all_mut())?;
        }
        for (index, host) in fabric.hosts.iter().enumerate() {
            let port = host.port.index();
            let wire = Wire::new(eal, &format!("host{index}tx"), &[], 0)?;
            nodes[host.leaf].incoming[port] = links.add(wire, host.leaf, port);
            let wire = Wire::new(eal, &format!("host{index}rx"), &[], 0)?;
            nodes[host.leaf].outgoing[port] = links.add(wire, fabric.switches.len() + index, 0);
        }
        for node in &mut nodes {
            node.moody.sort_unstable_by_key(|&(port, _)| port);
        }
        let mut loop_ = FabricLoop {
            now: Nanos(0),
            step_ns: plan.config.step.nanos(),
            settle_ns: plan.settle_ns(),
            limit: Duration::from_nanos(plan.config.limit.nanos()),
            burst: if plan.config.interleave {
                1
            } else {
                plan.config.burst.max(1) as usize
            },
            hosts: Hosts::new(plan, fabric, fabric_wires)?,
            nodes,
            links,
            fabric_wires,
            sink: LcoreSink {
                pool: messages.clone(),
                seam: Arc::clone(&shared.seam),
                switch: 0,
                taps: Taps::new(0),
            },
            shared,
            pool,
            messages,
            trace: record.then(Trace::default),
        };
        for &(switch, port) in &fabric.disabled {
            let command = Command::SetEnabled {
                port,
                enabled: false,
            };
            loop_.apply(switch, command);
        }
        Ok(loop_)
    }

    /// Runs until the workload is done, the limit has passed or somebody says stop.
    pub fn run(mut self) -> Outcome {
        let started = Instant::now();
        let mut round = 0u64;
        let mut busy_rounds = 0u64;
        let mut idle_rounds = 0u64;
        let mut done_at = None;
        let mut last_busy = Nanos(0);
        self.hosts.start(self.now);
        let ending = loop {
            self.now = self.now.plus(self.step_ns);
            let pulled = self.pull();
            let pushed = self.push();
            self.tick();
            if pulled + pushed > 0 {
                busy_rounds += 1;
                last_busy = self.now;
                idle_rounds = 0;
            } else {
                idle_rounds += 1;
                if idle_rounds >= IDLE_ROUNDS {
                    std::thread::yield_now();
                }
            }
            round += 1;
            if round.is_multiple_of(ROUNDS_PER_LOOK) {
                self.commands();
                self.publish(round, busy_rounds);
                if self.shared.status.stop.load(Ordering::Relaxed) {
                    break Ending::Stopped;
                }
                if started.elapsed() >= self.limit {
                    break Ending::Limit;
                }
            }
            if self.hosts.are_done() {
                let at = *done_at.get_or_insert(self.now);
                if self.now >= at.plus(self.settle_ns) {
                    break Ending::Done;
                }
            } else if self.now >= last_busy.plus(60_000_000_000) {
                break Ending::Stuck;
            }
        };
        self.publish(round, busy_rounds);
        self.outcome(ending, started.elapsed())
    }

    /// Empties every link into what is at its end. Returns packets moved.
    fn pull(&mut self) -> usize {
        let mut burst = Burst::new();
        let mut moved = 0;
        for (index, node) in self.nodes.iter_mut().enumerate() {
            self.sink.switch = index as u16;
            let mut from = 0;
            while let Some(place) = self.links.next_waiting(index, from) {
                from = place + 1;
                let link = node.incoming[place];
                let Some(wire) = self.links.wire_mut(link) else {
                    continue;
                };
                let port = PortId(place as u16);
                wire.receive(self.now, &mut burst);
                moved += burst.len();
                self.sink.taps.received(self.now, index, port, &burst);
                self.sink.taps.drive(self.now, Some(port));
                let mut packets = burst.drain();
                while packets.len() > 0 {
                    let is_full = packets.len() >= self.burst;
                    let taken = packets.by_ref().take(self.burst).map(Packet::from);
                    match &mut self.trace {
                        None => node
                            .switch
                            .ingress_burst(self.now, port, taken, &mut self.sink),
                        Some(trace) => {
                            let (now, sink) = (self.now, &mut self.sink);
                            let taken = taken.inspect(|packet| {
                                trace.ingress(index, now, port, packet.header());
                            });
                            node.switch.ingress_burst(now, port, taken, sink);
                        }
                    }
                    if is_full {
                        let (links, taps) = (&mut self.links, &self.sink.taps);
                        drain_ports(node, index, self.now, links, &mut self.trace, taps);
                    }
                }
                drop(packets);
                while let Some(mbuf) = damaged(&mut self.links, link) {
                    moved += 1;
                    let packet = Packet::from(mbuf);
                    if let Some(trace) = &mut self.trace {
                        trace.damaged(index, self.now, port, packet.header());
                    }
                    node.switch.ingress_damaged(port, packet, &mut self.sink);
                }
                self.links.settle(link);
            }
        }
        moved + self.hosts.receive(self.now, &mut self.links)
    }

    /// Every host and every egress port sends what is due. Returns packets moved.
    fn push(&mut self) -> usize {
        let mut moved = self.hosts.transmit(self.now, &self.pool, &mut self.links);
        for (index, node) in self.nodes.iter_mut().enumerate() {
            let (links, taps) = (&mut self.links, &self.sink.taps);
            moved += drain_ports(node, index, self.now, links, &mut self.trace, taps);
        }
        moved
    }

    fn tick(&mut self) {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            self.sink.switch = index as u16;
            for (port, was_up) in &mut node.moody {
                let (port, link) = (*port, node.outgoing[port.index()]);
                self.sink.taps.drive(self.now, Some(port));
                let is_up = self
                    .links
                    .wire(link)
                    .is_none_or(|wire| wire.is_up(self.now));
                if is_up != *was_up {
                    *was_up = is_up;
                    if let Some(trace) = &mut self.trace {
                        trace.link(index, self.now, port, is_up);
                    }
                    node.switch.set_link(self.now, port, is_up, &mut self.sink);
                }
            }
            self.sink.taps.drive(self.now, None);
            if let Some(trace) = &mut self.trace {
                trace.tick(index, self.now);
            }
            node.switch.tick(self.now, &mut self.sink);
        }
        self.hosts.tick(self.now);
    }

    fn commands(&mut self) {
        self.sink.taps.refresh(&self.sink.seam);
        while let Some(mut change) = self.shared.links.next_change(0) {
            let node = self.nodes.get_mut(change.switch);
            if let (Some(node), Some(wire)) = (node, self.links.wire_mut(change.device.0)) {
                wire.swap_faults(&mut change.faults);
                // From now on it may go down. Ports are looked at in their order.
                let port = change.port;
                if let Err(at) = node.moody.binary_search_by_key(&port, |&(port, _)| port) {
                    node.moody.insert(at, (port, true));
                }
            }
            self.shared.links.give_back(change);
        }
        while let Some(mut to) = self.shared.seam.orders_of(0).pop() {
            let switch = usize::from(to.part);
            if let Some(node) = self.nodes.get_mut(switch) {
                self.sink.switch = to.part;
                self.sink.taps.drive(self.now, None);
                let (order, sink) = (&mut to.order, &mut self.sink);
                order.carry_out(self.now, &mut node.switch, sink);
            }
            self.shared.seam.give_back(to);
        }
        while let Some(to) = self.shared.seam.commands_of(0).pop() {
            self.apply(usize::from(to.switch), to.command);
        }
    }

    fn apply(&mut self, switch: usize, command: Command) {
        let Some(node) = self.nodes.get_mut(switch) else {
            return;
        };
        self.sink.switch = switch as u16;
        self.sink.taps.drive(self.now, None);
        if let Some(trace) = &mut self.trace {
            trace.command(switch, self.now, command);
        }
        node.switch.apply(self.now, command, &mut self.sink);
    }

    fn publish(&self, round: u64, busy_rounds: u64) {
        for (node, published) in self.nodes.iter().zip(self.shared.published.iter()) {
            published.publish(&node.switch);
        }
        let status = &self.shared.status;
        for status in std::iter::once(&**status).chain(self.shared.lcores.iter()) {
            status.rounds.store(round, Ordering::Relaxed);
            status.busy_rounds.store(busy_rounds, Ordering::Relaxed);
            status.now_ns.store(self.now.0, Ordering::Relaxed);
        }
        let totals = self.hosts.totals();
        status
            .flows_ended
            .store(totals.completed + totals.failed, Ordering::Relaxed);
    }

    fn outcome(self, ending: Ending, elapsed: Duration) -> Outcome {
        let FabricLoop {
            now,
            nodes,
            mut links,
            fabric_wires,
            hosts,
            pool,
            messages,
            trace,
            sink,
            ..
        } = self;
        let wires = links.all_mut();
        let of_links: Vec<LinkOutcome> = wires[..fabric_wires]
            .iter()
            .map(|wire| LinkOutcome {
                seen: wire.sent,
                lost: wire.lost + wire.corrupted,
            })
            .collect();
        let switches = nodes
            .iter()
            .map(|Node { switch, .. }| {
                let ports = (0..switch.ports_len()).map(|p| switch.port_counters(PortId(p as u16)));
                (
                    switch.counters().clone(),
                    ports.collect(),
                    switch.is_conserved(),
                )
            })
            .collect();
        let mut outcome = Outcome {
            ending,
            switches,
            links_conserved: wires.iter().all(Wire::is_conserved),
            in_flight: wires.iter().map(Wire::in_flight).sum(),
            link_injected: of_links.iter().map(|link| link.lost).sum(),
            links: of_links,
            flows: hosts.totals(),
            host_errors: hosts.errors(),
            packet_hops: wires.iter().map(|wire| wire.sent).sum(),
            now,
            elapsed,
            capture_errors: wires
                .iter_mut()
                .filter_map(Wire::end_capture)
                .map(|error| error.to_string())
                .collect(),
            leaked: 0,
            trace,
        };
        // What was queued or on its way goes back to the pool; then nothing may be out.
        drop((nodes, links, hosts, sink));
        outcome.leaked = pool.in_use() + messages.in_use();
        outcome
    }
}

fn damaged(links: &mut Links, link: usize) -> Option<dpdk::Mbuf> {
    links.wire_mut(link)?.receive_damaged()
}

/// One capture per link of the fabric, named like `leaf3-to-spine5.pcap`: what its
/// sending end puts in, so that what a fault loses is in it.
fn capture_links(folder: &Path, fabric: &Fabric, wires: &mut [Wire]) -> Result<(), Failure> {
    let wrong = |path: &Path, error: std::io::Error| {
        Failure::environment(format!("pcap-dir: {}: {error}", path.display()))
    };
    std::fs::create_dir_all(folder).map_err(|error| wrong(folder, error))?;
    for (link, wire) in fabric.links.iter().zip(wires) {
        let name = link.link.to_string().replace('>', "-to-");
        let path = folder.join(format!("{name}.pcap"));
        wire.capture_into(Writer::create(&path).map_err(|error| wrong(&path, error))?);
    }
    Ok(())
}

/// Sends what is due on all ports of a switch, as far as the links take it. Ports with empty queues
/// are not looked at: in a large fabric most are.
fn drain_ports(
    node: &mut Node,
    index: usize,
    now: Nanos,
    links: &mut Links,
    trace: &mut Option<Trace>,
    taps: &Taps,
) -> usize {
    let mut burst = Burst::new();
    let mut moved = 0;
    let mut from = 0;
    while let Some(port) = node.switch.next_busy(from) {
        from = port.index() + 1;
        if node.switch.next_departure(port).is_none_or(|at| at > now) {
            continue;
        }
        let link = node.outgoing[port.index()];
        let Some(wire) = links.wire(link) else {
            continue;
        };
        let room = wire.room().min(BURST);
        node.switch
            .egress_burst(now, port, room, &mut Departing(&mut burst));
        if let Some(trace) = trace {
            for mbuf in &*burst {
                trace.egress(index, now, port, mbuf.data());
            }
        }
        moved += burst.len();
        taps.sent(now, index, port, &burst);
        links.send(now, link, &mut burst);
    }
    moved
}
