//! When a table changes its size, and how it moves from one array to the next. See the module above for the idea.

use super::HashTable;
use super::bucket::SLOTS;
use super::bucket_memory::BucketArray;
use super::positions::{POSITIONS, first_position, index};
use crate::tagged_pointer::{TaggedPointer, prefetch};

/// How many buckets an insertion or a removal moves while a resize is under way.
///
/// A table of `n` buckets grows by `n / 3` at a mean fill of 7.8, and the new one is full after another 2.6 `n`
/// insertions: at two buckets each, the move ends after `n / 2`. Shrinking begins at a mean fill of 2 and ends
/// after `n / 2` removals, when there are still 1.5 `n` entries.
pub const MOVES_PER_OPERATION: usize = 2;

/// How many buckets behind the frontier's new one are not used yet: one old bucket's entries go to two or three.
const TOUCHED_AHEAD: usize = 4;

/// Hundredths of entries per bucket above which a table grows, below which it shrinks, and which either aims at. Chains
/// keep the memory per entry nearly constant above a mean of 7.8, while lookups get longer; 5.85 makes growth a factor
/// of 4/3.
const GROW_ABOVE: usize = 780;
const SHRINK_BELOW: usize = 200;
const AIM: usize = 585;
/// Hundredths of entries per bucket of a table whose entries are counted before they come.
const AIM_RESERVED: usize = 690;

/// Arrays of so many buckets together are freed at once when the last entry goes.
const FREED_AT_ONCE: usize = 64;

impl<T: TaggedPointer> HashTable<T> {
    /// Allows (as at first) or forbids resizing; a resize under way stops where it is. While it is forbidden, buckets
    /// get longer chains.
    pub fn set_resizing(&mut self, allowed: bool) {
        self.may_resize = allowed;
    }

    /// Prepares an empty table for so many entries. It must not [resize](HashTable::set_resizing) until they are there,
    /// or it shrinks again.
    pub fn reserve(&mut self, entries: usize) {
        if self.is_empty() && self.is_freeable() && entries > SLOTS {
            self.free_arrays();
            let buckets = entries.saturating_mul(100).div_ceil(AIM_RESERVED);
            self.new = BucketArray::new(buckets);
        }
    }

    /// Does background work: moves up to `buckets` buckets of a resize that is under way or due. Returns whether more
    /// is left to do.
    pub fn step(&mut self, buckets: usize, hasher: impl Fn(&T) -> u64) -> bool {
        if !self.may_resize {
            return false;
        }
        self.start_due_resize(self.len());
        self.advance(buckets, &hasher);
        // One that was stopped for long can end in an array that is the wrong size already.
        self.start_due_resize(self.len());
        self.is_resizing()
    }

    /// Whether a resize is under way, also when it is stopped.
    #[inline]
    pub fn is_resizing(&self) -> bool {
        self.old.len() > 0
    }

    /// Makes sure that there is a bucket for another entry, and does a share of resizing.
    #[inline]
    pub(super) fn before_insert(&mut self, hasher: &impl Fn(&T) -> u64) {
        if self.new.len() == 0 {
            self.new = BucketArray::new(1);
        } else if self.may_resize {
            self.start_due_resize(self.len() + 1);
            self.advance(MOVES_PER_OPERATION, hasher);
        }
    }

    #[inline]
    pub(super) fn after_remove(&mut self, hasher: &impl Fn(&T) -> u64) {
        if self.may_resize {
            self.start_due_resize(self.len());
            self.advance(MOVES_PER_OPERATION, hasher);
        }
    }

    /// Begins a resize if none is under way and `len` entries are too many or too few for the array.
    #[inline]
    fn start_due_resize(&mut self, len: usize) {
        if len == 0 && self.is_freeable() {
            self.free_arrays();
        } else if !self.is_resizing() {
            let buckets = self.new.len();
            // A single bucket is full only when all its slots are.
            let grow_above = if buckets == 1 { SLOTS * 100 } else { buckets.saturating_mul(GROW_ABOVE) };
            let hundredths = len.saturating_mul(100);
            if hundredths > grow_above {
                self.start_resize(hundredths.div_ceil(AIM).max(buckets + 1));
            } else if hundredths < buckets.saturating_mul(SHRINK_BELOW) && buckets > 1 {
                self.start_resize(hundredths.div_ceil(AIM).max(1));
            }
        }
    }

    /// Begins to move to an array of `buckets` buckets. None may be under way.
    pub(super) fn start_resize(&mut self, buckets: usize) {
        debug_assert!(!self.is_resizing() && self.new.len() > 0);
        self.old = std::mem::replace(&mut self.new, BucketArray::new(buckets));
        self.frontier = 0;
        self.frontier_position = 0;
    }

    /// Moves up to `buckets` buckets, and has the next ones loaded for the next call.
    #[inline]
    fn advance(&mut self, buckets: usize, hasher: &impl Fn(&T) -> u64) {
        if self.is_resizing() {
            self.move_buckets(buckets, hasher);
        }
    }

    fn move_buckets(&mut self, buckets: usize, hasher: &impl Fn(&T) -> u64) {
        for _ in 0..buckets {
            if !self.is_resizing() {
                return;
            }
            self.prefetch_after(self.frontier);
            self.move_bucket(hasher);
            self.pass_frontier();
        }
    }

    /// Prefetches memory for later moves: the entries of the bucket two moves ahead, and the line of the one four
    /// ahead.
    fn prefetch_after(&self, frontier: usize) {
        if frontier + 2 < self.old.len() {
            let soon = self.old.at(frontier + 2);
            self.prefetch_entries(soon);
        }
        if frontier + 4 < self.old.len() {
            prefetch(self.old.at(frontier + 4));
        }
    }

    /// Moves all entries of the bucket at the frontier, line by line: all hashes of a line first, so that `hasher` may
    /// panic without an entry being lost.
    fn move_bucket(&mut self, hasher: &impl Fn(&T) -> u64) {
        loop {
            let line = self.old.at(self.frontier);
            let used = line.used();
            if used.count() == 0 {
                return;
            }
            let mut hashes = [0; SLOTS];
            for slot in used {
                hashes[slot] = hasher(&self.borrow(line.bits(slot)));
            }
            let (line, line_freed) = self.old.at_mut(self.frontier).take_line();
            self.counts.child_lines -= usize::from(line_freed);
            for slot in used {
                let added = self.new.home_mut(hashes[slot]).insert(line.tag(slot), line.bits(slot));
                self.counts.child_lines += usize::from(added);
            }
        }
    }

    /// Moves the frontier past a bucket that has become empty.
    pub(super) fn pass_frontier(&mut self) {
        debug_assert!(self.old.at(self.frontier).peek().is_none());
        let next = first_position(self.frontier + 1, self.old.len());
        self.frontier += 1;
        let last = std::mem::replace(&mut self.frontier_position, next);
        if self.frontier == self.old.len() {
            self.old = BucketArray::empty();
            self.frontier = 0;
            self.frontier_position = POSITIONS;
            self.new.settle();
        } else {
            self.touch_ahead(last);
            self.old.release_before(self.frontier);
        }
    }

    /// Writes to the pages of the new array that come next, now that the frontier has moved on from position `last`. A
    /// page that is read before it is written to is at first one of zeroes that all processes share: two faults, not
    /// one.
    fn touch_ahead(&mut self, last: u64) {
        let len = self.new.len();
        let [last, now] = [last, self.frontier_position].map(|position| index(position << 16, len));
        // The bucket after the one that covers the frontier begins behind it.
        for i in (last + TOUCHED_AHEAD).max(now) + 1..=(now + TOUCHED_AHEAD).min(len - 1) {
            if self.new.begins_page(i) {
                debug_assert!(self.new.at(i).is_unused());
                self.new.at_mut(i).set_unused();
            }
        }
    }

    /// Whether there are no entries, and so few buckets that the arrays may go at once.
    #[inline]
    pub(super) fn is_freeable(&self) -> bool {
        self.is_empty() && self.bucket_count() <= FREED_AT_ONCE
    }

    /// Frees the arrays of a table without entries.
    pub(super) fn free_arrays(&mut self) {
        debug_assert!(self.is_empty() && self.counts.child_lines == 0);
        self.new = BucketArray::empty();
        self.old = BucketArray::empty();
        self.frontier = 0;
        self.frontier_position = POSITIONS;
    }
}
