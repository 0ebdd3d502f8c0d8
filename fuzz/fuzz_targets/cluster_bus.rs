//! What other nodes may send to one: must not panic; what the node saves is read again.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cluster::bus::fuzz(data));
