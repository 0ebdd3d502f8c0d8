//! Hints of the memory that a lookup is going to read, for a caller that prefetches it some time before.

use std::marker::PhantomData;

use super::bucket::LINE;
use super::positions::{index, position};
use crate::tagged_pointer::{TaggedPointer, prefetch};

/// Place of a table's buckets, now or a moment ago: enough to prefetch one ahead of a lookup without touching the
/// table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct BucketHint {
    /// The array of positions below the frontier.
    pub new: HintedArray,
    /// The array of all other positions.
    pub old: HintedArray,
    /// The first position of the old array.
    pub frontier: u64,
}

/// An array of buckets, by its address only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct HintedArray {
    /// Address of the first bucket.
    pub start: usize,
    /// Buckets.
    pub len: usize,
}

impl BucketHint {
    /// Prefetches the bucket of this hash. If the hint is out of date, the wrong memory is prefetched, which harms
    /// nothing.
    #[inline]
    pub fn prefetch(self, hash: u64) {
        prefetch(std::ptr::without_provenance::<u8>(self.address(hash)));
    }

    #[inline]
    pub(super) fn address(self, hash: u64) -> usize {
        let HintedArray { start, len } = if position(hash) < self.frontier { self.new } else { self.old };
        start.wrapping_add(index(hash, len) * LINE)
    }
}

/// Likely place of the entry with some hash, now or a moment ago.
#[derive(Debug)]
pub struct EntryHint<T> {
    /// A handle's, or 0.
    pub(super) bits: u64,
    /// Whether the bucket has more lines.
    pub(super) goes_on: bool,
    pub(super) table: PhantomData<fn() -> T>,
}

impl<T: TaggedPointer> EntryHint<T> {
    /// No entry is likely, and there are no more lines.
    pub const NOWHERE: EntryHint<T> = EntryHint { bits: 0, goes_on: false, table: PhantomData };

    /// Prefetches the entry by its address: it may be gone.
    #[inline(always)]
    pub fn prefetch(&self) {
        if self.bits != 0 {
            T::prefetch(self.bits);
        }
    }

    /// Whether no entry of the bucket's first line is likely, and there are more lines
    /// ([`prefetch_chain`](super::HashTable::prefetch_chain)).
    #[inline]
    pub fn is_further(&self) -> bool {
        self.bits == 0 && self.goes_on
    }
}
