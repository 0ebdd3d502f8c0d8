//! The keyspace as it was at one moment, read while others go on writing: for saving it.
//!
//! A cut is begun under all locks, which takes as long as touching every shard once. From then on a walk goes through every table, a few
//! buckets under one hold of a lock, and encodes what it finds. Whoever is about to change a key that the walk has not reached
//! has the key encoded first, as it is; the walk passes over such keys.
//!
//! ```text
//!   positions of a table    | walked ........ | next            ahead: kept before it is changed |
//!                             changes are free  walk             `seen`: names that the walk leaves out
//! ```
//!
//! A key is written once: it is ahead or it is not, by its place on the line of hashes, which no resize changes. Memory beyond the data: the
//! encoded old values, which each step takes away, and the names of keys ahead that were changed.
//!
//! One cut at a time; a second one must wait for the end of the first. A cut that was [ended](Engine::end_cut) by somebody else answers its
//! walk with [`Cancelled`].

use crate::engine::Engine;
use crate::scripts::Libraries;
use crate::shard::{Db, Table};
use crate::value::KeyEntry;
use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use structures::hashtable::position;

/// How a key is written down. Called under its shard's lock.
pub type Encode = Arc<dyn Fn(&mut Vec<u8>, &KeyEntry) + Send + Sync>;

/// The cut of one database in one shard.
#[derive(Default)]
pub struct Cut(Option<Box<Open>>);

struct Open {
    encode: Encode,
    /// The place from which on nothing is walked yet.
    next: u64,
    /// Keys ahead that were changed, as they were.
    kept: Vec<u8>,
    kept_keys: u64,
    /// Keys ahead that the walk is to leave out: changed ones and new ones.
    seen: HashSet<Box<[u8]>>,
}

/// Past every position.
const END: u64 = u64::MAX;
/// Bytes after which a step ends.
const STEP_BYTES: usize = 64 << 10;
/// Buckets after which a step ends.
const STEP_BUCKETS: usize = 64;

/// The cut was ended before it was walked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

/// What a step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub keys: u64,
    /// There is more of this database in this shard.
    pub more: bool,
}

/// What else is of the moment at which a cut began.
#[derive(Clone, Debug, Default)]
pub struct Begun {
    /// Whether there are collections whose elements have deadlines.
    pub timed: bool,
    pub libraries: Arc<Libraries>,
}

impl Cut {
    pub fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// To be called before anything of an entry is changed, or after it was taken out.
    #[inline]
    pub fn keep(&mut self, local: u64, entry: &KeyEntry) {
        if let Some(open) = &mut self.0 {
            open.keep(local, entry);
        }
    }

    /// To be called before a key comes in that there was not.
    #[inline]
    pub fn leave_out(&mut self, local: u64, name: &[u8]) {
        if let Some(open) = &mut self.0
            && position(local) >= open.next
        {
            open.seen.insert(name.into());
        }
    }

    /// To be called before the whole table changes.
    pub fn keep_all(&mut self, table: &Table, local_of: impl Fn(&[u8]) -> u64) {
        if let Some(open) = &mut self.0 {
            table.iter().for_each(|entry| open.keep(local_of(entry.key()), &entry));
            open.next = END;
            open.seen.clear();
        }
    }
}

impl Open {
    #[cold]
    fn keep(&mut self, local: u64, entry: &KeyEntry) {
        if position(local) >= self.next && !self.seen.contains(entry.key()) {
            self.seen.insert(entry.key().into());
            (self.encode)(&mut self.kept, entry);
            self.kept_keys += 1;
        }
    }

    fn step(&mut self, table: &Table, local_of: impl Fn(&[u8]) -> u64, out: &mut Vec<u8>) -> Step {
        let mut keys = std::mem::take(&mut self.kept_keys);
        out.append(&mut self.kept);
        for _ in 0..STEP_BUCKETS {
            if self.next == END || out.len() >= STEP_BYTES {
                break;
            }
            let (next, seen, encode) = (self.next, &self.seen, &self.encode);
            let after = table.scan(next, |entry| {
                // A bucket that was resized meanwhile may begin before where the walk is.
                if position(local_of(entry.key())) >= next && (seen.is_empty() || !seen.contains(entry.key())) {
                    encode(out, entry);
                    keys += 1;
                }
            });
            self.next = after.unwrap_or(END);
        }
        if self.next == END {
            self.seen.clear();
        }
        Step { keys, more: self.next != END }
    }
}

impl Engine {
    /// Begins a cut at this moment. An error if one is under way.
    pub fn begin_cut(&self, encode: Encode) -> io::Result<Begun> {
        let mut locks = self.locks().escalated();
        (0..self.locks().len()).for_each(|index| _ = locks.get(index));
        if self.cut_open.swap(true, Relaxed) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let mut timed = false;
        for index in 0..self.locks().len() {
            for db in &mut locks.get(index).dbs {
                timed |= !db.expiry.elements.is_empty();
                let (encode, next) = (Arc::clone(&encode), if db.table.is_empty() { END } else { 0 });
                let open = Open { encode, next, kept: Vec::new(), kept_keys: 0, seen: HashSet::new() };
                db.cut = Cut(Some(Box::new(open)));
            }
        }
        Ok(Begun { timed, libraries: self.scripts().libraries() })
    }

    /// Ends the cut, also when it was not walked through. Takes each lock once.
    pub fn end_cut(&self) {
        self.cut_open.store(false, Relaxed);
        for index in 0..self.locks().len() {
            self.locks().one(index).dbs.iter_mut().for_each(|db| db.cut = Cut(None));
        }
    }

    /// Asks for the end of the cut: its next step, or the one who rests between two, sees it.
    pub fn cancel_cut(&self) {
        self.cut_open.store(false, Relaxed);
    }

    pub fn cut_is_open(&self) -> bool {
        self.cut_open.load(Relaxed)
    }

    /// Appends some of the keys of a database in a shard as they were at the cut, with those that were kept.
    pub fn cut_step(&self, shard: usize, db: u32, out: &mut Vec<u8>) -> Result<Step, Cancelled> {
        if !self.cut_is_open() {
            return Err(Cancelled);
        }
        let mut guard = self.locks().one(shard);
        let Db { table, cut, .. } = &mut guard.dbs[db as usize];
        let open = cut.0.as_mut().ok_or(Cancelled)?;
        Ok(open.step(table, |name| self.hasher().local_of(name), out))
    }
}
