//! Offsets of the change log, and the offsets of the stream that belong to them.
//!
//! ```text
//!   change log   ......|..........|......|             lengths of text
//!   stream       ........|...........|.......|         the same with SELECT, MULTI, EXEC, PING
//!                        marks
//! ```
//!
//! A replica acknowledges the stream, a client waits for the log. An offset between two marks counts as the earlier
//! mark: never as more than the replica has.

use std::collections::VecDeque;

/// Greatest number of marks; beyond it every second mark is dropped.
const MARKS_MAX: usize = 1 << 16;

/// Pairs of offsets that belong together.
#[derive(Debug, Default)]
pub struct Marks {
    /// Lengths of the log and of the stream, ascending.
    marks: VecDeque<(u64, u64)>,
}

impl Marks {
    /// Records that the log up to one offset is in the stream up to another.
    pub fn note(&mut self, log: u64, stream: u64) {
        match self.marks.back_mut() {
            Some(last) if last.0 == log => return,
            Some(last) if last.1 == stream => {
                last.0 = log;
                return;
            }
            _ => {}
        }
        self.marks.push_back((log, stream));
        if self.marks.len() > MARKS_MAX {
            // The last mark is retained: a client may wait for it.
            let mut left = self.marks.len();
            self.marks.retain(|_| {
                left -= 1;
                left.is_multiple_of(2)
            });
        }
    }

    /// Returns the length of the log that a replica has with this much of the stream; 0 if that is unknown.
    pub fn log_at(&self, stream: u64) -> u64 {
        let after = self.marks.partition_point(|mark| mark.1 <= stream);
        after.checked_sub(1).and_then(|last| self.marks.get(last)).map_or(0, |mark| mark.0)
    }

    /// Drops marks below this offset of the stream: no later call asks for less.
    pub fn trim(&mut self, stream: u64) {
        while self.marks.get(1).is_some_and(|second| second.1 <= stream) {
            self.marks.pop_front();
        }
    }

    /// Drops all marks: the stream is another one.
    pub fn clear(&mut self) {
        self.marks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_acknowledgement_counts_for_no_more_than_is_known() {
        let mut marks = Marks::default();
        assert_eq!(marks.log_at(u64::MAX), 0);
        [(10, 100), (20, 150), (20, 170), (30, 200)].into_iter().for_each(|(log, stream)| marks.note(log, stream));
        let at = |marks: &Marks, stream| marks.log_at(stream);
        assert_eq!([99, 100, 149, 150, 199, 200, 999].map(|stream| at(&marks, stream)), [0, 10, 10, 20, 20, 30, 30]);
        marks.trim(160);
        assert_eq!([149, 160, 200].map(|stream| at(&marks, stream)), [0, 20, 30]);
    }

    #[test]
    fn too_many_marks_are_thinned_out() {
        let mut marks = Marks::default();
        for n in 1..=3 * MARKS_MAX as u64 {
            marks.note(n, 2 * n);
            assert_eq!(marks.log_at(u64::MAX), n, "the last mark stays");
        }
        assert!(marks.marks.len() <= MARKS_MAX);
        assert!(marks.log_at(1000) <= 500);
    }
}
