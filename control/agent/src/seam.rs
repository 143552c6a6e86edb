//! The seam between lcores and control: two bounded rings of fixed structs.
//!
//! The lcore never waits: a full report ring loses the report, which the switch counts; a command
//! ring is read once a round. Packet bytes cross only into the taps of captures.

use std::sync::Arc;

use crossbeam::queue::ArrayQueue;
use pipeline::report::{Command, Opened, OwnDrop, Report, WindowReport};

use crate::capture::CAPTURES_MAX;
use crate::capture::tap::Tap;

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

/// All rings.
#[derive(Debug)]
pub struct Seam {
    /// From lcores to control.
    pub reports: ArrayQueue<FromSwitch>,
    /// From control to each lcore.
    pub commands: Vec<ArrayQueue<ToSwitch>>,
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
            taps: (0..lcores.max(1))
                .map(|_| ArrayQueue::new(CAPTURES_MAX))
                .collect(),
        }
    }

    /// The commands for the parts on an lcore.
    pub fn commands_of(&self, lcore: usize) -> &ArrayQueue<ToSwitch> {
        &self.commands[lcore % self.commands.len()]
    }

    /// The new captures of an lcore.
    pub fn taps_of(&self, lcore: usize) -> &ArrayQueue<Arc<Tap>> {
        &self.taps[lcore % self.taps.len()]
    }
}
