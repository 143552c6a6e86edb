//! A testbed's settings, resolved into its switches, hosts and links.
//!
//! Called by the drivers of a whole fabric (DPDK testbed, simulator). Everything follows from the
//! settings by arithmetic: equal settings give equal fabrics. Leaves are switches `0..leaves`,
//! spines follow. A leaf's ports are its hosts, then its uplinks by spine; a spine's ports are its
//! downlinks by leaf.

mod addressing;
mod plan;
mod sizing;

use detector::Link;
use packet::{Address, MacAddr};
use pipeline::fault::Fault;
use pipeline::{EcnConfig, PortId, SwitchConfig};

use crate::error::ConfigError;
use crate::quantity::Rate;
use crate::testbed::TestbedConfig;

use plan::Plan;

pub(crate) use addressing::station_mac;
pub use addressing::{host_address, host_mac, leaf_address, leaf_prefix, port_mac, spine_address};
pub use sizing::{frame_max_bytes, path_delay_ns_max, silence_ns, silence_of};

/// Bytes on the wire beside a frame: preamble and start 8, FCS 4, gap 12 (IEEE 802.3).
pub const OVERHEAD_BYTES: u32 = 24;

/// Priority of each DSCP: its class selector (RFC 2474), with 6 as the most: 7 belongs to the
/// measured flow. Congestion notifications, at DSCP 48 by custom, come to 6.
pub const DSCP_PRIORITY: [u8; 64] = {
    let mut table = [0; 64];
    let mut dscp = 0;
    while dscp < 64 {
        let class = (dscp >> 3) as u8;
        table[dscp] = if class > 6 { 6 } else { class };
        dscp += 1;
    }
    table
};

/// Priority of each PCP of a VLAN tag, where it counts: itself, with 6 as the most.
pub const PCP_PRIORITY: [u8; 8] = [0, 1, 2, 3, 4, 5, 6, 6];

/// ECN marking where it is on: the thresholds of published DCQCN deployments at 100 Gb/s (Kmin
/// 400 kB, Kmax 1600 kB, Pmax 0.2: 32 us and 128 us of queue), in proportion to a port's rate.
pub const ECN_DEFAULT: EcnConfig = EcnConfig {
    kmin_bytes: 400_000,
    kmax_bytes: 1_600_000,
    pmax_ppm: 200_000,
    at_rate_bps: Some(100_000_000_000),
};

/// All of a testbed.
#[derive(Clone, PartialEq, Debug)]
pub struct Fabric {
    /// Leaves, then spines.
    pub switches: Vec<FabricSwitch>,
    /// Hosts by leaf.
    pub hosts: Vec<FabricHost>,
    /// Every directed link between leaf and spine, in the order of [`Link`].
    pub links: Vec<FabricLink>,
    /// Ports whose link the routing table does not use (switch index, port at its sending end).
    pub disabled: Vec<(usize, PortId)>,
}

/// One switch.
#[derive(Clone, PartialEq, Debug)]
pub struct FabricSwitch {
    /// `leaf0` or `spine0`.
    pub name: String,
    /// What it is told.
    pub config: SwitchConfig,
}

/// One host.
#[derive(Clone, PartialEq, Debug)]
pub struct FabricHost {
    /// `h<leaf>.<n>`.
    pub name: String,
    /// Its leaf, as an index of [`Fabric::switches`].
    pub leaf: usize,
    /// Its port there.
    pub port: PortId,
    /// Its address, 10.LEAF.0.N+1.
    pub address: Address,
    /// Its hardware address.
    pub mac: MacAddr,
    /// That of its port at the leaf.
    pub gateway_mac: MacAddr,
    /// Rate of its link.
    pub rate: Rate,
    /// Seed of what it leaves to chance.
    pub seed: u64,
}

/// One direction of a cable between leaf and spine.
#[derive(Clone, PartialEq, Debug)]
pub struct FabricLink {
    /// Its name.
    pub link: Link,
    /// Where it begins: an index of [`Fabric::switches`], and the port there.
    pub from: (usize, PortId),
    /// Where it ends.
    pub to: (usize, PortId),
    /// Its faults.
    pub faults: Vec<Fault>,
    /// Their texts, as reports show them.
    pub specs: Vec<String>,
    /// Seed of the faults' chances.
    pub seed: u64,
}

impl Fabric {
    /// The fabric of such settings, which are checked first.
    pub fn new(config: &TestbedConfig) -> Result<Fabric, ConfigError> {
        config.check()?;
        let plan = Plan { config };
        let leaves = (0..config.leaves).map(|leaf| plan.leaf(leaf));
        let spines = (0..config.spines).map(|spine| plan.spine(spine));
        let fabric = detector::Fabric {
            leaves: config.leaves,
            spines: config.spines,
        };
        let disabled = config.disabled.0.iter().map(|&link| plan.ends(link).0);
        Ok(Fabric {
            switches: leaves.chain(spines).collect(),
            hosts: plan.hosts(),
            links: fabric.all_links().map(|link| plan.link(link)).collect(),
            disabled: disabled.collect(),
        })
    }
}

/// Seed of the part called `name` of a run with that seed: the name's FNV-1a hash, and both mixed
/// by SplitMix64's finalizer, so that parts draw unrelated numbers and no part's depend on how
/// many others there are.
pub fn seed_of(seed: u64, name: &str) -> u64 {
    let mut state = 0xcbf2_9ce4_8422_2325u64;
    for byte in name.bytes() {
        state = (state ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    let mut z = state.wrapping_add(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
