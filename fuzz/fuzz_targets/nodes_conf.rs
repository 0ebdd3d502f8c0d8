//! Any bytes as `nodes.conf`: must not panic; an accepted file is written so that it is read as the same.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cluster::conf::fuzz(data));
