//! Bytes from elsewhere as a listpack: must not panic; an accepted listpack can be read from both ends and changed.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| structures::listpack::fuzz(data));
