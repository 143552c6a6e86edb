//! `spraycheck replay`: one switch, captures in, captures out.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use agent::result::{DaemonLine, ReplayResult};
use config::{ReplayRequest, SwitchSpec};

use crate::args::ReplayArgs;
use crate::failure::{ENVIRONMENT, Failure, NO, USAGE};
use crate::number::grouped;
use crate::{daemon, output, table};

pub(crate) fn run(args: ReplayArgs) -> Result<ExitCode, Failure> {
    let json = args.json.clone();
    let request = request(args)?;
    conclude(daemon::run("replay", &request, None)?, json.as_deref())
}

/// Prints what one switch has counted, as the daemon's answer has it.
pub(crate) fn conclude(answer: DaemonLine, json: Option<&Path>) -> Result<ExitCode, Failure> {
    let DaemonLine::Replay(result) = answer else {
        let message = "spraycheckd answered something else than a switch's counters; is it of the \
                       same version?";
        return Err(Failure::new(NO, message));
    };
    if let Some(path) = json {
        output::write_json(path, &result)?;
    }
    if !output::is_stdout(json) {
        output::print(&render(&result))?;
    }
    Ok(match result.conservation_ok {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(NO),
    })
}

/// The checked request that the flags give.
fn request(args: ReplayArgs) -> Result<ReplayRequest, Failure> {
    let spec = SwitchSpec::read(&args.config)?;
    let mut inputs: Vec<(String, PathBuf)> = Vec::new();
    for (port, file) in args.inputs {
        let wrong =
            |why: String| Failure::new(USAGE, format!("--in {port}={}: {why}", file.display()));
        if !spec.port_names.contains(&port) {
            let names = spec.port_names.join(", ");
            return Err(wrong(format!(
                "{} has no port \"{port}\"; its ports are {names}",
                spec.name
            )));
        }
        if inputs.iter().any(|(other, _)| *other == port) {
            return Err(wrong(
                "this port has a capture already; join them with mergecap".to_owned(),
            ));
        }
        if let Err(error) = std::fs::File::open(&file) {
            return Err(wrong(format!("cannot read the capture: {error}")));
        }
        inputs.push((port, absolute(&file)));
    }
    std::fs::create_dir_all(&args.out).map_err(|error| {
        let out = args.out.display();
        Failure::new(
            ENVIRONMENT,
            format!("--out {out}: cannot make the folder: {error}"),
        )
    })?;
    Ok(ReplayRequest {
        config_path: absolute(&args.config),
        inputs,
        split: args.split,
        out_dir: absolute(&args.out),
        eal: args.eal,
    })
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// The counters for people.
fn render(result: &ReplayResult) -> String {
    let rows: Vec<_> = result
        .ports
        .iter()
        .filter_map(|port| match serde_json::to_value(port) {
            Ok(serde_json::Value::Object(row)) => Some(row),
            _ => None,
        })
        .collect();
    let mut text = table::render(&rows);
    let counters = &result.counters;
    let mut line = |name: &str, count: u64| {
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:<24}{:>14}", grouped(count));
    };
    line("received", counters.rx);
    line("made here", counters.generated);
    line("sent", counters.tx);
    line("consumed", counters.consumed);
    line("queued", counters.queued);
    for (reason, count) in &counters.drops {
        line(&format!("dropped: {reason}"), *count);
    }
    for (note, count) in &counters.notes {
        line(note, *count);
    }
    for device in &result.devices {
        let name = format!("{}: {}", device.device, device.counter);
        // Writing to a string does not fail.
        let _ = writeln!(text, "{name:<24}{:>14}", grouped(device.packets));
    }
    text.push_str(match result.conservation_ok {
        true => "all packets are accounted for\n",
        false => "NOT ALL PACKETS ARE ACCOUNTED FOR\n",
    });
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::result::{ReplayCounters, ReplayPort};

    /// Goal: the counters of a replay are readable at a glance.
    #[test]
    fn counters_are_rendered() {
        let port = |name: &str, rx, tx| ReplayPort {
            name: name.to_owned(),
            rx,
            tx,
        };
        let result = ReplayResult {
            ports: vec![port("host0", 40, 10), port("up0", 0, 41)],
            counters: ReplayCounters {
                rx: 40,
                generated: 12,
                tx: 51,
                consumed: 0,
                queued: 0,
                drops: [("roce-v1".to_owned(), 1)].into(),
                notes: [("roce".to_owned(), 1_040)].into(),
            },
            conservation_ok: true,
            elapsed_s: 0.1,
            devices: Vec::new(),
        };
        insta::assert_snapshot!(render(&result));
    }

    /// Goal: what cannot be replayed is refused before anything starts, with the cure.
    #[test]
    fn wrong_requests_are_explained() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let leaf = include_str!("../../../docs/examples/leaf0.toml");
        std::fs::write(path("leaf0.toml"), leaf).unwrap();
        std::fs::write(path("a.pcap"), b"").unwrap();
        let ask = |config: &str, inputs: &[(&str, &str)]| {
            let inputs = inputs
                .iter()
                .map(|(port, file)| ((*port).to_owned(), path(file)));
            request(ReplayArgs {
                config: path(config),
                inputs: inputs.collect(),
                split: true,
                out: path("out"),
                json: None,
                eal: vec!["-l0".to_owned()],
            })
        };
        for (config, inputs, message) in [
            (
                "absent.toml",
                &[("host0", "a.pcap")][..],
                "absent.toml: cannot be read",
            ),
            (
                "leaf0.toml",
                &[("host1", "a.pcap")],
                "leaf0 has no port \"host1\"; its ports are host0, up0, up1, up2, up3",
            ),
            (
                "leaf0.toml",
                &[("host0", "a.pcap"), ("host0", "a.pcap")],
                "this port has a capture already",
            ),
            (
                "leaf0.toml",
                &[("host0", "b.pcap")],
                "cannot read the capture",
            ),
        ] {
            let failure = ask(config, inputs).unwrap_err();
            assert_eq!(failure.code, USAGE, "{failure}");
            assert!(
                failure.to_string().contains(message),
                "{failure} is not {message}"
            );
        }
        let request = ask("leaf0.toml", &[("host0", "a.pcap"), ("up0", "a.pcap")]).unwrap();
        assert_eq!(request.inputs.len(), 2);
        assert!(request.split && request.out_dir.is_dir() && request.config_path.is_absolute());
    }
}
