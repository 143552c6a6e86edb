//! Workloads: who is connected with whom, and who sends what next.
//!
//! A [`Workload`] is a plain value over all hosts, known everywhere alike. What runs on a host is
//! its [`Script`], which sees the events of its own host and nothing else: hosts keep in step by
//! the data that they receive, as the ranks of a collective do, so that a script can run on any
//! thread or in a simulator. [`Workload::script`] makes it, [`Script::start`] and
//! [`Script::on_event`] tell what to post.

mod config;
mod plan;
mod script;
pub mod trace;

pub use config::{HostId, RingAccounting, WorkloadConfig, WorkloadError, WorkloadKind};
pub use plan::{QpPlan, Workload};
pub use script::{FlowTotals, Post, Script};
pub use trace::TraceFlow;
