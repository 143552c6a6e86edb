//! The hosts of a testbed: software RNICs at the leaves' host ports, and the workload on them.

use config::fabric::Fabric;
use dpdk::{Burst, Mempool};
use endpoint::workload::{FlowTotals, HostId, Post, Script, Workload};
use endpoint::{Event, Host, QpId};
use pipeline::Nanos;

use crate::wire::Wire;

/// Frames that a host sends in one round at most.
const BURST: usize = 32;

struct Node {
    host: Host,
    script: Script,
    /// Its link to the leaf, and the one from it.
    outgoing: usize,
    incoming: usize,
}

/// All hosts.
pub struct Hosts {
    nodes: Vec<Node>,
    /// Flows that could not be posted: a fault of the testbed itself.
    refused: u64,
    frame_bytes_max: usize,
    ended: Vec<(usize, Event)>,
}

impl Hosts {
    /// The hosts of `fabric`; their links follow its own from `first_wire` on, two per host.
    pub fn new(fabric: &Fabric, first_wire: usize) -> Hosts {
        let workload = fabric.workload();
        let nodes: Vec<Node> = fabric
            .hosts
            .iter()
            .enumerate()
            .map(|(index, _)| {
                let mut host = Host::new(fabric.host_config(index)).expect("the configuration was checked");
                let script = workload.script(HostId(index as u32));
                for plan in script.qps() {
                    let peer = fabric.hosts[plan.peer.0 as usize].address;
                    host.open_qp(plan.config(peer)).expect("the plan fits the host");
                }
                Node {
                    host,
                    script,
                    outgoing: first_wire + 2 * index,
                    incoming: first_wire + 2 * index + 1,
                }
            })
            .collect();
        Hosts {
            nodes,
            refused: 0,
            frame_bytes_max: fabric.frame_bytes_max(),
            ended: Vec::with_capacity(64),
        }
    }

    /// Posts the first flows.
    pub fn start(&mut self, now: Nanos) {
        let Hosts { nodes, refused, .. } = self;
        for Node { host, script, .. } in nodes {
            script.start(&mut |post| put(host, now, post, refused));
        }
    }

    /// Takes what has arrived. Returns packets moved.
    pub fn receive(&mut self, now: Nanos, wires: &mut [Wire]) -> usize {
        let mut burst = Burst::new();
        let mut moved = 0;
        for index in 0..self.nodes.len() {
            let node = &mut self.nodes[index];
            let wire = &mut wires[node.incoming];
            if wire.is_idle() {
                continue;
            }
            wire.receive(now, &mut burst);
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
        let Hosts { nodes, refused, ended, .. } = self;
        let Node { host, script, .. } = &mut nodes[index];
        while let Some(event) = host.poll_event() {
            if let Event::Failed { .. } = event {
                ended.push((index, event));
            }
            script.on_event(&event, &mut |post| put(host, now, post, refused));
        }
        while let Some((index, event)) = self.ended.pop() {
            if let Event::Failed { qp, .. } = event {
                self.tell_peer(now, index, qp);
            }
        }
    }

    /// A connection of host `index` has failed: its other end waits in vain.
    fn tell_peer(&mut self, now: Nanos, index: usize, qp: QpId) {
        let Hosts { nodes, refused, .. } = self;
        let Some(plan) = nodes[index].script.qps().find(|plan| plan.id == qp).copied() else { return };
        let Node { host, script, .. } = &mut nodes[plan.peer.0 as usize];
        let other = script.qps().find(|p| p.peer.0 as usize == index && p.lane == plan.lane).map(|p| p.id);
        if let Some(other) = other {
            script.on_peer_failed(other, &mut |post| put(host, now, post, refused));
        }
    }

    /// Sends what is due. Returns packets moved.
    pub fn transmit(&mut self, now: Nanos, pool: &Mempool, wires: &mut [Wire]) -> usize {
        let mut burst = Burst::new();
        let mut moved = 0;
        for node in &mut self.nodes {
            if node.host.next_transmit(now.0).is_none_or(|at| at > now.0) {
                continue;
            }
            let wire = &mut wires[node.outgoing];
            for _ in 0..wire.room().min(BURST) {
                // Without a buffer the host simply sends later.
                let Some(mut mbuf) = pool.alloc() else { break };
                if mbuf.set_len(self.frame_bytes_max).is_err() {
                    break;
                }
                let Some(emitted) = node.host.transmit(now.0, mbuf.data_mut()) else { break };
                if mbuf.set_len(emitted.wire_len as usize).is_err() || burst.push(mbuf).is_err() {
                    break;
                }
            }
            moved += burst.len();
            wire.send(now, &mut burst);
        }
        moved
    }

    /// Timeouts.
    pub fn tick(&mut self, now: Nanos) {
        for index in 0..self.nodes.len() {
            let host = &mut self.nodes[index].host;
            if host.next_timer().is_some_and(|at| at <= now.0) {
                host.tick(now.0);
                self.events(now, index);
            }
        }
    }

    /// Whether every host has done its part.
    pub fn are_done(&self) -> bool {
        self.nodes.iter().all(|node| node.script.is_done())
    }

    /// The flows of all hosts.
    pub fn totals(&self) -> FlowTotals {
        let mut totals = FlowTotals::default();
        for node in &self.nodes {
            totals += node.script.totals(node.host.counters());
        }
        totals
    }

    /// What must never be: wrong bytes, wrong checksums, frames that hosts cannot take.
    pub fn errors(&self) -> u64 {
        let errors = self.nodes.iter().map(|node| {
            let c = node.host.counters();
            c.payload_errors + c.bad_icrc + c.bad_frame + c.bad_length + c.bad_opcode + c.unknown_qp + c.not_ours
        });
        self.refused + errors.sum::<u64>()
    }
}

fn put(host: &mut Host, now: Nanos, post: Post, refused: &mut u64) {
    if host.post(now.0, post.qp, post.flow).is_err() {
        *refused += 1;
    }
}
