//! The control thread of a switch or testbed.
//!
//! It talks to lcores over the bounded rings of [`seam`], reads the counters of [`published`],
//! decides in [`core`], and answers on a Unix socket ([`socket`]); [`metrics`] are another thread's. It sees
//! fixed structs and numbers, and looks into no packet: a capture's bytes it passes on ([`capture`]).
//! When it hangs, forwarding and counting go on.

pub mod capture;
pub mod change;
pub mod control;
pub mod core;
pub mod evidence;
pub mod log;
pub mod metrics;
pub mod neighbors;
pub mod operate;
pub mod published;
pub mod result;
pub mod seam;
pub mod show;
pub mod socket;
pub mod stream;
pub mod subject;
pub mod verdict;
pub mod watch;
