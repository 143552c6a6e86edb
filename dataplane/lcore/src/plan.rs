//! From a testbed's settings to what its parts are made with: hosts, workload, rules, memory.

use config::fabric::{Fabric, OVERHEAD_BYTES, frame_max_bytes, path_delay_ns_max};
use config::{Evidence, Recovery, TestbedConfig, Workload as Kind};
use detector::{Noise, Rules, ThresholdRule};
use endpoint::workload::{Workload, WorkloadConfig, WorkloadError, WorkloadKind};
use endpoint::{BitRate, HostConfig, PathMtu};

/// The times of [`endpoint::Recovery`] are those of a 100 Gbit/s fabric.
const RECOVERY_RATE_BPS: u64 = 100_000_000_000;
/// Bytes of each message of a flow: 1 MiB, as collective libraries cut their transfers.
const MESSAGE_BYTES: u64 = 1 << 20;
/// Packet buffers beside those of windows: acknowledgements, messages in rings, a burst per port.
const BUFFERS_EXTRA: u32 = 8192;

/// Everything that a testbed is made with.
pub struct Plan<'a> {
    /// Its settings.
    pub config: &'a TestbedConfig,
}

impl Plan<'_> {
    /// What runs on the hosts.
    ///
    /// # Errors
    /// Names the setting that the workload cannot work with.
    pub fn workload(&self) -> Result<Workload, WorkloadError> {
        let config = self.config;
        Workload::new(WorkloadConfig {
            kind: match config.workload {
                Kind::AllToAll => WorkloadKind::AllToAll,
                Kind::RingAllreduce => WorkloadKind::RingAllReduce,
                Kind::Permutation => WorkloadKind::Permutation,
                Kind::Incast => WorkloadKind::Incast,
                Kind::Pairs => WorkloadKind::Pairs,
                Kind::Idle => WorkloadKind::Idle,
            },
            hosts: u32::from(config.leaves) * u32::from(config.hosts_per_leaf),
            hosts_per_leaf: u32::from(config.hosts_per_leaf),
            bytes: config.bytes.bytes(),
            qps: config.qps,
            iterations: config.iterations,
            message_bytes: MESSAGE_BYTES,
            announce: true,
            seed: config.seed,
        })
    }

    /// The adapter of host `index`.
    pub fn host(&self, fabric: &Fabric, index: usize, qps: usize) -> HostConfig {
        let config = self.config;
        let host = &fabric.hosts[index];
        // A slower fabric, or a coarser step, takes longer for the same packets.
        let slower = RECOVERY_RATE_BPS.div_ceil(config.link_rate.bits_per_second());
        let coarser = config.step.nanos().div_ceil(1000);
        let recovery = match config.recovery {
            Recovery::SelectiveRepeat => endpoint::Recovery::SELECTIVE_REPEAT,
            Recovery::GoBackN => endpoint::Recovery::GO_BACK_N,
        };
        let defaults = HostConfig::new(host.address, host.mac, host.gateway_mac);
        HostConfig {
            link_rate: BitRate::new(host.rate.bits_per_second()).unwrap_or(BitRate::gbps(1)),
            frame_overhead_bytes: OVERHEAD_BYTES,
            slack_ns: 2 * config.step.nanos(),
            mtu: PathMtu::new(config.mtu).unwrap_or(PathMtu::MAX),
            window_packets: config.window_packets,
            recovery: recovery.slowed(slower.max(coarser).max(1)),
            message_port: config.message_port,
            qps_max: qps.max(1) as u32,
            ..defaults
        }
    }

    /// How windows are judged.
    pub fn rules(&self) -> Rules {
        let config = self.config;
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
        let config = self.config;
        let hosts = f64::from(config.hosts_per_leaf) * config.host_rate.bits_per_second() as f64;
        hosts / (f64::from(config.spines) * config.link_rate.bits_per_second() as f64)
    }

    /// Load of the uplinks by the measured flow alone, which is one host's: only what is counted
    /// makes its own count more even.
    fn measured_load(&self) -> f64 {
        self.load() / f64::from(self.config.hosts_per_leaf.max(1))
    }

    /// How long a run goes on after its last flow: a close and its repetitions, and the verdict.
    pub fn settle_ns(&self) -> u64 {
        8 * path_delay_ns_max(self.config) + 100_000
    }

    /// Room of a packet buffer.
    pub fn frame_bytes_max(&self) -> u32 {
        frame_max_bytes(self.config)
    }

    /// Packet buffers that a run needs: every connection's window twice over, and some.
    pub fn buffers(&self) -> u32 {
        let config = self.config;
        let hosts = u32::from(config.leaves) * u32::from(config.hosts_per_leaf);
        let windows = hosts
            .saturating_mul(config.qps)
            .saturating_mul(config.window_packets);
        windows
            .saturating_mul(2)
            .saturating_add(BUFFERS_EXTRA)
            .min(1 << 20)
    }
}
