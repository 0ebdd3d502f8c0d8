//! Sets of slots: which part of the keyspace something is about.

use crate::SLOTS;
use std::ops::{Range, RangeInclusive};
use std::sync::Arc;

/// Some of the slots, by a bit each. Cheap to copy.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet(Arc<[u64; SLOTS / 64]>);

impl std::fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SlotSet({} slots)", self.count(0..SLOTS))
    }
}

impl SlotSet {
    /// All slots.
    pub fn all() -> SlotSet {
        SlotSet(Arc::new([u64::MAX; SLOTS / 64]))
    }

    /// Those of these ranges.
    ///
    /// # Panics
    /// When there is no such slot.
    pub fn of(ranges: impl IntoIterator<Item = RangeInclusive<u16>>) -> SlotSet {
        let mut bits = [0; SLOTS / 64];
        for slot in ranges.into_iter().flatten() {
            bits[usize::from(slot) / 64] |= 1 << (slot % 64);
        }
        SlotSet(Arc::new(bits))
    }

    /// Whether a slot is among them.
    #[inline]
    pub fn contains(&self, slot: u16) -> bool {
        self.0.get(usize::from(slot) / 64).is_some_and(|bits| bits >> (slot % 64) & 1 != 0)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|bits| *bits == 0)
    }

    /// Whether these are all slots.
    pub fn is_all(&self) -> bool {
        self.0.iter().all(|bits| *bits == u64::MAX)
    }

    /// How many of these slots are among them.
    pub fn count(&self, slots: Range<usize>) -> usize {
        slots.filter(|slot| self.contains(*slot as u16)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_become_bits() {
        let some = SlotSet::of([3..=3, 60..=130, 16383..=16383]);
        for slot in 0..SLOTS as u16 {
            assert_eq!(some.contains(slot), slot == 3 || (60..=130).contains(&slot) || slot == 16383, "{slot}");
        }
        assert_eq!((some.count(0..SLOTS), some.count(64..128), some.count(131..16383)), (73, 64, 0));
        assert!(!some.contains(16384) && !some.is_all() && !some.is_empty());
        assert!(SlotSet::all().is_all() && SlotSet::of([0..=16383]) == SlotSet::all());
        assert!(SlotSet::of([]).is_empty());
    }
}
