//! What the command writes to the daemon's standard input: one JSON document.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::bench::BenchCase;
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

/// Run switches on their devices.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SwitchRequest {
    /// The switches' files; they were checked, each and together.
    pub config_paths: Vec<PathBuf>,
    /// Where `show` is answered, if anywhere.
    pub socket: Option<PathBuf>,
    /// EAL arguments behind those that are derived.
    pub eal: Vec<String>,
}

/// Measure the data plane.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BenchRequest {
    /// Roles to measure, each under all conditions below.
    pub cases: Vec<BenchCase>,
    /// Frames, in bytes without FCS.
    pub frames: Vec<u32>,
    /// Packets that a poll takes in at most.
    pub bursts: Vec<u16>,
    /// Lcores, each with a switch of its own; above 1 the scaling is measured as well.
    pub lcores: u32,
    /// One switch on two lcores instead: one receives, the other owns the uplinks.
    pub split: bool,
    /// Flows that packets are of in turn.
    pub flows: u32,
    /// Without the mempool's cache: buffers come back when they are no longer in the CPU's.
    pub cold: bool,
    /// Length of one sample, in seconds.
    pub seconds: f64,
    /// EAL arguments behind those that are derived.
    pub eal: Vec<String>,
}
