//! `spraycheck reference`: the reference of the configuration files, from their types.

use std::process::ExitCode;

use config::reference::{File, page, schema};

use crate::args::ReferenceArgs;
use crate::failure::{Failure, NO};
use crate::output;

pub(crate) fn run(args: &ReferenceArgs) -> Result<ExitCode, Failure> {
    let Some(word) = &args.schema else {
        output::print(&page())?;
        return Ok(ExitCode::SUCCESS);
    };
    let file = File::ALL.into_iter().find(|file| file.word() == word);
    let schema = file.map(schema).unwrap_or_default();
    let text = serde_json::to_string_pretty(&schema)
        .map_err(|error| Failure::new(NO, format!("the schema cannot be written: {error}")))?;
    output::print(&format!("{text}\n"))?;
    Ok(ExitCode::SUCCESS)
}
