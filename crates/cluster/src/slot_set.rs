//! Sets of slots: parts of the keyspace.

use crate::SLOTS;
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, OnceLock};

/// Words of a set, each with 64 slots.
const WORDS: usize = SLOTS / 64;
/// Length of a set on the bus: a bit for each slot.
pub const BITMAP_LEN: usize = SLOTS / 8;

/// A set of slots, with a bit for each. Cheap to copy.
#[derive(Clone, PartialEq, Eq)]
pub struct SlotSet(Arc<[u64; WORDS]>);

impl std::fmt::Debug for SlotSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "SlotSet({} slots)", self.count(0..SLOTS))
    }
}

impl Default for SlotSet {
    fn default() -> SlotSet {
        SlotSet::none()
    }
}

impl SlotSet {
    /// Returns the empty set. All empty sets share their memory: most nodes own no slot.
    pub fn none() -> SlotSet {
        static NONE: OnceLock<SlotSet> = OnceLock::new();
        NONE.get_or_init(|| SlotSet(Arc::new([0; WORDS]))).clone()
    }

    /// Returns the set of all slots.
    pub fn all() -> SlotSet {
        SlotSet(Arc::new([u64::MAX; WORDS]))
    }

    /// Returns the set of these ranges.
    ///
    /// # Panics
    /// Panics if a slot does not exist.
    pub fn of(ranges: impl IntoIterator<Item = RangeInclusive<u16>>) -> SlotSet {
        let mut bits = [0; WORDS];
        for slot in ranges.into_iter().flatten() {
            bits[usize::from(slot) / 64] |= 1 << (slot % 64);
        }
        SlotSet(Arc::new(bits))
    }

    /// Reads a bitmap of the bus: the lowest bit of the first byte is slot 0.
    pub fn from_bitmap(bitmap: &[u8; BITMAP_LEN]) -> SlotSet {
        let mut bits = [0; WORDS];
        for (word, bytes) in bits.iter_mut().zip(bitmap.chunks_exact(8)) {
            *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        }
        if bits == [0; WORDS] { SlotSet::none() } else { SlotSet(Arc::new(bits)) }
    }

    /// Returns the bitmap of the bus.
    pub fn to_bitmap(&self) -> [u8; BITMAP_LEN] {
        let mut bitmap = [0; BITMAP_LEN];
        for (bytes, word) in bitmap.chunks_exact_mut(8).zip(self.0.iter()) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        bitmap
    }

    /// Returns whether the set has a slot.
    #[inline]
    pub fn contains(&self, slot: u16) -> bool {
        self.0.get(usize::from(slot) / 64).is_some_and(|bits| bits >> (slot % 64) & 1 != 0)
    }

    /// Adds a slot; returns whether it is new.
    pub fn insert(&mut self, slot: u16) -> bool {
        let is_new = usize::from(slot) < SLOTS && !self.contains(slot);
        if is_new {
            Arc::make_mut(&mut self.0)[usize::from(slot) / 64] |= 1 << (slot % 64);
        }
        is_new
    }

    /// Removes a slot; returns whether the set had it.
    pub fn remove(&mut self, slot: u16) -> bool {
        let was_there = self.contains(slot);
        if was_there {
            Arc::make_mut(&mut self.0)[usize::from(slot) / 64] &= !(1 << (slot % 64));
            if self.is_empty() {
                *self = SlotSet::none();
            }
        }
        was_there
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(|bits| *bits == 0)
    }

    /// Returns whether the set has all slots.
    pub fn is_all(&self) -> bool {
        self.0.iter().all(|bits| *bits == u64::MAX)
    }

    /// Returns how many slots the set has.
    pub fn len(&self) -> usize {
        self.0.iter().map(|bits| bits.count_ones() as usize).sum()
    }

    /// Returns how many of these slots the set has.
    pub fn count(&self, slots: Range<usize>) -> usize {
        slots.filter(|slot| self.contains(*slot as u16)).count()
    }

    /// Returns all slots, in order.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut rest = *word;
            std::iter::from_fn(move || {
                let bit = (rest != 0).then(|| rest.trailing_zeros())?;
                rest &= rest - 1;
                Some((at * 64) as u16 + bit as u16)
            })
        })
    }

    /// Returns all slots as ranges without gaps, in order.
    pub fn ranges(&self) -> Vec<RangeInclusive<u16>> {
        let mut ranges: Vec<RangeInclusive<u16>> = Vec::new();
        for slot in self.iter() {
            match ranges.last_mut() {
                Some(last) if *last.end() + 1 == slot => *last = *last.start()..=slot,
                _ => ranges.push(slot..=slot),
            }
        }
        ranges
    }

    /// Returns the slots of either set.
    #[must_use]
    pub fn union(&self, other: &SlotSet) -> SlotSet {
        SlotSet(Arc::new(std::array::from_fn(|at| self.0[at] | other.0[at])))
    }

    /// Returns the slots that the other set does not have.
    #[must_use]
    pub fn without(&self, other: &SlotSet) -> SlotSet {
        SlotSet(Arc::new(std::array::from_fn(|at| self.0[at] & !other.0[at])))
    }
}

impl FromIterator<u16> for SlotSet {
    fn from_iter<I: IntoIterator<Item = u16>>(slots: I) -> SlotSet {
        let mut set = SlotSet::none();
        slots.into_iter().for_each(|slot| _ = set.insert(slot));
        set
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

    #[test]
    fn bits_become_ranges() {
        let ranges = vec![0..=0, 3..=3, 60..=130, 16383..=16383];
        let some = SlotSet::of(ranges.clone());
        assert_eq!(some.ranges(), ranges);
        assert_eq!(some.iter().collect::<SlotSet>(), some);
        assert_eq!((some.len(), some.iter().count()), (74, 74));
        assert_eq!(SlotSet::all().ranges(), vec![0..=16383]);
    }

    #[test]
    fn slots_come_and_go() {
        let mut some = SlotSet::none();
        let copy = some.clone();
        assert!(some.insert(77) && !some.insert(77) && !some.insert(16384));
        assert!(some.contains(77) && !copy.contains(77));
        assert!(some.remove(77) && !some.remove(77) && !some.remove(16384));
        assert_eq!(some, SlotSet::none());
        let both = SlotSet::of([1..=3]).union(&SlotSet::of([3..=5]));
        assert_eq!(both.ranges(), vec![1..=5]);
        assert_eq!(both.without(&SlotSet::of([2..=4])).ranges(), vec![1..=1, 5..=5]);
    }

    #[test]
    fn a_bitmap_begins_with_the_lowest_bit() {
        let bitmap = SlotSet::of([0..=0, 9..=9, 16383..=16383]).to_bitmap();
        assert_eq!((bitmap[0], bitmap[1], bitmap[BITMAP_LEN - 1]), (1, 2, 0x80));
        assert_eq!(SlotSet::from_bitmap(&bitmap).ranges(), vec![0..=0, 9..=9, 16383..=16383]);
    }
}
