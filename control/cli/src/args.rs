//! What can be typed.

mod bench;
mod capture;
mod monitor;
mod operate;
mod sim;
mod testbed;
mod trials;
mod watch;

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

pub(crate) use bench::{BenchArgs, Case};
pub(crate) use capture::CaptureArgs;
pub(crate) use monitor::{MonitorArgs, RelayArgs};
pub(crate) use operate::{FaultArgs, FaultCommand, LinkState, OfSwitch, SetArgs, SetCommand};
pub(crate) use sim::SimArgs;
pub(crate) use testbed::{FabricArgs, TestbedArgs};
pub(crate) use trials::{AgreeArgs, CalibrateArgs, PminArgs, SequentialArgs, Trial};
pub(crate) use watch::WatchArgs;

/// Finds gray failures in leaf/spine fabrics that spray packets.
#[derive(Parser, Debug)]
#[command(
    name = "spraycheck",
    version,
    max_term_width = 100,
    after_help = "\
Example:
  spraycheck testbed --fail 'leaf3>spine5:drop=0.01'

Exit codes: 0 done, 1 it ran and the answer is \"no\", 2 wrong usage or configuration,
3 the environment lacks something."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    /// Form of log lines and messages on standard error [default: text]
    #[arg(long, value_name = "FORM", global = true)]
    pub(crate) log_format: Option<LogFormat>,
}

/// Form of log lines.
#[derive(ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Run a whole fabric in one process and find its bad links
    Testbed(Box<TestbedArgs>),
    /// Run leaves and spines on real ports or virtual devices
    Switch(SwitchArgs),
    /// Simulate a fabric, or repeat an experiment
    Sim(Box<SimArgs>),
    /// Run one switch over captures
    Replay(ReplayArgs),
    /// Measure the data plane beside a plain loop in C
    Bench(BenchArgs),
    /// Measure the noise of the spray, for thresholds
    Calibrate(CalibrateArgs),
    /// Validate configurations and print them resolved
    Check(CheckArgs),
    /// Write the configurations of all switches of a fabric, and the hosts' addresses
    Generate(GenerateArgs),
    /// Say what this machine has and lacks for DPDK, and what to do
    Doctor(DoctorArgs),
    /// Print the reference of all configuration files, or a JSON schema of one kind
    Reference(ReferenceArgs),
    /// Print the completions of a shell
    Completion(CompletionArgs),
    /// Collect the verdicts of all switches, name bad links, show a page
    Monitor(MonitorArgs),
    /// Send the verdicts of this machine's switches to the monitor of another, over NATS
    Relay(RelayArgs),
    /// Ask a running testbed, switch or monitor
    Show(ShowArgs),
    /// Watch running testbeds or switches on the terminal
    Watch(WatchArgs),
    /// Write packets of a running testbed or switch as pcapng
    Capture(CaptureArgs),
    /// Make links of a running switch or testbed lose packets, and mend them
    Fault(FaultArgs),
    /// Change a running switch or testbed
    Set(SetArgs),
}

/// Run the switches of configurations on their devices until they are told to stop.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  spraycheck switch --config docs/examples/leaf0.toml --dry-run
  spraycheck switch --config leaf0.toml
  spraycheck switch --config leaf0.toml --config spine0.toml")]
pub(crate) struct SwitchArgs {
    /// Configuration of a switch; repeatable: several share one process, and devices by VLAN
    #[arg(long, value_name = "FILE", required = true)]
    pub(crate) config: Vec<PathBuf>,
    /// Only check the configuration and print it resolved, with the EAL line
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Answer `spraycheck show` on this socket [default: one that show finds]
    #[arg(long, value_name = "P")]
    pub(crate) socket: Option<PathBuf>,
    /// Run a monitor of these switches beside them with its page there, like 127.0.0.1:9180
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) monitor: Option<std::net::SocketAddr>,
    /// Write the counters at the end as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Arguments for EAL
    #[arg(last = true, value_name = "EAL")]
    pub(crate) eal: Vec<String>,
}

/// Run the switch of a configuration over captures until they end; write one capture per port.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  spraycheck replay --config docs/examples/leaf0.toml --in host0=rxe-rc-write.pcap --split --out out/")]
pub(crate) struct ReplayArgs {
    /// Configuration of the switch
    #[arg(long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    /// What a port receives; repeatable
    #[arg(long = "in", value_name = "PORT=FILE.pcap", required = true, value_parser = port_and_file)]
    pub(crate) inputs: Vec<(String, PathBuf)>,
    /// The captures hold both directions: a port receives only what its own hosts send
    #[arg(long)]
    pub(crate) split: bool,
    /// Folder for the captures of what the ports send
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// Write the result as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Arguments for EAL
    #[arg(last = true, value_name = "EAL")]
    pub(crate) eal: Vec<String>,
}

fn port_and_file(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((port, file)) if !port.is_empty() && !file.is_empty() => {
            Ok((port.to_owned(), file.into()))
        }
        _ => Err("write PORT=FILE.pcap like host0=capture.pcap".to_owned()),
    }
}

/// Validate configurations of switches, fabrics and testbeds; print them resolved, with the EAL line.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  spraycheck check docs/examples/leaf0.toml
  spraycheck check docs/examples/fabric.toml
  spraycheck check --together leaf0.toml spine0.toml
  spraycheck check --fabric leaf0.toml leaf1.toml spine0.toml")]
pub(crate) struct CheckArgs {
    /// Check switches against each other as well, as if they ran in one process
    #[arg(long)]
    pub(crate) together: bool,
    /// Check the switches of a whole fabric against each other, wherever each runs
    #[arg(long)]
    pub(crate) fabric: bool,
    /// Configurations
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
}

/// Write the configuration of every switch of a fabric's file, and the addresses of its hosts.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  spraycheck generate docs/examples/fabric.toml --out fabric/
  spraycheck switch --config fabric/leaf0.toml")]
pub(crate) struct GenerateArgs {
    /// The fabric's file; docs/examples/fabric.toml explains every key
    #[arg(value_name = "FABRIC.toml")]
    pub(crate) fabric: PathBuf,
    /// Folder for the files; those of the same names are replaced
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
}

/// Say what this machine has and lacks for DPDK, or for some switches, and what to do about each.
/// Exit status 1 if a switch would not start.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  spraycheck doctor
  spraycheck doctor --config docs/examples/leaf0.toml --json -")]
pub(crate) struct DoctorArgs {
    /// Configuration of a switch whose devices, memory and CPUs are looked for; repeatable
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Vec<PathBuf>,
    /// Write the findings as JSON (- for standard output)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
}

/// Print the reference of all configuration files (docs/configuration.md), or a JSON schema of one kind, for editors.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  spraycheck reference
  spraycheck reference --schema switch > spraycheck-switch.schema.json")]
pub(crate) struct ReferenceArgs {
    /// Of which files
    #[arg(long, value_name = "FILE", value_parser = ["switch", "fabric", "testbed", "scenario", "monitor", "relay"])]
    pub(crate) schema: Option<String>,
}

/// Print the completions of a shell, for its folder of completions.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  spraycheck completion bash > /etc/bash_completion.d/spraycheck
  spraycheck completion zsh > ~/.zfunc/_spraycheck")]
pub(crate) struct CompletionArgs {
    /// Which shell
    pub(crate) shell: clap_complete::Shell,
}

/// What `show` can ask for: all that a switch or a testbed answers, and whom a monitor hears.
pub(crate) fn what() -> Vec<&'static str> {
    let mut what = agent::show::WHAT.to_vec();
    what.push("sources");
    what
}

/// Ask a running testbed, switch or monitor.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  spraycheck show ports
  spraycheck show links --since 1h
  spraycheck show drops --socket run/spraycheck.sock --json -")]
pub(crate) struct ShowArgs {
    /// What to show
    #[arg(value_parser = clap::builder::PossibleValuesParser::new(what()))]
    pub(crate) what: String,
    /// Links of which a monitor has told something in this time: 90s, 15m, 1h, 7d
    #[arg(long, value_name = "TIME", value_parser = monitor::since)]
    pub(crate) since: Option<u64>,
    /// Socket of the testbed, switch or monitor [default: that of the one that runs]
    #[arg(long, value_name = "P")]
    pub(crate) socket: Option<PathBuf>,
    /// Write the answer as JSON to this file; - or none for standard output
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    pub(crate) json: Option<PathBuf>,
}

#[cfg(test)]
mod tests;
