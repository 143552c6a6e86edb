//! The poll loops that drive the pipeline on DPDK.
//!
//! [`fabric`] is a whole testbed on one lcore: switches joined by rings that the driver owns
//! ([`wire`]), hosts at its edge ([`hosts`]); [`live`] is one switch on real ports, [`replay`] one
//! over captures. The binary `spraycheckd` runs it on behalf of the
//! `spraycheck` command, which links no DPDK.

pub mod assign;
pub mod bench;
pub mod build;
pub mod device;
pub mod end;
pub mod fabric;
pub mod failure;
pub mod gather;
pub mod hosts;
pub mod hub;
pub mod links;
pub mod links_up;
pub mod live;
pub mod machine;
pub mod packet;
pub mod pcap;
pub mod replay;
pub mod report;
pub mod service;
pub mod shares;
pub mod split;
pub mod spread;
pub mod taps;
pub mod telemetry;
pub mod testbed;
pub mod trace;
pub mod trunk;
pub mod wire;
pub mod worker;

pub use ::fabric::plan;
