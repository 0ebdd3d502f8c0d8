//! Numbers of each shard as a thread saw them last, and their sums.
//!
//! ```text
//! changed   1 0 0 1 ...     one byte a shard: set when its lock is released, once after it was seen
//! shards    numbers as they were seen
//! sums      over all shards as they were seen
//! ```
//!
//! A reader locks the shards that have changed since they were seen, and takes the others from the sums: where few
//! shards have changed, the numbers of all cost little. A shard whose lock another command holds for long is reported
//! as it was seen, except for its keys, which are known without the lock.
//!
//! The lock of the sums is taken for a moment, also under a shard's lock; no other lock is taken under it.

use crate::keyspace::keyspace_sums::{Overview, ShardView};
use crate::keyspace::shard::{LOW, Shard};
use crate::locks::sync::Mutex;
use crate::time::UnixMs;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};

/// Numbers of all shards as they were seen last.
pub(crate) struct SeenShards {
    changed: Box<[AtomicBool]>,
    seen: Mutex<Seen>,
}

struct Seen {
    shards: Box<[ShardView]>,
    sums: Overview,
}

impl SeenShards {
    /// Makes the numbers of so many empty shards. A first database has its room: a command that asks how much memory
    /// is used does not use more.
    pub fn new(shards: usize) -> SeenShards {
        let view = || ShardView { dbs: Vec::with_capacity(1), ..ShardView::default() };
        SeenShards {
            changed: (0..shards).map(|_| AtomicBool::new(true)).collect(),
            seen: Mutex::new(Seen { shards: (0..shards).map(|_| view()).collect(), sums: Overview::default() }),
        }
    }

    /// Marks a shard, whose lock is held, as changed since it was seen.
    #[cold]
    pub fn mark_changed(&self, index: usize) {
        self.changed[index].store(true, Release);
    }

    /// Whether a shard has changed since it was seen.
    #[inline]
    pub(super) fn has_changed(&self, index: usize) -> bool {
        self.changed[index].load(Acquire)
    }

    /// Returns the sums over all shards as they were seen.
    pub(super) fn sums(&self) -> Overview {
        self.seen.lock().sums.clone()
    }

    /// Puts another view of a shard into the place of the one that sums have of it.
    pub(super) fn exchange(&self, sums: &mut Overview, index: usize, view: &ShardView) {
        sums.subtract(&self.seen.lock().shards[index]);
        sums.add(view);
    }

    /// Corrects the keys in the sums of a shard whose lock another thread holds. `known`: its keys by database, where
    /// they are known without the lock.
    #[cold]
    pub(super) fn count_keys(&self, sums: &mut Overview, index: usize, known: impl Fn(u32) -> Option<usize>) {
        let seen = self.seen.lock();
        for number in 0..LOW as u32 {
            let Some(keys) = known(number) else { continue };
            let before = seen.shards[index].keys(number);
            if keys != before {
                let db = sums.dbs.entry(number).or_default();
                db.keys = (db.keys + keys).saturating_sub(before);
            }
        }
    }

    /// Records the numbers of a shard, whose lock is held and under which nothing is being changed.
    pub(super) fn record(&self, index: usize, shard: &Shard, now: UnixMs) {
        {
            let Seen { shards, sums } = &mut *self.seen.lock();
            sums.subtract(&shards[index]);
            shards[index].update(shard, now);
            sums.add(&shards[index]);
        }
        self.changed[index].store(false, Release);
    }

    /// Checks that a shard, whose lock is held, is as it was seen.
    #[cfg(debug_assertions)]
    pub(super) fn check(&self, index: usize, shard: &Shard) {
        let mut view = ShardView::default();
        view.update(shard, UnixMs(0));
        let seen = self.seen.lock();
        let seen = &seen.shards[index];
        let numbers = |view: &ShardView| {
            let dbs = view.dbs.iter().map(|(number, db)| (*number, db.without_times())).collect::<Vec<_>>();
            (view.stats, view.tracked_keys, view.tracked_items, view.idle_bytes, dbs)
        };
        assert_eq!(numbers(&view), numbers(seen), "shard {index} has changed without a mark");
    }

    /// Begins the statistics anew (CONFIG RESETSTAT).
    pub fn reset(&self) {
        let Seen { shards, sums } = &mut *self.seen.lock();
        shards.iter_mut().for_each(|view| view.stats.reset());
        sums.stats.reset();
    }
}
