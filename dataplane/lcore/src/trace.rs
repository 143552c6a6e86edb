//! A record of every call that the driver makes to its switches.
//!
//! Replayed without DPDK it must give the same packets, reports and counters: proof that the
//! poll loop adds nothing of its own. Only for tests and small runs, since it grows.

use std::io::{self, Write};
use std::path::Path;

use pipeline::report::Command;
use pipeline::{Nanos, PortId};

/// A call to one switch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A packet came in.
    Ingress(PortId, Vec<u8>),
    /// A damaged packet came in.
    Damaged(PortId, Vec<u8>),
    /// A packet went out.
    Egress(PortId, Vec<u8>),
    /// Time passed.
    Tick,
    /// A link changed.
    Link(PortId, bool),
    /// Control said something.
    Command(Command),
}

/// All calls of a run, in order: which switch, when, what.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The calls.
    pub calls: Vec<(usize, Nanos, Call)>,
}

impl Trace {
    /// Writes one line per call: switch, time, what, frame in hex.
    ///
    /// # Errors
    /// What the file system says.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        let mut out = io::BufWriter::new(std::fs::File::create(path)?);
        for (switch, now, call) in &self.calls {
            write!(out, "{switch} {} ", now.0)?;
            match call {
                Call::Ingress(port, frame) => write_frame(&mut out, "ingress", *port, frame)?,
                Call::Damaged(port, frame) => write_frame(&mut out, "damaged", *port, frame)?,
                Call::Egress(port, frame) => write_frame(&mut out, "egress", *port, frame)?,
                Call::Tick => writeln!(out, "tick")?,
                Call::Link(port, up) => writeln!(out, "link {} {up}", port.0)?,
                Call::Command(command) => writeln!(out, "command {command:?}")?,
            }
        }
        out.flush()
    }

    fn push(&mut self, switch: usize, now: Nanos, call: Call) {
        self.calls.push((switch, now, call));
    }

    pub(crate) fn ingress(&mut self, switch: usize, now: Nanos, port: PortId, frame: &[u8]) {
        self.push(switch, now, Call::Ingress(port, frame.to_vec()));
    }

    pub(crate) fn damaged(&mut self, switch: usize, now: Nanos, port: PortId, frame: &[u8]) {
        self.push(switch, now, Call::Damaged(port, frame.to_vec()));
    }

    pub(crate) fn egress(&mut self, switch: usize, now: Nanos, port: PortId, frame: &[u8]) {
        self.push(switch, now, Call::Egress(port, frame.to_vec()));
    }

    pub(crate) fn tick(&mut self, switch: usize, now: Nanos) {
        self.push(switch, now, Call::Tick);
    }

    pub(crate) fn link(&mut self, switch: usize, now: Nanos, port: PortId, up: bool) {
        self.push(switch, now, Call::Link(port, up));
    }

    pub(crate) fn command(&mut self, switch: usize, now: Nanos, command: Command) {
        self.push(switch, now, Call::Command(command));
    }
}

fn write_frame(out: &mut impl Write, what: &str, port: PortId, frame: &[u8]) -> io::Result<()> {
    write!(out, "{what} {} ", port.0)?;
    for byte in frame {
        write!(out, "{byte:02x}")?;
    }
    writeln!(out)
}
