//! What another node may have sent: must not panic; what is a packet reads the same when it is written again.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cluster::packet::fuzz(data));
