//! What a proxy may have sent: must not panic, nor take more than the header.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| resp::proxy_header::fuzz(data));
