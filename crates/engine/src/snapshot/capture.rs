//! The keyspace as it was at one moment, read while others go on writing: for saving it.
//!
//! A cut is begun under all locks, which takes as long as touching every shard once. From then on a walk goes through
//! every table, a few buckets under one hold of a lock, and encodes what it finds. A command that is about to change a
//! key ahead of the walk first has the whole [cell](structures::snapshot_sweep) of that key encoded as it is; the walk
//! passes over cells that are done.
//!
//! ```text
//!   positions of a table    | walked ........ | next   [cell]  [done]  [cell]  [cell]       4 keys or so a cell, in 16 parts
//!                             changes are free          changes in a part that is done are free, too
//! ```
//!
//! A key is written once: its part of a cell is done or it is not, by its hash, which no resize changes.
//!
//! **Large values** are put aside when they are met and written after all others, a chunk under one hold of the lock.
//! One that is changed before or meanwhile is from then on swept as the keyspace is: a change costs a cell of its
//! elements ([`ValueCursor::follow`]). One that is removed is left to the cut, which frees it when it is written.
//!
//! **Whole databases.** FLUSHDB leaves its table to the cut, which walks on in that and frees it in the end; SWAPDB
//! swaps the cuts with the tables. Neither costs more than without a cut.
//!
//! Memory beyond the data: 16 bits for a cell, and the encoded old values, which each step takes away,
//! [all](crate::Engine::snapshot_drain) when they have become many, and which go to a file when they come too fast
//! ([`kept`](crate::snapshot::before_images)).
//!
//! One cut at a time; a second one must wait for the end of the first. A cut that another thread has
//! [ended](crate::Engine::end_snapshot) answers its walk with [`Cancelled`].

use crate::data::key_hash::KeyHasher;
use crate::data::table::{ExpiryIndex, Table};
use crate::data::value::{KeyEntry, Object, Value};
use crate::propagation::effects::Garbage;
use crate::scripts::function_libraries::Libraries;
use crate::snapshot::before_images::{BeforeImages, Copies, Removed, SharedImages};
use foldhash::fast::RandomState;
use indexmap::IndexMap;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use structures::hashtable::{class, position};
use structures::snapshot_sweep::{Cells, each_bucket};

/// How keys are written down. Called under their shards' locks.
pub trait Encoder: Send + Sync {
    /// Appends a key with its value.
    fn put(&self, out: &mut Vec<u8>, entry: &KeyEntry);

    /// The same in the way that is fastest: a client waits.
    fn keep(&self, out: &mut Vec<u8>, entry: &KeyEntry) {
        self.put(out, entry);
    }

    /// Whether the value is so large that it is not to be written under one hold of a lock. Such a value is an object.
    fn is_large(&self, _entry: &KeyEntry) -> bool {
        false
    }

    /// Appends the beginning of a large one, and goes on from there.
    fn begin(&self, out: &mut Vec<u8>, entry: &KeyEntry) -> Box<dyn ValueCursor> {
        self.put(out, entry);
        Box::new(Nothing)
    }
}

/// What is left to be written of a large value.
pub trait ValueCursor: Send + Sync {
    /// Appends about `max` bytes more; whether these were the last.
    fn put(&mut self, out: &mut Vec<u8>, object: &Object, max: usize) -> bool;

    /// The value is about to be changed for the first time since it was begun. From now on what is ahead goes to `kept`
    /// before it is changed, or all of it does now.
    fn follow(&mut self, object: &mut Object, kept: &SharedImages) {
        self.put_all(object, kept);
    }

    /// These bytes of a string are about to change, and perhaps more come behind the last. Keeps them as they are;
    /// false if it cannot: then it is to [follow](Self::follow).
    fn keep_bytes(&mut self, _object: &Object, _bytes: &Range<usize>) -> bool {
        false
    }

    /// Has all that is left written down.
    fn put_all(&mut self, object: &Object, kept: &SharedImages) {
        while !kept.append(|out| self.put(out, object, PIECE_BYTES)) {}
    }

    /// Appends what is to come after all, without a lock.
    fn finish(self: Box<Self>, _out: &mut Vec<u8>) {}
}

struct Nothing;

impl ValueCursor for Nothing {
    fn put(&mut self, _: &mut Vec<u8>, _: &Object, _: usize) -> bool {
        true
    }
}

impl<F: Fn(&mut Vec<u8>, &KeyEntry) + Send + Sync> Encoder for F {
    fn put(&self, out: &mut Vec<u8>, entry: &KeyEntry) {
        self(out, entry);
    }
}

/// How a save writes keys, shared by all who write for it.
pub type Encode = Arc<dyn Encoder>;

/// The cut of one database in one shard; none if that was empty.
#[derive(Default)]
pub struct Capture(Option<Box<Open>>);

struct Open {
    encode: Encode,
    /// The database's number when the cut began.
    home: u32,
    cells: Cells,
    /// Keys that were changed before the walk came to them, as they were, with those around them.
    kept: BeforeImages,
    /// Large values that are still to be written, by their keys; the last one is written first.
    large: IndexMap<Box<[u8]>, Large, RandomState>,
    /// The last one has been written in part.
    within: bool,
    /// The table, if the database has another one since.
    left: Option<(Table, ExpiryIndex)>,
    copies: Arc<Copies>,
}

struct Large {
    local: u64,
    /// Where it stands; None if it is not begun.
    rest: Option<Box<dyn ValueCursor>>,
    /// It tells of its changes.
    follows: bool,
    /// What is to be written before what `rest` brings.
    kept: SharedImages,
    /// What is left to be written lies here, and no longer in the table; None in it: all of it is in `kept`.
    removed: Option<Option<Removed>>,
}

/// Bytes after which a step ends: so many that its lock is held for some ten microseconds.
const STEP_BYTES: usize = 4 << 10;
/// Buckets after which a step ends.
const STEP_BUCKETS: usize = 64;
/// Bytes of a large value that are written at once.
const PIECE_BYTES: usize = 16 << 10;

/// The cut was ended before it was walked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cancelled;

/// What a step goes on with. All databases are walked before the first large value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All keys but those with large values.
    Walk,
    /// Those.
    Large,
}

/// What a step did.
#[derive(Default)]
pub struct SnapshotStep {
    /// Keys that were encoded.
    pub keys: u64,
    /// There is more of this part.
    pub more: bool,
    /// A value is not complete: what the next step brings must follow.
    pub within: bool,
    /// Old values, which come before what the step has appended.
    pub kept: Option<BeforeImages>,
}

/// What else is of the moment at which a cut began.
#[derive(Clone, Debug)]
pub struct BegunSnapshot {
    /// Whether there are collections whose elements have expiries.
    pub timed: bool,
    /// Keys that there were.
    pub keys: u64,
    /// Keys of each database that has any, and how many of them have expiries.
    pub databases: BTreeMap<u32, (u64, u64)>,
    /// The libraries of functions of that moment.
    pub libraries: Arc<Libraries>,
    /// What its before-images take up together.
    pub copies: Arc<Copies>,
}

impl Capture {
    /// Whether this part is still to be read.
    #[inline]
    pub fn is_open(&self) -> bool {
        self.0.is_some()
    }

    /// To be called before anything of the entry at this place is changed, and before a key comes in that there was
    /// not.
    #[inline]
    pub fn touch(&mut self, table: &Table, hasher: &KeyHasher, local: u64) {
        if let Some(open) = &mut self.0 {
            open.touch(table, hasher, local, None);
        }
    }

    /// To be called after an entry was taken out of the table. Its value goes to [`adopt`](Capture::adopt) or to
    /// [`write_down`](Capture::write_down) if the cut [wants](Capture::wants) it.
    #[inline]
    pub fn removed(&mut self, table: &Table, hasher: &KeyHasher, local: u64, entry: &KeyEntry) {
        if let Some(open) = &mut self.0 {
            open.touch(table, hasher, local, Some(entry));
            open.begin(entry);
        }
    }

    /// Whether values may have to be told that they are changed.
    #[inline]
    pub fn has_large(&self) -> bool {
        self.0.as_ref().is_some_and(|open| !open.large.is_empty() && open.left.is_none())
    }

    /// To be called after [`touch`](Capture::touch), before anything of an entry is changed but its value, or that is
    /// taken out as a whole.
    pub fn begin(&mut self, entry: &KeyEntry) {
        if let Some(open) = &mut self.0 {
            open.begin(entry);
        }
    }

    /// To be called after [`touch`](Capture::touch), before the value of an entry is changed, if there are large ones.
    /// `bytes`: which ones of a string.
    #[cold]
    pub fn follow(&mut self, entry: &mut KeyEntry, bytes: Option<&Range<usize>>) {
        let Some(open) = &mut self.0 else { return };
        open.begin(entry);
        let Some(large) = open.large.get_mut(entry.key()) else { return };
        if large.removed.is_none()
            && !large.follows
            && let (Some(rest), Some(object)) = (&mut large.rest, entry.payload_mut())
            && !bytes.is_some_and(|bytes| rest.keep_bytes(object, bytes))
        {
            large.follows = true;
            rest.follow(object, &large.kept);
        }
    }

    /// Whether the value of this name is to be left to the cut when it goes.
    pub fn wants(&self, name: &[u8]) -> bool {
        self.0.as_ref().is_some_and(|open| {
            open.left.is_none() && open.large.get(name).is_some_and(|large| large.removed.is_none())
        })
    }

    /// A wanted value, which nobody changes any more.
    #[cold]
    pub fn adopt(&mut self, name: &[u8], object: &Arc<Object>) {
        let Some(open) = &mut self.0 else { return };
        let Some(large) = open.large.get_mut(name) else { return };
        let removed = Removed::new(object, &open.copies);
        if let (None, Some(rest)) = (&removed, &mut large.rest) {
            rest.put_all(object, &large.kept);
        }
        large.removed = Some(removed);
    }

    /// A wanted value goes where it will be changed.
    #[cold]
    pub fn write_down(&mut self, entry: &KeyEntry) {
        if !self.wants(entry.key()) {
            return;
        }
        let Some(open) = &mut self.0 else { return };
        if let (Some(large), Value::Payload(object)) = (open.large.get_mut(entry.key()), entry.value()) {
            if let Some(rest) = &mut large.rest {
                rest.put_all(object, &large.kept);
            }
            large.removed = Some(None);
        }
    }

    /// To be called with the table when the database gets a new one. What comes back nobody needs any more.
    pub fn detach(&mut self, table: Table, expiry: ExpiryIndex) -> Option<(Table, ExpiryIndex)> {
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
        self.cells.next().is_none() && self.large.is_empty()
    }

    /// Writes the cell of a place down, unless that is done; an entry of it may have been taken out already.
    fn touch(&mut self, table: &Table, hasher: &KeyHasher, local: u64, taken: Option<&KeyEntry>) {
        if self.left.is_none()
            && let Some(range) = self.cells.take(local)
        {
            each_bucket(range.clone(), |at| {
                table.scan_class(at, class(local), |entry| {
                    let local = hasher.local_of(entry.key());
                    if range.contains(&position(local)) {
                        self.keep(local, entry);
                    }
                })
            });
            if let Some(entry) = taken {
                self.keep(local, entry);
            }
        }
    }

    #[cold]
    fn keep(&mut self, local: u64, entry: &KeyEntry) {
        if self.encode.is_large(entry) {
            self.put_aside(local, entry);
        } else {
            self.kept.append(|out| self.encode.keep(out, entry));
            self.kept.keys += 1;
        }
    }

    fn put_aside(&mut self, local: u64, entry: &KeyEntry) {
        let kept = SharedImages::new(BeforeImages::new(Arc::clone(&self.copies), false));
        let large = Large { local, rest: None, follows: false, kept, removed: None };
        self.large.insert(entry.key().into(), large);
    }

    /// Writes the beginning of a large value down, as its key will not be what it is.
    fn begin(&mut self, entry: &KeyEntry) {
        if self.left.is_some() || self.large.is_empty() {
            return;
        }
        if let Some(large) = self.large.get_mut(entry.key())
            && large.removed.is_none()
            && large.rest.is_none()
        {
            large.rest = Some(large.kept.append(|out| self.encode.begin(out, entry)));
        }
    }

    fn walk(&mut self, table: &Table, hasher: &KeyHasher, out: &mut Vec<u8>) -> SnapshotStep {
        let kept = self.kept.take_into(out);
        let mut keys = kept.keys;
        let begun = out.len();
        for _ in 0..STEP_BUCKETS {
            let Some(next) = self.cells.next().filter(|_| out.len() - begun < STEP_BYTES) else { break };
            let after = table.scan(next, |entry| {
                let local = hasher.local_of(entry.key());
                // A bucket that was resized meanwhile may begin before where the walk is.
                if !self.cells.is_ahead(local) {
                    return;
                }
                if self.encode.is_large(entry) {
                    self.put_aside(local, entry);
                } else {
                    self.encode.put(out, entry);
                    keys += 1;
                }
            });
            self.cells.advance(after);
        }
        SnapshotStep { keys, more: self.cells.next().is_some(), within: false, kept: some(kept) }
    }

    /// Writes a piece of the large value whose turn it is. When it was the last: where it stood, and the value if it is
    /// to be freed.
    fn piece(&mut self, table: &Table, out: &mut Vec<u8>) -> (SnapshotStep, Option<Large>) {
        if !self.within && !self.kept.is_empty() {
            let kept = self.kept.take_into(out);
            return (SnapshotStep { keys: kept.keys, more: true, within: false, kept: some(kept) }, None);
        }
        let Some((name, large)) = self.large.last_mut() else { return (SnapshotStep::default(), None) };
        let kept = large.kept.take_into(out);
        let mut entry = None;
        let object = match &large.removed {
            Some(removed) => removed.as_ref().and_then(Removed::object),
            None => {
                entry = table.find(large.local, |entry| *entry.key() == **name);
                match entry.as_ref().map(|entry| entry.value()) {
                    Some(Value::Payload(object)) => Some(object),
                    _ => unreachable!("a key that goes is kept"),
                }
            }
        };
        if let (None, Some(entry)) = (&large.rest, &entry) {
            large.rest = Some(self.encode.begin(out, entry));
        }
        let done = match (&mut large.rest, object) {
            (Some(rest), Some(object)) => rest.put(out, object, PIECE_BYTES),
            _ => true,
        };
        self.within = !done;
        let step = SnapshotStep { keys: u64::from(done), more: true, within: !done, kept: some(kept) };
        let ended = if done { self.large.pop().map(|(_, large)| large) } else { None };
        (step, ended)
    }
}

fn some(kept: BeforeImages) -> Option<BeforeImages> {
    Some(kept).filter(|kept| !kept.is_empty())
}

impl Capture {
    /// The cut of a table with so many keys, of the database with this number.
    pub(crate) fn open(encode: &Encode, home: u32, keys: usize, copies: &Arc<Copies>) -> Capture {
        Capture(Some(Box::new(Open {
            encode: Arc::clone(encode),
            home,
            cells: Cells::by_class(keys, 0),
            kept: BeforeImages::new(Arc::clone(copies), true),
            large: IndexMap::default(),
            within: false,
            left: None,
            copies: Arc::clone(copies),
        })))
    }

    /// Whether it is that of the database which had this number when the cut began.
    pub(crate) fn is_of(&self, home: u32) -> bool {
        self.0.as_ref().is_some_and(|open| open.home == home)
    }

    /// Goes on, in the table that the database has now.
    pub(crate) fn step(
        &mut self,
        part: Part,
        table: &Table,
        hasher: &KeyHasher,
        out: &mut Vec<u8>,
    ) -> (SnapshotStep, Ended) {
        let Some(open) = &mut self.0 else { return <_>::default() };
        let left = open.left.take();
        let (step, large) = {
            let table = left.as_ref().map_or(table, |(table, _)| table);
            match part {
                Part::Walk => (open.walk(table, hasher, out), None),
                Part::Large => open.piece(table, out),
            }
        };
        if open.is_done() {
            return (step, Ended { large, table: left });
        }
        open.left = left;
        (step, Ended { large, table: None })
    }

    /// What was kept, wherever the walk is.
    pub(crate) fn take_kept(&mut self) -> Option<BeforeImages> {
        some(self.0.as_mut()?.kept.take())
    }

    /// What is to be freed with it.
    pub(crate) fn into_garbage(self) -> Vec<Garbage> {
        let Some(open) = self.0 else { return Vec::new() };
        let table = open.left.map(|(table, expiry)| Garbage::Table(table, expiry));
        table.into_iter().chain(open.large.into_values().filter_map(Large::into_garbage)).collect()
    }
}

/// What a step has come to the end of; the rest of it needs no lock.
#[derive(Default)]
pub(crate) struct Ended {
    large: Option<Large>,
    table: Option<(Table, ExpiryIndex)>,
}

impl Ended {
    /// Appends the end of a large value. Returns what is to be freed.
    pub fn finish(self, out: &mut Vec<u8>) -> Vec<Garbage> {
        let mut garbage: Vec<Garbage> =
            self.table.map(|(table, expiry)| Garbage::Table(table, expiry)).into_iter().collect();
        if let Some(mut large) = self.large {
            if let Some(rest) = large.rest.take() {
                rest.finish(out);
            }
            garbage.extend(large.into_garbage());
        }
        garbage
    }
}

impl Large {
    fn into_garbage(self) -> Option<Garbage> {
        self.removed.flatten().and_then(Removed::into_object).map(Garbage::Object)
    }
}
