//! `spraycheck`, the one command that people type. It links no DPDK: what needs it runs in
//! `spraycheckd`, which this starts, watches and ends.
//!
//! Exit codes: 0 done, 1 it ran and the answer is "no", 2 wrong usage or configuration, 3 the
//! environment lacks something.

mod agree;
mod args;
mod bench;
mod calibrate;
mod capture;
mod check;
mod completion;
mod connection;
mod daemon;
mod doctor;
mod embedded;
mod failure;
mod generate;
mod log;
mod machine;
mod monitor;
mod number;
mod operate;
mod output;
mod pages;
mod pmin;
mod preflight;
mod progress;
mod reference;
mod relay;
mod replay;
mod report;
mod show;
mod sim;
mod sockets;
mod switch;
mod table;
mod testbed;
mod verdict;
mod watch;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    log::begin(cli.log_format);
    let result = match cli.command {
        Command::Testbed(args) => testbed::run(*args),
        Command::Switch(args) => switch::run(args),
        Command::Sim(args) => {
            pages::begin_on_large();
            sim::run(&args)
        }
        Command::Replay(args) => replay::run(args),
        Command::Bench(args) => bench::run(args),
        Command::Calibrate(args) => calibrate::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Generate(args) => generate::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Reference(args) => reference::run(&args),
        Command::Completion(args) => completion::run(&args),
        Command::Monitor(args) => monitor::run(&args),
        Command::Relay(args) => relay::run(&args),
        Command::Show(args) => show::run(&args),
        Command::Watch(args) => watch::run(&args),
        Command::Capture(args) => capture::run(&args),
        Command::Fault(args) => operate::fault(&args),
        Command::Set(args) => operate::set(&args),
    };
    match result {
        Ok(code) => code,
        Err(failure) => {
            log::fail(&failure.to_string());
            ExitCode::from(failure.code)
        }
    }
}
