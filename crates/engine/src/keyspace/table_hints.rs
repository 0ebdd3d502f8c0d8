//! Hints of the tables' places, which every thread can read without a lock.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use structures::hashtable::{BucketHint, HintedArray};

/// Databases with hints of their own; a power of two.
const HINTED: usize = 16;

/// A table's hint where every thread can read it. Written under the shard's lock; its words may be of
/// different moments. On a line of its own: while a table is being resized each write to it sets its hint.
#[derive(Default)]
#[repr(align(64))]
struct SharedHint {
    /// Start and buckets of the new array and of the old one, and the frontier.
    words: [AtomicU64; 5],
}

impl SharedHint {
    /// Returns the hint; it mixes words of different hints, if it is just being set.
    #[inline(always)]
    fn get(&self) -> BucketHint {
        let [new, new_len, old, old_len, frontier] = self.words.each_ref().map(|word| word.load(Relaxed));
        let array = |start: u64, len: u64| HintedArray { start: start as usize, len: len as usize };
        BucketHint { new: array(new, new_len), old: array(old, old_len), frontier }
    }

    /// Sets the hint. Written only when it differs, so that readers keep their copies of the line.
    #[inline]
    fn set(&self, hint: BucketHint) {
        if self.get() != hint {
            let BucketHint { new, old, frontier } = hint;
            let words = [new.start as u64, new.len as u64, old.start as u64, old.len as u64, frontier];
            self.words.iter().zip(words).for_each(|(shared, word)| shared.store(word, Relaxed));
        }
    }
}

/// The hints of all tables, by database, then by shard. If there are many databases some share theirs: hints may be
/// wrong. The hints of a database are made when its first one is set.
pub(crate) struct TableHints {
    dbs: [OnceLock<Box<[SharedHint]>>; HINTED],
    shards: usize,
}

impl TableHints {
    pub fn new(shards: usize) -> TableHints {
        TableHints { dbs: [const { OnceLock::new() }; HINTED], shards }
    }

    /// Returns a table's hint; nowhere, as long as none was set in the database.
    #[inline(always)]
    pub fn get(&self, db: u32, shard: usize) -> BucketHint {
        let hint = self.of(db).get().and_then(|hints| hints.get(shard));
        hint.map_or_else(BucketHint::default, SharedHint::get)
    }

    pub fn set(&self, db: u32, shard: usize, hint: BucketHint) {
        let hints = self.of(db).get_or_init(|| (0..self.shards).map(|_| SharedHint::default()).collect());
        hints[shard].set(hint);
    }

    fn of(&self, db: u32) -> &OnceLock<Box<[SharedHint]>> {
        &self.dbs[db as usize % HINTED]
    }
}
