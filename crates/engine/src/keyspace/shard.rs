//! A piece of the keyspace: the data that one lock guards.

use crate::clients::key_clients::{KeyClients, ShardListeners};
use crate::data::table::{ExpiryIndex, Table};
use crate::data::value::{Object, ValueExt};
use crate::data::value_type::ValueType;
use crate::keyspace::caller::is_due;
use crate::snapshot::captures::Captures;
use crate::snapshot::streamed_reply::StreamedReplies;
use crate::status::deny_reasons::Epoch;
use crate::time::UnixMs;
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::ops::{Index, IndexMut};
use std::sync::{Arc, LazyLock};

/// The part of one database that lies in this shard.
#[derive(Default)]
pub struct Db {
    /// The keys with their values.
    pub table: Table,
    /// Expiries of keys and of elements.
    pub expiry: ExpiryIndex,
    /// Clients that watch keys or wait for some.
    pub clients: KeyClients,
    /// Replies that list collections while these are changed.
    pub streamed_replies: StreamedReplies,
    /// The snapshots that are being read.
    pub captures: Captures,
}

impl Db {
    /// Whether it has no keys, no room for some, and no clients that watch or wait.
    pub(super) fn is_idle(&self) -> bool {
        self.is_bare() && self.clients.watchers().is_empty() && self.clients.wait_queues().is_empty()
    }

    /// Whether it has no keys, and no room for some.
    pub fn is_bare(&self) -> bool {
        self.table.bucket_count() == 0 && self.expiry.keys.is_empty() && self.expiry.elements.is_empty()
    }

    /// Leaves an object that was taken out of its key to the replies that still read it. Returned when there is none.
    pub fn leave_behind(&mut self, name: &[u8], object: Object) -> Option<Object> {
        if self.streamed_replies.is_empty() && !self.captures.wants(name) {
            return Some(object);
        }
        let object = Arc::new(object);
        self.share(name, &object);
        Arc::into_inner(object)
    }

    /// Leaves an object to all who still read it; it stays shared in any case.
    pub fn share(&mut self, name: &[u8], object: &Arc<Object>) {
        if !self.streamed_replies.is_empty() {
            self.streamed_replies.adopt(name, object);
        }
        if self.captures.wants(name) {
            self.captures.adopt(name, object);
        }
    }

    /// Returns the type of the key's value, without a trace of the look; None when there is none or it has expired.
    pub fn value_type(&self, local: u64, name: &[u8], now: UnixMs) -> Option<&'static ValueType> {
        let found = self.table.find(local, |entry| entry.key() == name)?;
        let due = found.expiry().is_some_and(|expiry| is_due(expiry, now));
        (!due).then(|| found.value().value_type())
    }
}

/// Counted under the shard's lock, so that no line is shared for it; summed up when read. Counts of most commands come
/// first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ShardStats {
    /// Reads that found a key.
    pub hits: u64,
    /// Reads that found none.
    pub misses: u64,
    /// Changes since the start.
    pub dirty: u64,
    /// Keys that were removed because they had expired.
    pub expired: u64,
    /// Elements of collections that were removed because they had expired.
    pub expired_elements: u64,
    /// Keys that were evicted.
    pub evicted: u64,
}

impl ShardStats {
    /// Resets the counts (CONFIG RESETSTAT); the changes since the last save are no statistics.
    pub fn reset(&mut self) {
        *self = ShardStats { dirty: self.dirty, ..ShardStats::default() };
    }

    /// Subtracts another shard's, which were added.
    pub fn subtract(&mut self, other: &ShardStats) {
        self.hits = self.hits.wrapping_sub(other.hits);
        self.misses = self.misses.wrapping_sub(other.misses);
        self.expired = self.expired.wrapping_sub(other.expired);
        self.expired_elements = self.expired_elements.wrapping_sub(other.expired_elements);
        self.evicted = self.evicted.wrapping_sub(other.evicted);
        self.dirty = self.dirty.wrapping_sub(other.dirty);
    }

    /// Adds another shard's.
    pub fn add(&mut self, other: &ShardStats) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.expired += other.expired;
        self.expired_elements += other.expired_elements;
        self.evicted += other.evicted;
        self.dirty += other.dirty;
    }
}

/// One shard. In this order: the fields that all commands need lie in one cache line with the lock.
#[repr(C)]
pub struct Shard {
    /// Epoch whose commands, and those of later ones, may run here.
    epoch: Epoch,
    /// Its part of each database.
    pub dbs: Databases,
    /// Counts under its lock.
    pub stats: ShardStats,
    /// Listeners to its keys in all databases.
    pub listeners: ShardListeners,
    index: usize,
    /// The change log's length after the last change here: a command that has read here has seen no later one.
    pub logged_to: u64,
}

impl Shard {
    /// Makes the empty shard of this number.
    pub fn new(index: usize) -> Self {
        Shard {
            epoch: Epoch::default(),
            dbs: Databases::default(),
            stats: ShardStats::default(),
            listeners: ShardListeners::default(),
            index,
            logged_to: 0,
        }
    }

    /// Whether a command that was admitted in this epoch may run here.
    #[inline(always)]
    pub fn admits(&self, epoch: Epoch) -> bool {
        self.epoch <= epoch
    }

    /// Refuses commands from now on that were admitted before this epoch.
    pub(crate) fn enter(&mut self, epoch: Epoch) {
        self.epoch = self.epoch.max(epoch);
    }

    /// Returns the shard's number.
    pub fn index(&self) -> usize {
        self.index
    }
}

/// The fields that commands need end with their line: before it lie 16 bytes of the lock and of words beside it.
const _: () = assert!(16 + offset_of!(Shard, stats) + offset_of!(ShardStats, expired) <= 64);

/// The databases of a shard by their numbers. Beyond the first ones, a database costs nothing until something is put
/// into it: until then reads see an empty one.
#[derive(Default)]
#[repr(C)]
pub struct Databases {
    /// The first ones, allocated at once, so that a memory limit need not make room for them.
    low: Box<[Db; LOW]>,
    /// Databases from [`LOW`] on.
    #[expect(clippy::box_collection, reason = "a word in the line of the shard's lock, where a map takes three")]
    high: Option<Box<BTreeMap<u32, Db>>>,
}

/// Databases that are found at their numbers, without a search: as many as there are by default.
pub(crate) const LOW: usize = 16;

/// Database that a read sees in the place of one that was not made.
static EMPTY: LazyLock<Db> = LazyLock::new(Db::default);

impl Databases {
    #[cold]
    #[inline(never)]
    fn search(&self, number: u32) -> &Db {
        self.high.as_ref().and_then(|high| high.get(&number)).unwrap_or(&EMPTY)
    }

    #[cold]
    #[inline(never)]
    fn make(&mut self, number: u32) -> &mut Db {
        self.high.get_or_insert_default().entry(number).or_default()
    }

    /// Returns the first database from this number on that was made.
    pub fn next(&self, number: u32) -> Option<u32> {
        if (number as usize) < LOW {
            return Some(number);
        }
        self.high.as_ref()?.range(number..).next().map(|(number, _)| *number)
    }

    /// Returns all databases that were made, with their numbers.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Db)> {
        let high = self.high.iter().flat_map(|high| high.iter()).map(|(number, db)| (*number, db));
        (0..).zip(&*self.low).chain(high)
    }

    /// Returns all that were made, with their numbers.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = (u32, &mut Db)> {
        let high = self.high.iter_mut().flat_map(|high| high.iter_mut()).map(|(number, db)| (*number, db));
        (0..).zip(&mut *self.low).chain(high)
    }
}

impl Index<u32> for Databases {
    type Output = Db;

    #[inline(always)]
    fn index(&self, number: u32) -> &Db {
        match self.low.get(number as usize) {
            Some(db) => db,
            None => self.search(number),
        }
    }
}

impl IndexMut<u32> for Databases {
    #[inline(always)]
    fn index_mut(&mut self, number: u32) -> &mut Db {
        if number as usize >= LOW {
            return self.make(number);
        }
        &mut self.low[number as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(dbs: &Databases) -> Vec<u32> {
        dbs.iter().map(|(number, _)| number).collect()
    }

    #[test]
    fn databases_are_made_when_they_are_to_be_changed() {
        let mut dbs = Databases::default();
        for number in [0, 1, 15, 16, u32::MAX] {
            assert!(dbs[number].table.is_empty());
        }
        let low: Vec<u32> = (0..LOW as u32).collect();
        assert_eq!(numbers(&dbs), low);
        for number in [2, u32::MAX, 16, 1, 999, u32::MAX] {
            dbs[number].table.reserve(1000 + number as usize % 100);
            assert!(dbs[number].table.bucket_count() > 0);
        }
        let made = [&low[..], &[16, 999, u32::MAX]].concat();
        assert_eq!(numbers(&dbs), made);
        assert!(dbs.iter_mut().map(|(number, _)| number).eq(made.iter().copied()));
        let next = |number: u32| dbs.next(number);
        assert!(made.into_iter().all(|number| next(number) == Some(number)));
        assert_eq!([3, 17, 1000].map(next), [Some(3), Some(999), Some(u32::MAX)]);
        assert_eq!(Databases::default().next(16), None);
    }
}
