//! `spraycheck calibrate`: writes the table of measured noise.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use detector::Calibration;
use trials::noise;

use crate::args::CalibrateArgs;
use crate::failure::{ENVIRONMENT, Failure};
use crate::pmin::pool;

pub(crate) fn run(args: &CalibrateArgs) -> Result<ExitCode, Failure> {
    let settings = noise::settings();
    let (done, all) = (AtomicUsize::new(0), settings.len());
    let told = |setting: &noise::Setting| {
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        let noise::Setting {
            policy,
            tie,
            mark,
            spines,
        } = setting;
        crate::log::say(&format!(
            "{done} of {all}: {}, ties {}, marks {}, {spines} spines",
            policy.1, tie.1, mark.1
        ));
    };
    let rows = pool(args.jobs)?.install(|| noise::table(&settings, args.counts, told));
    let mut text = format!(
        "# Noise of the spray, measured by: spraycheck calibrate --counts {}\n\
         # Columns: docs/detection.md. Receive-only thresholds come from it.\n",
        args.counts
    );
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}", Calibration::COLUMNS.join("\t"));
    for row in &rows {
        let _ = writeln!(text, "{}", row.line());
    }
    std::fs::write(&args.out, text).map_err(|error| {
        let path = args.out.display();
        Failure::new(ENVIRONMENT, format!("--out: cannot write {path}: {error}"))
    })?;
    Ok(ExitCode::SUCCESS)
}
