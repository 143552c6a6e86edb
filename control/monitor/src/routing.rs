//! Whether a convicted link should be taken out of the routing tables, and how many may be.
//!
//! A link that is out leaves fewer spines to every pair of leaves whose paths lead over it. A link is proposed
//! only if each of these pairs keeps a set share of the fabric's spines: a fabric that loses packets on one
//! link is better than one without capacity. Links that were refused are looked at again when another comes
//! back. Pure; the engine asks, and tells or applies what comes of it.

use std::collections::BTreeSet;

use detector::{Fabric, LeafId, Link, SpineId};

/// What to do about a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proposal {
    /// Take it out: every pair keeps at least so many spines.
    Take {
        /// The fewest spines of a pair over it afterwards.
        left: u16,
    },
    /// Leave it in: a pair would keep fewer than the limit.
    Keep {
        /// The fewest spines that a pair would have.
        left: u16,
    },
}

/// The links that are out.
#[derive(Clone, Debug)]
pub struct Routing {
    fabric: Fabric,
    least: u16,
    out: BTreeSet<Link>,
}

impl Routing {
    /// All links in; every pair of leaves keeps `share` of the spines.
    pub fn new(fabric: Fabric, share: f64) -> Routing {
        let least = (share.clamp(0.0, 1.0) * f64::from(fabric.spines)).ceil() as u16;
        Routing {
            fabric,
            // The last spine of a pair is never taken.
            least: least.max(1),
            out: BTreeSet::new(),
        }
    }

    /// What to do about a link; if it is to be taken out, it counts as out from now on.
    pub fn propose(&mut self, link: Link) -> Proposal {
        self.out.insert(link);
        let left = self.fewest(link);
        if left < self.least {
            self.out.remove(&link);
            return Proposal::Keep { left };
        }
        Proposal::Take { left }
    }

    /// The link is in again.
    pub fn put_back(&mut self, link: Link) {
        self.out.remove(&link);
    }

    /// Whether the link is out.
    pub fn is_out(&self, link: Link) -> bool {
        self.out.contains(&link)
    }

    /// Spines that every pair of leaves keeps.
    pub fn least(&self) -> u16 {
        self.least
    }

    /// The fewest spines of a pair of leaves whose paths lead over the link.
    fn fewest(&self, link: Link) -> u16 {
        let others = (0..self.fabric.leaves)
            .map(LeafId)
            .filter(|&leaf| leaf != link.leaf());
        let usable = |src: LeafId, dst: LeafId| {
            let is_usable = |spine: &SpineId| {
                let spine = *spine;
                !self.is_out(Link::Up { leaf: src, spine })
                    && !self.is_out(Link::Down { spine, leaf: dst })
            };
            (0..self.fabric.spines)
                .map(SpineId)
                .filter(is_usable)
                .count() as u16
        };
        let counts = others.map(|far| match link {
            Link::Up { leaf, .. } => usable(leaf, far),
            Link::Down { leaf, .. } => usable(far, leaf),
        });
        counts.min().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn link(name: &str) -> Link {
        name.parse().unwrap()
    }

    /// Goal: with three quarters of 8 spines two may go from a pair, wherever they are, and not a third.
    #[test]
    fn the_limit_is_of_pairs() {
        let fabric = Fabric {
            leaves: 4,
            spines: 8,
        };
        let mut routing = Routing::new(fabric, 0.75);
        assert_eq!(
            routing.propose(link("leaf0>spine1")),
            Proposal::Take { left: 7 }
        );
        assert_eq!(
            routing.propose(link("spine2>leaf3")),
            Proposal::Take { left: 6 }
        );
        // From leaf0 to leaf3 it would be the third; from leaf1 to leaf3 the second.
        assert_eq!(
            routing.propose(link("leaf0>spine3")),
            Proposal::Keep { left: 5 }
        );
        assert_eq!(
            routing.propose(link("leaf1>spine3")),
            Proposal::Take { left: 6 }
        );
        // The same spine again costs nothing more.
        assert_eq!(
            routing.propose(link("leaf0>spine2")),
            Proposal::Take { left: 6 }
        );
        routing.put_back(link("spine2>leaf3"));
        assert_eq!(
            routing.propose(link("spine1>leaf3")),
            Proposal::Take { left: 6 }
        );
    }

    proptest! {
        /// Goal: whatever is proposed and put back, every pair keeps its spines, and at least one.
        #[test]
        fn every_pair_keeps_its_spines(
            steps in proptest::collection::vec((0..48usize, any::<bool>()), 1..80), share in 0.0..=1.0f64,
        ) {
            let fabric = Fabric { leaves: 4, spines: 6 };
            let mut routing = Routing::new(fabric, share);
            let links: Vec<Link> = fabric.all_links().collect();
            for (index, back) in steps {
                if back {
                    routing.put_back(links[index]);
                } else {
                    routing.propose(links[index]);
                }
                let fewest = links.iter().map(|&l| routing.fewest(l)).min().unwrap();
                prop_assert!(fewest >= routing.least() && fewest >= 1, "{fewest} of {}", routing.least());
            }
        }
    }
}
