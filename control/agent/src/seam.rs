//! The seam between lcores and control: bounded rings of fixed structs.
//!
//! The lcore never waits: a full report ring loses the report, which the switch counts; a command
//! ring is read once a round. Packet bytes cross only into the taps of captures.
//!
//! An [`Order`] goes to an lcore and comes back, with what was asked for or what it has replaced: an
//! lcore allocates nothing and frees nothing.

use std::sync::Arc;

use crossbeam::queue::ArrayQueue;
use pipeline::neighbor::Neighbor;
use pipeline::report::{Command, Opened, OwnDrop, Report, WindowReport};
use pipeline::{Change, Nanos, PortId, Sink, Switch, Token};

use crate::capture::CAPTURES_MAX;
use crate::capture::tap::Tap;

/// Orders that may be on their way to an lcore: one to each switch of the largest process, twice.
pub const ORDERS_MAX: usize = 512;
/// Neighbours that one order asks for: what an lcore does between two packets is bounded.
pub const LISTED_MAX: usize = 256;
/// Reports that may wait for control. At 4 KiB each this is the largest part of the seam.
const REPORTS_MAX: usize = 1024;
/// Commands that may wait for an lcore.
const COMMANDS_MAX: usize = 4096;

/// A report and the switch it is from.
#[derive(Clone, Copy, Debug)]
pub struct FromSwitch {
    /// Index of the switch in its process; of its part, where it runs on several lcores.
    pub switch: u16,
    /// What it says.
    pub body: Body,
}

/// A report by value.
#[derive(Clone, Copy, Debug)]
#[allow(
    clippy::large_enum_variant,
    reason = "lives in preallocated ring slots; boxing would allocate on the lcore"
)]
pub enum Body {
    /// A window began.
    Opened(Opened),
    /// A window ended.
    Window(WindowReport),
    /// A marked packet was dropped in the switch's own queue.
    Dropped(OwnDrop),
}

impl FromSwitch {
    /// Copies a report out of the switch.
    pub fn new(switch: u16, report: Report<'_>) -> FromSwitch {
        let body = match report {
            Report::Opened(opened) => Body::Opened(*opened),
            Report::Window(window) => Body::Window(*window),
            Report::Dropped(dropped) => Body::Dropped(*dropped),
        };
        FromSwitch { switch, body }
    }
}

/// A command and the switch it is for.
#[derive(Clone, Copy, Debug)]
pub struct ToSwitch {
    /// Index of the switch in its process; of its part, where it runs on several lcores.
    pub switch: u16,
    /// What it is to do.
    pub command: Command,
}

/// What control wants of a part, beyond a word.
pub enum Order {
    /// Another configuration; comes back with the one before.
    Change(Box<Change>),
    /// Its neighbours; comes back with them.
    Neighbors(Box<Listing>),
}

/// Neighbours of a part.
pub struct Listing {
    /// Tells it from others.
    pub ticket: u64,
    /// The place in the table to begin at.
    pub from: usize,
    /// Where the next listing is to begin, if there is more.
    pub next: Option<usize>,
    /// The neighbours with their ports; as many as it has room for.
    pub rows: Vec<(PortId, Neighbor)>,
    /// The part's time.
    pub now: Nanos,
}

impl Listing {
    /// An empty one, with its room.
    pub fn new(ticket: u64, from: usize) -> Listing {
        Listing {
            ticket,
            from,
            next: None,
            rows: Vec::with_capacity(LISTED_MAX),
            now: Nanos(0),
        }
    }
}

impl Order {
    /// Does what is wanted of `switch`; called by its lcore.
    pub fn carry_out<T: Token, S: Sink<T>>(
        &mut self,
        now: Nanos,
        switch: &mut Switch<T>,
        sink: &mut S,
    ) {
        match self {
            Order::Change(change) => switch.change(now, change, sink),
            Order::Neighbors(listing) => {
                let rows = &mut listing.rows;
                listing.now = now;
                listing.next = switch.neighbors(listing.from, LISTED_MAX, |port, neighbor| {
                    rows.push((port, neighbor));
                });
            }
        }
    }
}

/// An order and the part it is for, or comes back from.
pub struct ToPart {
    /// As [`FromSwitch::switch`].
    pub part: u16,
    /// What is wanted.
    pub order: Order,
}

impl std::fmt::Debug for ToPart {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToPart")
            .field("part", &self.part)
            .finish_non_exhaustive()
    }
}

/// All rings.
#[derive(Debug)]
pub struct Seam {
    /// From lcores to control.
    pub reports: ArrayQueue<FromSwitch>,
    /// From control to each lcore.
    pub commands: Vec<ArrayQueue<ToSwitch>>,
    /// Orders to each lcore.
    pub orders: Vec<ArrayQueue<ToPart>>,
    /// Orders that have been carried out, on their way back.
    pub done: ArrayQueue<ToPart>,
    /// New captures, for each lcore.
    pub taps: Vec<ArrayQueue<Arc<Tap>>>,
}

impl Default for Seam {
    /// With one lcore.
    fn default() -> Seam {
        Seam::new(1)
    }
}

impl Seam {
    /// With so many lcores, each of which has a part of every switch: part `n` of all is on lcore
    /// `n % lcores`.
    pub fn new(lcores: usize) -> Seam {
        Seam {
            reports: ArrayQueue::new(REPORTS_MAX),
            commands: (0..lcores.max(1))
                .map(|_| ArrayQueue::new(COMMANDS_MAX))
                .collect(),
            orders: (0..lcores.max(1))
                .map(|_| ArrayQueue::new(ORDERS_MAX))
                .collect(),
            done: ArrayQueue::new(ORDERS_MAX * lcores.max(1)),
            taps: (0..lcores.max(1))
                .map(|_| ArrayQueue::new(CAPTURES_MAX))
                .collect(),
        }
    }

    /// The commands for the parts on an lcore.
    pub fn commands_of(&self, lcore: usize) -> &ArrayQueue<ToSwitch> {
        &self.commands[lcore % self.commands.len()]
    }

    /// The orders for the parts on an lcore.
    pub fn orders_of(&self, lcore: usize) -> &ArrayQueue<ToPart> {
        &self.orders[lcore % self.orders.len()]
    }

    /// Gives an order back that was carried out. Called by an lcore.
    pub fn give_back(&self, order: ToPart) {
        // Control has no more on their way than fit in here.
        let refused = self.done.push(order);
        debug_assert!(refused.is_ok(), "the way back has room for all orders");
    }

    /// The new captures of an lcore.
    pub fn taps_of(&self, lcore: usize) -> &ArrayQueue<Arc<Tap>> {
        &self.taps[lcore % self.taps.len()]
    }
}
