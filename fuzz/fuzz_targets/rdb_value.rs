//! A value as RESTORE takes it, without its checksum: an error, or a value that is written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| persistence::dump::fuzz(data));
