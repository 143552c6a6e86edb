//! One lcore's share of the switches of a process.
//!
//! Every lcore has an instance of every switch. It polls its receive queues and runs the packets that
//! belong to it through its instances; others it passes to the lcore that their addresses name. A
//! packet for an egress port goes to the lcore that owns the port, which holds its queues and sends.
//! With one lcore both rings are gone and everything is run to completion here.
//!
//! A round, in order: what links have done, what others' queues hold, receive, take over, hand over,
//! accept, send, publish. What time alone causes is [`Worker::tick`].

use std::sync::Arc;
use std::sync::atomic::Ordering;

use agent::operate::Links;
use agent::seam::{FromSwitch, Seam};
use dpdk::{Burst, Mempool, RingReceiver, RingSender};
use pipeline::port::PRIORITIES;
use pipeline::{Claim, DropReason, Nanos, Notice, PortId, Report, Sink, Switch, Token};

use crate::gather::Gather;
use crate::hub::Hub;
use crate::links_up::LinkWord;
use crate::packet::Packet;
use crate::spread;
use crate::taps::Taps;
use crate::trunk::{Inlet, Lane, Outlet, TrunkCounters};

/// Packets that a ring between two lcores holds.
pub const RING_PACKETS: u32 = 1024;
/// Packets of one port that may wait for the ring to its owner; beyond, more are refused.
const STAGED_MAX: u32 = 512;
/// Packets that are accepted from one other lcore in a round.
const ACCEPT_MAX: usize = dpdk::BURST_MAX;
/// Packets of a receive burst that tell of more: some drivers give no more than these at once.
const FULL: usize = 32;

/// An instance of a switch.
pub struct Part {
    /// The instance.
    pub switch: Switch<Packet>,
    /// Its ports, as this lcore sees them.
    ports: Vec<PortPart>,
}

/// A port as one lcore sees it.
struct PortPart {
    owner: usize,
    /// The device that it is on.
    device: usize,
    /// To the owner, if that is another: bytes ever handed over, by priority.
    sent: [u64; PRIORITIES],
    /// The version of the owner's depths that the model is made of, and what was sent by then.
    seen: (u64, [u64; PRIORITIES]),
    /// From the others, if this lcore is the owner: bytes ever accepted, by lcore and priority.
    accepted: Vec<[u64; PRIORITIES]>,
    /// What was published last.
    published: [u64; PRIORITIES],
    has_accepted: bool,
    is_choked: bool,
}

/// The rings between this lcore and one other.
pub struct Rings {
    /// Received packets that belong to the other.
    pub spread_to: RingSender,
    /// Received packets of the other that belong here.
    pub spread_from: RingReceiver,
    /// Packets for ports that the other owns.
    pub hand_to: RingSender,
    /// Packets for ports owned here.
    pub hand_from: RingReceiver,
}

/// Where the instances' packets and reports go.
struct WorkerSink {
    pool: Mempool,
    seam: Arc<Seam>,
    hub: Arc<Hub>,
    lcore: usize,
    lcores: usize,
    /// The switch that is being driven.
    switch: usize,
    taps: Taps,
}

impl WorkerSink {
    /// From now on a switch is being driven, with what one of its ports has received or for itself.
    #[inline(always)]
    fn drive(&mut self, now: Nanos, switch: usize, port: Option<PortId>) {
        self.switch = switch;
        self.taps.drive(now, port);
    }
}

impl Sink<Packet> for WorkerSink {
    fn alloc(&mut self, len: usize) -> Option<Packet> {
        let mut mbuf = self.pool.alloc()?;
        mbuf.set_len(len).ok()?;
        mbuf.data_mut().fill(0);
        Some(Packet::from(mbuf))
    }

    fn discard(&mut self, token: Packet, reason: DropReason) {
        self.taps.dropped(self.switch, reason.name(), token.mbuf());
        drop(token);
    }

    fn consume(&mut self, token: Packet) {
        drop(token);
    }

    fn report(&mut self, report: Report<'_>) -> bool {
        let part = self.switch * self.lcores + self.lcore;
        let report = FromSwitch::new(part as u16, report);
        self.seam.reports.push(report).is_ok()
    }

    fn claim_window(&mut self) -> Claim {
        if self.lcores == 1 {
            return Claim::Own;
        }
        self.hub.slots[self.switch].claim(self.lcore)
    }

    fn release_window(&mut self, epoch: u32) {
        if self.lcores > 1 {
            self.hub.slots[self.switch].release(self.lcore, epoch);
        }
    }

    fn notice(&mut self, notice: Notice) {
        if self.lcores > 1 {
            self.hub.tell(self.lcore, self.switch, notice);
        }
    }
}

/// What a worker is made with.
pub struct Setup {
    /// Its number, from 0, and how many there are.
    pub lcore: (usize, usize),
    /// Its instances, by number of their switch.
    pub switches: Vec<Switch<Packet>>,
    /// Per switch and port: the lcore that owns it, and its device.
    pub owners: Vec<Vec<(usize, usize)>>,
    /// Its receive queues.
    pub inlets: Vec<Inlet>,
    /// The devices that it sends on.
    pub outlets: Vec<Outlet>,
    /// Counters of all devices.
    pub trunks: Arc<Vec<TrunkCounters>>,
    /// Rings to each other lcore; `None` at its own place.
    pub rings: Vec<Option<Rings>>,
    /// Packet memory.
    pub pool: Mempool,
    /// To control.
    pub seam: Arc<Seam>,
    /// What lcores share.
    pub hub: Arc<Hub>,
    /// The links of all devices.
    pub links: Arc<LinkWord>,
    /// What is changed of links while they run.
    pub changes: Arc<Links>,
}

/// One lcore.
pub struct Worker {
    lcore: usize,
    lcores: usize,
    parts: Vec<Part>,
    inlets: Vec<Inlet>,
    outlets: Vec<Outlet>,
    trunks: Arc<Vec<TrunkCounters>>,
    rings: Vec<Option<Rings>>,
    /// Received packets on their way to each other lcore, for one burst.
    leaving: Vec<Burst>,
    links: Arc<LinkWord>,
    links_seen: u64,
    gather: Gather,
    changes: Arc<Links>,
    sink: WorkerSink,
}

/// Where a packet between lcores goes: its switch, port and priority in one number.
fn note_of(switch: usize, port: PortId, priority: u8) -> u32 {
    (switch as u32) << 24 | u32::from(port.0) << 8 | u32::from(priority)
}

fn read_note(note: u32) -> (usize, PortId, u8) {
    (
        (note >> 24) as usize,
        PortId((note >> 8) as u16),
        note as u8,
    )
}

impl Worker {
    /// An lcore that has received nothing yet.
    pub fn new(setup: Setup) -> Worker {
        let (lcore, lcores) = setup.lcore;
        let port = |&(owner, device): &(usize, usize)| PortPart {
            owner,
            device,
            sent: [0; PRIORITIES],
            seen: (0, [0; PRIORITIES]),
            accepted: vec![[0; PRIORITIES]; lcores],
            published: [0; PRIORITIES],
            has_accepted: false,
            is_choked: false,
        };
        let parts = setup.switches.into_iter().zip(&setup.owners);
        Worker {
            lcore,
            lcores,
            parts: parts
                .map(|(switch, owners)| Part {
                    switch,
                    ports: owners.iter().map(port).collect(),
                })
                .collect(),
            inlets: setup.inlets,
            outlets: setup.outlets,
            trunks: setup.trunks,
            rings: setup.rings,
            leaving: (0..lcores).map(|_| Burst::new()).collect(),
            links: setup.links,
            links_seen: 0,
            gather: Gather::default(),
            changes: setup.changes,
            sink: WorkerSink {
                pool: setup.pool,
                seam: setup.seam,
                hub: setup.hub,
                lcore,
                lcores,
                switch: 0,
                taps: Taps::new(lcore),
            },
        }
    }

    /// Its instances, by number of their switch.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// Its devices receive since before `now`, and it begins to look.
    pub fn begin(&mut self, now: Nanos) {
        for part in &mut self.parts {
            part.switch.begin(now);
        }
    }

    /// One round. Returns packets moved.
    #[inline]
    pub fn round(&mut self, now: Nanos) -> usize {
        self.watch_links(now);
        let mut moved = 0;
        if self.lcores > 1 {
            self.see_depths();
        }
        moved += self.receive(now);
        if self.lcores > 1 {
            moved += self.take_over(now);
            moved += self.hand_over();
            moved += self.accept(now);
        }
        for outlet in &mut self.outlets {
            let counters = &self.trunks[outlet.device];
            let (gather, taps) = (&self.gather, &self.sink.taps);
            moved += outlet.send_due(now, &mut self.parts, counters, gather, taps);
        }
        if self.lcores > 1 {
            self.publish_depths();
        }
        moved
    }

    /// What time alone causes, and what others have heard.
    pub fn tick(&mut self, now: Nanos) {
        while let Some((switch, notice)) = self.sink.hub.hear(self.lcore) {
            self.sink.drive(now, switch, None);
            let switch = &mut self.parts[switch].switch;
            switch.take_notice(now, notice, &mut self.sink);
        }
        while let Some(mut change) = self.changes.next_change(self.lcore) {
            let (device, lane) = change.device;
            let mut outlets = self.outlets.iter_mut();
            if let Some(outlet) = outlets.find(|outlet| outlet.device == device) {
                outlet.swap_faults(lane, &mut change.faults);
            }
            self.changes.give_back(change);
        }
        let Worker { parts, sink, .. } = self;
        sink.taps.refresh(&sink.seam);
        let (lcores, lcore) = (self.lcores, self.lcore);
        while let Some(to) = sink.seam.commands_of(lcore).pop() {
            let index = usize::from(to.switch) / lcores;
            if let Some(part) = parts.get_mut(index) {
                sink.drive(now, index, None);
                part.switch.apply(now, to.command, sink);
            }
        }
        while let Some(mut to) = sink.seam.orders_of(lcore).pop() {
            let index = usize::from(to.part) / lcores;
            if let Some(part) = parts.get_mut(index) {
                sink.drive(now, index, None);
                to.order.carry_out(now, &mut part.switch, sink);
            }
            sink.seam.give_back(to);
        }
        for (index, part) in parts.iter_mut().enumerate() {
            sink.drive(now, index, None);
            part.switch.tick(now, sink);
        }
    }

    /// A link that has gone down or come back is told to the instances before anything else.
    #[inline]
    fn watch_links(&mut self, now: Nanos) {
        let version = self.links.version();
        if version == self.links_seen {
            return;
        }
        self.links_seen = version;
        for (index, part) in self.parts.iter_mut().enumerate() {
            for (port, place) in part.ports.iter().zip(0u16..) {
                let up = self.links.is_up(port.device);
                self.sink.drive(now, index, Some(PortId(place)));
                part.switch.set_link(now, PortId(place), up, &mut self.sink);
            }
        }
    }

    /// Brings the models of others' queues up to date.
    fn see_depths(&mut self) {
        for (part, depths) in self.parts.iter_mut().zip(&self.sink.hub.depths) {
            for ((port, depths), place) in part.ports.iter_mut().zip(depths).zip(0u16..) {
                let seen = (depths.version(), port.sent);
                if port.owner == self.lcore || seen == port.seen {
                    continue;
                }
                port.seen = seen;
                let beyond = depths.beyond(self.lcore, &port.sent);
                part.switch.set_depths(PortId(place), &beyond);
            }
        }
    }

    fn receive(&mut self, now: Nanos) -> usize {
        let mut burst = Burst::new();
        let (mut moved, mut is_full) = (0, false);
        for index in 0..self.inlets.len() {
            let inlet = &mut self.inlets[index];
            let count = inlet.rx.receive(&mut burst);
            if count == 0 {
                continue;
            }
            moved += count;
            is_full |= count >= FULL;
            let trunk = &self.trunks[inlet.device];
            trunk.rx.fetch_add(count as u64, Ordering::Relaxed);
            let is_home = self.lcores == 1 || inlet.is_spread;
            if is_home
                && let [lane] = inlet.dealer.lanes()
                && lane.vlan.is_none()
            {
                let taps = &self.sink.taps;
                taps.received(now, lane.switch, lane.port, &burst);
                self.sink.drive(now, lane.switch, Some(lane.port));
                self.parts[lane.switch].switch.ingress_burst(
                    now,
                    lane.port,
                    burst.drain().map(Packet::from),
                    &mut self.sink,
                );
                continue;
            }
            // A run of packets of one port goes in as one burst.
            let mut run = Burst::new();
            let mut of_run: Option<Lane> = None;
            for mut mbuf in burst.drain() {
                let inlet = &self.inlets[index];
                let Some(lane) = inlet.dealer.deal(&mut mbuf, &self.trunks[inlet.device]) else {
                    continue;
                };
                let taps = &self.sink.taps;
                taps.received(now, lane.switch, lane.port, std::slice::from_ref(&mbuf));
                if !is_home {
                    let home = spread::lcore_of(mbuf.data(), self.lcores);
                    if home != self.lcore {
                        mbuf.set_note(note_of(lane.switch, lane.port, 0));
                        let refused = self.leaving[home].push(mbuf);
                        debug_assert!(refused.is_ok(), "no more leave than were received");
                        continue;
                    }
                }
                if of_run != Some(lane) {
                    take(&mut self.parts, &mut self.sink, now, of_run, &mut run);
                    of_run = Some(lane);
                }
                let refused = run.push(mbuf);
                debug_assert!(refused.is_ok(), "a run is no longer than its burst");
            }
            take(&mut self.parts, &mut self.sink, now, of_run, &mut run);
            self.pass_on(now);
        }
        self.gather.received(now, is_full);
        moved
    }

    /// Sends received packets to the lcores they belong to; what a full ring refuses is dropped and
    /// counted as received here.
    fn pass_on(&mut self, now: Nanos) {
        for (leaving, rings) in self.leaving.iter_mut().zip(&mut self.rings) {
            if leaving.is_empty() {
                continue;
            }
            if let Some(rings) = rings {
                rings.spread_to.send_burst(leaving);
            }
            for mbuf in leaving.drain() {
                let (switch, port, _) = read_note(mbuf.note());
                self.sink.drive(now, switch, Some(port));
                self.parts[switch].switch.ingress_refused(
                    port,
                    Packet::from(mbuf),
                    DropReason::SpreadFull,
                    &mut self.sink,
                );
            }
        }
    }

    /// Takes what others have received that belongs here.
    fn take_over(&mut self, now: Nanos) -> usize {
        let mut burst = Burst::new();
        let mut moved = 0;
        for rings in self.rings.iter_mut().flatten() {
            moved += rings.spread_from.receive_burst(&mut burst);
            let mut packets = burst.drain().peekable();
            while let Some(note) = packets.peek().map(dpdk::Mbuf::note) {
                // What one port has received goes in as one burst.
                let of_port = std::iter::from_fn(|| packets.next_if(|mbuf| mbuf.note() == note));
                let (switch, port, _) = read_note(note);
                self.sink.drive(now, switch, Some(port));
                let packets = of_port.map(Packet::from);
                let switch = &mut self.parts[switch].switch;
                switch.ingress_burst(now, port, packets, &mut self.sink);
            }
        }
        moved
    }

    /// Hands what is for others' ports to them, as far as their rings take it.
    fn hand_over(&mut self) -> usize {
        let mut moved = 0;
        for (index, part) in self.parts.iter_mut().enumerate() {
            let mut from = 0;
            while let Some(port) = part.switch.next_busy(from) {
                from = port.index() + 1;
                let state = &mut part.ports[port.index()];
                let Some(Some(rings)) = self.rings.get_mut(state.owner) else {
                    continue;
                };
                let mut room = rings.hand_to.capacity() - rings.hand_to.len();
                while room > 0
                    && let Some((packet, priority, len)) = part.switch.take_staged(port)
                {
                    let mut mbuf = packet.into_mbuf();
                    mbuf.set_note(note_of(index, port, priority));
                    state.sent[usize::from(priority)] += u64::from(len);
                    let refused = rings.hand_to.send(mbuf);
                    debug_assert!(
                        refused.is_ok(),
                        "the ring had room, and has no other sender"
                    );
                    room -= 1;
                    moved += 1;
                }
                let is_choked = part.switch.queued(port) > STAGED_MAX;
                if is_choked != state.is_choked {
                    state.is_choked = is_choked;
                    part.switch.set_choked(port, is_choked);
                }
            }
            if part.ports.iter().any(|port| port.is_choked) {
                unchoke(part);
            }
        }
        moved
    }

    /// Queues what others have admitted to ports of this lcore. What finds no room stays in its ring.
    fn accept(&mut self, now: Nanos) -> usize {
        let mut moved = 0;
        for (from, rings) in self.rings.iter_mut().enumerate() {
            let Some(rings) = rings else { continue };
            if rings.hand_from.is_empty() {
                continue;
            }
            let room = self.parts.iter().map(|part| part.switch.room()).min();
            for _ in 0..room.unwrap_or(0).min(ACCEPT_MAX) {
                let Some(mbuf) = rings.hand_from.receive() else {
                    break;
                };
                let (switch, port, priority) = read_note(mbuf.note());
                self.sink.drive(now, switch, Some(port));
                let part = &mut self.parts[switch];
                let packet = Packet::from(mbuf);
                let state = &mut part.ports[port.index()];
                state.accepted[from][usize::from(priority)] += u64::from(packet.wire_len());
                state.has_accepted = true;
                part.switch.accept(port, priority, packet, &mut self.sink);
                moved += 1;
            }
        }
        moved
    }

    /// Tells the others how deep the queues of this lcore's ports are.
    fn publish_depths(&mut self) {
        for outlet in &self.outlets {
            for lane in outlet.lanes() {
                let part = &mut self.parts[lane.switch];
                let queued = part.switch.queues_bytes(lane.port);
                let state = &mut part.ports[lane.port.index()];
                if queued != state.published || state.has_accepted {
                    (state.published, state.has_accepted) = (queued, false);
                    self.sink.hub.depths[lane.switch][lane.port.index()]
                        .publish(&queued, &state.accepted);
                }
            }
        }
    }

    /// Empties the rings to this lcore once nobody receives any more. Returns packets moved.
    pub fn settle(&mut self, now: Nanos) -> usize {
        self.take_over(now) + self.hand_over() + self.accept(now)
    }

    /// Drops all that is queued, so that every buffer is back with its pool.
    pub fn drain(&mut self, now: Nanos) {
        for (index, part) in self.parts.iter_mut().enumerate() {
            self.sink.drive(now, index, None);
            part.switch.drain(now, &mut self.sink);
        }
    }
}

/// Gives a run of packets to the switch and port they are for.
#[inline]
fn take(
    parts: &mut [Part],
    sink: &mut WorkerSink,
    now: Nanos,
    lane: Option<Lane>,
    run: &mut Burst,
) {
    if let Some(lane) = lane {
        sink.drive(now, lane.switch, Some(lane.port));
        let packets = run.drain().map(Packet::from);
        let switch = &mut parts[lane.switch].switch;
        switch.ingress_burst(now, lane.port, packets, sink);
    }
}

/// Ports that have become empty take packets again.
fn unchoke(part: &mut Part) {
    for (port, place) in part.ports.iter_mut().zip(0u16..) {
        if port.is_choked && part.switch.queued(PortId(place)) <= STAGED_MAX {
            port.is_choked = false;
            part.switch.set_choked(PortId(place), false);
        }
    }
}
