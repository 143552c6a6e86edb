//! `spraycheck capture`: takes pcapng from a running testbed or switch and writes it out.

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::args::CaptureArgs;
use crate::failure::{ENVIRONMENT, Failure, USAGE};
use crate::sockets;

/// What the switch says between the bytes.
#[derive(Deserialize, Debug)]
#[serde(untagged)]
enum Line {
    Error {
        error: String,
    },
    Begun {
        interfaces: Vec<String>,
    },
    Chunk {
        bytes: u64,
        captured: u64,
    },
    Ended {
        end: String,
        captured: u64,
        missed: u64,
    },
}

pub(crate) fn run(args: &CaptureArgs) -> Result<ExitCode, Failure> {
    let socket = match &args.socket {
        Some(socket) => socket.clone(),
        None => sockets::running()?,
    };
    let lacks = |what: &str, error: &dyn std::fmt::Display| {
        let socket = socket.display();
        let cure = "is a testbed or switch running that was started with this --socket?";
        Failure::new(ENVIRONMENT, format!("{what} {socket}: {error}; {cure}"))
    };
    let mut stream = UnixStream::connect(&socket).map_err(|e| lacks("cannot connect to", &e))?;
    let request = json!({ "capture": {
        "ports": args.ports, "directions": args.directions, "filter": args.filter, "sample": args.sample,
        "snaplen": args.snaplen, "count": args.count, "seconds": args.seconds,
    } });
    // A signal ends the capture on the other side, which then says what it counted.
    let ending = stream.try_clone().map_err(|e| lacks("cannot use", &e))?;
    let mut signals =
        Signals::new([SIGINT, SIGTERM]).map_err(|e| lacks("cannot take signals for", &e))?;
    std::thread::spawn(move || {
        if signals.forever().next().is_some() {
            // One that has ended already needs no more.
            let _ = ending.shutdown(Shutdown::Write);
        }
    });
    stream
        .write_all(format!("{request}\n").as_bytes())
        .map_err(|e| lacks("cannot ask", &e))?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader
        .read_line(&mut line)
        .map_err(|e| lacks("no answer from", &e))?;
    match serde_json::from_str(&line) {
        Ok(Line::Error { error }) => return Err(Failure::new(USAGE, error)),
        Ok(Line::Begun { interfaces }) => say(args, &format!("on {}", named(&interfaces))),
        Ok(_) => return Err(lacks("no answer from", &"it begins in the middle")),
        Err(error) => return Err(lacks("no sense in the answer of", &error)),
    }
    pour(args, &mut reader)
}

/// Some names of many.
fn named(interfaces: &[String]) -> String {
    match interfaces {
        few if few.len() <= 4 => few.join(", "),
        [first, second, .., last] => format!(
            "{first}, {second} .. {last} ({} interfaces)",
            interfaces.len()
        ),
        _ => String::new(),
    }
}

/// Standard error is for people; a pipe is for packets.
fn say(args: &CaptureArgs, what: &str) {
    crate::log::say(&format!("capture      {what}, into {}", args.out.display()));
}

fn output(path: &Path) -> Result<Box<dyn Write>, Failure> {
    if path.as_os_str() == "-" {
        return Ok(Box::new(std::io::stdout().lock()));
    }
    match File::create(path) {
        Ok(file) => Ok(Box::new(file)),
        Err(error) => {
            let message = format!("--out: cannot write {}: {error}", path.display());
            Err(Failure::new(ENVIRONMENT, message))
        }
    }
}

/// Copies chunks to where they go, until the capture ends.
fn pour(args: &CaptureArgs, reader: &mut BufReader<UnixStream>) -> Result<ExitCode, Failure> {
    let mut out = output(&args.out)?;
    let mut so_far = 0;
    let failed = |error: &dyn std::fmt::Display| {
        let path = args.out.display();
        Failure::new(ENVIRONMENT, format!("--out: cannot write {path}: {error}"))
    };
    loop {
        let mut line = String::new();
        let read = reader.read_line(&mut line).unwrap_or(0);
        let said = (read > 0).then(|| serde_json::from_str(&line));
        match said {
            Some(Ok(Line::Chunk { bytes, captured })) => {
                let copied = std::io::copy(&mut reader.take(bytes), &mut out)
                    .and_then(|copied| out.flush().map(|()| copied));
                match copied {
                    // Who reads a pipe has seen enough.
                    Err(error) if error.kind() == ErrorKind::BrokenPipe => {
                        return Ok(ExitCode::SUCCESS);
                    }
                    Err(error) => return Err(failed(&error)),
                    Ok(copied) if copied < bytes => break,
                    Ok(_) => so_far = captured,
                }
            }
            Some(Ok(Line::Ended {
                end,
                captured,
                missed,
            })) => {
                let why = match end.as_str() {
                    "client" => "told to end",
                    "count" => "the count is reached",
                    "seconds" => "the time is over",
                    other => other,
                };
                say(
                    args,
                    &format!("{captured} packets, capture-missed {missed}; {why}"),
                );
                return Ok(ExitCode::SUCCESS);
            }
            Some(Ok(Line::Error { error })) => return Err(Failure::new(ENVIRONMENT, error)),
            Some(Ok(Line::Begun { .. }) | Err(_)) => {
                return Err(Failure::new(
                    ENVIRONMENT,
                    "the switch says something else than packets; is it of the same version?",
                ));
            }
            None => break,
        }
    }
    say(args, &format!("{so_far} packets; the switch has ended"));
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_told_apart() {
        let read = |text: &str| serde_json::from_str::<Line>(text).unwrap();
        assert!(matches!(read(r#"{"error": "no"}"#), Line::Error { error } if error == "no"));
        assert!(matches!(
            read(r#"{"interfaces": ["a.h"]}"#),
            Line::Begun { .. }
        ));
        assert!(matches!(
            read(r#"{"bytes": 7, "captured": 1}"#),
            Line::Chunk {
                bytes: 7,
                captured: 1
            }
        ));
        assert!(matches!(
            read(r#"{"end": "count", "captured": 5, "missed": 2}"#),
            Line::Ended {
                captured: 5,
                missed: 2,
                ..
            }
        ));
    }

    #[test]
    fn many_interfaces_are_named_shortly() {
        let names: Vec<String> = (0..9).map(|n| format!("leaf{n}.h")).collect();
        assert_eq!(named(&names[..2]), "leaf0.h, leaf1.h");
        assert_eq!(named(&names), "leaf0.h, leaf1.h .. leaf8.h (9 interfaces)");
    }
}
