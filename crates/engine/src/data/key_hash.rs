//! The hash of a key: computed once, it picks the shard and the bucket.
//!
//! ```text
//!   63          64-s                                        8        0
//!   +-----------+-------------------------------------------+--------+
//!   | shard (s) | position in the shard's table             |  tag   |
//!   +-----------+-------------------------------------------+--------+
//! ```
//!
//! The whole keyspace is one line in hash order: shards cut it into equal pieces and a table's buckets
//! cut a shard's piece. A place on that line is what a SCAN cursor is.

use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use std::hash::{BuildHasher, Hasher};

/// A key's hash, taken apart: it is made once and asked for its parts several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash {
    shard: u32,
    local: u64,
}

impl KeyHash {
    /// The number of the key's shard.
    #[inline]
    pub fn shard(self) -> usize {
        self.shard as usize
    }

    /// The hash as the table inside of the shard takes it: position above, tag in the low byte.
    #[inline]
    pub fn local(self) -> u64 {
        self.local
    }
}

/// Hashes keys under a secret seed, so that clients cannot aim for one bucket.
#[derive(Clone)]
pub struct KeyHasher {
    state: SeedableRandomState,
    shard_bits: u32,
}

const TAG: u64 = 0xFF;

impl KeyHasher {
    /// `shard_bits`: the keyspace has 2^shard_bits shards, at most 2^12.
    pub fn new(seed: u64, shard_bits: u32) -> Self {
        assert!(shard_bits <= 12);
        KeyHasher { state: SeedableRandomState::with_seed(seed, SharedSeed::global_fixed()), shard_bits }
    }

    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        let mut hasher = self.state.build_hasher();
        hasher.write(key);
        let hash = hasher.finish();
        KeyHash {
            // Two shifts, because one by 64 is undefined for a single shard.
            shard: (hash >> 1 >> (63 - self.shard_bits)) as u32,
            local: hash << self.shard_bits & !TAG | hash & TAG,
        }
    }

    #[inline]
    pub fn local_of(&self, key: &[u8]) -> u64 {
        self.hash(key).local()
    }

    /// The SCAN cursor of a 48-bit position in a shard's table. Rounded up, which stays within the bucket that
    /// begins there: buckets are far wider than what a cursor leaves out.
    pub fn cursor(&self, shard: usize, position: u64) -> u64 {
        let within = position.div_ceil(1 << self.shard_bits);
        ((shard as u64) << (POSITION_BITS - self.shard_bits)) + within
    }

    /// The shard and the position in it that a cursor stands for; None when it is beyond the last.
    pub fn place(&self, cursor: u64) -> Option<(usize, u64)> {
        let within_bits = POSITION_BITS - self.shard_bits;
        let shard = cursor >> within_bits;
        let within = cursor & ((1 << within_bits) - 1);
        (shard < 1 << self.shard_bits).then_some((shard as usize, within << self.shard_bits))
    }
}

/// Bits of a hash that tell a place in the keyspace.
const POSITION_BITS: u32 = 48;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cursors_lead_back_to_their_place(bits in 0u32..=10, shard: usize, position: u64) {
            let hasher = KeyHasher::new(1, bits);
            let shard = shard % (1 << bits);
            let position = position >> 17;
            let (back_shard, back) = hasher.place(hasher.cursor(shard, position)).unwrap();
            prop_assert_eq!(back_shard, shard);
            prop_assert!(back >= position && back - position < 1 << bits);
        }
    }

    #[test]
    fn a_hash_spreads_over_shards_and_keeps_its_tag() {
        let hasher = KeyHasher::new(7, 4);
        let (mut seen, mut tags) = ([0; 16], [0; 256]);
        for n in 0..16_000u32 {
            let hash = hasher.hash(&n.to_le_bytes());
            seen[hash.shard()] += 1;
            tags[(hash.local() & TAG) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
        assert!(tags.iter().all(|count| (20..120).contains(count)), "{tags:?}");
    }

    #[test]
    fn one_shard_takes_every_key() {
        let hasher = KeyHasher::new(7, 0);
        assert!((0..100u8).all(|n| hasher.hash(&[n]).shard() == 0));
        assert_eq!(hasher.place(0), Some((0, 0)));
    }
}
