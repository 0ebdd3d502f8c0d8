//! Maps by numbers that this node gives out itself, so no peer chooses which of them meet.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

pub(super) type ByNumber<V> = HashMap<u64, V, BuildHasherDefault<NumberHasher>>;

/// Hash of one number.
#[derive(Default)]
pub(super) struct NumberHasher(u64);

impl Hasher for NumberHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    #[inline]
    fn write_u64(&mut self, number: u64) {
        // The map takes both the highest and the lowest bits.
        let product = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ product >> 32;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}
