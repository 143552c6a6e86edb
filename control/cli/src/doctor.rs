//! `spraycheck doctor`: what this machine has and lacks for DPDK, or for the switches of some files,
//! and what to do about each.

mod checks;
mod needs;

use std::process::ExitCode;

use serde::Serialize;

use crate::args::DoctorArgs;
use crate::failure::{Failure, NO};
use crate::machine::Machine;
use crate::output;

pub(crate) use needs::Needs;

/// How a finding stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum State {
    /// As it should be.
    Ok,
    /// It works, but slower or not for everything.
    Warning,
    /// A switch will not start.
    Missing,
}

/// What was looked at, what was found and what to do.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub(crate) struct Finding {
    pub(crate) check: &'static str,
    pub(crate) state: State,
    pub(crate) found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cure: Option<String>,
}

impl Finding {
    pub(crate) fn ok(check: &'static str, found: impl Into<String>) -> Finding {
        Finding {
            check,
            state: State::Ok,
            found: found.into(),
            cure: None,
        }
    }

    pub(crate) fn warning(
        check: &'static str,
        found: impl Into<String>,
        cure: impl Into<String>,
    ) -> Finding {
        Finding {
            state: State::Warning,
            cure: Some(cure.into()),
            ..Finding::ok(check, found)
        }
    }

    pub(crate) fn missing(
        check: &'static str,
        found: impl Into<String>,
        cure: impl Into<String>,
    ) -> Finding {
        Finding {
            state: State::Missing,
            ..Finding::warning(check, found, cure)
        }
    }
}

/// All findings, as `--json` has them.
#[derive(Serialize)]
struct Report {
    ready: bool,
    findings: Vec<Finding>,
}

pub(crate) fn run(args: &DoctorArgs) -> Result<ExitCode, Failure> {
    let needs = if args.config.is_empty() {
        Needs::default()
    } else {
        Needs::of(&config::SwitchSet::read(&args.config)?)
    };
    let machine = Machine::this();
    let mut findings = vec![checks::dpdk(crate::daemon::version())];
    findings.extend(checks::all(&machine, &needs));
    let ready = !findings
        .iter()
        .any(|finding| finding.state == State::Missing);
    if !output::is_stdout(args.json.as_deref()) {
        output::print(&table(&findings))?;
    }
    if let Some(path) = args.json.as_deref() {
        output::write_json(path, &Report { ready, findings })?;
    }
    Ok(if ready {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NO)
    })
}

/// One line for each, and below it what to do.
fn table(findings: &[Finding]) -> String {
    let mut text = String::new();
    for finding in findings {
        let state = match finding.state {
            State::Ok => "ok",
            State::Warning => "warning",
            State::Missing => "missing",
        };
        text += &format!("{:<12}{state:<9}{}\n", finding.check, finding.found);
        if let Some(cure) = &finding.cure {
            text += &format!("{:21}-> {cure}\n", "");
        }
    }
    text
}

#[cfg(test)]
mod tests;
