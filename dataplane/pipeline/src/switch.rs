//! The switch: its state, what leaves it, and what time, control and links do to it.
//!
//! `crate::forward` is the other half: what happens to a packet that arrives. `crate::speak` is
//! what the switch itself sends.

use packet::{MacAddr, ethernet};

use crate::change::host_ports;
use crate::config::{Peer, PortConfig, PortKind, Role, SwitchConfig};
use crate::counters::{Counters, Note, PortCounters};
use crate::destination::{Counting, Destination};
use crate::exit::Exit;
use crate::gateway::{self, Gateway};
use crate::known::Known;
use crate::link::Holds;
use crate::link_state::LinkState;
use crate::port::{MEASURED, PRIORITIES, Queues, Reserve};
use crate::red::Red;
use crate::report::{Command, Report};
use crate::route::RouteTable;
use crate::source::Source;
use crate::spine::SpineCounts;
use crate::spray::Sprayer;
use crate::token::{Sink, Token};
use crate::types::{FANOUT_MAX, LeafId, LeafSet, Nanos, PortId, SpineId, SpineSet};

/// A port as the packet path sees it.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Port {
    pub(crate) kind: PortKind,
    /// The neighbour's MAC address and its own, as a frame has them.
    pub(crate) macs: [u8; 12],
    /// Packets and bytes received.
    rx_packets: u64,
    rx_bytes: u64,
    pub(crate) accept_any_mac: bool,
    pub(crate) enabled: bool,
    /// The number of the spine or leaf at its other end.
    pub(crate) peer: u16,
    /// Ports of one scope treat a flow alike: a host port is its own, a leaf's uplinks are one.
    pub(crate) scope: u32,
    /// Counts changes of MAC addresses of its neighbours.
    pub(crate) version: u32,
    /// The bits of a frame's first eight bytes that must be as in `link`: those of its own MAC
    /// address or, where any will do, that of a group.
    link_mask: u64,
    link: u64,
}

const _: () = assert!(size_of::<Port>() == 64, "one cache line");

/// Scope of a leaf's uplinks.
const UPLINKS: u32 = u32::MAX;

impl Port {
    fn new(index: usize, config: &PortConfig, role: Role) -> Port {
        let (peer, scope) = match (config.kind, role) {
            (PortKind::Fabric(Peer::Spine(spine)), Role::Leaf(_)) => (spine.0, UPLINKS),
            (PortKind::Fabric(Peer::Spine(spine)), Role::Spine(_)) => (spine.0, index as u32),
            (PortKind::Fabric(Peer::Leaf(leaf)), _) => (leaf.0, index as u32),
            (PortKind::Host, _) => (0, index as u32),
        };
        let [a, b, c, d, e, f] = config.mac.0;
        let (link_mask, link) = if config.accept_any_mac {
            (1, 0)
        } else {
            ((1 << 48) - 1, u64::from_le_bytes([a, b, c, d, e, f, 0, 0]))
        };
        let mut macs = [0; 12];
        macs[..6].copy_from_slice(&config.peer_mac.0);
        macs[6..].copy_from_slice(&config.mac.0);
        Port {
            macs,
            rx_packets: 0,
            rx_bytes: 0,
            kind: config.kind,
            accept_any_mac: config.accept_any_mac,
            enabled: true,
            peer,
            scope,
            version: 0,
            link_mask,
            link,
        }
    }

    /// Its own MAC address.
    pub(crate) fn mac(&self) -> MacAddr {
        MacAddr::read(&self.macs, ethernet::SOURCE)
    }

    /// The MAC address of its neighbour.
    pub(crate) fn peer_mac(&self) -> MacAddr {
        MacAddr::read(&self.macs, ethernet::DESTINATION)
    }

    /// Counts what it has received.
    #[inline(always)]
    pub(crate) fn count_received(&mut self, packets: u64, bytes: u64) {
        self.rx_packets += packets;
        self.rx_bytes += bytes;
    }

    /// Whether a frame that begins with these bytes is for the switch.
    #[inline(always)]
    pub(crate) fn takes(&self, link: u64) -> bool {
        (link ^ self.link) & self.link_mask == 0
    }
}

/// A host whose MAC address is configured, as the packet path sees it. No route leads to one whose
/// is not: it is learned.
#[derive(Clone, Copy)]
pub(crate) struct Host {
    pub(crate) mac: MacAddr,
    pub(crate) port: usize,
}

impl Host {
    /// All hosts of a configuration.
    pub(crate) fn all(config: &SwitchConfig) -> Vec<Host> {
        let hosts = config.hosts.iter();
        let hosts = hosts.map(|host| Host {
            mac: host.mac.unwrap_or_default(),
            port: usize::from(host.port),
        });
        hosts.collect()
    }
}

/// What only a leaf has.
pub(crate) struct Leaf {
    pub(crate) id: LeafId,
    pub(crate) sprayer: Sprayer,
    pub(crate) source: Source,
    pub(crate) destination: Destination,
    pub(crate) link_state: LinkState,
    /// Port of each spine.
    pub(crate) uplinks: Box<[usize; FANOUT_MAX]>,
    /// Usable spines by destination leaf, as the sprayer has them.
    pub(crate) usable: Vec<SpineSet>,
}

/// What only a spine has.
pub(crate) struct Spine {
    pub(crate) id: SpineId,
    pub(crate) counts: SpineCounts,
    /// Port of each leaf.
    pub(crate) downlinks: Vec<usize>,
    pub(crate) next_message_at: Nanos,
    pub(crate) sequence: u32,
}

/// Leaf or spine.
pub(crate) enum State {
    Leaf(Box<Leaf>),
    Spine(Box<Spine>),
}

/// A whole switch. Deterministic: the same configuration, seed and calls give the same packets,
/// reports and counters.
///
/// What every packet meets stands in front, in a few cache lines: a driver of many switches finds them
/// cold each time.
#[repr(C, align(64))]
pub struct Switch<T> {
    pub(crate) state: State,
    pub(crate) ports: Vec<Port>,
    pub(crate) known: Known,
    pub(crate) exit: Exit<T>,
    pub(crate) counters: Counters,
    pub(crate) hosts: Vec<Host>,
    pub(crate) routes: RouteTable,
    pub(crate) dscp_priority: [u8; 64],
    /// Priorities of tagged packets, if their PCP counts and not their DSCP.
    pub(crate) pcp_priority: Option<[u8; 8]>,
    pub(crate) gateway: Gateway,
    pub(crate) holds: Holds,
    pub(crate) message_port: u16,
    pub(crate) leaves: u16,
    pub(crate) spines: u16,
    pub(crate) link_state_ns: Option<u64>,
}

/// What waits in devices when a switch begins is taken in within this.
const SETTLE_NS: u64 = 1_000_000_000;

/// No port: a fabric may lack links.
pub(crate) const NO_PORT: usize = usize::MAX;

impl<T: Token> Switch<T> {
    /// The switch of such a configuration. All memory it will ever use is allocated here.
    pub fn new(config: &SwitchConfig) -> Switch<T> {
        let ports: Vec<Port> = config
            .ports
            .iter()
            .enumerate()
            .map(|(index, port)| Port::new(index, port, config.role))
            .collect();
        let place = |peer: Peer| {
            ports
                .iter()
                .position(|port| port.kind == PortKind::Fabric(peer))
                .unwrap_or(NO_PORT)
        };
        let uplinks = std::array::from_fn(|spine| place(Peer::Spine(SpineId(spine as u16))));
        let state = match config.role {
            Role::Leaf(id) => State::Leaf(Box::new(Leaf {
                id,
                sprayer: Sprayer::new(
                    config.policy,
                    config.tie,
                    config.leaves,
                    &uplinks,
                    config.seed,
                ),
                source: Source::new(host_ports(config), config.leaves, &config.measurement),
                destination: Destination::new(
                    id,
                    config.leaves,
                    config.spines,
                    &config.measurement,
                ),
                link_state: LinkState::new(config.leaves, config.spines, config.link_state_ns),
                uplinks: Box::new(uplinks),
                usable: vec![SpineSet::EMPTY; usize::from(config.leaves)],
            })),
            Role::Spine(id) => State::Spine(Box::new(Spine {
                id,
                counts: SpineCounts::new(id.0, config.leaves),
                downlinks: (0..config.leaves)
                    .map(|leaf| place(Peer::Leaf(LeafId(leaf))))
                    .collect(),
                next_message_at: Nanos(0),
                sequence: 0,
            })),
        };
        let mut switch = Switch {
            ports,
            hosts: Host::all(config),
            routes: RouteTable::new(&gateway::routes(config)),
            known: Known::new(),
            exit: Exit {
                queues: Queues::new(
                    &config.queue,
                    Reserve::of(config),
                    config.ports.iter().map(|p| (p.rate_bps, p.frame_max_bytes)),
                ),
                red: config.queue.ecn.iter().any(Option::is_some).then(|| {
                    let rates = config.ports.iter().map(|port| port.rate_bps);
                    Box::new(Red::new(&config.queue, rates, config.seed))
                }),
                cut: 0,
            },
            counters: Counters::default(),
            state,
            dscp_priority: config
                .queue
                .dscp_priority
                .map(|priority| priority.min(MEASURED - 1)),
            pcp_priority: config
                .queue
                .pcp_priority
                .map(|table| table.map(|priority| priority.min(MEASURED - 1))),
            gateway: Gateway::new(config),
            holds: Holds::new(config.hold_down_ns, config.ports.len()),
            message_port: config.message_port,
            leaves: config.leaves,
            spines: config.spines,
            link_state_ns: config.link_state_ns,
        };
        for port in 0..switch.ports.len() {
            switch.exit.queues.set_macs(port, switch.ports[port].macs);
            switch.note_link(port);
        }
        switch.refresh_usable();
        switch
    }

    /// The next packet that may leave `port` now. Call until `None`, or until the wire is full.
    #[inline]
    pub fn egress(&mut self, now: Nanos, port: PortId) -> Option<T> {
        let token = self.exit.queues.dequeue_one(now, port.index())?;
        self.counters.tx += 1;
        self.counters.queued -= 1;
        Some(token)
    }

    /// Adds what may leave `port` now to `out`, first to last, up to `room` packets. Returns how
    /// many.
    #[inline]
    pub fn egress_burst(
        &mut self,
        now: Nanos,
        port: PortId,
        room: usize,
        out: &mut impl Extend<T>,
    ) -> usize {
        let sent = self.exit.queues.dequeue(now, port.index(), room, out);
        self.counters.tx += sent as u64;
        self.counters.queued -= sent as u64;
        sent
    }

    /// When [`Switch::egress`] will next have a packet for `port`; `None` while none is queued.
    #[inline]
    pub fn next_departure(&self, port: PortId) -> Option<Nanos> {
        self.exit.queues.next_departure(port.index())
    }

    /// The first port from `from` on that has something queued, for drivers of many ports.
    #[inline]
    pub fn next_busy(&mut self, from: usize) -> Option<PortId> {
        self.exit
            .queues
            .next_busy(from)
            .map(|port| PortId(port as u16))
    }

    /// A port that was given a packet since it was last told here, for drivers that come to a port
    /// by events. Such a driver does not walk with [`Switch::next_busy`].
    #[inline(always)]
    pub fn take_woken(&mut self) -> Option<PortId> {
        self.exit
            .queues
            .take_woken()
            .map(|port| PortId(port as u16))
    }

    /// Its devices have begun to receive one after the other before `now`, and links to them were up: packets
    /// that came over the later ones meanwhile are lost. What a leaf counts in the first second is judged
    /// with that in mind.
    pub fn begin(&mut self, now: Nanos) {
        if let State::Leaf(leaf) = &mut self.state {
            leaf.destination.settle_until(now.plus(SETTLE_NS));
        }
    }

    /// What time alone causes. Call at least every 100 us.
    pub fn tick<S: Sink<T>>(&mut self, now: Nanos, sink: &mut S) {
        self.gateway.ticked_at = now;
        self.end_holds(now, sink);
        self.exit.queues.watch(now);
        match &mut self.state {
            State::Leaf(_) => self.tick_leaf(now, sink),
            State::Spine(spine) => {
                if self.link_state_ns.is_some() && now >= spine.next_message_at {
                    self.send_link_state(now, sink);
                }
            }
        }
    }

    fn tick_leaf<S: Sink<T>>(&mut self, now: Nanos, sink: &mut S) {
        let State::Leaf(leaf) = &mut self.state else {
            return;
        };
        let mut changed = false;
        while let Some(spine) = leaf.link_state.overdue(now) {
            leaf.destination.disturb(spine);
            self.counters.note(Note::LinkStateChanges);
            changed = true;
        }
        if leaf.source.is_capped(now) {
            self.counters.note(Note::WindowsCapped);
            self.close_window(now, sink);
        }
        self.repeat_closes(now, sink);
        let State::Leaf(leaf) = &mut self.state else {
            return;
        };
        leaf.destination.sweep(now, &mut self.counters);
        self.report_ended(now, sink);
        if changed {
            self.apply_usable(now, sink);
        }
        self.open_window(now, sink);
    }

    /// Carries out a command of control.
    pub fn apply<S: Sink<T>>(&mut self, now: Nanos, command: Command, sink: &mut S) {
        match command {
            Command::Threshold {
                row,
                generation,
                epoch,
                threshold,
            } => {
                if let State::Leaf(leaf) = &mut self.state
                    && !leaf
                        .destination
                        .set_threshold(row, generation, epoch, threshold)
                {
                    self.counters.note(Note::ThresholdsLate);
                }
            }
            Command::ResetMasks => {
                if let State::Leaf(leaf) = &mut self.state {
                    leaf.source.reset_masks();
                }
            }
            Command::SetEnabled { port, enabled } => {
                if let Some(state) = self.ports.get_mut(port.index())
                    && state.enabled != enabled
                {
                    state.enabled = enabled;
                    self.link_changed(now, port.index(), sink);
                }
            }
        }
    }

    pub(crate) fn link_changed<S: Sink<T>>(&mut self, now: Nanos, port: usize, sink: &mut S) {
        self.note_link(port);
        match &mut self.state {
            State::Leaf(_) => self.apply_usable(now, sink),
            State::Spine(_) if self.link_state_ns.is_some() => self.send_link_state(now, sink),
            State::Spine(_) => {}
        }
    }

    /// Whether routing may use the link of a port now.
    pub(crate) fn is_usable(&self, port: usize) -> bool {
        self.exit.queues.is_up(port) && self.ports[port].enabled && !self.holds.is_held(port)
    }

    fn note_link(&mut self, port: usize) {
        let usable = self.is_usable(port);
        if let (State::Leaf(leaf), PortKind::Fabric(Peer::Spine(spine))) =
            (&mut self.state, self.ports[port].kind)
        {
            leaf.link_state.set_link(spine.index(), usable);
        }
    }

    /// Gives the sprayer what is usable now. True when the open window's spines have changed.
    fn refresh_usable(&mut self) -> bool {
        let State::Leaf(leaf) = &mut self.state else {
            return false;
        };
        let mut window_changed = false;
        for index in 0..leaf.usable.len() {
            let id = LeafId(index as u16);
            let usable = if id == leaf.id {
                SpineSet::EMPTY
            } else {
                leaf.link_state.usable(id)
            };
            let before = std::mem::replace(&mut leaf.usable[index], usable);
            if before == usable {
                continue;
            }
            leaf.sprayer.set_usable(id, usable);
            window_changed |= leaf.source.lose_paths(id, before.without(usable));
        }
        window_changed
    }

    /// A window counts over one set of spines: a change ends it, and the next one begins.
    pub(crate) fn apply_usable<S: Sink<T>>(&mut self, now: Nanos, sink: &mut S) {
        if self.refresh_usable() {
            self.close_window(now, sink);
        }
    }

    /// A spine says which leaves it reaches.
    pub(crate) fn spine_heard<S: Sink<T>>(
        &mut self,
        now: Nanos,
        spine: SpineId,
        reaches: LeafSet,
        sink: &mut S,
    ) {
        let State::Leaf(leaf) = &mut self.state else {
            return;
        };
        let changed = leaf.link_state.heard(now, spine.index(), reaches);
        if changed.is_empty() {
            return;
        }
        self.counters.note(Note::LinkStateChanges);
        // Its way to other leaves is no part of the paths that end here.
        if changed.has(leaf.id.index()) {
            leaf.destination.disturb(spine.index());
        }
        self.apply_usable(now, sink);
    }

    /// Queues a packet, or counts why not. True when it is queued.
    #[inline(always)]
    pub(crate) fn enqueue<S: Sink<T>>(
        &mut self,
        port: usize,
        priority: u8,
        token: T,
        sink: &mut S,
    ) -> bool {
        let len = token.wire_len();
        if self.exit.queues.is_oversize(port, len) {
            self.tell_too_big(port, &token, sink);
        }
        let Switch { exit, counters, .. } = self;
        let is_queued = exit.enqueue((port, priority), token, len, counters, sink);
        counters.queued += u64::from(is_queued);
        is_queued
    }

    /// Queues a message between switches, or counts why not. True when it is queued.
    pub(crate) fn enqueue_message<S: Sink<T>>(
        &mut self,
        (port, priority): (usize, u8),
        token: T,
        sink: &mut S,
    ) -> bool {
        let Switch { exit, counters, .. } = self;
        let is_queued = exit.enqueue_message((port, priority), token, counters, sink);
        counters.queued += u64::from(is_queued);
        is_queued
    }

    /// Hands all windows whose time has come to control.
    pub(crate) fn report_ended<S: Sink<T>>(&mut self, now: Nanos, sink: &mut S) {
        let State::Leaf(leaf) = &mut self.state else {
            return;
        };
        if !leaf.destination.has_ended(now) {
            return;
        }
        while let Some(report) = leaf.destination.take_ended(now, &mut self.counters) {
            if !sink.report(Report::Window(report)) {
                self.counters.note(Note::ReportsLost);
            }
        }
    }

    /// Puts all traffic into the queue of the measured flow, whatever its class: nothing has priority.
    /// For comparison with switches that give none; before the first packet.
    pub fn share_queue(&mut self) {
        self.dscp_priority = [MEASURED; 64];
        self.pcp_priority = None;
    }

    /// Counters of the switch.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Counters of a port.
    pub fn port_counters(&self, port: PortId) -> PortCounters {
        let Port {
            rx_packets,
            rx_bytes,
            ..
        } = self.ports[port.index()];
        PortCounters {
            rx_packets,
            rx_bytes,
            ..self.exit.queues.counters(port.index())
        }
    }

    /// How many ports it has.
    pub fn ports_len(&self) -> usize {
        self.ports.len()
    }

    /// Bytes queued on `port` at `priority` and above.
    pub fn depth_bytes(&self, port: PortId, priority: u8) -> u64 {
        self.exit.queues.depth_bytes(port.index(), priority)
    }

    /// For how long each queue of `port` that has packets has waited to be served, in nanoseconds, as
    /// last looked at ([`crate::port::serve::WATCH_NS`]).
    pub fn unserved_ns(&self, port: PortId) -> [u64; PRIORITIES] {
        self.exit.queues.unserved_ns(port.index())
    }

    /// Whether the link of `port` is up.
    pub fn is_up(&self, port: PortId) -> bool {
        self.exit.queues.is_up(port.index())
    }

    /// Usable spines towards `leaf` (leaves only).
    pub fn usable(&self, leaf: LeafId) -> SpineSet {
        match &self.state {
            State::Leaf(state) => state.usable[leaf.index()],
            State::Spine(_) => SpineSet::EMPTY,
        }
    }

    /// The failed-paths bitmap: spines whose last count was below its threshold, by source leaf.
    pub fn failed_paths(&self) -> &[SpineSet] {
        match &self.state {
            State::Leaf(leaf) => leaf.destination.failed_paths(),
            State::Spine(_) => &[],
        }
    }

    /// The window that a leaf began last to count; none of a spine.
    pub fn counting(&self) -> Option<Counting<'_>> {
        match &self.state {
            State::Leaf(leaf) => leaf.destination.counting(),
            State::Spine(_) => None,
        }
    }

    /// Bytes of measurement state, allocated at start.
    pub fn measurement_bytes(&self) -> usize {
        match &self.state {
            State::Leaf(leaf) => leaf.destination.state_bytes() + leaf.source.state_bytes(),
            State::Spine(spine) => spine.counts.state_bytes(),
        }
    }

    /// Both conservation laws: of the switch and of every port.
    pub fn is_conserved(&self) -> bool {
        self.counters.is_conserved() && self.exit.queues.is_conserved()
    }
}
