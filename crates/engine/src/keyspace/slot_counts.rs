//! How many keys each slot has, by database, in a server that is a node of a cluster.
//!
//! A slot's counts are written under the lock of its shard, and may be read without it: they may be of the middle of a
//! transaction then.

use crate::data::slot::SLOTS;
use crate::keyspace::Keyspace;
use crate::keyspace::shard::{LOW, Shard};
use crate::locks::sync::Mutex;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Keys of one database, by slot.
type Counts = Arc<[AtomicU32]>;

/// See the module's documentation.
#[derive(Default)]
pub struct SlotCounts {
    is_on: bool,
    /// The databases that are found at their numbers; each is made when its first key comes.
    low: [OnceLock<Counts>; LOW],
    /// Databases from [`LOW`] on.
    high: Mutex<BTreeMap<u32, Counts>>,
}

fn none() -> Counts {
    (0..SLOTS).map(|_| AtomicU32::new(0)).collect()
}

impl SlotCounts {
    /// Makes the counts of a server that counts, or does not.
    pub(crate) fn new(is_on: bool) -> SlotCounts {
        SlotCounts { is_on, ..SlotCounts::default() }
    }

    /// Whether keys are counted.
    #[inline(always)]
    pub fn is_on(&self) -> bool {
        self.is_on
    }

    fn get(&self, db: u32) -> Option<Counts> {
        match self.low.get(db as usize) {
            Some(counts) => counts.get().cloned(),
            None => self.high.lock().get(&db).cloned(),
        }
    }

    fn change(&self, slot: u16, db: u32, change: impl FnOnce(u32) -> u32) {
        let at = |counts: &Counts| {
            let count = &counts[usize::from(slot)];
            count.store(change(count.load(Relaxed)), Relaxed);
        };
        match self.low.get(db as usize) {
            Some(counts) => at(counts.get_or_init(none)),
            None => at(self.high.lock().entry(db).or_insert_with(none)),
        }
    }

    /// Counts a new key of a slot in a database.
    #[inline(never)]
    pub(crate) fn key_came(&self, slot: u16, db: u32) {
        self.change(slot, db, |count| count.wrapping_add(1));
    }

    /// Counts a removed key of a slot in a database.
    #[inline(never)]
    pub(crate) fn key_went(&self, slot: u16, db: u32) {
        self.change(slot, db, |count| count.wrapping_sub(1));
    }

    /// Returns the number of keys of a slot in a database.
    pub fn of(&self, slot: u16, db: u32) -> usize {
        self.get(db).map_or(0, |counts| counts[usize::from(slot)].load(Relaxed) as usize)
    }

    /// Returns the numbers of keys of slots in all databases.
    pub fn in_all(&self, slots: Range<usize>) -> Vec<usize> {
        let mut sums = vec![0; slots.len()];
        let mut add = |counts: &Counts| {
            let counts = counts[slots.clone()].iter();
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count.load(Relaxed) as usize);
        };
        self.low.iter().filter_map(OnceLock::get).for_each(&mut add);
        self.high.lock().values().for_each(add);
        sums
    }

    /// Returns the keys of those of these slots that `is_meant` selects, in a database.
    pub fn sum(&self, slots: Range<usize>, db: u32, is_meant: impl Fn(u16) -> bool) -> usize {
        let Some(counts) = self.get(db) else { return 0 };
        let count = |slot: usize| counts[slot].load(Relaxed) as usize;
        slots.filter(|slot| is_meant(*slot as u16)).map(count).sum()
    }

    /// Replaces the counts of slots in a database by those of another data set; None: there are none.
    pub fn replace(&self, slots: Range<usize>, db: u32, new: Option<&SlotCounts>) {
        let new = new.and_then(|new| new.get(db));
        if !self.is_on || new.is_none() && self.get(db).is_none() {
            return;
        }
        for slot in slots {
            let count = new.as_ref().map_or(0, |new| new[slot].load(Relaxed));
            self.change(slot as u16, db, |_| count);
        }
    }

    /// Exchanges the counts of two databases in slots.
    pub(crate) fn swap(&self, slots: Range<usize>, one: u32, two: u32) {
        for slot in if self.is_on { slots } else { 0..0 } {
            let slot = slot as u16;
            let (first, second) = (self.of(slot, one) as u32, self.of(slot, two) as u32);
            self.change(slot, one, |_| second);
            self.change(slot, two, |_| first);
        }
    }
}

impl Keyspace {
    /// Returns the numbers of keys of each slot.
    #[inline(always)]
    pub fn slot_counts(&self) -> &SlotCounts {
        &self.slot_counts
    }

    /// Returns the number of keys of a database in a shard, whose lock is held, without those that clients do not see.
    pub fn visible_in(&self, shard: &Shard, db: u32) -> usize {
        shard.dbs[db].table.len().saturating_sub(self.hidden_in(shard.index(), db))
    }

    /// Returns the number of keys of a database in a shard that clients do not see.
    fn hidden_in(&self, shard: usize, db: u32) -> usize {
        let (slots, hidden) = (self.hasher().slots_of(shard), self.importing_slots());
        if !hidden.hides_any(slots.clone()) {
            return 0;
        }
        self.slot_counts.sum(slots, db, |slot| hidden.hides(slot))
    }

    /// Returns the number of keys of a database that clients do not see.
    pub fn hidden_len(&self, db: u32) -> usize {
        if !self.importing_slots().is_any() {
            return 0;
        }
        (0..self.locks().len()).map(|shard| self.hidden_in(shard, db)).sum()
    }

    /// Checks the counts, whenever a shard's lock is released.
    #[cfg(debug_assertions)]
    pub(super) fn check_slot_counts(&self, index: usize, shard: &Shard) {
        for (number, db) in shard.dbs.iter().filter(|_| self.slot_counts.is_on) {
            let counted = self.slot_counts.sum(self.hasher().slots_of(index), number, |_| true);
            assert_eq!(counted, db.table.len(), "keys of slots in database {number} of shard {index}");
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn keys_are_counted_by_slot_and_database() {
        let counts = SlotCounts::new(true);
        for (slot, db) in [(1, 0), (1, 0), (1, 20), (5, 0), (100, 3)] {
            counts.key_came(slot, db);
        }
        counts.key_went(5, 0);
        assert_eq!(
            [(1, 0), (1, 20), (5, 0), (100, 3), (100, 4)].map(|(slot, db)| counts.of(slot, db)),
            [2, 1, 0, 1, 0]
        );
        assert_eq!((counts.in_all(1..3), counts.sum(0..200, 0, |slot| slot != 1)), (vec![3, 0], 0));
        counts.swap(0..64, 0, 20);
        assert_eq!([counts.of(1, 0), counts.of(1, 20)], [1, 2]);
        let other = SlotCounts::new(true);
        other.key_came(2, 20);
        counts.replace(0..64, 20, Some(&other));
        counts.replace(0..64, 0, None);
        assert_eq!([counts.in_all(0..64).iter().sum::<usize>(), counts.of(2, 20)], [1, 1]);
    }
}
