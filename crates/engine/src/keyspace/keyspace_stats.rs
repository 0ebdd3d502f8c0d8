//! Statistics of the keyspace, for INFO and MEMORY: the contents and the sizes of its tables, database by database.
//!
//! Shards are visited one at a time, so that numbers of different shards are of different moments, unless the command
//! holds all locks. No command waits long for one: where another command holds a shard for long, its keys are counted,
//! and its statistics are the ones that were seen last.

use crate::keyspace::Keyspace;
use crate::keyspace::held_locks::LockTimeout;
use crate::keyspace::keys::Keys;
use crate::keyspace::shard::{Db, LOW, ShardStats};
use crate::time::UnixMs;
use std::collections::BTreeMap;
use std::sync::atomic::Ordering::Relaxed;
use structures::hashtable::PLACES;

/// All shards together.
#[derive(Clone, Debug, Default)]
pub struct Overview {
    /// The sums over all shards.
    pub stats: ShardStats,
    /// The database of the command, and all databases that have ever had keys.
    pub dbs: BTreeMap<u32, DbOverview>,
    /// Keys that tracking clients have read.
    pub tracked_keys: usize,
    /// Tracking clients, counted at each key.
    pub tracked_items: usize,
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
    /// Sum of the times left of keys with an expiry, in milliseconds, by a sample.
    pub(super) left: u128,
    /// Number of keys in that sum.
    pub(super) left_of: u64,
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

/// Entries at either end of a shard's order from which the mean is computed.
const TTL_SAMPLE: usize = 16;
/// Bytes of a bucket.
const BUCKET: usize = 64;

impl Overview {
    /// Collects the numbers of all shards for a command.
    pub fn of(keys: &mut Keys<'_>) -> Overview {
        let now = keys.expiry_now().0.max(0) as u64;
        let mut overview = Overview::default();
        overview.dbs.entry(keys.db_index()).or_default();
        overview.stats.dirty = keys.keyspace().persistence_status().elsewhere.load(Relaxed);
        let (keyspace, patience) = (keys.keyspace(), keys.patience());
        for index in 0..keyspace.locks.len() {
            let seen = keys.with_shard(index, |shard, _| {
                keyspace.last_stats.note(index, &shard.stats);
                overview.stats.add(&shard.stats);
                overview.tracked_keys += shard.listeners.tracked.len();
                overview.tracked_items += shard.listeners.tracked.items();
                for (number, db) in shard.dbs.iter() {
                    overview.dbs.entry(number).or_default().add(&DbOverview::of(db, now));
                }
            });
            if seen.is_err() {
                // One wait is enough.
                keys.set_patience(LockTimeout::None);
                overview.add_unseen(keyspace, index);
            }
        }
        keys.set_patience(patience);
        overview
    }

    /// Adds the numbers of a shard that are known without its lock.
    #[cold]
    fn add_unseen(&mut self, keyspace: &Keyspace, index: usize) {
        self.stats.add(&keyspace.last_stats.of(index));
        for number in 0..LOW as u32 {
            if let Some(keys) = keyspace.shard_len(index, number).filter(|keys| *keys > 0) {
                self.dbs.entry(number).or_default().keys += keys;
            }
        }
    }

    /// Returns the sum of one number over all databases.
    pub fn total(&self, number: impl Fn(&DbOverview) -> usize) -> usize {
        self.dbs.values().map(number).sum()
    }
}

impl DbOverview {
    /// Returns the part that lies in one shard, at `now` (Unix time in milliseconds).
    pub(super) fn of(db: &Db, now: u64) -> DbOverview {
        let table = db.table.stats();
        let old = table.resize.map_or(0, |(old, moved)| old - moved.min(old));
        let (expires, left) = (db.expiry.keys.len(), db.expiry.keys.mean_left(now, TTL_SAMPLE).unwrap_or(0));
        DbOverview {
            keys: table.entries,
            expires,
            volatile: db.expiry.elements.len(),
            left: u128::from(left) * expires as u128,
            left_of: expires as u64,
            slots: table.buckets * PLACES,
            old_slots: old * PLACES,
            resizing: usize::from(table.resize.is_some()),
            table_bytes: table.memory,
            old_bytes: old * BUCKET,
            expiry_bytes: db.expiry.keys.memory_usage() + db.expiry.elements.memory_usage(),
            awaited: db.clients.wait_queues().len(),
            awaited_gone: db.clients.wait_queues().awaited_gone(),
            watched: db.clients.watchers().len(),
        }
    }

    /// Adds another part.
    pub(super) fn add(&mut self, other: &DbOverview) {
        self.keys += other.keys;
        self.expires += other.expires;
        self.volatile += other.volatile;
        self.left += other.left;
        self.left_of += other.left_of;
        self.slots += other.slots;
        self.old_slots += other.old_slots;
        self.resizing += other.resizing;
        self.table_bytes += other.table_bytes;
        self.old_bytes += other.old_bytes;
        self.expiry_bytes += other.expiry_bytes;
        self.awaited += other.awaited;
        self.awaited_gone += other.awaited_gone;
        self.watched += other.watched;
    }

    /// Returns the mean time left of keys with an expiry, in milliseconds, by a sample.
    pub fn mean_ttl(&self) -> u64 {
        self.left.checked_div(u128::from(self.left_of)).unwrap_or(0) as u64
    }
}

/// Contents of one database, summed over the shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DbSummary {
    /// Keys.
    pub keys: usize,
    /// Keys with an expiry.
    pub expires: usize,
    /// Collections with elements that have an expiry.
    pub volatile: usize,
    /// Mean time left of keys with an expiry, in milliseconds, by a sample.
    pub mean_ttl: u64,
}

impl Keyspace {
    /// Returns the number of keys in a database.
    pub fn len(&self, db: u32) -> usize {
        let locked = |index| self.locks.one(index).dbs[db].table.len();
        (0..self.locks.len()).map(|index| self.shard_len(index, db).unwrap_or_else(|| locked(index))).sum()
    }

    /// Returns the keys that clients see in a database.
    pub fn visible_len(&self, db: u32) -> usize {
        self.len(db).saturating_sub(self.hidden_len(db))
    }

    /// Returns INFO's numbers of a database at `now`, Unix time in milliseconds. Takes each shard's lock once.
    pub fn summary(&self, db: u32, now: UnixMs) -> DbSummary {
        let (mut sum, mut ttl_sum, mut ttl_count) = (DbSummary::default(), 0u128, 0u128);
        for index in 0..self.locks.len() {
            let shard = self.locks.one(index);
            let slot = &shard.dbs[db];
            sum.keys += self.visible_in(&shard, db);
            sum.expires += slot.expiry.keys.len();
            sum.volatile += slot.expiry.elements.len();
            if let Some(left) = slot.expiry.keys.mean_left(now.0.max(0) as u64, TTL_SAMPLE) {
                ttl_sum += u128::from(left) * slot.expiry.keys.len() as u128;
                ttl_count += slot.expiry.keys.len() as u128;
            }
        }
        sum.mean_ttl = ttl_sum.checked_div(ttl_count).unwrap_or(0) as u64;
        sum
    }

    /// Returns the statistics of all shards.
    pub fn stats(&self) -> ShardStats {
        self.stats_unless(|| false).unwrap_or_default()
    }

    /// Returns the statistics of all shards; None when a lock is not free and `give_up` says that it will not be soon.
    pub fn stats_unless(&self, give_up: impl Fn() -> bool) -> Option<ShardStats> {
        let mut sum = ShardStats { dirty: self.persistence_status.elsewhere.load(Relaxed), ..ShardStats::default() };
        for index in 0..self.locks.len() {
            sum.add(&self.locks.one_unless(index, &give_up)?.stats);
        }
        Some(sum)
    }

    /// Resets the counts that no shard has (CONFIG RESETSTAT), after the shards reset theirs.
    pub fn reset_counts(&self) {
        self.persistence_status.reset_counts();
        self.last_stats.reset();
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::data::event_class::EventClass;
    use crate::data::value::NewString;
    use crate::keyspace::edit::Ttl;
    use crate::keyspace::held_locks::HeldLocks;
    use crate::keyspace::origin::Origin;
    use crate::{Engine, NullHost, Options};
    use std::sync::Arc;

    #[test]
    fn a_shard_that_is_held_is_told_of_as_it_was_last_stats() {
        let engine = Engine::new(&Options { shards: 4, ..Options::default() }, Arc::new(NullHost));
        let put = |names: std::ops::Range<u32>| {
            for name in names {
                let name = format!("{name}");
                let hash = engine.hasher().hash(name.as_bytes());
                let held = HeldLocks::keys(&engine, std::iter::once(hash));
                let mut keys = Keys::new(&engine, held, 0, Origin::client(UnixMs(0)));
                let mut edit = keys.edit(keys.key(name.as_bytes()));
                edit.set_string(NewString::Bytes(b"v"), Ttl::Clear);
                edit.commit(EventClass::STRING, "set");
                keys.unlock();
            }
        };
        let overview = || {
            let mut keys = Keys::new(&engine, HeldLocks::Nothing, 0, Origin::client(UnixMs(0)));
            keys.set_patience(LockTimeout::Short);
            let overview = Overview::of(&mut keys);
            assert_eq!(keys.patience(), LockTimeout::Short);
            (overview.dbs[&0].keys, overview.stats.dirty)
        };
        let numbers = |changes: u64| (changes as usize, changes);
        put(0..100);
        assert_eq!(overview(), numbers(100));
        put(100..200);
        let held = engine.locks().one(2);
        engine.scripts().begin_long();
        let (keys, dirty) = overview();
        assert!(keys == 200 && (100..200).contains(&dirty), "{dirty}: the keys are known, the changes are of before");
        engine.scripts().end_long();
        drop(held);
        assert_eq!(overview(), numbers(200));
        (0..engine.locks().len()).for_each(|shard| engine.locks().one(shard).stats.reset());
        engine.reset_counts();
        assert_eq!(overview(), numbers(200), "changes are no statistics");
    }
}
