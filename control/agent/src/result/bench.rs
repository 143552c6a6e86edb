//! The answer of `bench`.

use serde::{Deserialize, Serialize};

/// What was measured, and on what.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct BenchResult {
    /// CPU and kernel.
    pub machine: String,
    /// Release of DPDK.
    pub dpdk: String,
    /// Whether packets were in hugepages: figures with and without them do not compare.
    pub hugepages: bool,
    /// Load average before, over one, five and fifteen minutes.
    pub load_before: [f64; 3],
    /// CPUs that were busy with something else meanwhile, on average.
    pub others_cpus: f64,
    /// Whether the scheduler was told to prefer this process.
    pub is_preferred: bool,
    /// Length of one sample, in seconds.
    pub seconds: f64,
    /// Samples of each figure; medians are told.
    pub samples: u32,
    /// What was measured.
    pub cases: Vec<BenchRow>,
    /// Whether a signal ended it before all was measured.
    pub partial: bool,
}

/// One case under one set of conditions.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct BenchRow {
    /// Which.
    pub case: String,
    /// Driver of the ports.
    pub vdev: String,
    /// Bytes of a frame without FCS.
    pub frame: u32,
    /// Packets that a poll takes in at most.
    pub burst: u16,
    /// Lcores, each with a switch of its own.
    pub lcores: u32,
    /// One switch on two lcores instead: one receives, the other owns the uplinks. The loop in C
    /// beside it is on one.
    #[serde(default)]
    pub split: bool,
    /// Flows that packets are of in turn.
    #[serde(default)]
    pub flows: u32,
    /// Whether the mempool had no cache.
    pub cold: bool,
    /// Millions of packets a second through the switches.
    pub mpps: f64,
    /// Cycles of the time-stamp counter for each packet, on its lcore.
    pub cycles_per_packet: f64,
    /// Millions of packets a second through the loop in C.
    pub c_loop_mpps: f64,
    /// The median of the ratios of neighbouring samples.
    pub ratio_to_c_loop: f64,
    /// The least and the largest of them.
    pub ratio_range: [f64; 2],
    /// Median time through the switch over rings, in nanoseconds.
    pub p50_ns: u64,
    /// 99th percentile.
    pub p99_ns: u64,
    /// Heap allocations for each packet.
    pub allocations_per_packet: f64,
    /// How the switches gained from all lcores, as a share of what the loop in C gained.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scaling_to_c_loop: Option<f64>,
    /// Cycles for each packet of the same traffic when none of it is measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmeasured_cycles_per_packet: Option<f64>,
    /// What measuring adds to those, in percent: the median of neighbouring samples.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measuring_percent: Option<f64>,
    /// The least and the largest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub measuring_percent_range: Option<[f64; 2]>,
    /// What was wrong with the run, if anything: then its figures mean nothing.
    #[serde(default)]
    pub problems: Vec<String>,
}
