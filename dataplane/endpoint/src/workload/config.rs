//! What to run: patterns, their parameters, and which of those cannot work.

use thiserror::Error;

use crate::config::MESSAGE_BYTES_MAX;
use crate::verb::Verb;

/// First queue pair number of a workload: those below are for a stack's own use.
pub(super) const QPN_FIRST: u64 = 0x100;
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
    /// The flows of a trace, each at its time, whatever the others do.
    Trace,
    /// Nothing.
    Idle,
}

impl WorkloadKind {
    /// All of them, in the order of the documentation.
    pub const ALL: [WorkloadKind; 7] = [
        WorkloadKind::AllToAll,
        WorkloadKind::RingAllReduce,
        WorkloadKind::Permutation,
        WorkloadKind::Incast,
        WorkloadKind::Pairs,
        WorkloadKind::Trace,
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
            WorkloadKind::Trace => "trace",
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

/// How the bytes of a ring-allreduce are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RingAccounting {
    /// A collective over `bytes`: 2(n - 1) steps, each depending on the one before at the
    /// neighbour, each of 1/n of the bytes. A host sends 2(n - 1)/n times `bytes`.
    #[default]
    Steps,
    /// As the paper counts (arXiv 2605.03702, section 5: 2 GiB over 2 QPs are flows of 1 GiB): a
    /// host sends `bytes` to its neighbour, one flow per QP, in one step.
    Flows,
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
    /// Bytes that a host sends to a peer in an iteration (ring-allreduce: see [`RingAccounting`]).
    pub bytes: u64,
    /// Connections between two hosts; they share the bytes.
    pub qps: u32,
    /// The operation of all flows. With READ the data go the other way: who is said to send here
    /// asks for them, and nobody waits for what others read.
    pub verb: Verb,
    /// How a ring's bytes are counted.
    pub ring: RingAccounting,
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

impl WorkloadConfig {
    /// Bytes that a host sends to its peer in a step.
    pub(super) fn step_bytes(&self) -> u64 {
        match self.kind {
            WorkloadKind::RingAllReduce if self.ring == RingAccounting::Steps => {
                self.bytes / u64::from(self.hosts)
            }
            _ => self.bytes,
        }
    }

    /// Names the first setting that cannot work.
    pub(super) fn check(&self) -> Result<(), WorkloadError> {
        let wrong = |key, value: u64, want| Err(WorkloadError { key, value, want });
        let (hosts, per_leaf) = (self.hosts, self.hosts_per_leaf);
        if per_leaf == 0 || hosts == 0 || !hosts.is_multiple_of(per_leaf) {
            let want = "one or more for each of one or more leaves";
            return wrong("hosts", hosts.into(), want);
        }
        if hosts > 1 << 16 {
            return wrong("hosts", hosts.into(), "at most 65,536");
        }
        if self.qps == 0 || u64::from(self.qps) * u64::from(hosts) > (1 << 24) - QPN_FIRST {
            let want = "1 or more, and with the hosts no more than 24-bit numbers";
            return wrong("qps", self.qps.into(), want);
        }
        if self.kind == WorkloadKind::Idle {
            return Ok(());
        }
        if hosts == per_leaf {
            return wrong("hosts", hosts.into(), "on two leaves or more");
        }
        if !(1..=MESSAGE_BYTES_MAX).contains(&self.message_bytes) {
            return wrong("message_bytes", self.message_bytes, "1 to 2^31");
        }
        if self.kind == WorkloadKind::Trace {
            return Ok(());
        }
        if self.bytes > 1 << 50 || self.step_bytes() < u64::from(self.qps) {
            let want = "a byte or more for each connection and step, and at most 2^50";
            return wrong("bytes", self.bytes, want);
        }
        Ok(())
    }
}
