//! The fabric-wide monitor: verdicts of all leaves in, states of links out, with history.
//!
//! [`core`] is a value without clock or I/O: it localizes, and keeps what is known of every link. [`seen`]
//! makes intake idempotent and [`lanes`] makes it fair; [`history`] keeps everything.

pub mod core;
pub mod coverage;
pub mod history;
pub mod lanes;
pub mod seen;
pub mod series;
pub mod standing;
