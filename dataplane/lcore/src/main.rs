//! `spraycheckd`: what needs DPDK, started by `spraycheck`.
//!
//! `spraycheckd testbed`, `replay`, `switch` and `bench` read one JSON request from standard input and
//! write one JSON object a line to standard output until the result. Log lines go to standard
//! error. SIGINT and SIGTERM end a run with what it has.

use std::io::{Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use agent::result::DaemonLine;
use lcore::failure::Failure;
use lcore::machine::Cpus;
use lcore::{bench, live, replay, testbed};

fn main() -> ExitCode {
    let cpus = Cpus::read();
    agent::log::begin();
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        if let Err(error) = signal_hook::flag::register(signal, Arc::clone(&stop)) {
            tracing::warn!("signal {signal} will not end the run cleanly: {error}");
        }
    }
    // Whoever reads the lines is gone with a command that was killed; a switch would poll on for ever.
    let mine = Some(rustix::process::Signal::TERM);
    if let Err(error) = rustix::process::set_parent_process_death_signal(mine) {
        tracing::warn!("this will not end with the command that has started it: {error}");
    }
    match run(&cpus, &stop) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let exit_code = failure.exit_code;
            tell(&DaemonLine::Error {
                message: failure.message,
                exit_code,
            });
            ExitCode::from(exit_code)
        }
    }
}

fn run(cpus: &Cpus, stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    let mut arguments = std::env::args().skip(1);
    match (arguments.next().as_deref(), arguments.next()) {
        (Some("testbed"), None) => testbed::run(&request()?, cpus, stop, &mut tell),
        (Some("replay"), None) => replay::run(&request()?, cpus, stop, &mut tell),
        (Some("switch"), None) => live::run(&request()?, cpus, stop, &mut tell),
        (Some("bench"), None) => bench::run(&request()?, cpus, stop, &mut tell),
        (Some("--version"), None) => {
            println!(
                "spraycheckd {} on {}",
                env!("CARGO_PKG_VERSION"),
                dpdk::version()
            );
            Ok(())
        }
        _ => Err(Failure::usage(
            "usage: spraycheckd testbed|replay|switch|bench with a JSON request on standard input; people type `spraycheck`",
        )),
    }
}

/// The request on standard input.
fn request<T: serde::de::DeserializeOwned>() -> Result<T, Failure> {
    let mut text = String::new();
    std::io::stdin()
        .read_to_string(&mut text)
        .map_err(Failure::environment)?;
    serde_json::from_str(&text)
        .map_err(|error| Failure::usage(format!("the request on standard input: {error}")))
}

/// One line to the command. If it is gone there is nobody to tell, and its pipe ends the run.
fn tell(line: &DaemonLine) {
    let mut out = std::io::stdout().lock();
    let written = writeln!(out, "{}", line.to_json());
    if written.and_then(|()| out.flush()).is_err() {
        std::process::exit(3);
    }
}
