//! Lines as rules of a user: must not panic, and a user's description must make the same user.

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| engine::acl::user::fuzz(data));
