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
        plain { $($(#[doc = $doc:literal])+ $plain:ident: $plain_type:ty,)+ }
        optional { $($(#[doc = $optional_doc:literal])+ $optional:ident: $optional_type:ty,)+ }
    ) => {
        /// All settings of a testbed, resolved.
        #[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct TestbedConfig {
            $($(#[doc = $doc])+ pub $plain: $plain_type,)+
            $($(#[doc = $optional_doc])+ pub $optional: Option<$optional_type>,)+
        }

        /// Some settings of a testbed: what a file or the flags say.
        #[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct TestbedLayer {
            $($(#[doc = $doc])+ pub $plain: Option<$plain_type>,)+
            $($(#[doc = $optional_doc])+ pub $optional: Option<$optional_type>,)+
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
        preset: Preset,
        /// Leaves, 2 to 128.
        leaves: u16,
        /// Spines, 1 to 128.
        spines: u16,
        /// Hosts of each leaf, 1 to 64.
        hosts_per_leaf: u16,
        /// Rate of every link between leaf and spine.
        link_rate: Rate,
        /// Rate of every link between host and leaf; the link rate unless said.
        host_rate: Rate,
        /// Who sends to whom.
        workload: Workload,
        /// What each host sends to each peer, split over the QPs.
        bytes: Bytes,
        /// QPs per pair of hosts.
        qps: u32,
        /// How often the workload runs.
        iterations: u32,
        /// Path MTU in bytes: 256, 512, 1024, 2048 or 4096.
        mtu: u32,
        /// How an uplink is chosen.
        spray: Spray,
        /// What decides between uplinks of equal depth.
        tie: Tie,
        /// What a path's loss is read from.
        evidence: Evidence,
        /// Which packets of the measured flow are marked.
        mark: Mark,
        /// Loss rate of a link that is no failure.
        p0: Probability,
        /// Probability of any false alarm when every path of the fabric is tested once.
        alpha: Probability,
        /// Who names the flows to measure.
        announce: Announce,
        /// How a path is tested.
        test: PathTest,
        /// Bits of the counters of marked packets: 32, or the paper's 16.
        counter_bits: u32,
        /// How hosts recover lost packets.
        recovery: Recovery,
        /// How the bytes of a ring-allreduce are counted.
        ring: Ring,
        /// TCP-like traffic of each host beside RoCE, as a part of its link's rate; never measured.
        background: Probability,
        /// Whether background traffic halves its rate for loss and grows otherwise.
        background_aimd: bool,
        /// Seed of everything that is left to chance.
        seed: u64,
        /// Faults of links, each like `leaf3>spine5:drop=0.01`.
        faults: FaultList,
        /// Links that the routing table does not use: known failures.
        disabled: LinkList,
        /// The run ends after this much time of the clock on the wall, finished or not.
        limit: Time,
        /// Bound of each egress queue.
        queue_limit: Bytes,
        /// Packets that a QP may have in flight.
        window_packets: u32,
        /// Most that the fabric's time advances in one round of the poll loop, at most 10us.
        step: Time,
        /// Packets that a port takes in at once, 1 to 64.
        burst: u32,
        /// Whether ports send after each packet that comes in, not after each burst: bursts make
        /// queues that are not there at line rate.
        interleave: bool,
        /// UDP port of spraycheck's messages.
        message_port: u16,
        /// How often spines tell leaves which downlinks they have.
        link_state: Time,
        /// How long a fabric link that came back is not used.
        hold_down: Time,
        /// Whether queues mark congestion: ECN, from 400 kB at 100 Gb/s, in proportion to the rate.
        ecn: bool,
    }
    optional {
        /// How hosts heed congestion marks; `paper` with `ecn`, otherwise `off`, unless said.
        dcqcn: Dcqcn,
        /// A rate that no QP exceeds, in place of DCQCN.
        qp_rate: Rate,
        /// The flows of workload `trace`: CSV of start (ns), source, destination, bytes.
        flows: PathBuf,
        /// s of the paper's threshold lambda - s*sqrt(N/k), for receive-only evidence; otherwise
        /// the threshold follows from the policy's noise and `alpha`.
        sensitivity: f64,
        /// Packets per spine that a test needs; otherwise what `p0`, `alpha` and the evidence ask.
        p_min: u64,
        /// Packets per spine of a window; otherwise as many as the flow has, or 64 for the
        /// sequential test, or P_min for flows that nobody announces.
        spine_packets: u64,
        /// A folder for one capture per link.
        pcap_dir: PathBuf,
        /// A file for the trace of calls into the switches.
        trace: PathBuf,
        /// Unix socket on which `spraycheck show` is answered.
        socket: PathBuf,
        /// Where metrics are asked for over HTTP, like 127.0.0.1:9111.
        metrics: SocketAddr,
    }
}

#[cfg(test)]
mod tests;
