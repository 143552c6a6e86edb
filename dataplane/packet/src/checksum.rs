//! The Internet checksum (RFC 1071): whole, over a pseudo-header, and mended in place (RFC 1624).

use crate::{Address, be};

/// Adds `bytes`, at most 65,535 of them, to a running sum; an odd last byte is padded with zero.
pub fn add(sum: u32, bytes: &[u8]) -> u32 {
    let pairs = bytes.chunks_exact(2);
    let odd = match pairs.remainder() {
        [last] => u32::from(*last) << 8,
        _ => 0,
    };
    // Folded, so that a sum of several parts cannot overflow.
    let sum = fold(sum) + pairs.map(|pair| u32::from(be::get16(pair, 0))).sum::<u32>() + odd;
    fold(sum)
}

/// The sum of IPv6's pseudo-header (RFC 8200, 8.1) for `len` bytes of `protocol`.
pub fn pseudo_v6(source: Address, destination: Address, len: usize, protocol: u8) -> u32 {
    let sum = add(0, &source.0.to_be_bytes());
    let sum = add(sum, &destination.0.to_be_bytes());
    let sum = add(sum, &(len as u32).to_be_bytes());
    sum + u32::from(protocol)
}

/// The checksum of a running sum.
pub fn finish(sum: u32) -> u16 {
    !(fold(sum) as u16)
}

/// `checksum` after a 16-bit word under it changed from `old` to `new` (RFC 1624, equation 3). One
/// that was wrong stays wrong by the same amount.
#[inline]
pub fn mend(checksum: u16, old: u16, new: u16) -> u16 {
    finish(u32::from(!checksum) + u32::from(!old) + u32::from(new))
}

fn fold(sum: u32) -> u32 {
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum & 0xffff) + (sum >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A mended checksum is the one that is counted anew, for any change of one word.
        #[test]
        fn mending_agrees_with_counting_anew(
            mut bytes in proptest::collection::vec(any::<u8>(), 2..200), place in any::<usize>(), new: u16,
        ) {
            let at = place % (bytes.len() / 2) * 2;
            let before = finish(add(0, &bytes));
            let old = be::get16(&bytes, at);
            be::put16(&mut bytes, at, new);
            let (mended, whole) = (mend(before, old, new), finish(add(0, &bytes)));
            // 0 and 0xffff are one number in ones' complement.
            prop_assert!(mended == whole || mended ^ whole == 0xffff && (mended == 0 || whole == 0));
        }
    }

    /// The example of RFC 1071, section 3.
    #[test]
    fn the_example_of_the_rfc() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(finish(add(0, &bytes)), !0xddf2);
        assert_eq!(
            finish(add(0, &[0xab])),
            !0xab00,
            "an odd byte is the high half"
        );
        assert_eq!(
            finish(add(0, &[0xff; 65_535])),
            !(0xff00),
            "the longest input does not overflow"
        );
    }
}
