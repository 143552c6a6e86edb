//! The keys of a switch's file one by one: what differs between two, and what of it can change while
//! the switch runs.

use std::collections::BTreeMap;

use toml::{Table, Value};

use crate::switch_file::SwitchSpec;

/// A key, what it was and what it is to be.
pub(super) type Difference = (String, String, String);

/// How a key that is not there reads.
const UNSET: &str = "unset";

/// All keys with their values. Routes and hosts are named by their addresses, for their order says
/// nothing.
pub(super) fn flat(document: &Table) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    for (name, value) in document {
        match (name.as_str(), value) {
            ("route", Value::Array(routes)) => {
                for route in routes {
                    let to = route.get("leaf").or(route.get("spine"));
                    let key = format!("route {}", text(route.get("prefix")));
                    all.insert(key, text(to));
                }
            }
            ("port" | "device", Value::Array(parts)) => {
                for (index, part) in parts.iter().enumerate() {
                    if let Some(part) = part.as_table() {
                        add_part(&mut all, &format!("{name}[{index}]"), part);
                    }
                }
            }
            (_, Value::Table(part)) => add_part(&mut all, name, part),
            (_, value) => {
                all.insert(name.clone(), text(Some(value)));
            }
        }
    }
    all
}

fn add_part(all: &mut BTreeMap<String, String>, prefix: &str, part: &Table) {
    for (name, value) in part {
        match (name.as_str(), value) {
            ("hosts", Value::Array(hosts)) => {
                for host in hosts {
                    let key = format!("{prefix}.hosts {}", text(host.get("address")));
                    let mac = host
                        .get("mac")
                        .map_or("learned".to_owned(), |mac| text(Some(mac)));
                    all.insert(key, mac);
                }
            }
            (_, Value::Table(inner)) => add_part(all, &format!("{prefix}.{name}"), inner),
            (_, value) => {
                all.insert(format!("{prefix}.{name}"), text(Some(value)));
            }
        }
    }
}

fn text(value: Option<&Value>) -> String {
    match value {
        None => UNSET.to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// The keys whose values differ, in their order.
pub(super) fn differences(
    old: &BTreeMap<String, String>,
    new: &BTreeMap<String, String>,
) -> Vec<Difference> {
    let mut keys: Vec<&String> = old.keys().chain(new.keys()).collect();
    keys.sort();
    keys.dedup();
    let of = |all: &BTreeMap<String, String>, key: &String| {
        all.get(key).cloned().unwrap_or(UNSET.to_owned())
    };
    keys.into_iter()
        .map(|key| (key.clone(), of(old, key), of(new, key)))
        .filter(|(_, old, new)| old != new)
        .collect()
}

/// Whether a key can change while packets flow.
pub(super) fn can_change(key: &str) -> bool {
    let of_port = key
        .strip_prefix("port[")
        .and_then(|rest| rest.split_once("]."));
    match of_port {
        Some((_, rest)) => {
            rest.starts_with("hosts ") || matches!(rest, "hosts" | "prefixes" | "faults")
        }
        None => {
            key.starts_with("route ")
                || key.starts_with("spray.")
                || key.starts_with("gateway.")
                || key.starts_with("measurement.")
                    && !matches!(key, "measurement.protocol" | "measurement.rows")
        }
    }
}

/// A switch without what can change: two that are equal in this can become each other.
pub(super) fn fixed_part(spec: &SwitchSpec) -> SwitchSpec {
    let mut fixed = spec.clone();
    fixed.faults.clear();
    fixed.test = crate::choice::PathTest::Fixed;
    fixed.evidence = crate::choice::Evidence::SourceCounts;
    fixed.judging = crate::switch_file::Judging {
        p0: None,
        alpha: None,
        p_min: None,
    };
    let config = &mut fixed.config;
    config.hosts.clear();
    // A host port's neighbour is its first host, and nothing asks for it.
    for port in &mut config.ports {
        if port.kind == pipeline::PortKind::Host {
            port.peer_mac = packet::MacAddr::default();
        }
    }
    config.routes.clear();
    config.gateway = pipeline::GatewayConfig::default();
    config.policy = pipeline::Policy::Jsq2;
    config.tie = pipeline::Tie::Random;
    let (is_paper, rows_max) = (config.measurement.is_paper, config.measurement.rows_max);
    config.measurement = pipeline::Measurement {
        is_paper,
        mark: pipeline::config::Mark::First,
        window_packets_max: 0,
        window_ns_max: 0,
        idle_ns_max: 0,
        path_delay_ns_max: 0,
        rows_max,
        row_ns_max: 0,
        windows: pipeline::WindowPlan::default(),
    };
    fixed
}
