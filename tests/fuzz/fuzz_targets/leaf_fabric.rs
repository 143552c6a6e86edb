//! A leaf's port to a spine: no packet is lost, nothing panics.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::feed(1, 1, data));
