//! Which keys of a shard run out, in the order of their deadlines.
//!
//! A key's exact deadline lies in its entry, where every access looks. This index only serves the
//! background, which must find what is due without looking at what is not. A record is twelve bytes:
//! the deadline in milliseconds (48 bits) and the key's position in the table (48 bits), no pointer, so
//! it cannot dangle: whoever pops a record looks the position up and asks the entries there.
//!
//! Two keys of the same position and the same deadline share a record (one chance in 2^48 for a pair);
//! should one of them be removed by hand, the other goes at its next access instead of by itself.

use std::collections::BTreeSet;

/// Deadline above, position below; the derived order is the order of deadlines.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    high: u32,
    middle: u32,
    low: u32,
}

const LATEST: u64 = (1 << 48) - 1;

impl Due {
    /// Deadlines after the year 10889 count as that: far enough for a background index.
    fn new(deadline: u64, local_hash: u64) -> Self {
        let deadline = deadline.min(LATEST);
        let position = local_hash >> 16;
        Due {
            high: (deadline >> 16) as u32,
            middle: (deadline as u32) << 16 | (position >> 32) as u32,
            low: position as u32,
        }
    }

    fn deadline(self) -> u64 {
        u64::from(self.high) << 16 | u64::from(self.middle >> 16)
    }

    fn position(self) -> u64 {
        u64::from(self.middle & 0xFFFF) << 32 | u64::from(self.low)
    }
}

/// Records of (deadline, position), ordered.
#[derive(Default)]
pub struct ExpiryIndex {
    due: BTreeSet<Due>,
}

impl ExpiryIndex {
    pub fn insert(&mut self, deadline: u64, local_hash: u64) {
        self.due.insert(Due::new(deadline, local_hash));
    }

    pub fn remove(&mut self, deadline: u64, local_hash: u64) {
        self.due.remove(&Due::new(deadline, local_hash));
    }

    /// Takes out the earliest record that is due at `now` and returns its 48-bit position.
    pub fn pop_due(&mut self, now: u64) -> Option<u64> {
        let first = *self.due.first()?;
        if first.deadline() > now {
            return None;
        }
        self.due.pop_first();
        Some(first.position())
    }

    /// The earliest deadline, in milliseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        self.due.first().map(|due| due.deadline())
    }

    pub fn len(&self) -> usize {
        self.due.len()
    }

    pub fn is_empty(&self) -> bool {
        self.due.is_empty()
    }

    /// The mean time left of at most `sample` records at either end, in milliseconds; an estimate for INFO.
    pub fn mean_left(&self, now: u64, sample: usize) -> Option<u64> {
        let ends = self.due.iter().take(sample).chain(self.due.iter().rev().take(sample));
        let (sum, count) = ends.fold((0u128, 0u128), |(sum, count), due| {
            (sum + u128::from(due.deadline().saturating_sub(now)), count + 1)
        });
        (count > 0).then(|| (sum / count) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_come_out_by_deadline(records in proptest::collection::vec((0u64..1 << 50, any::<u64>()), 0..100)) {
            let mut index = ExpiryIndex::default();
            for (deadline, hash) in &records {
                index.insert(*deadline, *hash);
            }
            let mut model: Vec<_> = records.iter().map(|(d, h)| ((*d).min(LATEST), h >> 16)).collect();
            model.sort_unstable();
            model.dedup();
            prop_assert_eq!(index.len(), model.len());
            for (deadline, position) in model {
                prop_assert_eq!(index.next_deadline(), Some(deadline));
                prop_assert_eq!(index.pop_due(deadline.wrapping_sub(1).min(deadline)), if deadline == 0 { Some(position) } else { None });
                if deadline != 0 {
                    prop_assert_eq!(index.pop_due(deadline), Some(position));
                }
            }
            prop_assert!(index.is_empty());
        }
    }

    #[test]
    fn a_removed_record_does_not_come_out() {
        let mut index = ExpiryIndex::default();
        index.insert(5, 1 << 40);
        index.insert(5, 2 << 40);
        index.remove(5, 1 << 40);
        assert_eq!(index.pop_due(4), None);
        assert_eq!(index.pop_due(5), Some(2 << 24));
        assert_eq!(index.pop_due(5), None);
    }
}
