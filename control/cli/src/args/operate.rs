//! `spraycheck fault` and `set`: what is changed while switches or a testbed run.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Make links of a running switch or testbed lose packets, and mend them. No packet is lost by the change itself.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  spraycheck fault add 'leaf0>spine1:drop=0.01'
  spraycheck fault add leaf0-spine1:down
  spraycheck fault list
  spraycheck fault clear 'leaf0>spine1'")]
pub(crate) struct FaultArgs {
    #[command(subcommand)]
    pub(crate) command: FaultCommand,
    /// Socket of the switch [default: that of the one that runs]
    #[arg(long, value_name = "P", global = true)]
    pub(crate) socket: Option<PathBuf>,
    /// Write the links as they are then as JSON to this file; - or none for standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", global = true)]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum FaultCommand {
    /// Add a fault to a link that the switch sends into: drop, burst or match; of a testbed any
    Add {
        /// Like leaf0>spine1:drop=0.01; leaf0>host0 is the link to a host, leaf0-spine1 both directions
        #[arg(value_name = "LINK:SPEC")]
        fault: String,
    },
    /// Print the links with their faults
    List,
    /// Take all faults of a link, or of all links
    Clear {
        /// Like leaf0>spine1
        #[arg(value_name = "LINK")]
        link: Option<String>,
    },
}

/// Change a running switch or testbed. No packet is lost by it, and it is in force when this returns.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  spraycheck set link 'leaf0>spine1' off
  spraycheck set route 10.0.9.0/24 leaf1
  spraycheck set host 10.0.0.9 host0 --mac 02:00:00:00:01:09
  spraycheck set spray jsq --tie random
  spraycheck set measurement evidence=hop-counts p0=0.0001
  spraycheck set log warn,agent=debug
  spraycheck set reload")]
pub(crate) struct SetArgs {
    #[command(subcommand)]
    pub(crate) command: SetCommand,
    /// Socket of the switch [default: that of the one that runs]
    #[arg(long, value_name = "P", global = true)]
    pub(crate) socket: Option<PathBuf>,
    /// Write the links as they are then as JSON to this file; - or none for standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", global = true)]
    pub(crate) json: Option<PathBuf>,
}

#[derive(Subcommand, Debug)]
pub(crate) enum SetCommand {
    /// Take a link between switches out of routing, or into it again
    Link {
        /// Like leaf0>spine1, or leaf0-spine1 for both directions
        #[arg(value_name = "LINK")]
        link: String,
        /// Whether routing may use it
        state: LinkState,
    },
    /// Lead a prefix to a leaf or spine, or nowhere
    Route {
        /// Like 10.0.9.0/24 or fd00:9::/64
        #[arg(value_name = "PREFIX")]
        prefix: String,
        /// Like leaf1; none takes the route away
        #[arg(value_name = "SWITCH|none")]
        to: String,
        #[command(flatten)]
        of: OfSwitch,
    },
    /// Put a host behind a port, or nowhere
    Host {
        /// Like 10.0.0.9
        #[arg(value_name = "ADDRESS")]
        address: String,
        /// Name of the host port; none takes the host away
        #[arg(value_name = "PORT|none")]
        port: String,
        /// Its MAC address [default: learned]
        #[arg(long, value_name = "MAC")]
        mac: Option<String>,
        #[command(flatten)]
        of: OfSwitch,
    },
    /// Choose uplinks otherwise
    Spray {
        /// jsq2, jsq, random, round-robin or ecmp
        #[arg(value_name = "POLICY", required_unless_present = "tie")]
        policy: Option<String>,
        /// What decides between equal uplinks: fewest-measured or random
        #[arg(long, value_name = "TIE")]
        tie: Option<String>,
        #[command(flatten)]
        of: OfSwitch,
    },
    /// Measure otherwise; windows that run end as void
    Measurement {
        /// Keys of the file's section measurement with their values, like evidence=hop-counts; KEY=default
        /// takes the default; on and off
        #[arg(value_name = "KEY=VALUE|on|off", required = true)]
        settings: Vec<String>,
        #[command(flatten)]
        of: OfSwitch,
    },
    /// Write other log lines
    Log {
        /// off, error, warn, info, debug or trace; of a part like warn,agent=debug
        #[arg(value_name = "LEVEL")]
        filter: String,
    },
    /// Read the files again and take over what has changed, or nothing
    Reload,
}

/// Which switch of a process.
#[derive(Args, Debug)]
pub(crate) struct OfSwitch {
    /// Name of the switch, where several run in one process
    #[arg(long, value_name = "NAME")]
    pub(crate) switch: Option<String>,
}

/// Whether routing may use a link.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LinkState {
    /// It may.
    On,
    /// It may not: a known failure.
    Off,
}
