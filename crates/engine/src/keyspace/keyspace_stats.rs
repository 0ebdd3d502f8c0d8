//! The keyspace in numbers, for INFO and MEMORY: what its tables hold and what they take up, database by database.
//!
//! Shards are visited one at a time, so that numbers of different shards are of different moments, unless the command
//! holds all locks.

use crate::Error;
use crate::keyspace::keys::Keys;
use crate::keyspace::shard::{Db, ShardStats};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use structures::hashtable::PLACES;

/// All shards together.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    pub stats: ShardStats,
    /// The one that the command works in, and those that something was ever put into.
    pub dbs: BTreeMap<u32, DbOverview>,
    /// Keys that clients who track have read, and these clients, counted at each key.
    pub tracked_keys: usize,
    pub tracked_items: usize,
}

/// One database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DbOverview {
    pub keys: usize,
    /// Keys with a deadline, and keys with elements that have one.
    pub expires: usize,
    pub volatile: usize,
    /// Mean time left of the former, in milliseconds, by a sample.
    pub mean_ttl: u64,
    /// Places for keys in its tables, and those of the tables that are being replaced.
    pub slots: usize,
    pub old_slots: usize,
    /// Tables that are being replaced by larger or smaller ones.
    pub resizing: usize,
    /// Bytes of the tables, without the keys; of the parts of them that are being replaced; of the deadlines' order.
    pub table_bytes: usize,
    pub old_bytes: usize,
    pub deadline_bytes: usize,
    /// Keys that clients wait for, and that they watch.
    pub awaited: usize,
    /// Keys that clients wait for who are told when they go.
    pub awaited_gone: usize,
    pub watched: usize,
}

/// TtlIndex at either end of a shard's order that the mean looks at.
const TTL_SAMPLE: usize = 16;
/// Bytes of a bucket.
const BUCKET: usize = 64;

impl Overview {
    /// # Errors
    /// [`Error::WouldBlock`]
    pub fn of(keys: &mut Keys<'_>) -> Result<Overview, Error> {
        let now = keys.expiry_now().max(0) as u64;
        let mut overview = Overview::default();
        overview.dbs.entry(keys.db_index()).or_default();
        overview.stats.dirty = keys.engine().saves().elsewhere.load(Relaxed);
        // Mean times left, weighed by the number of keys that they are those of.
        let mut times: BTreeMap<u32, u128> = BTreeMap::new();
        keys.each_shard(|_, shard, _| {
            overview.stats.add(&shard.stats);
            overview.tracked_keys += shard.tracked.len();
            overview.tracked_items += shard.tracked.items();
            for (number, db) in shard.dbs.iter() {
                let left = db.expiry.keys.mean_left(now, TTL_SAMPLE).unwrap_or(0);
                *times.entry(number).or_default() += u128::from(left) * db.expiry.keys.len() as u128;
                overview.dbs.entry(number).or_default().add(db);
            }
        })?;
        for (number, time) in times {
            let db = overview.dbs.entry(number).or_default();
            db.mean_ttl = time.checked_div(db.expires as u128).unwrap_or(0) as u64;
        }
        Ok(overview)
    }

    /// The sum of one number over all databases.
    pub fn total(&self, number: impl Fn(&DbOverview) -> usize) -> usize {
        self.dbs.values().map(number).sum()
    }
}

impl DbOverview {
    fn add(&mut self, db: &Db) {
        let table = db.table.stats();
        let old = table.resize.map_or(0, |(old, moved)| old - moved.min(old));
        self.keys += table.entries;
        self.expires += db.expiry.keys.len();
        self.volatile += db.expiry.elements.len();
        self.slots += table.buckets * PLACES;
        self.old_slots += old * PLACES;
        self.resizing += usize::from(table.resize.is_some());
        self.table_bytes += table.memory;
        self.old_bytes += old * BUCKET;
        self.deadline_bytes += db.expiry.keys.memory_usage() + db.expiry.elements.memory_usage();
        self.awaited += db.blocked.len();
        self.awaited_gone += db.blocked.awaited_gone();
        self.watched += db.watchers.len();
    }
}
