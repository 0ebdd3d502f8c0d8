//! Any options and acknowledgements of a replica: they are taken or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| replication::replica_handshake::fuzz(data));
