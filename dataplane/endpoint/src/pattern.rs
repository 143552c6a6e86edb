//! What payloads are made of: bytes that follow from the connection and the packet's place in it.
//!
//! Both ends hold the same table of noise; a packet's payload is the slice of it that the
//! destination QPN and the packet's index pick. So filling is a copy and checking a compare, and
//! a payload that went to the wrong packet or connection is seen (but one in 8,192). The index
//! stands for the byte offset: Middle packets carry no address, so it is all that a receiver has.

use packet::Qpn;

/// Slices begin at one of so many bytes.
const STARTS: usize = 8192;
/// Longest payload.
const LEN_MAX: usize = 4096;

/// The table; one per host.
#[derive(Debug)]
pub(crate) struct Pattern {
    noise: Box<[u8]>,
}

impl Pattern {
    pub(crate) fn new() -> Pattern {
        let mut state = 0x5370_7261_7943_686bu64;
        let noise = (0..STARTS + LEN_MAX).map(|_| {
            // splitmix64 (Steele, Lea and Flood 2014).
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            (mix(state) >> 56) as u8
        });
        Pattern {
            noise: noise.collect(),
        }
    }

    /// The payload of packet `index` of the connection to `destination`; `len` up to 4,096.
    #[inline]
    pub(crate) fn payload(&self, destination: Qpn, index: u64, len: usize) -> &[u8] {
        let key = index << 24 | u64::from(destination.0 & 0x00ff_ffff);
        let start = (mix(key) >> 51) as usize;
        &self.noise[start..start + len]
    }
}

/// The finalizer of splitmix64.
#[inline]
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: payloads of different places differ, and those of one place do not.
    #[test]
    fn places_have_payloads_of_their_own() {
        let (ours, theirs) = (Pattern::new(), Pattern::new());
        let mut equal = 0;
        for index in 0..4096 {
            let payload = ours.payload(Qpn(17), index, 4096);
            assert_eq!(payload, theirs.payload(Qpn(17), index, 4096));
            equal += usize::from(payload == ours.payload(Qpn(17), index + 1, 4096));
            equal += usize::from(payload == ours.payload(Qpn(18), index, 4096));
        }
        assert!(equal <= 4, "{equal} of 8,192 pairs look alike");
    }
}
