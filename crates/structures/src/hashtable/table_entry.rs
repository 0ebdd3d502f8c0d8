//! The view of one place in a table, occupied or vacant, between looking it up and changing it.

use std::mem::ManuallyDrop;

use super::bucket::{Bucket, ChainSlot};
use super::{Counts, HashTable, Ref};
use crate::tagged_pointer::TaggedPointer;

/// Result of [`HashTable::entry`].
pub enum TableEntry<'a, T: TaggedPointer, H> {
    /// There is an entry.
    Occupied(OccupiedEntry<'a, T>),
    /// There is none.
    Vacant(VacantEntry<'a, T, H>),
}

/// An entry that was found, to be changed or taken out.
pub struct OccupiedEntry<'a, T: TaggedPointer> {
    home: &'a mut Bucket,
    counts: &'a mut Counts,
    place: ChainSlot,
    /// The bits in the slot, which own the value.
    bits: u64,
    /// A copy of the value, not to be dropped.
    value: ManuallyDrop<T>,
}

impl<'a, T: TaggedPointer> OccupiedEntry<'a, T> {
    /// `bits` are the ones at `place` in the chain of `home`, which belongs to a table of `T`.
    #[inline]
    pub(super) fn new(home: &'a mut Bucket, counts: &'a mut Counts, place: ChainSlot, bits: u64) -> Self {
        // SAFETY: the slot's bits are those of a `T` that the table owns, and the table is borrowed exclusively for as
        // long as this copy lives; it is not dropped.
        let value = ManuallyDrop::new(unsafe { T::from_bits(bits) });
        OccupiedEntry { home, counts, place, bits, value }
    }

    /// Returns the entry.
    #[inline]
    pub fn get(&self) -> &T {
        &self.value
    }

    /// Lets `f` change the handle or replace it by another of the same hash.
    #[inline(always)]
    pub fn update<R>(&mut self, f: impl FnOnce(&mut T) -> R) -> R {
        let writer = WriteBack { entry: self };
        f(&mut writer.entry.value)
    }

    /// Puts `value`, which has the same hash, in the place of the present one, and returns that.
    #[inline]
    pub fn replace(&mut self, value: T) -> T {
        self.update(|present| std::mem::replace(present, value))
    }

    /// Takes the entry out of the table. Does no resizing: the next insertion, [`HashTable::remove`] or
    /// [`HashTable::step`] does it.
    #[inline]
    pub fn remove(self) -> T {
        let taken = self.home.remove(self.place);
        self.counts.entries -= 1;
        self.counts.child_lines -= usize::from(taken.line_freed);
        ManuallyDrop::into_inner(self.value)
    }
}

/// Stores the handle in its slot when a change has ended, by returning or by unwinding.
struct WriteBack<'e, 'a, T: TaggedPointer> {
    entry: &'e mut OccupiedEntry<'a, T>,
}

impl<T: TaggedPointer> Drop for WriteBack<'_, '_, T> {
    #[inline(always)]
    fn drop(&mut self) {
        let entry = &mut *self.entry;
        // SAFETY: the value is put back two lines below, before anything can use it.
        let value = unsafe { ManuallyDrop::take(&mut entry.value) };
        let bits = value.into_bits();
        // SAFETY: the bits were just given up; from here on the slot owns them and this copy is not dropped.
        entry.value = ManuallyDrop::new(unsafe { T::from_bits(bits) });
        // Usually the handle is the same, and its cache line need not become dirty.
        if bits != entry.bits {
            entry.bits = bits;
            entry.home.line_mut(entry.place.depth).set_bits(entry.place.slot, bits);
        }
    }
}

/// A hash under which no equal entry was found.
pub struct VacantEntry<'a, T: TaggedPointer, H> {
    table: &'a mut HashTable<T>,
    hash: u64,
    hasher: H,
}

impl<'a, T: TaggedPointer, H: Fn(&T) -> u64> VacantEntry<'a, T, H> {
    #[inline]
    pub(super) fn new(table: &'a mut HashTable<T>, hash: u64, hasher: H) -> Self {
        VacantEntry { table, hash, hasher }
    }

    /// Adds an entry with the hash that was looked up, and does a share of resizing.
    #[inline]
    pub fn insert(self, value: T) -> Ref<'a, T> {
        self.table.insert_unique(self.hash, value, self.hasher)
    }
}
