//! Which lcore a frame belongs to: by its pair of IP addresses and nothing else, so that the
//! announcement of a flow, its packets, its close, and all its fragments meet on one.
//!
//! Used where a device has one queue, or its own hash cannot be trusted to be that of the others.

use packet::ethernet::{self, IPV4, IPV6};

/// Where the addresses begin in an IP header, and how long both are together (RFC 791, 3.1; RFC
/// 8200, 3).
const V4: (usize, usize) = (12, 8);
const V6: (usize, usize) = (8, 32);

/// The lcore, of `count`, that a frame belongs to. What has no IP addresses belongs to the first.
#[inline]
pub fn lcore_of(frame: &[u8], count: usize) -> usize {
    let (at, len) = match ethernet::network(frame) {
        Some((IPV4, at)) => (at + V4.0, V4.1),
        Some((IPV6, at)) => (at + V6.0, V6.1),
        _ => return 0,
    };
    let Some(addresses) = frame.get(at..at + len) else {
        return 0;
    };
    let mut hash = 0x9e37_79b9_7f4a_7c15u64;
    for word in addresses.chunks_exact(8) {
        let word = word
            .iter()
            .fold(0u64, |sum, &byte| sum << 8 | u64::from(byte));
        let product = u128::from(hash ^ word) * 0xa076_1d64_78bd_642f_u128;
        hash = (product as u64) ^ (product >> 64) as u64;
    }
    ((u128::from(hash) * count as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(source: u32, destination: u32, tags: usize, rest: u8) -> Vec<u8> {
        let mut frame = vec![rest; 14 + 4 * tags + 40];
        for tag in 0..tags {
            frame[12 + 4 * tag..14 + 4 * tag].copy_from_slice(&[0x81, 0]);
        }
        let at = 14 + 4 * tags;
        frame[at - 2..at].copy_from_slice(&[8, 0]);
        frame[at + 12..at + 16].copy_from_slice(&source.to_be_bytes());
        frame[at + 16..at + 20].copy_from_slice(&destination.to_be_bytes());
        frame
    }

    /// Goal: a pair of addresses stays together whatever else differs, tags included.
    #[test]
    fn a_pair_stays_together() {
        for pair in 0..64u32 {
            let home = lcore_of(&v4(pair, 7, 0, 0), 3);
            for (tags, rest) in [(0, 9), (1, 1), (2, 77)] {
                assert_eq!(lcore_of(&v4(pair, 7, tags, rest), 3), home);
            }
        }
    }

    /// Goal: pairs are spread evenly, and what is no IP or cut goes to the first.
    #[test]
    fn pairs_are_spread() {
        let mut counts = [0; 4];
        for pair in 0..4000u32 {
            counts[lcore_of(
                &v4(0x0a00_0000 + pair / 64, 0x0a01_0000 + pair % 64, 0, 0),
                4,
            )] += 1;
        }
        assert!(
            counts.iter().all(|&c| (850..1150).contains(&c)),
            "{counts:?}"
        );
        let whole = v4(1, 2, 0, 0);
        for len in 0..34 {
            assert_eq!(lcore_of(&whole[..len], 4), 0);
        }
        let mut v6 = vec![0; 14 + 40];
        v6[12..14].copy_from_slice(&[0x86, 0xdd]);
        let homes: std::collections::BTreeSet<usize> = (0..64)
            .map(|n| {
                v6[14 + 39] = n;
                lcore_of(&v6, 4)
            })
            .collect();
        assert_eq!(homes.len(), 4, "{homes:?}");
    }
}
