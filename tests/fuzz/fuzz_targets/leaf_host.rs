//! A leaf's host port: no packet is lost, nothing panics.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::feed(0, 0, data));
