//! Prefetching: the memory of keys is requested before the commands of a batch look them up.

use crate::data::key_hash::KeyHash;
use crate::data::table::EntryHint;
use crate::data::value::Value;
use crate::keyspace::Keyspace;
use crate::keyspace::keys::Key;

impl Keyspace {
    /// First step of looking up a batch: prefetches the key's bucket. Takes no lock.
    #[inline]
    pub fn prefetch_bucket(&self, db: u32, hash: KeyHash) {
        self.locks.ask_for(hash.shard());
        self.table_hints.get(db, hash.shard()).prefetch(hash.local());
    }

    /// Second step: returns the place where the key's entry may be; no place when another thread is in the shard, since
    /// it is only a hint.
    #[inline]
    pub fn entry_hint(&self, db: u32, hash: KeyHash) -> EntryHint {
        match self.locks.try_one(hash.shard()) {
            Some(shard) => shard.dbs[db].table.entry_hint(hash.local()),
            None => EntryHint::NOWHERE,
        }
    }

    /// Third step: prefetches the entry of a key that was [further](EntryHint::is_further) on.
    #[inline(never)]
    pub fn prefetch_chain(&self, db: u32, hash: KeyHash) {
        if let Some(shard) = self.locks.try_one(hash.shard()) {
            shard.dbs[db].table.prefetch_chain(hash.local());
        }
    }

    /// Publishes the place of the table in which the key is, for [`prefetch_bucket`](Self::prefetch_bucket). To be
    /// called now and then for some key: a table moves so rarely that most looks at this would find it where it was.
    pub fn show_table(&self, db: u32, hash: KeyHash) {
        let index = hash.shard();
        if let Some(shard) = self.locks.try_one(index) {
            self.table_hints.set(db, index, shard.dbs[db].table.bucket_hint());
        }
    }

    /// Prefetches elements of the same collection that several commands look up.
    pub fn prefetch_elements<'a>(&self, db: u32, key: Key<'_>, elements: impl Iterator<Item = &'a [u8]>) {
        let Some(shard) = self.locks.try_one(key.hash.shard()) else { return };
        let found = shard.dbs[db].table.find(key.hash.local(), |entry| entry.key() == key.name);
        if let Some(Value::Payload(object)) = found.as_ref().map(|found| found.value()) {
            object.prefetch(elements);
        }
    }
}
