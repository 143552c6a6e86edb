//! A device with the ports that are on it: frames are dealt to ports by the tag of their link, and
//! sent with it.
//!
//! Of a frame the link's own tag is taken off before a switch sees it, and put on behind it; tags of
//! the host's own, behind it, are left alone. A frame with no tag or another one belongs to no port:
//! it is dropped and counted here, for no switch has it.

use std::sync::atomic::{AtomicU64, Ordering};

use dpdk::{Burst, Mbuf};
use pipeline::fault::{Fate, Fault, LinkFaults};
use pipeline::{Nanos, PortId};

use crate::end::{Rx, Tx};
use crate::gather::Gather;
use crate::packet::Departing;
use crate::shares::Shares;
use crate::taps::Taps;
use crate::worker::Part;

/// Bursts that a device sends in one round at most.
const BURSTS_MAX: usize = 16;
/// No port has this tag.
const NOBODY: u8 = u8::MAX;
/// Most ports of a device.
pub const LANES_MAX: usize = NOBODY as usize;
/// VLAN ids that there are.
const VLANS: usize = 4096;

/// A port of a switch on a device.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lane {
    /// Which switch of the process.
    pub switch: usize,
    /// Which of its ports.
    pub port: PortId,
    /// The tag of its link.
    pub vlan: Option<u16>,
}

/// What a device counts beside its ports.
#[derive(Debug, Default)]
pub struct TrunkCounters {
    /// Frames without a tag, where all ports have one.
    pub no_tag: AtomicU64,
    /// Frames with a tag that no port has.
    pub wrong_tag: AtomicU64,
    /// Packets that could not get their tag: no headroom.
    pub no_headroom: AtomicU64,
    /// Frames received.
    pub rx: AtomicU64,
    /// Frames sent.
    pub tx: AtomicU64,
    /// Packets that injected faults have lost, by port in the order of the device's lanes.
    pub injected: Vec<AtomicU64>,
}

impl TrunkCounters {
    /// For a device with so many ports.
    pub fn of(lanes: usize) -> TrunkCounters {
        TrunkCounters {
            injected: (0..lanes).map(|_| AtomicU64::new(0)).collect(),
            ..TrunkCounters::default()
        }
    }

    /// What ended here, by name.
    pub fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("no-tag", read(&self.no_tag)),
            ("wrong-tag", read(&self.wrong_tag)),
            ("no-headroom", read(&self.no_headroom)),
        ]
        .into_iter()
    }
}

/// One more; only one lcore at a time counts here, or the atomic would be worth its price.
fn count(counter: &AtomicU64, more: u64) {
    counter.fetch_add(more, Ordering::Relaxed);
}

/// Which port a frame is for.
#[derive(Clone, Debug)]
pub struct Dealer {
    lanes: Vec<Lane>,
    /// The lane of each VLAN id; empty when the one lane has none.
    by_vlan: Vec<u8>,
}

impl Dealer {
    /// For the ports of a device, at most [`LANES_MAX`]: one without a tag, or all with their own.
    pub fn new(lanes: &[Lane]) -> Dealer {
        let mut by_vlan = Vec::new();
        for (index, lane) in lanes.iter().enumerate() {
            if let Some(vlan) = lane.vlan {
                by_vlan.resize(VLANS, NOBODY);
                by_vlan[usize::from(vlan) % VLANS] = index as u8;
            }
        }
        Dealer {
            lanes: lanes.to_vec(),
            by_vlan,
        }
    }

    /// The lanes.
    pub fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// Takes the tag off a frame and tells whose it is; `None` when it is nobody's.
    #[inline]
    pub fn deal(&self, mbuf: &mut Mbuf, counters: &TrunkCounters) -> Option<Lane> {
        if self.by_vlan.is_empty() {
            return self.lanes.first().copied();
        }
        let Some(vlan) = mbuf.vlan() else {
            count(&counters.no_tag, 1);
            return None;
        };
        let lane = self.lanes.get(usize::from(self.by_vlan[usize::from(vlan)]));
        let Some(lane) = lane.filter(|_| mbuf.strip_vlan(vlan)) else {
            count(&counters.wrong_tag, 1);
            return None;
        };
        Some(*lane)
    }
}

/// A receive queue of a device and whose its frames are.
pub struct Inlet {
    /// The queue.
    pub rx: Rx,
    /// By tag.
    pub dealer: Dealer,
    /// The index of the device.
    pub device: usize,
    /// Whether the device has already spread frames over lcores by their addresses.
    pub is_spread: bool,
}

/// The sending side of a device, which one lcore has.
pub struct Outlet {
    /// The queue.
    tx: Tx,
    lanes: Vec<Lane>,
    shares: Shares,
    /// The faults of each lane's link, where a testbed injects some.
    faults: Vec<Option<LinkFaults>>,
    /// Whether the one port without a tag has it to itself: then its own rate is the device's.
    is_plain: bool,
    unsent: Burst,
    /// The index of the device.
    pub device: usize,
}

impl Outlet {
    /// For the ports of a device.
    pub fn new(tx: Tx, lanes: &[Lane], shares: Shares, device: usize) -> Outlet {
        Outlet {
            tx,
            is_plain: lanes.len() == 1 && lanes[0].vlan.is_none(),
            lanes: lanes.to_vec(),
            shares,
            faults: lanes.iter().map(|_| None).collect(),
            unsent: Burst::new(),
            device,
        }
    }

    /// Injects faults into the link of a lane; their chances come from `seed`.
    pub fn inject(&mut self, lane: usize, faults: &[Fault], seed: u64) {
        let mut faults = (!faults.is_empty()).then(|| LinkFaults::new(faults, seed));
        self.swap_faults(lane, &mut faults);
    }

    /// Replaces the faults of a lane's link, and gives back those it had.
    pub fn swap_faults(&mut self, lane: usize, faults: &mut Option<LinkFaults>) {
        let Some(place) = self.faults.get_mut(lane) else {
            return;
        };
        std::mem::swap(place, faults);
        // The plain way knows no faults.
        let is_alone = self.lanes.len() == 1 && self.lanes[0].vlan.is_none();
        self.is_plain = is_alone && self.faults.iter().all(Option::is_none);
    }

    /// The ports that send here.
    pub fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// Sends what is due and the driver takes. `parts` has the instances of this lcore, by number of
    /// their switch; `gather` says whose turn it is. Returns how many packets the queue took.
    #[inline]
    pub fn send_due(
        &mut self,
        now: Nanos,
        parts: &mut [Part],
        counters: &TrunkCounters,
        gather: &Gather,
        taps: &Taps,
    ) -> usize {
        if self.is_plain && self.unsent.is_empty() {
            let lane = self.lanes[0];
            let queued = parts[lane.switch].switch.queued(lane.port);
            if !gather.serves(self.device, queued) {
                return 0;
            }
        }
        let mut sent = 0;
        for _ in 0..BURSTS_MAX {
            let room = self.unsent.room();
            self.collect(now, parts, counters, taps);
            let is_more = room > 0 && self.unsent.is_full();
            if self.unsent.is_empty() {
                break;
            }
            sent += self.tx.send(&mut self.unsent);
            if !is_more || !self.unsent.is_empty() {
                break;
            }
        }
        if sent > 0 {
            count(&counters.tx, sent as u64);
        }
        sent
    }

    /// Takes what is due, up to a burst with what the driver has refused before.
    #[inline(always)]
    fn collect(&mut self, now: Nanos, parts: &mut [Part], counters: &TrunkCounters, taps: &Taps) {
        let Outlet {
            lanes,
            shares,
            faults,
            unsent,
            ..
        } = self;
        let room = unsent.room();
        if self.is_plain {
            let lane = lanes[0];
            let kept = unsent.len();
            let switch = &mut parts[lane.switch].switch;
            switch.egress_burst(now, lane.port, room, &mut Departing(unsent));
            taps.sent(now, lane.switch, lane.port, &unsent[kept..]);
            return;
        }
        shares.send(now, room, |index| {
            let lane = lanes[index];
            let switch = &mut parts[lane.switch].switch;
            let mut mbuf = switch.egress(now, lane.port)?.into_mbuf();
            taps.sent(now, lane.switch, lane.port, std::slice::from_ref(&mbuf));
            if let Some(faults) = &mut faults[index]
                && is_lost(faults, &mut mbuf)
            {
                if let Some(lost) = counters.injected.get(index) {
                    count(lost, 1);
                }
                taps.lost(now, lane.switch, lane.port, "injected-loss", &mbuf);
                // It has taken its time on the link.
                return Some(mbuf.len() as u32);
            }
            if let Some(vlan) = lane.vlan
                && !mbuf.push_vlan(vlan)
            {
                // Every buffer is made with headroom for it: only a driver could take it away.
                count(&counters.no_headroom, 1);
                return Some(0);
            }
            let len = mbuf.len() as u32;
            let refused = unsent.push(mbuf);
            debug_assert!(refused.is_ok(), "there was room");
            Some(len)
        });
    }
}

/// Does to a packet what the link's faults say; whether that is its end.
#[cold]
fn is_lost(faults: &mut LinkFaults, mbuf: &mut Mbuf) -> bool {
    match faults.judge(mbuf.data(), mbuf.len()) {
        // A link that damages a packet loses it: the other end's device drops it. A switch on devices
        // keeps none back; the configuration refuses such a fault.
        Fate::Lost | Fate::Corrupted => true,
        Fate::Marked => {
            packet::ecn::mark(mbuf.data_mut());
            false
        }
        Fate::Pass { .. } => false,
    }
}
