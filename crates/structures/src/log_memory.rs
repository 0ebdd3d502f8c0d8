//! The memory that a log's blocks take up: each has a share, which is released when its last reader goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The sum of all shares.
#[derive(Debug, Default)]
pub struct LogMemory(AtomicU64);

impl LogMemory {
    /// Returns the bytes that are taken up.
    pub fn bytes(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Adds a share of so many bytes.
    pub(crate) fn take(self: &Arc<Self>, bytes: u64) -> MemoryShare {
        self.0.fetch_add(bytes, Relaxed);
        MemoryShare { bytes, sum: Arc::clone(self) }
    }
}

/// A block's share.
pub(crate) struct MemoryShare {
    bytes: u64,
    sum: Arc<LogMemory>,
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.sum.0.fetch_sub(self.bytes, Relaxed);
    }
}
