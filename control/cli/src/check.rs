//! `spraycheck check`: files validated and printed as they will be used.

use std::path::Path;
use std::process::ExitCode;

use crate::args::CheckArgs;
use crate::failure::{Failure, USAGE};
use crate::output;

pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let mut wrong = 0;
    for file in &args.files {
        match check(file) {
            Ok(text) => output::print(&text)?,
            Err(failure) => {
                eprintln!("spraycheck: {failure}");
                wrong += 1;
            }
        }
    }
    match wrong {
        0 => Ok(ExitCode::SUCCESS),
        // Each has been named above.
        _ => Ok(ExitCode::from(USAGE)),
    }
}

/// What `file` comes to, for people.
fn check(file: &Path) -> Result<String, Failure> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| Failure::new(USAGE, format!("cannot read {}: {error}", file.display())))?;
    Ok(config::check::check(file, &text)?)
}
