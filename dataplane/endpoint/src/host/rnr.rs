//! How long a sender waits for a receiver without receive requests.

/// Waits of the timer codes, in units of 10 us (IBTA volume 1, table 45).
const TENS_OF_US: [u32; 32] = [
    65_536, 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1_024,
    1_536, 2_048, 3_072, 4_096, 6_144, 8_192, 12_288, 16_384, 24_576, 32_768, 49_152,
];

/// The wait of a timer code, 0 to 31, in nanoseconds.
pub(super) fn wait_ns(code: u8) -> u64 {
    u64::from(TENS_OF_US[usize::from(code & 31)]) * 10_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_those_of_the_table() {
        assert_eq!(wait_ns(0), 655_360_000);
        assert_eq!((wait_ns(1), wait_ns(12)), (10_000, 640_000));
        assert_eq!(wait_ns(31), 491_520_000);
    }
}
