//! What one host does in a workload: its steps, driven by the events of that host alone.
//!
//! A host enters the next step when all it sent in this one is acknowledged and all it was to
//! receive in it has arrived; so hosts stay within a step of those they hear from, without a
//! barrier. A connection that fails is left out from then on, and its flows count as failed.

mod timed;

use std::collections::VecDeque;

use crate::config::Flow;
use crate::counters::Counters;
use crate::event::Event;
use crate::units::QpId;
use crate::verb::Verb;
use crate::workload::{HostId, QpPlan, TraceFlow, Workload};
use timed::deal;

/// A flow to post.
#[derive(Clone, Copy, Debug)]
pub struct Post {
    /// On this connection of the script's host.
    pub qp: QpId,
    /// This.
    pub flow: Flow,
}

/// What became of flows; sums over hosts by `+=`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FlowTotals {
    /// Flows posted, and those that never were because their connection had failed before.
    pub posted: u64,
    /// Of these, flows that an `open` message goes ahead of.
    pub announced: u64,
    /// Flows all of whose packets are acknowledged.
    pub completed: u64,
    /// Flows whose connection gave up.
    pub failed: u64,
    /// Packets sent again; from the counters of the host.
    pub retransmitted: u64,
    /// Packets that arrived a second time; from the counters of the host.
    pub spurious: u64,
    /// Data packets sent, first and again; from the counters of the host.
    pub sent: u64,
    /// Payload bytes that arrived, each once; from the counters of the host.
    pub received_bytes: u64,
    /// Congestion notifications received; from the counters of the host.
    pub cnps: u64,
    /// How far behind the latest a packet was at most; from the counters of the host.
    pub out_of_order_max: u64,
    /// When the last flow that is complete was.
    pub ended_ns: u64,
}

impl FlowTotals {
    /// Adds what a host has counted.
    pub fn count(&mut self, counters: &Counters) {
        self.retransmitted += counters.retransmitted;
        self.spurious += counters.spurious;
        self.sent += counters.sent;
        self.received_bytes += counters.received_bytes;
        self.cnps += counters.cnps_received;
        self.out_of_order_max = self
            .out_of_order_max
            .max(counters.out_of_order_distance_max);
    }
}

impl std::ops::AddAssign for FlowTotals {
    fn add_assign(&mut self, other: FlowTotals) {
        self.posted += other.posted;
        self.announced += other.announced;
        self.completed += other.completed;
        self.failed += other.failed;
        self.retransmitted += other.retransmitted;
        self.spurious += other.spurious;
        self.sent += other.sent;
        self.received_bytes += other.received_bytes;
        self.cnps += other.cnps;
        self.out_of_order_max = self.out_of_order_max.max(other.out_of_order_max);
        self.ended_ns = self.ended_ns.max(other.ended_ns);
    }
}

#[derive(Clone, Debug)]
struct Lane {
    plan: QpPlan,
    /// Flows of a trace that are still to come.
    timed: VecDeque<TraceFlow>,
    received_bytes: u64,
    expected_bytes: u64,
    outstanding: u32,
    is_dead: bool,
}

impl Lane {
    fn lacks_data(&self) -> bool {
        !self.is_dead && self.received_bytes < self.expected_bytes
    }
}

/// The state of one host in a workload.
#[derive(Clone, Debug)]
pub struct Script {
    workload: Workload,
    host: HostId,
    lanes: Vec<Lane>,
    iteration: u32,
    step: u32,
    /// Lanes with flows under way, and lanes that wait for data of this step.
    sending: usize,
    waiting: usize,
    flows: u64,
    now: u64,
    totals: FlowTotals,
}

impl Script {
    pub(crate) fn new(workload: &Workload, host: HostId) -> Script {
        let lanes = workload.qps_of(host).map(|plan| Lane {
            plan,
            timed: VecDeque::new(),
            received_bytes: 0,
            expected_bytes: 0,
            outstanding: 0,
            is_dead: false,
        });
        let mut lanes: Vec<Lane> = lanes.collect();
        deal(workload, host, &mut lanes);
        Script {
            workload: workload.clone(),
            host,
            lanes,
            iteration: 0,
            step: 0,
            sending: 0,
            waiting: 0,
            flows: 0,
            now: 0,
            totals: FlowTotals::default(),
        }
    }

    /// The connections to open, in order.
    pub fn qps(&self) -> impl Iterator<Item = &QpPlan> {
        self.lanes.iter().map(|lane| &lane.plan)
    }

    /// Begins; `post` is told what to send.
    pub fn start(&mut self, post: &mut impl FnMut(Post)) {
        self.post_timed(post);
        if !self.is_timed() && !self.is_done() {
            self.enter(post);
            self.go_on(post);
        }
    }

    /// Takes note of an event of this host; `post` is told what to send next.
    pub fn on_event(&mut self, event: &Event, post: &mut impl FnMut(Post)) {
        match *event {
            Event::SendComplete { qp, ended_ns, .. } => {
                self.now = self.now.max(ended_ns);
                self.totals.ended_ns = self.totals.ended_ns.max(ended_ns);
                let Some(lane) = self.lanes.get_mut(qp.0 as usize) else {
                    return;
                };
                if lane.outstanding > 0 {
                    lane.outstanding -= 1;
                    self.sending -= usize::from(lane.outstanding == 0);
                    self.totals.completed += 1;
                }
            }
            Event::Received { qp, bytes, .. } => {
                let Some(lane) = self.lanes.get_mut(qp.0 as usize) else {
                    return;
                };
                let lacked = lane.lacks_data();
                lane.received_bytes += bytes;
                self.waiting -= usize::from(lacked && !lane.lacks_data());
            }
            Event::Failed { qp, .. } => self.drop_lane(qp),
        }
        self.go_on(post);
    }

    /// The other end of connection `qp` has failed: nothing more will come from there. A driver
    /// that holds both ends says so, since no packet will.
    pub fn on_peer_failed(&mut self, qp: QpId, post: &mut impl FnMut(Post)) {
        self.drop_lane(qp);
        self.go_on(post);
    }

    fn drop_lane(&mut self, qp: QpId) {
        let Some(lane) = self.lanes.get_mut(qp.0 as usize) else {
            return;
        };
        self.waiting -= usize::from(lane.lacks_data());
        self.sending -= usize::from(lane.outstanding > 0);
        let never = lane.timed.len() as u64;
        self.totals.posted += never;
        self.totals.failed += u64::from(lane.outstanding) + never;
        lane.timed.clear();
        lane.outstanding = 0;
        lane.is_dead = true;
    }

    /// Enters steps for as long as nothing holds the host back.
    fn go_on(&mut self, post: &mut impl FnMut(Post)) {
        if self.is_timed() {
            return self.post_timed(post);
        }
        while !self.is_done() && self.sending == 0 && self.waiting == 0 {
            self.step += 1;
            if self.step == self.workload.steps() {
                self.step = 0;
                self.iteration += 1;
            }
            if !self.is_done() {
                self.enter(post);
            }
        }
    }

    /// Posts what is to be sent in this step and notes what is to come.
    fn enter(&mut self, post: &mut impl FnMut(Post)) {
        let config = *self.workload.config();
        for lane in &mut self.lanes {
            let peer = lane.plan.peer;
            let bytes = self.workload.lane_bytes(lane.plan.lane);
            // What a peer reads from here, only the peer knows to be there.
            if config.verb != Verb::Read && self.workload.sends(peer, self.host, self.step) {
                lane.expected_bytes += bytes;
                self.waiting += usize::from(lane.lacks_data());
            }
            if !self.workload.sends(self.host, peer, self.step) {
                continue;
            }
            self.totals.posted += 1;
            self.totals.announced += u64::from(config.announce && !lane.is_dead);
            self.flows += 1;
            if lane.is_dead {
                self.totals.failed += 1;
                continue;
            }
            lane.outstanding += 1;
            self.sending += 1;
            post(Post {
                qp: lane.plan.id,
                flow: Flow {
                    verb: config.verb,
                    flow_id: u64::from(self.host.0) << 40 | self.flows,
                    bytes,
                    message_bytes: config.message_bytes,
                    announce: config.announce,
                },
            });
        }
    }

    /// Whether the host has run all its steps.
    pub fn is_done(&self) -> bool {
        if self.is_timed() {
            return self.sending == 0 && self.lanes.iter().all(|lane| lane.timed.is_empty());
        }
        self.iteration >= self.workload.config().iterations || self.workload.steps() == 0
    }

    /// Iteration and step that the host is in, from 0.
    pub fn position(&self) -> (u32, u32) {
        (self.iteration, self.step)
    }

    /// Its flows so far; [`FlowTotals::count`] adds what its host has counted.
    pub fn totals(&self) -> FlowTotals {
        self.totals
    }
}
