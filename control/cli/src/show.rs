//! `spraycheck show`: asks a running testbed or switch over its Unix socket.

mod rows;

use std::path::Path;
use std::process::ExitCode;

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::args::ShowArgs;
use crate::connection::Connection;
use crate::failure::{Failure, NO, USAGE};
use crate::{output, sockets};

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
    let line = Connection::open(socket)?.ask(request)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: both forms of an answer are told apart.
    #[test]
    fn answers_have_two_forms() {
        let rows = serde_json::from_str(r#"{"show": "ports", "rows": [{"port": "up0"}]}"#);
        assert!(matches!(rows, Ok(Reply::Rows { rows }) if rows.len() == 1));
        let error = serde_json::from_str(r#"{"error": "no"}"#);
        assert!(matches!(error, Ok(Reply::Error { error }) if error == "no"));
    }
}
