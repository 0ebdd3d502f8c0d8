//! Numbers of a shard that every thread may read without its lock: its keys, and its next work for the background.
//!
//! Both are written under the shard's lock. New keys are counted at once, removed ones when the lock is released: a
//! transaction that removes a key and puts it back does not hide it. So a walk passes by shards without keys, and
//! lengths are sums that no command waits for. They may be of the middle of a transaction, but not too small.

use crate::data::slot::slot_of;
use crate::keyspace::Keyspace;
use crate::keyspace::shard::{Db, LOW, Shard};
use crate::time::UnixMs;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use structures::ttl_index::LATEST;

/// Number of keys of a shard, by database. In this order: the first database's word lies in the line of the lock.
#[derive(Default)]
#[repr(C)]
pub struct Lengths {
    /// Keys of the databases after the first, and in the last word of all beyond [`LOW`] together.
    others: [AtomicU32; LOW],
    first: AtomicU32,
    /// Databases, as bits, with removed keys that are still counted; the last bit of them stands for all beyond.
    /// Beside them [`SEEN`].
    gone: AtomicU32,
}

/// Bit of a shard that has not been locked by a command since its [numbers](crate::keyspace::seen_shards) were seen. It
/// lies among the bits of removed keys, so that a release of the lock makes one comparison for both.
const SEEN: u32 = 1 << 31;

impl Lengths {
    #[inline(always)]
    fn word(&self, db: u32) -> &AtomicU32 {
        match db {
            0 => &self.first,
            _ => &self.others[(db as usize).min(LOW) - 1],
        }
    }

    /// Returns the number of keys of a database; None where there are some of several databases together.
    fn get(&self, db: u32) -> Option<usize> {
        let keys = self.word(db).load(Relaxed) as usize;
        ((db as usize) < LOW || keys == 0).then_some(keys)
    }

    #[inline(never)]
    fn settle(&self, gone: u32, shard: &Shard) {
        if gone == SEEN {
            return self.gone.store(0, Relaxed);
        }
        let mut beyond = 0;
        for (number, db) in shard.dbs.iter().filter(|(number, _)| gone & bit(*number) != 0) {
            match number as usize {
                0..LOW => self.word(number).store(db.table.len() as u32, Relaxed),
                _ => beyond += db.table.len() as u32,
            }
        }
        if gone & bit(LOW as u32) != 0 {
            self.others[LOW - 1].store(beyond, Relaxed);
        }
        self.gone.store(0, Relaxed);
    }

    /// Returns the number of keys of all databases.
    fn total(&self) -> usize {
        self.others.iter().chain([&self.first]).map(|word| word.load(Relaxed) as usize).sum()
    }
}

fn bit(db: u32) -> u32 {
    1 << db.min(LOW as u32)
}

/// Time for each shard at which the background has work there: the earliest expiry, or an earlier time, Unix time in
/// milliseconds. 0: at once, since a table is being resized. Lies apart, since it is seldom written to.
pub(crate) struct DueTimes(Box<[AtomicU64]>);

impl DueTimes {
    pub fn new(shards: usize) -> DueTimes {
        DueTimes((0..shards).map(|_| AtomicU64::new(NEVER)).collect())
    }
}

const NEVER: u64 = u64::MAX;

impl Keyspace {
    /// Counts new keys in a database of a shard, whose lock is held.
    #[inline(always)]
    pub(crate) fn keys_came(&self, shard: usize, db: u32, keys: usize) {
        let word = self.locks().words(shard).word(db);
        word.store(word.load(Relaxed).wrapping_add(keys as u32), Relaxed);
    }

    /// Counts a removed key of that name: as [`keys_went`](Self::keys_went), and its slot has one less.
    #[inline(always)]
    pub(crate) fn key_went(&self, shard: usize, db: u32, name: &[u8]) {
        self.keys_went(shard, db);
        if self.slot_counts().is_on() {
            self.slot_counts().key_went(slot_of(name), db);
        }
    }

    /// Marks that keys were removed from a database of a shard, whose lock is held: they are counted until it is
    /// [released](Self::settle_lengths).
    #[inline(always)]
    pub fn keys_went(&self, shard: usize, db: u32) {
        let gone = &self.locks().words(shard).gone;
        gone.store(gone.load(Relaxed) | bit(db), Relaxed);
    }

    /// Exchanges the counts of two databases in a shard, whose lock is held, so many keys each.
    pub fn keys_swapped(&self, shard: usize, one: (u32, usize), two: (u32, usize)) {
        self.keys_came(shard, one.0, two.1);
        self.keys_came(shard, two.0, one.1);
        self.keys_went(shard, one.0);
        self.keys_went(shard, two.0);
        self.slot_counts().swap(self.hasher().slots_of(shard), one.0, two.0);
    }

    /// Corrects the counts of a shard from which keys may have been removed. To be called before its lock is released.
    #[inline(always)]
    pub(crate) fn settle_lengths(&self, index: usize, shard: &Shard) {
        let words = self.locks().words(index);
        let gone = words.gone.load(Relaxed);
        if gone != 0 {
            if gone & SEEN != 0 {
                self.seen_shards().mark_changed(index);
            }
            words.settle(gone, shard);
        }
        #[cfg(debug_assertions)]
        {
            self.check_words(index, shard);
            self.check_slot_counts(index, shard);
        }
    }

    /// Marks a shard, whose lock is held, as changed in a number that [is seen](crate::keyspace::seen_shards). For
    /// changes that remove no key and end without [`settle_lengths`](Self::settle_lengths).
    pub(crate) fn note_change(&self, index: usize) {
        let gone = &self.locks().words(index).gone;
        if gone.load(Relaxed) & SEEN != 0 {
            gone.store(gone.load(Relaxed) & !SEEN, Relaxed);
            self.seen_shards().mark_changed(index);
        }
    }

    /// Marks a shard, whose lock is held, as seen: the next release of its lock marks it as changed.
    pub(super) fn note_seen(&self, index: usize) {
        let gone = &self.locks().words(index).gone;
        gone.store(gone.load(Relaxed) | SEEN, Relaxed);
    }

    /// Whether nothing has changed in a shard, whose lock is held, since it was seen.
    #[cfg(debug_assertions)]
    pub(super) fn is_as_seen(&self, index: usize) -> bool {
        self.locks().words(index).gone.load(Relaxed) & SEEN != 0
    }

    /// Returns the keys of a database in a shard, perhaps with removed ones while a lock is still held. None where only
    /// the shard can tell.
    #[inline]
    pub fn shard_len(&self, shard: usize, db: u32) -> Option<usize> {
        self.locks().words(shard).get(db)
    }

    /// Returns the keys of a database in all shards, as [`shard_len`](Self::shard_len) does of one.
    pub fn known_len(&self, db: u32) -> Option<usize> {
        match db {
            0 => Some(self.locks().all_words().map(|words| words.first.load(Relaxed) as usize).sum()),
            _ => self.locks().all_words().map(|words| words.get(db)).sum(),
        }
    }

    /// Returns the number of keys of all databases in a shard.
    pub fn shard_total(&self, shard: usize) -> usize {
        self.locks().words(shard).total()
    }

    /// Whether nothing in a shard has an expiry.
    pub(crate) fn is_shard_lasting(&self, shard: usize) -> bool {
        self.due_times.0[shard].load(Relaxed) == NEVER
    }

    /// Schedules the background for an expiry in a shard, whose lock is held.
    #[inline]
    pub(crate) fn expires_at(&self, shard: usize, expiry: Option<u64>) {
        if let Some(expiry) = expiry.map(|at| at.min(LATEST))
            && expiry < self.due_times.0[shard].load(Relaxed)
        {
            self.due_times.0[shard].store(expiry, Relaxed);
        }
    }

    /// Schedules the background for a table in a shard, whose lock is held, that may have begun to change its size.
    #[inline(always)]
    pub(crate) fn resizes(&self, shard: usize, db: &Db) {
        if db.table.is_resizing() {
            self.expires_at(shard, Some(0));
        }
    }

    /// Whether the background has something to do in a shard.
    #[inline]
    pub(crate) fn is_due(&self, shard: usize, now: UnixMs) -> bool {
        self.due_times.0[shard].load(Relaxed) <= now.0.max(0) as u64
    }

    /// Sets the next work of the background in a shard, whose lock is held, after it has done the present one.
    pub(crate) fn settle_due_time(&self, index: usize, shard: &Shard) {
        let next = shard.dbs.iter().map(|(_, db)| next_due(db)).min();
        self.due_times.0[index].store(next.unwrap_or(NEVER), Relaxed);
    }

    /// Checks the words, whenever a shard's lock is released.
    #[cfg(debug_assertions)]
    fn check_words(&self, index: usize, shard: &Shard) {
        let words = self.locks().words(index);
        let mut beyond = 0;
        for (number, db) in shard.dbs.iter() {
            match words.get(number) {
                Some(keys) => assert_eq!(keys, db.table.len(), "keys of database {number} in shard {index}"),
                None => beyond += db.table.len(),
            }
            assert!(self.due_times.0[index].load(Relaxed) <= next_due(db), "database {number} in shard {index} is due");
        }
        assert_eq!(beyond, words.others[LOW - 1].load(Relaxed) as usize, "keys of high databases in shard {index}");
    }
}

fn next_due(db: &Db) -> u64 {
    if db.table.is_resizing() {
        return 0;
    }
    [db.expiry.keys.first(), db.expiry.elements.first()].into_iter().flatten().min().unwrap_or(NEVER)
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use crate::data::event_class::EventClass;
    use crate::data::value::NewString;
    use crate::host::threads::Server;
    use crate::keyspace::caller::ExecContext;
    use crate::keyspace::edit::Ttl;
    use crate::keyspace::held_locks::{HeldLocks, LockTimeout};
    use crate::keyspace::keys::Keys;
    use crate::time::UnixMs;
    use crate::{Engine, NullHost, Options};
    use std::sync::Arc;

    fn engine(shards: usize) -> Engine {
        Engine::new(&Options { shards, databases: 40, ..Options::default() }, Arc::new(NullHost))
    }

    fn put(engine: &Engine, db: u32, name: &str, ttl: Ttl) {
        let hash = engine.hasher().hash(name.as_bytes());
        let mut keys =
            Keys::new(engine, HeldLocks::keys(engine, std::iter::once(hash)), db, ExecContext::client(UnixMs(0)));
        let key = keys.key(name.as_bytes());
        let mut edit = keys.edit(key);
        edit.set_string(NewString::Bytes(b"v"), ttl);
        edit.commit(EventClass::STRING, "set");
        keys.unlock();
    }

    /// Returns the words while all locks are held.
    fn lens(engine: &Engine, db: u32) -> Vec<Option<usize>> {
        let shards = engine.locks().len();
        let _held: Vec<_> = (0..shards).map(|index| engine.locks().one(index)).collect();
        (0..shards).map(|index| engine.shard_len(index, db)).collect()
    }

    #[test]
    fn lengths_are_known_without_a_lock() {
        let engine = engine(4);
        (0..100).for_each(|n| put(&engine, 0, &format!("{n}"), Ttl::Clear));
        (0..10).for_each(|n| put(&engine, 15, &format!("{n}"), Ttl::Clear));
        let sum = |db| lens(&engine, db).into_iter().map(|len| len.expect("one of the first databases")).sum::<usize>();
        assert_eq!([0, 1, 14, 15].map(sum), [100, 0, 0, 10]);
        assert_eq!(engine.len(0), 100);
    }

    #[test]
    fn high_databases_share_a_word_that_tells_where_there_are_none() {
        let engine = engine(64);
        put(&engine, 20, "a", Ttl::Clear);
        put(&engine, 20, "{a}", Ttl::Clear);
        put(&engine, 30, "a", Ttl::Clear);
        let at = engine.hasher().hash(b"a").shard();
        for (index, len) in lens(&engine, 20).into_iter().enumerate() {
            assert_eq!(len, (index != at).then_some(0), "shard {index}");
        }
        assert_eq!([20, 30, 31].map(|db| engine.len(db)), [2, 1, 0]);
        let held = engine.locks().one(at);
        let mut keys = Keys::new(&engine, HeldLocks::Nothing, 20, ExecContext::client(UnixMs(0)));
        keys.set_patience(LockTimeout::None);
        assert_eq!(keys.shard_len(at), Err(crate::Error::WouldBlock));
        drop(held);
        assert_eq!(keys.shard_len(at), Ok(2));
    }

    #[test]
    fn the_background_comes_when_something_is_due() {
        let engine = engine(64);
        let due = |now| (0..64).filter(|shard| engine.is_due(*shard, UnixMs(now))).count();
        put(&engine, 0, "lasting", Ttl::Clear);
        assert_eq!(due(i64::MAX), 0);
        put(&engine, 0, "late", Ttl::At(UnixMs(2000)));
        put(&engine, 3, "{late}r", Ttl::At(UnixMs(3000)));
        put(&engine, 0, "{late}st", Ttl::At(UnixMs(i64::MAX)));
        assert_eq!([1999, 2000, 3000].map(due), [0, 1, 1]);
        let expire = |now: i64| while engine.expire_due(0..64, Server { worker: 0, now_us: UnixMs(now).us() }, 100) {};
        expire(2500);
        assert_eq!([2999, 3000].map(due), [0, 1]);
        assert!(!engine.is_shard_lasting(engine.hasher().hash(b"late").shard()));
        expire(3000);
        assert_eq!((due(4000), engine.len(0), engine.len(3)), (0, 2, 0));
    }

    #[test]
    fn a_table_that_is_being_resized_is_due() {
        let engine = engine(1);
        let mut seen = 0;
        for n in 0..1000 {
            put(&engine, 0, &format!("{n}"), Ttl::Clear);
            let resizes = engine.locks().one(0).dbs[0].table.is_resizing();
            seen += usize::from(resizes);
            assert!(!resizes || engine.is_due(0, UnixMs(1)));
        }
        assert!(seen > 0);
        while engine.is_due(0, UnixMs(1)) {
            engine.expire_due(0..1, Server { worker: 0, now_us: UnixMs(1).us() }, 100);
        }
        assert!(!engine.locks().one(0).dbs[0].table.is_resizing());
    }
}
