//! The paper's evaluation again, as Markdown, from the result files of experiments.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use fabric::experiment::{EXPERIMENTS, Experiment};
use serde_json::{Map, Value};

use crate::args::SimArgs;
use crate::failure::{Failure, USAGE};
use crate::{number, output};

const HEAD: &str = "\
# Reproduction

The evaluation of the SprayCheck paper (arXiv 2605.03702), repeated in the simulator. Written by
`scripts/reproduce`, which runs every experiment of `spraycheck sim list` and then
`spraycheck sim report` on the folder of their results. Rates are of paths (of runs, where whole runs
are right or wrong), with exact (Clopper-Pearson) 95 % intervals, at the sensitivity s that other seeds
have fixed beforehand. `load` is the rate of a leaf's hosts over that of its uplinks. A row holds, or
does not, at its load and spraying alone: what is claimed of JSQ(2) with a coin for ties needs uplinks
that queue (a load near 1, and not 1/k), or source counts. [How to read it](simulator.md#experiments).

## Claims

";
/// Keys of a row that are no setting.
const RESULTS: [&str; 13] = [
    "trials",
    "fpr",
    "fpr_ci95",
    "fnr",
    "fnr_ci95",
    "paths",
    "s",
    "noise",
    "behind_max",
    "value",
    "claimed",
    "measured",
    "holds",
];

type Row = Map<String, Value>;

pub(super) fn run(args: &SimArgs) -> Result<ExitCode, Failure> {
    let [folder] = &args.files[..] else {
        let why = "report needs the folder with the experiments' JSON files";
        return Err(Failure::new(USAGE, why));
    };
    let mut sections = String::new();
    let mut claims =
        String::from("| experiment | claims | way | rows that hold |\n|---|---|---|---|\n");
    let mut found = 0;
    for experiment in EXPERIMENTS {
        let path = folder.join(format!("{}.json", experiment.name));
        let Some(answer) = read(&path)? else {
            continue;
        };
        found += 1;
        let rows: Vec<&Row> = answer["rows"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_object)
            .collect();
        claims.push_str(&summary(experiment, &rows));
        sections.push_str(&section(experiment, &answer, &rows));
        if folder.join(format!("{}.svg", experiment.name)).exists() {
            let name = experiment.name;
            sections.push_str(&format!("\n![{name}](reproduction/{name}.svg)\n"));
        }
    }
    if found == 0 {
        let why = format!(
            "{}: no file of an experiment, such as noise.json",
            folder.display()
        );
        return Err(Failure::new(USAGE, why));
    }
    output::print(&format!("{HEAD}{claims}{sections}"))?;
    Ok(ExitCode::SUCCESS)
}

/// The answer in a file; `None` if there is no such file.
fn read(path: &Path) -> Result<Option<Value>, Failure> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let why = format!("cannot read {}: {error}", path.display());
            return Err(Failure::new(USAGE, why));
        }
    };
    let wrong = |why: String| Failure::new(USAGE, format!("{}: {why}", path.display()));
    let answer: Value = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
    match answer["rows"] {
        Value::Array(_) => Ok(Some(answer)),
        _ => Err(wrong(
            "no answer of an experiment; shards need merge first".to_owned(),
        )),
    }
}

/// How a row sprays and judges.
fn way(row: &Row) -> String {
    let keys = ["by", "spray", "tie", "evidence", "priority"];
    let words = keys.iter().filter_map(|key| row.get(*key)?.as_str());
    words.collect::<Vec<_>>().join(", ")
}

fn summary(experiment: &Experiment, rows: &[&Row]) -> String {
    let mut ways: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for row in rows {
        let (holding, all) = ways.entry(way(row)).or_default();
        *holding += usize::from(row.get("holds") == Some(&Value::Bool(true)));
        *all += 1;
    }
    let line = |(way, (holding, all)): (&String, &(usize, usize))| {
        format!(
            "| [{0}](#{0}) | {1} | {way} | {holding} of {all} |\n",
            experiment.name, experiment.claims
        )
    };
    ways.iter().map(line).collect()
}

fn section(experiment: &Experiment, answer: &Value, rows: &[&Row]) -> String {
    let is_quick = answer["quick"].as_bool() == Some(true);
    let seeds = answer["seeds"].as_array().map_or(0, Vec::len);
    let mut text = format!(
        "\n## {}\n\n{} ({}). Up to {seeds} seeds{}, {} packet hops.{}\n\n",
        experiment.name,
        experiment.about,
        experiment.claims,
        if is_quick { ", `--quick`" } else { "" },
        number::grouped(answer["packet_hops"].as_u64().unwrap_or(0)),
        if answer["partial"].as_bool() == Some(true) {
            " Partial."
        } else {
            ""
        },
    );
    // A setting that all rows share is said once.
    let mut keys: Vec<&String> = Vec::new();
    for key in rows.iter().flat_map(|row| row.keys()) {
        if !RESULTS.contains(&key.as_str()) && !keys.contains(&key) {
            keys.push(key);
        }
    }
    let of = |row: &Row, key: &str| plain(row.get(key).unwrap_or(&Value::Null));
    let (same, varied): (Vec<&String>, Vec<&String>) = keys
        .into_iter()
        .partition(|key| rows.iter().all(|row| row.get(*key) == rows[0].get(*key)));
    if !same.is_empty() {
        let said = same.iter().map(|key| format!("{key} {}", of(rows[0], key)));
        text.push_str(&format!(
            "All rows: {}.\n\n",
            said.collect::<Vec<_>>().join(", ")
        ));
    }
    let mut head: Vec<&str> = varied.iter().map(|key| key.as_str()).collect();
    head.extend(["trials", "FPR", "FNR", "claimed", "measured", "holds"]);
    text.push_str(&format!(
        "| {} |\n|{}\n",
        head.join(" | "),
        "---|".repeat(head.len())
    ));
    for row in rows {
        let mut cells: Vec<String> = varied.iter().map(|key| of(row, key)).collect();
        cells.push(of(row, "trials"));
        cells.push(rate(row, "fpr", 0));
        cells.push(rate(row, "fnr", 1));
        cells.push(of(row, "claimed"));
        cells.push(of(row, "measured"));
        let holds = row.get("holds") == Some(&Value::Bool(true));
        cells.push(if holds { "yes" } else { "**no**" }.to_owned());
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

/// A rate with its interval, if anything was counted for it.
fn rate(row: &Row, key: &str, kind: usize) -> String {
    let counted = row.get("paths").and_then(|paths| paths[kind].as_u64());
    let interval = row.get(&format!("{key}_ci95"));
    let ends = interval.map(|ends| [ends[0].as_f64(), ends[1].as_f64()]);
    match (counted, row.get(key).and_then(Value::as_f64), ends) {
        (Some(1..), Some(rate), Some([Some(low), Some(high)])) => format!(
            "{} ({}..{})",
            number::percent(rate),
            number::percent(low),
            number::percent(high)
        ),
        _ => String::new(),
    }
}

fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.replace('|', "/"),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => number::significant(float),
            _ => number.to_string(),
        },
        other => other.to_string(),
    }
}
