//! Lines as rules of a user: must not panic, and who is described is who the description makes.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| engine::acl::user::fuzz(data));
