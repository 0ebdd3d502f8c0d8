//! The hash of a field or a member inside of a collection.
//!
//! It is seeded once for the process, so that clients cannot aim for one bucket. Nothing lasting may depend on it:
//! orders and cursors that derive from it mean something to this process only.

use crate::hashtable::HashTable;
use crate::tagged_pointer::TaggedPointer;
use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::OnceLock;

/// Returns 64 bits, of which the hash table takes the upper 48 as the position and the lower 8 as the tag.
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

/// Members that are prefetched together.
const BATCH: usize = 16;

/// Prefetches the memory that lookups of the first [`BATCH`] of these members will read: all buckets first, so that the
/// entries' addresses can be read from them without waiting for each.
pub(crate) fn prefetch<'a, T: TaggedPointer>(table: &HashTable<T>, members: impl Iterator<Item = &'a [u8]>) {
    let mut hashes = [0; BATCH];
    let mut count = 0;
    for (slot, member) in hashes.iter_mut().zip(members) {
        *slot = member_hash(member);
        table.prefetch(*slot);
        count += 1;
    }
    hashes[..count].iter().for_each(|hash| table.prefetch_entry(*hash));
}
