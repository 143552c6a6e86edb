//! A fabric of someone's own, for one seed or several.

use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use agent::result::TestbedResult;
use config::{ScenarioFile, SimConfig, TestbedConfig};
use fabric::{Engine, sweep};
use serde::Serialize;

use super::watch::{Seen, Watch};
use crate::args::SimArgs;
use crate::failure::{Failure, NO, USAGE};
use crate::verdict::Verdict;
use crate::{output, report};

/// The JSON of several seeds.
#[derive(Serialize)]
struct Sweep {
    experiment: &'static str,
    seeds: Vec<u64>,
    runs: Vec<TestbedResult>,
    partial: bool,
    elapsed_s: f64,
    packet_hops_per_s: f64,
}

pub(super) fn run(args: &SimArgs) -> Result<ExitCode, Failure> {
    if args.shard.is_some() || args.csv.is_some() || args.plot.is_some() || !args.drops.is_empty() {
        let why = "--shard, --drops, --csv and --plot belong to experiments; name one, or leave \
                   them out";
        return Err(Failure::new(USAGE, why));
    }
    let file = args.scenario.as_deref().map(read).transpose()?;
    let config = SimConfig::resolve(file.as_ref(), args.layer()?)?;
    let first = config.testbed.seed;
    let seeds: Vec<u64> = (0..u64::from(args.seeds.unwrap_or(1)))
        .map(|n| first + n)
        .collect();
    // What one seed cannot be built with, none can.
    drop(Engine::new(&config).map_err(wrong)?);
    let limit = Duration::from_nanos(config.testbed.limit.nanos());
    let watch = Watch::new(seeds.len(), Some(limit))?;
    let runs = watch.show_while(|| {
        sweep::run_all(args.jobs(), seeds.len(), &watch.stop, |index| {
            one(&config, seeds[index], &watch)
        })
    });
    let mut results = Vec::new();
    for run in runs.into_iter().flatten() {
        results.push(run?);
    }
    tell(args, &config, &seeds, results, &watch)
}

fn one(config: &SimConfig, seed: u64, watch: &Watch) -> Result<TestbedResult, Failure> {
    let config = SimConfig {
        testbed: TestbedConfig {
            seed,
            ..config.testbed.clone()
        },
        ..config.clone()
    };
    let begun = Instant::now();
    let mut engine = Engine::new(&config).map_err(wrong)?;
    let mut seen = Seen::default();
    let ending = engine.run(&mut |status| watch.look(&mut seen, status));
    let result = engine.finish(ending, begun.elapsed());
    watch.ended(&seen, result.packet_hops);
    Ok(result)
}

fn tell(
    args: &SimArgs,
    config: &SimConfig,
    seeds: &[u64],
    results: Vec<TestbedResult>,
    watch: &Watch,
) -> Result<ExitCode, Failure> {
    if !output::is_stdout(args.json.as_deref()) {
        for result in &results {
            output::print(&report::render(&config.testbed, result))?;
        }
        if seeds.len() > 1 {
            let yes = results.iter().filter(|result| Verdict::of(result).is_yes());
            let line = format!("\n{} of {} seeds: YES\n", yes.count(), seeds.len());
            output::print(&line)?;
        }
    }
    let partial = results.len() < seeds.len() || results.iter().any(|result| result.partial);
    let is_yes = !partial && results.iter().all(|result| Verdict::of(result).is_yes());
    if let Some(path) = &args.json {
        let elapsed_s = watch.elapsed().as_secs_f64();
        let mut results = results;
        if !args.timing {
            for result in &mut results {
                (result.elapsed_s, result.packet_hops_per_s) = (0.0, 0.0);
            }
        }
        match (seeds, &mut results[..]) {
            ([_], [only]) => output::write_json(path, only)?,
            _ => {
                let sweep = Sweep {
                    experiment: "scenario",
                    seeds: seeds.to_vec(),
                    runs: results,
                    partial,
                    elapsed_s: if args.timing { elapsed_s } else { 0.0 },
                    packet_hops_per_s: match args.timing {
                        true => watch.hops() as f64 / elapsed_s,
                        false => 0.0,
                    },
                };
                output::write_json(path, &sweep)?;
            }
        }
    }
    Ok(ExitCode::from(if is_yes { 0 } else { NO }))
}

fn read(path: &Path) -> Result<ScenarioFile, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(USAGE, format!("cannot read {}: {error}", path.display())))?;
    Ok(ScenarioFile::parse(path, &text)?)
}

pub(super) fn wrong(error: fabric::SimError) -> Failure {
    Failure::new(USAGE, error.to_string())
}
