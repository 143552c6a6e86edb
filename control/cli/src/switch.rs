//! `spraycheck switch`: leaves and spines on their devices, until they are told to stop.

use std::path::Path;
use std::process::ExitCode;

use config::{SwitchRequest, SwitchSet};

use crate::args::SwitchArgs;
use crate::embedded::Embedded;
use crate::failure::Failure;
use crate::{check, daemon, preflight, replay, sockets};

pub(crate) fn run(args: SwitchArgs) -> Result<ExitCode, Failure> {
    if args.dry_run {
        return check::files(&args.config, true);
    }
    // What the files get wrong is told before anything starts, and then what the machine lacks.
    let set = SwitchSet::read(&args.config)?;
    preflight::check(&set)?;
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let request = SwitchRequest {
        config_paths: args.config.iter().map(|path| absolute(path)).collect(),
        socket: args
            .socket
            .as_deref()
            .map(absolute)
            .or_else(sockets::of_this_run),
        eal: args.eal,
    };
    let first = set.switches.first();
    let size = first.map_or((0, 0), |first| (first.config.leaves, first.config.spines));
    // It ends with the switches.
    let _monitor = Embedded::beside(size, request.socket.as_deref(), args.monitor)?;
    replay::conclude(daemon::run("switch", &request, None)?, args.json.as_deref())
}
