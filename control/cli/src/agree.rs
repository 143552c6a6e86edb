//! `spraycheck sim agree`: one run of the testbed beside one of the simulator.

use std::path::Path;
use std::process::ExitCode;

use agent::result::TestbedResult;
use trials::agree::{Agreement, Share, agree};

use crate::args::AgreeArgs;
use crate::failure::{Failure, NO, USAGE};
use crate::{number, output};

pub(crate) fn run(args: &AgreeArgs) -> Result<ExitCode, Failure> {
    let (one, other) = (read(&args.one)?, read(&args.other)?);
    let agreement = agree(&one, &other, args.alpha);
    output::print(&render(&agreement))?;
    let is_no = !agreement.differences.is_empty();
    Ok(ExitCode::from(if is_no { NO } else { 0 }))
}

fn read(path: &Path) -> Result<TestbedResult, Failure> {
    let wrong = |why: String| Failure::new(USAGE, format!("{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| {
        wrong(format!(
            "{error}; give what testbed or sim has written with --json"
        ))
    })
}

fn render(agreement: &Agreement) -> String {
    let mut text: String = (agreement.differences.iter())
        .map(|what| format!("{what}\n"))
        .collect();
    let share = |share: Share| {
        let rate = share.lost as f64 / share.sent.max(1) as f64;
        format!(
            "{} of {}",
            number::percent(rate),
            number::grouped(share.sent)
        )
    };
    let [one, other] = agreement.failed;
    text.push_str(&format!(
        "{}: {} paths, bad ones lost {} and {}\n",
        if agreement.differences.is_empty() {
            "agree"
        } else {
            "differ"
        },
        agreement.paths,
        share(one),
        share(other)
    ));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_is_told_in_a_line_behind_all_differences() {
        let share = |sent, lost| Share { sent, lost };
        let mut agreement = Agreement {
            paths: 56,
            failed: [share(20_000, 100), share(10_000, 60)],
            differences: Vec::new(),
        };
        let line = "agree: 56 paths, bad ones lost 0.5 % of 20,000 and 0.6 % of 10,000\n";
        assert_eq!(render(&agreement), line);
        agreement.differences.push("what".to_owned());
        assert!(render(&agreement).starts_with("what\ndiffer: 56 paths"));
    }
}
