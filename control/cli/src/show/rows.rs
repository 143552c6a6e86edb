//! Rows of a running switch or testbed as an aligned table: numbers to the right, everything else to the
//! left, with units; on a terminal, and unless `NO_COLOR` says otherwise (no-color.org), states have colours.

use std::io::IsTerminal;

use serde_json::{Map, Value};

use crate::number::{grouped, percent, significant};

/// What a column's numbers count, by its name.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Bytes,
    Rate,
    Milliseconds,
    Seconds,
    Packets,
    Plain,
}

impl Unit {
    fn of(name: &str) -> Unit {
        if name.contains("bytes") || name.ends_with("octets") {
            Unit::Bytes
        } else if name.ends_with("_rate") || name.ends_with("_share") || name == "ci95" {
            Unit::Rate
        } else if name.contains("_ms") {
            Unit::Milliseconds
        } else if name.ends_with("_s") {
            Unit::Seconds
        } else if name == "qpn" || name == "lcore" || name == "epoch" {
            Unit::Plain
        } else {
            Unit::Packets
        }
    }

    fn show(self, number: &serde_json::Number) -> String {
        let float = number.as_f64().unwrap_or_default();
        match (self, number.as_u64()) {
            (Unit::Bytes, Some(bytes)) => size(bytes),
            (Unit::Rate, _) => percent(float),
            (Unit::Milliseconds, Some(ms)) => format!("{} ms", grouped(ms)),
            (Unit::Seconds, Some(s)) => format!("{} s", grouped(s)),
            (Unit::Packets, Some(count)) => grouped(count),
            // The probability of chance: how small is what it says.
            _ if number.is_f64() && float > 0.0 && float < 0.001 => format!("{float:.1e}"),
            _ if number.is_f64() => significant(float),
            _ => number.to_string(),
        }
    }
}

/// Bytes in the largest decimal unit, to three digits.
fn size(bytes: u64) -> String {
    for (unit, name) in [(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")] {
        if bytes >= unit {
            return format!("{} {name}", significant(bytes as f64 / unit as f64));
        }
    }
    format!("{bytes} B")
}

/// Whether standard output is to have colours.
pub(crate) fn is_coloured() -> bool {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    std::io::stdout().is_terminal() && !refused
}

/// The colour of a word: good, not good, bad.
fn colour(word: &str) -> Option<&'static str> {
    match word {
        "up" | "on" | "healthy" | "learned" => Some("32"),
        "suspect" | "abstained" | "void" | "asked" | "off" => Some("33"),
        "down" | "failed" | "convicted" => Some("31"),
        _ => None,
    }
}

/// The table with a line of headings; columns in the order in which rows name them.
pub(crate) fn render(rows: &[Map<String, Value>], is_coloured: bool) -> String {
    let mut columns: Vec<&str> = Vec::new();
    for row in rows {
        for name in row.keys() {
            if !columns.contains(&name.as_str()) {
                columns.push(name);
            }
        }
    }
    if columns.is_empty() {
        return "nothing to show\n".to_owned();
    }
    let is_number = |name: &&str| {
        let mut values = rows.iter().filter_map(|row| row.get(*name));
        values.all(|v| v.is_number() || v.is_null())
    };
    let right: Vec<bool> = columns.iter().map(is_number).collect();
    // Numbers say their unit themselves.
    let heading = |name: &&str| {
        let plain = name.trim_end_matches("_ms").trim_end_matches("_s");
        plain.to_owned()
    };
    let mut lines = vec![columns.iter().map(heading).collect::<Vec<String>>()];
    let cells = |row: &Map<String, Value>| {
        let cell = |name: &&str| row.get(*name).map(|value| cell(value, Unit::of(name)));
        columns
            .iter()
            .map(|name| cell(name).unwrap_or_default())
            .collect()
    };
    lines.extend(rows.iter().map(cells));
    let width = |column: usize| lines.iter().map(|line| line[column].chars().count()).max();
    let widths: Vec<usize> = (0..columns.len()).map(|c| width(c).unwrap_or(0)).collect();
    let mut text = String::new();
    for (number, line) in lines.iter().enumerate() {
        let last = line.iter().rposition(|cell| !cell.is_empty()).unwrap_or(0);
        for (column, cell) in line.iter().enumerate().take(last + 1) {
            let pad = widths[column] - cell.chars().count();
            let (before, after) = if right[column] { (pad, 0) } else { (0, pad) };
            let code = match number {
                0 => Some("1"),
                _ => colour(cell.split('(').next().unwrap_or(cell)),
            };
            text.push_str(&" ".repeat(before));
            match code.filter(|_| is_coloured) {
                Some(code) => text.push_str(&format!("\x1b[{code}m{cell}\x1b[0m")),
                None => text.push_str(cell),
            }
            if column < last {
                text.push_str(&" ".repeat(after + 2));
            }
        }
        text.push('\n');
    }
    text
}

fn cell(value: &Value, unit: Unit) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => plain(text),
        Value::Number(number) => unit.show(number),
        // Eight queues with the unit of each would not fit.
        Value::Array(items) if unit != Unit::Rate => {
            let items = items.iter().map(|item| cell(item, Unit::Plain));
            items.collect::<Vec<_>>().join(",")
        }
        Value::Array(items) => {
            let items = items.iter().map(|item| cell(item, unit));
            items.collect::<Vec<_>>().join(" to ")
        }
        // A state with its reason: void(link-changed).
        Value::Object(object) => {
            let parts = object.iter();
            let parts =
                parts.map(|(name, value)| format!("{}({})", plain(name), cell(value, unit)));
            parts.collect::<Vec<_>>().join(" ")
        }
        Value::Bool(_) => value.to_string(),
    }
}

/// Without control characters: what a socket says must not steer a terminal.
fn plain(text: &str) -> String {
    text.chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect()
}

#[cfg(test)]
mod tests;
