//! Captures of a running switch: what lcores copy ([`tap`]), which packets ([`filter`]), how they are
//! written ([`pcapng`]), and the conversation with `spraycheck capture` (`serve`).
//!
//! Control passes bytes on and never looks into them: what a filter needs is read on the lcore.

pub mod filter;
pub mod pcapng;
pub(crate) mod serve;
pub mod tap;

/// Captures that may run at a time; another one is refused.
pub const CAPTURES_MAX: usize = 4;
