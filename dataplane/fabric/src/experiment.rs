//! Experiments: claims of the paper as rows of trials, each with an exact interval.
//!
//! An experiment is a list of cells, a cell so many seeds of one setting. Trials are independent:
//! they run in any order, on any machine, and a row is a function of its cell's trials alone. Names
//! and keys are an interface (`spraycheck sim NAME --json`).

mod catalog;
mod row;
mod trial;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use catalog::{EXPERIMENTS, Experiment};
pub use row::{Row, Rows, rows};
pub use trial::Trial;

use crate::build::SimError;
use crate::engine::Status;
use crate::report::Ending;

/// What people may choose about an experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// Fewer seeds and packets.
    pub quick: bool,
    /// Seeds of each cell, if not as many as the experiment says.
    pub seeds: Option<u32>,
    /// The first of them.
    pub first_seed: u64,
    /// Numbers of spines, if not the experiment's.
    pub spines: Vec<u16>,
    /// Loss rates, if not the experiment's.
    pub drops: Vec<f64>,
    /// Load of the uplinks, if not the experiment's.
    pub load: Option<f64>,
}

/// One setting of an experiment, and how often it is tried.
#[derive(Clone, Debug)]
pub struct Cell {
    /// What a reader is told of the setting.
    pub parameters: Map<String, Value>,
    /// What the paper says of it.
    pub claimed: String,
    /// Line of the plot, and place on it.
    pub series: String,
    /// See [`Cell::series`].
    pub x: f64,
    /// Seeds.
    pub seeds: u32,
    pub(crate) setup: trial::Setup,
    pub(crate) claim: row::Claim,
}

/// A trial to be made: its cell, and its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Index of the cell.
    pub cell: usize,
    /// Seed of the run.
    pub seed: u64,
}

/// All trials of the cells, in order.
pub fn works(cells: &[Cell], first_seed: u64) -> Vec<Work> {
    let of = |(cell, of): (usize, &Cell)| {
        (0..u64::from(of.seeds)).map(move |n| Work {
            cell,
            seed: first_seed + n,
        })
    };
    cells.iter().enumerate().flat_map(of).collect()
}

impl Cell {
    /// Makes one trial. `watch` is asked now and then whether to stop; a trial that was stopped is
    /// `None`.
    ///
    /// # Errors
    /// When the setting cannot be simulated.
    pub fn trial(
        &self,
        seed: u64,
        watch: &mut dyn FnMut(&Status) -> Option<Ending>,
    ) -> Result<Option<Trial>, SimError> {
        self.setup.run(seed, watch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: every experiment's quick form runs, fills every row, and does so twice the same.
    #[test]
    fn rows_are_filled_and_repeat() {
        let settings = Settings {
            quick: true,
            seeds: Some(2),
            first_seed: 5,
            spines: vec![4],
            drops: vec![0.02],
            load: None,
        };
        for experiment in EXPERIMENTS {
            let cells = experiment.cells(&settings);
            assert!(!cells.is_empty(), "{}", experiment.name);
            // The first two cells stand for all: this is a unit test.
            let cells = &cells[..cells.len().min(2)];
            let run = || -> Vec<(usize, Trial)> {
                let works = works(cells, 5).into_iter().enumerate();
                works
                    .map(|(index, work)| {
                        let trial = cells[work.cell].trial(work.seed, &mut |_| None);
                        (index, trial.expect("it runs").expect("to its end"))
                    })
                    .collect()
            };
            let (first, second) = (run(), run());
            let text = |trials: &[(usize, Trial)]| {
                serde_json::to_string(&rows(cells, 5, trials)).expect("it is JSON")
            };
            assert_eq!(text(&first), text(&second), "{}", experiment.name);
            for row in rows(cells, 5, &first) {
                assert_eq!(row.trials, 2, "{}: {row:?}", experiment.name);
                assert!(!row.measured.is_empty() && row.value.is_finite(), "{row:?}");
            }
        }
    }
}
