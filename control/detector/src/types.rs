//! Names of things in the fabric: leaves, spines, links, paths, and the numbers
//! that identify a measured window.
//!
//! Every other file of this crate, the agent, the monitor and the client use
//! them. A link has one spelling, `leaf3>spine5` or `spine5>leaf3`, printed and
//! parsed here and nowhere else.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Index of a leaf switch, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct LeafId(pub u16);

/// Index of a spine switch, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct SpineId(pub u16);

/// Destination queue pair number, 24 bits on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Qpn(pub u32);

/// Number of a window, counted up by its source leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Epoch(pub u32);

/// A moment, in nanoseconds on the caller's clock (all evidence given to one
/// value of this crate must come from clocks that agree to about a second).
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Nanos(pub u64);

/// One direction of a cable between a leaf and a spine.
///
/// Ordered: all uplinks by (leaf, spine), then all downlinks by (spine, leaf).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Link {
    /// Uplink, leaf to spine.
    Up {
        /// The sending leaf.
        leaf: LeafId,
        /// The receiving spine.
        spine: SpineId,
    },
    /// Downlink, spine to leaf.
    Down {
        /// The sending spine.
        spine: SpineId,
        /// The receiving leaf.
        leaf: LeafId,
    },
}

/// The two links that a packet from leaf `src` to leaf `dst` via `spine` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Path {
    /// Source leaf.
    pub src: LeafId,
    /// Spine in the middle.
    pub spine: SpineId,
    /// Destination leaf.
    pub dst: LeafId,
}

/// Size of a two-tier fabric in which each leaf has one cable to each spine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fabric {
    /// Number of leaves.
    pub leaves: u16,
    /// Number of spines.
    pub spines: u16,
}

/// A name that is no leaf, spine or link.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no {wanted}; write it like `{example}`")]
pub struct NameError {
    name: String,
    wanted: &'static str,
    example: &'static str,
}

/// A path that is none between two different leaves of the fabric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path} is no path of a fabric of {} leaves and {} spines", fabric.leaves, fabric.spines)]
pub struct OutsideFabric {
    /// The path in question.
    pub path: Path,
    /// The fabric it should be in.
    pub fabric: Fabric,
}

impl Path {
    /// The first of its links, `src>spine`.
    pub fn uplink(self) -> Link {
        Link::Up {
            leaf: self.src,
            spine: self.spine,
        }
    }

    /// The second of its links, `spine>dst`.
    pub fn downlink(self) -> Link {
        Link::Down {
            spine: self.spine,
            leaf: self.dst,
        }
    }
}

impl Link {
    /// The spine end.
    pub fn spine(self) -> SpineId {
        match self {
            Link::Up { spine, .. } | Link::Down { spine, .. } => spine,
        }
    }

    /// The leaf end.
    pub fn leaf(self) -> LeafId {
        match self {
            Link::Up { leaf, .. } | Link::Down { leaf, .. } => leaf,
        }
    }
}

impl Fabric {
    /// Directed links: two per leaf and spine.
    pub fn links(self) -> u64 {
        2 * u64::from(self.leaves) * u64::from(self.spines)
    }

    /// Paths between different leaves: leaves * (leaves - 1) * spines, at least 1
    /// so that it can divide.
    pub fn paths(self) -> u64 {
        let leaves = u64::from(self.leaves);
        (leaves * leaves.saturating_sub(1) * u64::from(self.spines)).max(1)
    }

    /// Whether `path` joins two different leaves of this fabric.
    pub fn contains(self, path: Path) -> bool {
        path.src != path.dst
            && path.src.0 < self.leaves
            && path.dst.0 < self.leaves
            && path.spine.0 < self.spines
    }

    /// All directed links, in [`Link`]'s order.
    pub fn all_links(self) -> impl Iterator<Item = Link> {
        let ups = (0..self.leaves).flat_map(move |leaf| {
            (0..self.spines).map(move |spine| Link::Up {
                leaf: LeafId(leaf),
                spine: SpineId(spine),
            })
        });
        let downs = (0..self.spines).flat_map(move |spine| {
            (0..self.leaves).map(move |leaf| Link::Down {
                spine: SpineId(spine),
                leaf: LeafId(leaf),
            })
        });
        ups.chain(downs)
    }
}

/// The index behind `prefix`, in plain decimal without sign or leading zero, so
/// that every switch has exactly one name.
fn index_after(prefix: &str, name: &str) -> Option<u16> {
    let digits = name.strip_prefix(prefix)?;
    let plain = digits.bytes().all(|b| b.is_ascii_digit())
        && (digits.len() == 1 || !digits.starts_with('0'));
    if plain { digits.parse().ok() } else { None }
}

impl fmt::Display for LeafId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "leaf{}", self.0)
    }
}

impl fmt::Display for SpineId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "spine{}", self.0)
    }
}

impl fmt::Display for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Link::Up { leaf, spine } => write!(f, "{leaf}>{spine}"),
            Link::Down { spine, leaf } => write!(f, "{spine}>{leaf}"),
        }
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}>{}>{}", self.src, self.spine, self.dst)
    }
}

impl FromStr for LeafId {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        index_after("leaf", name)
            .map(LeafId)
            .ok_or_else(|| NameError {
                name: name.to_owned(),
                wanted: "leaf",
                example: "leaf3",
            })
    }
}

impl FromStr for SpineId {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        index_after("spine", name)
            .map(SpineId)
            .ok_or_else(|| NameError {
                name: name.to_owned(),
                wanted: "spine",
                example: "spine5",
            })
    }
}

impl FromStr for Link {
    type Err = NameError;

    fn from_str(name: &str) -> Result<Self, NameError> {
        let error = || NameError {
            name: name.to_owned(),
            wanted: "link",
            example: "leaf3>spine5` or `spine5>leaf3",
        };
        let (from, to) = name.split_once('>').ok_or_else(error)?;
        if let (Ok(leaf), Ok(spine)) = (from.parse(), to.parse()) {
            Ok(Link::Up { leaf, spine })
        } else if let (Ok(spine), Ok(leaf)) = (from.parse(), to.parse()) {
            Ok(Link::Down { spine, leaf })
        } else {
            Err(error())
        }
    }
}

impl From<LeafId> for String {
    fn from(leaf: LeafId) -> String {
        leaf.to_string()
    }
}

impl From<SpineId> for String {
    fn from(spine: SpineId) -> String {
        spine.to_string()
    }
}

impl From<Link> for String {
    fn from(link: Link) -> String {
        link.to_string()
    }
}

impl TryFrom<String> for LeafId {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        name.parse()
    }
}

impl TryFrom<String> for SpineId {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        name.parse()
    }
}

impl TryFrom<String> for Link {
    type Error = NameError;

    fn try_from(name: String) -> Result<Self, NameError> {
        name.parse()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: each link has the one spelling of the interface, both ways.
    #[test]
    fn a_link_has_one_spelling() {
        let up = Link::Up {
            leaf: LeafId(3),
            spine: SpineId(5),
        };
        let down = Link::Down {
            spine: SpineId(5),
            leaf: LeafId(3),
        };
        assert_eq!(up.to_string(), "leaf3>spine5");
        assert_eq!(down.to_string(), "spine5>leaf3");
        for link in (Fabric {
            leaves: 12,
            spines: 11,
        })
        .all_links()
        {
            assert_eq!(link.to_string().parse::<Link>(), Ok(link));
        }
        for wrong in [
            "",
            "leaf3",
            "leaf3>leaf4",
            "leaf03>spine5",
            "leaf+3>spine5",
            "leaf3 > spine5",
            "leaf70000>spine1",
            "leaf>spine",
            "leaf3>spine5>leaf4",
        ] {
            assert!(
                wrong.parse::<Link>().is_err(),
                "`{wrong}` was taken for a link"
            );
        }
    }

    /// Goal: JSON carries links as the strings of the interface.
    #[test]
    fn json_of_a_link_is_its_name() {
        let link = Link::Up {
            leaf: LeafId(3),
            spine: SpineId(5),
        };
        let json = serde_json::to_string(&link).expect("a string");
        assert_eq!(json, "\"leaf3>spine5\"");
        assert_eq!(serde_json::from_str::<Link>(&json).expect("parses"), link);
    }

    /// Goal: the numbers that alpha is split over, for the testbed's 8x8 fabric.
    #[test]
    fn an_8x8_fabric_has_128_links_and_448_paths() {
        let fabric = Fabric {
            leaves: 8,
            spines: 8,
        };
        assert_eq!((fabric.links(), fabric.paths()), (128, 448));
        assert_eq!(fabric.all_links().count(), 128);
    }
}
