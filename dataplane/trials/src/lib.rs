//! Seeded trials of one leaf pair, with the product's own switches and detector.
//!
//! [`pair`] is the model: a source leaf, k paths, a destination leaf, event by event. [`noise`]
//! measures the spray on calibration seeds and makes the detector's table; [`pmin`] says on other
//! seeds how many packets each kind of evidence needs, and how often it errs; [`delay`] compares
//! sequential tests, and [`agree`] two runs of a fabric. `docs/detection.md` has the answers.
//!
//! Results depend on the seeds alone, not on the number of threads: trials are independent, and
//! are put together in their order.

pub mod agree;
pub mod delay;
mod frame;
pub mod host;
pub mod noise;
pub mod pair;
mod paper;
pub mod pmin;
mod quiet;
pub mod seed;
pub mod setup;
mod stream;
pub mod trial;
