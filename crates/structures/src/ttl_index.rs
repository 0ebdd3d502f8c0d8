//! The order of expiries: records of an expiry and a place in a hash table, the earliest first.
//!
//! An entry's exact expiry lies in the entry, where every access looks. This index only serves to find expired entries,
//! or count them, without looking at others: a shard has one for its keys and one for its collections with elements
//! that expire, and such a collection has one for these. A record is twelve bytes and holds no pointer, so it cannot
//! dangle: a caller that takes one out looks its position up in the table and checks the entries there.
//!
//! ```text
//!   0                    6                    12
//!   +--------------------+--------------------+
//!   | expiry, 48 bits    | position, 48 bits  |      milliseconds; the upper bits of the hash
//!   +--------------------+--------------------+
//! ```
//!
//! Records lie in a ranked tree, so that the number of records due by a moment costs as little as a lookup. Entries of
//! the same position and expiry (one chance in 2^48 for a pair) have a record each.

use crate::hashtable::position;
use crate::ranked_tree::RankedTree;

/// Expiry above, position below; the derived order has the earliest expiry first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    high: u32,
    middle: u32,
    low: u32,
}

/// The latest expiry that a record can hold, in Unix milliseconds: in the year 10889. A later one counts as this one.
pub const LATEST: u64 = (1 << 48) - 1;

/// Whether an expiry has passed at `now`: an entry lives up to its expiry and not through it.
pub(crate) fn is_due(expiry: Option<u64>, now: u64) -> bool {
    expiry.is_some_and(|at| at <= now)
}

impl Due {
    fn new(expiry: u64, hash: u64) -> Self {
        let expiry = expiry.min(LATEST);
        let position = position(hash);
        Due {
            high: (expiry >> 16) as u32,
            middle: (expiry as u32) << 16 | (position >> 32) as u32,
            low: position as u32,
        }
    }

    fn expiry(self) -> u64 {
        u64::from(self.high) << 16 | u64::from(self.middle >> 16)
    }

    fn position(self) -> u64 {
        u64::from(self.middle & 0xFFFF) << 32 | u64::from(self.low)
    }
}

/// Records of (expiry, position), ordered. Expiries are Unix times in milliseconds.
#[derive(Default)]
pub struct TtlIndex {
    due: RankedTree<Due>,
}

impl TtlIndex {
    /// Adds a record.
    pub fn insert(&mut self, expiry: u64, hash: u64) {
        self.due.insert(Due::new(expiry, hash), Due::cmp);
    }

    /// Removes a record, of which there must be one.
    pub fn remove(&mut self, expiry: u64, hash: u64) {
        let record = Due::new(expiry, hash);
        self.due.remove(|present| present.cmp(&record));
    }

    /// Moves a record from one expiry to another; either may be missing.
    pub fn change(&mut self, old: Option<u64>, new: Option<u64>, hash: u64) {
        if old == new {
            return;
        }
        if let Some(at) = old {
            self.remove(at, hash);
        }
        if let Some(at) = new {
            self.insert(at, hash);
        }
    }

    /// Returns the 48-bit position of the earliest record, if that is due at `now`.
    pub fn first_due(&self, now: u64) -> Option<u64> {
        self.due.first().filter(|first| is_due(Some(first.expiry()), now)).map(Due::position)
    }

    /// Takes out the earliest record that is due at `now` and returns its position.
    pub fn pop_due(&mut self, now: u64) -> Option<u64> {
        let position = self.first_due(now)?;
        self.due.pop_first();
        Some(position)
    }

    /// Returns the 48-bit position of the record of this rank, in O(log n).
    pub fn position_at(&self, rank: usize) -> Option<u64> {
        self.due.get(rank).map(Due::position)
    }

    /// Returns how many records are due at `now`, in O(log n).
    pub fn count_due(&self, now: u64) -> usize {
        self.due.lower_bound(|due| due.expiry().cmp(&now.saturating_add(1)))
    }

    /// Returns the earliest expiry.
    pub fn first(&self) -> Option<u64> {
        self.due.first().map(Due::expiry)
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.due.len()
    }

    /// Whether there are no records.
    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// Returns the mean time left of at most `sample` records at either end; an estimate.
    pub fn mean_left(&self, now: u64, sample: usize) -> Option<u64> {
        let ends = self.due.iter().take(sample).chain(self.due.iter().rev().take(sample));
        let (sum, count) = ends
            .fold((0u128, 0u128), |(sum, count), due| (sum + u128::from(due.expiry().saturating_sub(now)), count + 1));
        sum.checked_div(count).map(|mean| mean as u64)
    }

    /// Drops up to `max` records (at least one), to free a large index step by step; returns whether nothing is
    /// left.
    pub fn drain_step(&mut self, max: usize) -> bool {
        self.due.drain_step(max.max(1), |_| ())
    }

    /// Returns the bytes on the heap.
    pub fn memory_usage(&self) -> usize {
        self.due.memory_usage()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_come_out_by_expiry(records in proptest::collection::vec((0u64..1 << 50, any::<u64>()), 0..100)) {
            let mut index = TtlIndex::default();
            for (expiry, hash) in &records {
                index.insert(*expiry, *hash);
            }
            let mut model: Vec<_> = records.iter().map(|(d, h)| ((*d).min(LATEST), h >> 16)).collect();
            model.sort_unstable();
            prop_assert_eq!(index.len(), model.len());
            for (rank, (expiry, position)) in model.iter().enumerate() {
                let through = model[rank..].iter().filter(|record| record.0 == *expiry).count();
                prop_assert_eq!(index.first(), Some(*expiry));
                prop_assert_eq!(index.count_due(*expiry), through);
                if *expiry > 0 {
                    prop_assert_eq!(index.pop_due(expiry - 1), None);
                    prop_assert_eq!(index.count_due(expiry - 1), 0);
                }
                prop_assert_eq!(index.pop_due(*expiry), Some(*position));
            }
            prop_assert!(index.is_empty());
        }
    }

    #[test]
    fn a_removed_record_does_not_come_out() {
        let mut index = TtlIndex::default();
        index.insert(5, 1 << 40);
        index.insert(5, 2 << 40);
        index.insert(5, 2 << 40);
        index.remove(5, 1 << 40);
        index.change(Some(5), Some(7), 2 << 40);
        assert_eq!((index.position_at(0), index.position_at(2)), (Some(2 << 24), None));
        assert_eq!(index.pop_due(4), None);
        assert_eq!(index.pop_due(5), Some(2 << 24));
        assert_eq!((index.pop_due(5), index.mean_left(4, 9)), (None, Some(3)));
        index.change(Some(7), None, 2 << 40);
        assert!(index.drain_step(1) && index.mean_left(0, 9).is_none());
    }
}
