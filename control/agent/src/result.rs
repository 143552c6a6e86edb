//! What a run comes to, in JSON, and the lines in which the daemon tells it.
//!
//! Written by the daemon and the simulator, read by the command and by scripts: the keys are an
//! interface. Keys may be added; those that are here keep name and meaning.

mod bench;

use std::collections::BTreeMap;
use std::path::PathBuf;

use config::{Evidence, Mark, Preset, Spray, Tie};
use detector::{LeafId, Link, SpineId};
use serde::{Deserialize, Serialize};

pub use bench::{BenchResult, BenchRow};

/// The answer of `testbed` and of `sim --scenario`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct TestbedResult {
    /// Seed of everything left to chance.
    pub seed: u64,
    /// How packets were sprayed and judged.
    pub policy: Policy,
    /// Faults that were put in, and what they did.
    pub injected: Vec<Injected>,
    /// Links that lose packets.
    pub convicted: Vec<Convicted>,
    /// Links that may.
    pub suspects: Vec<Suspect>,
    /// Every test that was made.
    pub tests: Vec<Test>,
    /// Flows.
    pub flows: Flows,
    /// How evenly healthy paths were used.
    pub noise: Noise,
    /// How the tests were made, and what measuring takes.
    #[serde(default)]
    pub measurement: Measurement,
    /// Where all packets went.
    pub conservation: Conservation,
    /// Time of the run on the clock on the wall, in seconds.
    pub elapsed_s: f64,
    /// Packets that a switch received, over all switches.
    pub packet_hops: u64,
    /// The same per second.
    pub packet_hops_per_s: f64,
    /// Whether the run ended before its work was done.
    #[serde(default)]
    pub partial: bool,
    /// Why, if so: `limit`, `signal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Time of the run on the fabric's clock, in milliseconds.
    #[serde(default)]
    pub fabric_ms: u64,
    /// What was changed while it ran.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<ChangeAt>,
}

/// A change while a testbed ran.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct ChangeAt {
    /// When, on the fabric's clock, in milliseconds.
    pub at_ms: u64,
    /// What: `testbed: spray: jsq2 -> random`.
    pub change: String,
}

/// How packets were sprayed and judged.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Policy {
    /// Where the settings started from.
    pub preset: Preset,
    /// How uplinks were chosen.
    pub spray: Spray,
    /// What decided between equal ones.
    pub tie: Tie,
    /// What loss was read from.
    pub evidence: Evidence,
    /// Which packets were marked.
    pub mark: Mark,
    /// Packets that a port took in at once.
    pub burst: u32,
    /// Load of the uplinks, 1 being their rate.
    pub load: f64,
    /// Packets per spine that a test needs.
    #[serde(default)]
    pub p_min: u64,
}

/// One fault of one link.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Injected {
    /// The link.
    pub link: Link,
    /// The fault, as in `--fail`.
    pub spec: String,
    /// Packets that entered the link.
    pub packets_seen: u64,
    /// Packets that it lost, damaged ones included.
    pub packets_dropped: u64,
}

/// A link that loses packets.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Convicted {
    /// The link.
    pub link: Link,
    /// Estimated loss rate.
    pub drop_rate: f64,
    /// Its 95 % interval.
    pub ci95: [f64; 2],
    /// Failed paths over it.
    pub paths: u32,
    /// Marked packets of the evidence.
    pub packets: u64,
    /// Packets per spine that it took.
    pub packets_per_spine: u64,
    /// When, in milliseconds of the fabric's clock from the first marked packet of the evidence.
    pub at_ms: f64,
    /// What the evidence was read at: the end of windows, or an alarm of the sequential test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<EndReason>,
}

/// A link that may lose packets.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Suspect {
    /// The link.
    pub link: Link,
    /// What its conviction lacks.
    pub missing: String,
    /// Loss rate of the path that accuses it.
    #[serde(default)]
    pub drop_rate: f64,
    /// Marked packets on that path.
    #[serde(default)]
    pub packets: u64,
}

/// Why a window ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndReason {
    /// Its last PSN was counted.
    LastPsn,
    /// Its close came.
    Close,
    /// A counter told at once.
    Alarm,
    /// Nothing came any more.
    Timeout,
}

/// One test of one window.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Test {
    /// Source leaf.
    pub src: LeafId,
    /// Destination leaf.
    pub dst: LeafId,
    /// Destination QP.
    pub qpn: u32,
    /// The window's number at its source leaf.
    pub epoch: u32,
    /// Packets announced.
    pub n: u64,
    /// Packets marked; `null` if no close came.
    pub marked: Option<u64>,
    /// Usable spines.
    pub k: u32,
    /// Their indices.
    pub usable: Vec<u16>,
    /// Packets expected per spine.
    pub lambda: f64,
    /// Fewer fail a path; `null` while the counts wait for more.
    pub threshold: Option<f64>,
    /// Marked packets counted, by spine.
    pub counts: Vec<u64>,
    /// Marked packets sent, by spine; `null` if no close came.
    pub sent: Option<Vec<u64>>,
    /// Marked packets that our own queues dropped, by spine.
    pub congestion_dropped: Vec<u64>,
    /// Spines whose path failed.
    pub failed: Vec<SpineId>,
    /// Spines whose path was disturbed, so that its count says nothing.
    pub void: Vec<SpineId>,
    /// Spines whose count was too small to tell.
    pub abstained: Vec<SpineId>,
    /// The smallest loss rate that this test would have seen; `null` if none would have been.
    pub min_detectable_rate: Option<f64>,
    /// Why the window ended.
    pub reason: EndReason,
    /// Why paths are void or abstained, by spine: no verdict is silent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub why: BTreeMap<String, String>,
    /// The smallest loss rate that an abstained path's test would have seen, by spine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub could_tell: BTreeMap<String, f64>,
    /// The evidence of failed paths.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<Failure>,
}

/// The evidence of a failed path. Windows before this one are in it when they were too short.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Spine of the path.
    pub spine: SpineId,
    /// Marked packets that should have come.
    pub expected: f64,
    /// Of these, missing; what own queues have dropped is not in it.
    pub lost: f64,
    /// Estimated loss rate.
    pub rate: f64,
    /// Its 95 % interval.
    pub ci95: [f64; 2],
    /// Probability of that loss, or more, on a healthy path.
    pub p_value: f64,
    /// From the first marked packet of the evidence to the verdict, in milliseconds of the fabric's
    /// clock.
    pub after_ms: f64,
    /// Lost on (uplink, downlink), by hop counts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by_link: Option<[u64; 2]>,
}

/// How the tests were made, and what measuring takes.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Measurement {
    /// `fixed` or `sequential`.
    pub test: String,
    /// Alarms of the sequential test.
    pub alarms: u64,
    /// Tests of one path, void ones not counted.
    pub path_tests: u64,
    /// False path alarms of the whole fabric in a day that goes on like the run, if every path lost
    /// exactly what is tolerated: an upper bound.
    pub expected_false_alarms_per_day: f64,
    /// State of measurement at a leaf, in bytes.
    pub measurement_state_bytes: u64,
    /// The same at a spine.
    pub spine_state_bytes: u64,
    /// Messages of one window over all spines.
    pub messages: u64,
    /// Their frames on the wire, without preamble, FCS and gap, in bytes.
    pub message_bytes: u64,
}

/// Flows of a run.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Flows {
    /// Announced by hosts.
    pub announced: u64,
    /// Measured by leaves.
    pub measured: u64,
    /// Delivered whole.
    pub completed: u64,
    /// Given up.
    pub failed: u64,
    /// Packets sent again.
    pub retransmitted: u64,
    /// Of those, packets that had arrived after all.
    pub spurious_retransmits: u64,
    /// Data packets sent, first and again.
    #[serde(default)]
    pub sent: u64,
    /// Payload bytes that arrived, each once and compared.
    #[serde(default)]
    pub received_bytes: u64,
    /// Congestion notifications that senders received.
    #[serde(default)]
    pub cnps: u64,
    /// How far behind the latest a packet came at most, in packets.
    #[serde(default)]
    pub out_of_order_max: u64,
    /// Fabric time at which the last flow was complete, in microseconds.
    #[serde(default)]
    pub ended_us: u64,
    /// Wrong bytes, wrong checksums and the like at hosts: above 0, something is broken.
    #[serde(default)]
    pub host_errors: u64,
}

/// How far the counts of healthy paths were from equal.
#[derive(Clone, Copy, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Noise {
    /// Standard deviation of a count in units of sqrt(lambda); `null` without paths.
    pub sigma_over_sqrt_lambda: Option<f64>,
    /// Paths it was taken over.
    pub paths: u64,
}

/// Where all packets went, over all switches and links.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Conservation {
    /// Received by switches.
    pub rx: u64,
    /// Made by switches.
    pub generated: u64,
    /// Sent by switches.
    pub tx: u64,
    /// Meant for the switch that received them.
    pub consumed: u64,
    /// Still in queues.
    pub queued: u64,
    /// Dropped by switches, by reason; those that occurred.
    pub drops: BTreeMap<String, u64>,
    /// What else switches counted; what is not zero.
    #[serde(default)]
    pub notes: BTreeMap<String, u64>,
    /// Packet buffers that had not come back at the end.
    #[serde(default)]
    pub leaked: u64,
    /// Lost on links, by injected faults.
    pub link_injected: u64,
    /// Still on links.
    pub in_flight: u64,
    /// Whether every sum comes out, per switch, port and link.
    pub ok: bool,
}

/// The answer of `replay`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct ReplayResult {
    /// Ports, in the order of the switch's file.
    pub ports: Vec<ReplayPort>,
    /// What became of the packets.
    pub counters: ReplayCounters,
    /// Whether every sum comes out.
    pub conservation_ok: bool,
    /// Time of the run on the clock on the wall, in seconds.
    #[serde(default)]
    pub elapsed_s: f64,
    /// What devices counted beside their ports, if anything.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub devices: Vec<DeviceCounter>,
}

/// What a device counted beside its ports: frames without a port.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct DeviceCounter {
    /// The device.
    pub device: String,
    /// What was counted.
    pub counter: String,
    /// How often.
    pub packets: u64,
}

/// What went through a port.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ReplayPort {
    /// Its name.
    pub name: String,
    /// Packets received.
    pub rx: u64,
    /// Packets sent.
    pub tx: u64,
}

/// A switch's counters.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct ReplayCounters {
    /// Received.
    pub rx: u64,
    /// Made by the switch.
    pub generated: u64,
    /// Sent.
    pub tx: u64,
    /// Meant for the switch.
    pub consumed: u64,
    /// Still queued.
    pub queued: u64,
    /// Drops by reason, those that occurred.
    pub drops: BTreeMap<String, u64>,
    /// What else was counted, if not zero.
    pub notes: BTreeMap<String, u64>,
}

/// One line of the daemon's standard output, in JSON.
///
/// A run is any number of `Progress` and at most one `Ready`, then one `Result`, `Replay`,
/// `Bench` or `Error`. A daemon whose standard output is closed ends.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "line", rename_all = "kebab-case")]
pub enum DaemonLine {
    /// How far the run is.
    Progress {
        /// The fabric's clock, in milliseconds.
        fabric_ms: u64,
        /// From 0 to 100.
        percent: f64,
        /// What is going on.
        text: String,
    },
    /// The data plane runs.
    Ready {
        /// Where `show` is answered, if anywhere.
        socket: Option<PathBuf>,
    },
    /// The answer of `testbed`.
    Result(Box<TestbedResult>),
    /// The answer of `replay`.
    Replay(ReplayResult),
    /// The answer of `bench`.
    Bench(BenchResult),
    /// There is no answer.
    Error {
        /// What is wrong and what to do.
        message: String,
        /// 2: usage or configuration; 3: the environment lacks something; 1: anything else.
        exit_code: u8,
    },
}

impl DaemonLine {
    /// The line, without its end.
    pub fn to_json(&self) -> String {
        // Maps have string keys and floats that are no numbers become null: it cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Reads a line.
    pub fn from_json(line: &str) -> Result<DaemonLine, serde_json::Error> {
        serde_json::from_str(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of the interface, shortened where it says `..`.
    const EXAMPLE: &str = r#"{ "seed": 1, "policy": {"preset": "default", "spray": "jsq2", "tie": "fewest-measured", "evidence": "receive-only", "mark": "first", "burst": 32, "load": 0.125},
      "injected":  [{"link": "leaf3>spine5", "spec": "drop=0.01", "packets_seen": 0, "packets_dropped": 0}],
      "convicted": [{"link": "leaf3>spine5", "drop_rate": 0.0098, "ci95": [0.008, 0.012], "paths": 3, "packets": 24000, "packets_per_spine": 4000, "at_ms": 812}],
      "suspects":  [{"link": "leaf3>spine6", "missing": "second destination"}],
      "tests": [{"src": "leaf3", "dst": "leaf4", "qpn": 18, "epoch": 7, "n": 32768, "marked": 32768, "k": 8, "usable": [0,1,2,3,4,5,6,7], "lambda": 4096.0, "threshold": 4087.0,
                 "counts": [4096], "sent": [4096], "congestion_dropped": [0], "failed": ["spine5"], "void": [], "abstained": [], "min_detectable_rate": 0.003, "reason": "last-psn"}],
      "flows": {"announced": 16, "measured": 8, "completed": 16, "failed": 0, "retransmitted": 0, "spurious_retransmits": 0},
      "noise": {"sigma_over_sqrt_lambda": 0.02, "paths": 56},
      "conservation": {"rx": 0, "generated": 0, "tx": 0, "consumed": 0, "queued": 0, "drops": {"tail-drop": 0}, "link_injected": 0, "in_flight": 0, "ok": true},
      "elapsed_s": 4.2, "packet_hops": 0, "packet_hops_per_s": 0 }"#;

    /// Goal: the interface's example is read, and every one of its keys is written back.
    #[test]
    fn keys_are_those_of_the_interface() {
        fn check(path: &str, theirs: &serde_json::Value, ours: &serde_json::Value) {
            if let serde_json::Value::Object(map) = theirs {
                for (key, value) in map {
                    let path = format!("{path}.{key}");
                    check(
                        &path,
                        value,
                        ours.get(key).unwrap_or_else(|| panic!("no {path}")),
                    );
                }
            } else if let serde_json::Value::Array(items) = theirs {
                for (index, item) in items.iter().enumerate() {
                    check(&format!("{path}[{index}]"), item, &ours[index]);
                }
            } else if theirs.is_number() {
                assert_eq!(theirs.as_f64(), ours.as_f64(), "{path}");
            } else {
                assert_eq!(theirs, ours, "{path}");
            }
        }
        let result: TestbedResult = serde_json::from_str(EXAMPLE).unwrap();
        let theirs: serde_json::Value = serde_json::from_str(EXAMPLE).unwrap();
        check("", &theirs, &serde_json::to_value(&result).unwrap());
    }

    /// Goal: lines of every kind are one line, and are read back as they were written.
    #[test]
    fn lines_are_read_back() {
        let result: TestbedResult = serde_json::from_str(EXAMPLE).unwrap();
        for line in [
            DaemonLine::Progress {
                fabric_ms: 12,
                percent: 3.5,
                text: "two\nlines".into(),
            },
            DaemonLine::Ready {
                socket: Some("run/sock".into()),
            },
            DaemonLine::Result(Box::new(result)),
            DaemonLine::Replay(ReplayResult::default()),
            DaemonLine::Bench(BenchResult::default()),
            DaemonLine::Error {
                message: "no".into(),
                exit_code: 3,
            },
        ] {
            let text = line.to_json();
            assert!(!text.contains('\n'), "{text}");
            assert_eq!(DaemonLine::from_json(&text).unwrap(), line, "{text}");
        }
        let text = DaemonLine::Ready { socket: None }.to_json();
        assert_eq!(text, r#"{"line":"ready","socket":null}"#);
    }
}
