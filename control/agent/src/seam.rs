//! The seam between lcores and control: two bounded rings of fixed structs.
//!
//! The lcore never waits: a full report ring loses the report, which the switch counts; a command
//! ring is read once a round. No packet bytes cross.

use crossbeam::queue::ArrayQueue;
use pipeline::report::{Command, Opened, OwnDrop, Report, WindowReport};

/// Reports that may wait for control. At 4 KiB each this is the largest part of the seam.
const REPORTS_MAX: usize = 1024;
/// Commands that may wait for an lcore.
const COMMANDS_MAX: usize = 4096;

/// A report and the switch it is from.
#[derive(Clone, Copy, Debug)]
pub struct FromSwitch {
    /// Index of the switch in its process.
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
    /// Index of the switch in its process.
    pub switch: u16,
    /// What it is to do.
    pub command: Command,
}

/// Both rings.
#[derive(Debug)]
pub struct Seam {
    /// From lcores to control.
    pub reports: ArrayQueue<FromSwitch>,
    /// From control to lcores.
    pub commands: ArrayQueue<ToSwitch>,
}

impl Default for Seam {
    fn default() -> Seam {
        Seam {
            reports: ArrayQueue::new(REPORTS_MAX),
            commands: ArrayQueue::new(COMMANDS_MAX),
        }
    }
}
