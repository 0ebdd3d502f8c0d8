//! A piece of the keyspace: what one lock guards.

use crate::access;
use crate::blocked::Blocked;
use crate::cut::Cut;
use crate::expiry::ExpiryIndex;
use crate::listing::Listings;
use crate::tracking::Tracked;
use crate::value::{KeyEntry, Object, Type, ValueExt};
use crate::watch::Watchers;
use std::sync::Arc;
use structures::hashtable::HashTable;

/// Keys and values of one database in one shard.
pub type Table = HashTable<KeyEntry>;
/// Where a key's entry may be.
pub type EntryHint = structures::hashtable::EntryHint<KeyEntry>;

/// One database, as far as it lies in this shard.
#[derive(Default)]
pub struct Db {
    pub table: Table,
    pub expiry: ExpiryIndex,
    pub blocked: Blocked,
    pub watchers: Watchers,
    pub listings: Listings,
    pub cut: Cut,
}

impl Db {
    /// Whether somebody watches keys of it or waits for some.
    #[inline]
    pub fn has_audience(&self) -> bool {
        !self.watchers.is_empty() || !self.blocked.is_empty()
    }

    /// An object was taken out of its key: those who still read it get it. Returned when nobody does.
    pub fn leave_behind(&mut self, name: &[u8], object: Object) -> Option<Object> {
        if self.listings.is_empty() && !self.cut.wants(name) {
            return Some(object);
        }
        let object = Arc::new(object);
        self.share(name, &object);
        Arc::into_inner(object)
    }

    /// The same of one that is read further in any case.
    pub fn share(&mut self, name: &[u8], object: &Arc<Object>) {
        if !self.listings.is_empty() {
            self.listings.adopt(name, object);
        }
        if self.cut.wants(name) {
            self.cut.adopt(name, object);
        }
    }

    /// The type of the key's value, leaving no trace of the look; None when there is none or its time is over.
    pub fn kind(&self, local: u64, name: &[u8], now: i64) -> Option<Type> {
        let found = self.table.find(local, |entry| entry.key() == name)?;
        let due = found.deadline().is_some_and(|deadline| access::is_due(deadline, now));
        (!due).then(|| found.value().kind())
    }
}

/// Counted under the shard's lock, so that no line is shared for it; summed when somebody asks. What most commands count
/// comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ShardStats {
    pub hits: u64,
    pub misses: u64,
    pub dirty: u64,
    pub expired: u64,
    pub expired_elements: u64,
    pub evicted: u64,
}

impl ShardStats {
    /// Begins anew (CONFIG RESETSTAT); the changes since the last save are no statistics.
    pub fn reset(&mut self) {
        *self = ShardStats { dirty: self.dirty, ..ShardStats::default() };
    }

    pub fn add(&mut self, other: &ShardStats) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.expired += other.expired;
        self.expired_elements += other.expired_elements;
        self.evicted += other.evicted;
        self.dirty += other.dirty;
    }
}

/// In this order: what all commands need lies in one cache line with the lock.
#[repr(C)]
pub struct Shard {
    pub dbs: Box<[Db]>,
    pub stats: ShardStats,
    pub tracked: Tracked,
}

impl Shard {
    pub fn new(databases: usize) -> Self {
        let dbs = (0..databases).map(|_| Db::default()).collect();
        Shard { stats: ShardStats::default(), dbs, tracked: Tracked::default() }
    }
}
