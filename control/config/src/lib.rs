//! Configuration: parsed, validated, resolved.
//!
//! What people write (flags, TOML) becomes values that cannot be wrong, or a message that says
//! where the mistake is and what to do. [`TestbedConfig`] describes a whole fabric and
//! [`Fabric`] resolves it into its switches; [`SwitchSpec`] is one switch on real ports. No DPDK here: the command and the daemon both link
//! this.

pub mod agree;
pub mod bench;
pub mod check;
pub mod choice;
mod document;
pub mod error;
pub mod fabric;
pub mod fabric_file;
pub mod fault;
pub mod in_force;
pub mod monitor_file;
pub mod pool;
pub mod quantity;
pub mod reference;
pub mod request;
pub mod scenario;
pub mod switch_file;
pub mod switch_set;
pub mod testbed;

pub use bench::BenchCase;
pub use choice::{
    Announce, Dcqcn, Evidence, Mark, PathTest, Preset, Recovery, Ring, Spray, Tie, Workload,
};
pub use error::ConfigError;
pub use fabric::{Fabric, FabricHost, FabricLink, FabricSwitch};
pub use fabric_file::FabricFile;
pub use fault::{FaultSpec, LinkFault};
pub use in_force::{Edit, InForce};
pub use monitor_file::{MonitorFile, RelayFile};
pub use quantity::{Bytes, Probability, Rate, Time};
pub use request::{BenchRequest, ReplayRequest, SwitchRequest, TestbedRequest};
pub use scenario::{Change, ScenarioFile, SimConfig, SimLayer, Traffic};
pub use switch_file::{Device, DeviceSetting, EalSpec, Idle, Judging, Lcores, Memory, SwitchSpec};
pub use switch_set::{DeviceLane, SharedDevice, SwitchSet};
pub use testbed::{FaultList, LinkList, TestbedConfig, TestbedFile, TestbedLayer};
