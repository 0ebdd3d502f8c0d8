//! The memory of the keys with one prefix, as far as a user's quota limits it.
//!
//! A change of a key counts nothing here. A walk over all keys sums up their sizes again and again, and stores the sum
//! at its end: so the sum is some seconds old, and costs nothing without such a quota.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The memory of the keys with one prefix.
#[derive(Debug)]
pub struct PrefixMemory {
    prefix: Box<[u8]>,
    bytes: AtomicU64,
}

impl PrefixMemory {
    /// Makes the record of a prefix, before the first sum.
    pub fn of(prefix: &[u8]) -> PrefixMemory {
        PrefixMemory { prefix: prefix.into(), bytes: AtomicU64::new(0) }
    }

    /// Returns the prefix.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// Returns the bytes of the keys at the last sum.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Stores a new sum.
    pub fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Relaxed);
    }
}
