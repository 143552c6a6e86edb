//! Flags of `sim pmin`, `sim sequential` and `calibrate`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Trials per row of `--quick`.
const QUICK_TRIALS: u32 = 100;
/// Marked packets of the quiet run, and of that of `--quick`.
const QUIET_PACKETS: u64 = 100_000_000;
const QUICK_PACKETS: u64 = 2_000_000;

/// The experiments that are trials of one leaf pair.
#[derive(Subcommand, Debug)]
pub(crate) enum Trial {
    /// Packets per spine that each kind of evidence needs, with its error rates
    Pmin(PminArgs),
    /// Sequential tests compared at the same false alarm rate
    Sequential(SequentialArgs),
    /// Whether two runs of one fabric agree: of the testbed and of the simulator
    Agree(AgreeArgs),
}

/// Compare two results of `testbed` or `sim`: the links that they name, and of every path the share
/// of packets that arrived, within what chance allows.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  spraycheck testbed --fail 'leaf3>spine5:drop=0.005' --json testbed.json
  spraycheck sim --fail 'leaf3>spine5:drop=0.005' --json model.json
  spraycheck sim agree testbed.json model.json

Exit code 1: they do not.")]
pub(crate) struct AgreeArgs {
    /// One result
    #[arg(value_name = "FILE")]
    pub(crate) one: PathBuf,
    /// The other
    #[arg(value_name = "FILE")]
    pub(crate) other: PathBuf,
    /// Probability that runs which are alike are told apart
    #[arg(long, value_name = "P", default_value_t = 1e-4)]
    pub(crate) alpha: f64,
}

/// Measure error rates of one leaf pair: every row names its packets per spine beforehand, and its
/// trials say whether they are enough. Thresholds come from other seeds (`spraycheck calibrate`).
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  spraycheck sim pmin --quick
  spraycheck sim pmin --only receive-only --spines 8 --json pmin.json
  spraycheck sim pmin --only 'hop counts' --rates 0.005,0.01,0.015
  spraycheck sim pmin --paper 200 --only 'paper preset'

The whole table takes an hour of CPU. Exit code 1: a row does not hold.")]
pub(crate) struct PminArgs {
    /// Trials per row [default: 4000]
    #[arg(long, value_name = "N", conflicts_with = "quick", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    trials: Option<u32>,
    /// Numbers of spines; several by comma
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "8,32", value_parser = clap::value_parser!(u16).range(2..=128))]
    pub(crate) spines: Vec<u16>,
    /// Only rows whose name contains this
    #[arg(long, value_name = "TEXT")]
    pub(crate) only: Option<String>,
    /// Only rows of these loss rates of the bad link; several by comma
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub(crate) rates: Vec<f64>,
    /// Rows of the paper's method as well, with so many trials each (the project's: 200)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) paper: u32,
    /// A hundred trials per row: to see that it works
    #[arg(long)]
    quick: bool,
    /// Threads; results do not depend on them [default: one per CPU]
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) jobs: usize,
    /// Write the result as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

impl PminArgs {
    /// The rows that were asked for.
    pub(crate) fn options(&self) -> trials::pmin::Options {
        let default = trials::pmin::Options::default();
        trials::pmin::Options {
            trials: match self.quick {
                true => QUICK_TRIALS,
                false => self.trials.unwrap_or(default.trials),
            },
            spines: self.spines.clone(),
            only: self.only.clone(),
            rates: self.rates.clone(),
            quiet_packets: match self.quick {
                true => QUICK_PACKETS,
                false => QUIET_PACKETS,
            },
            paper_trials: self.paper,
        }
    }
}

/// Compare sequential tests of path losses by their delay, at one mean time to a false alarm.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  spraycheck sim sequential --run-length 2e6")]
pub(crate) struct SequentialArgs {
    /// Mean windows of 64 packets of a healthy path to a false alarm
    #[arg(long, value_name = "N", default_value_t = 2.048e6)]
    pub(crate) run_length: f64,
    /// Streams per candidate and rate
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    pub(crate) trials: u32,
    /// Threads; results do not depend on them [default: one per CPU]
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) jobs: usize,
    /// Write the result as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Measure the noise of the spray per policy, tie, mark, fabric and load, and write the table from
/// which receive-only thresholds come. Its seeds are used for nothing else.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  spraycheck calibrate --out control/detector/data/noise.tsv

The table is built into the command: build again after writing it.")]
pub(crate) struct CalibrateArgs {
    /// The table
    #[arg(long, value_name = "FILE")]
    pub(crate) out: PathBuf,
    /// Healthy counts per load and kind of arrivals
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1_000..=100_000_000))]
    pub(crate) counts: u64,
    /// Threads; results do not depend on them [default: one per CPU]
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) jobs: usize,
}
