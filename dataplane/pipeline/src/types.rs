//! Numbers with a meaning, and sets of leaves and spines.

use std::fmt;

use packet::{Address, Qpn, Space};

/// Most leaves or spines of a fabric: a set of them is one `u128`.
pub const FANOUT_MAX: usize = packet::message::FANOUT_MAX;

/// A point in the driver's time, in nanoseconds from its start; never goes back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Nanos(pub u64);

impl Nanos {
    /// Later than every point that is reached.
    pub const NEVER: Nanos = Nanos(u64::MAX);

    /// This point and `nanos` more.
    #[inline(always)]
    pub const fn plus(self, nanos: u64) -> Nanos {
        Nanos(self.0.saturating_add(nanos))
    }
}

/// A port of one switch, by its place in the configuration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PortId(pub u16);

impl PortId {
    /// As an index.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A leaf of the fabric.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct LeafId(pub u16);

/// A spine of the fabric.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SpineId(pub u16);

impl LeafId {
    /// As an index.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl SpineId {
    /// As an index.
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
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

/// A set of indices below [`FANOUT_MAX`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Set(pub u128);

/// A set of spines.
pub type SpineSet = Set;
/// A set of leaves.
pub type LeafSet = Set;

impl Set {
    /// Nothing.
    pub const EMPTY: Set = Set(0);

    /// The indices `0..count`.
    pub const fn first(count: usize) -> Set {
        if count >= FANOUT_MAX {
            Set(u128::MAX)
        } else {
            Set((1 << count) - 1)
        }
    }

    /// Whether `index` is in it.
    #[inline(always)]
    pub const fn has(self, index: usize) -> bool {
        index < FANOUT_MAX && self.0 >> index & 1 == 1
    }

    /// Adds `index`.
    #[inline(always)]
    pub fn insert(&mut self, index: usize) {
        self.0 |= 1 << index;
    }

    /// Takes `index` out.
    #[inline(always)]
    pub fn remove(&mut self, index: usize) {
        self.0 &= !(1 << index);
    }

    /// What is in both.
    #[inline(always)]
    pub const fn and(self, other: Set) -> Set {
        Set(self.0 & other.0)
    }

    /// What is in either.
    #[inline(always)]
    pub const fn or(self, other: Set) -> Set {
        Set(self.0 | other.0)
    }

    /// What is in this one only.
    #[inline(always)]
    pub const fn without(self, other: Set) -> Set {
        Set(self.0 & !other.0)
    }

    /// How many.
    #[inline(always)]
    pub const fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// Whether none.
    #[inline(always)]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The lowest index, if any.
    #[inline(always)]
    pub const fn lowest(self) -> Option<usize> {
        if self.0 == 0 {
            None
        } else {
            Some(self.0.trailing_zeros() as usize)
        }
    }

    /// All indices, rising.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self;
        std::iter::from_fn(move || {
            let index = left.lowest()?;
            left.remove(index);
            Some(index)
        })
    }
}

/// One direction and PSN space of a QP. Both ends of a real QP pair may have the same number, so
/// the addresses belong to the key; and one such pair carries two PSN spaces.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FlowKey {
    /// Sender.
    pub source: Address,
    /// Receiver.
    pub destination: Address,
    /// The receiver's QP.
    pub qpn: Qpn,
    /// Requests or responses.
    pub space: Space,
}

impl FlowKey {
    /// A well-mixed number of the key.
    #[inline(always)]
    pub fn hash(&self) -> u64 {
        mix(&[
            self.source.0 as u64 ^ (self.source.0 >> 64) as u64,
            self.destination.0 as u64 ^ (self.destination.0 >> 64) as u64,
            u64::from(self.qpn.0) << 1 | self.space as u64,
        ])
    }
}

/// Mixes words into one number whose high bits are good (multiply and fold, as in wyhash).
#[inline(always)]
pub(crate) fn mix(words: &[u64]) -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    for &word in words {
        let product = u128::from(state ^ word) * 0xa076_1d64_78bd_642f_u128;
        state = (product as u64) ^ (product >> 64) as u64;
    }
    state
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_hold_every_index() {
        for count in [0, 1, 8, 127, 128] {
            let set = Set::first(count);
            assert_eq!(set.len(), count);
            assert_eq!(
                set.iter().collect::<Vec<_>>(),
                (0..count).collect::<Vec<_>>()
            );
        }
        let mut set = Set::EMPTY;
        set.insert(127);
        assert!(set.has(127) && !set.has(128) && set.lowest() == Some(127));
        set.remove(127);
        assert!(set.is_empty());
    }
}
