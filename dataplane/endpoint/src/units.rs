//! Numbers with a meaning: a connection's place, a link's rate, a path's MTU.
//!
//! Made from plain numbers by whoever reads a configuration; a value that exists is a sound one.

/// The place of a connection in its host: counts from 0 in the order of opening.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct QpId(pub u32);

/// A rate in bits per second, above zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct BitRate(u64);

impl BitRate {
    /// The rate of so many bits per second; `None` for zero.
    pub const fn new(bits_per_second: u64) -> Option<BitRate> {
        if bits_per_second == 0 {
            None
        } else {
            Some(BitRate(bits_per_second))
        }
    }

    /// The rate of so many Gbit/s; zero counts as one.
    pub const fn gbps(gigabits_per_second: u64) -> BitRate {
        let rate = if gigabits_per_second == 0 {
            1
        } else {
            gigabits_per_second
        };
        BitRate(rate * 1_000_000_000)
    }

    /// Bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }
}

/// A path MTU: payload bytes of a full packet, one of the five that IBTA 12.6 has.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct PathMtu(u32);

impl PathMtu {
    /// The largest one.
    pub const MAX: PathMtu = PathMtu(4096);

    /// The MTU of so many bytes: 256, 512, 1024, 2048 or 4096, else `None`.
    pub const fn new(bytes: u32) -> Option<PathMtu> {
        if bytes.is_power_of_two() && bytes >= 256 && bytes <= 4096 {
            Some(PathMtu(bytes))
        } else {
            None
        }
    }

    /// Bytes.
    pub const fn bytes(self) -> u32 {
        self.0
    }

    /// Bytes of so many full packets.
    #[inline]
    pub(crate) const fn times(self, packets: u64) -> u64 {
        packets << self.0.trailing_zeros()
    }

    /// Packets of a message of so many bytes; an empty message is one packet.
    pub const fn packets(self, bytes: u64) -> u64 {
        let packets = bytes.div_ceil(1 << self.0.trailing_zeros());
        if packets == 0 { 1 } else { packets }
    }
}
