//! Packets that other nodes may send to one: must not panic; the node must read the file that it has saved.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cluster::bus::fuzz(data));
