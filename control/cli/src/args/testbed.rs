//! Flags of `testbed`: each a setting of [`config::TestbedConfig`], by the same name.

use std::path::PathBuf;

use clap::Args;
use config::{
    Announce, Bytes, Dcqcn, Evidence, FaultList, LinkList, Mark, PathTest, Preset, Probability,
    Rate, Recovery, Ring, Spray, TestbedLayer, Tie, Time, Workload,
};

use crate::failure::{Failure, USAGE};

/// Run a whole fabric in one process on the DPDK data plane, and find its bad links.
///
/// No NIC and no hugepages are needed. Exit code 0: exactly the links that lost packets were
/// named.
#[derive(Args, Debug, Default)]
#[command(
    args_override_self = true,
    after_help = "\
Examples:
  spraycheck testbed --fail 'leaf3>spine5:drop=0.01'
  spraycheck testbed --preset paper --leaves 4 --spines 4 --fail none --json -

Rates are written 100Gbps, sizes 64KiB, times 55us, probabilities 0.005 or 0.5%.
Faults: drop=0.01, burst=P_ENTER,P_EXIT,LOSS, corrupt=0.001, delay=5us, down, flap=PERIOD,DOWN,
match=QPN:+N[:OCCURRENCE],action=drop|ecn|corrupt. Links: leaf3>spine5, spine5>leaf3, or
leaf3-spine5 for both."
)]
pub(crate) struct TestbedArgs {
    /// Settings from a file; flags go over them
    #[arg(long, value_name = "F")]
    pub(crate) config: Option<PathBuf>,
    /// The fabric of a scenario that `spraycheck sim` takes as well; flags go over it
    #[arg(long, value_name = "F", conflicts_with = "config")]
    pub(crate) scenario: Option<PathBuf>,
    #[command(flatten)]
    fabric: FabricArgs,
    /// Spines, 1 to 128 [default: 8]
    #[arg(long, value_name = "N", help_heading = "Fabric")]
    spines: Option<u16>,
    /// Write one capture per link into this folder
    #[arg(long, value_name = "D", help_heading = "Run")]
    pcap_dir: Option<PathBuf>,
    /// Write the trace of calls into the switches
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    trace: Option<PathBuf>,
    /// Answer `spraycheck show` on this socket
    #[arg(long, value_name = "P", help_heading = "Run")]
    socket: Option<PathBuf>,
    /// Answer OpenMetrics over HTTP there, like 127.0.0.1:9111
    #[arg(long, value_name = "ADDRESS", help_heading = "Run")]
    metrics: Option<std::net::SocketAddr>,
    /// Run a monitor beside it with its page there, like 127.0.0.1:9180; the page stays until Ctrl-C
    #[arg(long, value_name = "ADDRESS", help_heading = "Run")]
    pub(crate) monitor: Option<std::net::SocketAddr>,
    /// Write the result as JSON (- for standard output)
    #[arg(long, value_name = "FILE", help_heading = "Run")]
    pub(crate) json: Option<PathBuf>,
    /// Arguments for EAL
    #[arg(last = true, value_name = "EAL")]
    pub(crate) eal: Vec<String>,
}

/// What is said about a fabric and its traffic, to `testbed` and `sim` alike.
#[derive(Args, Debug, Default)]
pub(crate) struct FabricArgs {
    /// Where settings start from: default or paper
    #[arg(long, value_name = "P")]
    preset: Option<Preset>,
    /// Leaves, 2 to 128 [default: 8]
    #[arg(long, value_name = "N", help_heading = "Fabric")]
    leaves: Option<u16>,
    /// Hosts of each leaf, 1 to 64 [default: 1]
    #[arg(long, value_name = "N", help_heading = "Fabric")]
    hosts_per_leaf: Option<u16>,
    /// Rate of links between leaves and spines [default: 10Gbps]
    #[arg(long, value_name = "R", help_heading = "Fabric")]
    link_rate: Option<Rate>,
    /// Rate of links to hosts [default: the link rate]
    #[arg(long, value_name = "R", help_heading = "Fabric")]
    host_rate: Option<Rate>,
    /// A fault of a link, like leaf3>spine5:drop=0.01; none for none; repeatable
    #[arg(long, value_name = "LINK:SPEC", help_heading = "Fabric")]
    fail: Vec<String>,
    /// A link that is taken out of the routing table; repeatable
    #[arg(long, value_name = "LINK", help_heading = "Fabric")]
    disable: Vec<String>,
    /// Bound of each queue [default: 1MiB]
    #[arg(long, value_name = "BYTES", help_heading = "Fabric")]
    queue_limit: Option<Bytes>,
    /// How often spines tell which downlinks they have [default: 100ms]
    #[arg(long, value_name = "T", help_heading = "Fabric")]
    link_state: Option<Time>,
    /// How long a fabric link that came back is not used [default: 10ms]
    #[arg(long, value_name = "T", help_heading = "Fabric")]
    hold_down: Option<Time>,
    /// Mark congestion by ECN, from 400kB of queue at 100Gbps, in proportion to the rate
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", help_heading = "Fabric")]
    ecn: Option<bool>,
    /// all-to-all, ring-allreduce, permutation, incast, pairs, trace or idle [default: all-to-all]
    #[arg(long, value_name = "W", help_heading = "Traffic")]
    workload: Option<Workload>,
    /// What a host sends to each peer, over all QPs [default: 64MiB]
    #[arg(long, value_name = "BYTES", help_heading = "Traffic")]
    bytes: Option<Bytes>,
    /// QPs per pair of hosts [default: 2]
    #[arg(long, value_name = "N", help_heading = "Traffic")]
    qps: Option<u32>,
    /// How often the workload runs [default: 1]
    #[arg(long, value_name = "N", help_heading = "Traffic")]
    iterations: Option<u32>,
    /// Path MTU: 256, 512, 1024, 2048 or 4096 [default: 4096]
    #[arg(long, value_name = "BYTES", help_heading = "Traffic")]
    mtu: Option<u32>,
    /// Packets that a QP may have in flight [default: 64]
    #[arg(long, value_name = "N", help_heading = "Traffic")]
    window_packets: Option<u32>,
    /// selective-repeat or go-back-n [default: selective-repeat]
    #[arg(long, value_name = "R", help_heading = "Traffic")]
    recovery: Option<Recovery>,
    /// How hosts heed ECN: off, paper, hpcc or vendor [default: paper with --ecn, else off]
    #[arg(long, value_name = "SET", help_heading = "Traffic")]
    dcqcn: Option<Dcqcn>,
    /// A rate that no QP exceeds, in place of DCQCN
    #[arg(long, value_name = "R", help_heading = "Traffic")]
    qp_rate: Option<Rate>,
    /// Bytes of a ring-allreduce: steps (2(n-1) of 1/n) or flows (the paper's) [default: steps]
    #[arg(long, value_name = "A", help_heading = "Traffic")]
    ring: Option<Ring>,
    /// TCP-like traffic of each host beside RoCE, a part of its link's rate [default: 0]
    #[arg(long, value_name = "PART", help_heading = "Traffic")]
    background: Option<Probability>,
    /// Background traffic halves its rate for loss, and grows otherwise
    #[arg(long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true", require_equals = true, help_heading = "Traffic")]
    background_aimd: Option<bool>,
    /// Flows of workload trace: CSV with start (ns), source, destination (h3.0), bytes
    #[arg(long, value_name = "F", help_heading = "Traffic")]
    flows: Option<PathBuf>,
    /// jsq2, jsq, random, round-robin or ecmp [default: jsq2]
    #[arg(long, value_name = "S", help_heading = "Spraying")]
    spray: Option<Spray>,
    /// fewest-measured or random [default: fewest-measured]
    #[arg(long, value_name = "T", help_heading = "Spraying")]
    tie: Option<Tie>,
    /// receive-only, source-counts or hop-counts [default: source-counts]
    #[arg(long, value_name = "E", help_heading = "Measurement")]
    evidence: Option<Evidence>,
    /// Packets to mark: first copies or all [default: first]
    #[arg(long, value_name = "M", help_heading = "Measurement")]
    mark: Option<Mark>,
    /// s of the paper's threshold, for receive-only evidence
    #[arg(long, value_name = "S", help_heading = "Measurement")]
    sensitivity: Option<f64>,
    /// Loss rate of a link that is no failure [default: 2e-5]
    #[arg(long, value_name = "P", help_heading = "Measurement")]
    p0: Option<Probability>,
    /// Probability of any false alarm in a round over the whole fabric [default: 0.001]
    #[arg(long, value_name = "A", help_heading = "Measurement")]
    alpha: Option<Probability>,
    /// Packets per spine that a test needs [default: what p0, alpha and the evidence ask]
    #[arg(long, value_name = "N", help_heading = "Measurement")]
    p_min: Option<u64>,
    /// Packets per spine of a window [default: the whole flow; 64 for the sequential test; P_min in
    /// window mode]
    #[arg(long, value_name = "N", help_heading = "Measurement")]
    spine_packets: Option<u64>,
    /// How a path is tested: fixed (once P_min packets are there) or sequential [default: fixed]
    #[arg(long, value_name = "T", help_heading = "Measurement")]
    test: Option<PathTest>,
    /// Bits of the counters of marked packets: 32, or the paper's 16 [default: 32]
    #[arg(long, value_name = "N", help_heading = "Measurement")]
    counter_bits: Option<u32>,
    /// Who names the flows to measure: host, window (nobody: leaves find them) or mixed (every
    /// second host) [default: host]
    #[arg(long, value_name = "A", help_heading = "Measurement")]
    announce: Option<Announce>,
    /// UDP port of spraycheck's messages [default: 48791]
    #[arg(long, value_name = "PORT", help_heading = "Measurement")]
    message_port: Option<u16>,
    /// Seed of everything that is left to chance [default: 1]
    #[arg(long, value_name = "N", help_heading = "Run")]
    seed: Option<u64>,
    /// End after this time, finished or not [default: 60s]
    #[arg(long, value_name = "T", help_heading = "Run")]
    limit: Option<Time>,
    /// Most that the fabric's time advances in one round [default: 10us]
    #[arg(long, value_name = "T", help_heading = "Run")]
    step: Option<Time>,
    /// Packets that a port takes in at once, 1 to 64 [default: 32]
    #[arg(long, value_name = "N", help_heading = "Run")]
    burst: Option<u32>,
    /// Send after each packet, not after each burst
    #[arg(
        long, value_name = "BOOL", num_args = 0..=1, default_missing_value = "true",
        require_equals = true, help_heading = "Run"
    )]
    interleave: Option<bool>,
}

impl TestbedArgs {
    /// What the flags say, as settings.
    pub(crate) fn layer(&self) -> Result<TestbedLayer, Failure> {
        Ok(TestbedLayer {
            spines: self.spines,
            pcap_dir: self.pcap_dir.clone(),
            trace: self.trace.clone(),
            socket: self.socket.clone(),
            metrics: self.metrics,
            ..self.fabric.layer()?
        })
    }
}

impl FabricArgs {
    /// What the flags say, as settings.
    pub(crate) fn layer(&self) -> Result<TestbedLayer, Failure> {
        let wrong =
            |flag: &str, why: &dyn std::fmt::Display| Failure::new(USAGE, format!("{flag}: {why}"));
        if self.fail.len() > 1 && self.fail.iter().any(|fail| fail == "none") {
            let why = "none stands beside other faults; give either";
            return Err(wrong("--fail", &why));
        }
        let faults = match &self.fail[..] {
            [] => None,
            all => Some(
                FaultList::read(all.iter().map(String::as_str))
                    .map_err(|why| wrong("--fail", &why))?,
            ),
        };
        let disabled = match &self.disable[..] {
            [] => None,
            all => Some(
                LinkList::read(all.iter().map(String::as_str))
                    .map_err(|why| wrong("--disable", &why))?,
            ),
        };
        Ok(TestbedLayer {
            preset: self.preset,
            leaves: self.leaves,
            hosts_per_leaf: self.hosts_per_leaf,
            link_rate: self.link_rate,
            host_rate: self.host_rate,
            workload: self.workload,
            bytes: self.bytes,
            qps: self.qps,
            iterations: self.iterations,
            mtu: self.mtu,
            spray: self.spray,
            tie: self.tie,
            evidence: self.evidence,
            mark: self.mark,
            sensitivity: self.sensitivity,
            p0: self.p0,
            alpha: self.alpha,
            p_min: self.p_min,
            spine_packets: self.spine_packets,
            test: self.test,
            counter_bits: self.counter_bits,
            announce: self.announce,
            recovery: self.recovery,
            dcqcn: self.dcqcn,
            qp_rate: self.qp_rate,
            ring: self.ring,
            background: self.background,
            background_aimd: self.background_aimd,
            flows: self.flows.clone(),
            seed: self.seed,
            faults,
            disabled,
            limit: self.limit,
            queue_limit: self.queue_limit,
            window_packets: self.window_packets,
            step: self.step,
            burst: self.burst,
            interleave: self.interleave,
            message_port: self.message_port,
            link_state: self.link_state,
            hold_down: self.hold_down,
            ecn: self.ecn,
            ..TestbedLayer::default()
        })
    }
}

impl FabricArgs {
    /// The seed, if one is given.
    pub(crate) fn seed(&self) -> Option<u64> {
        self.seed
    }
}
