//! The hosts of a testbed: software RNICs at the leaves' host ports, and the workload on them.

use config::fabric::Fabric;
use dpdk::{Burst, Mempool};
use endpoint::workload::{FlowTotals, HostId, Post, Script};
use endpoint::{Event, Host, QpId};
use pipeline::Nanos;

use crate::failure::Failure;
use crate::links::Links;
use crate::plan::Plan;
use crate::wire::Wire;

/// Frames that a host sends in one round at most.
const BURST: usize = 32;

struct Node {
    host: Host,
    script: Script,
    /// Its link to the leaf, and the one from it.
    outgoing: usize,
    incoming: usize,
    /// Its number among the receivers of links: behind all switches.
    receiver: usize,
}

/// All hosts.
pub struct Hosts {
    nodes: Vec<Node>,
    /// Flows that could not be posted: a fault of the testbed itself.
    refused: u64,
    frame_bytes_max: usize,
    /// Connections that have failed and whose peers do not know yet: host and connection.
    failed: Vec<(usize, QpId)>,
}

impl Hosts {
    /// The hosts of `fabric`; their links follow its own from `first_wire` on, two per host.
    ///
    /// # Errors
    /// Names what the hosts cannot be made with.
    pub fn new(plan: &Plan<'_>, fabric: &Fabric, first_wire: usize) -> Result<Hosts, Failure> {
        let mut nodes = Vec::with_capacity(fabric.hosts.len());
        for index in 0..fabric.hosts.len() {
            let workload = plan.workload_of(index).map_err(Failure::usage)?;
            let script = workload.script(HostId(index as u32));
            let config = plan.host(fabric, index, script.qps().count());
            let mut host = Host::new(config).map_err(Failure::usage)?;
            for qp in script.qps() {
                let peer = fabric.hosts[qp.peer.0 as usize].address;
                host.open_qp(qp.config(peer)).map_err(Failure::usage)?;
            }
            nodes.push(Node {
                host,
                script,
                outgoing: first_wire + 2 * index,
                incoming: first_wire + 2 * index + 1,
                receiver: fabric.switches.len() + index,
            });
        }
        Ok(Hosts {
            nodes,
            refused: 0,
            frame_bytes_max: plan.frame_bytes_max() as usize,
            failed: Vec::with_capacity(64),
        })
    }

    /// Posts the first flows.
    pub fn start(&mut self, now: Nanos) {
        let Hosts { nodes, refused, .. } = self;
        for Node { host, script, .. } in nodes {
            script.start(&mut |post| put(host, now, post, refused));
        }
    }

    /// Takes what has arrived. Returns packets moved.
    pub fn receive(&mut self, now: Nanos, links: &mut Links) -> usize {
        let mut burst = Burst::new();
        let mut moved = 0;
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            if links.next_waiting(node.receiver, 0).is_none() {
                continue;
            }
            let Some(wire) = links.wire_mut(node.incoming) else {
                continue;
            };
            wire.receive(now, &mut burst);
            links.settle(node.incoming);
            moved += burst.len();
            for frame in burst.iter() {
                node.host.receive(now.0, frame.data(), frame.len());
            }
            burst.clear();
            self.events(now, index);
        }
        moved
    }

    fn events(&mut self, now: Nanos, index: usize) {
        let Hosts {
            nodes,
            refused,
            failed,
            ..
        } = self;
        let Node { host, script, .. } = &mut nodes[index];
        while let Some(event) = host.poll_event() {
            if let Event::Failed { qp, .. } = event {
                failed.push((index, qp));
            }
            script.on_event(&event, &mut |post| put(host, now, post, refused));
        }
        while let Some((index, qp)) = self.failed.pop() {
            self.tell_peer(now, index, qp);
        }
    }

    /// A connection of host `index` has failed: its other end waits in vain.
    fn tell_peer(&mut self, now: Nanos, index: usize, qp: QpId) {
        let Hosts { nodes, refused, .. } = self;
        let Some(plan) = nodes[index]
            .script
            .qps()
            .find(|plan| plan.id == qp)
            .copied()
        else {
            return;
        };
        let Node { host, script, .. } = &mut nodes[plan.peer.0 as usize];
        let other = script
            .qps()
            .find(|p| p.peer.0 as usize == index && p.lane == plan.lane)
            .map(|p| p.id);
        if let Some(other) = other {
            script.on_peer_failed(other, &mut |post| put(host, now, post, refused));
        }
    }

    /// Sends what is due. Returns packets moved.
    pub fn transmit(&mut self, now: Nanos, pool: &Mempool, links: &mut Links) -> usize {
        let mut burst = Burst::new();
        let mut moved = 0;
        for node in &mut self.nodes {
            if node.host.next_transmit(now.0).is_none_or(|at| at > now.0) {
                continue;
            }
            let room = links.wire(node.outgoing).map_or(0, Wire::room);
            for _ in 0..room.min(BURST) {
                // Without a buffer the host simply sends later.
                let Some(mut mbuf) = pool.alloc() else { break };
                if mbuf.set_len(self.frame_bytes_max).is_err() {
                    break;
                }
                let Some(emitted) = node.host.transmit(now.0, mbuf.data_mut()) else {
                    break;
                };
                if mbuf.set_len(emitted.wire_len as usize).is_err() || burst.push(mbuf).is_err() {
                    break;
                }
            }
            moved += burst.len();
            links.send(now, node.outgoing, &mut burst);
        }
        moved
    }

    /// Timeouts.
    pub fn tick(&mut self, now: Nanos) {
        for index in 0..self.nodes.len() {
            let Hosts { nodes, refused, .. } = self;
            let Node { host, script, .. } = &mut nodes[index];
            if script.next_start().is_some_and(|at| at <= now.0) {
                script.on_time(now.0, &mut |post| put(host, now, post, refused));
            }
            if host.next_timer().is_some_and(|at| at <= now.0) {
                host.tick(now.0);
                self.events(now, index);
            }
        }
    }

    /// Whether every host has done its part; ends background traffic when that is so.
    pub fn are_done(&mut self) -> bool {
        let are_done = self.nodes.iter().all(|node| node.script.is_done());
        if are_done {
            // What nobody measures would go on for ever.
            for node in &mut self.nodes {
                node.host.stop_background();
            }
        }
        are_done
    }

    /// The flows of all hosts.
    pub fn totals(&self) -> FlowTotals {
        let mut totals = FlowTotals::default();
        for node in &self.nodes {
            totals += node.script.totals();
            totals.count(node.host.counters());
        }
        totals
    }

    /// What must never be: wrong bytes, wrong checksums, frames that hosts cannot take.
    pub fn errors(&self) -> u64 {
        let errors = self.nodes.iter().map(|node| {
            let c = node.host.counters();
            c.payload_errors
                + c.bad_icrc
                + c.bad_frame
                + c.bad_length
                + c.bad_opcode
                + c.unknown_qp
                + c.not_ours
        });
        self.refused + errors.sum::<u64>()
    }
}

fn put(host: &mut Host, now: Nanos, post: Post, refused: &mut u64) {
    if host.post(now.0, post.qp, post.flow).is_err() {
        *refused += 1;
    }
}
