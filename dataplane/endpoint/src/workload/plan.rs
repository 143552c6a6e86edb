//! The pure part of a workload: connections, their numbers, and the steps of each host.
//!
//! Everything follows from the configuration by arithmetic, so both ends of a connection find the
//! same numbers without talking.

use std::sync::Arc;

use packet::{Address, Psn, Qpn};

use crate::config::QpConfig;
use crate::pattern::mix;
use crate::units::QpId;
use crate::workload::config::QPN_FIRST;
use crate::workload::{
    HostId, RingAccounting, Script, TraceFlow, WorkloadConfig, WorkloadError, WorkloadKind,
};

/// RoCEv2 senders take their UDP source ports from 0xc000 up (IBTA annex A17, as Linux does it).
const UDP_PORT_FIRST: u16 = 0xc000;

/// A connection that a host must have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QpPlan {
    /// The identity that it has if the host opens its plan in order, and nothing else before.
    pub id: QpId,
    /// The host at the other end.
    pub peer: HostId,
    /// Which of the connections to that peer it is, from 0.
    pub lane: u32,
    /// Our number.
    pub local_qpn: Qpn,
    /// The peer's number.
    pub remote_qpn: Qpn,
    /// Our first PSN.
    pub first_psn: Psn,
    /// The peer's first PSN.
    pub remote_first_psn: Psn,
    /// UDP source port of our packets.
    pub udp_source_port: u16,
}

impl QpPlan {
    /// What to open, given the peer's address.
    pub fn config(&self, peer_address: Address) -> QpConfig {
        QpConfig {
            local_qpn: self.local_qpn,
            remote_qpn: self.remote_qpn,
            remote_address: peer_address,
            udp_source_port: self.udp_source_port,
            first_psn: self.first_psn,
            remote_first_psn: self.remote_first_psn,
        }
    }
}

/// A checked workload. A copy shares its trace.
#[derive(Clone, Debug)]
pub struct Workload {
    config: WorkloadConfig,
    trace: Arc<[TraceFlow]>,
    /// Both directions of every pair of hosts in the trace, in order, each once.
    pairs: Arc<[(u32, u32)]>,
}

impl Workload {
    /// Checks the numbers.
    ///
    /// # Errors
    /// Names the first that cannot work.
    pub fn new(config: WorkloadConfig) -> Result<Workload, WorkloadError> {
        Workload::with_trace(config, Vec::new())
    }

    /// Checks the numbers of a workload of kind [`WorkloadKind::Trace`] with flows in the order of
    /// their start; other kinds look at no trace. The pattern's `bytes` and `iterations` do not
    /// count, each flow goes over one connection.
    ///
    /// # Errors
    /// Names the first that cannot work.
    pub fn with_trace(
        config: WorkloadConfig,
        trace: Vec<TraceFlow>,
    ) -> Result<Workload, WorkloadError> {
        config.check()?;
        let wrong = |key, value, want| Err(WorkloadError { key, value, want });
        for (at, flow) in trace.iter().enumerate() {
            let (source, destination) = (flow.source.0, flow.destination.0);
            let is_pair = source != destination && source.max(destination) < config.hosts;
            if !is_pair || flow.bytes == 0 || flow.bytes > 1 << 50 {
                let want = "between two of the hosts, and of 1 byte to 2^50";
                return wrong("trace flow", at as u64, want);
            }
            if at > 0 && trace[at - 1].start_ns > flow.start_ns {
                return wrong("trace flow", at as u64, "in the order of the starts");
            }
        }
        let ends = trace.iter().map(|flow| (flow.source.0, flow.destination.0));
        let mut pairs: Vec<_> = ends.flat_map(|(a, b)| [(a, b), (b, a)]).collect();
        pairs.sort_unstable();
        pairs.dedup();
        Ok(Workload {
            config,
            trace: trace.into(),
            pairs: pairs.into(),
        })
    }

    /// The flows of its trace.
    pub(super) fn trace(&self) -> &[TraceFlow] {
        &self.trace
    }

    /// Its settings.
    pub fn config(&self) -> &WorkloadConfig {
        &self.config
    }

    /// The hosts.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> + use<> {
        (0..self.config.hosts).map(HostId)
    }

    /// The connections that `host` must have, in the order in which it opens them: to all peers
    /// that it ever sends to or receives from.
    pub fn qps_of(&self, host: HostId) -> impl Iterator<Item = QpPlan> + use<> {
        let workload = self.clone();
        let talker = self.clone();
        let qps = self.config.qps;
        let peers = self.hosts().filter(move |&peer| talker.talks(host, peer));
        let lanes = peers.flat_map(move |peer| (0..qps).map(move |q| (peer, q)));
        lanes.enumerate().map(move |(id, (peer, lane))| QpPlan {
            id: QpId(id as u32),
            peer,
            lane,
            local_qpn: workload.qpn(peer, lane),
            remote_qpn: workload.qpn(host, lane),
            first_psn: Psn::new(workload.noise(host, peer, lane) as u32),
            remote_first_psn: Psn::new(workload.noise(peer, host, lane) as u32),
            udp_source_port: UDP_PORT_FIRST
                | (workload.noise(host, peer, lane) >> 32) as u16 & 0x3fff,
        })
    }

    /// What runs on `host`.
    pub fn script(&self, host: HostId) -> Script {
        Script::new(self, host)
    }

    /// The number that a host gives its connection `lane` to `peer`.
    fn qpn(&self, peer: HostId, lane: u32) -> Qpn {
        Qpn(QPN_FIRST as u32 + peer.0 * self.config.qps + lane)
    }

    fn noise(&self, from: HostId, to: HostId, lane: u32) -> u64 {
        let pair = u64::from(from.0) << 40 | u64::from(to.0) << 16 | u64::from(lane) & 0xffff;
        mix(pair ^ mix(self.config.seed.wrapping_add(0x9e37_79b9_7f4a_7c15)))
    }

    fn leaf(&self, host: u32) -> u32 {
        host / self.config.hosts_per_leaf
    }

    /// Steps of an iteration.
    pub fn steps(&self) -> u32 {
        match self.config.kind {
            WorkloadKind::AllToAll => self.config.hosts - 1,
            WorkloadKind::RingAllReduce => match self.config.ring {
                RingAccounting::Steps => 2 * (self.config.hosts - 1),
                RingAccounting::Flows => 1,
            },
            WorkloadKind::Permutation | WorkloadKind::Incast | WorkloadKind::Pairs => 1,
            WorkloadKind::Trace | WorkloadKind::Idle => 0,
        }
    }

    /// Bytes that a host sends to its peer in a step.
    pub fn step_bytes(&self) -> u64 {
        self.config.step_bytes()
    }

    /// The host to which `host` sends in `step`.
    pub fn target(&self, host: HostId, step: u32) -> Option<HostId> {
        let WorkloadConfig {
            hosts: n,
            hosts_per_leaf: per_leaf,
            ..
        } = self.config;
        let leaves = n / per_leaf;
        let i = host.0;
        let target = match self.config.kind {
            WorkloadKind::AllToAll => (i + step + 1) % n,
            WorkloadKind::RingAllReduce => {
                // Rank r is host r / leaves of leaf r mod leaves: neighbours share no leaf.
                let rank = (i % per_leaf * leaves + self.leaf(i) + 1) % n;
                rank % leaves * per_leaf + rank / leaves
            }
            WorkloadKind::Permutation => (i + leaves / 2 * per_leaf) % n,
            WorkloadKind::Incast => 0,
            WorkloadKind::Pairs => {
                let partner = self.leaf(i) ^ 1;
                if partner >= leaves {
                    return None;
                }
                partner * per_leaf + i % per_leaf
            }
            WorkloadKind::Trace | WorkloadKind::Idle => return None,
        };
        (self.leaf(i) != self.leaf(target)).then_some(HostId(target))
    }

    /// Whether `from` sends to `to` in `step`.
    pub fn sends(&self, from: HostId, to: HostId, step: u32) -> bool {
        self.target(from, step) == Some(to)
    }

    /// Whether one of the two ever sends to the other.
    fn talks(&self, a: HostId, b: HostId) -> bool {
        match self.config.kind {
            // Every pair of leaves meets in some step; asking all steps would take n^3 for all.
            WorkloadKind::AllToAll => self.leaf(a.0) != self.leaf(b.0),
            WorkloadKind::Trace => self.pairs.binary_search(&(a.0, b.0)).is_ok(),
            // All steps are alike.
            _ => self.sends(a, b, 0) || self.sends(b, a, 0),
        }
    }

    /// Bytes of a step that go over connection `lane`.
    pub fn lane_bytes(&self, lane: u32) -> u64 {
        let qps = u64::from(self.config.qps);
        let bytes = self.step_bytes();
        bytes / qps + u64::from(u64::from(lane) < bytes % qps)
    }

    /// Flows that all hosts together will post.
    pub fn flows(&self) -> u64 {
        if self.config.kind == WorkloadKind::Trace {
            return self.trace.len() as u64;
        }
        let mut per_iteration = 0;
        for step in 0..self.steps() {
            let senders = self.hosts().filter(|&h| self.target(h, step).is_some());
            per_iteration += senders.count() as u64;
        }
        per_iteration * u64::from(self.config.qps) * u64::from(self.config.iterations)
    }
}
