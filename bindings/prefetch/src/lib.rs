//! Asks the CPU for cache lines ahead of their use.
//!
//! For loops that know what comes next, such as the simulator's: a line that is asked for early
//! arrives while other work is done. It changes nothing but speed. On CPUs for which stable Rust
//! knows no such instruction it does nothing.

/// Asks for the cache line in which `of` begins.
#[inline(always)]
pub fn line<T: ?Sized>(of: &T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let at: *const i8 = std::ptr::from_ref(of).cast();
        // SAFETY: a prefetch reads nothing and faults nowhere; SSE is part of x86-64.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(at) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = of;
}

/// Asks for the first `lines` cache lines of 64 bytes of `of`, as far as it reaches.
#[inline(always)]
pub fn lines(of: &[u8], lines: usize) {
    for place in 0..lines {
        if let Some(byte) = of.get(place * 64) {
            line(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    /// Goal: asking changes nothing and is allowed for whatever there is.
    #[test]
    fn asking_changes_nothing() {
        let values = vec![7u8; 100];
        super::line(&values[99]);
        super::line(&[0u8; 0][..]);
        super::lines(&values, 5);
        assert_eq!(values, vec![7u8; 100]);
    }
}
