//! Configuration files, and faults as they are written: refused or resolved, never a panic.
#![no_main]

use std::path::Path;

libfuzzer_sys::fuzz_target!(|text: &str| {
    let path = Path::new("fuzzed.toml");
    let _ = config::switch_file::SwitchSpec::parse(path, text);
    let _ = config::scenario::ScenarioFile::parse(path, text);
    let _ = config::fault::read_faults(text);
});
