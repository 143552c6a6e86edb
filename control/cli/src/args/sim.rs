//! Flags of `sim`.

use std::path::PathBuf;

use clap::Args;
use config::{SimLayer, Time};
use detector::LeafId;

use super::{FabricArgs, Trial};
use crate::failure::{Failure, USAGE};

/// Simulate a fabric with the very code of switch and host, or repeat an experiment of the paper.
///
/// NAME is an experiment (`list` shows them), `merge` to put the files of shards together, or `report`
/// to make Markdown of a folder of results; with `--scenario`, or neither, the fabric of the file and the flags is simulated. Exit code 0: exactly
/// the links that lost packets were named; every claim of the experiment holds.
#[derive(Args, Debug, Default)]
#[command(
    args_override_self = true,
    args_conflicts_with_subcommands = true,
    after_help = "\
Examples:
  spraycheck sim --leaves 64 --spines 64 --workload pairs --fail 'leaf3>spine5:drop=0.01'
  spraycheck sim --scenario docs/examples/scenario.toml --seeds 20 --jobs 2 --json result.json
  spraycheck sim noise --quick --csv noise.csv --plot noise.svg
  spraycheck sim size --shard 3/16 --json size-3.json
  spraycheck sim merge size-*.json --json size.json
  spraycheck sim report results > docs/reproduction.md

The JSON's elapsed_s and packet_hops_per_s are 0 unless --timing asks for them. The result depends on settings and seed alone, not on --jobs, machine or speed."
)]
pub(crate) struct SimArgs {
    #[command(subcommand)]
    pub(crate) trial: Option<Trial>,
    /// An experiment, list, merge or report
    #[arg(value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Files of shards, for merge; the folder, for report
    #[arg(value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// A fabric and what changes in it, from a file; flags go over its settings
    #[arg(long, value_name = "FILE.toml", help_heading = "Simulation")]
    pub(crate) scenario: Option<PathBuf>,
    /// Seeds to run, from --seed on [default: 1, or what the experiment needs]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000), help_heading = "Simulation")]
    pub(crate) seeds: Option<u32>,
    /// Spines, 1 to 128; for an experiment a list by comma [default: 8, or what the experiment has]
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        help_heading = "Fabric"
    )]
    pub(crate) spines: Vec<u16>,
    /// Loss rates of an experiment, by comma
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        help_heading = "Simulation"
    )]
    pub(crate) drops: Vec<f64>,
    /// Load of the uplinks, by which the rate of links follows from that of hosts
    #[arg(long, value_name = "RHO", help_heading = "Simulation")]
    pub(crate) load: Option<f64>,
    /// Propagation delay of every link [default: 500ns]
    #[arg(long, value_name = "T", help_heading = "Simulation")]
    propagation: Option<Time>,
    /// Simulate these leaves only, by comma; their hosts must talk among themselves
    #[arg(
        long,
        value_name = "LEAVES",
        value_delimiter = ',',
        help_heading = "Simulation"
    )]
    slice: Vec<String>,
    /// End at this simulated time
    #[arg(long, value_name = "T", help_heading = "Simulation")]
    until: Option<Time>,
    /// Runs at a time [default: 1 per CPU]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024), help_heading = "Simulation")]
    pub(crate) jobs: Option<u16>,
    /// Fewer seeds and packets: to see that it works
    #[arg(long, help_heading = "Simulation")]
    pub(crate) quick: bool,
    /// Only every N-th trial, from the I-th; merge puts the files together
    #[arg(long, value_name = "I/N", value_parser = shard, help_heading = "Simulation")]
    pub(crate) shard: Option<(usize, usize)>,
    /// Write an experiment's rows as CSV
    #[arg(long, value_name = "F", help_heading = "Simulation")]
    pub(crate) csv: Option<PathBuf>,
    /// Plot an experiment
    #[arg(long, value_name = "F.svg", help_heading = "Simulation")]
    pub(crate) plot: Option<PathBuf>,
    /// Write the time that it took into the JSON as well, which then differs from run to run
    #[arg(long, help_heading = "Simulation")]
    pub(crate) timing: bool,
    /// Write the result as JSON (- for standard output)
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    pub(crate) json: Option<PathBuf>,
    #[command(flatten)]
    fabric: FabricArgs,
}

impl SimArgs {
    /// What the flags say about one simulation.
    pub(crate) fn layer(&self) -> Result<SimLayer, Failure> {
        let spines = match self.spines[..] {
            [] => None,
            [one] => Some(one),
            _ => {
                let why = "--spines: a list is for experiments; a scenario has one number";
                return Err(Failure::new(USAGE, why));
            }
        };
        let slice: Result<Vec<LeafId>, Failure> =
            self.slice.iter().map(|name| leaf(name)).collect();
        let slice = slice?;
        Ok(SimLayer {
            fabric: config::TestbedLayer {
                spines,
                ..self.fabric.layer()?
            },
            propagation: self.propagation,
            load: self.load,
            slice: (!slice.is_empty()).then_some(slice),
            until: self.until,
        })
    }

    /// The first seed.
    pub(crate) fn seed(&self) -> u64 {
        self.fabric.seed().unwrap_or(1)
    }

    /// Runs at a time.
    pub(crate) fn jobs(&self) -> usize {
        match self.jobs {
            Some(jobs) => usize::from(jobs),
            None => std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

fn leaf(name: &str) -> Result<LeafId, Failure> {
    let number = name.strip_prefix("leaf").unwrap_or(name).parse();
    number.map(LeafId).map_err(|_| {
        let why = format!("--slice: \"{name}\" is no leaf; write leaf0,leaf1");
        Failure::new(USAGE, why)
    })
}

fn shard(text: &str) -> Result<(usize, usize), String> {
    let parts = text.split_once('/');
    let parts = parts.and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match parts {
        Some((i, n)) if 0 < i && i <= n => Ok((i, n)),
        _ => Err("write I/N with I from 1 to N, like 3/16".to_owned()),
    }
}
