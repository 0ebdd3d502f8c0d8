//! Any bytes of a primary: they are taken or refused, and no byte is taken twice.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| replication::primary_link::fuzz(data));
