//! From settings to how windows are cut and judged.

use detector::{Noise, Rules, ThresholdRule};

use super::TestbedConfig;
use crate::choice::{Announce, Evidence, PathTest};

/// Packets per spine of a window for the sequential test: few, for it can tell after each; more
/// than a hundred times the messages that a window takes.
pub const SEQUENTIAL_PACKETS: u64 = 64;

impl TestbedConfig {
    /// How windows are judged.
    pub fn rules(&self) -> Rules {
        let config = self;
        let fabric = detector::Fabric {
            leaves: config.leaves,
            spines: config.spines,
        };
        let base = if config.is_paper() {
            Rules::paper(fabric)
        } else {
            Rules::new(fabric)
        };
        let evidence = match config.evidence {
            Evidence::ReceiveOnly => detector::Evidence::ReceiveOnly,
            Evidence::SourceCounts => detector::Evidence::SourceCounts,
            Evidence::HopCounts => detector::Evidence::HopCounts,
        };
        let mut rules = Rules {
            evidence,
            noise: Noise::calibrated(
                config.spray.word(),
                config.tie.word(),
                config.mark.word(),
                config.spines,
                self.measured_load(),
            ),
            p0: config.p0.value(),
            alpha: config.alpha.value(),
            ..base
        };
        if let Some(sensitivity) = config.sensitivity {
            rules.threshold = ThresholdRule::Paper { sensitivity };
        }
        match config.p_min {
            Some(p_min) => Rules { p_min, ..rules },
            None if config.is_paper() => rules,
            None => rules.sized(),
        }
    }

    /// Load of the uplinks by what the hosts of a leaf can send.
    pub fn load(&self) -> f64 {
        let config = self;
        let hosts = f64::from(config.hosts_per_leaf) * config.host_rate.bits_per_second() as f64;
        hosts / (f64::from(config.spines) * config.link_rate.bits_per_second() as f64)
    }

    /// Load of the uplinks by the measured flow alone, which is one host's: only what is counted
    /// makes its own count more even.
    fn measured_load(&self) -> f64 {
        self.load() / f64::from(self.hosts_per_leaf.max(1))
    }

    /// Packets per spine of a window; 0: as many as the flow has.
    pub fn window_spine_packets(&self) -> u64 {
        match (self.spine_packets, self.test, self.announce) {
            (Some(packets), _, _) => packets,
            (None, _, _) if self.is_paper() => 0,
            (None, PathTest::Sequential, _) => SEQUENTIAL_PACKETS,
            (None, PathTest::Fixed, Announce::Host) => 0,
            (None, PathTest::Fixed, Announce::Window | Announce::Mixed) => self.rules().p_min,
        }
    }
}
