//! When the file is synced, as all threads see it.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

/// When the file is synced (`appendfsync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// The system decides when.
    No,
    /// Once a second, by a thread of its own.
    EverySecond,
    /// Before any client receives the reply to a change.
    Always,
}

/// A policy that any thread may change.
pub(super) struct SharedPolicy(AtomicU8);

impl SharedPolicy {
    pub fn new(policy: Policy) -> SharedPolicy {
        SharedPolicy(AtomicU8::new(policy as u8))
    }

    pub fn set(&self, policy: Policy) {
        self.0.store(policy as u8, Relaxed);
    }

    #[inline]
    pub fn get(&self) -> Policy {
        match self.0.load(Relaxed) {
            0 => Policy::No,
            1 => Policy::EverySecond,
            _ => Policy::Always,
        }
    }
}
