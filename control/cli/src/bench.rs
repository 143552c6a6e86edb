//! `spraycheck bench`: the request, the table, and whether the figures mean anything.

mod monitor;
mod sim;

use std::fmt::Write as _;
use std::process::ExitCode;

use agent::result::{BenchResult, BenchRow, DaemonLine};
use config::{BenchCase, BenchRequest};
use serde_json::{Map, Value, json};

use crate::args::{BenchArgs, Case};
use crate::failure::{Failure, NO, USAGE};
use crate::{daemon, output, table};

pub(crate) fn run(args: BenchArgs) -> Result<ExitCode, Failure> {
    let json = args.json.clone();
    if args.cases.contains(&Case::Monitor) {
        if args.cases.len() > 1 {
            let why = "monitor is measured alone: it is no role of a switch";
            return Err(Failure::new(USAGE, why));
        }
        return monitor::run(&args);
    }
    if args.cases.contains(&Case::Sim) {
        if args.cases.len() > 1 {
            let why = "sim is measured alone: it is no role of a switch";
            return Err(Failure::new(USAGE, why));
        }
        return sim::run(&args);
    }
    let answer = daemon::run("bench", &request(args)?, None)?;
    let DaemonLine::Bench(result) = answer else {
        let message = "spraycheckd answered something else than a benchmark's result; is it of \
                       the same version?";
        return Err(Failure::new(NO, message));
    };
    if let Some(path) = &json {
        output::write_json(path, &result)?;
    }
    if !output::is_stdout(json.as_deref()) {
        output::print(&render(&result))?;
    }
    let is_sound = !result.partial && result.cases.iter().all(|row| row.problems.is_empty());
    Ok(ExitCode::from(if is_sound { 0 } else { NO }))
}

fn request(args: BenchArgs) -> Result<BenchRequest, Failure> {
    let seconds = args.sample_s();
    let plane = |case: Case| match case {
        Case::Plane(case) => Some(case),
        Case::Sim | Case::Monitor => None,
    };
    let cases: Vec<BenchCase> = match (args.cases.is_empty(), args.split) {
        (true, true) => vec![BenchCase::LeafSource],
        (true, false) => BenchCase::ALL.to_vec(),
        (false, _) => args.cases.into_iter().filter_map(plane).collect(),
    };
    if args.split && cases != [BenchCase::LeafSource] {
        let why = "--split is of leaf-source alone: spraycheck bench leaf-source --split";
        return Err(Failure::new(USAGE, why));
    }
    Ok(BenchRequest {
        cases,
        frames: args.frames,
        bursts: args.bursts,
        lcores: if args.split { 2 } else { args.lcores },
        split: args.split,
        flows: args.flows,
        cold: args.cold,
        seconds,
        eal: args.eal,
    })
}

fn render(result: &BenchResult) -> String {
    let rows: Vec<Map<String, Value>> = result.cases.iter().map(row).collect();
    let mut text = String::new();
    let memory = match result.hugepages {
        true => "hugepages",
        false => "no hugepages",
    };
    let [one, five, fifteen] = result.load_before;
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}; {}, {memory}", result.machine, result.dpdk);
    let _ = writeln!(
        text,
        "load {one:.2} {five:.2} {fifteen:.2} before; others took {:.2} CPUs meanwhile{}",
        result.others_cpus,
        match result.is_preferred {
            true => "",
            false => "; no right to raise the own weight, so they take their share",
        }
    );
    let _ = writeln!(
        text,
        "medians of {} samples of {} s\n",
        result.samples, result.seconds
    );
    text.push_str(&table::render(&rows));
    for row in &result.cases {
        for problem in &row.problems {
            let _ = writeln!(text, "WRONG: {}: {problem}", row.case);
        }
    }
    if result.partial {
        text.push_str("ended by a signal before all was measured\n");
    }
    text
}

fn row(row: &BenchRow) -> Map<String, Value> {
    let [least, most] = row.ratio_range;
    let mut cells = Map::new();
    let mut put = |name: &str, value: Value| cells.insert(name.to_owned(), value);
    put("case", json!(row.case));
    put("frame", json!(row.frame));
    put("burst", json!(row.burst));
    put("flows", json!(row.flows));
    let lcores = match row.split {
        true => json!("1 to 1"),
        false => json!(row.lcores),
    };
    put("lcores", lcores);
    put("cache", json!(if row.cold { "cold" } else { "hot" }));
    put("Mpps", json!(row.mpps));
    put("cycles", json!(row.cycles_per_packet));
    put("C Mpps", json!(row.c_loop_mpps));
    put("ratio", json!(row.ratio_to_c_loop));
    put("range", json!(format!("{least:.3}-{most:.3}")));
    if let Some(scaling) = row.scaling_to_c_loop {
        put("scaling", json!(scaling));
    }
    if let Some(percent) = row.measuring_percent {
        put("measuring %", json!(percent));
    }
    put("p50 ns", json!(row.p50_ns));
    put("p99 ns", json!(row.p99_ns));
    put("allocs", json!(row.allocations_per_packet));
    cells
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: the table holds what a reader compares, and says aloud when it means nothing.
    #[test]
    fn figures_are_rendered() {
        let row = |case: &str, problems: &[&str]| BenchRow {
            case: case.to_owned(),
            frame: 64,
            burst: 32,
            lcores: 1,
            flows: 1,
            measuring_percent: Some(4.56),
            mpps: 20.123,
            cycles_per_packet: 114.3,
            c_loop_mpps: 40.2,
            ratio_to_c_loop: 0.5006,
            ratio_range: [0.49, 0.512],
            p50_ns: 145,
            p99_ns: 2_048,
            problems: problems.iter().map(|&text| text.to_owned()).collect(),
            ..BenchRow::default()
        };
        let result = BenchResult {
            machine: "2 CPUs Test".to_owned(),
            dpdk: "DPDK 22.11".to_owned(),
            load_before: [0.5, 0.25, 0.0],
            others_cpus: 0.1,
            is_preferred: true,
            seconds: 1.0,
            samples: 5,
            cases: vec![
                row("leaf-source", &[]),
                row("spine", &["dropped: 7 instead of 0 packets"]),
            ],
            ..BenchResult::default()
        };
        let text = render(&result);
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        for line in [
            "2 CPUs Test; DPDK 22.11, no hugepages",
            "load 0.50 0.25 0.00 before; others took 0.10 CPUs meanwhile",
            "medians of 5 samples of 1 s",
            "leaf-source 64 32 1 1 hot 20.1 114 40.2 0.501 0.490-0.512 4.56 145 2048 0",
            "WRONG: spine: dropped: 7 instead of 0 packets",
        ] {
            assert!(
                lines.iter().any(|found| found == line),
                "no \"{line}\" in\n{text}"
            );
        }
    }
}
