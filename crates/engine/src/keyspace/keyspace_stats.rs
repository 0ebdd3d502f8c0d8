//! Statistics of the keyspace, for INFO and MEMORY: the contents and the sizes of its tables, database by database.
//!
//! Shards that have changed since they were [seen](crate::keyspace::seen_shards) are visited one at a time, so that
//! numbers of different shards are of different moments, unless the command holds all locks. A command waits once for a
//! lock that is not free: where another command holds shards for long, their keys are counted, and their statistics are
//! the ones that were seen last. While some command runs for long, others wait for no lock: it may have all of them,
//! and lend them the thread.

use crate::keyspace::Keyspace;
use crate::keyspace::keys::Keys;
use crate::keyspace::keyspace_sums::{Overview, ShardView, TTL_SAMPLE};
use crate::keyspace::shard::{Shard, ShardStats};
use crate::time::UnixMs;
use std::sync::atomic::Ordering::Relaxed;

impl Overview {
    /// Collects the numbers of all shards for a command.
    pub fn of(keys: &mut Keys<'_>) -> Overview {
        let now = keys.expiry_now();
        let keyspace = keys.keyspace();
        // The command that lends the thread to this one may have the lock: it would be waited for in vain.
        let may_wait = !keyspace.scripts().is_long();
        let seen = keyspace.seen_shards();
        let (mut own, mut unseen) = (Vec::new(), Vec::new());
        for index in 0..keyspace.locks.len() {
            if keys.holds(index) {
                own.push(index);
            } else if seen.has_changed(index) {
                match keys.look_at(index, may_wait && unseen.is_empty(), |shard| keyspace.see_shard(index, shard, now))
                {
                    Ok(true) => {}
                    Ok(false) => own.push(index),
                    Err(_) => unseen.push(index),
                }
            } else {
                #[cfg(debug_assertions)]
                if keys.holds_nothing() {
                    keyspace.check_seen(index);
                }
            }
        }
        let mut overview = seen.sums();
        // The command itself may have changed shards that it holds, and may change them further.
        let mut view = ShardView::default();
        for index in own {
            if let Some(shard) = keys.held_shard(index) {
                view.update(shard, now);
                seen.exchange(&mut overview, index, &view);
            }
        }
        unseen.into_iter().for_each(|index| keyspace.count_unseen(&mut overview, index));
        overview.finish(keyspace, now);
        overview.dbs.entry(keys.db_index()).or_default();
        overview
    }

    /// Collects the numbers of all shards for a thread that runs no command and never waits: a shard whose lock is not
    /// free at this moment is reported as it was seen last, except for its keys.
    pub fn without_waiting(keyspace: &Keyspace, now: UnixMs) -> Overview {
        let seen = keyspace.seen_shards();
        let mut unseen = Vec::new();
        for index in (0..keyspace.locks.len()).filter(|index| seen.has_changed(*index)) {
            match keyspace.locks.try_one(index) {
                Some(shard) => keyspace.see_shard(index, &shard, now),
                None => unseen.push(index),
            }
        }
        let mut overview = seen.sums();
        unseen.into_iter().for_each(|index| keyspace.count_unseen(&mut overview, index));
        overview.finish(keyspace, now);
        overview
    }

    /// Adds numbers that no shard has.
    fn finish(&mut self, keyspace: &Keyspace, now: UnixMs) {
        self.stats.dirty += keyspace.persistence_status().elsewhere.load(Relaxed);
        for db in self.dbs.values_mut() {
            let mean = db.due.checked_div(db.expires as u128).unwrap_or(0);
            db.mean_ttl = mean.saturating_sub(now.0.max(0) as u128) as u64;
        }
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
    /// Records the numbers of a shard, whose lock is held and under which nothing is being changed.
    fn see_shard(&self, index: usize, shard: &Shard, now: UnixMs) {
        self.seen_shards().record(index, shard, now);
        self.note_seen(index);
    }

    /// Corrects the keys in the sums of a shard whose lock another thread holds.
    fn count_unseen(&self, sums: &mut Overview, index: usize) {
        self.seen_shards().count_keys(sums, index, |db| self.shard_len(index, db));
    }

    /// Checks that a shard that is not marked as changed is as it was seen, if its lock is free.
    #[cfg(debug_assertions)]
    fn check_seen(&self, index: usize) {
        if let Some(shard) = self.locks.try_one(index).filter(|_| self.is_as_seen(index)) {
            self.seen_shards().check(index, &shard);
        }
    }

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
        self.seen_shards.reset();
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::data::event_class::EventClass;
    use crate::data::value::NewString;
    use crate::keyspace::caller::ExecContext;
    use crate::keyspace::edit::Ttl;
    use crate::keyspace::held_locks::{HeldLocks, LockTimeout};
    use crate::locks::protocol::GIVEN_UP;
    use crate::{Engine, NullHost, Options};
    use std::sync::Arc;

    #[test]
    fn a_shard_that_is_held_is_reported_as_it_was_seen() {
        let engine = Engine::new(&Options { shards: 4, ..Options::default() }, Arc::new(NullHost));
        let put = |names| put(&engine, names, Ttl::Clear);
        let overview = || {
            let mut keys = Keys::new(&engine, HeldLocks::Nothing, 0, ExecContext::client(UnixMs(0)));
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

    #[test]
    fn a_command_waits_for_one_of_many_held_locks_and_for_none_of_a_long_command_which_may_lend_it_the_thread() {
        for (is_long, waits) in [(false, 1), (true, 0)] {
            let engine = Engine::new(&Options { shards: 64, ..Options::default() }, Arc::new(NullHost));
            put(&engine, 0..1000, Ttl::Clear);
            let held: Vec<_> = (0..64).map(|index| engine.locks().one(index)).collect();
            if is_long {
                engine.scripts().begin_long();
            }
            let before = GIVEN_UP.get();
            let mut keys = Keys::new(&engine, HeldLocks::Nothing, 0, ExecContext::client(UnixMs(0)));
            keys.set_patience(LockTimeout::None);
            assert_eq!(Overview::of(&mut keys).dbs[&0].keys, 1000);
            assert_eq!(GIVEN_UP.get() - before, waits);
            drop(held);
        }
    }

    fn put(engine: &Engine, names: std::ops::Range<u32>, ttl: Ttl) {
        for name in names {
            let name = format!("{name}");
            let hash = engine.hasher().hash(name.as_bytes());
            let held = HeldLocks::keys(engine, std::iter::once(hash));
            let mut keys = Keys::new(engine, held, 0, ExecContext::client(UnixMs(0)));
            let mut edit = keys.edit(keys.key(name.as_bytes()));
            edit.set_string(NewString::Bytes(b"v"), ttl);
            edit.commit(EventClass::STRING, "set");
            keys.unlock();
        }
    }

    #[test]
    fn a_thread_that_never_waits_sees_a_held_shard_as_it_was() {
        let engine = Engine::new(&Options { shards: 4, ..Options::default() }, Arc::new(NullHost));
        let see = || Overview::without_waiting(&engine, UnixMs(0));
        let first = |seen: Overview| seen.dbs.get(&0).copied().unwrap_or_default();
        assert_eq!(first(see()).keys, 0);
        put(&engine, 0..100, Ttl::At(UnixMs(1000)));
        let seen = see();
        assert_eq!((seen.dbs[&0].keys, seen.dbs[&0].expires, seen.stats.dirty), (100, 100, 100));
        assert_eq!(seen.dbs[&0].mean_ttl, 1000);
        put(&engine, 100..200, Ttl::At(UnixMs(1000)));
        let held = engine.locks().one(2);
        let seen = see();
        assert_eq!(seen.dbs[&0].keys, 200, "keys are counted without the lock");
        assert!((101..200).contains(&seen.dbs[&0].expires) && (101..200).contains(&seen.stats.dirty));
        drop(held);
        let seen = see();
        assert_eq!((seen.dbs[&0].expires, seen.stats.dirty), (200, 200));
    }

    #[test]
    fn only_shards_that_have_changed_are_locked() {
        let engine = Engine::new(&Options { shards: 4, ..Options::default() }, Arc::new(NullHost));
        put(&engine, 0..100, Ttl::At(UnixMs(1000)));
        let changed = || (0..4).filter(|index| engine.seen_shards().has_changed(*index)).count();
        assert_eq!(changed(), 4);
        let seen = Overview::without_waiting(&engine, UnixMs(0));
        assert_eq!((changed(), seen.dbs[&0].mean_ttl), (0, 1000));
        let later = Overview::without_waiting(&engine, UnixMs(400));
        assert_eq!((later.dbs[&0].mean_ttl, later.stats), (600, seen.stats), "times go on");
        put(&engine, 7..8, Ttl::Clear);
        assert_eq!(changed(), 1);
        let seen = Overview::without_waiting(&engine, UnixMs(0));
        assert_eq!((seen.dbs[&0].keys, seen.dbs[&0].expires, seen.stats.dirty), (100, 99, 101));
        assert_eq!(changed(), 0);
    }

    #[test]
    fn a_command_sees_its_own_changes_under_the_locks_that_it_holds() {
        let engine = Engine::new(&Options { shards: 4, ..Options::default() }, Arc::new(NullHost));
        put(&engine, 0..100, Ttl::Clear);
        let hash = engine.hasher().hash(b"new");
        let mut keys =
            Keys::new(&engine, HeldLocks::keys(&engine, std::iter::once(hash)), 0, ExecContext::client(UnixMs(0)));
        for round in 1..=3 {
            let name = format!("{{new}}{round}");
            let mut edit = keys.edit(keys.key(name.as_bytes()));
            edit.set_string(NewString::Bytes(b"v"), Ttl::Clear);
            edit.commit(EventClass::STRING, "set");
            let seen = Overview::of(&mut keys);
            assert_eq!((seen.dbs[&0].keys, seen.stats.dirty), (100 + round, 100 + round as u64));
        }
        keys.unlock();
        let seen = Overview::without_waiting(&engine, UnixMs(0));
        assert_eq!((seen.dbs[&0].keys, seen.stats.dirty), (103, 103));
    }
}
