//! The part of the stream that the own log has on the disk, by lengths of the log that are remembered.

use std::collections::VecDeque;

/// Places of the stream whose durability is not known yet, at most.
const MARKS: usize = 1024;

/// See the module's documentation.
pub struct DurableMarks {
    /// Offsets of the stream, each with the log's length then.
    marks: VecDeque<(u64, u64)>,
    durable: u64,
}

impl DurableMarks {
    /// Begins where the stream does: the own log has the present data set.
    pub fn new(offset: u64, length: u64) -> DurableMarks {
        DurableMarks { marks: VecDeque::from([(offset, length)]), durable: 0 }
    }

    /// Records that the log has the stream up to `offset` at this length. A log that has not begun yet begins with all
    /// of it.
    pub fn note(&mut self, offset: u64, length: u64) {
        let is_as_long = self.marks.back().is_some_and(|(_, last)| *last == length);
        if is_as_long || self.marks.len() == MARKS {
            // The places between are known less exactly.
            self.marks.pop_back();
        }
        self.marks.push_back((offset, length));
    }

    /// Returns whether the stream has a place that a log which is saved up to `synced` lacks.
    pub fn lacks(&self, synced: u64) -> bool {
        self.marks.back().is_some_and(|(_, length)| *length > synced)
    }

    /// Returns the offset up to which the stream is on the disk, if the log is saved up to `synced`.
    pub fn advance(&mut self, synced: u64) -> u64 {
        while self.marks.front().is_some_and(|(_, length)| *length <= synced) {
            self.durable = self.marks.pop_front().map_or(self.durable, |(offset, _)| offset);
        }
        self.durable
    }

    /// Returns the offset that was known last.
    pub fn known(&self) -> u64 {
        self.durable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_place_of_the_stream_is_known_however_many_there_were() {
        let mut marks = DurableMarks::new(100, 10);
        assert_eq!((marks.known(), marks.advance(9), marks.advance(10)), (0, 0, 100));
        (1..=2 * MARKS as u64).for_each(|n| marks.note(100 + n, 10 + n));
        assert!(marks.lacks(10 + MARKS as u64) && !marks.lacks(10 + 2 * MARKS as u64));
        assert_eq!(marks.advance(15), 105);
        assert_eq!(marks.advance(10 + 2 * MARKS as u64), 100 + 2 * MARKS as u64);
    }

    #[test]
    fn places_where_the_log_did_not_grow_are_one() {
        let mut marks = DurableMarks::new(100, 10);
        (1..=2 * MARKS as u64).for_each(|n| marks.note(100 + n, 10));
        marks.note(5000, 11);
        assert_eq!((marks.marks.len(), marks.advance(10), marks.advance(11)), (2, 100 + 2 * MARKS as u64, 5000));
    }
}
