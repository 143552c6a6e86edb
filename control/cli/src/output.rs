//! Where answers go: standard output, or a file of JSON.

use std::io::{ErrorKind, Write};
use std::path::Path;

use serde::Serialize;

use crate::failure::{ENVIRONMENT, Failure};

/// Whether JSON goes to standard output, on which nothing else may then be printed.
pub(crate) fn is_stdout(json: Option<&Path>) -> bool {
    json.is_some_and(|path| path.as_os_str() == "-")
}

/// Prints text to standard output. A reader that has seen enough is no failure.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Failure::new(
            ENVIRONMENT,
            format!("cannot write to standard output: {error}"),
        )),
        _ => Ok(()),
    }
}

/// Writes `value` as one JSON object to where `--json` says.
pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let failure = |error: &dyn std::fmt::Display| {
        let path = path.display();
        Failure::new(ENVIRONMENT, format!("--json: cannot write {path}: {error}"))
    };
    let mut text = serde_json::to_string(value).map_err(|error| failure(&error))?;
    text.push('\n');
    if is_stdout(Some(path)) {
        return print(&text);
    }
    std::fs::write(path, text).map_err(|error| failure(&error))
}
