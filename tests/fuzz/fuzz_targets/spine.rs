//! A spine's port to a leaf: no packet is lost, nothing panics.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::feed(3, 0, data));
