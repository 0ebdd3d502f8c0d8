//! The hash of a field or a member inside of a collection.
//!
//! It is seeded once for the process, so that clients cannot aim for one bucket. Nothing lasting may depend on it: orders
//! and cursors that derive from it mean something to this process only.

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;

/// 64 bits, of which the hash table takes the upper 48 as the position and the lower 8 as the tag.
#[inline]
pub(crate) fn member_hash(member: &[u8]) -> u64 {
    static STATE: OnceLock<SeedableRandomState> = OnceLock::new();
    let state = STATE.get_or_init(|| {
        let seed = std::hash::RandomState::new().hash_one(0);
        SeedableRandomState::with_seed(seed, SharedSeed::global_fixed())
    });
    let mut hasher = state.build_hasher();
    hasher.write(member);
    hasher.finish()
}
