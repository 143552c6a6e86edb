//! Scenarios of the simulator: a fabric, and what changes in it when.
//!
//! The fabric's settings are those of a testbed, under `[fabric]`; beside them stand what only a
//! simulator can set, and any number of `[[at]]`, each with a time and one change or more.

use std::path::Path;

use detector::{LeafId, Link};
use schemars::JsonSchema;
use serde::Deserialize;

use crate::choice::Workload;
use crate::document;
use crate::error::ConfigError;
use crate::quantity::{Bytes, Rate, Time};
use crate::testbed::{FaultList, LinkList, TestbedConfig, TestbedLayer};

/// Propagation delay of every link: 100 m of fibre, and a transceiver at each end.
const PROPAGATION: Time = Time::new(500);
/// Rates of a fabric of the field, unlike those of a testbed on one core.
const RATE: Rate = Rate::new(100_000_000_000);
/// The paper's bound of a queue.
const QUEUE_LIMIT: Bytes = Bytes::new(10 << 20);
/// A simulator comes in time; this is what the testbed's loop would be late by.
const STEP: Time = Time::new(1_000);
/// Time on the clock on the wall that a simulation may take unless said.
const LIMIT: Time = Time::new(3_600_000_000_000);

/// A change of the fabric.
#[derive(Clone, PartialEq, Debug)]
pub enum Change {
    /// Links get these faults, beside those that they have.
    Fail(FaultList),
    /// Links lose all their faults.
    Clear(Vec<Link>),
    /// Routing may not use links any more.
    Disable(Vec<Link>),
    /// Routing may use them again.
    Enable(Vec<Link>),
    /// Links go down.
    Down(Vec<Link>),
    /// Links come back.
    Up(Vec<Link>),
    /// Hosts begin another workload beside what they do.
    Start(Traffic),
}

/// A workload that begins later.
#[derive(Clone, Copy, PartialEq, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Traffic {
    /// Who sends to whom.
    #[schemars(extend("x-example" = "pairs"))]
    pub workload: Workload,
    /// What each host sends to each peer.
    #[schemars(extend("x-example" = "8MiB"))]
    pub bytes: Bytes,
    /// QPs per pair of hosts.
    #[schemars(extend("x-default" = 1, "x-example" = 4))]
    #[serde(default = "one")]
    pub qps: u32,
    /// How often it runs.
    #[schemars(extend("x-default" = 1, "x-example" = 3))]
    #[serde(default = "one")]
    pub iterations: u32,
    /// Whether its flows are announced, and so may be measured.
    #[schemars(extend("x-default" = true, "x-example" = false))]
    #[serde(default = "yes")]
    pub announced: bool,
}

fn one() -> u32 {
    1
}

fn yes() -> bool {
    true
}

/// All settings of a simulation, resolved.
#[derive(Clone, PartialEq, Debug)]
pub struct SimConfig {
    /// The fabric.
    pub testbed: TestbedConfig,
    /// Propagation delay of every link.
    pub propagation: Time,
    /// Leaves that are simulated; all if empty. Traffic of the others is left out.
    pub slice: Vec<LeafId>,
    /// Fabric time at which the run ends, finished or not.
    pub until: Option<Time>,
    /// What changes when, by time.
    pub changes: Vec<(Time, Change)>,
}

/// What the flags say beside the fabric's settings.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct SimLayer {
    /// The fabric's settings.
    pub fabric: TestbedLayer,
    /// Propagation delay.
    pub propagation: Option<Time>,
    /// Load of the uplinks, by which the rate of the fabric's links follows from that of hosts.
    pub load: Option<f64>,
    /// Leaves to simulate.
    pub slice: Option<Vec<LeafId>>,
    /// Fabric time at which to end.
    pub until: Option<Time>,
}

#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Raw {
    /// Keys of a testbed's file; links are 100 Gbit/s and queues hold 10 MiB unless said.
    fabric: TestbedLayer,
    /// Propagation delay of every link.
    #[schemars(extend("x-default" = "500ns", "x-example" = "1us"))]
    propagation: Option<Time>,
    /// Load of the uplinks, from which the rate of links between switches follows; in place of
    /// `fabric.link_rate`.
    #[schemars(extend("x-unless" = "none", "x-example" = 0.7))]
    load: Option<f64>,
    /// Leaves that are simulated; traffic of others is left out.
    #[schemars(extend("x-unless" = "all", "x-example" = ["leaf0", "leaf1"]))]
    #[schemars(with = "Option<Vec<String>>")]
    slice: Option<Vec<LeafId>>,
    /// Fabric time at which the run ends, finished or not.
    #[schemars(extend("x-unless" = "when all flows have ended", "x-example" = "10ms"))]
    until: Option<Time>,
    /// What changes, and when; any number of them.
    at: Vec<RawChange>,
}

#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawChange {
    /// When, in the fabric's time.
    #[schemars(extend("x-example" = "2ms"))]
    time: Time,
    /// Links get these faults, beside those that they have.
    #[schemars(extend("x-example" = ["leaf3>spine5:drop=0.02"]))]
    fail: Option<FaultList>,
    /// Links lose all their faults.
    #[schemars(extend("x-example" = ["leaf3>spine5"]))]
    clear: Option<LinkList>,
    /// Routing may not use links any more.
    #[schemars(extend("x-example" = ["leaf3>spine5"]))]
    disable: Option<LinkList>,
    /// Routing may use them again.
    #[schemars(extend("x-example" = ["leaf3>spine5"]))]
    enable: Option<LinkList>,
    /// Links go down.
    #[schemars(extend("x-example" = ["leaf0-spine0"]))]
    down: Option<LinkList>,
    /// Links come back.
    #[schemars(extend("x-example" = ["leaf0-spine0"]))]
    up: Option<LinkList>,
    /// Hosts begin another workload beside what they do.
    #[schemars(extend("x-example" = {"workload": "pairs", "bytes": "8MiB", "announced": false}))]
    start: Option<Traffic>,
}

/// A scenario file.
#[derive(Clone, Debug, Default)]
pub struct ScenarioFile {
    raw: Raw,
}

impl ScenarioFile {
    /// Reads `text`, the content of `path`.
    ///
    /// # Errors
    /// Names line, key and cure.
    pub fn parse(path: &Path, text: &str) -> Result<ScenarioFile, ConfigError> {
        let raw: Raw = document::parse(text).map_err(|error| error.in_file(path))?;
        for (index, change) in raw.at.iter().enumerate() {
            if changes_of(change).is_empty() {
                let key = format!("at[{index}]");
                let message = "says when and not what; add fail, clear, disable, enable, down, up \
                               or start";
                let line = document::line_of(text, &key);
                return Err(ConfigError::new(key, message).on_line(line).in_file(path));
            }
        }
        Ok(ScenarioFile { raw })
    }

    /// The same fabric for a testbed, with the flags over it: of a scenario's rates and queues. What a
    /// testbed cannot do is refused.
    ///
    /// # Errors
    /// Names the key, the value and the cure.
    pub fn testbed(&self, flags: TestbedLayer) -> Result<TestbedConfig, ConfigError> {
        let Raw {
            fabric,
            propagation,
            load,
            slice,
            until,
            at,
        } = &self.raw;
        for (key, is_there) in [
            ("propagation", propagation.is_some()),
            ("load", load.is_some()),
            ("slice", slice.is_some()),
            ("until", until.is_some()),
            ("at", !at.is_empty()),
        ] {
            if is_there {
                let message =
                    "is the simulator's alone; leave it out, or run `spraycheck sim --scenario`";
                return Err(ConfigError::new(key, message));
            }
        }
        let of_scenario = TestbedLayer {
            step: None,
            limit: None,
            ..SimConfig::base()
        };
        TestbedConfig::resolve(None, of_scenario.with(fabric.clone()).with(flags))
    }
}

fn changes_of(raw: &RawChange) -> Vec<Change> {
    let links = |list: &Option<LinkList>| list.as_ref().map(|list| list.0.clone());
    let all = [
        raw.clear.as_ref().and(links(&raw.clear)).map(Change::Clear),
        raw.fail.clone().map(Change::Fail),
        links(&raw.disable).map(Change::Disable),
        links(&raw.enable).map(Change::Enable),
        links(&raw.down).map(Change::Down),
        links(&raw.up).map(Change::Up),
        raw.start.map(Change::Start),
    ];
    all.into_iter().flatten().collect()
}

impl SimConfig {
    /// A simulation of such a fabric, in which nothing changes.
    pub fn of(testbed: TestbedConfig) -> SimConfig {
        SimConfig {
            testbed,
            propagation: PROPAGATION,
            slice: Vec::new(),
            until: None,
            changes: Vec::new(),
        }
    }

    /// What a simulation starts from: as a testbed, but at 100 Gbit/s and with the paper's queues.
    pub fn base() -> TestbedLayer {
        TestbedLayer {
            link_rate: Some(RATE),
            queue_limit: Some(QUEUE_LIMIT),
            step: Some(STEP),
            limit: Some(LIMIT),
            ..TestbedLayer::default()
        }
    }

    /// The defaults, what the file says over them, and the flags over that; checked.
    ///
    /// # Errors
    /// Names the key, the value and the cure.
    pub fn resolve(file: Option<&ScenarioFile>, flags: SimLayer) -> Result<SimConfig, ConfigError> {
        let raw = file.map(|file| file.raw.clone()).unwrap_or_default();
        let layer = SimConfig::base().with(raw.fabric).with(flags.fabric);
        let mut testbed = TestbedConfig::resolve(None, layer)?;
        if let Some(load) = flags.load.or(raw.load) {
            testbed.link_rate = rate_for(load, &testbed)?;
            testbed.check()?;
        }
        let mut changes = Vec::new();
        for change in &raw.at {
            changes.extend(
                changes_of(change)
                    .into_iter()
                    .map(|what| (change.time, what)),
            );
        }
        changes.sort_by_key(|&(time, _)| time);
        let config = SimConfig {
            testbed,
            propagation: flags.propagation.or(raw.propagation).unwrap_or(PROPAGATION),
            slice: flags.slice.or(raw.slice).unwrap_or_default(),
            until: flags.until.or(raw.until),
            changes,
        };
        config.check()?;
        Ok(config)
    }

    /// Refuses what cannot be simulated.
    ///
    /// # Errors
    /// Names the key, the value and the cure.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.testbed.check()?;
        let most = Time::new(1_000_000);
        if self.propagation > most || self.propagation < Time::new(1) {
            let message = format!("{} is out of range; choose 1ns to {most}", self.propagation);
            return Err(ConfigError::new("propagation", message));
        }
        let leaves = self.testbed.leaves;
        if let Some(leaf) = self.slice.iter().find(|leaf| leaf.0 >= leaves) {
            let message = format!(
                "{leaf} is no leaf of this fabric, which has leaf0 to leaf{}",
                leaves - 1
            );
            return Err(ConfigError::new("slice", message));
        }
        for (key, is_set) in [
            ("pcap_dir", self.testbed.pcap_dir.is_some()),
            ("trace", self.testbed.trace.is_some()),
            ("socket", self.testbed.socket.is_some()),
            ("metrics", self.testbed.metrics.is_some()),
        ] {
            if is_set {
                let message = "is the testbed's; a simulation has none: leave it out";
                return Err(ConfigError::new(key, message));
            }
        }
        for (_, change) in &self.changes {
            self.check_change(change)?;
        }
        Ok(())
    }

    fn check_change(&self, change: &Change) -> Result<(), ConfigError> {
        let links: Vec<Link> = match change {
            Change::Fail(faults) => faults.0.iter().map(|fault| fault.link).collect(),
            Change::Clear(links)
            | Change::Disable(links)
            | Change::Enable(links)
            | Change::Down(links)
            | Change::Up(links) => links.clone(),
            Change::Start(traffic) => {
                let with = TestbedConfig {
                    workload: traffic.workload,
                    bytes: traffic.bytes,
                    qps: traffic.qps,
                    iterations: traffic.iterations,
                    ..self.testbed.clone()
                };
                return with.check();
            }
        };
        let wrong = links.iter().find(|link| {
            link.leaf().0 >= self.testbed.leaves || link.spine().0 >= self.testbed.spines
        });
        match wrong {
            None => Ok(()),
            Some(link) => {
                let message = format!(
                    "{link} is no link of this fabric of {} leaves and {} spines",
                    self.testbed.leaves, self.testbed.spines
                );
                Err(ConfigError::new("at", message))
            }
        }
    }
}

/// The rate of the fabric's links at which the hosts of a leaf load its uplinks by `load`.
fn rate_for(load: f64, testbed: &TestbedConfig) -> Result<Rate, ConfigError> {
    if !(0.001..=10.0).contains(&load) {
        let message = format!(
            "{load} is out of range; choose 0.001 to 10: the rate of a leaf's hosts over that of its uplinks"
        );
        return Err(ConfigError::new("load", message));
    }
    let hosts = f64::from(testbed.hosts_per_leaf) * testbed.host_rate.bits_per_second() as f64;
    Ok(Rate::new(
        (hosts / (f64::from(testbed.spines) * load)).round() as u64,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "propagation = \"1us\"\n[fabric]\nleaves = 4\nspines = 4\n[[at]]\ntime = \"2ms\"\nfail = [\"leaf3>spine1:drop=0.01\"]\ndown = [\"leaf0-spine0\"]\n[[at]]\ntime = \"1ms\"\nstart = { workload = \"pairs\", bytes = \"1MiB\" }\n";

    /// Goal: a testbed takes a scenario's fabric as the simulator does, and refuses what only that can.
    #[test]
    fn a_testbed_takes_the_fabric_of_a_scenario() {
        let path = Path::new("a.toml");
        let same = "[fabric]\nleaves = 4\nspines = 4\nworkload = \"ring-allreduce\"\n";
        let file = ScenarioFile::parse(path, same).unwrap();
        let flags = TestbedLayer {
            seed: Some(7),
            ..TestbedLayer::default()
        };
        let testbed = file.testbed(flags.clone()).unwrap();
        let layer = SimLayer {
            fabric: flags,
            ..SimLayer::default()
        };
        let simulated = SimConfig::resolve(Some(&file), layer).unwrap().testbed;
        let own = TestbedConfig {
            step: simulated.step,
            limit: simulated.limit,
            ..testbed.clone()
        };
        assert_eq!(own, simulated);
        assert_eq!((testbed.seed, testbed.step), (7, Time::new(10_000)));
        let error = ScenarioFile::parse(path, TEXT)
            .unwrap()
            .testbed(TestbedLayer::default())
            .unwrap_err();
        assert!(error.to_string().contains("propagation"), "{error}");
    }

    /// Goal: a scenario is read with its changes in the order of time, over a simulator's defaults.
    #[test]
    fn scenarios_are_read() {
        let file = ScenarioFile::parse(Path::new("a.toml"), TEXT).unwrap();
        let config = SimConfig::resolve(Some(&file), SimLayer::default()).unwrap();
        assert_eq!((config.testbed.leaves, config.testbed.link_rate), (4, RATE));
        assert_eq!(
            (config.testbed.host_rate, config.propagation),
            (RATE, Time::new(1000))
        );
        let times: Vec<u64> = config
            .changes
            .iter()
            .map(|(time, _)| time.nanos())
            .collect();
        assert_eq!(times, [1_000_000, 2_000_000, 2_000_000]);
        assert!(matches!(config.changes[0].1, Change::Start(traffic) if traffic.qps == 1));
        assert!(matches!(&config.changes[2].1, Change::Down(links) if links.len() == 2));
    }

    /// Goal: mistakes name their place, and what was probably meant.
    #[test]
    fn mistakes_are_refused() {
        for (text, part) in [
            ("[fabric]\nleafs = 4\n", "did you mean \"leaves\"?"),
            ("propagatoin = \"1us\"\n", "did you mean \"propagation\"?"),
            (
                "[[at]]\ntime = \"1ms\"\nfial = []\n",
                "did you mean \"fail\"?",
            ),
            (
                "[[at]]\ntime = \"1ms\"\n",
                "a.toml:1: at[0]: says when and not what",
            ),
            (
                "[[at]]\ntime = \"1ms\"\ndown = [\"leaf9-spine0\"]\n",
                "is no link of this fabric",
            ),
            ("load = 99\n", "load: 99 is out of range"),
            ("slice = [\"leaf77\"]\n", "slice: leaf77 is no leaf"),
            ("[fabric]\npcap_dir = \"x\"\n", "pcap_dir: is the testbed's"),
        ] {
            let error = ScenarioFile::parse(Path::new("a.toml"), text)
                .and_then(|file| SimConfig::resolve(Some(&file), SimLayer::default()))
                .unwrap_err()
                .to_string();
            assert!(error.contains(part), "{error}");
        }
    }

    /// Goal: 8 uplinks loaded by 0.5 by a host of 100 Gbit/s have 25 Gbit/s each.
    #[test]
    fn the_load_gives_the_rate() {
        let layer = SimLayer {
            load: Some(0.5),
            ..SimLayer::default()
        };
        let config = SimConfig::resolve(None, layer).unwrap();
        assert_eq!(config.testbed.link_rate, Rate::new(25_000_000_000));
        assert_eq!(config.testbed.host_rate, RATE);
    }
}
