//! A named experiment: its trials on all threads, or a shard of them; its rows, file and plot.

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use agent::result::DaemonLine;
use config::{TestbedConfig, TestbedRequest};
use fabric::experiment::{Cell, EXPERIMENTS, Experiment, Row, Rows, Settings, Trial, rows, works};
use fabric::sweep;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::scenario::wrong;
use super::watch::{Seen, Watch};
use super::{csv, plot};
use crate::args::SimArgs;
use crate::failure::{Failure, NO, USAGE};
use crate::{daemon, output, table};

/// The JSON of an experiment.
#[derive(Serialize)]
pub(super) struct Answer<'a> {
    experiment: &'a str,
    rows: &'a Rows,
    seeds: Vec<u64>,
    partial: bool,
    quick: bool,
    packet_hops: u64,
    elapsed_s: f64,
    packet_hops_per_s: f64,
}

/// The JSON of a shard: trials, of which `merge` makes rows.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Shard {
    pub(super) experiment: String,
    pub(super) settings: Settings,
    pub(super) shard: [usize; 2],
    /// By number.
    pub(super) trials: Vec<(usize, Trial)>,
    /// Trials of all shards together.
    pub(super) trials_all: usize,
    pub(super) partial: bool,
}

/// What `list` prints.
pub(super) fn list(args: &SimArgs) -> Result<ExitCode, Failure> {
    let row = |experiment: &Experiment| -> Map<String, Value> {
        let cells = [
            ("name", experiment.name),
            ("claims", experiment.claims),
            ("shows", experiment.about),
        ];
        cells
            .map(|(key, value)| (key.to_owned(), json!(value)))
            .into_iter()
            .collect()
    };
    let rows: Vec<_> = EXPERIMENTS.iter().map(row).collect();
    if let Some(path) = &args.json {
        output::write_json(path, &rows)?;
    }
    if !output::is_stdout(args.json.as_deref()) {
        output::print(&table::render(&rows))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn find(name: &str) -> Result<&'static Experiment, Failure> {
    Experiment::of(name).ok_or_else(|| {
        let names = EXPERIMENTS.iter().map(|known| known.name);
        let message = match config::error::nearest(name, names.clone()) {
            Some(meant) => format!("there is no experiment \"{name}\"; did you mean \"{meant}\"?"),
            None => format!(
                "there is no experiment \"{name}\"; there are {}, list, merge and report",
                names.collect::<Vec<_>>().join(", ")
            ),
        };
        Failure::new(USAGE, message)
    })
}

pub(super) fn run(args: &SimArgs, name: &str) -> Result<ExitCode, Failure> {
    let experiment = find(name)?;
    if !args.files.is_empty() {
        return Err(Failure::new(
            USAGE,
            format!("{name} takes no files; merge does"),
        ));
    }
    let settings = settings(args)?;
    let cells = experiment.cells(&settings);
    let works = works(&cells, settings.first_seed);
    let (of, shards) = args.shard.unwrap_or((1, 1));
    let mine: Vec<usize> = (0..works.len()).filter(|n| n % shards == of - 1).collect();
    let watch = Watch::new(mine.len(), None)?;
    let trials = watch.show_while(|| {
        sweep::run_all(args.jobs(), mine.len(), &watch.stop, |index| {
            let work = works[mine[index]];
            let cell = &cells[work.cell];
            let mut seen = Seen::default();
            let trial = match cell.on_data_plane(work).map_err(wrong)? {
                Some(config) => on_data_plane(cell, config)?,
                None => cell
                    .trial(work, &mut |status| watch.look(&mut seen, status))
                    .map_err(wrong)?,
            };
            if let Some(trial) = &trial {
                watch.ended(&seen, trial.hops);
            }
            Ok::<_, Failure>(trial)
        })
    });
    let mut done = Vec::new();
    for (&number, trial) in mine.iter().zip(trials) {
        if let Some(trial) = trial.transpose()?.flatten() {
            done.push((number, trial));
        }
    }
    let partial = done.len() < mine.len() || watch.stop.load(Ordering::Relaxed);
    if args.shard.is_none() {
        let elapsed_s = args.timing.then(|| watch.elapsed().as_secs_f64());
        return tell(
            args, experiment, &cells, &settings, &done, partial, elapsed_s,
        );
    }
    let Some(path) = &args.json else {
        let why = "--shard: the shard's trials go to a file for merge; name it by --json";
        return Err(Failure::new(USAGE, why));
    };
    let shard = Shard {
        experiment: name.to_owned(),
        settings,
        shard: [of, shards],
        trials: done,
        trials_all: works.len(),
        partial,
    };
    output::write_json(path, &shard)?;
    Ok(ExitCode::from(if partial { NO } else { 0 }))
}

/// A trial that the data plane makes.
fn on_data_plane(cell: &Cell, config: TestbedConfig) -> Result<Option<Trial>, Failure> {
    let request = TestbedRequest {
        config,
        eal: Vec::new(),
    };
    match daemon::run_quietly("testbed", &request)? {
        DaemonLine::Result(result) => Ok(cell.read(&result)),
        _ => Err(Failure::new(NO, daemon::NO_RESULT)),
    }
}

fn settings(args: &SimArgs) -> Result<Settings, Failure> {
    let wrong = |why: String| Err(Failure::new(USAGE, why));
    if let Some(k) = args
        .spines
        .iter()
        .find(|k| !(2..=128).contains(*k) || *k % 2 == 1)
    {
        return wrong(format!(
            "--spines: {k} is no even number from 2 to 128, as experiments need"
        ));
    }
    if let Some(p) = args.drops.iter().find(|p| !(0.0..1.0).contains(*p)) {
        return wrong(format!(
            "--drops: {p} is no loss rate; choose 0 to below 1, like 0.005"
        ));
    }
    if let Some(load) = args.load.filter(|load| !(0.001..=10.0).contains(load)) {
        return wrong(format!(
            "--load: {load} is out of range; choose 0.001 to 10"
        ));
    }
    Ok(Settings {
        quick: args.quick,
        seeds: args.seeds,
        first_seed: args.seed(),
        spines: args.spines.clone(),
        drops: args.drops.clone(),
        load: args.load,
    })
}

/// Writes what is asked for. `elapsed_s` is told if it is known.
pub(super) fn tell(
    args: &SimArgs,
    experiment: &Experiment,
    cells: &[Cell],
    settings: &Settings,
    trials: &[(usize, Trial)],
    partial: bool,
    elapsed_s: Option<f64>,
) -> Result<ExitCode, Failure> {
    let rows = rows(cells, settings.first_seed, trials);
    let most = cells.iter().map(|cell| u64::from(cell.seeds)).max();
    let hops: u64 = trials.iter().map(|(_, trial)| trial.hops).sum();
    if let Some(path) = &args.json {
        let answer = Answer {
            experiment: experiment.name,
            rows: &rows,
            seeds: (0..most.unwrap_or(0))
                .map(|n| settings.first_seed + n)
                .collect(),
            partial,
            quick: settings.quick,
            packet_hops: hops,
            elapsed_s: elapsed_s.unwrap_or(0.0),
            packet_hops_per_s: elapsed_s.map_or(0.0, |elapsed_s| hops as f64 / elapsed_s),
        };
        output::write_json(path, &answer)?;
    }
    if let Some(path) = &args.csv {
        csv::write(path, &rows)?;
    }
    if let Some(path) = &args.plot {
        plot::write(path, experiment, &rows)?;
    }
    if !output::is_stdout(args.json.as_deref()) {
        output::print(&render(experiment, &rows, partial))?;
    }
    let holds = !partial && rows.iter().all(|row| row.holds);
    Ok(ExitCode::from(if holds { 0 } else { NO }))
}

fn render(experiment: &Experiment, rows: &Rows, partial: bool) -> String {
    // What all experiments have, and what else tells this one's rows from each other.
    let mut keys: Vec<&str> = vec!["spray", "tie", "spines", "load", "drop", "faults"];
    for row in rows {
        for (key, value) in &row.parameters {
            let differs = |other: &Row| other.parameters.get(key) != Some(value);
            if key != "packets_per_spine" && !keys.contains(&&**key) && rows.iter().any(differs) {
                keys.push(key);
            }
        }
    }
    let line = |row: &Row| -> Map<String, Value> {
        let mut cells = Map::new();
        let parameter = |key: &str| row.parameters.get(key).cloned().unwrap_or(Value::Null);
        for key in &keys {
            cells.insert((*key).to_owned(), parameter(key));
        }
        cells.insert("per spine".to_owned(), parameter("packets_per_spine"));
        cells.insert("trials".to_owned(), json!(row.trials));
        cells.insert("FPR".to_owned(), json!(row.fpr));
        cells.insert("FNR".to_owned(), json!(row.fnr));
        cells.insert("claimed".to_owned(), json!(row.claimed));
        cells.insert("measured".to_owned(), json!(row.measured));
        cells.insert(
            "holds".to_owned(),
            json!(if row.holds { "yes" } else { "NO" }),
        );
        cells
    };
    let mut text = format!(
        "{} ({}): {}\n\n",
        experiment.name, experiment.claims, experiment.about
    );
    text.push_str(&table::render(&rows.iter().map(line).collect::<Vec<_>>()));
    let holding = rows.iter().filter(|row| row.holds).count();
    text.push_str(&format!("\n{holding} of {} rows hold\n", rows.len()));
    if partial {
        text.push_str("partial: it was ended before all trials were made\n");
    }
    text
}
