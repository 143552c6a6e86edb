//! What runs, and the configuration that it has: switches of files, or a testbed.

use std::path::Path;

use config::{ConfigError, Edit, Fabric, InForce, TestbedConfig, TestbedFile};
use detector::{LeafId, Rules};
use pipeline::{Role, SwitchConfig};

use crate::core::Test;

/// Settings of a testbed that can change while it runs, beside those that `spray` has.
const TESTBED_KEYS: &[&str] = &[
    "evidence",
    "mark",
    "p0",
    "alpha",
    "p_min",
    "sensitivity",
    "test",
    "spine_packets",
    "counter_bits",
];

/// What one lcore's instance of a switch is told, of so many.
pub type PartOf = fn(&SwitchConfig, usize, usize) -> SwitchConfig;

/// What runs.
#[derive(Clone, Debug)]
pub enum Subject {
    /// It has no configuration that could change: why, and the cure.
    Fixed(&'static str),
    /// Switches of files.
    Switches {
        /// Their files.
        in_force: Box<InForce>,
        /// What each lcore has of them.
        part_of: PartOf,
    },
    /// A testbed.
    Testbed(Box<TestbedSubject>),
}

/// A testbed's configuration.
#[derive(Clone, Debug)]
pub struct TestbedSubject {
    config: TestbedConfig,
    switches: Vec<SwitchConfig>,
    names: Vec<String>,
    is_off: bool,
}

impl TestbedSubject {
    fn new(config: TestbedConfig, is_off: bool) -> Result<TestbedSubject, ConfigError> {
        let fabric = Fabric::new(&config)?;
        let (mut switches, mut names) = (Vec::new(), Vec::new());
        for mut switch in fabric.switches {
            switch.config.measurement.windows.is_off = is_off;
            switches.push(switch.config);
            names.push(switch.name);
        }
        Ok(TestbedSubject {
            config,
            switches,
            names,
            is_off,
        })
    }

    fn edited(
        &self,
        switch: Option<&str>,
        edits: &[Edit],
    ) -> Result<(TestbedSubject, Vec<String>), String> {
        if switch.is_some() {
            return Err(
                "a testbed has one configuration for all its switches; leave --switch out"
                    .to_owned(),
            );
        }
        if self.config.is_paper() {
            return Err(
                "the paper's protocol has no close that could end the windows that run; start \
                 another testbed"
                    .to_owned(),
            );
        }
        if self.config.trace.is_some() {
            return Err("a trace cannot hold it; start the testbed without --trace".to_owned());
        }
        let (mut config, mut is_off) = (self.config.clone(), self.is_off);
        let mut said = Vec::new();
        for edit in edits {
            let (key, value) = match edit {
                Edit::Key(key, value) => (key, value),
                Edit::Route(..) | Edit::Host(..) => {
                    let message = "addresses and routes of a testbed follow from its size; start \
                                   another one, or use `spraycheck switch`";
                    return Err(message.to_owned());
                }
            };
            let name = key.rsplit('.').next().unwrap_or(key);
            let Some(value) = value else {
                return Err(format!(
                    "{name}: write the value; a testbed keeps no default"
                ));
            };
            if key == "measurement.enabled" {
                let on = value.parse::<bool>();
                let on =
                    on.map_err(|_| format!("{name}: \"{value}\" is neither true nor false"))?;
                said.push(format!("testbed: enabled: {} -> {on}", !is_off));
                is_off = !on;
                continue;
            }
            let is_spray = matches!(key.as_str(), "spray.policy" | "spray.tie");
            if !is_spray && !TESTBED_KEYS.contains(&name) {
                return Err(
                    match config::error::nearest(name, TESTBED_KEYS.iter().copied()) {
                        Some(meant) => format!(
                            "{name} cannot change while a testbed runs; did you mean \"{meant}\"?"
                        ),
                        None => format!(
                            "{name} cannot change while a testbed runs; start another one with it, or \
                         change one of {}",
                            TESTBED_KEYS.join(", ")
                        ),
                    },
                );
            }
            let name = if key == "spray.policy" { "spray" } else { name };
            let before = read(&config, name);
            let bare = value.parse::<f64>().is_ok();
            let text = match bare {
                true => format!("{name} = {value}\n"),
                false => format!("{name} = {}\n", serde_json::Value::String(value.clone())),
            };
            let file = TestbedFile::parse(Path::new(""), &text).map_err(plain)?;
            config = config.with(file.layer).map_err(plain)?;
            said.push(format!(
                "testbed: {name}: {before} -> {}",
                read(&config, name)
            ));
        }
        let new = TestbedSubject::new(config, is_off).map_err(plain)?;
        Ok((new, said))
    }
}

/// A mistake without a place: nobody has written a file.
fn plain(mut error: ConfigError) -> String {
    (error.file, error.line) = (None, None);
    error.to_string()
}

fn read(config: &TestbedConfig, key: &str) -> String {
    let all = serde_json::to_value(config).unwrap_or_default();
    match all.get(key) {
        None | Some(serde_json::Value::Null) => "unset".to_owned(),
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

impl Subject {
    /// A testbed of such settings.
    ///
    /// # Errors
    /// When no fabric follows from them.
    pub fn testbed(config: &TestbedConfig) -> Result<Subject, ConfigError> {
        let testbed = TestbedSubject::new(config.clone(), false)?;
        Ok(Subject::Testbed(Box::new(testbed)))
    }

    /// The switches' configurations, if they are known.
    pub fn configs(&self) -> Vec<&SwitchConfig> {
        match self {
            Subject::Fixed(_) => Vec::new(),
            Subject::Switches { in_force, .. } => in_force
                .set
                .switches
                .iter()
                .map(|spec| &spec.config)
                .collect(),
            Subject::Testbed(testbed) => testbed.switches.iter().collect(),
        }
    }

    /// Which leaf a switch is, whatever its name.
    pub(crate) fn leaf(&self, switch: usize) -> Option<LeafId> {
        match self.configs().get(switch)?.role {
            Role::Leaf(leaf) => Some(LeafId(leaf.0)),
            Role::Spine(_) => None,
        }
    }

    /// What an lcore of several has of a switch.
    pub(crate) fn part(&self, switch: usize, lcore: usize, lcores: usize) -> Option<SwitchConfig> {
        match self {
            Subject::Fixed(_) => None,
            Subject::Switches { in_force, part_of } => {
                let spec = in_force.set.switches.get(switch)?;
                Some(part_of(&spec.config, lcore, lcores))
            }
            Subject::Testbed(testbed) => testbed.switches.get(switch).cloned(),
        }
    }

    /// How windows are judged and paths tested. The switches of one process are of one fabric: the
    /// first leaf says it; where only spines are, nothing is judged.
    pub fn judging(&self) -> Option<(Rules, Test)> {
        match self {
            Subject::Fixed(_) => None,
            Subject::Switches { in_force, .. } => {
                let all = &in_force.set.switches;
                let is_leaf =
                    |spec: &&config::SwitchSpec| matches!(spec.config.role, Role::Leaf(_));
                let spec = all.iter().find(is_leaf).or(all.first())?;
                Some((spec.rules(), spec.test.into()))
            }
            Subject::Testbed(testbed) => Some((testbed.config.rules(), testbed.config.test.into())),
        }
    }

    /// The same with edits of one switch, and what they change.
    pub(crate) fn edited(
        &self,
        switch: Option<&str>,
        edits: &[Edit],
    ) -> Result<(Subject, Vec<String>), String> {
        match self {
            Subject::Fixed(why) => Err((*why).to_owned()),
            Subject::Switches { in_force, part_of } => {
                let index = in_force.find(switch)?;
                let new = in_force.edited(index, edits).map_err(|e| e.to_string())?;
                self.becoming(new, *part_of)
            }
            Subject::Testbed(testbed) => {
                let (new, said) = testbed.edited(switch, edits)?;
                Ok((Subject::Testbed(Box::new(new)), said))
            }
        }
    }

    /// The same by what its files say now, and what they change.
    pub(crate) fn read_again(&self) -> Result<(Subject, Vec<String>), String> {
        match self {
            Subject::Fixed(why) => Err((*why).to_owned()),
            Subject::Testbed(_) => {
                Err("a testbed reads its file at its start alone; use `spraycheck set`".to_owned())
            }
            Subject::Switches { in_force, part_of } => {
                let new = in_force
                    .read_again()
                    .map_err(|error| format!("the configuration is wrong: {error}"))?;
                self.becoming(new, *part_of)
            }
        }
    }

    fn becoming(&self, new: InForce, part_of: PartOf) -> Result<(Subject, Vec<String>), String> {
        let Subject::Switches { in_force, .. } = self else {
            return Err("there are no files".to_owned());
        };
        let said = in_force.changes(&new).map_err(|error| error.to_string())?;
        let in_force = Box::new(new);
        Ok((Subject::Switches { in_force, part_of }, said))
    }

    /// The names of its switches.
    pub fn names(&self) -> Vec<&str> {
        match self {
            Subject::Fixed(_) => Vec::new(),
            Subject::Switches { in_force, .. } => {
                let all = in_force.set.switches.iter();
                all.map(|spec| spec.name.as_str()).collect()
            }
            Subject::Testbed(testbed) => testbed.names.iter().map(String::as_str).collect(),
        }
    }
}
