//! What may be in `nodes.conf`: must not panic; what is accepted is written so that it is read as the same.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cluster::conf::fuzz(data));
