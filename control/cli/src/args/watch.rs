//! `spraycheck watch`.

use std::path::PathBuf;

use clap::Args;
use config::Time;

/// Watch running testbeds or switches on the terminal: rates, queues, the flow that is measured, what was
/// found. Keys: q quits, space pauses, n and N choose a switch, arrows scroll, ? helps.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  spraycheck watch
  spraycheck watch --socket /run/spraycheck-leaf0/control.sock --socket /run/spraycheck-spine0/control.sock")]
pub(crate) struct WatchArgs {
    /// Socket of a testbed or switch; repeatable [default: that of the one that runs]
    #[arg(long, value_name = "P")]
    pub(crate) socket: Vec<PathBuf>,
    /// Time between two looks, 100ms to 60s
    #[arg(long, value_name = "T", default_value = "500ms", value_parser = interval)]
    pub(crate) interval: Time,
    /// Switch to begin with, like leaf3
    #[arg(long, value_name = "NAME")]
    pub(crate) switch: Option<String>,
}

fn interval(text: &str) -> Result<Time, String> {
    let time: Time = text.parse().map_err(|error| format!("{error}"))?;
    match time.nanos() {
        100_000_000..=60_000_000_000 => Ok(time),
        _ => Err("it is 100ms to 60s".to_owned()),
    }
}
