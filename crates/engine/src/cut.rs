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
//! A key is written once: it is ahead or it is not, by its place on the line of hashes, which no resize changes.
//!
//! **Large values** are put aside when the walk meets them and written after all others in pieces, a piece under one hold of the lock,
//! while they stay as they are. Who changes one has what is left of it written down first.
//!
//! **Whole databases.** FLUSHDB leaves its table to the cut, which walks on in that and frees it in the end; SWAPDB swaps the cuts
//! with the tables. Neither costs more than without a cut.
//!
//! Memory beyond the data: the encoded old values, which each step takes away, and also [all others](Engine::cut_drain) when they have
//! become many, and the names of keys ahead that were changed.
//!
//! One cut at a time; a second one must wait for the end of the first. A cut that was [ended](Engine::end_cut) by somebody else answers its
//! walk with [`Cancelled`].

use crate::effects::Garbage;
use crate::engine::Engine;
use crate::expiry::ExpiryIndex;
use crate::scripts::Libraries;
use crate::shard::{Db, Table};
use crate::sync::unlock_fairly;
use crate::value::{KeyEntry, Object, Value};
use foldhash::fast::RandomState;
use std::collections::HashSet;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use structures::hashtable::position;

/// How keys are written down. Called under their shards' locks.
pub trait Encoder: Send + Sync {
    /// Appends a key with its value.
    fn put(&self, out: &mut Vec<u8>, entry: &KeyEntry);

    /// The same in the way that is fastest: a client waits.
    fn keep(&self, out: &mut Vec<u8>, entry: &KeyEntry) {
        self.put(out, entry);
    }

    /// Whether the value is so large that it is not to be written under one hold of a lock.
    fn is_large(&self, _entry: &KeyEntry) -> bool {
        false
    }

    /// Appends the beginning of a large one, and goes on from there.
    fn begin(&self, out: &mut Vec<u8>, entry: &KeyEntry) -> Box<dyn Rest> {
        self.put(out, entry);
        Box::new(Nothing)
    }
}

/// What is left to be written of a large value, which has not changed since it was begun.
pub trait Rest: Send {
    /// Appends about `max` bytes more; whether these were the last.
    fn put(&mut self, out: &mut Vec<u8>, entry: &KeyEntry, max: usize) -> bool;
}

struct Nothing;

impl Rest for Nothing {
    fn put(&mut self, _: &mut Vec<u8>, _: &KeyEntry, _: usize) -> bool {
        true
    }
}

impl<F: Fn(&mut Vec<u8>, &KeyEntry) + Send + Sync> Encoder for F {
    fn put(&self, out: &mut Vec<u8>, entry: &KeyEntry) {
        self(out, entry);
    }
}

pub type Encode = Arc<dyn Encoder>;

/// The cut of one database in one shard.
#[derive(Default)]
pub struct Cut(Option<Box<Open>>);

struct Open {
    encode: Encode,
    /// The database's number when the cut began.
    home: u32,
    /// The place from which on nothing is walked yet.
    next: u64,
    /// Keys ahead that were changed, as they were.
    kept: Vec<u8>,
    kept_keys: u64,
    /// Keys ahead that the walk is to leave out: changed ones and new ones.
    seen: Seen,
    /// Large values that the walk has passed; the last one is written first.
    large: Vec<Large>,
    /// The end of one that had been begun when it was changed.
    tail: Option<Vec<u8>>,
    /// The table, if the database has another one since.
    left: Option<(Table, ExpiryIndex)>,
    copies: Arc<Copies>,
}

type Seen = HashSet<Box<[u8]>, RandomState>;

struct Large {
    local: u64,
    name: Box<[u8]>,
    rest: Option<Box<dyn Rest>>,
}

/// What changes have cost since the cut began.
#[derive(Debug, Default)]
pub struct Copies {
    /// Bytes that were written down, all together; of strings those before compression.
    total: AtomicU64,
    /// Bytes that nobody has taken yet.
    waiting: AtomicU64,
}

impl Copies {
    /// `bytes` were written down because of this entry.
    fn add(&self, bytes: usize, entry: &KeyEntry) {
        let string = if let Value::Payload(Object::String(text)) = entry.value() { text.len() } else { 0 };
        self.total.fetch_add(bytes.max(entry.allocated() + string) as u64, Relaxed);
        self.waiting.fetch_add(bytes as u64, Relaxed);
    }

    /// Bytes of old values that were copied.
    pub fn total(&self) -> u64 {
        self.total.load(Relaxed)
    }

    /// Bytes that wait to be taken: by a step where they are, or by [`Engine::cut_drain`].
    pub fn waiting(&self) -> u64 {
        self.waiting.load(Relaxed)
    }
}

/// Past every position.
const END: u64 = u64::MAX;
/// Bytes after which a step ends: so many that its lock is held for some ten microseconds.
const STEP_BYTES: usize = 4 << 10;
/// Buckets after which a step ends.
const STEP_BUCKETS: usize = 64;
/// Bytes of a large value that are written at once.
const PIECE_BYTES: usize = 16 << 10;
/// Bytes that the room for changed keys keeps.
const KEPT_BYTES: usize = 64 << 10;

/// The cut was ended before it was walked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

/// What a step goes on with. All databases are walked before the first large value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Walk,
    Large,
}

/// What a step did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Step {
    pub keys: u64,
    /// There is more of this part.
    pub more: bool,
    /// A value is not complete: what the next step brings must follow.
    pub within: bool,
}

/// What else is of the moment at which a cut began.
#[derive(Clone, Debug, Default)]
pub struct Begun {
    /// Whether there are collections whose elements have deadlines.
    pub timed: bool,
    pub keys: u64,
    /// Keys of each database and how many of them have deadlines.
    pub databases: Vec<(u64, u64)>,
    pub libraries: Arc<Libraries>,
    pub copies: Arc<Copies>,
}

impl Cut {
    #[inline]
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
            && open.left.is_none()
            && position(local) >= open.next
        {
            open.seen.insert(name.into());
        }
    }

    /// To be called with the table when the database gets a new one. What comes back nobody needs any more.
    pub fn leave(&mut self, table: Table, expiry: ExpiryIndex) -> Option<(Table, ExpiryIndex)> {
        match &mut self.0 {
            Some(open) if open.left.is_none() && !open.is_done() => {
                open.left = Some((table, expiry));
                None
            }
            _ => Some((table, expiry)),
        }
    }
}

impl Open {
    fn is_done(&self) -> bool {
        self.next == END && self.large.is_empty()
    }

    #[cold]
    fn keep(&mut self, local: u64, entry: &KeyEntry) {
        if self.left.is_some() {
            return;
        }
        let before = self.kept.len();
        if position(local) >= self.next {
            if self.seen.contains(entry.key()) {
                return;
            }
            self.seen.insert(entry.key().into());
            self.encode.keep(&mut self.kept, entry);
            self.kept_keys += 1;
        } else if let Some(at) = self.large.iter().position(|large| *large.name == *entry.key()) {
            match self.large.remove(at).rest {
                Some(mut rest) => {
                    let mut tail = Vec::new();
                    while !rest.put(&mut tail, entry, PIECE_BYTES) {}
                    self.copies.add(tail.len(), entry);
                    self.tail = Some(tail);
                }
                None => self.encode.keep(&mut self.kept, entry),
            }
            self.kept_keys += 1;
        }
        if self.kept.len() > before {
            self.copies.add(self.kept.len() - before, entry);
        }
    }

    fn step(&mut self, part: Part, table: &Table, local_of: impl Fn(&[u8]) -> u64, out: &mut Vec<u8>) -> Step {
        match part {
            Part::Walk => self.walk(table, local_of, out),
            Part::Large => self.piece(table, out),
        }
    }

    fn walk(&mut self, table: &Table, local_of: impl Fn(&[u8]) -> u64, out: &mut Vec<u8>) -> Step {
        let mut keys = self.take_kept(out);
        let begun = out.len();
        for _ in 0..STEP_BUCKETS {
            if self.next == END || out.len() - begun >= STEP_BYTES {
                break;
            }
            let (next, seen, encode, large) = (self.next, &self.seen, &self.encode, &mut self.large);
            let after = table.scan(next, |entry| {
                let local = local_of(entry.key());
                // A bucket that was resized meanwhile may begin before where the walk is.
                if position(local) < next || !seen.is_empty() && seen.contains(entry.key()) {
                    return;
                }
                if encode.is_large(entry) {
                    large.push(Large { local, name: entry.key().into(), rest: None });
                } else {
                    encode.put(out, entry);
                    keys += 1;
                }
            });
            self.next = after.unwrap_or(END);
        }
        Step { keys, more: self.next != END, within: false }
    }

    fn piece(&mut self, table: &Table, out: &mut Vec<u8>) -> Step {
        if let Some(tail) = self.tail.take() {
            self.copies.waiting.fetch_sub(tail.len() as u64, Relaxed);
            out.extend_from_slice(&tail);
        }
        // What was kept comes between values, not into one.
        let within = self.large.last().is_some_and(|large| large.rest.is_some());
        let mut keys = if within { 0 } else { self.take_kept(out) };
        let within = self.go_on(table, out);
        keys += u64::from(within == Some(false));
        Step { keys, more: within.is_some(), within: within == Some(true) }
    }

    /// Writes a piece of the large value whose turn it is; whether it is not complete. None: there is none.
    fn go_on(&mut self, table: &Table, out: &mut Vec<u8>) -> Option<bool> {
        let large = self.large.last_mut()?;
        let Some(entry) = table.find(large.local, |entry| *entry.key() == *large.name) else {
            unreachable!("a key that goes is kept");
        };
        let encode = &self.encode;
        let rest = large.rest.get_or_insert_with(|| encode.begin(out, &entry));
        let done = rest.put(out, &entry, PIECE_BYTES);
        if done {
            self.large.pop();
        }
        Some(!done)
    }

    /// Appends what was kept, and tells how many keys that were.
    fn take_kept(&mut self, out: &mut Vec<u8>) -> u64 {
        self.copies.waiting.fetch_sub(self.kept.len() as u64, Relaxed);
        out.append(&mut self.kept);
        self.kept.shrink_to(KEPT_BYTES);
        std::mem::take(&mut self.kept_keys)
    }
}

impl Engine {
    /// Begins a cut at this moment. An error if one is under way.
    pub fn begin_cut(&self, encode: Encode) -> io::Result<Begun> {
        self.begin_cut_with(encode, || {})
    }

    /// The same; `then` runs in that moment, under all locks.
    pub fn begin_cut_with(&self, encode: Encode, then: impl FnOnce()) -> io::Result<Begun> {
        let mut locks = self.locks().escalated();
        (0..self.locks().len()).for_each(|index| _ = locks.get(index));
        if self.cut_open.swap(true, Relaxed) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let copies = Arc::new(Copies::default());
        let mut begun = Begun {
            timed: false,
            keys: 0,
            databases: vec![(0, 0); self.databases()],
            libraries: self.scripts().libraries(),
            copies: Arc::clone(&copies),
        };
        for index in 0..self.locks().len() {
            for (home, db) in locks.get(index).dbs.iter_mut().enumerate() {
                begun.timed |= !db.expiry.elements.is_empty();
                begun.keys += db.table.len() as u64;
                begun.databases[home].0 += db.table.len() as u64;
                begun.databases[home].1 += db.expiry.keys.len() as u64;
                db.cut = Cut(Some(Box::new(Open {
                    encode: Arc::clone(&encode),
                    home: home as u32,
                    next: if db.table.is_empty() { END } else { 0 },
                    kept: Vec::new(),
                    kept_keys: 0,
                    seen: Seen::default(),
                    large: Vec::new(),
                    tail: None,
                    left: None,
                    copies: Arc::clone(&copies),
                })));
            }
        }
        then();
        Ok(begun)
    }

    /// Ends the cut, also when it was not walked through. Takes each lock once.
    pub fn end_cut(&self) {
        for index in 0..self.locks().len() {
            let open: Vec<_> = self.locks().one(index).dbs.iter_mut().filter_map(|db| db.cut.0.take()).collect();
            // Without the lock: there may be many names to free.
            let left = open.into_iter().filter_map(|open| open.left);
            self.free_left(left.map(|(table, expiry)| Garbage::Table(table, expiry)).collect());
        }
        self.cut_open.store(false, Relaxed);
    }

    fn free_left(&self, garbage: Vec<Garbage>) {
        if !garbage.is_empty() {
            self.host().free(garbage);
        }
    }

    /// Whether there is a cut and nobody has [cancelled](crate::saves::Saves::cancel) the save that it is for.
    pub fn cut_is_open(&self) -> bool {
        self.cut_open.load(Relaxed) && !self.saves().is_cancelled()
    }

    /// Appends some of the keys of a database in a shard as they were at the cut, with those that were kept.
    pub fn cut_step(&self, part: Part, shard: usize, db: u32, out: &mut Vec<u8>) -> Result<Step, Cancelled> {
        let (mut garbage, mut seen) = (Vec::new(), Seen::default());
        let step = self.with_cut(shard, db, |open, table| {
            let step = match &open.left {
                Some(_) => {
                    let left = open.left.take();
                    let table = left.as_ref().map_or(table, |(table, _)| table);
                    let step = open.step(part, table, |name| self.hasher().local_of(name), out);
                    open.left = left;
                    step
                }
                None => open.step(part, table, |name| self.hasher().local_of(name), out),
            };
            if open.is_done()
                && let Some((table, expiry)) = open.left.take()
            {
                garbage.push(Garbage::Table(table, expiry));
            }
            if open.next == END {
                std::mem::swap(&mut seen, &mut open.seen);
            }
            step
        });
        self.free_left(garbage);
        step
    }

    /// Appends what was kept of a database in a shard, wherever the walk is. Not within a value.
    pub fn cut_drain(&self, shard: usize, db: u32, out: &mut Vec<u8>) -> Result<u64, Cancelled> {
        self.with_cut(shard, db, |open, _| {
            // Only the walk may write the end of a value that it began.
            if open.tail.is_some() || open.large.last().is_some_and(|large| large.rest.is_some()) {
                return 0;
            }
            open.take_kept(out)
        })
    }

    fn with_cut<R>(&self, shard: usize, db: u32, work: impl FnOnce(&mut Open, &Table) -> R) -> Result<R, Cancelled> {
        if !self.cut_is_open() {
            return Err(Cancelled);
        }
        let mut guard = self.locks().one(shard);
        let is_it = |slot: &&mut Db| slot.cut.0.as_ref().is_some_and(|open| open.home == db);
        let Db { table, cut, .. } = guard.dbs.iter_mut().find(is_it).ok_or(Cancelled)?;
        let open = cut.0.as_mut().ok_or(Cancelled)?;
        let result = work(open, table);
        // Whoever waits is next: the walk comes back too soon for him to take the lock by himself.
        unlock_fairly(guard);
        Ok(result)
    }
}
