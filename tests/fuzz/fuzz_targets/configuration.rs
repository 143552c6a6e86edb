//! Configuration files, and faults as they are written: refused or resolved, never a panic.
#![no_main]

use std::path::Path;

use config::{FabricFile, MonitorFile, ScenarioFile, SimConfig, SwitchSpec, TestbedFile};

libfuzzer_sys::fuzz_target!(|text: &str| {
    let path = Path::new("fuzzed.toml");
    let _ = SwitchSpec::parse(path, text);
    let _ = FabricFile::parse(path, text);
    let _ = MonitorFile::parse(path, text);
    let _ = config::fault::read_faults(text);
    if let Ok(file) = TestbedFile::parse(path, text) {
        let _ = config::TestbedConfig::resolve(Some(&file), config::TestbedLayer::default());
    }
    if let Ok(file) = ScenarioFile::parse(path, text) {
        let _ = SimConfig::resolve(Some(&file), config::SimLayer::default());
    }
});
