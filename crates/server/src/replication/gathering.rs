//! How often the stream goes out while it grows all the time.
//!
//! What is written after a rest goes to replicas at once. While writes come one after the other, each round that sends
//! some of them costs as much as the writes themselves: then they are let gather for a moment.

use engine::time::Nanos;
use std::time::Duration;

/// The least time between two rounds while writes come all the time, in nanoseconds.
const MOMENT: u64 = 500_000;

/// When rounds were that sent something.
#[derive(Default)]
pub(super) struct Gathering {
    last: Option<Nanos>,
    is_busy: bool,
}

impl Gathering {
    /// The stream has grown, and goes out now.
    pub fn note(&mut self, now: Nanos) {
        self.is_busy = self.last.is_some_and(|last| now.since(last) < 2 * MOMENT);
        self.last = Some(now);
    }

    /// How long it is to gather before it is looked at again.
    pub fn take_rest(&mut self) -> Option<Duration> {
        std::mem::take(&mut self.is_busy).then_some(Duration::from_nanos(MOMENT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_writes_that_come_one_after_the_other_gather() {
        let mut gathering = Gathering::default();
        let mut rests = Vec::new();
        for at in [5_000_000, 7_000_000, 7_200_000, 8_100_000, 9_900_000] {
            gathering.note(Nanos(at));
            rests.push(gathering.take_rest().is_some());
            assert_eq!(gathering.take_rest(), None, "a rest is taken once");
        }
        assert_eq!(rests, [false, false, true, true, false]);
    }
}
