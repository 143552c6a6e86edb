//! `spraycheck fault` and `set`: asks a running switch to change, and prints its links as they are then.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Value, json};

use crate::args::{FaultArgs, FaultCommand, LinkState, SetArgs, SetCommand};
use crate::failure::{Failure, USAGE};
use crate::{show, sockets};

pub(crate) fn fault(args: &FaultArgs) -> Result<ExitCode, Failure> {
    let request = fault_request(&args.command)?;
    ask(args.socket.as_ref(), &request, args.json.as_deref())
}

pub(crate) fn set(args: &SetArgs) -> Result<ExitCode, Failure> {
    let request = match &args.command {
        SetCommand::Link { link, state } => {
            json!({ "set": "link", "link": link, "on": *state == LinkState::On })
        }
    };
    ask(args.socket.as_ref(), &request, args.json.as_deref())
}

fn fault_request(command: &FaultCommand) -> Result<Value, Failure> {
    Ok(match command {
        FaultCommand::Add { fault } => {
            let Some((link, spec)) = fault.split_once(':') else {
                let message =
                    format!("\"{fault}\" is no fault; write LINK:SPEC like leaf0>spine1:drop=0.01");
                return Err(Failure::new(USAGE, message));
            };
            json!({ "fault": "add", "link": link, "spec": spec })
        }
        FaultCommand::List => json!({ "fault": "list" }),
        FaultCommand::Clear { link: None } => json!({ "fault": "clear" }),
        FaultCommand::Clear { link: Some(link) } => json!({ "fault": "clear", "link": link }),
    })
}

fn ask(
    socket: Option<&PathBuf>,
    request: &Value,
    json: Option<&Path>,
) -> Result<ExitCode, Failure> {
    let socket = match socket {
        Some(socket) => socket.clone(),
        None => sockets::running()?,
    };
    show::answer(&socket, "faults", request, json)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    /// Goal: what is typed becomes the request that a switch understands.
    #[test]
    fn words_become_requests() {
        for (words, request) in [
            (
                vec!["add", "leaf0>spine1:match=17:+3,action=drop"],
                json!({ "fault": "add", "link": "leaf0>spine1", "spec": "match=17:+3,action=drop" }),
            ),
            (vec!["list"], json!({ "fault": "list" })),
            (vec!["clear"], json!({ "fault": "clear" })),
            (
                vec!["clear", "leaf0>spine1"],
                json!({ "fault": "clear", "link": "leaf0>spine1" }),
            ),
        ] {
            let line = ["spraycheck", "fault"].into_iter().chain(words);
            let cli = crate::args::Cli::parse_from(line);
            let crate::args::Command::Fault(args) = cli.command else {
                panic!("another command");
            };
            assert_eq!(fault_request(&args.command).unwrap(), request);
        }
        let add = FaultCommand::Add {
            fault: "leaf0>spine1".into(),
        };
        assert_eq!(fault_request(&add).unwrap_err().code, USAGE);
    }
}
