//! What a replica says of itself and of how far it is, in any words: it is taken or refused.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| replication::follower::fuzz(data));
