//! A hash table in hash order that grows and shrinks step by step.
//!
//! The keyspace of every shard, and every large hash and set, is one of these. It has to be small, since it is paid for
//! each key; to answer with one cache miss in the table and one in the entry, which callers can hide by prefetching;
//! and never to stall: no operation moves more than a bounded number of buckets, however large the table is.
//!
//! # Layout
//! The table is an array of 64-byte [buckets](bucket), each a chain of lines with nine tags and nine 48-bit
//! [handles](TaggedPointer). The hash is used in two parts:
//!
//! ```text
//!   bit 63                                          16 15      8 7       0
//!      +----------------------------------------------+---------+--------+
//!      |              position (48 bits)              | unused  |  tag   |
//!      +----------------------------------------------+---------+--------+
//!       which bucket: position * buckets / 2^48         free for choosing a shard
//! ```
//! The bucket is found by a multiplication, so any number of buckets will do (the array grows by a third, not by
//! doubling, so it is never half empty), and buckets are in the order of positions: bucket `i` of `n` covers the
//! positions from `ceil(i * 2^48 / n)` up to where bucket `i + 1` begins.
//!
//! # Resizing
//! A resize goes through the old array in order and moves each bucket's entries to the new one. The *frontier* is the
//! number of old buckets moved. An entry lives in the new array exactly if its position's old bucket lies before the
//! frontier, so a lookup looks into one array only:
//!
//! ```text
//!   old   |  moved: empty, memory returned  |>  not yet moved                 |
//!   new   |  the entries of the moved ones  |>  untouched, so without memory  |
//!         position 0                        frontier                       2^48
//! ```
//! As both arrays are in the same order, moving reads one and writes the other sequentially. While a resize is under
//! way every insertion and removal moves [`MOVES_PER_OPERATION`] buckets and prefetches the entries of the next ones,
//! whose keys must be read to hash them; [`HashTable::step`] moves more when there is time. A bucket is moved as a
//! whole. Its chain is as long as any lookup in it has to go, so that is a few lines unless the hash function is bad.
//!
//! | mean entries in a bucket      |      | then                                            |
//! |-------------------------------|------|-------------------------------------------------|
//! | more than                     | 7.8  | grow to a mean of 5.85                          |
//! | less than                     | 2    | shrink to a mean of 5.85                        |
//! | none at all, and few buckets  | 0    | free the array                                  |
//!
//! # Scanning
//! A [`scan`](HashTable::scan) cursor is a position. One step at `p` visits everything in the bucket that covers `p`
//! and returns `q`, the end of that bucket's range: the next bucket's first position, or in the new array the
//! frontier's position if that comes first. So it has visited every entry with a position in `p..q`: all of these live
//! in that bucket (entries before the frontier in the new one, entries behind it in the old one). A whole scan covers
//! `0..2^48` by such ranges without a gap. An entry never changes its position, whatever is resized in between, hence
//! an entry that is present from the first to the last step is visited at least once. It can be visited twice, as a
//! step visits the entries before `p` in its bucket too.
//!
//! # Invariants
//! - A slot with a tag holds the bits of a `T` that the table owns, and no other slot does. `len` is their number.
//! - The old array's buckets before the frontier, and the new array's after the frontier's position, are empty.
//! - `old` has buckets exactly while a resize is under way.

mod bucket;
mod bucket_memory;
mod positions;
mod prefetch_hint;
mod resize;
mod slot_ref;
mod table_entry;
#[cfg(test)]
mod tests;

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;

pub use self::positions::{CLASSES, POSITIONS, class, position};
pub use self::prefetch_hint::{BucketHint, EntryHint, HintedArray};
pub use self::resize::MOVES_PER_OPERATION;
pub use self::slot_ref::SlotRef;
pub use self::table_entry::{OccupiedEntry, TableEntry, VacantEntry};

use self::bucket::{Bucket, ChainSlot, LINE, SLOTS, Slots, tag_of};
use self::bucket_memory::BucketArray;
use self::positions::{buckets_before, class_of_tag, first_position, index};
use crate::tagged_pointer::{TaggedPointer, prefetch};

/// A table of `T`s by their hashes. See the module's documentation.
pub struct HashTable<T: TaggedPointer> {
    /// All entries, or while resizing those before the frontier.
    new: BucketArray,
    /// While resizing: the entries from the frontier on.
    old: BucketArray,
    /// How many of the old buckets were moved. 0 when no resize is under way.
    frontier: usize,
    /// The first position that belongs to the old array; `POSITIONS` when no resize is under way.
    frontier_position: u64,
    counts: Counts,
    may_resize: bool,
    owned: PhantomData<T>,
}

struct Counts {
    entries: usize,
    /// Lines beside the arrays' own.
    child_lines: usize,
}

// SAFETY: the table owns its memory and its entries alone, and nothing in it is bound to a thread except for the `T`s.
unsafe impl<T: TaggedPointer + Send> Send for HashTable<T> {}
// SAFETY: callers of a shared table only read its memory and get shared references to `T`s.
unsafe impl<T: TaggedPointer + Sync> Sync for HashTable<T> {}

/// A shared reference to an entry.
pub struct Ref<'a, T: TaggedPointer> {
    handle: ManuallyDrop<T>,
    table: PhantomData<&'a HashTable<T>>,
}

impl<T: TaggedPointer> Deref for Ref<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.handle
    }
}

/// Buckets of which a scan prefetches the entries.
const AHEAD: usize = 2;

/// Entries that a bucket has place for.
pub const PLACES: usize = bucket::SLOTS;

/// Numbers for diagnostics; see [`HashTable::stats`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TableStats {
    /// Entries in the table.
    pub entries: usize,
    /// Buckets of the array that new entries go to.
    pub buckets: usize,
    /// Lines chained to full buckets.
    pub child_lines: usize,
    /// While resizing: buckets of the old array, and how many of them were moved.
    pub resize: Option<(usize, usize)>,
    /// As [`HashTable::memory_usage`].
    pub memory: usize,
}

impl<T: TaggedPointer> Default for HashTable<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// Lookups.
impl<T: TaggedPointer> HashTable<T> {
    /// Makes an empty table, which has allocated nothing.
    pub const fn new() -> Self {
        HashTable {
            new: BucketArray::empty(),
            old: BucketArray::empty(),
            frontier: 0,
            frontier_position: POSITIONS,
            counts: Counts { entries: 0, child_lines: 0 },
            may_resize: true,
            owned: PhantomData,
        }
    }

    /// Returns the number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        self.counts.entries
    }

    /// Whether there are no entries.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the entry with this hash for which `eq` holds.
    #[inline]
    pub fn find(&self, hash: u64, mut eq: impl FnMut(&T) -> bool) -> Option<Ref<'_, T>> {
        let tag = tag_of(hash);
        let mut line = self.home(hash);
        loop {
            for slot in line.matches(tag) {
                let entry = self.borrow(line.bits(slot));
                if eq(&entry) {
                    return Some(entry);
                }
            }
            line = line.child()?;
        }
    }

    /// Returns the place of the entry with this hash for which `eq` holds: for a caller that looks at it first and
    /// decides then how to change it, without searching again.
    #[inline]
    pub fn slot_ref(&self, hash: u64, eq: impl FnMut(&T) -> bool) -> Option<SlotRef> {
        let (place, _) = self.locate(hash, eq)?;
        let moved = position(hash) < self.frontier_position;
        Some(SlotRef::new(moved, index(hash, self.array(hash).len()), place))
    }

    /// Returns the entry at a slot. The table must not have been changed since, or it may be another one or none.
    #[inline]
    pub fn at(&self, slot_ref: SlotRef) -> Option<Ref<'_, T>> {
        let array = if slot_ref.moved() { &self.new } else { &self.old };
        let bits = array.get(slot_ref.bucket())?.bits_at(slot_ref.place())?;
        Some(self.borrow(bits))
    }

    /// Returns the entry at a slot, to be changed. The table must not have been changed since.
    #[inline]
    pub fn at_mut(&mut self, slot_ref: SlotRef) -> Option<OccupiedEntry<'_, T>> {
        let array = if slot_ref.moved() { &mut self.new } else { &mut self.old };
        let bits = array.get(slot_ref.bucket())?.bits_at(slot_ref.place())?;
        Some(OccupiedEntry::new(array.at_mut(slot_ref.bucket()), &mut self.counts, slot_ref.place(), bits))
    }

    /// Returns the entry at this [`position`] for which `pred` holds, for a caller that does not know the rest of the
    /// hash. `pred` is asked about every entry of a bucket, also those at other positions.
    pub fn find_at_position(&self, position: u64, mut pred: impl FnMut(&T) -> bool) -> Option<Ref<'_, T>> {
        let home = self.home(position << 16);
        self.prefetch_entries(home);
        home.chain_bits().map(|bits| self.borrow(bits)).find(|entry| pred(entry))
    }

    /// First step of a batch of lookups: prefetches the bucket.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        prefetch(self.home(hash));
    }

    /// Returns the hint by which [`BucketHint::prefetch`] finds the buckets of this table.
    #[inline]
    pub fn bucket_hint(&self) -> BucketHint {
        let hinted = |array: &BucketArray| HintedArray { start: array.address(), len: array.len() };
        BucketHint { new: hinted(&self.new), old: hinted(&self.old), frontier: self.frontier_position }
    }

    /// Second step of a batch of lookups, when the bucket has had time to arrive: returns the place where an entry with
    /// this hash may be. Prefetches the bucket's next line, if there is one.
    #[inline]
    pub fn entry_hint(&self, hash: u64) -> EntryHint<T> {
        let line = self.home(hash);
        let child = line.child();
        if let Some(child) = child {
            prefetch(child);
        }
        let mut slots = line.matches(tag_of(hash));
        let bits = slots.next().map_or(0, |slot| line.bits(slot));
        slots.for_each(|slot| T::prefetch(line.bits(slot)));
        EntryHint { bits, goes_on: child.is_some(), table: PhantomData }
    }

    /// Prefetches the entries that a lookup with this hash will compare, in the bucket's first line.
    #[inline]
    pub fn prefetch_entry(&self, hash: u64) {
        self.entry_hint(hash).prefetch();
    }

    /// Prefetches the entries of the lines behind the first one, of which the next should be there.
    pub fn prefetch_chain(&self, hash: u64) {
        let mut line = self.home(hash);
        while let Some(child) = line.child() {
            line = child;
            line.matches(tag_of(hash)).for_each(|slot| T::prefetch(line.bits(slot)));
        }
    }

    /// Returns an entry chosen by `random`, a uniformly distributed number.
    ///
    /// Every entry is equally likely, with two exceptions: one in a chain of `c` > 18 entries is chosen 18/c times as
    /// often as others (with a sound hash and resizing not stopped, fewer than one entry in a thousand is in such a
    /// chain), and if a bucket in 80 or fewer is in use, entries after a gap are chosen more often.
    pub fn random(&self, random: u64) -> Option<Ref<'_, T>> {
        const ATTEMPTS: usize = 64;
        const FULL_CHAIN: usize = 2 * SLOTS;
        if self.is_empty() {
            return None;
        }
        let mut state = random;
        let mut unit = 0;
        for _ in 0..ATTEMPTS {
            state = scramble(state);
            unit = scale(state, self.units());
            let home = self.unit(unit);
            let len = home.chain_len();
            let pick = scale(state << 32, len.max(FULL_CHAIN));
            if let Some(bits) = home.chain_bits().nth(pick) {
                return Some(self.borrow(bits));
            }
        }
        let after = (unit..self.units()).chain(0..unit).map(|unit| self.unit(unit));
        let home = after.into_iter().find(|home| home.peek().is_some())?;
        let pick = scale(state << 32, home.chain_len());
        home.chain_bits().nth(pick).map(|bits| self.borrow(bits))
    }

    /// Does one step of a scan that begins at position 0: visits all entries of the bucket that covers `position` and
    /// returns the position of the next step, or `None` at the end. See the module's documentation for the guarantees.
    /// Entries of the steps after this one are prefetched.
    pub fn scan(&self, position: u64, mut visit: impl FnMut(&T)) -> Option<u64> {
        let next = self.after(position)?;
        let (array, at) = (self.array(position << 16), index(position << 16, self.array(position << 16).len()));
        let ahead = (at + 1..array.len().min(at + 1 + AHEAD)).flat_map(|ahead| array.at(ahead).chain_bits());
        ahead.for_each(T::prefetch_head);
        self.for_each_in_bucket(position << 16, &mut visit);
        Some(next).filter(|next| *next < POSITIONS)
    }

    /// Does one step of a scan that visits only entries whose hashes are of this [class]. Others are not read.
    pub fn scan_class(&self, position: u64, class: u8, mut visit: impl FnMut(&T)) -> Option<u64> {
        let next = self.after(position)?;
        let mut line = Some(self.home(position << 16));
        while let Some(bucket) = line {
            for slot in bucket.used().filter(|slot| class_of_tag(bucket.tag(*slot)) == class) {
                visit(&self.borrow(bucket.bits(slot)));
            }
            line = bucket.child();
        }
        Some(next).filter(|next| *next < POSITIONS)
    }

    /// Returns the end of the bucket that covers `position`; None where there is none.
    fn after(&self, position: u64) -> Option<u64> {
        if position >= POSITIONS || self.new.len() == 0 {
            return None;
        }
        let hash = position << 16;
        Some(if position < self.frontier_position {
            first_position(index(hash, self.new.len()) + 1, self.new.len()).min(self.frontier_position)
        } else {
            first_position(index(hash, self.old.len()) + 1, self.old.len())
        })
    }

    /// Visits all entries that share a bucket with this hash.
    pub fn for_each_in_bucket(&self, hash: u64, mut visit: impl FnMut(&T)) {
        let home = self.home(hash);
        self.prefetch_entries(home);
        for bits in home.chain_bits() {
            visit(&self.borrow(bits));
        }
    }

    /// Returns all entries in no particular order.
    pub fn iter(&self) -> Iter<'_, T> {
        Iter { table: self, unit: 0, line: None, slots: Slots::NONE }
    }

    /// Returns the number of buckets, of both arrays while resizing.
    pub fn bucket_count(&self) -> usize {
        self.new.len() + self.old.len()
    }

    /// Returns the bytes on the heap for the table itself, without what its handles point to.
    pub fn memory_usage(&self) -> usize {
        let new = self.new.memory_usage(self.touched());
        let old = self.old.memory_usage(self.old.len());
        new + old + self.counts.child_lines * LINE
    }

    /// Takes a constant time.
    pub fn stats(&self) -> TableStats {
        TableStats {
            entries: self.len(),
            buckets: self.new.len(),
            child_lines: self.counts.child_lines,
            resize: self.is_resizing().then_some((self.old.len(), self.frontier)),
            memory: self.memory_usage(),
        }
    }

    #[inline]
    fn home(&self, hash: u64) -> &Bucket {
        self.array(hash).home(hash)
    }

    /// Returns the array that an entry with this hash is in.
    #[inline]
    fn array(&self, hash: u64) -> &BucketArray {
        if position(hash) < self.frontier_position { &self.new } else { &self.old }
    }

    #[inline]
    fn borrow(&self, bits: u64) -> Ref<'_, T> {
        // SAFETY: callers pass the bits of a slot in use, which the table owns; it stays borrowed as long as the copy
        // lives, so its owner outlives it, and `Ref` gives out shared references only and does not drop it.
        let handle = ManuallyDrop::new(unsafe { T::from_bits(bits) });
        Ref { handle, table: PhantomData }
    }

    #[inline]
    fn prefetch_entries(&self, home: &Bucket) {
        for bits in home.chain_bits() {
            T::prefetch(bits);
        }
    }

    /// Returns the number of buckets that can have entries: numbered with the old ones from the frontier on first, then
    /// the new ones up to the frontier's position.
    fn units(&self) -> usize {
        self.unmoved() + self.touched()
    }

    /// Returns how many new buckets can have entries.
    fn touched(&self) -> usize {
        buckets_before(self.frontier_position, self.new.len()).min(self.new.len())
    }

    fn unmoved(&self) -> usize {
        self.old.len() - self.frontier
    }

    fn unit(&self, unit: usize) -> &Bucket {
        let unmoved = self.old.len() - self.frontier;
        if unit < unmoved { self.old.at(self.frontier + unit) } else { self.new.at(unit - unmoved) }
    }
}

/// Changes.
impl<T: TaggedPointer> HashTable<T> {
    /// Returns the entry with this hash for which `eq` holds, to be changed. Does no resizing.
    #[inline(always)]
    pub fn find_mut(&mut self, hash: u64, eq: impl FnMut(&T) -> bool) -> Option<OccupiedEntry<'_, T>> {
        let (place, bits) = self.locate(hash, eq)?;
        let (home, counts) = self.home_mut(hash);
        Some(OccupiedEntry::new(home, counts, place, bits))
    }

    /// Returns the place of the entry with this hash for which `eq` holds, whether there is one or not. `hasher` gives
    /// the hash of any entry, and is used if an insertion has to resize.
    ///
    /// Should `hasher` panic, entries of one bucket may be hidden until the resize has moved it.
    #[inline]
    pub fn entry<H: Fn(&T) -> u64>(
        &mut self,
        hash: u64,
        eq: impl FnMut(&T) -> bool,
        hasher: H,
    ) -> TableEntry<'_, T, H> {
        match self.locate(hash, eq) {
            Some((place, bits)) => {
                let (home, counts) = self.home_mut(hash);
                TableEntry::Occupied(OccupiedEntry::new(home, counts, place, bits))
            }
            None => TableEntry::Vacant(VacantEntry::new(self, hash, hasher)),
        }
    }

    /// Adds an entry; the caller knows that no equal one is present.
    pub fn insert_unique(&mut self, hash: u64, value: T, hasher: impl Fn(&T) -> u64) -> Ref<'_, T> {
        self.before_insert(&hasher);
        let bits = value.into_bits();
        let (home, counts) = self.home_mut(hash);
        counts.entries += 1;
        counts.child_lines += usize::from(home.insert(tag_of(hash), bits));
        self.borrow(bits)
    }

    /// Takes out the entry with this hash for which `eq` holds, and does a share of resizing.
    pub fn remove(&mut self, hash: u64, eq: impl FnMut(&T) -> bool, hasher: impl Fn(&T) -> u64) -> Option<T> {
        let removed = self.find_mut(hash, eq)?.remove();
        self.after_remove(&hasher);
        Some(removed)
    }

    /// Takes out the entry that [`find_at_position`](Self::find_at_position) finds, and does a share of resizing.
    pub fn remove_at_position(
        &mut self,
        position: u64,
        mut pred: impl FnMut(&T) -> bool,
        hasher: impl Fn(&T) -> u64,
    ) -> Option<T> {
        let hash = position << 16;
        self.prefetch_entries(self.home(hash));
        let (place, bits) = self.locate_in(self.home(hash), |line| line.used(), &mut pred)?;
        let (home, counts) = self.home_mut(hash);
        let removed = OccupiedEntry::new(home, counts, place, bits).remove();
        self.after_remove(&hasher);
        Some(removed)
    }

    /// Drops up to `max` entries (at least one) and frees the memory that they leave behind, to free a large table step
    /// by step; returns whether nothing is left. The table can be used in between. Ignores
    /// [`set_resizing`](Self::set_resizing).
    pub fn drain_step(&mut self, max: usize) -> bool {
        self.drain_each(max, drop)
    }

    /// Drains the table as [`drain_step`](Self::drain_step), for a caller that wants the entries.
    pub fn drain_each(&mut self, max: usize, mut take: impl FnMut(T)) -> bool {
        for _ in 0..max.max(1) {
            if self.is_freeable() {
                self.free_arrays();
                return true;
            }
            if !self.is_resizing() {
                self.start_resize(1);
            }
            // An emptied bucket need not be moved: the frontier may pass it.
            match self.old.at_mut(self.frontier).pop() {
                Some(taken) => {
                    self.counts.entries -= 1;
                    self.counts.child_lines -= usize::from(taken.line_freed);
                    // SAFETY: the entry is in no slot any more, so its ownership passes from the table to here.
                    take(unsafe { T::from_bits(taken.bits) });
                }
                None => self.pass_frontier(),
            }
        }
        self.new.len() == 0
    }

    /// Returns the home of a hash, in a table that has buckets, and the counts to keep.
    #[inline(always)]
    fn home_mut(&mut self, hash: u64) -> (&mut Bucket, &mut Counts) {
        let array = if position(hash) < self.frontier_position { &mut self.new } else { &mut self.old };
        (array.home_mut(hash), &mut self.counts)
    }

    #[inline(always)]
    fn locate(&self, hash: u64, mut eq: impl FnMut(&T) -> bool) -> Option<(ChainSlot, u64)> {
        let tag = tag_of(hash);
        self.locate_in(self.home(hash), |line| line.matches(tag), &mut eq)
    }

    /// Returns place and bits of the first entry in a chain, among the ones that `candidates` selects, for which `eq`
    /// holds.
    #[inline(always)]
    fn locate_in(
        &self,
        home: &Bucket,
        candidates: impl Fn(&Bucket) -> Slots,
        eq: &mut impl FnMut(&T) -> bool,
    ) -> Option<(ChainSlot, u64)> {
        let mut line = home;
        let mut depth = 0;
        loop {
            for slot in candidates(line) {
                let bits = line.bits(slot);
                if eq(&self.borrow(bits)) {
                    return Some((ChainSlot { depth, slot }, bits));
                }
            }
            line = line.child()?;
            depth += 1;
        }
    }
}

impl<T: TaggedPointer> Drop for HashTable<T> {
    fn drop(&mut self) {
        for array in [&mut self.old, &mut self.new] {
            let mut i = 0;
            while self.counts.entries > 0 && i < array.len() {
                while let Some(taken) = array.at_mut(i).pop() {
                    self.counts.entries -= 1;
                    // SAFETY: the entry is in no slot any more, so its ownership passes from the table to here.
                    drop(unsafe { T::from_bits(taken.bits) });
                }
                i += 1;
            }
        }
    }
}

/// An iterator over a table's entries.
pub struct Iter<'a, T: TaggedPointer> {
    table: &'a HashTable<T>,
    /// The bucket that comes after `line`'s chain.
    unit: usize,
    line: Option<&'a Bucket>,
    /// Slots of `line` that are left.
    slots: Slots,
}

impl<'a, T: TaggedPointer> Iterator for Iter<'a, T> {
    type Item = Ref<'a, T>;

    fn next(&mut self) -> Option<Ref<'a, T>> {
        loop {
            if let Some(line) = self.line
                && let Some(slot) = self.slots.next()
            {
                return Some(self.table.borrow(line.bits(slot)));
            }
            let mut next = self.line.and_then(Bucket::child);
            if next.is_none() && self.unit < self.table.units() {
                next = Some(self.table.unit(self.unit));
                self.unit += 1;
                if self.unit < self.table.units() {
                    // Entries lie anywhere: those of the next bucket have time to arrive meanwhile.
                    self.table.prefetch_entries(self.table.unit(self.unit));
                }
            }
            self.line = Some(next?);
            self.slots = next?.used();
        }
    }
}

impl<'a, T: TaggedPointer> IntoIterator for &'a HashTable<T> {
    type Item = Ref<'a, T>;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}

/// Returns a number below `len` (0 if that is 0) from the high bits of a random one.
#[inline]
fn scale(random: u64, len: usize) -> usize {
    ((u128::from(random) * len as u128) >> 64) as usize
}

/// Returns the next of a sequence of random numbers that begins with a random one (the finalizer of SplitMix64).
fn scramble(state: u64) -> u64 {
    let mut mixed = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
