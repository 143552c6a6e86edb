//! From a testbed's settings to what its parts are made with: hosts, workload, rules, memory.

use std::fs::File;

use config::fabric::{Fabric, OVERHEAD_BYTES, frame_max_bytes, path_delay_ns_max, silence_ns};
use config::{Announce, Dcqcn, Recovery, Ring, TestbedConfig, Workload as Kind};
use detector::Rules;
use endpoint::dcqcn::{DcqcnConfig, DcqcnPreset};
use endpoint::workload::{RingAccounting, Workload, WorkloadConfig, WorkloadKind, trace};
use endpoint::{Background, BitRate, HostConfig, PathMtu, RateControl, Verb};

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
    /// Names the setting that the workload cannot work with, or what is wrong with its file.
    pub fn workload(&self) -> Result<Workload, String> {
        self.workload_of(0)
    }

    /// The same as host `index` takes part in it: some announce their flows, others do not.
    ///
    /// # Errors
    /// As [`Plan::workload`].
    pub fn workload_of(&self, index: usize) -> Result<Workload, String> {
        let config = self.config;
        let workload = WorkloadConfig {
            kind: match config.workload {
                Kind::AllToAll => WorkloadKind::AllToAll,
                Kind::RingAllreduce => WorkloadKind::RingAllReduce,
                Kind::Permutation => WorkloadKind::Permutation,
                Kind::Incast => WorkloadKind::Incast,
                Kind::Pairs => WorkloadKind::Pairs,
                Kind::Trace => WorkloadKind::Trace,
                Kind::Idle => WorkloadKind::Idle,
            },
            hosts: u32::from(config.leaves) * u32::from(config.hosts_per_leaf),
            hosts_per_leaf: u32::from(config.hosts_per_leaf),
            bytes: config.bytes.bytes(),
            qps: config.qps,
            verb: Verb::Write,
            ring: match config.ring {
                Ring::Steps => RingAccounting::Steps,
                Ring::Flows => RingAccounting::Flows,
            },
            iterations: config.iterations,
            message_bytes: MESSAGE_BYTES,
            announce: match config.announce {
                Announce::Host => true,
                Announce::Window => false,
                Announce::Mixed => index.is_multiple_of(2),
            },
            seed: config.seed,
        };
        let flows = match &config.flows {
            None => Vec::new(),
            Some(path) => {
                let file = File::open(path)
                    .map_err(|error| format!("flows {}: {error}", path.display()))?;
                trace::read(file, workload.hosts, workload.hosts_per_leaf)
                    .map_err(|error| format!("flows {}: {error}", path.display()))?
            }
        };
        Workload::with_trace(workload, flows).map_err(|error| error.to_string())
    }

    /// How fast a connection may send.
    fn rate_control(&self, link: BitRate) -> RateControl {
        let preset = match self.config.dcqcn() {
            Dcqcn::Off => {
                let fixed = self
                    .config
                    .qp_rate
                    .and_then(|rate| BitRate::new(rate.bits_per_second()));
                return fixed.map_or(RateControl::Off, RateControl::Fixed);
            }
            Dcqcn::Paper => DcqcnPreset::Paper,
            Dcqcn::Hpcc => DcqcnPreset::Hpcc,
            Dcqcn::Vendor => DcqcnPreset::Vendor,
        };
        RateControl::Dcqcn(DcqcnConfig::preset(preset, link.bits_per_second()))
    }

    /// Background traffic of host `index`: to the same host half the leaves further on, so that
    /// each has one from the leaf that is as far behind.
    fn background(&self, fabric: &Fabric, index: usize, link: BitRate) -> Option<Background> {
        let part = self.config.background.value();
        let rate = BitRate::new((link.bits_per_second() as f64 * part) as u64)?;
        let hosts = fabric.hosts.len();
        let per_leaf = usize::from(self.config.hosts_per_leaf);
        let far = usize::from(self.config.leaves) / 2 * per_leaf;
        Some(Background {
            to: Some(fabric.hosts[(index + far) % hosts].address),
            from: Some(fabric.hosts[(index + hosts - far) % hosts].address),
            rate,
            adapts: self.config.background_aimd,
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
        let link = BitRate::new(host.rate.bits_per_second()).unwrap_or(BitRate::gbps(1));
        let defaults = HostConfig::new(host.address, host.mac, host.gateway_mac);
        HostConfig {
            link_rate: link,
            rate_control: self.rate_control(link),
            background: self.background(fabric, index, link),
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
        self.config.rules()
    }

    /// How paths are tested.
    pub fn test(&self) -> agent::core::Test {
        test_of(self.config.test)
    }

    /// Load of the uplinks by what the hosts of a leaf can send.
    pub fn load(&self) -> f64 {
        self.config.load()
    }

    /// How long a run goes on after its last flow: a close and its repetitions, and the verdict.
    pub fn settle_ns(&self) -> u64 {
        let silence_ns = match self.config.announce {
            Announce::Host => 0,
            Announce::Window | Announce::Mixed => silence_ns(self.config),
        };
        silence_ns + 8 * path_delay_ns_max(self.config) + 100_000
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

/// A setting's way to test, as the control thread has it.
pub fn test_of(test: config::PathTest) -> agent::core::Test {
    match test {
        config::PathTest::Fixed => agent::core::Test::Fixed,
        config::PathTest::Sequential => agent::core::Test::Sequential,
    }
}
