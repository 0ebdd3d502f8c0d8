//! A piece of the keyspace: what one lock guards.

use crate::blocked::Blocked;
use crate::expiry::ExpiryIndex;
use crate::value::KeyEntry;
use crate::watch::Watchers;
use structures::hashtable::HashTable;

/// Keys and values of one database in one shard.
pub type Table = HashTable<KeyEntry>;

/// One database, as far as it lies in this shard.
#[derive(Default)]
pub struct Db {
    pub table: Table,
    pub expiry: ExpiryIndex,
    pub blocked: Blocked,
    pub watchers: Watchers,
}

/// Counted under the shard's lock, so that no line is shared for it; summed when somebody asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardStats {
    pub hits: u64,
    pub misses: u64,
    pub expired: u64,
    pub dirty: u64,
}

impl ShardStats {
    pub fn add(&mut self, other: &ShardStats) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.expired += other.expired;
        self.dirty += other.dirty;
    }
}

pub struct Shard {
    pub stats: ShardStats,
    pub dbs: Box<[Db]>,
}

impl Shard {
    pub fn new(databases: usize) -> Self {
        Shard { stats: ShardStats::default(), dbs: (0..databases).map(|_| Db::default()).collect() }
    }
}
