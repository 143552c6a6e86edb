//! `spraycheck switch`: one leaf or spine on its devices, until it is told to stop.

use std::path::Path;
use std::process::ExitCode;

use config::{SwitchRequest, SwitchSpec};

use crate::args::SwitchArgs;
use crate::failure::Failure;
use crate::{check, daemon, replay, sockets};

pub(crate) fn run(args: SwitchArgs) -> Result<ExitCode, Failure> {
    if args.dry_run {
        return check::files(&[args.config]);
    }
    // What the file gets wrong is told before anything starts.
    SwitchSpec::read(&args.config)?;
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let request = SwitchRequest {
        config_path: absolute(&args.config),
        socket: args
            .socket
            .as_deref()
            .map(absolute)
            .or_else(sockets::of_this_run),
        eal: args.eal,
    };
    replay::conclude(daemon::run("switch", &request, None)?, args.json.as_deref())
}
