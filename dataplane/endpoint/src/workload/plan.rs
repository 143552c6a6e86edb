//! The pure part of a workload: connections, their numbers, and the steps of each host.
//!
//! Everything follows from the configuration by arithmetic, so both ends of a connection find the
//! same numbers without talking.

use packet::{Address, Psn, Qpn};
use thiserror::Error;

use crate::config::{MESSAGE_BYTES_MAX, QpConfig, QpId};
use crate::pattern::mix;
use crate::workload::Script;

/// First queue pair number of a workload: those below are for a stack's own use.
const QPN_FIRST: u64 = 0x100;
/// RoCEv2 senders take their UDP source ports from 0xc000 up (IBTA annex A17, as Linux does it).
const UDP_PORT_FIRST: u16 = 0xc000;

/// A host, 0 to n - 1; host `i` is on leaf `i / hosts_per_leaf`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct HostId(pub u32);

/// A traffic pattern.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WorkloadKind {
    /// In step s = 1 .. n - 1 host i sends to host i + s (mod n), unless that is on its own leaf.
    AllToAll,
    /// 2(n - 1) steps, each sending 1/n of the bytes to the next host of a ring in which
    /// neighbours are on different leaves.
    RingAllReduce,
    /// Each host sends to the same host half the leaves further on.
    Permutation,
    /// All hosts on other leaves send to host 0.
    Incast,
    /// Leaves 2j and 2j + 1 send to each other, host by host; an odd last leaf is idle.
    Pairs,
    /// Nothing.
    Idle,
}

impl WorkloadKind {
    /// All of them, in the order of the documentation.
    pub const ALL: [WorkloadKind; 6] = [
        WorkloadKind::AllToAll,
        WorkloadKind::RingAllReduce,
        WorkloadKind::Permutation,
        WorkloadKind::Incast,
        WorkloadKind::Pairs,
        WorkloadKind::Idle,
    ];

    /// Its name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            WorkloadKind::AllToAll => "all-to-all",
            WorkloadKind::RingAllReduce => "ring-allreduce",
            WorkloadKind::Permutation => "permutation",
            WorkloadKind::Incast => "incast",
            WorkloadKind::Pairs => "pairs",
            WorkloadKind::Idle => "idle",
        }
    }
}

impl std::str::FromStr for WorkloadKind {
    type Err = String;

    fn from_str(text: &str) -> Result<WorkloadKind, String> {
        let found = WorkloadKind::ALL.into_iter().find(|k| k.name() == text);
        found.ok_or_else(|| {
            let names = WorkloadKind::ALL.map(WorkloadKind::name).join(", ");
            format!("\"{text}\" is no workload; there are {names}")
        })
    }
}

/// What to run.
#[derive(Clone, Copy, Debug)]
pub struct WorkloadConfig {
    /// The pattern.
    pub kind: WorkloadKind,
    /// Hosts: a multiple of `hosts_per_leaf`.
    pub hosts: u32,
    /// Hosts on each leaf; traffic within a leaf is left out.
    pub hosts_per_leaf: u32,
    /// Bytes that a host sends to a peer in an iteration (ring-allreduce: that it reduces, so it
    /// sends 2(n - 1)/n times as many).
    pub bytes: u64,
    /// Connections between two hosts; they share the bytes.
    pub qps: u32,
    /// How often the pattern is run; 0 is never.
    pub iterations: u32,
    /// Bytes of each message but the last of a flow: 1 to 2^31.
    pub message_bytes: u64,
    /// Whether flows are announced.
    pub announce: bool,
    /// Picks first PSNs and UDP ports.
    pub seed: u64,
}

/// A setting of [`WorkloadConfig`] that cannot work.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("workload {key} is {value}; it must be {want}")]
pub struct WorkloadError {
    /// Its name.
    pub key: &'static str,
    /// What it was.
    pub value: u64,
    /// What it may be.
    pub want: &'static str,
}

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

/// A checked workload.
#[derive(Clone, Copy, Debug)]
pub struct Workload {
    config: WorkloadConfig,
}

impl Workload {
    /// Checks the numbers.
    ///
    /// # Errors
    /// Names the first that cannot work.
    pub fn new(config: WorkloadConfig) -> Result<Workload, WorkloadError> {
        let wrong = |key, value: u64, want| Err(WorkloadError { key, value, want });
        let (hosts, per_leaf) = (config.hosts, config.hosts_per_leaf);
        if per_leaf == 0 || hosts == 0 || !hosts.is_multiple_of(per_leaf) {
            let want = "one or more for each of one or more leaves";
            return wrong("hosts", hosts.into(), want);
        }
        if hosts > 1 << 16 {
            return wrong("hosts", hosts.into(), "at most 65,536");
        }
        if config.qps == 0 || u64::from(config.qps) * u64::from(hosts) > (1 << 24) - QPN_FIRST {
            let want = "1 or more, and with the hosts no more than 24-bit numbers";
            return wrong("qps", config.qps.into(), want);
        }
        if !(1..=MESSAGE_BYTES_MAX).contains(&config.message_bytes) {
            return wrong("message_bytes", config.message_bytes, "1 to 2^31");
        }
        let workload = Workload { config };
        if config.bytes > 1 << 50 || workload.step_bytes() < u64::from(config.qps) {
            let want = "a byte or more for each connection and step, and at most 2^50";
            return wrong("bytes", config.bytes, want);
        }
        if config.kind != WorkloadKind::Idle && hosts == per_leaf {
            return wrong("hosts", hosts.into(), "on two leaves or more");
        }
        Ok(workload)
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
        let workload = *self;
        let peers = workload
            .hosts()
            .filter(move |&peer| workload.talks(host, peer));
        let lanes = peers.flat_map(move |peer| (0..workload.config.qps).map(move |q| (peer, q)));
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
            WorkloadKind::RingAllReduce => 2 * (self.config.hosts - 1),
            WorkloadKind::Permutation | WorkloadKind::Incast | WorkloadKind::Pairs => 1,
            WorkloadKind::Idle => 0,
        }
    }

    /// Bytes that a host sends to its peer in a step.
    pub fn step_bytes(&self) -> u64 {
        match self.config.kind {
            WorkloadKind::RingAllReduce => self.config.bytes / u64::from(self.config.hosts),
            WorkloadKind::Idle => u64::MAX,
            _ => self.config.bytes,
        }
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
            WorkloadKind::Idle => return None,
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
        let mut per_iteration = 0;
        for step in 0..self.steps() {
            let senders = self.hosts().filter(|&h| self.target(h, step).is_some());
            per_iteration += senders.count() as u64;
        }
        per_iteration * u64::from(self.config.qps) * u64::from(self.config.iterations)
    }
}
