//! A whole fabric in one process: every setting of `spraycheck testbed`, resolved.
//!
//! The command makes one from a preset, a file and flags (in that order, each overriding what is
//! before it), checks it and hands it to the daemon as JSON. [`crate::fabric::Fabric`] turns it
//! into switches. What a [`TestbedConfig`] says is true once [`TestbedConfig::check`] has passed.

mod lists;
mod preset;
mod resolve;
mod rules;
mod validate;

use std::net::SocketAddr;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::choice::{
    Announce, Dcqcn, Evidence, Mark, PathTest, Preset, Recovery, Ring, Spray, Tie, Workload,
};
use crate::quantity::{Bytes, Probability, Rate, Time};

pub use lists::{FaultList, LinkList};
pub use resolve::TestbedFile;
pub use rules::SEQUENTIAL_PACKETS;

/// Declares all settings once: the resolved struct, the layer in which each may be missing, and
/// how a layer goes over the settings below it.
macro_rules! settings {
    (
        plain { $($(#[$attribute:meta])+ $plain:ident: $plain_type:ty,)+ }
        optional { $($(#[$optional_attribute:meta])+ $optional:ident: $optional_type:ty,)+ }
    ) => {
        /// All settings of a testbed, resolved.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct TestbedConfig {
            $($(#[$attribute])+ pub $plain: $plain_type,)+
            $($(#[$optional_attribute])+ pub $optional: Option<$optional_type>,)+
        }

        /// Some settings of a testbed: what a file or the flags say.
        #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
        #[serde(deny_unknown_fields)]
        pub struct TestbedLayer {
            $($(#[$attribute])+ pub $plain: Option<$plain_type>,)+
            $($(#[$optional_attribute])+ pub $optional: Option<$optional_type>,)+
        }

        impl TestbedLayer {
            /// This layer, with what `over` says on top.
            #[must_use]
            pub fn with(mut self, over: TestbedLayer) -> TestbedLayer {
                $(self.$plain = over.$plain.or(self.$plain);)+
                $(self.$optional = over.$optional.or(self.$optional);)+
                self
            }

            /// Puts what this layer says into `config`.
            fn apply(self, config: &mut TestbedConfig) {
                $(if let Some(value) = self.$plain { config.$plain = value; })+
                $(if let Some(value) = self.$optional { config.$optional = Some(value); })+
            }

            /// Whether it says anything about `key`.
            fn says(&self, key: &str) -> bool {
                match key {
                    $(stringify!($plain) => self.$plain.is_some(),)+
                    $(stringify!($optional) => self.$optional.is_some(),)+
                    _ => false,
                }
            }
        }
    };
}

settings! {
    plain {
        /// Where all settings start from; `paper` also means the paper's protocol: no close, no
        /// colour, windows end at the announced last PSN.
        #[schemars(extend("x-example" = "paper"))]
        preset: Preset,
        /// Leaves, 2 to 128.
        #[schemars(extend("x-range" = [2, 128], "x-example" = 16))]
        leaves: u16,
        /// Spines, 1 to 128.
        #[schemars(extend("x-range" = [1, 128], "x-example" = 16))]
        spines: u16,
        /// Hosts of each leaf, 1 to 64.
        #[schemars(extend("x-range" = [1, 64], "x-example" = 2))]
        hosts_per_leaf: u16,
        /// Rate of every link between leaf and spine.
        #[schemars(extend("x-range" = ["1Mbps", "1Tbps"], "x-example" = "25Gbps"))]
        link_rate: Rate,
        /// Rate of every link between host and leaf; the link rate unless said.
        #[schemars(extend("x-range" = "1Mbps to 1Tbps", "x-example" = "10Gbps", "x-unless" = "the link rate"))]
        host_rate: Rate,
        /// Who sends to whom.
        #[schemars(extend("x-example" = "ring-allreduce"))]
        workload: Workload,
        /// What each host sends to each peer, split over the QPs.
        #[schemars(extend("x-example" = "16MiB", "x-range" = "1 to 1TiB"))]
        bytes: Bytes,
        /// QPs per pair of hosts.
        #[schemars(extend("x-range" = [1, 1024], "x-example" = 4))]
        qps: u32,
        /// How often the workload runs.
        #[schemars(extend("x-range" = [1, 1000000], "x-example" = 3))]
        iterations: u32,
        /// Path MTU in bytes: 256, 512, 1024, 2048 or 4096.
        #[schemars(extend("x-range" = "256, 512, 1024, 2048 or 4096", "x-unit" = "bytes", "x-example" = 1024))]
        mtu: u32,
        /// How an uplink is chosen.
        #[schemars(extend("x-example" = "random"))]
        spray: Spray,
        /// What decides between uplinks of equal depth.
        #[schemars(extend("x-example" = "random"))]
        tie: Tie,
        /// What a path's loss is read from.
        #[schemars(extend("x-example" = "hop-counts"))]
        evidence: Evidence,
        /// Which packets of the measured flow are marked.
        #[schemars(extend("x-example" = "all"))]
        mark: Mark,
        /// Loss rate of a link that is no failure.
        #[schemars(extend("x-range" = "above 0, to 0.1", "x-example" = 1e-4))]
        p0: Probability,
        /// Probability of any false alarm when every path of the fabric is tested once.
        #[schemars(extend("x-range" = "1e-12 to 0.5", "x-example" = 0.01))]
        alpha: Probability,
        /// Who names the flows to measure.
        #[schemars(extend("x-example" = "window"))]
        announce: Announce,
        /// How a path is tested.
        #[schemars(extend("x-example" = "sequential"))]
        test: PathTest,
        /// Bits of the counters of marked packets: 32, or the paper's 16.
        #[schemars(extend("x-range" = "16 or 32", "x-unit" = "bits", "x-example" = 16))]
        counter_bits: u32,
        /// How hosts recover lost packets.
        #[schemars(extend("x-example" = "go-back-n"))]
        recovery: Recovery,
        /// How the bytes of a ring-allreduce are counted.
        #[schemars(extend("x-example" = "flows"))]
        ring: Ring,
        /// TCP-like traffic of each host beside RoCE, as a part of its link's rate; never measured.
        #[schemars(extend("x-range" = "0 to 0.95", "x-example" = 0.1))]
        background: Probability,
        /// Whether background traffic halves its rate for loss and grows otherwise.
        #[schemars(extend("x-example" = true))]
        background_aimd: bool,
        /// Seed of everything that is left to chance.
        #[schemars(extend("x-example" = 7))]
        seed: u64,
        /// Faults of links, each like `leaf3>spine5:drop=0.01`.
        #[schemars(extend("x-example" = ["leaf3>spine5:drop=0.01"]))]
        faults: FaultList,
        /// Links that the routing table does not use: known failures.
        #[schemars(extend("x-example" = ["leaf1>spine2"]))]
        disabled: LinkList,
        /// The run ends after this much time of the clock on the wall, finished or not.
        #[schemars(extend("x-range" = ["1ms", "86400s"], "x-example" = "10s"))]
        limit: Time,
        /// Bound of each egress queue.
        #[schemars(extend("x-range" = "one frame to 1GiB", "x-example" = "256KiB"))]
        queue_limit: Bytes,
        /// Packets that a QP may have in flight.
        #[schemars(extend("x-range" = [1, 4096], "x-unit" = "packets", "x-example" = 128))]
        window_packets: u32,
        /// Most that the fabric's time advances in one round of the poll loop, at most 10us.
        #[schemars(extend("x-range" = ["100ns", "10us"], "x-example" = "1us"))]
        step: Time,
        /// Packets that a port takes in at once, 1 to 64.
        #[schemars(extend("x-range" = [1, 64], "x-unit" = "packets", "x-example" = 1))]
        burst: u32,
        /// Whether ports send after each packet that comes in, not after each burst: bursts make
        /// queues that are not there at line rate.
        #[schemars(extend("x-example" = true))]
        interleave: bool,
        /// UDP port of spraycheck's messages.
        #[schemars(extend("x-range" = "1 to 65535, not 4791", "x-example" = 48791))]
        message_port: u16,
        /// How often spines tell leaves which downlinks they have.
        #[schemars(extend("x-range" = ["1ms", "10s"], "x-example" = "100ms"))]
        link_state: Time,
        /// How long a fabric link that came back is not used.
        #[schemars(extend("x-range" = ["0ns", "3600s"], "x-example" = "100ms"))]
        hold_down: Time,
        /// Whether queues mark congestion: ECN, from 400 kB at 100 Gb/s, in proportion to the rate.
        #[schemars(extend("x-example" = true))]
        ecn: bool,
    }
    optional {
        /// How hosts heed congestion marks; `paper` with `ecn`, otherwise `off`, unless said.
        #[schemars(extend("x-unless" = "paper with ecn, else off", "x-example" = "hpcc"))]
        dcqcn: Dcqcn,
        /// A rate that no QP exceeds, in place of DCQCN.
        #[schemars(extend("x-range" = "1Mbps to the host rate", "x-unless" = "none", "x-example" = "1Gbps"))]
        qp_rate: Rate,
        /// The flows of workload `trace`: CSV of start (ns), source, destination, bytes.
        #[schemars(extend("x-unless" = "none", "x-example" = "flows.csv"))]
        flows: PathBuf,
        /// s of the paper's threshold lambda - s*sqrt(N/k), for receive-only evidence; otherwise
        /// the threshold follows from the policy's noise and `alpha`.
        #[schemars(extend("x-range" = "above 0, to 100", "x-unless" = "follows from noise and alpha", "x-example" = 0.65))]
        sensitivity: f64,
        /// Packets per spine that a test needs; otherwise what `p0`, `alpha` and the evidence ask.
        #[schemars(extend("x-range" = [1, 67108864], "x-unit" = "packets", "x-unless" = "follows from p0, alpha and evidence", "x-example" = 2000))]
        p_min: u64,
        /// Packets per spine of a window; otherwise as many as the flow has, or 64 for the
        /// sequential test, or P_min for flows that nobody announces.
        #[schemars(extend("x-range" = [1, 67108864], "x-unit" = "packets", "x-unless" = "as the flow has", "x-example" = 64))]
        spine_packets: u64,
        /// A folder for one capture per link.
        #[schemars(extend("x-unless" = "none", "x-example" = "captures"))]
        pcap_dir: PathBuf,
        /// A file for the trace of calls into the switches.
        #[schemars(extend("x-unless" = "none", "x-example" = "trace.bin"))]
        trace: PathBuf,
        /// Unix socket on which `spraycheck show` is answered.
        #[schemars(extend("x-unless" = "one that show finds", "x-example" = "run/spraycheck.sock"))]
        socket: PathBuf,
        /// Where metrics are asked for over HTTP, like 127.0.0.1:9111.
        #[schemars(extend("x-unless" = "off", "x-example" = "127.0.0.1:9111"))]
        metrics: SocketAddr,
    }
}

#[cfg(test)]
mod tests;
