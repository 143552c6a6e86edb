//! The loop: opens the next window of time, lets each switch and host do its events of it, and sends
//! on what comes out.
//!
//! Switches send as soon as a packet is queued and their link is free; a port is come back to only
//! while it has something queued. What time alone causes in switches, and control, come at a fixed
//! tick. No call of the loop asks a port or a host that has nothing to do.

use std::collections::VecDeque;
use std::time::Instant;

use agent::core::Core;
use agent::seam::Body;
use config::SimConfig;
use config::fabric::Fabric;
use endpoint::QpId;
use pipeline::report::Command;
use pipeline::{Nanos, PortId};

use crate::frame::Frame;
use crate::net::{
    ARRIVE, DAMAGED, DEPART, HOST_ARRIVE, HOST_SEND, HOST_TIMER, KIND, Net, Node, of_place,
    owner_of,
};
use crate::report::Ending;
use crate::station::Station;
use crate::wheel::Event;

/// Hops between two looks at the clock on the wall, and windows at most.
const HOPS_PER_LOOK: u64 = 1 << 15;
const WINDOWS_PER_LOOK: u32 = 1 << 13;
/// One of so many windows is timed, when the parts' shares are asked for.
const WINDOWS_PER_SAMPLE: u32 = 7;
/// Events whose needs are asked for at a time ([`Engine::foresee`]).
const BLOCK: usize = 8;
/// Places of flows that are kept from the first look to the second: of the blocks under way.
pub(crate) const PLACES: usize = 2 * BLOCK;
/// The masks are reset and old counts expire this often (paper 3.4).
const RESET_NS: u64 = 60_000_000_000;
/// Without a frame of a host for so long nothing will come any more: retransmissions of all tries
/// together take a tenth of it.
const STUCK_NS: u64 = 10_000_000_000;

/// How far a run is.
#[derive(Clone, Copy, Debug)]
pub struct Status {
    /// Simulated time, in nanoseconds.
    pub now_ns: u64,
    /// Link traversals so far.
    pub hops: u64,
    /// Flows that have ended, and all that there will be.
    pub flows: (u64, u64),
}

/// Time that the parts took, of the windows that were timed.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shares {
    /// In `pipeline`, as a share of the whole.
    pub pipeline: f64,
    /// In `endpoint`.
    pub endpoint: f64,
    /// In the engine, the rest.
    pub engine: f64,
}

#[derive(Default)]
pub(crate) struct Clock {
    pipeline_ns: u64,
    endpoint_ns: u64,
    windows_ns: u64,
    calls: [u64; 3],
}

/// A simulation under way.
pub struct Engine {
    pub(crate) config: SimConfig,
    pub(crate) fabric: Fabric,
    pub(crate) net: Net,
    pub(crate) nodes: Vec<Node>,
    /// Leaves come first among the nodes; so many.
    pub(crate) leaves: usize,
    /// By leaf of the fabric, its node; `usize::MAX` out of the slice.
    pub(crate) node_of_leaf: Vec<usize>,
    pub(crate) stations: Vec<Station>,
    /// Hosts by their number in the whole fabric.
    pub(crate) station_of_host: Vec<usize>,
    pub(crate) core: Core,
    /// How late commands of control reach switches, and those that are on their way, with when and
    /// to which node.
    pub(crate) control_delay_ns: u64,
    pub(crate) commands: VecDeque<(u64, usize, Command)>,
    pub(crate) tick_ns: u64,
    pub(crate) settle_ns: u64,
    pub(crate) flows_all: u64,
    /// Changes that have come.
    pub(crate) changes_done: usize,
    pub(crate) now_ns: u64,
    pub(crate) tick_at_ns: u64,
    /// Hosts with connections that have failed in this window.
    pub(crate) failed: Vec<usize>,
    /// Index of the task that each change starts, if it does.
    pub(crate) task_of_change: Vec<usize>,
    pub(crate) reset_at_ns: u64,
    pub(crate) done_at: Option<u64>,
    pub(crate) sent_before: u64,
    pub(crate) busy_ns: u64,
    pub(crate) clock: Clock,
    pub(crate) is_started: bool,
    /// Its switches' state does not fit into the CPU's second-level cache.
    pub(crate) is_large: bool,
    /// Of the events ahead, the places of their flows ([`Engine::foresee`]).
    pub(crate) places: [u16; PLACES],
    /// Events of the window whose needs were all asked for, up to this one.
    pub(crate) foreseen: usize,
}

impl Engine {
    /// Takes the measured flow's own queue from it: all traffic shares one queue a port, as without
    /// priorities (paper, Fig. 3). Before the run.
    pub fn forgo_priority(&mut self) {
        for node in &mut self.nodes {
            node.switch.share_queue();
        }
    }

    /// Runs until the workload is done and judged, the scenario's end, or `watch`, which is asked now
    /// and then, tells why to stop.
    pub fn run(&mut self, watch: &mut dyn FnMut(&Status) -> Option<Ending>) -> Ending {
        self.start();
        loop {
            let until = self.net.hops + HOPS_PER_LOOK;
            for _ in 0..WINDOWS_PER_LOOK {
                if let Some(ending) = self.window::<false>() {
                    return ending;
                }
                if self.net.hops >= until {
                    break;
                }
            }
            if let Some(ending) = watch(&self.status()) {
                return ending;
            }
        }
    }

    /// Runs on for so many hops, or until nothing is left to do. True if there is more.
    pub fn run_hops(&mut self, hops: u64) -> bool {
        self.start();
        let until = self.net.hops + hops;
        while self.net.hops < until {
            if self.window::<false>().is_some() {
                return false;
            }
        }
        true
    }

    /// Runs on for so many hops at least, and tells how the time was spent. For benchmarks.
    pub fn run_timed(&mut self, hops: u64) -> Shares {
        self.start();
        let until = self.net.hops + hops;
        self.clock = Clock::default();
        while self.net.hops < until {
            for _ in 1..WINDOWS_PER_SAMPLE {
                self.window::<false>();
            }
            let begun = Instant::now();
            self.window::<true>();
            self.clock.windows_ns += begun.elapsed().as_nanos() as u64;
            self.clock.calls[2] += 1;
        }
        self.shares()
    }

    fn shares(&self) -> Shares {
        // What reading the clock costs is in every figure: once for each call within, and once.
        let begun = Instant::now();
        let count = 10_000;
        for _ in 0..count {
            std::hint::black_box(Instant::now());
        }
        let read_ns = begun.elapsed().as_nanos() as f64 / f64::from(count);
        let [pipeline, endpoint, windows] = self.clock.calls;
        let within = (pipeline + endpoint) as f64;
        let pure = |ns: u64, reads: f64| (ns as f64 - reads * read_ns).max(0.0);
        let all = pure(self.clock.windows_ns, windows as f64 + 2.0 * within).max(1.0);
        let pipeline = pure(self.clock.pipeline_ns, pipeline as f64) / all;
        let endpoint = pure(self.clock.endpoint_ns, endpoint as f64) / all;
        Shares {
            pipeline,
            endpoint,
            engine: (1.0 - pipeline - endpoint).max(0.0),
        }
    }

    /// How far it is.
    pub fn status(&self) -> Status {
        let ended = self.stations.iter().map(|station| {
            let totals = station.totals();
            totals.completed + totals.failed
        });
        Status {
            now_ns: self.now_ns,
            hops: self.net.hops,
            flows: (ended.sum(), self.flows_all),
        }
    }

    fn start(&mut self) {
        if std::mem::replace(&mut self.is_started, true) {
            return;
        }
        self.tick_at_ns = self.tick_ns;
        for (index, station) in self.stations.iter_mut().enumerate() {
            station.start(Nanos(0), index, 0, &mut self.net);
        }
    }

    /// One window of time, or what happens to the whole fabric before the next. Tells whether, and
    /// why, that was the last.
    #[inline(always)]
    fn window<const TIMED: bool>(&mut self) -> Option<Ending> {
        let change_ns = self.config.changes.get(self.changes_done);
        let change_ns = change_ns.map_or(u64::MAX, |(time, _)| time.nanos());
        let limit_ns = self.tick_at_ns.min(change_ns);
        let next_ns = self.net.wheel.next_ns().unwrap_or(u64::MAX);
        if next_ns >= limit_ns {
            self.now_ns = limit_ns;
            return self.together(Nanos(limit_ns));
        }
        self.now_ns = next_ns;
        self.net.wheel.open(next_ns, limit_ns, owner_of);
        if self.is_large {
            self.foresee_first();
        }
        for place in 0..self.net.wheel.owners() {
            self.net.wheel.begin_turn(place);
            while let Some(event) = self.net.wheel.pop() {
                self.handle::<TIMED>(event);
                if self.is_large && self.net.wheel.done() >= self.foreseen {
                    self.foresee();
                }
            }
        }
        self.net.wheel.close();
        self.after_window();
        None
    }

    /// Asks the CPU's caches for what the first events of the window will need.
    #[inline(always)]
    fn foresee_first(&mut self) {
        self.foresee_flows(0);
        self.foresee_flows(BLOCK);
        self.foresee_exits(0);
        self.foreseen = BLOCK;
    }

    /// Asks the CPU's caches for what the next events of the window will need, a block at a time: ports and
    /// flows of what is farther away first, and what those lead to when they have come. They are others
    /// every time, and those of a large fabric lie beyond the second level; what a switch has but once
    /// does not.
    #[inline(never)]
    fn foresee(&mut self) {
        let at = self.foreseen;
        self.foresee_flows(at + BLOCK);
        self.foresee_exits(at);
        self.foreseen = at + BLOCK;
    }

    /// The switch, the port and the frame of each of the block's events that are arrivals at one, and the
    /// event's number.
    #[inline(always)]
    fn arrivals(&self, from: usize) -> impl Iterator<Item = (&Node, PortId, &Frame, usize)> {
        let events = self.net.wheel.ahead(from, BLOCK).iter().zip(from..);
        events.filter_map(|(Event { what, frame, .. }, number)| {
            let (owner, port) = of_place(*what);
            Some((
                self.nodes.get(owner)?,
                PortId(port as u16),
                frame.as_ref()?,
                number,
            ))
        })
    }

    /// First: ports, and what is known of the flows.
    #[inline(always)]
    fn foresee_flows(&mut self, from: usize) {
        let mut places = self.places;
        for (node, port, frame, number) in self.arrivals(from) {
            let place = node.switch.foresee_flow(port, frame);
            places[number % PLACES] = place.unwrap_or(0) as u16;
        }
        self.places = places;
    }

    /// Second: where packets will leave.
    #[inline(always)]
    fn foresee_exits(&self, from: usize) {
        for (node, port, frame, number) in self.arrivals(from) {
            let place = usize::from(self.places[number % PLACES]);
            node.switch.foresee_exit(port, place, frame);
        }
    }

    /// A change that the scenario has for now, else the tick.
    #[cold]
    fn together(&mut self, now: Nanos) -> Option<Ending> {
        let change = self.config.changes.get(self.changes_done);
        if change.is_some_and(|(time, _)| time.nanos() <= now.0) {
            self.changes_done += 1;
            self.change(now, self.changes_done - 1);
            return None;
        }
        self.tick(now);
        self.ending()
    }

    /// Connections that failed in the window: their other ends are told when it is over.
    #[inline(always)]
    fn after_window(&mut self) {
        if !self.failed.is_empty() {
            self.tell_peers();
        }
    }

    #[inline(always)]
    fn handle<const TIMED: bool>(&mut self, event: Event) {
        let now = Nanos(event.at_ns);
        match (event.what & KIND, event.frame) {
            (ARRIVE, Some(frame)) => {
                let (index, port) = of_place(event.what);
                let (node, net) = (&mut self.nodes[index], &mut self.net);
                net.sink.switch = index as u16;
                let begun = TIMED.then(Instant::now);
                node.take(now, PortId(port as u16), frame, &mut net.sink);
                self.clock.add(0, begun);
                node.wake(now, index, net);
            }
            (DEPART, _) => {
                let (index, port) = of_place(event.what);
                self.nodes[index].depart(now, index, PortId(port as u16), &mut self.net);
            }
            (HOST_ARRIVE, Some(frame)) => {
                let index = owner_of(event.what) - self.net.switches;
                let station = &mut self.stations[index];
                let begun = TIMED.then(Instant::now);
                station.receive(now, &frame);
                self.net.sink.give(frame);
                station.go_on(now, index, &mut self.net);
                self.clock.add(1, begun);
                self.note_failed(index);
            }
            (HOST_SEND, _) => {
                let index = owner_of(event.what) - self.net.switches;
                let station = &mut self.stations[index];
                if station.is_send_due(now) {
                    let begun = TIMED.then(Instant::now);
                    station.go_on(now, index, &mut self.net);
                    self.clock.add(1, begun);
                }
            }
            (HOST_TIMER, _) => {
                let index = owner_of(event.what) - self.net.switches;
                let station = &mut self.stations[index];
                if station.tick(now) {
                    station.go_on(now, index, &mut self.net);
                    self.note_failed(index);
                }
            }
            (DAMAGED, Some(frame)) => {
                let (index, port) = of_place(event.what);
                let sink = &mut self.net.sink;
                self.nodes[index]
                    .switch
                    .ingress_damaged(PortId(port as u16), frame, sink);
            }
            // Nothing else is ever entered.
            (_, frame) => {
                if let Some(frame) = frame {
                    self.net.sink.give(frame);
                }
            }
        }
    }

    #[inline(always)]
    fn note_failed(&mut self, index: usize) {
        if !self.stations[index].failed.is_empty() {
            self.failed.push(index);
        }
    }

    /// The other ends of connections that have failed wait in vain.
    #[cold]
    fn tell_peers(&mut self) {
        while let Some(index) = self.failed.pop() {
            self.tell_peers_of(index);
        }
    }

    fn tell_peers_of(&mut self, index: usize) {
        let now = Nanos(self.net.wheel.end_ns());
        while let Some((task, qp)) = self.stations[index].failed.pop() {
            let of = |station: &Station, wanted: &dyn Fn(&endpoint::workload::QpPlan) -> bool| {
                let mut plans = station.tasks[task].script.qps();
                plans.find(|plan| wanted(plan)).copied()
            };
            let Some(plan) = of(&self.stations[index], &|plan| plan.id == qp) else {
                continue;
            };
            let own = self.station_of_host.iter().position(|&s| s == index);
            let peer = self.station_of_host[plan.peer.0 as usize];
            let other: Option<QpId> = self.stations.get(peer).and_then(|station| {
                of(station, &|p| {
                    Some(p.peer.0 as usize) == own && p.lane == plan.lane
                })
                .map(|p| p.id)
            });
            if let Some(other) = other {
                let station = &mut self.stations[peer];
                station.peer_failed(now, task, other);
                station.go_on(now, peer, &mut self.net);
            }
        }
    }

    /// What time alone causes in switches; link states; control.
    fn tick(&mut self, now: Nanos) {
        for (index, node) in self.nodes.iter_mut().enumerate() {
            self.net.sink.switch = index as u16;
            node.switch.tick(now, &mut self.net.sink);
            node.wake(now, index, &mut self.net);
        }
        self.check_links(now);
        self.control(now);
        self.tick_at_ns = now.0 + self.tick_ns;
    }

    /// Tells switches about links that went down or came back.
    pub(crate) fn check_links(&mut self, now: Nanos) {
        for place in 0..self.net.specials.len() {
            let special = &mut self.net.specials[place];
            let is_up = special.is_up(now);
            if is_up == special.was_up {
                continue;
            }
            special.was_up = is_up;
            let (index, port) = (special.node, PortId(special.port as u16));
            let node = &mut self.nodes[index];
            self.net.sink.switch = index as u16;
            node.switch.set_link(now, port, is_up, &mut self.net.sink);
            node.wake(now, index, &mut self.net);
        }
    }

    /// Control takes what switches have reported.
    pub(crate) fn control(&mut self, now: Nanos) {
        let reports = std::mem::take(&mut self.net.sink.reports);
        for report in &reports {
            match &report.body {
                Body::Opened(opened) => {
                    if let Some(command) = self.core.on_opened(opened) {
                        let due_ns = now.0 + self.control_delay_ns;
                        let to = usize::from(report.switch);
                        self.commands.push_back((due_ns, to, command));
                    }
                }
                Body::Window(window) => self.core.on_window(window),
                Body::Dropped(dropped) => self.core.on_dropped(*dropped),
            }
        }
        let mut reports = reports;
        reports.clear();
        // Commands make no reports of windows that opened: the room is kept.
        if self.net.sink.reports.is_empty() {
            self.net.sink.reports = reports;
        }
        while let Some(&(due_ns, ..)) = self.commands.front()
            && due_ns <= now.0
        {
            if let Some((_, to, command)) = self.commands.pop_front() {
                self.command(now, to, command);
            }
        }
        if now.0 >= self.reset_at_ns {
            self.reset_at_ns = now.0 + RESET_NS;
            self.core.expire(detector::Nanos(now.0));
            for index in 0..self.nodes.len() {
                self.command(now, index, Command::ResetMasks);
            }
        }
    }

    pub(crate) fn command(&mut self, now: Nanos, index: usize, command: Command) {
        let node = &mut self.nodes[index];
        self.net.sink.switch = index as u16;
        node.switch.apply(now, command, &mut self.net.sink);
        node.wake(now, index, &mut self.net);
    }

    /// Whether, and why, the run is over; looked at once a tick.
    fn ending(&mut self) -> Option<Ending> {
        let now_ns = self.now_ns;
        if self
            .config
            .until
            .is_some_and(|until| now_ns >= until.nanos())
        {
            return Some(Ending::Done);
        }
        if self.changes_done < self.config.changes.len() {
            self.busy_ns = now_ns;
            return None;
        }
        if self.stations.iter().all(Station::is_done) {
            let done_at = *self.done_at.get_or_insert_with(|| {
                // What nobody measures would go on for ever.
                for station in &mut self.stations {
                    station.host.stop_background();
                }
                now_ns
            });
            return (now_ns >= done_at + self.settle_ns).then_some(Ending::Done);
        }
        let sent = self.stations.iter().map(Station::sent_for_work).sum();
        // A pause of a trace is long as its next flow says.
        let is_due = self.stations.iter().any(Station::starts_later);
        if is_due || sent != self.sent_before {
            self.sent_before = sent;
            self.busy_ns = now_ns;
        }
        (now_ns >= self.busy_ns + STUCK_NS).then_some(Ending::Stuck)
    }
}

impl Clock {
    #[inline(always)]
    fn add(&mut self, part: usize, begun: Option<Instant>) {
        let Some(begun) = begun else {
            return;
        };
        let ns = begun.elapsed().as_nanos() as u64;
        self.calls[part] += 1;
        match part {
            0 => self.pipeline_ns += ns,
            _ => self.endpoint_ns += ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use config::{Bytes, SimConfig, TestbedConfig, Workload};

    use super::*;

    /// Goal: a run whose hosts have work, and send nothing for ten seconds, ends and says so; a frame of a
    /// host puts that off.
    #[test]
    fn a_run_without_progress_ends() {
        let base = TestbedConfig::resolve(None, SimConfig::base()).expect("the defaults are right");
        let mut engine = Engine::new(&SimConfig::of(TestbedConfig {
            leaves: 2,
            spines: 2,
            workload: Workload::Pairs,
            bytes: Bytes::new(16 << 20),
            ..base
        }))
        .expect("it can be built");
        assert!(engine.run_hops(1_000), "there is more to do");
        assert_eq!(engine.ending(), None);
        let stopped_at = engine.now_ns;
        // From here on time goes on alone, as if no switch and no host did anything any more.
        engine.now_ns = stopped_at + STUCK_NS - 1;
        assert_eq!(engine.ending(), None);
        engine.now_ns = stopped_at + STUCK_NS;
        assert_eq!(engine.ending(), Some(Ending::Stuck));
        engine.now_ns = stopped_at;
        assert!(engine.run_hops(1_000), "there is more to do");
        engine.now_ns = stopped_at + STUCK_NS;
        assert_eq!(engine.ending(), None, "a host has sent since");
    }
}
