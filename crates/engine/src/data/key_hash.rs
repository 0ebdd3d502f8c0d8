//! The hash of a key: computed once, it says in which slot and shard the key lies, and where in the shard's table.
//!
//! ```text
//!   slot:  13        14-s        0        hash:  63                                            8        0
//!          +---------+-----------+               +---------------------------------------------+--------+
//!          | shard   |           |               | position in the shard's table               |  tag   |
//!          +---------+-----------+               +---------------------------------------------+--------+
//! ```
//!
//! A shard has a row of consecutive [slots](crate::data::slot). Within it keys lie in the order of a seeded hash. The
//! whole keyspace is one line: shards cut it into pieces and a table's buckets cut a shard's piece. A place on that
//! line is what a SCAN cursor is.

use crate::data::slot::{SLOT_BITS, slot_of};
use foldhash::SharedSeed;
use foldhash::quality::SeedableRandomState;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;

/// A key's hash, taken apart: it is made once and asked for its parts several times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyHash {
    slot: u16,
    shard: u16,
    local: u64,
}

impl KeyHash {
    /// Returns the key's slot.
    #[inline]
    pub fn slot(self) -> u16 {
        self.slot
    }

    /// Returns the number of the key's shard.
    #[inline]
    pub fn shard(self) -> usize {
        self.shard as usize
    }

    /// Returns the hash as the table inside of the shard takes it: position above, tag in the low byte.
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

impl KeyHasher {
    /// Makes the hasher of a keyspace of 2^`shard_bits` shards, at most one for each slot.
    pub fn new(seed: u64, shard_bits: u32) -> Self {
        assert!(shard_bits <= SLOT_BITS);
        KeyHasher { state: SeedableRandomState::with_seed(seed, SharedSeed::global_fixed()), shard_bits }
    }

    /// Returns the key's hash.
    #[inline]
    pub fn hash(&self, key: &[u8]) -> KeyHash {
        let slot = slot_of(key);
        KeyHash { slot, shard: slot >> (SLOT_BITS - self.shard_bits), local: self.local_of(key) }
    }

    /// Returns the shard that a slot lies in.
    pub fn shard_of(&self, slot: u16) -> usize {
        usize::from(slot >> (SLOT_BITS - self.shard_bits))
    }

    /// Returns the slots that a shard has.
    pub fn slots_of(&self, shard: usize) -> Range<usize> {
        let bits = SLOT_BITS - self.shard_bits;
        shard << bits..(shard + 1) << bits
    }

    /// Returns the part of the hash that the table inside of the shard takes.
    #[inline]
    pub fn local_of(&self, key: &[u8]) -> u64 {
        let mut hasher = self.state.build_hasher();
        hasher.write(key);
        hasher.finish()
    }

    /// Returns the SCAN cursor of a 48-bit position in a shard's table. Rounded up, which stays within the bucket that
    /// begins there: buckets are far wider than what a cursor leaves out.
    pub fn cursor(&self, shard: usize, position: u64) -> u64 {
        let within = position.div_ceil(1 << self.shard_bits);
        ((shard as u64) << (POSITION_BITS - self.shard_bits)) + within
    }

    /// Returns the shard and the position in it that a cursor stands for; None when it is beyond the last.
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
    use crate::data::slot::SLOTS;
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
    fn hashes_spread_over_shards_and_tags() {
        let hasher = KeyHasher::new(7, 4);
        let (mut seen, mut tags) = ([0; 16], [0; 256]);
        for n in 0..16_000u32 {
            let hash = hasher.hash(&n.to_le_bytes());
            seen[hash.shard()] += 1;
            tags[(hash.local() & 0xFF) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (800..1200).contains(count)), "{seen:?}");
        assert!(tags.iter().all(|count| (20..120).contains(count)), "{tags:?}");
    }

    #[test]
    fn consecutive_slots_lie_in_a_shard() {
        for bits in [0, 3, 10, 14] {
            let hasher = KeyHasher::new(1, bits);
            for n in 0..1000u32 {
                let name = n.to_le_bytes();
                let hash = hasher.hash(&name);
                assert_eq!(hash.slot(), slot_of(&name));
                assert_eq!(hash.shard(), usize::from(hash.slot()) * (1 << bits) / SLOTS);
                assert_eq!((hash.shard(), hash.local()), (hasher.shard_of(hash.slot()), hasher.local_of(&name)));
                assert!(hasher.slots_of(hash.shard()).contains(&hash.slot().into()));
            }
        }
    }

    #[test]
    fn one_shard_takes_every_key() {
        let hasher = KeyHasher::new(7, 0);
        assert!((0..100u8).all(|n| hasher.hash(&[n]).shard() == 0));
        assert_eq!(hasher.place(0), Some((0, 0)));
    }
}
