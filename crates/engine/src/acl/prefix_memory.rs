//! The memory of keys that begin with something, as far as a user's quota asks for it.
//!
//! Nobody counts while keys change. A walk over all keys sums up what they take, again and again, and puts the sum here
//! at its end: so it is some seconds old, and costs nothing where no quota asks for it.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Of keys that begin with one prefix.
#[derive(Debug)]
pub struct PrefixMemory {
    prefix: Box<[u8]>,
    bytes: AtomicU64,
}

impl PrefixMemory {
    /// Of keys that begin with this; none is known yet.
    pub fn of(prefix: &[u8]) -> PrefixMemory {
        PrefixMemory { prefix: prefix.into(), bytes: AtomicU64::new(0) }
    }

    /// What they begin with.
    pub fn prefix(&self) -> &[u8] {
        &self.prefix
    }

    /// The bytes that they took when they were last summed up.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// They take so many.
    pub fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Relaxed);
    }
}
