//! One cut's part of one database in one shard: the part that it has walked, the keys that were changed before it came
//! to them, and the large values that are still to be written.
//!
//! ```text
//!   positions of a table    | walked ........ | next   [cell]  [done]  [cell]  [cell]    4 keys a cell, in 16 parts
//!                             changes are free          changes in a part that is done are free, too
//! ```
//!
//! A key is written once: its part of a [cell](structures::snapshot_sweep) is done or it is not, by its hash, which no
//! resize changes. Keys of slots outside the cut are passed over, by the walk and by commands that change them.
//!
//! **Large values** are put aside when they are met and written after all others, a chunk under one hold of the lock.
//! One that is changed before or meanwhile is from then on swept as the keyspace is: a change costs a cell of its
//! elements ([`ValueCursor::follow`]). One that is removed is left to the cuts, the last of which frees it.
//!
//! **Whole databases.** FLUSHDB leaves its table to the cuts, which walk on in that; the last one frees it.
//!
//! Memory beyond the data: 16 bits for a cell, and the encoded old values, which each step takes away,
//! [all](crate::snapshot_steps::Snapshot::drain) when they have become many, and which go to a file when they come too
//! fast ([`before_images`](crate::snapshot::before_images)).

use crate::data::key_hash::KeyHasher;
use crate::data::slot::slot_of;
use crate::data::table::{ExpiryIndex, Table};
use crate::data::value::{KeyEntry, Object, Value};
use crate::propagation::effects::Garbage;
use crate::snapshot::before_images::{BeforeImages, Copies, Removed, SharedImages};
use crate::snapshot::encoder::{Encode, PIECE_BYTES, ValueCursor};
use cluster::slot_set::SlotSet;
use foldhash::fast::RandomState;
use indexmap::IndexMap;
use std::ops::Range;
use std::sync::Arc;
use structures::snapshot_sweep::Cells;

/// A table that a database had, with its expiries.
pub(crate) type LeftTable = (Table, ExpiryIndex);

/// The part of a cut in one database in one shard.
pub(crate) struct Capture {
    /// The cut's number.
    cut: u64,
    /// The database's number when the cut began.
    home: u32,
    /// Slots of the shard that it has; None: all of them.
    slots: Option<SlotSet>,
    pub(super) encode: Encode,
    cells: Cells,
    /// Keys that were changed before the walk came to them, as they were, with their neighbours.
    kept: BeforeImages,
    /// Large values that are still to be written, by their keys; the last one is written first.
    large: IndexMap<Box<[u8]>, Large, RandomState>,
    /// Whether the last one has been written in part.
    within: bool,
    /// The table, if the database has another one since. Other cuts may read it, too.
    left: Option<Arc<LeftTable>>,
    copies: Arc<Copies>,
}

struct Large {
    local: u64,
    /// Position of the writer; None if it is not begun.
    rest: Option<Box<dyn ValueCursor>>,
    /// Whether the value reports its changes.
    follows: bool,
    /// Bytes to be written before the next ones of `rest`.
    kept: SharedImages,
    /// The rest to be written if it is no longer in the table; None in it: all of it is in `kept`.
    removed: Option<Option<Removed>>,
}

/// Bytes after which a step ends: so many that its lock is held for some ten microseconds.
const STEP_BYTES: usize = 4 << 10;
/// Buckets after which a step ends.
const STEP_BUCKETS: usize = 64;

/// Part of a walk that a step continues. All databases are walked before the first large value is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All keys but those with large values.
    Walk,
    /// Keys with large values.
    Large,
}

/// Result of a step.
#[derive(Default)]
pub struct SnapshotStep {
    /// Keys that were encoded.
    pub keys: u64,
    /// Whether there is more of this part.
    pub more: bool,
    /// Whether a value is not complete: the bytes of the next step must follow.
    pub within: bool,
    /// Old values, which belong before the bytes that the step has appended.
    pub kept: Option<BeforeImages>,
}

impl Capture {
    /// Makes the capture of a table with so many keys, of the database with this number.
    pub fn new(
        cut: u64,
        home: u32,
        slots: Option<SlotSet>,
        keys: usize,
        encode: &Encode,
        copies: &Arc<Copies>,
    ) -> Capture {
        Capture {
            cut,
            home,
            slots,
            encode: Arc::clone(encode),
            cells: Cells::by_class(keys, 0),
            kept: BeforeImages::new(Arc::clone(copies), true),
            large: IndexMap::default(),
            within: false,
            left: None,
            copies: Arc::clone(copies),
        }
    }

    /// Whether it belongs to this cut.
    pub fn is_of_cut(&self, cut: u64) -> bool {
        self.cut == cut
    }

    /// Whether it belongs to this cut, and to the database which had this number when the cut began.
    pub fn is_of(&self, cut: u64, home: u32) -> bool {
        self.is_of_cut(cut) && self.home == home
    }

    /// Whether the cut has a key of this name at all.
    pub fn holds(&self, name: &[u8]) -> bool {
        self.slots.as_ref().is_none_or(|slots| slots.contains(slot_of(name)))
    }

    /// Whether nothing is left to be read, and nothing to be handed out.
    pub fn is_done(&self) -> bool {
        self.has_read_all() && self.kept.is_empty()
    }

    fn has_read_all(&self) -> bool {
        self.cells.next().is_none() && self.large.is_empty()
    }

    /// Marks the cell of a place, whose key of this name is about to be changed. Returns the places whose entries are
    /// to be [kept](Self::keep) before; None if there is nothing.
    #[inline]
    pub fn take_cell(&mut self, name: &[u8], local: u64) -> Option<Range<u64>> {
        // Most changes are in cells that are done: their names need not be looked at.
        if self.left.is_some() || !self.cells.is_ahead(local) || !self.holds(name) {
            return None;
        }
        self.cells.take(local)
    }

    /// Writes an entry down as it is, or puts it aside; `encode` appends it.
    #[cold]
    pub fn keep(&mut self, local: u64, entry: &KeyEntry, encode: impl FnOnce(&Encode, &mut Vec<u8>)) {
        if self.encode.is_large(entry) {
            self.put_aside(local, entry);
        } else {
            self.kept.append(|out| encode(&self.encode, out));
            self.kept.keys += 1;
        }
    }

    fn put_aside(&mut self, local: u64, entry: &KeyEntry) {
        let kept = SharedImages::new(BeforeImages::new(Arc::clone(&self.copies), false));
        let large = Large { local, rest: None, follows: false, kept, removed: None };
        self.large.insert(entry.key().into(), large);
    }

    /// Whether values may have to report that they are changed.
    #[inline]
    pub fn has_large(&self) -> bool {
        !self.large.is_empty() && self.left.is_none()
    }

    /// Writes the beginning of a large value down, as its key will not be what it is.
    pub fn begin(&mut self, entry: &KeyEntry) {
        if !self.has_large() {
            return;
        }
        if let Some(large) = self.large.get_mut(entry.key())
            && large.removed.is_none()
            && large.rest.is_none()
        {
            large.rest = Some(large.kept.append(|out| self.encode.begin(out, entry)));
        }
    }

    /// See [`Captures::follow`](crate::snapshot::captures::Captures::follow).
    pub fn follow(&mut self, entry: &mut KeyEntry, bytes: Option<&Range<usize>>) {
        self.begin(entry);
        if self.left.is_some() {
            return;
        }
        let Some(large) = self.large.get_mut(entry.key()) else { return };
        if large.removed.is_none()
            && !large.follows
            && let (Some(rest), Some(object)) = (&mut large.rest, entry.payload_mut())
            && !bytes.is_some_and(|bytes| rest.keep_bytes(object, bytes))
        {
            large.follows = true;
            rest.follow(object, &large.kept);
        }
    }

    /// Whether the value of this name is to be left to the cut when it is removed.
    pub fn wants(&self, name: &[u8]) -> bool {
        self.left.is_none() && self.large.get(name).is_some_and(|large| large.removed.is_none())
    }

    /// Takes a value that may be wanted, and that is not changed any more.
    pub fn adopt(&mut self, name: &[u8], object: &Arc<Object>) {
        if !self.wants(name) {
            return;
        }
        let Some(large) = self.large.get_mut(name) else { return };
        let removed = Removed::new(object, &self.copies);
        if let (None, Some(rest)) = (&removed, &mut large.rest) {
            rest.put_all(object, &large.kept);
        }
        large.removed = Some(removed);
    }

    /// Writes down a value that may be wanted, before it moves to a place where it will be changed.
    pub fn write_down(&mut self, entry: &KeyEntry) {
        if !self.wants(entry.key()) {
            return;
        }
        if let (Some(large), Value::Payload(object)) = (self.large.get_mut(entry.key()), entry.value()) {
            if let Some(rest) = &mut large.rest {
                rest.put_all(object, &large.kept);
            }
            large.removed = Some(None);
        }
    }

    /// Whether it is to continue in this table when the database gets a new one.
    pub fn wants_table(&self) -> bool {
        self.left.is_none() && !self.has_read_all()
    }

    /// Stays with the table while the database gets a new one.
    pub fn detach(&mut self, table: &Arc<LeftTable>) {
        self.left = Some(Arc::clone(table));
    }

    fn walk(&mut self, table: &Table, hasher: &KeyHasher, out: &mut Vec<u8>) -> SnapshotStep {
        let kept = self.kept.take_into(out);
        let mut keys = kept.keys;
        let begun = out.len();
        for _ in 0..STEP_BUCKETS {
            let Some(next) = self.cells.next().filter(|_| out.len() - begun < STEP_BYTES) else { break };
            let after = table.scan(next, |entry| {
                let local = hasher.local_of(entry.key());
                // A bucket that was resized meanwhile may begin before the position of the walk.
                if !self.cells.is_ahead(local) || !self.holds(entry.key()) {
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

    /// Writes a piece of the large value whose turn it is. After the last piece it returns the value's state, with the
    /// value if that is to be freed.
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

    /// Continues, in the table that the database has now.
    pub fn step(&mut self, part: Part, table: &Table, hasher: &KeyHasher, out: &mut Vec<u8>) -> (SnapshotStep, Ended) {
        let left = self.left.take();
        let (step, large) = {
            let table = left.as_ref().map_or(table, |left| &left.0);
            match part {
                Part::Walk => (self.walk(table, hasher, out), None),
                Part::Large => self.piece(table, out),
            }
        };
        if self.has_read_all() {
            return (step, Ended { large, table: left });
        }
        self.left = left;
        (step, Ended { large, table: None })
    }

    /// Takes the old values, wherever the walk is.
    pub fn take_kept(&mut self) -> Option<BeforeImages> {
        some(self.kept.take())
    }

    /// Returns the garbage that is left of it.
    pub fn into_garbage(self) -> Vec<Garbage> {
        let table = self.left.and_then(table_garbage);
        table.into_iter().chain(self.large.into_values().filter_map(Large::into_garbage)).collect()
    }
}

fn some(kept: BeforeImages) -> Option<BeforeImages> {
    Some(kept).filter(|kept| !kept.is_empty())
}

/// Returns the table, for the last cut that reads it.
fn table_garbage(left: Arc<LeftTable>) -> Option<Garbage> {
    Arc::into_inner(left).map(|(table, expiry)| Garbage::Table(table, expiry))
}

/// Values and tables that a step has completed; the rest of it needs no lock.
#[derive(Default)]
pub(crate) struct Ended {
    large: Option<Large>,
    table: Option<Arc<LeftTable>>,
}

impl Ended {
    /// Appends the end of a large value. Returns the garbage.
    pub fn finish(self, out: &mut Vec<u8>) -> Vec<Garbage> {
        let mut garbage: Vec<Garbage> = self.table.and_then(table_garbage).into_iter().collect();
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
