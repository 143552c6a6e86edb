//! Shards of an experiment, put together: the same answer as of one run of all of it.

use std::collections::BTreeMap;
use std::process::ExitCode;

use super::named::{Shard, find, tell};
use crate::args::SimArgs;
use crate::failure::{Failure, USAGE};

pub(super) fn run(args: &SimArgs) -> Result<ExitCode, Failure> {
    let wrong = |why: String| Failure::new(USAGE, why);
    let mut trials = BTreeMap::new();
    let mut first: Option<Shard> = None;
    let mut partial = false;
    for path in &args.files {
        let text = std::fs::read_to_string(path)
            .map_err(|error| wrong(format!("cannot read {}: {error}", path.display())))?;
        let shard: Shard = serde_json::from_str(&text)
            .map_err(|error| wrong(format!("{}: no file of --shard: {error}", path.display())))?;
        partial |= shard.partial;
        let known = first.get_or_insert_with(|| shard.clone());
        if (&known.experiment, &known.settings, known.trials_all)
            != (&shard.experiment, &shard.settings, shard.trials_all)
        {
            let why = format!(
                "{} is of {} with other settings than {}; merge what belongs together",
                path.display(),
                shard.experiment,
                args.files[0].display()
            );
            return Err(wrong(why));
        }
        trials.extend(shard.trials);
    }
    let Some(shard) = first else {
        return Err(wrong(
            "merge needs the files that --shard has written".to_owned(),
        ));
    };
    let missing = shard.trials_all - trials.len().min(shard.trials_all);
    if missing > 0 && !partial {
        let why = format!(
            "{missing} of {} trials are missing; give the files of all {} shards",
            shard.trials_all, shard.shard[1]
        );
        return Err(wrong(why));
    }
    let experiment = find(&shard.experiment)?;
    let cells = experiment.cells(&shard.settings);
    let trials: Vec<_> = trials.into_iter().collect();
    tell(
        args,
        experiment,
        &cells,
        &shard.settings,
        &trials,
        partial,
        None,
    )
}
