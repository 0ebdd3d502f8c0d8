//! The keys of one slot: counted, listed and removed.
//!
//! They lie in one shard, among those of its other slots; nothing else knows which they are. Its table is walked a few
//! buckets under one hold of the lock, unless the command holds that: so a slot of millions stalls nobody, and a count
//! is of one moment only for who holds the lock.

use crate::Error;
use crate::data::event_class::EventClass;
use crate::data::slot::slot_of;
use crate::data::value::KeyEntry;
use crate::keyspace::edit::Edit;
use crate::keyspace::keys::Keys;
use crate::propagation::effects::Logged;
use structures::hashtable::position;

/// Buckets that are looked into under one hold of the lock: some ten microseconds' worth.
const PIECE: usize = 64;
/// Keys that are removed at most under one hold.
const REMOVED: usize = 32;

impl Keys<'_> {
    /// How many keys of the command's database lie in a slot, expired ones among them.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]
    pub fn count_keys_in_slot(&mut self, slot: u16) -> Result<usize, Error> {
        let mut count = 0;
        let mut next = Some(0);
        while let Some(from) = next {
            next = self.slot_piece(slot, from, |_| {
                count += 1;
                true
            })?;
        }
        Ok(count)
    }

    /// The names of up to `max` of them.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]
    pub fn keys_in_slot(&mut self, slot: u16, max: usize) -> Result<Vec<Box<[u8]>>, Error> {
        let mut names = Vec::new();
        let mut next = Some(0);
        while let Some(from) = next.filter(|_| names.len() < max) {
            next = self.slot_piece(slot, from, |entry| {
                if names.len() < max {
                    names.push(entry.key().into());
                }
                names.len() < max
            })?;
        }
        Ok(names)
    }

    /// Removes them, each as a change of its own, and returns how many there were. Keys that come in meanwhile may
    /// stay. The log is told of each; the command itself is not logged.
    ///
    /// # Errors
    /// [`Error::WouldBlock`]: those that are left are still there.
    pub fn flush_slot(&mut self, slot: u16) -> Result<u64, Error> {
        let mut removed = 0;
        let mut next = Some(0);
        while let Some(from) = next {
            let mut names: Vec<Box<[u8]>> = Vec::new();
            next = self.slot_piece(slot, from, |entry| {
                names.push(entry.key().into());
                names.len() < REMOVED
            })?;
            for name in names {
                removed += u64::from(self.remove_logged(&name)?);
            }
        }
        Ok(removed)
    }

    /// Shows entries of the slot, from a position of its shard's table on, and returns where to go on. `visit` says
    /// whether to go on after the bucket.
    fn slot_piece(
        &mut self,
        slot: u16,
        from: u64,
        mut visit: impl FnMut(&KeyEntry) -> bool,
    ) -> Result<Option<u64>, Error> {
        let (keyspace, db) = (self.keyspace(), self.db_index());
        let hasher = keyspace.hasher();
        self.with_shard(hasher.shard_of(slot), |shard, _| {
            let table = &shard.dbs[db].table;
            let (mut next, mut goes_on, mut buckets) = (Some(from), true, 0);
            while let Some(at) = next.filter(|_| goes_on && buckets < PIECE) {
                next = table.scan(at, |entry| {
                    // A bucket may have been joined with one that was visited before the lock was last given up.
                    if slot_of(entry.key()) == slot && position(hasher.local_of(entry.key())) >= from {
                        goes_on &= visit(entry);
                    }
                });
                buckets += 1;
            }
            next
        })
    }

    fn remove_logged(&mut self, name: &[u8]) -> Result<bool, Error> {
        let (keyspace, db, origin, key) = (self.keyspace(), self.db_index(), self.origin(), self.key(name));
        self.with_shard(key.hash.shard(), |shard, effects| {
            let local = key.hash.local();
            let slot_ref = shard.dbs[db].table.slot_ref(local, |entry| entry.key() == name);
            let mut edit = Edit::new(keyspace, shard, effects, db, key, local, slot_ref, origin);
            if !edit.remove() {
                return false;
            }
            edit.commit(EventClass::GENERIC, "del");
            keyspace.record_removal(shard, db, b"DEL", name);
            if keyspace.has_log() {
                effects.rare().logged = Logged::Nothing;
            }
            true
        })
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::data::value::NewString;
    use crate::keyspace::edit::Ttl;
    use crate::keyspace::held_locks::HeldLocks;
    use crate::keyspace::origin::Origin;
    use crate::time::UnixMs;
    use crate::{Engine, NullHost, Options};
    use std::collections::BTreeSet;
    use std::sync::Arc;

    fn engine(shards: usize) -> Engine {
        Engine::new(&Options { shards, databases: 2, ..Options::default() }, Arc::new(NullHost))
    }

    fn put(engine: &Engine, name: &str) {
        let hash = engine.hasher().hash(name.as_bytes());
        let held = HeldLocks::keys(engine, std::iter::once(hash));
        let mut keys = Keys::new(engine, held, 0, Origin::client(UnixMs(0)));
        let key = keys.key(name.as_bytes());
        let mut edit = keys.edit(key);
        edit.set_string(NewString::Bytes(b"v"), Ttl::Clear);
        edit.commit(EventClass::STRING, "set");
        keys.unlock();
    }

    #[test]
    fn a_slot_is_counted_listed_and_emptied_and_no_other() {
        for shards in [1, 8, 1024] {
            let engine = engine(shards);
            let (tagged, other) = (slot_of(b"tag"), slot_of(b"another"));
            assert_ne!(tagged, other);
            let names: BTreeSet<String> = (0..3000).map(|n| format!("{{tag}}{n}")).collect();
            names.iter().for_each(|name| put(&engine, name));
            (0..500).for_each(|n| put(&engine, &format!("{{another}}{n}")));
            let mut keys = Keys::new(&engine, HeldLocks::Nothing, 0, Origin::client(UnixMs(0)));
            assert_eq!(keys.count_keys_in_slot(tagged), Ok(3000));
            assert_eq!(keys.count_keys_in_slot(other), Ok(500));
            assert_eq!(keys.keys_in_slot(other, 7).map(|names| names.len()), Ok(7));
            assert_eq!(keys.keys_in_slot(other, 0).map(|names| names.len()), Ok(0));
            let found = keys.keys_in_slot(tagged, usize::MAX).expect("no lock is held");
            let found: BTreeSet<String> = found.iter().map(|name| String::from_utf8_lossy(name).into_owned()).collect();
            assert_eq!(found, names);
            assert_eq!((keys.flush_slot(tagged), keys.flush_slot(tagged)), (Ok(3000), Ok(0)));
            assert_eq!((keys.count_keys_in_slot(tagged), keys.count_keys_in_slot(other)), (Ok(0), Ok(500)));
            keys.select(1);
            assert_eq!(keys.count_keys_in_slot(other), Ok(0));
            keys.unlock();
            assert_eq!(engine.len(0), 500);
        }
    }
}
