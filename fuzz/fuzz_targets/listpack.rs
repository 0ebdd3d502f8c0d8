//! Bytes from elsewhere as a listpack: must not panic; what passes can be read from both ends and changed.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| structures::listpack::fuzz(data));
