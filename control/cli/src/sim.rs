//! `spraycheck sim`: scenarios, experiments and the files of their shards.

mod csv;
mod merge;
mod named;
mod plot;
mod report;
mod scenario;
mod watch;

use std::process::ExitCode;

use crate::args::{SimArgs, Trial};
use crate::failure::{Failure, USAGE};

pub(crate) fn run(args: &SimArgs) -> Result<ExitCode, Failure> {
    if args.scenario.is_some() && args.name.is_some() {
        let why = "--scenario stands beside an experiment; give either";
        return Err(Failure::new(USAGE, why));
    }
    match &args.trial {
        Some(Trial::Pmin(args)) => return crate::pmin::run(args),
        Some(Trial::Sequential(args)) => return crate::pmin::sequential(args),
        Some(Trial::Agree(args)) => return crate::agree::run(args),
        None => {}
    }
    match args.name.as_deref() {
        None => scenario::run(args),
        Some("list") => named::list(args),
        Some("merge") => merge::run(args),
        Some("report") => report::run(args),
        Some(name) => named::run(args, name),
    }
}
