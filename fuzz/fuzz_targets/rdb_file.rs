//! A whole RDB file of any bytes: an error, or keys that are no more than the bytes allow.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| persistence::load::fuzz(data));
