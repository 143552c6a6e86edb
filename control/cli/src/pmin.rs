//! `spraycheck sim pmin` and `sim sequential`: rows of trials, as a table and as JSON.

use std::process::ExitCode;
use std::time::Instant;

use serde_json::{Map, Value, json};
use trials::pmin::Row;

use crate::args::{PminArgs, SequentialArgs};
use crate::failure::{ENVIRONMENT, Failure, NO};
use crate::{number, output, table};

/// Healthy paths lose what two healthy links do.
const PATH_P0: f64 = 2.0 * detector::rules::DEFAULT_P0;
/// Rates that sequential tests are compared at.
const RATES: [f64; 4] = [0.001, 0.005, 0.01, 0.015];

pub(crate) fn run(args: &PminArgs) -> Result<ExitCode, Failure> {
    let started = Instant::now();
    let told = |row: &Row| {
        let holds = if row.holds { "holds" } else { "FAILS" };
        let rate = number::percent(row.rate);
        crate::log::say(&format!(
            "{holds}  {}, k {}, {rate}: {}",
            row.name, row.k, row.measured
        ));
    };
    let rows = pool(args.jobs)?
        .install(|| trials::pmin::run(&args.options(), told))
        .map_err(|error| Failure::new(NO, error.to_string()))?;
    let elapsed_s = started.elapsed().as_secs_f64();
    let packets: u64 = rows.iter().map(|row| row.packets).sum();
    if let Some(path) = &args.json {
        let answer = json!({
            "experiment": "pmin",
            "rows": rows,
            "seeds": [0, args.options().trials],
            "elapsed_s": elapsed_s,
            // Three hops: into either leaf, and out to the host.
            "packet_hops_per_s": 3.0 * packets as f64 / elapsed_s,
        });
        output::write_json(path, &answer)?;
    }
    if !output::is_stdout(args.json.as_deref()) {
        output::print(&render(&rows))?;
        output::print(&format!(
            "{} packets through both leaves in {elapsed_s:.0} s: {:.2} million per second\n",
            number::grouped(packets),
            packets as f64 / elapsed_s / 1e6
        ))?;
    }
    let is_no = rows
        .iter()
        .any(|row| !row.holds && !row.name.starts_with("paper"));
    Ok(ExitCode::from(if is_no { NO } else { 0 }))
}

pub(crate) fn sequential(args: &SequentialArgs) -> Result<ExitCode, Failure> {
    let rows = pool(args.jobs)?
        .install(|| trials::delay::compare(PATH_P0, args.run_length, &RATES, args.trials));
    if let Some(path) = &args.json {
        output::write_json(path, &json!({"experiment": "sequential", "rows": rows}))?;
    }
    if !output::is_stdout(args.json.as_deref()) {
        let cells = rows.iter().map(|row| {
            let mut cells = Map::new();
            cells.insert("test".to_owned(), json!(row.candidate));
            cells.insert("nats".to_owned(), json!(row.threshold));
            for (&(rate, median), (_, p99)) in row.median.iter().zip(&row.p99) {
                cells.insert(format!("{} median", number::percent(rate)), json!(median));
                cells.insert(format!("{} p99", number::percent(rate)), json!(p99));
            }
            cells
        });
        output::print(&table::render(&cells.collect::<Vec<_>>()))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// So many threads, or one per CPU for 0.
pub(crate) fn pool(jobs: usize) -> Result<rayon::ThreadPool, Failure> {
    rayon::ThreadPoolBuilder::new()
        .num_threads(jobs)
        .build()
        .map_err(|error| Failure::new(ENVIRONMENT, format!("cannot start threads: {error}")))
}

fn render(rows: &[Row]) -> String {
    let cells = |row: &Row| {
        let mut cells: Map<String, Value> = Map::new();
        let mut put = |name: &str, value: Value| cells.insert(name.to_owned(), value);
        put("what", json!(row.name));
        put("k", json!(row.k));
        put("rate", json!(number::percent(row.rate)));
        put("load", json!(row.load));
        put("packets", json!(row.packets_per_spine));
        put("trials", json!(row.trials));
        put("false", json!(row.false_paths));
        put("paths", json!(row.healthy_paths));
        put("FPR 95 %", json!(interval(row.fpr_ci95)));
        put("missed", json!(row.misses));
        put("FNR 95 %", json!(interval(row.fnr_ci95)));
        put("holds", json!(if row.holds { "yes" } else { "NO" }));
        put("measured", json!(row.measured));
        cells
    };
    table::render(&rows.iter().map(cells).collect::<Vec<_>>())
}

fn interval([low, high]: [f64; 2]) -> String {
    format!("{}..{}", number::percent(low), number::percent(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a row shows its counts, its exact intervals and its answer.
    #[test]
    fn rows_are_rendered() {
        let options = trials::pmin::Options {
            trials: 2,
            spines: vec![8],
            only: Some("lose nothing".to_owned()),
            rates: vec![0.005],
            quiet_packets: 0,
            paper_trials: 0,
        };
        let rows = trials::pmin::run(&options, |_| {}).expect("a model without fault");
        let text = render(&rows);
        let first = text.lines().nth(1).expect("a row");
        for word in ["source counts", "0.5 %", "2000", "84.2 %", "NO"] {
            assert!(first.contains(word), "no \"{word}\" in {first}");
        }
    }
}
