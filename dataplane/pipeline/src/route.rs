//! Longest-prefix routes of a two-tier fabric: to a local host, or to the leaf that has it.
//!
//! A fabric has few prefix lengths (hosts, leaf prefixes), so a lookup is one hashed probe per
//! length, longest first; the table is built once and read by the packet path. Packets of a flow
//! follow each other, so most lookups end at what was found last for such an address.

use std::cell::Cell;
use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use packet::Address;

use crate::types::{LeafId, SpineId};

/// An address prefix. IPv4 prefixes have lengths 96 to 128 here, as their mapped form.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Prefix {
    address: Address,
    len: u8,
}

impl Prefix {
    /// The prefix of the one address.
    pub fn host(address: Address) -> Prefix {
        Prefix { address, len: 128 }
    }

    /// Whether `address` lies in it.
    #[inline(always)]
    pub fn contains(&self, address: Address) -> bool {
        mask(address, self.len) == self.address.0
    }

    /// Whether all of `other` lies in it.
    pub fn covers(&self, other: &Prefix) -> bool {
        self.len <= other.len && self.contains(other.address)
    }

    /// Whether it shares an address with `other`.
    pub fn overlaps(&self, other: &Prefix) -> bool {
        let len = self.len.min(other.len);
        mask(self.address, len) == mask(other.address, len)
    }
}

#[inline(always)]
fn mask(address: Address, len: u8) -> u128 {
    if len == 0 {
        0
    } else {
        address.0 & (u128::MAX << (128 - u32::from(len)))
    }
}

impl FromStr for Prefix {
    type Err = String;

    fn from_str(text: &str) -> Result<Prefix, String> {
        let wrong = |why: &str| {
            format!("\"{text}\" is no prefix ({why}); write it like 10.0.3.0/24 or fd00:3::/64")
        };
        let (address, len) = text.split_once('/').unwrap_or((text, ""));
        let address: IpAddr = address
            .parse()
            .map_err(|_| wrong("no IP address before the slash"))?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let len: u8 = if len.is_empty() {
            most
        } else {
            len.parse()
                .map_err(|_| wrong("no length after the slash"))?
        };
        if len > most {
            return Err(wrong("the length is beyond the address"));
        }
        let len = len + (128 - most);
        let address = Address::from(address);
        if mask(address, len) != address.0 {
            return Err(wrong("bits are set behind the length"));
        }
        Ok(Prefix { address, len })
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = if self.address.as_v4().is_some() && self.len >= 96 {
            self.len - 96
        } else {
            self.len
        };
        write!(f, "{}/{len}", self.address)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Where a packet goes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextHop {
    /// A host of this leaf, by its place in the host table.
    Host(u16),
    /// A host port that owns the prefix: whoever of it is there is learned.
    Port(u16),
    /// A spine itself, from a leaf: its own address.
    Spine(SpineId),
    /// A leaf (from a leaf: over a spine; from a spine: down).
    Leaf(LeafId),
}

/// One route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// What it covers.
    pub prefix: Prefix,
    /// Where that goes.
    pub next: NextHop,
}

/// Addresses whose routes are remembered, by a hash of theirs: 8 KiB.
const RECENT: usize = 256;

/// All routes of a switch. A table never changes, so what was found once stays right: other routes are
/// another table ([`crate::change`]).
#[derive(Clone, Debug)]
pub struct RouteTable {
    lengths: Vec<Length>,
    recent: Box<[Cell<Found>; RECENT]>,
}

/// What was found for an address.
type Found = (u128, Option<NextHop>);

/// A well-mixed number below 2^bits of an address or prefix, 64 - bits being `shift`. They differ in
/// few bits anywhere; one multiplication carries them all to the top (Knuth 6.4).
#[inline(always)]
fn place_of(key: u128, shift: u32) -> usize {
    let folded = key as u64 ^ ((key >> 64) as u64).rotate_left(23);
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> shift) as usize
}

/// The routes of one prefix length: an open-addressing table, at most half full.
#[derive(Clone, Debug)]
struct Length {
    mask: u128,
    shift: u32,
    slots: Vec<Option<(u128, NextHop)>>,
}

impl Length {
    #[inline(always)]
    fn home(&self, key: u128) -> usize {
        place_of(key, self.shift)
    }

    #[inline(always)]
    fn get(&self, address: Address) -> Option<NextHop> {
        let key = address.0 & self.mask;
        let mut at = self.home(key);
        while let Some((found, next)) = self.slots[at] {
            if found == key {
                return Some(next);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
        None
    }
}

impl RouteTable {
    /// The leaf that an address is behind, if it is another leaf.
    pub fn leaf_of(&self, address: Address) -> Option<LeafId> {
        match self.lookup(address) {
            Some(NextHop::Leaf(leaf)) => Some(leaf),
            Some(NextHop::Host(_) | NextHop::Port(_) | NextHop::Spine(_)) | None => None,
        }
    }

    /// Builds the table; of two routes with one prefix the first counts.
    pub fn new(routes: &[Route]) -> RouteTable {
        let mut lens: Vec<u8> = routes.iter().map(|r| r.prefix.len).collect();
        lens.sort_unstable_by(|a, b| b.cmp(a));
        lens.dedup();
        let lengths = lens
            .into_iter()
            .map(|len| {
                let of_len: Vec<&Route> = routes.iter().filter(|r| r.prefix.len == len).collect();
                let capacity = (of_len.len() * 2).next_power_of_two().max(2);
                let mut table = Length {
                    mask: mask(Address(u128::MAX), len),
                    shift: 64 - capacity.trailing_zeros(),
                    slots: vec![None; capacity],
                };
                for route in of_len {
                    let key = route.prefix.address.0;
                    let mut at = table.home(key);
                    while table.slots[at].is_some_and(|(found, _)| found != key) {
                        at = (at + 1) & (capacity - 1);
                    }
                    if table.slots[at].is_none() {
                        table.slots[at] = Some((key, route.next));
                    }
                }
                table
            })
            .collect();
        let none = Address(0);
        let table = RouteTable {
            lengths,
            recent: Box::new([const { Cell::new((0, None)) }; RECENT]),
        };
        let next = table.search(none);
        table.recent.iter().for_each(|at| at.set((none.0, next)));
        table
    }

    /// The longest match.
    #[inline(always)]
    pub fn lookup(&self, address: Address) -> Option<NextHop> {
        let recent = &self.recent[place_of(address.0, 64 - RECENT.trailing_zeros()) % RECENT];
        let (found, next) = recent.get();
        if found == address.0 {
            return next;
        }
        let next = self.search(address);
        recent.set((address.0, next));
        next
    }

    #[inline(never)]
    fn search(&self, address: Address) -> Option<NextHop> {
        self.lengths.iter().find_map(|length| length.get(address))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn route(prefix: &str, leaf: u16) -> Route {
        Route {
            prefix: prefix.parse().unwrap(),
            next: NextHop::Leaf(LeafId(leaf)),
        }
    }

    #[test]
    fn the_longest_prefix_wins() {
        let table = RouteTable::new(&[
            route("10.0.0.0/8", 1),
            route("10.0.3.0/24", 2),
            route("10.0.3.7", 3),
            route("fd00::/16", 4),
            route("0.0.0.0/0", 5),
        ]);
        for (address, leaf) in [
            ("10.9.9.9", 1),
            ("10.0.3.1", 2),
            ("10.0.3.7", 3),
            ("fd00::1", 4),
            ("11.0.0.1", 5),
        ] {
            let address = Address::from(address.parse::<IpAddr>().unwrap());
            assert_eq!(
                table.lookup(address),
                Some(NextHop::Leaf(LeafId(leaf))),
                "{address}"
            );
        }
        assert_eq!(
            table.lookup(Address::from("fe80::1".parse::<IpAddr>().unwrap())),
            None
        );
        assert_eq!(RouteTable::new(&[]).lookup(Address(0)), None);
    }

    #[test]
    fn prefixes_are_read_strictly() {
        for text in [
            "10.0.3.0/24",
            "0.0.0.0/0",
            "fd00:3::/64",
            "::/0",
            "10.0.0.1/32",
        ] {
            assert_eq!(text.parse::<Prefix>().unwrap().to_string(), text);
        }
        for wrong in [
            "10.0.3.1/24",
            "10.0.3.0/33",
            "fd00::/129",
            "10.0.3/24",
            "/24",
            "10.0.3.0/x",
        ] {
            assert!(
                wrong.parse::<Prefix>().is_err(),
                "{wrong:?} was taken for a prefix"
            );
        }
    }

    proptest! {
        /// The table agrees with the definition: a scan for the longest prefix that contains it.
        #[test]
        fn agrees_with_a_scan(
            prefixes in proptest::collection::vec((any::<u16>(), 8u8..=32), 1..40), asked in any::<u16>(),
        ) {
            let routes: Vec<Route> = prefixes.iter().enumerate().map(|(i, &(bits, len))| {
                let number = 0x0a00_0000 | u32::from(bits) << 4;
                let address = Address::v4(number & (u32::MAX << (32 - u32::from(len))));
                Route { prefix: Prefix { address, len: len + 96 }, next: NextHop::Leaf(LeafId(i as u16)) }
            }).collect();
            let address = Address::v4(0x0a00_0000 | u32::from(asked) << 4);
            let mut best: Option<&Route> = None;
            for r in routes.iter().filter(|r| r.prefix.contains(address)) {
                if best.is_none_or(|b| r.prefix.len > b.prefix.len) { best = Some(r); }
            }
            prop_assert_eq!(RouteTable::new(&routes).lookup(address), best.map(|r| r.next));
        }
    }
}
