//! `spraycheck show`: asks a running testbed or switch over its Unix socket.

mod rows;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::args::ShowArgs;
use crate::failure::{ENVIRONMENT, Failure, NO, USAGE};
use crate::{output, sockets};

/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// Longest answer that is read, in bytes.
const REPLY_MAX: u64 = 64 << 20;

#[derive(Deserialize)]
#[serde(untagged)]
enum Reply {
    Rows { rows: Vec<Map<String, Value>> },
    Error { error: String },
}

pub(crate) fn run(args: &ShowArgs) -> Result<ExitCode, Failure> {
    if args.since.is_some() && args.what != "links" {
        let message = format!("--since goes with links, not with {}", args.what);
        return Err(Failure::new(USAGE, message));
    }
    // A history, and who is heard, only a monitor has.
    let is_monitors = args.since.is_some() || args.what == "sources";
    let socket = match &args.socket {
        Some(socket) => socket.clone(),
        None if is_monitors => sockets::running_monitor()?,
        None => sockets::running()?,
    };
    let request = match args.since {
        Some(since_s) => json!({ "show": args.what, "since_s": since_s }),
        None => json!({ "show": args.what }),
    };
    answer(&socket, &args.what, &request, args.json.as_deref())
}

/// Asks and prints the rows that come back, as a table or as JSON.
pub(crate) fn answer(
    socket: &Path,
    what: &str,
    request: &Value,
    json: Option<&Path>,
) -> Result<ExitCode, Failure> {
    let line = ask(socket, request)?;
    let wrong = |why: &str| {
        Failure::new(
            NO,
            format!("{}: {why}; is it of the same version?", socket.display()),
        )
    };
    match serde_json::from_str(&line).map_err(|error| wrong(&error.to_string()))? {
        Reply::Error { error } => return Err(Failure::new(NO, error)),
        Reply::Rows { rows } => match json {
            Some(path) => {
                output::write_json(path, &json!({ "show": what, "rows": rows }))?;
            }
            None => output::print(&rows::render(&rows, rows::is_coloured()))?,
        },
    }
    Ok(ExitCode::SUCCESS)
}

/// One line asks, one line answers.
fn ask(socket: &Path, request: &Value) -> Result<String, Failure> {
    let lacks = |what: &str, error: std::io::Error| {
        let socket = socket.display();
        let cure = "is a testbed or switch running that was started with this --socket?";
        Failure::new(ENVIRONMENT, format!("{what} {socket}: {error}; {cure}"))
    };
    let mut stream = UnixStream::connect(socket).map_err(|e| lacks("cannot connect to", e))?;
    let timeouts = stream
        .set_read_timeout(Some(PATIENCE))
        .and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
    timeouts.map_err(|error| lacks("cannot use", error))?;
    let request = format!("{request}\n");
    stream
        .write_all(request.as_bytes())
        .map_err(|error| lacks("cannot ask", error))?;
    let mut line = String::new();
    let mut reader = BufReader::new(stream.take(REPLY_MAX));
    reader
        .read_line(&mut line)
        .map_err(|error| lacks("no answer from", error))?;
    if !line.ends_with('\n') {
        let cut = std::io::ErrorKind::UnexpectedEof.into();
        return Err(lacks("the answer was cut off by", cut));
    }
    Ok(line)
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use super::*;

    /// Goal: one line goes to the socket and its answer comes back; nobody there is exit code 3.
    #[test]
    fn a_socket_is_asked() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let failure = ask(&socket, &json!({ "show": "ports" })).unwrap_err();
        assert_eq!(failure.code, ENVIRONMENT, "{failure}");
        let listener = UnixListener::bind(&socket).unwrap();
        let server = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            let mut line = String::new();
            BufReader::new(stream.try_clone().unwrap())
                .read_line(&mut line)
                .unwrap();
            stream
                .write_all(b"{\"show\":\"ports\",\"rows\":[]}\n")
                .unwrap();
            line
        });
        let answer = ask(&socket, &json!({ "show": "ports" })).unwrap();
        assert_eq!(answer, "{\"show\":\"ports\",\"rows\":[]}\n");
        assert_eq!(server.join().unwrap(), "{\"show\":\"ports\"}\n");
    }

    /// Goal: both forms of an answer are told apart.
    #[test]
    fn answers_have_two_forms() {
        let rows = serde_json::from_str(r#"{"show": "ports", "rows": [{"port": "up0"}]}"#);
        assert!(matches!(rows, Ok(Reply::Rows { rows }) if rows.len() == 1));
        let error = serde_json::from_str(r#"{"error": "no"}"#);
        assert!(matches!(error, Ok(Reply::Error { error }) if error == "no"));
    }
}
