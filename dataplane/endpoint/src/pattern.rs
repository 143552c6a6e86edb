//! What payloads are made of: bytes that follow from the connection and the packet's place in it.
//!
//! All hosts share a table of noise; a packet's payload is the slice of it that the
//! destination QPN and the packet's index pick. So filling is a copy and checking a compare, and
//! a payload that went to the wrong packet or connection is seen (but one in 8,192). The index
//! stands for the byte offset: Middle packets carry no address, so it is all that a receiver has.

use packet::Qpn;

/// Slices begin at one of so many bytes.
const STARTS: usize = 8192;
/// Longest payload.
const LEN_MAX: usize = 4096;

static NOISE: [u8; STARTS + LEN_MAX] = noise();

const fn noise() -> [u8; STARTS + LEN_MAX] {
    let mut table = [0; STARTS + LEN_MAX];
    let mut at = 0;
    while at < table.len() {
        // splitmix64 (Steele, Lea and Flood 2014).
        let state = 0x5370_7261_7943_686bu64
            .wrapping_add((at as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
        table[at] = (mix(state) >> 56) as u8;
        at += 1;
    }
    table
}

/// Places of answers to READs: packet `index` of an answer is at `RESPONSES + index`.
pub(crate) const RESPONSES: u64 = 1 << 39;

/// The immediate data of the message that ends with packet `index` of the connection to
/// `destination`.
pub(crate) fn immediate(destination: Qpn, index: u64) -> u32 {
    mix(index << 24 | u64::from(destination.0 & 0x00ff_ffff)) as u32
}

/// The payload of packet `index` of the connection to `destination`; `len` up to 4,096.
#[inline]
pub(crate) fn payload(destination: Qpn, index: u64, len: usize) -> &'static [u8] {
    let key = index << 24 | (destination.0 & 0x00ff_ffff) as u64;
    let start = (mix(key) >> 51) as usize;
    &NOISE[start..start + len]
}

/// The finalizer of splitmix64.
#[inline]
pub(crate) const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: payloads of different places differ.
    #[test]
    fn places_have_payloads_of_their_own() {
        let mut equal = 0;
        for index in 0..4096 {
            let here = payload(Qpn(17), index, 4096);
            equal += usize::from(here == payload(Qpn(17), index + 1, 4096));
            equal += usize::from(here == payload(Qpn(18), index, 4096));
        }
        assert!(equal <= 4, "{equal} of 8,192 pairs look alike");
    }
}
