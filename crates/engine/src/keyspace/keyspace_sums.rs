//! Numbers of the keyspace: of a database, of a shard, and of all shards together.

use crate::keyspace::shard::{Db, Shard, ShardStats};
use crate::time::UnixMs;
use std::collections::BTreeMap;
use structures::hashtable::PLACES;

/// All shards together.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// The sums over all shards.
    pub stats: ShardStats,
    /// The database of the command, and all databases that have something.
    pub dbs: BTreeMap<u32, DbOverview>,
    /// Keys that tracking clients have read.
    pub tracked_keys: usize,
    /// Tracking clients, counted at each key.
    pub tracked_items: usize,
    /// Bytes of the indexes of expiries of databases that have nothing else in a shard.
    pub idle_bytes: usize,
}

/// One database.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DbOverview {
    /// Keys.
    pub keys: usize,
    /// Keys with an expiry.
    pub expires: usize,
    /// Keys with elements that have an expiry.
    pub volatile: usize,
    /// Sum of the times of the expiries, Unix time in milliseconds, by a sample.
    pub(super) due: u128,
    /// Mean time left of keys with an expiry, in milliseconds, by a sample.
    pub mean_ttl: u64,
    /// Places for keys in its tables.
    pub slots: usize,
    /// Places in tables that are being replaced.
    pub old_slots: usize,
    /// Tables that are being replaced by larger or smaller ones.
    pub resizing: usize,
    /// Bytes of the tables, without the keys.
    pub table_bytes: usize,
    /// Bytes of tables that are being replaced.
    pub old_bytes: usize,
    /// Bytes of the indexes of expiries.
    pub expiry_bytes: usize,
    /// Keys that clients wait for.
    pub awaited: usize,
    /// Keys with waiting clients that are notified when they go.
    pub awaited_gone: usize,
    /// Keys that clients watch.
    pub watched: usize,
}

/// Numbers of one shard.
#[derive(Clone, Debug, Default)]
pub(super) struct ShardView {
    pub stats: ShardStats,
    pub tracked_keys: usize,
    pub tracked_items: usize,
    /// Bytes of the indexes of databases that have nothing else.
    pub idle_bytes: usize,
    /// Databases that have something.
    pub dbs: Vec<(u32, DbOverview)>,
}

impl ShardView {
    /// Takes over the numbers of a shard at `now`.
    pub fn update(&mut self, shard: &Shard, now: UnixMs) {
        self.stats = shard.stats;
        self.tracked_keys = shard.listeners.tracked.len();
        self.tracked_items = shard.listeners.tracked.items();
        self.idle_bytes = 0;
        self.dbs.clear();
        for (number, db) in shard.dbs.iter() {
            if db.is_idle() {
                self.idle_bytes += db.expiry.memory_usage();
            } else {
                self.dbs.push((number, DbOverview::of(db, now.0.max(0) as u64)));
            }
        }
    }

    /// Returns a database's keys as they were seen.
    pub fn keys(&self, number: u32) -> usize {
        self.dbs.iter().find(|(known, _)| *known == number).map_or(0, |(_, db)| db.keys)
    }
}

/// Entries at either end of a shard's order from which the mean is computed.
pub(super) const TTL_SAMPLE: usize = 16;
/// Bytes of a bucket.
const BUCKET: usize = 64;

impl Overview {
    /// Adds a shard.
    pub(super) fn add(&mut self, view: &ShardView) {
        self.stats.add(&view.stats);
        self.tracked_keys += view.tracked_keys;
        self.tracked_items += view.tracked_items;
        self.idle_bytes += view.idle_bytes;
        for (number, db) in &view.dbs {
            self.dbs.entry(*number).or_default().add(db);
        }
    }

    /// Subtracts a shard that was added.
    pub(super) fn subtract(&mut self, view: &ShardView) {
        self.stats.subtract(&view.stats);
        self.tracked_keys -= view.tracked_keys;
        self.tracked_items -= view.tracked_items;
        self.idle_bytes -= view.idle_bytes;
        for (number, db) in &view.dbs {
            self.dbs.entry(*number).or_default().subtract(db);
        }
    }

    /// Returns the sum of one number over all databases.
    pub fn total(&self, number: impl Fn(&DbOverview) -> usize) -> usize {
        self.dbs.values().map(number).sum()
    }
}

impl DbOverview {
    /// Returns the part that lies in one shard, at `now` (Unix time in milliseconds).
    fn of(db: &Db, now: u64) -> DbOverview {
        let table = db.table.stats();
        let old = table.resize.map_or(0, |(old, moved)| old - moved.min(old));
        let (expires, left) = (db.expiry.keys.len(), db.expiry.keys.mean_left(now, TTL_SAMPLE).unwrap_or(0));
        DbOverview {
            keys: table.entries,
            expires,
            volatile: db.expiry.elements.len(),
            due: (u128::from(now) + u128::from(left)) * expires as u128,
            mean_ttl: 0,
            slots: table.buckets * PLACES,
            old_slots: old * PLACES,
            resizing: usize::from(table.resize.is_some()),
            table_bytes: table.memory,
            old_bytes: old * BUCKET,
            expiry_bytes: db.expiry.memory_usage(),
            awaited: db.clients.wait_queues().len(),
            awaited_gone: db.clients.wait_queues().awaited_gone(),
            watched: db.clients.watchers().len(),
        }
    }

    /// Calls `change` for each sum with its counterpart.
    fn each(&mut self, other: &DbOverview, change: impl Fn(&mut usize, usize)) {
        change(&mut self.keys, other.keys);
        change(&mut self.expires, other.expires);
        change(&mut self.volatile, other.volatile);
        change(&mut self.slots, other.slots);
        change(&mut self.old_slots, other.old_slots);
        change(&mut self.resizing, other.resizing);
        change(&mut self.table_bytes, other.table_bytes);
        change(&mut self.old_bytes, other.old_bytes);
        change(&mut self.expiry_bytes, other.expiry_bytes);
        change(&mut self.awaited, other.awaited);
        change(&mut self.awaited_gone, other.awaited_gone);
        change(&mut self.watched, other.watched);
    }

    /// Adds another part.
    fn add(&mut self, other: &DbOverview) {
        self.due += other.due;
        self.each(other, |sum, part| *sum += part);
    }

    /// Subtracts a part that was added.
    fn subtract(&mut self, other: &DbOverview) {
        self.due -= other.due;
        self.each(other, |sum, part| *sum -= part);
    }

    /// Returns the numbers that do not depend on the time at which they were seen.
    #[cfg(debug_assertions)]
    pub(super) fn without_times(&self) -> DbOverview {
        DbOverview { due: 0, ..*self }
    }
}
