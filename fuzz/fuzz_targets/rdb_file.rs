//! Any bytes as a whole RDB file: an error, or no more keys than the bytes allow.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| persistence::load::fuzz(data));
