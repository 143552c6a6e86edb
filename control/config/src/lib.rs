//! Configuration: parsed, validated, resolved.
//!
//! What people write (flags, TOML) becomes values that cannot be wrong, or a message that says
//! where the mistake is and what to do. [`TestbedConfig`] describes a whole fabric and
//! [`Fabric`](fabric::Fabric) resolves it into its switches; [`SwitchSpec`](switch_file::SwitchSpec)
//! is one switch on real ports. No DPDK here: the command and the daemon both link this.

pub mod choice;
pub mod error;
pub mod fault;
pub mod quantity;

pub use choice::{Announce, Evidence, Mark, Preset, Recovery, Spray, Tie, Workload};
pub use error::ConfigError;
pub use fault::{FaultSpec, LinkFault};
pub use quantity::{Bytes, Probability, Rate, Time};
