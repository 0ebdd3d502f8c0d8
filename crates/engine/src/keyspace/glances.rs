//! Statistics of the keyspace for threads that never wait: a shard whose lock is not free at this moment is reported as
//! it was seen last, except for numbers that are known without its lock.
//!
//! A few numbers are stored of each database that has keys in a shard.

use crate::keyspace::Keyspace;
use crate::keyspace::keyspace_stats::{DbOverview, Overview};
use crate::keyspace::shard::{LOW, Shard};
use crate::time::UnixMs;
use std::sync::atomic::Ordering::Relaxed;

/// Numbers of all shards when they were last seen.
pub struct Glances(Box<[Glance]>);

/// One shard, as it was seen last.
#[derive(Clone, Default)]
struct Glance {
    tracked_keys: usize,
    tracked_items: usize,
    dbs: Vec<(u32, DbOverview)>,
    /// Bytes of the others' indexes.
    idle_bytes: usize,
}

impl Glances {
    /// Makes numbers before the first look.
    pub fn new(keyspace: &Keyspace) -> Glances {
        Glances(vec![Glance::default(); keyspace.locks().len()].into_boxed_slice())
    }

    /// Looks at all shards whose locks are free, one at a time.
    pub fn refresh(&mut self, keyspace: &Keyspace, now: UnixMs) -> Overview {
        let now = now.0.max(0) as u64;
        let mut overview = Overview::default();
        overview.stats.dirty = keyspace.persistence_status().elsewhere.load(Relaxed);
        for (index, glance) in self.0.iter_mut().enumerate() {
            match keyspace.locks().try_one(index) {
                Some(shard) => {
                    glance.see(&shard, now);
                    keyspace.last_stats.note(index, &shard.stats);
                }
                None => glance.count_keys(keyspace, index),
            }
            overview.stats.add(&keyspace.last_stats.of(index));
            overview.tracked_keys += glance.tracked_keys;
            overview.tracked_items += glance.tracked_items;
            overview.dbs.entry(0).or_default().expiry_bytes += glance.idle_bytes;
            for (number, db) in &glance.dbs {
                overview.dbs.entry(*number).or_default().add(db);
            }
        }
        overview
    }
}

impl Glance {
    fn see(&mut self, shard: &Shard, now: u64) {
        self.tracked_keys = shard.listeners.tracked.len();
        self.tracked_items = shard.listeners.tracked.items();
        self.dbs.clear();
        self.idle_bytes = 0;
        for (number, db) in shard.dbs.iter() {
            let seen = DbOverview::of(db, now);
            if (DbOverview { expiry_bytes: 0, ..seen }) == DbOverview::default() {
                self.idle_bytes += seen.expiry_bytes;
            } else {
                self.dbs.push((number, seen));
            }
        }
    }

    /// Counts the keys of a shard whose lock another thread holds.
    fn count_keys(&mut self, keyspace: &Keyspace, index: usize) {
        for number in 0..LOW as u32 {
            let Some(keys) = keyspace.shard_len(index, number) else { continue };
            match self.dbs.iter_mut().find(|(known, _)| *known == number) {
                Some((_, db)) => db.keys = keys,
                None if keys > 0 => self.dbs.push((number, DbOverview { keys, ..DbOverview::default() })),
                None => {}
            }
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::data::event_class::EventClass;
    use crate::data::value::NewString;
    use crate::keyspace::edit::Ttl;
    use crate::keyspace::held_locks::HeldLocks;
    use crate::keyspace::keys::Keys;
    use crate::keyspace::origin::Origin;
    use crate::{Engine, NullHost, Options};
    use std::sync::Arc;

    #[test]
    fn a_held_shard_is_reported_as_it_was() {
        let engine = Engine::new(&Options { shards: 4, ..Options::default() }, Arc::new(NullHost));
        let put = |names: std::ops::Range<u32>| {
            for name in names {
                let name = format!("{name}");
                let hash = engine.hasher().hash(name.as_bytes());
                let held = HeldLocks::keys(&engine, std::iter::once(hash));
                let mut keys = Keys::new(&engine, held, 0, Origin::client(UnixMs(0)));
                let mut edit = keys.edit(keys.key(name.as_bytes()));
                edit.set_string(NewString::Bytes(b"v"), Ttl::At(UnixMs(1000)));
                edit.commit(EventClass::STRING, "set");
                keys.unlock();
            }
        };
        let mut glances = Glances::new(&engine);
        assert_eq!(glances.refresh(&engine, UnixMs(0)).dbs[&0].keys, 0);
        put(0..100);
        let seen = glances.refresh(&engine, UnixMs(0));
        assert_eq!((seen.dbs[&0].keys, seen.dbs[&0].expires, seen.stats.dirty), (100, 100, 100));
        assert_eq!(seen.dbs[&0].mean_ttl(), 1000);
        put(100..200);
        let held = engine.locks().one(2);
        let seen = glances.refresh(&engine, UnixMs(0));
        assert_eq!(seen.dbs[&0].keys, 200, "keys are counted without the lock");
        assert!((101..200).contains(&seen.dbs[&0].expires) && (101..200).contains(&seen.stats.dirty));
        drop(held);
        let seen = glances.refresh(&engine, UnixMs(0));
        assert_eq!((seen.dbs[&0].expires, seen.stats.dirty), (200, 200));
    }
}
