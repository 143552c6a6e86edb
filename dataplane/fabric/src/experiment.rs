//! Experiments: claims of the paper as rows of trials, each with an exact interval.
//!
//! An experiment is a list of cells, a cell so many seeds of one setting. Trials are independent:
//! they run in any order, on any machine, and a row is a function of its cell's trials alone. Names
//! and keys are an interface (`spraycheck sim NAME --json`).

mod catalog;
mod claim;
mod congestion;
mod cost;
mod edges;
mod normality;
mod row;
mod table1;
mod testbed;
mod trial;
mod two_faults;
mod versus;

use agent::result::TestbedResult;
use config::TestbedConfig;
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
    /// Seeds beside these on which the sensitivity of the row is fixed.
    pub calibration: u32,
    pub(crate) kind: Kind,
    pub(crate) claim: claim::Claim,
}

/// What a trial of a cell does.
#[derive(Clone, Debug)]
pub(crate) enum Kind {
    /// Compares the counts of a leaf pair's paths.
    Paths(trial::Setup),
    /// The same on the data plane, which somebody else runs.
    DataPlane(trial::Setup),
    /// Runs the same flows with and without measuring.
    Cost(trial::Setup),
    /// Names two bad links of a whole fabric.
    Two(two_faults::TwoFaults),
    /// Tries one edge of a measurement.
    Edge(edges::Edge),
    /// Finds one bad link in one of several ways.
    Versus(versus::Versus),
    /// Makes no run: arithmetic.
    Sum(table1::Sum),
}

/// A trial to be made: its cell, and its seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Index of the cell.
    pub cell: usize,
    /// Seed of the run.
    pub seed: u64,
    /// Whether it only serves to fix the sensitivity.
    pub is_calibration: bool,
}

/// Seeds of calibration are so far behind those of trials that they never meet.
const CALIBRATION_SEEDS: u64 = 1 << 32;

/// All trials of the cells, in order.
pub fn works(cells: &[Cell], first_seed: u64) -> Vec<Work> {
    let of = |(cell, of): (usize, &Cell)| {
        let work = move |first: u64, is_calibration| {
            move |n: u64| Work {
                cell,
                seed: first + n,
                is_calibration,
            }
        };
        let calibration = first_seed.wrapping_add(CALIBRATION_SEEDS);
        let calibration = (0..u64::from(of.calibration)).map(work(calibration, true));
        calibration.chain((0..u64::from(of.seeds)).map(work(first_seed, false)))
    };
    cells.iter().enumerate().flat_map(of).collect()
}

impl Cell {
    /// The fabric that the data plane is to run as this trial; `None` if [`Cell::trial`] makes it.
    ///
    /// # Errors
    /// When there is no such fabric.
    pub fn on_data_plane(&self, work: Work) -> Result<Option<TestbedConfig>, SimError> {
        match &self.kind {
            Kind::DataPlane(setup) if !work.is_calibration => {
                testbed::config(setup, work.seed).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// The trial that the data plane has made; `None` if it was ended early.
    ///
    /// # Panics
    /// When packets are unaccounted for.
    pub fn read(&self, result: &TestbedResult) -> Option<Trial> {
        match &self.kind {
            Kind::DataPlane(setup) => testbed::read(setup, result),
            _ => None,
        }
    }

    /// Makes one trial. `watch` is asked now and then whether to stop; a trial that was stopped is
    /// `None`, and one for the data plane ([`Cell::on_data_plane`]).
    ///
    /// # Errors
    /// When the setting cannot be simulated.
    pub fn trial(
        &self,
        work: Work,
        watch: &mut dyn FnMut(&Status) -> Option<Ending>,
    ) -> Result<Option<Trial>, SimError> {
        let seed = work.seed;
        match &self.kind {
            Kind::DataPlane(_) if !work.is_calibration => Ok(None),
            // The sensitivity of the data plane's rows is fixed in the simulator.
            Kind::Paths(setup) | Kind::DataPlane(setup) => {
                setup.run(seed, work.is_calibration, watch)
            }
            Kind::Cost(setup) => cost::run(setup, seed, watch),
            Kind::Two(two) => two.run(seed, watch),
            Kind::Edge(edge) => edge.run(seed, watch),
            Kind::Versus(versus) => versus.run(seed, watch),
            Kind::Sum(sum) => Ok(Some(sum.trial())),
        }
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
            let made_here = |cell: &&Cell| !matches!(cell.kind, Kind::DataPlane(_));
            let cells: Vec<Cell> = cells.iter().filter(made_here).take(2).cloned().collect();
            let run = || -> Vec<(usize, Trial)> {
                let works = works(&cells, 5).into_iter().enumerate();
                works
                    .map(|(index, work)| {
                        let trial = cells[work.cell].trial(work, &mut |_| None);
                        (index, trial.expect("it runs").expect("to its end"))
                    })
                    .collect()
            };
            let (first, second) = (run(), run());
            let text = |trials: &[(usize, Trial)]| {
                serde_json::to_string(&rows(&cells, 5, trials)).expect("it is JSON")
            };
            assert_eq!(text(&first), text(&second), "{}", experiment.name);
            for row in rows(&cells, 5, &first) {
                let wanted = if experiment.name == "table1" { 1 } else { 2 };
                assert_eq!(row.trials, wanted, "{}: {row:?}", experiment.name);
                assert!(!row.measured.is_empty() && row.value.is_finite(), "{row:?}");
            }
        }
    }
}
