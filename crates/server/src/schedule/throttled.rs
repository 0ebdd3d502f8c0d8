//! Connections whose users have used up their quota for now, and the times at which they resume.

use engine::time::{SteadyMs, SteadyUs};
use std::collections::BTreeSet;

/// A worker's connections, by their times. At equal times the connection that has come first resumes first.
#[derive(Debug, Default)]
pub struct Throttled {
    waiting: BTreeSet<(SteadyUs, u64, usize)>,
    arrivals: u64,
}

impl Throttled {
    /// Makes the connection resume at this time.
    pub fn add(&mut self, token: usize, until: SteadyUs) {
        self.arrivals += 1;
        self.waiting.insert((until, self.arrivals, token));
    }

    /// Returns the time at which the first connection resumes.
    pub fn next(&self) -> Option<SteadyMs> {
        // The timer must not be early.
        self.waiting.first().map(|(until, ..)| until.ms().after(1))
    }

    /// Takes a connection whose time has come.
    pub fn take_due(&mut self, now: SteadyUs) -> Option<usize> {
        let first = self.waiting.first().copied().filter(|(until, ..)| *until <= now)?;
        self.waiting.remove(&first);
        Some(first.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_resume_at_their_times_and_in_their_order() {
        let mut throttled = Throttled::default();
        assert_eq!((throttled.next(), throttled.take_due(SteadyUs(i64::MAX))), (None, None));
        for (token, until) in [(7, 2500), (3, 1000), (9, 2500), (1, 2500), (3, 900)] {
            throttled.add(token, SteadyUs(until));
        }
        assert_eq!((throttled.next(), throttled.take_due(SteadyUs(899))), (Some(SteadyMs(1)), None));
        assert_eq!([(); 2].map(|()| throttled.take_due(SteadyUs(1000))), [Some(3), Some(3)]);
        assert_eq!((throttled.next(), throttled.take_due(SteadyUs(2499))), (Some(SteadyMs(3)), None));
        assert_eq!([(); 4].map(|()| throttled.take_due(SteadyUs(2500))), [Some(7), Some(9), Some(1), None]);
    }
}
