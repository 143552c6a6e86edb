//! What is changed of a running switch: routes, hosts and neighbours, the spray, measuring.
//!
//! Control makes a [`Change`] with all the memory that it needs, the driver hands it to
//! [`Switch::change`] between two packets, and what was in its place goes back in it, so that an
//! lcore neither allocates nor frees. No packet is lost by it: queues, counters, learned neighbours
//! and what the sprayer has counted stay.
//!
//! A window is of one configuration. The one that this leaf has open is closed before anything
//! changes, and is right as far as it went. Those that it counts as a destination may be of both
//! when routes or measuring change: they end as void ([`crate::WindowReport::is_changed`]).

use crate::config::{Measurement, PortKind, SwitchConfig};
use crate::gateway::{self, Gateway};
use crate::neighbor::Neighbor;
use crate::route::{NextHop, RouteTable};
use crate::source::Searcher;
use crate::spray::{Policy, Tie};
use crate::switch::{Host, State, Switch};
use crate::token::{Sink, Token};
use crate::types::{Nanos, PortId};

/// Routes, hosts and neighbours.
struct Routing {
    routes: RouteTable,
    hosts: Vec<Host>,
    gateway: Gateway,
}

/// How windows are cut and counted.
struct Measuring {
    measurement: Measurement,
    searcher: Searcher,
}

/// A change on its way to an instance of a switch, or what it has replaced on the way back.
pub struct Change {
    routing: Option<Routing>,
    spray: Option<(Policy, Tie)>,
    measuring: Option<Measuring>,
    /// Windows that run at their destination are void whatever else changes.
    is_void: bool,
}

impl Change {
    /// Nothing changes in the switch, but windows that run at their destination are void: they are to
    /// be judged otherwise.
    pub fn of_rules() -> Change {
        Change {
            routing: None,
            spray: None,
            measuring: None,
            is_void: true,
        }
    }

    /// The same, and windows that run at their destination are void.
    pub fn and_rules(self) -> Change {
        Change {
            is_void: true,
            ..self
        }
    }

    /// What makes a switch of configuration `new` out of one of `old`; `None` if nothing does.
    ///
    /// Ports, queues, the protocol and the size of tables are taken as equal: they cannot change while
    /// a switch runs.
    pub fn between(old: &SwitchConfig, new: &SwitchConfig) -> Option<Change> {
        let routes = |config: &SwitchConfig| {
            (
                config.routes.clone(),
                config.hosts.clone(),
                config.gateway.clone(),
            )
        };
        let change = Change {
            routing: (routes(old) != routes(new)).then(|| Routing {
                routes: RouteTable::new(&gateway::routes(new)),
                hosts: Host::all(new),
                gateway: Gateway::new(new),
            }),
            spray: ((old.policy, old.tie) != (new.policy, new.tie))
                .then_some((new.policy, new.tie)),
            measuring: (old.measurement != new.measurement).then(|| Measuring {
                measurement: new.measurement.clone(),
                searcher: Searcher::new(host_ports(new), new.leaves, &new.measurement),
            }),
            is_void: false,
        };
        let is_something =
            change.routing.is_some() || change.spray.is_some() || change.measuring.is_some();
        is_something.then_some(change)
    }

    /// Whether windows that run at their destination end by it.
    pub fn voids_windows(&self) -> bool {
        self.is_void || self.routing.is_some() || self.measuring.is_some()
    }
}

/// Ports up to the last that has hosts.
pub(crate) fn host_ports(config: &SwitchConfig) -> usize {
    let is_host = |port: &crate::config::PortConfig| port.kind == PortKind::Host;
    let last = config.ports.iter().rposition(is_host);
    last.map_or(0, |last| last + 1)
}

impl<T: Token> Switch<T> {
    /// Takes a change in, and puts what it replaces into its place.
    pub fn change<S: Sink<T>>(&mut self, now: Nanos, change: &mut Change, sink: &mut S) {
        // The paper's windows have no close to end them with.
        if !matches!(&self.state, State::Leaf(leaf) if leaf.source.is_paper()) {
            self.end_window(now, sink);
        }
        if change.voids_windows()
            && let State::Leaf(leaf) = &mut self.state
        {
            leaf.destination.void_running();
        }
        if let Some(routing) = &mut change.routing {
            self.change_routing(now, routing);
        }
        if let State::Leaf(leaf) = &mut self.state {
            if let Some((policy, tie)) = change.spray {
                leaf.sprayer.set_policy(policy, tie);
            }
            if let Some(measuring) = &mut change.measuring {
                let Measuring {
                    measurement,
                    searcher,
                } = measuring;
                leaf.source.configure(measurement, searcher);
                leaf.destination.configure(measurement);
            }
        }
        self.repeat_closes(now, sink);
        self.open_window(now, sink);
    }

    fn change_routing(&mut self, now: Nanos, routing: &mut Routing) {
        let Routing {
            routes,
            hosts,
            gateway,
        } = routing;
        std::mem::swap(&mut self.routes, routes);
        std::mem::swap(&mut self.hosts, hosts);
        std::mem::swap(&mut self.gateway, gateway);
        self.gateway.ticked_at = gateway.ticked_at;
        // What was learned stays learned where the address still belongs to the port.
        for (port, neighbor) in gateway.neighbors.known() {
            if self.routes.lookup(neighbor.address) == Some(NextHop::Port(port as u16)) {
                self.gateway.neighbors.restore(now, port, neighbor);
            }
        }
        self.known.forget();
        let routes = &self.routes;
        if let State::Leaf(leaf) = &mut self.state {
            let leads = |address, leaf| routes.leaf_of(address) == Some(leaf);
            leaf.source.keep_where(leads);
        }
    }
}

impl<T: Token> Switch<T> {
    /// Tells the neighbours that were learned or asked for, with their ports: those at places from
    /// `from` on, up to `room` of them. The place that comes next, if there are more.
    pub fn neighbors(
        &self,
        from: usize,
        room: usize,
        take: impl FnMut(PortId, Neighbor),
    ) -> Option<usize> {
        let mut take = take;
        let neighbors = &self.gateway.neighbors;
        neighbors.list(from, room, |port, neighbor| {
            take(PortId(port as u16), neighbor);
        })
    }
}
