//! Ranges of slots as clients name them: in their order, inclusive.

use crate::slot_set::SlotSet;
use std::fmt;

/// Ranges that do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotRanges(pub Vec<(u16, u16)>);

impl SlotRanges {
    /// Returns whether a range has the slot.
    pub fn contains(&self, slot: u16) -> bool {
        self.0.iter().any(|(start, end)| (*start..=*end).contains(&slot))
    }

    /// Returns all slots of the ranges.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        self.0.iter().flat_map(|(start, end)| *start..=*end)
    }

    /// Returns the first range that has a slot in common with that one.
    pub fn overlapping(&self, range: (u16, u16)) -> Option<(u16, u16)> {
        self.0.iter().copied().find(|(start, end)| range.1 >= *start && range.0 <= *end)
    }

    /// Returns the slots as a set, without the order.
    pub fn to_set(&self) -> SlotSet {
        SlotSet::of(self.0.iter().map(|(start, end)| *start..=*end))
    }
}

impl fmt::Display for SlotRanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (start, end)) in self.0.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(f, "{space}{start}-{end}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_shown_in_their_order() {
        let ranges = SlotRanges(vec![(7, 9), (0, 0)]);
        assert_eq!(ranges.to_string(), "7-9 0-0");
        assert!(ranges.contains(8) && ranges.contains(0) && !ranges.contains(1));
        assert_eq!(ranges.overlapping((3, 7)), Some((7, 9)));
        assert_eq!((ranges.overlapping((1, 6)), ranges.iter().count()), (None, 4));
        assert_eq!(ranges.to_set(), SlotSet::of([0..=0, 7..=9]));
    }
}
