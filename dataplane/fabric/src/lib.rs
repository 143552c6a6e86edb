//! The simulator: fabrics larger than a machine can run, driven by events in simulated time.
//!
//! Nothing is modelled that exists as code: switches are [`pipeline::Switch`], hosts
//! [`endpoint::Host`], verdicts those of [`agent::core::Core`]. [`engine`] carries frames between
//! them in the order of (time, sequence) that [`wheel`] keeps; a frame is its header bytes and a
//! length ([`frame`]). A run depends on its configuration alone, and a slice of a fabric gives what
//! the same leaves give in the whole of it.
//!
//! [`plan`] and [`report`] are shared with the testbed on DPDK.

mod account;
mod build;
mod change;
pub mod engine;
pub mod experiment;
pub mod frame;
mod net;
pub mod plan;
pub mod report;
mod station;
pub mod sweep;
pub mod wheel;

pub use build::SimError;
pub use engine::{Engine, Status};
