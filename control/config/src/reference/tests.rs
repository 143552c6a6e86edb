//! The page is that of the types; and what the types say of defaults, ranges and examples is what files do.

use std::path::Path;

use serde_json::{Map, Value};
use toml::Table;

use super::{File, page, schema};
use crate::error::ConfigError;
use crate::quantity::{Bytes, Rate, Time};
use crate::scenario::{ScenarioFile, SimConfig, SimLayer};
use crate::testbed::{TestbedFile, TestbedLayer};
use crate::{FabricFile, MonitorFile, SwitchSpec, TestbedConfig};

const SWITCH: &str = r#"
name = "leaf0"
role = "leaf0"
fabric = { leaves = 2, spines = 1 }
port = [
  { name = "host0", kind = "host", mac = "02:00:00:00:00:00", rate = "10Gbps", hosts = [{ address = "10.0.0.1" }] },
  { name = "up0", kind = "uplink", peer = "spine0", mac = "02:00:00:00:00:10", peer_mac = "02:00:01:00:00:00", rate = "10Gbps" },
]
route = [{ prefix = "10.1.0.0/16", leaf = "leaf1" }]
"#;

const FABRIC: &str = r#"
fabric = { leaves = 2, spines = 1 }
links = { rate = "10Gbps" }
addressing = { ipv4 = "10.0.0.0/8", ipv6 = "fd77::/48" }
"#;

/// Goal: docs/configuration.md says what the types say.
#[test]
fn the_page_is_that_of_the_types() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/configuration.md");
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    let page = page();
    let differing = there
        .lines()
        .zip(page.lines())
        .find(|(old, new)| old != new);
    assert!(
        there == page,
        "docs/configuration.md is not that of the types; write it with `spraycheck reference > \
         docs/configuration.md`. First difference: {differing:#?}"
    );
}

/// A key of a file: its path, and its schema. Of lists of tables the first is meant.
type Key = (Vec<String>, Map<String, Value>);

/// All keys that have a value, and no keys of their own.
fn keys(file: File) -> Vec<Key> {
    let mut all = Vec::new();
    collect(&schema(file), &mut Vec::new(), &mut all);
    all
}

fn collect(schema: &Value, path: &mut Vec<String>, all: &mut Vec<Key>) {
    let either = schema.get("anyOf").and_then(Value::as_array);
    let items = schema.get("items").into_iter();
    let mut inner = items.chain(either.into_iter().flatten()).chain([schema]);
    let Some(keys) = inner.find_map(|one| one.get("properties")?.as_object()) else {
        if let Value::Object(schema) = schema {
            all.push((path.clone(), schema.clone()));
        }
        return;
    };
    for (key, schema) in keys {
        path.push(key.clone());
        collect(schema, path, all);
        path.pop();
    }
}

/// `base` with one key set.
fn with(base: &str, path: &[String], value: &Value) -> String {
    let mut table: Table = toml::from_str(base).expect("the base is TOML");
    let value = toml::Value::try_from(value).expect("TOML has such values");
    set(&mut table, path, value);
    toml::to_string(&table).expect("a table is a document")
}

fn set(table: &mut Table, path: &[String], value: toml::Value) {
    let (first, rest) = path.split_first().expect("a path");
    if rest.is_empty() {
        table.insert(first.clone(), value);
        return;
    }
    let inner = table
        .entry(first.clone())
        .or_insert_with(|| toml::Value::Table(Table::new()));
    match inner {
        toml::Value::Table(inner) => set(inner, rest, value),
        toml::Value::Array(items) => match items.last_mut() {
            Some(toml::Value::Table(inner)) => set(inner, rest, value),
            _ => panic!("{first} is no list of tables"),
        },
        _ => panic!("{first} is no table"),
    }
}

/// Values just outside of a range.
fn outside(range: &[Value], kind: &str) -> Vec<Value> {
    let [least, most] = range else {
        panic!("a range has two ends");
    };
    if let (Some(least), Some(most)) = (least.as_u64(), most.as_u64()) {
        let below = least.checked_sub(1).map(Value::from);
        return below.into_iter().chain([Value::from(most + 1)]).collect();
    }
    let text = |end: &Value| end.as_str().expect("a text").to_owned();
    let (least, most) = (text(least), text(most));
    let number = |text: &str| match kind {
        "rate" => text.parse::<Rate>().expect("a rate").bits_per_second(),
        "size" => text.parse::<Bytes>().expect("a size").bytes(),
        _ => text.parse::<Time>().expect("a time").nanos(),
    };
    let show = |number: u64| match kind {
        "rate" => Rate::new(number).to_string(),
        "size" => Bytes::new(number).to_string(),
        _ => Time::new(number).to_string(),
    };
    let below = number(&least).checked_sub(1).map(show);
    below
        .into_iter()
        .chain([show(number(&most) + 1)])
        .map(Value::from)
        .collect()
}

/// What one kind of files is: a base without the optional keys, and what a text of it comes to.
struct Kind<T> {
    file: File,
    base: &'static str,
    read: fn(&str) -> Result<T, ConfigError>,
}

impl<T: PartialEq + std::fmt::Debug> Kind<T> {
    /// Returns how many defaults, ranges and examples there were.
    fn check(&self) -> [usize; 3] {
        let mut seen = [0; 3];
        let base = (self.read)(self.base).expect("the base is right");
        for (path, schema) in keys(self.file) {
            let name = path.join(".");
            let kind = schema.get("x-type").and_then(Value::as_str).or_else(|| {
                let all = schema.get("anyOf")?.as_array()?;
                all.iter().find_map(|one| one.get("x-type")?.as_str())
            });
            // Keys of parts whose being there means something are compared with the empty part.
            let is_there = matches!(
                path.first().map(String::as_str),
                Some("host" | "switch" | "device" | "at")
            );
            if let Some(value) = schema.get("x-default").filter(|_| !is_there) {
                let (empty, text) = if name.starts_with("queue.ecn.") {
                    let ecn = path[..2].to_vec();
                    let empty = with(self.base, &ecn, &Value::Object(Map::new()));
                    let text = with(&empty, &path, value);
                    ((self.read)(&empty).expect("an empty part is right"), text)
                } else {
                    (
                        (self.read)(self.base).expect("as above"),
                        with(self.base, &path, value),
                    )
                };
                let read = (self.read)(&text);
                let read = read.unwrap_or_else(|error| panic!("{name}: its default: {error}"));
                assert_eq!(read, empty, "{name} = {value} is not the default");
                seen[0] += 1;
            }
            if let Some(Value::Array(range)) = schema.get("x-range").filter(|_| !is_there) {
                for value in outside(range, kind.unwrap_or_default()) {
                    let error = match (self.read)(&with(self.base, &path, &value)) {
                        Ok(_) => panic!("{name} = {value} is taken, but not of its range"),
                        Err(error) => error.to_string(),
                    };
                    let end = |end: &Value| end.as_str().map_or(end.to_string(), str::to_owned);
                    let said = format!("choose {} to {}", end(&range[0]), end(&range[1]));
                    assert!(
                        error.contains(&said),
                        "{name} = {value}: not \"{said}\": {error}"
                    );
                    seen[1] += 1;
                }
            }
            if schema.contains_key("x-example") {
                seen[2] += 1;
            }
        }
        assert_eq!((self.read)(self.base).expect("as above"), base);
        seen
    }
}

fn none() -> &'static Path {
    Path::new("")
}

/// Goal: every default of a switch, given, changes nothing; every value outside a range is refused with
/// that range.
#[test]
fn a_switch_does_what_its_keys_say() {
    let kind = Kind {
        file: File::Switch,
        base: SWITCH,
        read: |text| SwitchSpec::parse(none(), text),
    };
    let [defaults, ranges, examples] = kind.check();
    assert!(
        defaults >= 25 && ranges >= 30 && examples >= 60,
        "{defaults} {ranges} {examples}"
    );
}

/// Goal: the same of a fabric, by the switches that come of it.
#[test]
fn a_fabric_does_what_its_keys_say() {
    let kind = Kind {
        file: File::Fabric,
        base: FABRIC,
        read: |text| {
            let file = FabricFile::parse(none(), text)?;
            let specs: Vec<SwitchSpec> = file.switches.into_iter().map(|one| one.spec).collect();
            Ok((specs, file.hosts, file.cables, file.mtu))
        },
    };
    let [defaults, ranges, examples] = kind.check();
    assert!(
        defaults >= 20 && ranges >= 10 && examples >= 80,
        "{defaults} {ranges} {examples}"
    );
}

/// Goal: the same of a testbed and of a simulation.
#[test]
fn a_testbed_does_what_its_keys_say() {
    let testbed = Kind {
        file: File::Testbed,
        base: "",
        read: |text| {
            let file = TestbedFile::parse(none(), text)?;
            TestbedConfig::resolve(Some(&file), TestbedLayer::default())
        },
    };
    let [defaults, ranges, examples] = testbed.check();
    assert!(
        defaults >= 30 && ranges >= 20 && examples >= 40,
        "{defaults} {ranges} {examples}"
    );
    let scenario = Kind {
        file: File::Scenario,
        base: "",
        read: |text| {
            let file = ScenarioFile::parse(none(), text)?;
            SimConfig::resolve(Some(&file), SimLayer::default())
        },
    };
    assert!(scenario.check()[2] >= 40);
}

/// Goal: the same of a monitor.
#[test]
fn a_monitor_does_what_its_keys_say() {
    let monitor = Kind {
        file: File::Monitor,
        base: "fabric = { leaves = 2, spines = 1 }\nnats = { servers = [\"nats://h\"] }\n",
        read: |text| MonitorFile::parse(none(), text),
    };
    let [defaults, ranges, examples] = monitor.check();
    assert!(
        defaults >= 14 && ranges >= 4 && examples >= 28,
        "{defaults} {ranges} {examples}"
    );
}

/// Goal: every example has the form that its key wants, and every key says what it means.
#[test]
fn examples_have_the_form_of_their_keys() {
    for file in File::ALL {
        for (path, schema) in keys(file) {
            let name = format!("{}: {}", file.word(), path.join("."));
            let about = schema.get("description").and_then(Value::as_str);
            assert!(
                about.is_some_and(|about| about.ends_with('.')),
                "{name}: {about:?}"
            );
            let Some(example) = schema.get("x-example") else {
                panic!("{name} has no example");
            };
            let text = super::page::toml_of(example);
            let table: Result<Table, _> = toml::from_str(&format!("key = {text}"));
            let table = table.unwrap_or_else(|error| panic!("{name}: {text}: {error}"));
            let refused = |error: toml::de::Error| panic!("{name} = {text}: {error}");
            form(&table["key"], schema.get("x-type").and_then(Value::as_str))
                .unwrap_or_else(refused);
        }
    }
}

/// Whether a value has the form of its type.
fn form(value: &toml::Value, kind: Option<&str>) -> Result<(), toml::de::Error> {
    let value = value.clone();
    match kind {
        Some("rate") => value.try_into::<Rate>().map(drop),
        Some("time") => value.try_into::<Time>().map(drop),
        Some("size") => value.try_into::<Bytes>().map(drop),
        Some("list of faults") => value.try_into::<crate::FaultList>().map(drop),
        Some("list of links") => value.try_into::<crate::LinkList>().map(drop),
        _ => Ok(()),
    }
}
