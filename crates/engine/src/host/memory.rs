//! Memory: numbers of the allocator, and requests to it.

use std::io;

/// The allocator.
pub trait Memory: Send + Sync {
    /// Returns the memory in use now.
    fn memory(&self) -> MemoryStats {
        MemoryStats::default()
    }

    /// Returns the bytes in live allocations, as in [`memory`](Self::memory).
    fn allocated(&self) -> u64 {
        0
    }

    /// Returns the bytes that the calling thread has allocated more than it has freed. Called often, so it must be
    /// cheap. Wraps around at zero.
    fn own_allocated(&self) -> u64 {
        0
    }

    /// Returns the pieces of garbage that wait to be freed, and how many have been.
    fn freeing(&self) -> (usize, usize) {
        (0, 0)
    }

    /// Gives memory that the allocator holds back to the system (MEMORY PURGE).
    fn purge_memory(&self) {}

    /// Returns the allocator's long report (MEMORY MALLOC-STATS); None when it has none.
    fn allocator_report(&self) -> Option<String> {
        None
    }

    /// Reads a number of the allocator's by its name, after it has written one there (DEBUG MALLCTL).
    ///
    /// # Errors
    /// The allocator has no number of that name, or refuses the new one.
    fn allocator_number(&self, _name: &str, _new: Option<u64>) -> io::Result<u64> {
        Err(io::ErrorKind::NotFound.into())
    }

    /// Reads a text of the allocator's by its name (DEBUG MALLCTL-STR).
    ///
    /// # Errors
    /// The allocator has no text of that name.
    fn allocator_text(&self, _name: &str) -> io::Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }
}

/// Memory in bytes.
#[derive(Clone, Debug, Default)]
pub struct MemoryStats {
    /// Name and version of the allocator.
    pub allocator: &'static str,
    /// Bytes in live allocations, with what their size classes round them up by.
    pub allocated: u64,
    /// Bytes in pages that hold allocations.
    pub active: u64,
    /// Bytes in pages that the allocator has from the system.
    pub resident: u64,
    /// Bytes in pages that it has offered to the system, which has not taken them yet.
    pub muzzy: u64,
    /// The highest `allocated` that was seen.
    pub peak: u64,
    /// Bytes that the empty server had allocated at the start.
    pub startup: u64,
    /// Bytes that the system counts as the process's.
    pub rss: u64,
    /// Memory of the machine.
    pub total_system: u64,
    /// Objects that wait to be freed in the background.
    pub lazy_pending: u64,
    /// Objects that were freed in the background.
    pub lazy_freed: u64,
}
