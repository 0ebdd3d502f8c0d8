//! Bytes from elsewhere as an intset: must not panic; an accepted intset is sorted and can be changed.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| structures::intset::fuzz(data));
