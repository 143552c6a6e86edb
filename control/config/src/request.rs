//! What the command writes to the daemon's standard input: one JSON document.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::testbed::TestbedConfig;

/// Run a testbed.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestbedRequest {
    /// Checked settings.
    pub config: TestbedConfig,
    /// EAL arguments behind those that are derived.
    pub eal: Vec<String>,
}

/// Run a switch over captures.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReplayRequest {
    /// The switch's file; it was checked.
    pub config_path: PathBuf,
    /// Port names of that file, each with the capture that it receives.
    pub inputs: Vec<(String, PathBuf)>,
    /// Whether a capture holds both directions: each port then receives those frames of it whose
    /// source address is one of its hosts.
    pub split: bool,
    /// Folder for one capture per port.
    pub out_dir: PathBuf,
    /// EAL arguments behind those that are derived.
    pub eal: Vec<String>,
}

/// Run one switch on its devices.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchRequest {
    /// The switch's file; it was checked.
    pub config_path: PathBuf,
    /// Where `show` is answered, if anywhere.
    pub socket: Option<PathBuf>,
    /// EAL arguments behind those that are derived.
    pub eal: Vec<String>,
}
