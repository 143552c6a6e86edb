//! A software RNIC, and the workloads that run on it.
//!
//! [`Host`] is one adapter with reliable connections: it segments RDMA WRITEs, acknowledges,
//! recovers losses and paces its link. [`workload`] says which connections exist and who sends
//! what next. Both are values without clock, I/O or threads: the caller gives the time and carries
//! the frames, so the DPDK testbed and the simulator run the very same code.
//!
//! Times are nanoseconds since any origin that the caller keeps. After [`Host::new`] and
//! [`Host::open_qp`] nothing allocates. Whatever a frame holds, receiving it is a counter at worst.

mod config;
mod counters;
mod event;
mod frame;
mod host;
mod incoming;
mod index;
mod pacer;
mod pattern;
mod qp;
mod receiver;
mod repairs;
mod segment;
mod sender;
mod timers;
pub mod workload;

pub use config::{
    BitRate, ConfigError, Flow, HostConfig, MESSAGE_BYTES_MAX, PathMtu, QpConfig, QpId, Recovery,
};
pub use counters::Counters;
pub use event::{Event, FailReason, OpenError, PostError};
pub use frame::{Emitted, HEADER_ROOM};
pub use host::Host;
