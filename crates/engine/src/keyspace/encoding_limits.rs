//! How large small collections may grow: the `*-max-listpack-*` directives, where a write can read them.
//!
//! The configuration itself is behind a lock and a count of references, two shared cache lines that no write should
//! touch. So the numbers are copied to where they are only read; a change of a directive [loads](EncodingLimits::load)
//! them anew.

use crate::config::{Config, Directive};
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};
use structures::quicklist::{Fill, Rules};
use structures::{hash, set, sorted_set, stream};

/// Limits of the packed forms.
pub struct EncodingLimits {
    list_fill: AtomicI64,
    list_depth: AtomicUsize,
    list_large_from: AtomicUsize,
    hash_fields: AtomicUsize,
    hash_bytes: AtomicUsize,
    intset_members: AtomicUsize,
    set_members: AtomicUsize,
    set_bytes: AtomicUsize,
    sorted_set_members: AtomicUsize,
    sorted_set_bytes: AtomicUsize,
    hll_sparse_bytes: AtomicUsize,
    stream_bytes: AtomicUsize,
    stream_entries: AtomicUsize,
}

impl EncodingLimits {
    /// Makes the limits of this configuration.
    pub fn new(config: &Config) -> Self {
        let packing = EncodingLimits {
            list_fill: AtomicI64::new(0),
            list_depth: AtomicUsize::new(0),
            list_large_from: AtomicUsize::new(0),
            hash_fields: AtomicUsize::new(0),
            hash_bytes: AtomicUsize::new(0),
            intset_members: AtomicUsize::new(0),
            set_members: AtomicUsize::new(0),
            set_bytes: AtomicUsize::new(0),
            sorted_set_members: AtomicUsize::new(0),
            sorted_set_bytes: AtomicUsize::new(0),
            hll_sparse_bytes: AtomicUsize::new(0),
            stream_bytes: AtomicUsize::new(0),
            stream_entries: AtomicUsize::new(0),
        };
        packing.load(config);
        packing
    }

    /// Takes the numbers of this configuration.
    pub fn load(&self, config: &Config) {
        let set = |limit: &AtomicUsize, directive| {
            limit.store(usize::try_from(config.int(directive)).unwrap_or(usize::MAX), Relaxed);
        };
        self.list_fill.store(config.int(Directive::LIST_MAX_LISTPACK_SIZE), Relaxed);
        set(&self.list_depth, Directive::LIST_COMPRESS_DEPTH);
        set(&self.hash_fields, Directive::HASH_MAX_LISTPACK_ENTRIES);
        set(&self.hash_bytes, Directive::HASH_MAX_LISTPACK_VALUE);
        set(&self.intset_members, Directive::SET_MAX_INTSET_ENTRIES);
        set(&self.set_members, Directive::SET_MAX_LISTPACK_ENTRIES);
        set(&self.set_bytes, Directive::SET_MAX_LISTPACK_VALUE);
        set(&self.sorted_set_members, Directive::ZSET_MAX_LISTPACK_ENTRIES);
        set(&self.sorted_set_bytes, Directive::ZSET_MAX_LISTPACK_VALUE);
        set(&self.hll_sparse_bytes, Directive::HLL_SPARSE_MAX_BYTES);
        set(&self.stream_bytes, Directive::STREAM_NODE_MAX_BYTES);
        set(&self.stream_entries, Directive::STREAM_NODE_MAX_ENTRIES);
    }

    /// Returns the limits of lists.
    #[inline]
    pub fn list(&self) -> Rules {
        Rules {
            fill: Fill::new(self.list_fill.load(Relaxed)),
            compress_depth: u16::try_from(self.list_depth.load(Relaxed)).unwrap_or(u16::MAX),
            large_from: self.list_large_from.load(Relaxed),
        }
    }

    /// Sets the size from which list elements get a node of their own; 0: elements that no node may hold (DEBUG
    /// QUICKLIST-PACKED-THRESHOLD).
    pub fn set_large_list_elements(&self, bytes: usize) {
        self.list_large_from.store(bytes, Relaxed);
    }

    /// Returns the limits of hashes.
    #[inline]
    pub fn hash(&self) -> hash::Limits {
        hash::Limits { fields: self.hash_fields.load(Relaxed), bytes: self.hash_bytes.load(Relaxed) }
    }

    /// Returns the limits of sets.
    #[inline]
    pub fn set(&self) -> set::Limits {
        set::Limits {
            intset_entries: self.intset_members.load(Relaxed),
            listpack_entries: self.set_members.load(Relaxed),
            listpack_value: self.set_bytes.load(Relaxed),
        }
    }

    /// Returns the limits of sorted sets.
    #[inline]
    pub fn sorted_set(&self) -> sorted_set::Limits {
        let (members, bytes) = (self.sorted_set_members.load(Relaxed), self.sorted_set_bytes.load(Relaxed));
        sorted_set::Limits { members, bytes }
    }

    /// Returns the limits of streams.
    #[inline]
    pub fn stream(&self) -> stream::Limits {
        stream::Limits { bytes: self.stream_bytes.load(Relaxed), entries: self.stream_entries.load(Relaxed) as u64 }
    }

    /// Returns the bytes that a sparse HyperLogLog may have.
    pub fn hll_sparse_max_bytes(&self) -> usize {
        self.hll_sparse_bytes.load(Relaxed)
    }
}
