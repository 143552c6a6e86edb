//! The account of a run: every frame's fate, and the laws that all of them together must fulfil.
//!
//! A link counts nothing on the way. What it was given is what its sending port has sent, and what
//! came out what the port at its other end has received; the difference was lost, or is under way.

use std::collections::BTreeMap;
use std::time::Duration;

use agent::core::Core;
use agent::result::TestbedResult;
use config::Change;
use endpoint::workload::FlowTotals;
use pipeline::{Counters, Nanos, PortCounters, PortId};

use crate::engine::Engine;
use crate::net::{ARRIVE, DAMAGED, HOST_ARRIVE, KIND, place};
use crate::plan::Plan;
use crate::report::{Ending, LinkOutcome, Run, result};

/// What is left of a run.
#[derive(Debug)]
pub struct Account {
    /// Counters of each switch of the fabric and its ports, and whether its laws hold; those out of
    /// the slice are empty.
    pub switches: Vec<(Counters, Vec<PortCounters>, bool)>,
    /// Per fabric link.
    pub links: Vec<LinkOutcome>,
    /// Whether every link's law holds.
    pub links_conserved: bool,
    /// Frames under way.
    pub in_flight: u64,
    /// The hosts' flows.
    pub flows: FlowTotals,
    /// Frames that are nowhere.
    pub leaked: u32,
    /// What must not be at hosts.
    pub host_errors: u64,
}

impl Engine {
    /// Checks all laws and adds up.
    pub fn account(&self) -> Account {
        let mut under_way: BTreeMap<u32, u64> = BTreeMap::new();
        for what in self.net.wheel.pending() {
            let kind = if what & KIND == DAMAGED {
                ARRIVE
            } else {
                what & KIND
            };
            *under_way.entry(kind | (what & !KIND)).or_default() += 1;
        }
        let in_flight = under_way.values().sum();
        let on_way = |what: u32| under_way.get(&what).copied().unwrap_or(0);
        let counters =
            |node: usize, port: usize| self.nodes[node].switch.port_counters(PortId(port as u16));
        let mut links_conserved = true;
        let mut links = Vec::with_capacity(self.fabric.links.len());
        for link in &self.fabric.links {
            let Some(node) = self.node_of(link.from.0) else {
                links.push(LinkOutcome::default());
                continue;
            };
            let port = link.from.1.index();
            let seen = counters(node, port).tx_packets;
            let special = self.net.special(node, port);
            let special = special.map(|index| &self.net.specials[index]);
            let lost = special.map_or(0, |s| s.lost);
            let out = match self.node_of(link.to.0) {
                Some(to) => {
                    let at = link.to.1.index();
                    counters(to, at).rx_packets + on_way(ARRIVE | place(to, at))
                }
                None => special.map_or(0, |s| s.left),
            };
            links_conserved &= seen == out + lost;
            links.push(LinkOutcome {
                seen,
                lost: lost + special.map_or(0, |s| s.corrupted),
            });
        }
        for (index, host) in self.fabric.hosts.iter().enumerate() {
            let Some(station) = self.stations.get(self.station_of_host[index]) else {
                continue;
            };
            let Some(leaf) = self.node_of(host.leaf) else {
                continue;
            };
            let at_leaf = counters(leaf, host.port.index());
            let to_host = HOST_ARRIVE | place(self.net.switches + self.station_of_host[index], 0);
            links_conserved &= station.sent == at_leaf.rx_packets + on_way(station.to)
                && at_leaf.tx_packets == station.host.counters().frames_received + on_way(to_host);
        }
        let mut switches = Vec::new();
        for index in 0..self.fabric.switches.len() {
            switches.push(match self.node_of(index) {
                Some(node) => {
                    let switch = &self.nodes[node].switch;
                    let ports = (0..switch.ports_len())
                        .map(|port| switch.port_counters(PortId(port as u16)));
                    (
                        switch.counters().clone(),
                        ports.collect(),
                        switch.is_conserved(),
                    )
                }
                None => (Counters::default(), Vec::new(), true),
            });
        }
        let queued: u64 = switches.iter().map(|(c, _, _)| c.queued).sum();
        let mut flows = FlowTotals::default();
        for station in &self.stations {
            flows += station.totals();
        }
        let stations = self.stations.iter();
        Account {
            leaked: self.net.sink.out().abs_diff(queued + in_flight) as u32,
            switches,
            links,
            links_conserved,
            in_flight,
            flows,
            host_errors: stations.map(|station| station.errors()).sum(),
        }
    }

    /// Judges what is left to judge, and tells it all.
    pub fn finish(mut self, ending: Ending, elapsed: Duration) -> TestbedResult {
        let now = Nanos(self.now_ns);
        self.end();
        let account = self.account();
        // Faults that came later are told as well.
        for (time, change) in &self.config.changes {
            if let Change::Fail(list) = change {
                for fault in &list.0 {
                    let links = &mut self.fabric.links;
                    if let Some(link) = links.iter_mut().find(|link| link.link == fault.link) {
                        link.specs.push(format!("{} from {time}", fault.spec()));
                    }
                }
            }
        }
        let run = Run {
            ending,
            switches: &account.switches,
            links: &account.links,
            links_conserved: account.links_conserved,
            in_flight: account.in_flight,
            link_injected: account.links.iter().map(|link| link.lost).sum(),
            flows: account.flows,
            host_errors: account.host_errors,
            packet_hops: self.net.hops,
            now,
            elapsed,
            leaked: account.leaked,
        };
        let plan = Plan {
            config: &self.config.testbed,
        };
        result(&plan, &self.fabric, &run, &mut self.core)
    }

    /// Control takes what is left, and judges it.
    pub fn end(&mut self) {
        self.control(Nanos(self.now_ns));
        self.core.finish();
    }

    /// The farthest that a packet came behind a later one of its flow, at any host.
    pub fn behind_max(&self) -> u64 {
        let stations = self.stations.iter();
        let behind = stations.map(|s| s.host.counters().out_of_order_distance_max);
        behind.max().unwrap_or(0)
    }

    /// When the last flow of each host was done, in nanoseconds.
    pub fn ended_ns(&self) -> Vec<u64> {
        let stations = self.stations.iter();
        stations.map(|station| station.totals().ended_ns).collect()
    }

    /// What control has found so far.
    pub fn core(&self) -> &Core {
        &self.core
    }

    /// The links that control would name now.
    pub fn named(&mut self) -> detector::Localization {
        self.core.locate()
    }

    /// Link traversals so far.
    pub fn hops(&self) -> u64 {
        self.net.hops
    }
}
