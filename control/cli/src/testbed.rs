//! `spraycheck testbed`: settings from preset, file and flags; the run; the report; the verdict.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use agent::result::DaemonLine;
use config::{ScenarioFile, TestbedConfig, TestbedFile, TestbedRequest};

use crate::args::TestbedArgs;
use crate::embedded::Embedded;
use crate::failure::{Failure, NO, USAGE};
use crate::verdict::Verdict;
use crate::{daemon, output, report, sockets};

/// What a run may take beyond its limit: starting DPDK, filling packet memory, judging.
const BEYOND: Duration = Duration::from_secs(60);

pub(crate) fn run(args: TestbedArgs) -> Result<ExitCode, Failure> {
    let mut config = settings(&args)?;
    config.socket = config.socket.or_else(sockets::of_this_run);
    let size = (config.leaves, config.spines);
    let monitor = Embedded::beside(size, config.socket.as_deref(), args.monitor)?;
    let limit = Duration::from_nanos(config.limit.nanos()) + BEYOND;
    let request = TestbedRequest {
        config,
        eal: args.eal,
    };
    let answer = daemon::run("testbed", &request, Some(limit))?;
    let DaemonLine::Result(result) = answer else {
        return Err(Failure::new(NO, daemon::NO_RESULT));
    };
    if let Some(path) = &args.json {
        output::write_json(path, &result)?;
    }
    if !output::is_stdout(args.json.as_deref()) {
        output::print(&report::render(&request.config, &result))?;
    }
    if let Some(monitor) = monitor {
        monitor.stay()?;
    }
    Ok(match Verdict::of(&result).is_yes() {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NO),
    })
}

/// The checked settings that the flags, and the file they name, give.
pub(crate) fn settings(args: &TestbedArgs) -> Result<TestbedConfig, Failure> {
    let mut config = match &args.scenario {
        Some(path) => ScenarioFile::parse(path, &text(path)?)?.testbed(args.layer()?)?,
        None => {
            let file = args.config.as_deref().map(read).transpose()?;
            TestbedConfig::resolve(file.as_ref(), args.layer()?)?
        }
    };
    // The daemon has the same working folder, but a reader of the request may not.
    for path in [&mut config.pcap_dir, &mut config.trace, &mut config.socket] {
        *path = path.take().map(|path| absolute(&path));
    }
    Ok(config)
}

fn read(path: &Path) -> Result<TestbedFile, Failure> {
    Ok(TestbedFile::parse(path, &text(path)?)?)
}

fn text(path: &Path) -> Result<String, Failure> {
    std::fs::read_to_string(path)
        .map_err(|error| Failure::new(USAGE, format!("cannot read {}: {error}", path.display())))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}
