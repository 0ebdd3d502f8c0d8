//! Any bytes as a file of the append-only log: commands up to a fault, which take no more memory than the bytes allow.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    persistence::aof::read::fuzz(data);
    persistence::aof::check::fuzz(data);
    persistence::aof::manifest::fuzz(data);
});
