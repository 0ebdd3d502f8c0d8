//! The large form of a hash: a hash table of fields, each in one allocation with its value.
//!
//! ```text
//!  table bucket     | tags of nine | pointer, 48 bits | pointer | ...                          10 to 11 a field
//!                                     |
//!  field's entry    | header | expiry? | long value? | f i e l d | v a l u e |                32 for 15 + 8 bytes
//!
//!  expiries         | expiry, place in the table | ...     the earliest first; only if a field has one
//! ```
//!
//! A field is an [`Entry`]: its key is the field, its expiry is the field's. Values up to 1024 bytes lie
//! inside, longer ones in an allocation of their own.
//!
//! # Invariants (asserted by `check` in the tests)
//! - `expiries` has exactly one record for each entry with an expiry, and is there only while it has records.

use crate::entry::{Entry, MAX_INLINE, NewValue, ValueRef};
use crate::hashtable::{self, HashTable, position};
use crate::listpack::Item;
use crate::member_hash::{self, member_hash};
use crate::ttl_index::TtlIndex;

use super::{FieldTtl, Written};
use crate::snapshot_iterator::{Seen, SnapshotIterators, TableSnapshotIterator};
use crate::snapshot_sweep::SnapshotSweep;
use crate::ttl_index::is_due;
use std::sync::Arc;

/// A value too long to lie in the entry.
type Long = Box<[u8]>;
type Field = Entry<Long>;

/// A hash in the form of a table.
#[derive(Default)]
pub struct BigHash {
    table: HashTable<Field>,
    expiries: Option<Box<TtlIndex>>,
    walks: SnapshotIterators<TableSnapshotIterator>,
}

/// A field as a visitor sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FoundField<'a> {
    /// The field's name.
    pub name: &'a [u8],
    /// Its value.
    pub value: &'a [u8],
    /// Unix time in milliseconds.
    pub expiry: Option<u64>,
}

impl<'a> FoundField<'a> {
    fn of(entry: hashtable::Ref<'a, Field>) -> Self {
        let value = match entry.value() {
            ValueRef::Inline(bytes) => bytes,
            ValueRef::Payload(long) => long,
            ValueRef::Int(_) | ValueRef::Packed(_) => unreachable!("values are kept as bytes"),
        };
        FoundField { name: entry.key(), value, expiry: entry.expiry() }
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

    pub(super) fn table_stats(&self) -> hashtable::TableStats {
        self.table.stats()
    }

    #[inline]
    pub(super) fn find(&self, name: &[u8]) -> Option<FoundField<'_>> {
        self.table.find(member_hash(name), |entry| entry.key() == name).map(FoundField::of)
    }

    pub(super) fn prefetch<'a>(&self, names: impl Iterator<Item = &'a [u8]>) {
        member_hash::prefetch(&self.table, names);
    }

    pub(super) fn next_expiry(&self) -> Option<u64> {
        self.expiries.as_ref()?.first()
    }

    pub(super) fn count_due(&self, now: u64) -> usize {
        self.expiries.as_ref().map_or(0, |expiries| expiries.count_due(now))
    }

    pub(super) fn volatile_len(&self) -> usize {
        self.expiries.as_ref().map_or(0, |expiries| expiries.len())
    }

    #[inline]
    pub(super) fn set(&mut self, name: &[u8], value: &[u8], ttl: FieldTtl, now: u64) -> Written {
        let hash = member_hash(name);
        if !self.walks.is_empty() {
            self.tell_walks(name, hash);
        }
        match self.table.entry(hash, |entry| entry.key() == name, hash_of) {
            hashtable::TableEntry::Vacant(vacant) => {
                let expiry = ttl.resolve(None);
                vacant.insert(Field::new(name, value_of(value), expiry, 0));
                self.reindex(None, expiry, hash);
                Written::Added
            }
            hashtable::TableEntry::Occupied(mut occupied) => {
                let old = occupied.get().expiry();
                let over = is_due(old, now);
                let new = ttl.resolve(if over { None } else { old });
                occupied.update(|entry| {
                    drop(entry.set_value(value_of(value)));
                    if old != new {
                        entry.set_expiry(new);
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
        self.reindex(entry.expiry(), None, hash);
        true
    }

    /// Gives a field that is there another expiry, or none.
    pub(super) fn set_expiry(&mut self, name: &[u8], new: Option<u64>) {
        let hash = member_hash(name);
        if !self.walks.is_empty() {
            self.tell_walks(name, hash);
        }
        let Some(mut found) = self.table.find_mut(hash, |entry| entry.key() == name) else { return };
        let old = found.get().expiry();
        found.update(|entry| entry.set_expiry(new));
        self.reindex(old, new, hash);
    }

    /// Removes the field with the earliest expiry, if it has expired.
    pub(super) fn pop_due(&mut self, now: u64, removed: impl FnOnce(&[u8])) -> bool {
        let Some(expiries) = &mut self.expiries else { return false };
        let Some(at) = expiries.pop_due(now) else { return false };
        if expiries.is_empty() {
            self.expiries = None;
        }
        if !self.walks.is_empty() {
            let table = &self.table;
            self.walks.touch(at << 16, |at, visit| table.scan(at, |entry| visit(seen(entry))));
        }
        let due = |entry: &Field| is_due(entry.expiry(), now) && position(hash_of(entry)) == at;
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
    pub(super) fn scan(&self, position: u64, mut visit: impl FnMut(u64, FoundField<'_>)) -> Option<u64> {
        self.table.scan(position, |entry| {
            let Seen { hash, name, value, expiry } = seen(entry);
            visit(hash, FoundField { name, value, expiry });
        })
    }

    /// Begins a walk over the fields that have not expired now.
    pub(super) fn begin_walk(&mut self, now: u64) -> Arc<TableSnapshotIterator> {
        self.walks.begin(TableSnapshotIterator::new(now))
    }

    /// See [`TableSnapshotIterator::piece`].
    pub(super) fn walk_piece(&self, walk: &TableSnapshotIterator, max: usize, show: impl FnMut(&[u8], &[u8])) -> bool {
        walk.piece(max, |at, visit| self.table.scan(at, |entry| visit(seen(entry))), show)
    }

    /// Begins a sweep over all fields, of which the ones before position `next` are done.
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

    /// Notifies walks that a field is about to be written or removed.
    #[cold]
    fn tell_walks(&mut self, name: &[u8], hash: u64) {
        let table = &self.table;
        self.walks.touch(hash, |at, visit| table.scan(at, |entry| visit(seen(entry))));
        match self.table.find(hash, |entry| entry.key() == name) {
            Some(entry) => self.walks.tell(|walk| walk.keep(seen(&entry))),
            None => self.walks.tell(|walk| walk.leave_out(hash, name)),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = FoundField<'_>> {
        self.table.iter().map(FoundField::of)
    }

    pub(super) fn random(&self, random: u64) -> Option<FoundField<'_>> {
        self.table.random(random).map(FoundField::of)
    }

    /// Frees up to `max` fields; true when nothing is left.
    pub(super) fn drain_step(&mut self, max: usize) -> bool {
        if let Some(expiries) = &mut self.expiries {
            if expiries.drain_step(max) {
                self.expiries = None;
            }
            return false;
        }
        self.table.drain_step(max)
    }

    /// Returns the bytes on the heap, by the size of the first `samples` fields.
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
        let expiries = self.expiries.as_ref().map_or(0, |expiries| size_of::<TtlIndex>() + expiries.memory_usage());
        size_of::<Self>() + self.table.memory_usage() + fields + expiries
    }

    fn reindex(&mut self, old: Option<u64>, new: Option<u64>, hash: u64) {
        if old == new {
            return;
        }
        let expiries = self.expiries.get_or_insert_default();
        expiries.change(old, new, hash);
        if expiries.is_empty() {
            self.expiries = None;
        }
    }

    #[cfg(test)]
    pub(super) fn check(&self) {
        let mut expected: Vec<(u64, u64)> =
            self.iter().filter_map(|field| Some((field.expiry?, position(member_hash(field.name))))).collect();
        expected.sort_unstable();
        assert_eq!(self.volatile_len(), expected.len());
        assert_eq!(self.expiries.is_some(), !expected.is_empty());
        assert_eq!(self.next_expiry(), expected.first().map(|(expiry, _)| *expiry));
    }
}

impl Clone for BigHash {
    fn clone(&self) -> Self {
        self.copy(|| {})
    }
}

impl BigHash {
    /// Makes a copy; `each` is called for each field.
    pub(super) fn copy(&self, mut each: impl FnMut()) -> Self {
        let mut copy = BigHash::default();
        for field in self.iter() {
            each();
            let (hash, expiry) = (member_hash(field.name), field.expiry);
            copy.table.insert_unique(hash, Field::new(field.name, value_of(field.value), expiry, 0), hash_of);
            copy.reindex(None, expiry, hash);
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
    Seen { hash: hash_of(entry), name: entry.key(), value, expiry: entry.expiry() }
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
            hash.set(name.bytes(&mut name_digits), value.bytes(&mut value_digits), FieldTtl::Clear, 0);
        }
        hash
    }
}
