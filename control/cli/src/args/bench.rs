//! Flags of `bench`.

use std::path::PathBuf;

use clap::Args;
use config::BenchCase;
use config::bench::{BURST, FLOWS, FRAME_BYTES, LCORES_MAX};

/// Seconds of a sample.
const SECONDS: f64 = 1.0;
/// Seconds of a sample of `--quick`.
const QUICK_SECONDS: f64 = 0.1;

/// Measure the data plane on net_null ports, beside a plain receive and transmit loop in C on the
/// same ports. Needs neither a NIC nor hugepages, and a CPU that nothing else uses.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  spraycheck bench leaf-source --cold
  spraycheck bench leaf-source --split
  spraycheck bench --flows 4096
  spraycheck bench sim
  spraycheck bench monitor
  spraycheck bench --frame 64,1024,4096 --burst 8,32,64 --json bench.json

Compare ratios of one run, never figures of two. Exit code 1: a switch dropped or miscounted
packets, so that the figures mean nothing.")]
pub(crate) struct BenchArgs {
    /// Roles to measure: leaf-source, leaf-destination, spine, plain-ip [default: all]; or, alone,
    /// sim for the simulator, or monitor for the monitor under load (60 s unless --seconds says)
    #[arg(value_name = "CASE", value_parser = case)]
    pub(crate) cases: Vec<Case>,
    /// Switch the mempool's cache off: buffers come back when they have left the CPU's caches
    #[arg(long)]
    pub(crate) cold: bool,
    /// Lcores, each with a switch of its own; above 1 their scaling is measured as well
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=i64::from(LCORES_MAX)))]
    pub(crate) lcores: u32,
    /// Leaf-source on two lcores instead: one receives and decides, the other owns the uplinks
    #[arg(long, conflicts_with = "lcores")]
    pub(crate) split: bool,
    /// Flows that packets are of in turn, each between hosts of its own
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(i64::from(*FLOWS.start())..=i64::from(*FLOWS.end())))]
    pub(crate) flows: u32,
    /// Bytes of a frame, without FCS; several by comma
    #[arg(long = "frame", value_name = "N", value_delimiter = ',', default_value = "64", value_parser = clap::value_parser!(u32).range(i64::from(*FRAME_BYTES.start())..=i64::from(*FRAME_BYTES.end())))]
    pub(crate) frames: Vec<u32>,
    /// Packets that a poll takes in at most; several by comma
    #[arg(long = "burst", value_name = "N", value_delimiter = ',', default_value = "32", value_parser = clap::value_parser!(u16).range(i64::from(*BURST.start())..=i64::from(*BURST.end())))]
    pub(crate) bursts: Vec<u16>,
    /// Length of a sample in seconds, of which each figure takes five [default: 1]
    #[arg(long, value_name = "S", value_parser = seconds, conflicts_with = "quick")]
    pub(crate) seconds: Option<f64>,
    /// Samples of a tenth of a second: to see that it works
    #[arg(long)]
    pub(crate) quick: bool,
    /// Monitor alone: verdicts come over this NATS server and a relay in place of sockets, like
    /// nats://127.0.0.1:4222. A stream spraycheck-bench-N stays there
    #[arg(long, value_name = "URL")]
    pub(crate) nats: Option<String>,
    /// Write the result as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Arguments for EAL
    #[arg(last = true, value_name = "EAL")]
    pub(crate) eal: Vec<String>,
}

impl BenchArgs {
    /// Length of a sample.
    pub(crate) fn sample_s(&self) -> f64 {
        let usual = if self.quick { QUICK_SECONDS } else { SECONDS };
        self.seconds.unwrap_or(usual)
    }
}

/// What can be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Case {
    /// A role of the data plane, by the daemon.
    Plane(BenchCase),
    /// The simulator, by this command.
    Sim,
    /// The monitor, by this command.
    Monitor,
}

fn case(text: &str) -> Result<Case, String> {
    if text == "sim" {
        return Ok(Case::Sim);
    }
    if text == "monitor" {
        return Ok(Case::Monitor);
    }
    BenchCase::of(text).map(Case::Plane).ok_or_else(|| {
        let names = BenchCase::ALL.map(BenchCase::name).join(", ");
        format!("the cases are {names}; and sim, monitor")
    })
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.01..=600.0).contains(&seconds) => Ok(seconds),
        _ => Err("write seconds from 0.01 to 600".to_owned()),
    }
}
