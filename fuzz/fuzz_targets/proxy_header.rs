//! Bytes that a proxy may have sent: must not panic; only the header is taken.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| resp::proxy_header::fuzz(data));
