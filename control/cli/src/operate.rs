//! `spraycheck fault` and `set`: asks a running switch or testbed to change, and prints its links as they
//! are then, or what has changed.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::{Map, Value, json};

use crate::args::{FaultArgs, FaultCommand, LinkState, OfSwitch, SetArgs, SetCommand};
use crate::failure::{Failure, USAGE};
use crate::{show, sockets};

pub(crate) fn fault(args: &FaultArgs) -> Result<ExitCode, Failure> {
    let request = fault_request(&args.command)?;
    ask(args.socket.as_ref(), &request, args.json.as_deref())
}

pub(crate) fn set(args: &SetArgs) -> Result<ExitCode, Failure> {
    let request = set_request(&args.command)?;
    ask(args.socket.as_ref(), &request, args.json.as_deref())
}

fn set_request(command: &SetCommand) -> Result<Value, Failure> {
    // Nothing, where a word says so.
    let some = |word: &'static str, text: &str| (text != word).then(|| text.to_owned());
    Ok(match command {
        SetCommand::Link { link, state } => {
            json!({ "set": "link", "link": link, "on": *state == LinkState::On })
        }
        SetCommand::Route { prefix, to, of } => {
            json!({ "set": "route", "switch": of.switch, "prefix": prefix, "to": some("none", to) })
        }
        SetCommand::Host {
            address,
            port,
            mac,
            of,
        } => json!({
            "set": "host", "switch": of.switch, "address": address, "port": some("none", port), "mac": mac,
        }),
        SetCommand::Spray { policy, tie, of } => {
            let policy = policy
                .as_ref()
                .map(|policy| ("spray.policy".to_owned(), policy));
            let tie = tie.as_ref().map(|tie| ("spray.tie".to_owned(), tie));
            let keys = policy.into_iter().chain(tie);
            keys_request(of, keys.map(|(key, to)| (key, some("default", to))))
        }
        SetCommand::Measurement { settings, of } => {
            let mut keys = Vec::new();
            for setting in settings {
                let (key, to) = match (setting.as_str(), setting.split_once('=')) {
                    ("on", _) => ("enabled", "true"),
                    ("off", _) => ("enabled", "false"),
                    (_, Some(pair)) => pair,
                    (_, None) => {
                        let message = format!(
                            "\"{setting}\" is no setting; write KEY=VALUE like evidence=hop-counts, or \
                             on or off"
                        );
                        return Err(Failure::new(USAGE, message));
                    }
                };
                keys.push((format!("measurement.{key}"), some("default", to)));
            }
            keys_request(of, keys.into_iter())
        }
        SetCommand::Log { filter } => json!({ "set": "log", "filter": filter }),
        SetCommand::Reload => json!({ "set": "reload" }),
    })
}

fn keys_request(of: &OfSwitch, keys: impl Iterator<Item = (String, Option<String>)>) -> Value {
    let keys: Map<String, Value> = keys.map(|(key, to)| (key, json!(to))).collect();
    json!({ "set": "keys", "switch": of.switch, "keys": keys })
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
    let is_of_links = request.get("fault").is_some() || request["set"] == "link";
    let what = if is_of_links { "faults" } else { "changes" };
    show::answer(&socket, what, request, json)
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
        for (words, request) in [
            (
                vec!["link", "leaf0>spine1", "off"],
                json!({ "set": "link", "link": "leaf0>spine1", "on": false }),
            ),
            (
                vec!["route", "10.0.9.0/24", "none", "--switch", "leaf0"],
                json!({ "set": "route", "switch": "leaf0", "prefix": "10.0.9.0/24", "to": null }),
            ),
            (
                vec!["host", "10.0.0.9", "host0"],
                json!({ "set": "host", "switch": null, "address": "10.0.0.9", "port": "host0", "mac": null }),
            ),
            (
                vec!["spray", "--tie", "random"],
                json!({ "set": "keys", "switch": null, "keys": { "spray.tie": "random" } }),
            ),
            (
                vec!["measurement", "off", "p0=0.001", "alpha=default"],
                json!({ "set": "keys", "switch": null, "keys": {
                    "measurement.enabled": "false", "measurement.p0": "0.001", "measurement.alpha": null,
                } }),
            ),
            (vec!["reload"], json!({ "set": "reload" })),
        ] {
            let line = ["spraycheck", "set"].into_iter().chain(words);
            let cli = crate::args::Cli::parse_from(line);
            let crate::args::Command::Set(args) = cli.command else {
                panic!("another command");
            };
            assert_eq!(set_request(&args.command).unwrap(), request);
        }
        let add = FaultCommand::Add {
            fault: "leaf0>spine1".into(),
        };
        assert_eq!(fault_request(&add).unwrap_err().code, USAGE);
    }
}
