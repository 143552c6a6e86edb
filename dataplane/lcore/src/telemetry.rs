//! Commands under `/spraycheck/` on DPDK's telemetry socket, beside `/ethdev/stats` and the like.
//!
//! As DPDK's own do, each lists what there is, and tells of one of them with its name behind a comma. Answers
//! are read from published counters on DPDK's thread: no lcore is asked, and none waits. Where
//! names may have letters, digits and `_` only, other characters are `_`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use agent::control::Shared;
use agent::published::{Measured, Published, sum_counters, sum_ports};
use dpdk::Eal;
use dpdk::telemetry::{self, Reply, Value};
use pipeline::{DropReason, Note, Role, SwitchConfig};

use crate::failure::Failure;

/// Texts that DPDK takes in one list (RTE_TEL_MAX_ARRAY_ENTRIES).
const LIST_MAX: usize = 512;

/// A switch, as it is asked for.
#[derive(Clone, Debug)]
pub struct Named {
    /// Its name.
    pub name: String,
    /// Names of its ports.
    pub ports: Vec<String>,
    /// Whether it counts windows.
    pub is_leaf: bool,
}

impl Named {
    /// A switch of such a configuration.
    pub fn of(name: &str, ports: Vec<String>, config: &SwitchConfig) -> Named {
        Named {
            name: name.to_owned(),
            ports,
            is_leaf: matches!(config.role, Role::Leaf(_)),
        }
    }
}

/// What the commands read.
#[derive(Clone)]
pub struct Source {
    /// The switches.
    pub switches: Arc<Vec<Named>>,
    /// Counters, as published.
    pub shared: Shared,
}

/// A command: its name, its help (less than 128 bytes), and what answers.
type Entry = (&'static str, &'static str, fn(&Source, &str) -> Reply);

/// All commands.
pub const COMMANDS: [Entry; 5] = [
    (
        "/spraycheck/ports",
        "Ports as SWITCH.PORT; traffic, losses and queues of one. Parameters: none, a switch, or a port",
        Source::ports,
    ),
    (
        "/spraycheck/drops",
        "Drops and notes by reason, of all switches or of one. Parameters: none, or a switch",
        Source::drops,
    ),
    (
        "/spraycheck/spines",
        "Leaves; marked packets by spine that one counts, and paths below threshold. Parameters: none, or a leaf",
        Source::spines,
    ),
    (
        "/spraycheck/lcores",
        "Lcores by number; rounds and time, busy and idle, of one. Parameters: none, or a number",
        Source::lcores,
    ),
    (
        "/spraycheck/links",
        "Links that are named; state and loss rate of one. Parameters: none, or a link like leaf3>spine5",
        Source::links,
    ),
];

/// Answers them from now on, until EAL ends.
///
/// # Errors
/// When DPDK takes no more commands.
pub fn register(eal: &Eal, switches: Vec<Named>, shared: &Shared) -> Result<(), Failure> {
    let source = Source {
        switches: Arc::new(switches),
        shared: shared.clone(),
    };
    for (command, help, answer) in COMMANDS {
        let source = source.clone();
        telemetry::register(eal, command, help, move |name| answer(&source, name))?;
    }
    Ok(())
}

impl Source {
    /// The index of a switch.
    fn switch(&self, name: &str) -> Option<usize> {
        self.switches.iter().position(|switch| switch.name == name)
    }

    fn parts(&self, switch: usize) -> &[Published] {
        self.shared.switches().nth(switch).unwrap_or_default()
    }

    fn unknown(&self, kind: &str, name: &str) -> Reply {
        let names = self.switches.iter().map(|switch| switch.name.as_str());
        let names: Vec<&str> = names.take(64).collect();
        Reply::Text(format!(
            "no {kind} is called \"{name}\"; the switches are {}",
            names.join(", ")
        ))
    }

    fn ports(&self, name: &str) -> Reply {
        let all = |only: Option<usize>| {
            let switches = self.switches.iter().enumerate();
            let wanted = switches.filter(|(index, _)| only.is_none_or(|only| only == *index));
            let names: Vec<String> = wanted
                .flat_map(|(_, switch)| {
                    let name = &switch.name;
                    switch
                        .ports
                        .iter()
                        .map(move |port| format!("{name}.{port}"))
                })
                .collect();
            match names.len() {
                0..=LIST_MAX => Reply::List(names),
                many => Reply::Text(format!("{many} ports; ask for those of one switch")),
            }
        };
        if name.is_empty() {
            return all(None);
        }
        if let Some(switch) = self.switch(name) {
            return all(Some(switch));
        }
        // Names of switches may have dots, those of ports do not.
        let found = name.rsplit_once('.').and_then(|(switch, port)| {
            let switch = self.switch(switch)?;
            let port = self.switches[switch]
                .ports
                .iter()
                .position(|own| own == port)?;
            sum_ports(self.parts(switch)).into_iter().nth(port)
        });
        let Some(port) = found else {
            return self.unknown("port or switch", name);
        };
        let counters = port.counters;
        let mut dict = Dict::default();
        dict.text("oper_status", if port.is_up { "up" } else { "down" });
        dict.number("in_pkts", counters.rx_packets);
        dict.number("in_octets", counters.rx_bytes);
        dict.number("out_pkts", counters.tx_packets);
        dict.number("out_octets", counters.tx_bytes);
        let tail_drops: u64 = counters.tail_drops.iter().sum();
        dict.number("out_discards", tail_drops + counters.flushed);
        dict.number("queue_bytes", port.backlog_bytes);
        dict.number("max_queue_bytes", counters.backlog_bytes_max);
        for (queue, bytes) in port.queue_bytes.iter().enumerate() {
            dict.number(&format!("queue{queue}_bytes"), *bytes);
            dict.number(
                &format!("queue{queue}_dropped_pkts"),
                counters.tail_drops[queue],
            );
        }
        dict.reply()
    }

    fn drops(&self, name: &str) -> Reply {
        let counters = if name.is_empty() {
            sum_counters(&self.shared.published)
        } else {
            match self.switch(name) {
                Some(switch) => sum_counters(self.parts(switch)),
                None => return self.unknown("switch", name),
            }
        };
        let mut dict = Dict::default();
        for reason in DropReason::ALL {
            dict.number(
                &format!("drop_{}", reason.name()),
                counters.dropped(*reason),
            );
        }
        for note in Note::ALL {
            dict.number(&format!("note_{}", note.name()), counters.noted(*note));
        }
        dict.reply()
    }

    fn spines(&self, name: &str) -> Reply {
        if name.is_empty() {
            // A spine counts no windows and holds no path for failed.
            let leaves = self.switches.iter().filter(|switch| switch.is_leaf);
            let names = leaves.map(|leaf| leaf.name.clone());
            return Reply::List(names.take(LIST_MAX).collect());
        }
        let leaf = self.switch(name);
        let Some(leaf) = leaf.filter(|&leaf| self.switches[leaf].is_leaf) else {
            return self.unknown("leaf", name);
        };
        let parts = self.parts(leaf);
        let mut dict = Dict::default();
        let windows = parts.iter().filter_map(Published::measured);
        // Each lcore has its own: the one that runs.
        match windows.max_by_key(|window| (window.is_open, window.epoch)) {
            Some(window) => window_in(&mut dict, &window),
            None => dict.text("state", "none"),
        }
        for part in parts {
            for (source, spines) in part.failed_paths().into_iter().enumerate() {
                for spine in spines.iter() {
                    dict.text(&format!("below/leaf{source}/spine{spine}"), "failed");
                }
            }
        }
        dict.reply()
    }

    fn lcores(&self, name: &str) -> Reply {
        let lcores = &self.shared.lcores;
        if name.is_empty() {
            return Reply::List((1..=lcores.len()).map(|lcore| lcore.to_string()).collect());
        }
        let index = name.parse().ok().and_then(|n: usize| n.checked_sub(1));
        let Some(status) = index.and_then(|index| lcores.get(index)) else {
            return Reply::Text(format!(
                "no lcore \"{name}\"; they are 1 to {}",
                lcores.len()
            ));
        };
        // A loop that has the process for itself counts as the process.
        let status = match lcores.len() {
            1 => &*self.shared.status,
            _ => status,
        };
        let mut dict = Dict::default();
        for (key, value) in [
            ("rounds", &status.rounds),
            ("busy_rounds", &status.busy_rounds),
            ("busy_ns", &status.busy_ns),
            ("idle_ns", &status.idle_ns),
            ("now_ns", &status.now_ns),
        ] {
            dict.number(key, value.load(Ordering::Relaxed));
        }
        dict.reply()
    }

    fn links(&self, name: &str) -> Reply {
        let named = self.shared.findings.get().links;
        if name.is_empty() {
            let names = named.into_iter().map(|(link, _, _)| link);
            return Reply::List(names.take(LIST_MAX).collect());
        }
        match named.iter().find(|(link, _, _)| link == name) {
            Some((_, state, rate)) => {
                let mut dict = Dict::default();
                dict.text("state", state);
                dict.text("drop_rate", &format!("{rate:.6}"));
                dict.reply()
            }
            None => Reply::Text(format!("the evidence does not name the link \"{name}\"")),
        }
    }
}

fn window_in(dict: &mut Dict, window: &Measured) {
    dict.text("state", if window.is_open { "open" } else { "ended" });
    dict.text("source", &format!("leaf{}", window.source.0));
    dict.number("epoch", window.epoch.into());
    dict.number("packets", window.packets);
    dict.number("usable", window.usable.len() as u64);
    if let Some(threshold) = window.threshold {
        dict.number("threshold", threshold.into());
    }
    for (spine, count) in window.counts.iter().enumerate() {
        if window.usable.is_empty() || window.usable.has(spine) {
            dict.number(&format!("spine{spine}"), *count);
        }
    }
}

/// Named values as DPDK takes them.
#[derive(Default)]
struct Dict(Vec<(String, Value)>);

/// Entries that DPDK takes (RTE_TEL_MAX_DICT_ENTRIES).
const DICT_MAX: usize = 256;

impl Dict {
    fn number(&mut self, name: &str, value: u64) {
        self.add(name, Value::Number(value));
    }

    fn text(&mut self, name: &str, value: &str) {
        self.add(name, Value::Text(value.to_owned()));
    }

    fn add(&mut self, name: &str, value: Value) {
        // More paths than that below their threshold is one finding, and not so many.
        if self.0.len() < DICT_MAX {
            let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '/';
            let name = name
                .chars()
                .map(|c| if is_fine(c) { c } else { '_' })
                .collect();
            self.0.push((name, value));
        }
    }

    fn reply(self) -> Reply {
        Reply::Dict(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use agent::metrics::Found;

    fn source() -> Source {
        let shared = Shared::new([2, 1]);
        shared.findings.set(Found {
            links: vec![("leaf3>spine5".into(), "convicted", 0.0101)],
            ..Found::default()
        });
        let named = |name: &str, ports: &[&str], is_leaf| Named {
            name: name.into(),
            ports: ports.iter().map(|port| (*port).into()).collect(),
            is_leaf,
        };
        Source {
            switches: Arc::new(vec![
                named("lab.leaf0", &["host0", "up0"], true),
                named("lab.spine0", &["down0"], false),
            ]),
            shared,
        }
    }

    fn ask(command: &str, name: &str) -> Reply {
        let found = COMMANDS.iter().find(|(own, _, _)| *own == command);
        let (_, _, answer) = found.expect("a command");
        answer(&source(), name)
    }

    fn list(texts: &[&str]) -> Reply {
        Reply::List(texts.iter().map(|text| (*text).to_owned()).collect())
    }

    /// Goal: each command lists what there is.
    #[test]
    fn commands_list_what_there_is() {
        let all = list(&["lab.leaf0.host0", "lab.leaf0.up0", "lab.spine0.down0"]);
        assert_eq!(ask("/spraycheck/ports", ""), all);
        assert_eq!(
            ask("/spraycheck/ports", "lab.spine0"),
            list(&["lab.spine0.down0"])
        );
        assert_eq!(ask("/spraycheck/spines", ""), list(&["lab.leaf0"]));
        assert_eq!(ask("/spraycheck/lcores", ""), list(&["1"]));
        assert_eq!(ask("/spraycheck/links", ""), list(&["leaf3>spine5"]));
    }

    /// Goal: one of them is told with values whose names DPDK takes; what is not there is said.
    #[test]
    fn commands_tell_of_one() {
        for (command, name, key) in [
            ("/spraycheck/ports", "lab.leaf0.up0", "out_discards"),
            ("/spraycheck/drops", "", "drop_tail_drop"),
            ("/spraycheck/drops", "lab.leaf0", "drop_no_route"),
            ("/spraycheck/spines", "lab.leaf0", "state"),
            ("/spraycheck/lcores", "1", "busy_ns"),
            ("/spraycheck/links", "leaf3>spine5", "drop_rate"),
        ] {
            let Reply::Dict(entries) = ask(command, name) else {
                panic!("{command},{name} is no dict");
            };
            assert!(
                entries.iter().any(|(own, _)| own == key),
                "{command},{name}: {entries:?}"
            );
            let is_fine = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '/';
            assert!(entries.iter().all(|(name, _)| name.chars().all(is_fine)));
            assert!(entries.len() <= DICT_MAX);
        }
        for (command, name) in [
            ("/spraycheck/ports", "lab.leaf0.up9"),
            ("/spraycheck/drops", "weather"),
            ("/spraycheck/spines", "lab.spine0"),
            ("/spraycheck/lcores", "0"),
            ("/spraycheck/links", "leaf0>spine0"),
        ] {
            assert!(
                matches!(ask(command, name), Reply::Text(_)),
                "{command},{name}"
            );
        }
    }

    /// Goal: DPDK takes names and helps of all commands.
    #[test]
    fn commands_are_short_enough() {
        for (command, help, _) in COMMANDS {
            assert!(command.len() < 56 && help.len() < 128, "{command}");
        }
    }
}
