//! The fabric-wide monitor: verdicts of all leaves in, states of links out, with history, a page and metrics.
//!
//! [`core`] is a value without clock or I/O: it localizes, and keeps what is known of every link. [`seen`]
//! makes intake idempotent and [`lanes`] makes it fair; [`history`] keeps everything. [`intake`] hears
//! switches on this machine and [`nats`] those on others, [`engine`] is the thread that owns it all, [`http`] answers people and [`run`] is the whole.

mod apply;
pub mod board;
pub mod core;
pub mod coverage;
pub mod engine;
mod folder;
pub mod history;
pub mod http;
pub mod intake;
pub mod lanes;
mod line;
pub mod load;
pub mod metrics;
pub mod nats;
mod outlet;
mod reading;
pub mod routing;
pub mod run;
pub mod seen;
pub mod series;
pub mod shared;
mod socket;
pub mod standing;
mod webhook;
mod weight;
