//! What `spraycheck show` can ask for, as rows of named values.

use std::sync::atomic::Ordering;

use detector::{LeafId, PathState, SpineId};
use pipeline::{DropReason, Note};
use serde_json::{Value, json};

use crate::control::State;
use crate::core::Verdict;
use crate::published::{Measured, Published, sum_counters, sum_ports};

/// All that can be asked for.
pub const WHAT: &[&str] = &[
    "ports",
    "queues",
    "spines",
    "flows",
    "tests",
    "links",
    "drops",
    "neighbors",
    "lcores",
    "captures",
    "version",
    "measured",
];
/// Rows of lists that grow: the latest ones are shown.
const ROWS_MAX: usize = 256;

/// The rows of `what`; `None` if there is no such thing. Neighbours are asked for elsewhere
/// ([`crate::neighbors`]).
pub fn rows(state: &mut State, what: &str) -> Option<Vec<Value>> {
    Some(match what {
        "ports" => ports(state),
        "queues" => queues(state),
        "spines" => spines(state),
        "flows" => flows(state),
        "measured" => measured(state),
        "tests" => tests(state),
        "links" => links(state),
        "drops" => drops(state),
        "lcores" => lcores(state),
        "captures" => captures(state),
        "version" => state
            .config
            .versions
            .iter()
            .map(|(part, version)| json!({ "part": part, "version": version }))
            .collect(),
        _ => return None,
    })
}

/// Calls `row` for every port with its switch's and its own name.
fn each_port(
    state: &State,
    row: impl Fn(&str, &str, &crate::published::PortSnapshot) -> Value,
) -> Vec<Value> {
    let switches = state.config.switches.iter().zip(state.shared.switches());
    switches
        .flat_map(|((switch, names), parts)| {
            let ports = sum_ports(parts);
            let rows: Vec<Value> = names
                .iter()
                .zip(&ports)
                .map(|(name, port)| row(switch, name, port))
                .collect();
            rows
        })
        .collect()
}

fn ports(state: &State) -> Vec<Value> {
    each_port(state, |switch, name, port| {
        json!({
            "switch": switch, "port": name, "oper_status": if port.is_up { "up" } else { "down" },
            "in_pkts": port.counters.rx_packets, "in_octets": port.counters.rx_bytes,
            "out_pkts": port.counters.tx_packets, "out_octets": port.counters.tx_bytes,
            "out_discards": port.counters.tail_drops.iter().sum::<u64>() + port.counters.flushed,
        })
    })
}

fn queues(state: &State) -> Vec<Value> {
    each_port(state, |switch, name, port| {
        json!({
            "switch": switch, "port": name, "queue_bytes": port.backlog_bytes,
            "max_queue_bytes": port.counters.backlog_bytes_max, "queue_bytes_by_priority": port.queue_bytes,
            "tail_drops_by_priority": port.counters.tail_drops,
            "unserved_ms_by_priority": port.unserved_ns.map(|ns| ns / 1_000_000), "starved_by_priority": port.counters.starved,
        })
    })
}

/// Marked packets by leaf and spine over the judged windows that are kept: what a glance compares.
fn spines(state: &State) -> Vec<Value> {
    let mut sums = std::collections::BTreeMap::<_, (u64, u64)>::new();
    for verdict in state.core.verdicts() {
        let window = &verdict.window;
        let Some(sent) = &window.sent else { continue };
        for ((spine, &sent), &counted) in window.usable.iter().zip(sent).zip(&window.counts) {
            let sum = sums.entry((window.dst, *spine)).or_default();
            sum.0 += sent;
            sum.1 += counted;
        }
    }
    sums.into_iter()
        .map(|((dst, spine), (sent, counted))| {
            json!({ "to": dst, "via": spine, "marked_sent": sent, "marked_received": counted,
                    "missing": sent.saturating_sub(counted),
                    "below_threshold_from": below(state, dst, spine) })
        })
        .collect()
}

/// Source leaves whose path over `spine` to `dst` the data plane holds for failed.
fn below(state: &State, dst: LeafId, spine: SpineId) -> Vec<String> {
    let failed = state.failed_paths.iter().filter(|&&(switch, _, over)| {
        over == usize::from(spine.0) && state.config.subject.leaf(switch) == Some(dst)
    });
    failed
        .map(|(_, source, _)| format!("leaf{source}"))
        .collect()
}

fn latest<T>(all: &[T]) -> &[T] {
    &all[all.len().saturating_sub(ROWS_MAX)..]
}

/// The latest windows, each with the number it has since the start, and what it said of its paths.
fn flows(state: &State) -> Vec<Value> {
    let verdicts = latest(state.core.verdicts());
    let ended = state.core.counters().forgotten + state.core.verdicts().len() as u64;
    let first = ended - verdicts.len() as u64;
    let of_state = |verdict: &Verdict, is: fn(&PathState) -> bool| -> Vec<SpineId> {
        let tests = verdict.tests.iter().filter(|test| is(&test.state));
        tests.map(|test| test.path.spine).collect()
    };
    (first + 1..)
        .zip(verdicts)
        .map(|(number, verdict)| {
            let window = &verdict.window;
            json!({
                "number": number,
                "src": window.src, "dst": window.dst, "qpn": window.qpn, "epoch": window.epoch,
                "announced": window.announced, "marked": window.marked,
                "received": window.counts.iter().sum::<u64>(), "k": window.usable.len(), "reason": window.end,
                "healthy": of_state(verdict, |state| *state == PathState::Healthy).len(),
                "failed": of_state(verdict, |state| *state == PathState::Failed),
                "void": of_state(verdict, |state| matches!(state, PathState::Void(_))),
                "at_ms": window.closed_ns.0 / 1_000_000,
            })
        })
        .collect()
}

/// The window that each leaf began last to count, spine by spine.
fn measured(state: &State) -> Vec<Value> {
    let switches = state.config.switches.iter().zip(state.shared.switches());
    switches
        .flat_map(|((switch, _), parts)| {
            let windows: Vec<Measured> = parts.iter().filter_map(Published::measured).collect();
            windows
                .into_iter()
                .flat_map(|window| spines_of(switch, &window))
                .collect::<Vec<_>>()
        })
        .collect()
}

fn spines_of(switch: &str, window: &Measured) -> Vec<Value> {
    let total: u64 = window.counts.iter().sum();
    // Until an open has come, nobody knows which spines are used: those that have brought a packet.
    let is_known = !window.usable.is_empty();
    let is_used = |spine: usize, count: u64| match is_known {
        true => window.usable.has(spine),
        false => count > 0,
    };
    let expected = (is_known && window.packets > 0)
        .then(|| window.packets as f64 / window.usable.len() as f64);
    let counts = window.counts.iter().enumerate();
    counts
        .filter(|&(spine, &count)| is_used(spine, count))
        .map(|(spine, count)| {
            json!({
                "switch": switch, "src": format!("leaf{}", window.source.0), "epoch": window.epoch,
                "state": if window.is_open { "open" } else { "ended" }, "announced": window.packets,
                "counted_in_all": total, "via": format!("spine{spine}"), "counted": count,
                "expected": expected, "threshold": window.threshold,
                "void": window.disturbed.has(spine),
            })
        })
        .collect()
}

fn tests(state: &State) -> Vec<Value> {
    let tests: Vec<_> = latest(state.core.verdicts())
        .iter()
        .flat_map(|verdict| &verdict.tests)
        .collect();
    latest(&tests)
        .iter()
        .map(|test| {
            json!({
                "src": test.path.src, "via": test.path.spine, "dst": test.path.dst, "expected": test.expected,
                "received": test.observed, "lost": test.lost, "threshold": test.threshold, "p_value": test.p_value,
                "state": test.state, "min_detectable_rate": test.min_detectable_rate,
            })
        })
        .collect()
}

fn links(state: &mut State) -> Vec<Value> {
    let found = state.core.locate();
    let convicted = found.convicted.iter().map(|c| {
        json!({ "link": c.link, "state": "convicted", "drop_rate": c.drop_rate, "ci95": c.ci95, "paths": c.paths,
                "packets": c.packets, "missing": null })
    });
    let suspects = found.suspects.iter().map(|s| {
        json!({ "link": s.link, "state": "suspect", "drop_rate": s.drop_rate, "ci95": null, "paths": 1,
                "packets": s.packets, "missing": s.missing })
    });
    convicted.chain(suspects).collect()
}

fn drops(state: &State) -> Vec<Value> {
    let devices = state.shared.devices.read().into_iter();
    let devices = devices
        .filter(|&(_, _, packets)| packets > 0)
        .map(|(device, counter, packets)| {
            json!({ "switch": device, "kind": "device", "reason": counter, "packets": packets })
        });
    let missed = Some(state.captures.missed()).filter(|&missed| missed > 0);
    let missed = missed.map(|packets| {
        json!({ "switch": "captures", "kind": "capture", "reason": "capture-missed", "packets": packets })
    });
    of_switches(state)
        .into_iter()
        .chain(devices)
        .chain(missed)
        .collect()
}

/// The captures that run.
fn captures(state: &State) -> Vec<Value> {
    let running = state.captures.running.iter().flatten();
    running
        .map(|one| {
            json!({ "filter": one.what, "interfaces": one.tap.counts().len(), "snaplen": one.tap.snaplen(),
                    "captured": one.captured, "missed": one.tap.missed() })
        })
        .collect()
}

fn of_switches(state: &State) -> Vec<Value> {
    let switches = state.config.switches.iter().zip(state.shared.switches());
    switches
        .flat_map(|((switch, _), parts)| {
            let counters = sum_counters(parts);
            let drops = DropReason::ALL.iter().map(|&reason| ("drop", reason.name(), counters.dropped(reason)));
            let notes = Note::ALL.iter().map(|&note| ("note", note.name(), counters.noted(note)));
            let rows: Vec<Value> = drops
                .chain(notes)
                .filter(|&(_, _, packets)| packets > 0)
                .map(|(kind, name, packets)| json!({ "switch": switch, "kind": kind, "reason": name, "packets": packets }))
                .collect();
            rows
        })
        .collect()
}

fn lcores(state: &State) -> Vec<Value> {
    let shared = &state.shared;
    let of = |lcore: usize, rounds: u64, busy: u64| {
        json!({
            "lcore": lcore + 1, "switches": state.config.switches.len(), "rounds": rounds, "busy_rounds": busy,
            "busy_share": if rounds == 0 { 0.0 } else { busy as f64 / rounds as f64 },
            "time_ms": shared.status.now_ns.load(Ordering::Relaxed) / 1_000_000,
            "reports_waiting": shared.seam.reports.len(), "commands_refused": state.commands_refused,
        })
    };
    // A loop that has the process for itself counts as the process.
    let own = [&*shared.status];
    let several = shared.lcores.iter();
    let statuses: Vec<_> = if shared.lcores.len() > 1 {
        several.collect()
    } else {
        own.to_vec()
    };
    let rows = statuses.iter().enumerate().map(|(lcore, status)| {
        let rounds = status.rounds.load(Ordering::Relaxed);
        of(lcore, rounds, status.busy_rounds.load(Ordering::Relaxed))
    });
    rows.collect()
}
