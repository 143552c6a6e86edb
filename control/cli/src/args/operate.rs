//! `spraycheck fault` and `set`: what is changed while switches run.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

/// Make links of a running switch lose packets, and mend them. No packet is lost by the change itself.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  spraycheck fault add 'leaf0>spine1:drop=0.01'
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
    /// Add a fault to a link that the switch sends into: drop, burst or match
    Add {
        /// Like leaf0>spine1:drop=0.01; leaf0>host0 is the link to a host
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

/// Change a running switch.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  spraycheck set link 'leaf0>spine1' off")]
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
        /// Like leaf0>spine1
        #[arg(value_name = "LINK")]
        link: String,
        /// Whether routing may use it
        state: LinkState,
    },
}

/// Whether routing may use a link.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LinkState {
    /// It may.
    On,
    /// It may not: a known failure.
    Off,
}
