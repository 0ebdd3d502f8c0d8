//! Words of a primary to its replicas about slots, in the stream, so that they arrive in order with its keys.
//!
//! ```text
//!   primary:  new map in force - "slots left 7-9" - UNLINK of their keys . . . . "slots came 7-9"
//!   replica:                     reads are sent on from here on                  and are answered again
//! ```
//!
//! A replica may learn from the bus a good while later that its primary has lost slots. By then their keys may be gone
//! here, and a client that reads from replicas would find nothing. A word is the argument of a PING, which other
//! servers ignore.

use cluster::slot_set::SlotSet;
use engine::Engine;
use engine::data::slot::SLOTS;
use std::ops::RangeInclusive;

const LEFT: &str = "slots left ";
const CAME: &str = "slots came ";

/// See the module's documentation.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SlotsWord {
    /// Their keys are removed from here on.
    Left(SlotSet),
    /// Their keys have arrived.
    LinkEvent(SlotSet),
}

impl SlotsWord {
    /// Returns the word that this text is; None if it is none.
    pub fn parse(text: &[u8]) -> Option<SlotsWord> {
        let text = std::str::from_utf8(text).ok()?;
        let (kind, ranges): (fn(SlotSet) -> SlotsWord, _) = match text.strip_prefix(LEFT) {
            Some(ranges) => (SlotsWord::Left, ranges),
            None => (SlotsWord::LinkEvent, text.strip_prefix(CAME)?),
        };
        let ranges: Option<Vec<RangeInclusive<u16>>> = ranges.split(',').map(range).collect();
        Some(kind(SlotSet::of(ranges?)))
    }

    /// Returns the word as it goes over the wire.
    pub fn to_text(&self) -> String {
        let (kind, slots) = match self {
            SlotsWord::Left(slots) => (LEFT, slots),
            SlotsWord::LinkEvent(slots) => (CAME, slots),
        };
        let ranges = slots.ranges().into_iter().map(|range| format!("{}-{}", range.start(), range.end()));
        format!("{kind}{}", ranges.collect::<Vec<_>>().join(","))
    }

    /// Makes a replica admit reads by the word from now on.
    pub fn take(&self, engine: &Engine) {
        match self {
            SlotsWord::Left(slots) => engine.change_left_slots(|left| *left = left.union(slots)),
            SlotsWord::LinkEvent(slots) => engine.change_left_slots(|left| *left = left.without(slots)),
        }
    }
}

fn range(text: &str) -> Option<RangeInclusive<u16>> {
    let (first, last) = text.split_once('-')?;
    let (first, last): (u16, u16) = (first.parse().ok()?, last.parse().ok()?);
    (first <= last && usize::from(last) < SLOTS).then_some(first..=last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_read_as_it_was_said() {
        for word in [SlotsWord::Left(SlotSet::of([0..=0, 7..=16383])), SlotsWord::LinkEvent(SlotSet::of([5..=6]))] {
            assert_eq!(SlotsWord::parse(word.to_text().as_bytes()), Some(word));
        }
        for other in ["", "slots left", "slots left ", "slots left 1", "slots left 2-1", "slots left 0-16384", "x 1-2"]
        {
            assert_eq!(SlotsWord::parse(other.as_bytes()), None, "{other}");
        }
        assert_eq!(SlotsWord::parse(b"slots left \xff"), None);
    }
}
