//! Big-endian numbers in byte slices. The caller has checked the length.

/// The 16 bits at `at`.
#[inline(always)]
pub fn get16(bytes: &[u8], at: usize) -> u16 {
    let mut word = [0; 2];
    word.copy_from_slice(&bytes[at..at + 2]);
    u16::from_be_bytes(word)
}

/// The 32 bits at `at`.
#[inline(always)]
pub fn get32(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_be_bytes(word)
}

/// Writes 16 bits at `at`.
#[inline(always)]
pub fn put16(bytes: &mut [u8], at: usize, number: u16) {
    bytes[at..at + 2].copy_from_slice(&number.to_be_bytes());
}

/// Writes 32 bits at `at`.
#[inline(always)]
pub fn put32(bytes: &mut [u8], at: usize, number: u32) {
    bytes[at..at + 4].copy_from_slice(&number.to_be_bytes());
}
