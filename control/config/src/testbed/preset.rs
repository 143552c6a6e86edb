//! The two sets of settings that everything starts from.

use super::{FaultList, LinkList, TestbedConfig};
use crate::choice::{
    Announce, Evidence, Mark, PathTest, Preset, Recovery, Ring, Spray, Tie, Workload,
};
use crate::quantity::{Bytes, Probability, Rate, Time};

/// The longest step of fabric time: a stalled machine then fires no timeouts.
pub(super) const STEP_MAX: Time = Time::new(10_000);

impl TestbedConfig {
    /// The settings of a preset.
    pub fn preset(preset: Preset) -> TestbedConfig {
        let default = TestbedConfig {
            preset,
            leaves: 8,
            spines: 8,
            hosts_per_leaf: 1,
            link_rate: Rate::new(10_000_000_000),
            host_rate: Rate::new(10_000_000_000),
            workload: Workload::AllToAll,
            bytes: Bytes::new(64 << 20),
            qps: 2,
            iterations: 1,
            mtu: 4096,
            spray: Spray::Jsq2,
            tie: Tie::FewestMeasured,
            evidence: Evidence::SourceCounts,
            mark: Mark::First,
            p0: Probability::new(detector::rules::DEFAULT_P0).unwrap_or_default(),
            alpha: Probability::new(detector::rules::DEFAULT_ALPHA).unwrap_or_default(),
            announce: Announce::Host,
            test: PathTest::Fixed,
            counter_bits: 32,
            recovery: Recovery::SelectiveRepeat,
            ring: Ring::Steps,
            background: Probability::default(),
            background_aimd: false,
            seed: 1,
            faults: FaultList::default(),
            disabled: LinkList::default(),
            limit: Time::new(60_000_000_000),
            queue_limit: Bytes::new(1 << 20),
            window_packets: 64,
            step: STEP_MAX,
            burst: 32,
            interleave: false,
            message_port: packet::message::DEFAULT_PORT,
            link_state: Time::new(100_000_000),
            // A tenth of the link-state interval: a testbed's links do not bounce, and its runs
            // are short.
            hold_down: Time::new(10_000_000),
            // Marking slows senders that heed it, and the calibrated noise is that of full load.
            ecn: false,
            dcqcn: None,
            qp_rate: None,
            flows: None,
            sensitivity: None,
            p_min: None,
            spine_packets: None,
            pcap_dir: None,
            trace: None,
            socket: None,
            metrics: None,
        };
        match preset {
            Preset::Default => default,
            // Paper section 3: JSQ(2) with a coin for ties, every packet of the flow marked,
            // thresholds from N alone. Egress after each packet: its queues are those of a
            // switch at line rate, not of a poll loop.
            Preset::Paper => TestbedConfig {
                tie: Tie::Random,
                mark: Mark::All,
                evidence: Evidence::ReceiveOnly,
                sensitivity: Some(detector::threshold::PAPER_SENSITIVITY),
                interleave: true,
                ..default
            },
        }
    }

    /// Whether the paper's protocol is spoken: no close, no colour, and hosts are believed.
    pub fn is_paper(&self) -> bool {
        self.preset == Preset::Paper
    }
}
