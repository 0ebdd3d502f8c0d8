//! The large form of a hash: a hash table of fields, each in one allocation with its value.
//!
//! ```text
//!  table bucket     | tags of nine | pointer, 48 bits | pointer | ...                          10 to 11 a field
//!                                     |
//!  field's entry    | header | deadline? | long value? | f i e l d | v a l u e |                32 for 15 + 8 bytes
//!
//!  deadlines        | deadline, place in the table | ...      in order of deadlines; only if a field has one
//! ```
//!
//! A field is an [`Entry`]: its key is the field, its deadline is when the field runs out. Values up to 1024 bytes lie
//! inside, longer ones in an allocation of their own.
//!
//! # Invariants (asserted by `check` in the tests)
//! - `deadlines` has exactly one record for each entry with a deadline, and is there only while it has records.

use crate::entry::{Entry, MAX_INLINE, NewValue, ValueRef};
use crate::hashtable::{self, HashTable, position};
use crate::listpack::Item;
use crate::member_hash::{self, member_hash};
use crate::ttl_index::TtlIndex;

use super::{Ttl, Written, is_due};
use crate::snapshot_iterator::{Seen, SnapshotIterators, TableSnapshotIterator};
use crate::snapshot_sweep::SnapshotSweep;
use std::sync::Arc;

/// A value too long to lie in the entry.
type Long = Box<[u8]>;
type Field = Entry<Long>;

#[derive(Default)]
pub struct BigHash {
    table: HashTable<Field>,
    deadlines: Option<Box<TtlIndex>>,
    walks: SnapshotIterators<TableSnapshotIterator>,
}

/// A field as a visitor sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Found<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
    pub deadline: Option<u64>,
}

impl<'a> Found<'a> {
    fn of(entry: hashtable::Ref<'a, Field>) -> Self {
        let value = match entry.value() {
            ValueRef::Inline(bytes) => bytes,
            ValueRef::Payload(long) => long,
            ValueRef::Int(_) | ValueRef::Packed(_) => unreachable!("values are kept as bytes"),
        };
        Found { name: entry.key(), value, deadline: entry.deadline() }
    }
}

impl BigHash {
    pub(super) fn len(&self) -> usize {
        self.table.len()
    }

    pub(super) fn reserve(&mut self, fields: usize) {
        self.table.reserve(fields);
        self.table.set_resizing(false);
    }

    pub(super) fn settle(&mut self) {
        self.table.set_resizing(true);
    }

    pub(super) fn table_stats(&self) -> hashtable::Stats {
        self.table.stats()
    }

    #[inline]
    pub(super) fn find(&self, name: &[u8]) -> Option<Found<'_>> {
        self.table.find(member_hash(name), |entry| entry.key() == name).map(Found::of)
    }

    pub(super) fn prefetch<'a>(&self, names: impl Iterator<Item = &'a [u8]>) {
        member_hash::prefetch(&self.table, names);
    }

    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.deadlines.as_ref()?.first()
    }

    pub(super) fn count_due(&self, now: u64) -> usize {
        self.deadlines.as_ref().map_or(0, |deadlines| deadlines.count_due(now))
    }

    pub(super) fn volatile_len(&self) -> usize {
        self.deadlines.as_ref().map_or(0, |deadlines| deadlines.len())
    }

    #[inline]
    pub(super) fn set(&mut self, name: &[u8], value: &[u8], ttl: Ttl, now: u64) -> Written {
        let hash = member_hash(name);
        if !self.walks.is_empty() {
            self.tell_walks(name, hash);
        }
        match self.table.entry(hash, |entry| entry.key() == name, hash_of) {
            hashtable::Entry::Vacant(vacant) => {
                let deadline = ttl.resolve(None);
                vacant.insert(Field::new(name, value_of(value), deadline, 0));
                self.reindex(None, deadline, hash);
                Written::Added
            }
            hashtable::Entry::Occupied(mut occupied) => {
                let old = occupied.get().deadline();
                let over = is_due(old, now);
                let new = ttl.resolve(if over { None } else { old });
                occupied.update(|entry| {
                    drop(entry.set_value(value_of(value)));
                    if old != new {
                        entry.set_deadline(new);
                    }
                });
                self.reindex(old, new, hash);
                if over { Written::AddedOverDue } else { Written::Replaced }
            }
        }
    }

    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        let hash = member_hash(name);
        if !self.walks.is_empty() {
            self.tell_walks(name, hash);
        }
        let removed = self.table.remove(hash, |entry| entry.key() == name, hash_of);
        let Some(entry) = removed else { return false };
        self.reindex(entry.deadline(), None, hash);
        true
    }

    /// Gives a field that is there another deadline, or none.
    pub(super) fn set_deadline(&mut self, name: &[u8], new: Option<u64>) {
        let hash = member_hash(name);
        if !self.walks.is_empty() {
            self.tell_walks(name, hash);
        }
        let Some(mut found) = self.table.find_mut(hash, |entry| entry.key() == name) else { return };
        let old = found.get().deadline();
        found.update(|entry| entry.set_deadline(new));
        self.reindex(old, new, hash);
    }

    /// Removes the field whose time came first, if it has come.
    pub(super) fn pop_due(&mut self, now: u64, removed: impl FnOnce(&[u8])) -> bool {
        let Some(deadlines) = &mut self.deadlines else { return false };
        let Some(at) = deadlines.pop_due(now) else { return false };
        if deadlines.is_empty() {
            self.deadlines = None;
        }
        if !self.walks.is_empty() {
            let table = &self.table;
            self.walks.touch(at << 16, |at, visit| table.scan(at, |entry| visit(seen(entry))));
        }
        let due = |entry: &Field| is_due(entry.deadline(), now) && position(hash_of(entry)) == at;
        if let Some(entry) = self.table.remove_at_position(at, due, hash_of) {
            if !self.walks.is_empty() {
                let seen = seen(&entry);
                self.walks.tell(|walk| walk.keep(seen));
            }
            removed(entry.key());
        }
        true
    }

    /// See [`HashTable::scan`].
    pub(super) fn scan(&self, position: u64, mut visit: impl FnMut(u64, Found<'_>)) -> Option<u64> {
        self.table.scan(position, |entry| {
            let Seen { hash, name, value, deadline } = seen(entry);
            visit(hash, Found { name, value, deadline });
        })
    }

    /// Begins a walk over the fields that are not over now.
    pub(super) fn begin_walk(&mut self, now: u64) -> Arc<TableSnapshotIterator> {
        self.walks.begin(TableSnapshotIterator::new(now))
    }

    /// See [`TableSnapshotIterator::piece`].
    pub(super) fn walk_piece(&self, walk: &TableSnapshotIterator, max: usize, show: impl FnMut(&[u8], &[u8])) -> bool {
        walk.piece(max, |at, visit| self.table.scan(at, |entry| visit(seen(entry))), show)
    }

    /// Begins a sweep over all fields, of which those before position `next` are done.
    pub(super) fn begin_snapshot_sweep(
        &mut self,
        next: u64,
        sink: Box<dyn FnMut(Seen<'_>) + Send>,
    ) -> Arc<SnapshotSweep> {
        self.walks.begin_snapshot_sweep(SnapshotSweep::new(self.table.len(), next, sink))
    }

    /// See [`SnapshotSweep::step`].
    pub(super) fn sweep_step(&self, sweep: &SnapshotSweep, show: impl FnMut(Seen<'_>)) -> bool {
        sweep.step(|at, visit| self.table.scan(at, |entry| visit(seen(entry))), show)
    }

    /// A field is about to be written or to go.
    #[cold]
    fn tell_walks(&mut self, name: &[u8], hash: u64) {
        let table = &self.table;
        self.walks.touch(hash, |at, visit| table.scan(at, |entry| visit(seen(entry))));
        match self.table.find(hash, |entry| entry.key() == name) {
            Some(entry) => self.walks.tell(|walk| walk.keep(seen(&entry))),
            None => self.walks.tell(|walk| walk.leave_out(hash, name)),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Found<'_>> {
        self.table.iter().map(Found::of)
    }

    pub(super) fn random(&self, random: u64) -> Option<Found<'_>> {
        self.table.random(random).map(Found::of)
    }

    /// Frees up to `max` fields; true when nothing is left.
    pub(super) fn drain_step(&mut self, max: usize) -> bool {
        if let Some(deadlines) = &mut self.deadlines {
            if deadlines.drain_step(max) {
                self.deadlines = None;
            }
            return false;
        }
        self.table.drain_step(max)
    }

    /// Bytes on the heap, by the size of the first `samples` fields.
    pub(super) fn memory_usage(&self, samples: usize) -> usize {
        let block = |entry: &Field| {
            let long = if let ValueRef::Payload(long) = entry.value() { long.len() } else { 0 };
            entry.allocated() + long
        };
        let (seen, bytes) = self
            .table
            .iter()
            .take(samples.max(1))
            .fold((0, 0), |(seen, bytes), entry| (seen + 1, bytes + block(&entry)));
        let fields = (bytes as u128 * self.len() as u128).checked_div(seen).unwrap_or(0) as usize;
        let deadlines = self.deadlines.as_ref().map_or(0, |deadlines| size_of::<TtlIndex>() + deadlines.memory_usage());
        size_of::<Self>() + self.table.memory_usage() + fields + deadlines
    }

    fn reindex(&mut self, old: Option<u64>, new: Option<u64>, hash: u64) {
        if old == new {
            return;
        }
        let deadlines = self.deadlines.get_or_insert_default();
        deadlines.change(old, new, hash);
        if deadlines.is_empty() {
            self.deadlines = None;
        }
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut expected: Vec<(u64, u64)> =
            self.iter().filter_map(|field| Some((field.deadline?, position(member_hash(field.name))))).collect();
        expected.sort_unstable();
        assert_eq!(self.volatile_len(), expected.len());
        assert_eq!(self.deadlines.is_some(), !expected.is_empty());
        assert_eq!(self.next_deadline(), expected.first().map(|(deadline, _)| *deadline));
    }
}

impl Clone for BigHash {
    fn clone(&self) -> Self {
        let mut copy = BigHash::default();
        for field in self.iter() {
            let (hash, deadline) = (member_hash(field.name), field.deadline);
            copy.table.insert_unique(hash, Field::new(field.name, value_of(field.value), deadline, 0), hash_of);
            copy.reindex(None, deadline, hash);
        }
        copy
    }
}

fn seen(entry: &Field) -> Seen<'_> {
    let value = match entry.value() {
        ValueRef::Inline(bytes) => bytes,
        ValueRef::Payload(long) => long,
        ValueRef::Int(_) | ValueRef::Packed(_) => unreachable!("values are kept as bytes"),
    };
    Seen { hash: hash_of(entry), name: entry.key(), value, deadline: entry.deadline() }
}

fn hash_of(entry: &Field) -> u64 {
    member_hash(entry.key())
}

fn value_of(value: &[u8]) -> NewValue<'_, Long> {
    if value.len() <= MAX_INLINE { NewValue::Inline(value) } else { NewValue::Payload(value.into()) }
}

/// Fields of the small form, on their way here.
impl<'a> FromIterator<(Item<'a>, Item<'a>)> for BigHash {
    fn from_iter<I: IntoIterator<Item = (Item<'a>, Item<'a>)>>(pairs: I) -> Self {
        let (mut name_digits, mut value_digits) = (itoa::Buffer::new(), itoa::Buffer::new());
        let mut hash = BigHash::default();
        for (name, value) in pairs {
            hash.set(name.bytes(&mut name_digits), value.bytes(&mut value_digits), Ttl::Clear, 0);
        }
        hash
    }
}
