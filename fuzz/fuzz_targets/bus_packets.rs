//! Packets that another node may have sent: must not panic; a packet that is written again must read the same.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cluster::packet::fuzz(data));
