//! Bytes of a client without TLS, and a TLS client's bytes with one changed: must not panic, and must not yield
//! plaintext that was not sent.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| cinnabar_tls::records::fuzz(data));
