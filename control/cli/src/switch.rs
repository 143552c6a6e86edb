//! `spraycheck switch`: leaves and spines on their devices, until they are told to stop.

use std::path::Path;
use std::process::ExitCode;

use config::{SwitchRequest, SwitchSet};
use detector::Fabric;

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
    // It ends with the switches.
    let _monitor = match (args.monitor, set.switches.first()) {
        (Some(listen), Some(first)) => {
            let fabric = Fabric {
                leaves: first.config.leaves,
                spines: first.config.spines,
            };
            Some(Embedded::start(listen, fabric, request.socket.as_deref())?)
        }
        _ => None,
    };
    replay::conclude(daemon::run("switch", &request, None)?, args.json.as_deref())
}
