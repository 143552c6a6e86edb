//! What `bench` measures: the role a switch is measured in, and under which conditions.

use serde::{Deserialize, Serialize};

/// A role of a switch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BenchCase {
    /// Host to uplinks: route, JSQ(2), mark, queue, shape.
    LeafSource,
    /// Uplink to host: count, last PSN, clear the mark.
    LeafDestination,
    /// Leaf to leaf.
    Spine,
    /// Host to uplinks, nothing but IP and UDP: route and hash.
    PlainIp,
}

impl BenchCase {
    /// All of them, in the order in which they are measured.
    pub const ALL: [BenchCase; 4] = [
        BenchCase::LeafSource,
        BenchCase::LeafDestination,
        BenchCase::Spine,
        BenchCase::PlainIp,
    ];

    /// As it is typed.
    pub const fn name(self) -> &'static str {
        match self {
            BenchCase::LeafSource => "leaf-source",
            BenchCase::LeafDestination => "leaf-destination",
            BenchCase::Spine => "spine",
            BenchCase::PlainIp => "plain-ip",
        }
    }

    /// The case of such a name.
    pub fn of(name: &str) -> Option<BenchCase> {
        BenchCase::ALL.into_iter().find(|case| case.name() == name)
    }
}

/// The smallest and the largest frame that can be measured, in bytes without FCS.
pub const FRAME_BYTES: std::ops::RangeInclusive<u32> = 64..=9000;
/// The smallest and the largest burst.
pub const BURST: std::ops::RangeInclusive<u16> = 1..=64;
/// The fewest and the most flows: as many as a leaf's flow table has rows.
pub const FLOWS: std::ops::RangeInclusive<u32> = 1..=4096;
/// Lcores that can be measured at once: 32 ports are all that DPDK has, and each takes nine.
pub const LCORES_MAX: u32 = 3;
/// Samples of each figure; the median is told.
pub const SAMPLES: u32 = 5;
