//! A server's bytes into values: must not panic, and must not depend on fragmentation. The first byte chooses how the
//! other bytes are split into reads.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| resp::reply_value::fuzz(data));
