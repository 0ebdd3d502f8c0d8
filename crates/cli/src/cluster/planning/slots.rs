//! A set of slots, and its text: `0-5460 7` by nodes, `[0-5460],[7]` for people.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;

/// Number of slots of a cluster.
pub const SLOTS: u16 = 16384;

/// A set of slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slots(BTreeSet<u16>);

impl Slots {
    pub fn of(ranges: &[RangeInclusive<u16>]) -> Slots {
        Slots(ranges.iter().cloned().flatten().collect())
    }

    pub fn contains(&self, slot: u16) -> bool {
        self.0.contains(&slot)
    }

    pub fn insert(&mut self, slot: u16) {
        self.0.insert(slot);
    }

    pub fn remove(&mut self, slot: u16) {
        self.0.remove(&slot);
    }

    pub fn extend(&mut self, slots: impl IntoIterator<Item = u16>) {
        self.0.extend(slots);
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Iterates from the lowest to the highest.
    pub fn iter(&self) -> impl Iterator<Item = u16> {
        self.0.iter().copied()
    }

    /// Returns the lowest `count` slots, as ranges.
    pub fn first_ranges(&self, count: usize) -> Vec<RangeInclusive<u16>> {
        let mut ranges: Vec<RangeInclusive<u16>> = Vec::new();
        for slot in self.iter().take(count) {
            match ranges.last_mut() {
                Some(last) if last.end() + 1 == slot => *last = *last.start()..=slot,
                _ => ranges.push(slot..=slot),
            }
        }
        ranges
    }

    pub fn ranges(&self) -> Vec<RangeInclusive<u16>> {
        self.first_ranges(self.len())
    }
}

impl FromIterator<u16> for Slots {
    fn from_iter<I: IntoIterator<Item = u16>>(slots: I) -> Slots {
        Slots(slots.into_iter().collect())
    }
}

/// `[0-5460],[7]`
impl fmt::Display for Slots {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, range) in self.ranges().iter().enumerate() {
            let comma = if at == 0 { "" } else { "," };
            match (range.start(), range.end()) {
                (first, last) if first == last => write!(f, "{comma}[{first}]")?,
                (first, last) => write!(f, "{comma}[{first}-{last}]")?,
            }
        }
        Ok(())
    }
}

/// Reads the range that a node writes as `0-5460` or `7`.
pub fn read_range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let slot = |text: &str| text.parse().ok().filter(|slot| *slot < SLOTS);
    Some(slot(first)?..=slot(last)?)
}

/// Returns `0-5460 7-7`, as plans and CLUSTER GETSLOTMIGRATIONS write ranges.
pub fn ranges_text(ranges: &[RangeInclusive<u16>]) -> String {
    let texts: Vec<_> = ranges.iter().map(|range| format!("{}-{}", range.start(), range.end())).collect();
    texts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_are_shown_as_ranges() {
        let slots = Slots::of(&[0..=2, 7..=7, 16380..=16383]);
        assert_eq!(slots.to_string(), "[0-2],[7],[16380-16383]");
        assert_eq!(ranges_text(&slots.ranges()), "0-2 7-7 16380-16383");
        assert_eq!(slots.first_ranges(4), [0..=2, 7..=7]);
        assert_eq!((slots.len(), Slots::default().to_string()), (8, String::new()));
    }

    #[test]
    fn ranges_are_read() {
        assert_eq!(read_range("0-5460"), Some(0..=5460));
        assert_eq!(read_range("7"), Some(7..=7));
        for text in ["", "x", "1-", "-1", "0-16384", "[1->-x]"] {
            assert_eq!(read_range(text), None, "{text}");
        }
    }
}
