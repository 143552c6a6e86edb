//! From preset, file and flags to checked settings.

use std::path::{Path, PathBuf};

use super::{TestbedConfig, TestbedLayer};
use crate::choice::Preset;
use crate::document;
use crate::error::ConfigError;

/// A file of settings: TOML whose keys are those of [`TestbedConfig`], each optional.
#[derive(Clone, Debug)]
pub struct TestbedFile {
    path: PathBuf,
    text: String,
    /// What it says.
    pub layer: TestbedLayer,
}

impl TestbedFile {
    /// Reads `text`, the content of `path`.
    pub fn parse(path: &Path, text: &str) -> Result<TestbedFile, ConfigError> {
        let layer = document::parse(text).map_err(|error| error.in_file(path))?;
        Ok(TestbedFile {
            path: path.to_owned(),
            text: text.to_owned(),
            layer,
        })
    }
}

impl TestbedConfig {
    /// These settings, with others over them; checked.
    ///
    /// # Errors
    /// What is wrong with the result, by its key.
    pub fn with(&self, over: TestbedLayer) -> Result<TestbedConfig, ConfigError> {
        let mut config = self.clone();
        over.apply(&mut config);
        config.check()?;
        Ok(config)
    }

    /// The preset, what the file says over it, and the flags over that; checked.
    ///
    /// A mistake that the file makes is placed on its line.
    pub fn resolve(
        file: Option<&TestbedFile>,
        flags: TestbedLayer,
    ) -> Result<TestbedConfig, ConfigError> {
        let below = file.map(|file| file.layer.clone()).unwrap_or_default();
        let layer = below.with(flags.clone());
        let mut config = TestbedConfig::preset(layer.preset.unwrap_or(Preset::Default));
        let host_rate = layer.host_rate.or(layer.link_rate);
        layer.apply(&mut config);
        config.host_rate = host_rate.unwrap_or(config.link_rate);
        let placed = |error: ConfigError| match file {
            _ if flags.says(&error.key) => error,
            Some(file) if file.layer.says(&error.key) || flags == TestbedLayer::default() => {
                let line = document::line_of(&file.text, &error.key);
                error.on_line(line).in_file(&file.path)
            }
            _ => error,
        };
        config.check().map_err(placed)?;
        Ok(config)
    }
}
