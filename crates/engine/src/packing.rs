//! How large small collections may grow: the `*-max-listpack-*` directives, where a write can read them.
//!
//! The configuration itself is behind a lock and a count of references, two shared cache lines that no write should
//! touch. So the numbers are copied to where they are only read; whoever changes a directive has them
//! [loaded](Packing::load) anew.

use crate::config::{Config, Directive};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use structures::{hash, sorted_set};

/// Limits of the packed forms.
pub struct Packing {
    hash_fields: AtomicUsize,
    hash_bytes: AtomicUsize,
    sorted_set_members: AtomicUsize,
    sorted_set_bytes: AtomicUsize,
}

impl Packing {
    pub fn new(config: &Config) -> Self {
        let packing = Packing {
            hash_fields: AtomicUsize::new(0),
            hash_bytes: AtomicUsize::new(0),
            sorted_set_members: AtomicUsize::new(0),
            sorted_set_bytes: AtomicUsize::new(0),
        };
        packing.load(config);
        packing
    }

    /// Takes the numbers of this configuration.
    pub fn load(&self, config: &Config) {
        let set = |limit: &AtomicUsize, directive| {
            limit.store(usize::try_from(config.int(directive)).unwrap_or(usize::MAX), Relaxed);
        };
        set(&self.hash_fields, Directive::HashMaxListpackEntries);
        set(&self.hash_bytes, Directive::HashMaxListpackValue);
        set(&self.sorted_set_members, Directive::ZsetMaxListpackEntries);
        set(&self.sorted_set_bytes, Directive::ZsetMaxListpackValue);
    }

    #[inline]
    pub fn hash(&self) -> hash::Limits {
        hash::Limits { fields: self.hash_fields.load(Relaxed), bytes: self.hash_bytes.load(Relaxed) }
    }

    #[inline]
    pub fn sorted_set(&self) -> sorted_set::Limits {
        let (members, bytes) = (self.sorted_set_members.load(Relaxed), self.sorted_set_bytes.load(Relaxed));
        sorted_set::Limits { members, bytes }
    }
}
