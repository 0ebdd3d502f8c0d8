//! Bytes from nobody who knows TLS, and a client's of which one is changed: must not panic, nor be taken for what was
//! not sent.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cinnabar_tls::records::fuzz(data));
