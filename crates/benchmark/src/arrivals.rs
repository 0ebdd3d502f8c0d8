//! When requests of an open loop are due: at even distances from the start, whatever the server does meanwhile.
//!
//! An open loop is load as independent users make it. They do not wait for one another's replies, so requests that are
//! due during a stall of the server queue up, and each of them waits from the moment at which it was due. A loop that
//! waits for replies sends fewer requests just when the server is slow, and so measures only the load that the server
//! was ready for (coordinated omission).
//!
//! Here is no clock and no socket: moments are passed in as time since the start. Requests are numbered over all
//! threads, and each thread takes every n-th of them. Requests that are due and could not be sent are a range of
//! numbers, so a backlog takes no memory, and the due moments are computed from the numbers, so that no error adds up.

use crate::options::Extent;
use std::time::Duration;

/// One thread's requests.
#[derive(Debug)]
pub struct Arrivals {
    /// Requests a second, of all threads together.
    rate: u64,
    next: u64,
    threads: u64,
    /// Number of the first request that is not sent any more.
    end: u64,
}

impl Arrivals {
    /// Returns the requests of `thread` of `threads`; those of the warm-up are added to the extent.
    pub fn new(rate: u64, (thread, threads): (usize, usize), warmup: Duration, extent: Extent) -> Arrivals {
        let before = count_within(rate, warmup);
        let end = match extent {
            Extent::Requests(count) => before.saturating_add(count),
            Extent::Duration(duration) => count_within(rate, warmup.saturating_add(duration)),
        };
        Arrivals { rate: rate.max(1), next: thread as u64, threads: threads.max(1) as u64, end }
    }

    /// Returns when the next request is due; None after the last.
    pub fn next_due(&self) -> Option<Duration> {
        (self.next < self.end).then(|| due(self.rate, self.next))
    }

    /// Takes the next request if it is due `now`; returns the time since when it is.
    pub fn take(&mut self, now: Duration) -> Option<Duration> {
        let due = self.next_due().filter(|due| *due <= now)?;
        self.next = self.next.saturating_add(self.threads);
        Some(due)
    }
}

fn due(rate: u64, number: u64) -> Duration {
    let nanos = u128::from(number) * 1_000_000_000 / u128::from(rate);
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

/// Returns the number of requests that are due before `end`.
fn count_within(rate: u64, end: Duration) -> u64 {
    let count = u128::from(rate).saturating_mul(end.as_nanos()).div_ceil(1_000_000_000);
    u64::try_from(count).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn taken(arrivals: &mut Arrivals, now: Duration) -> Vec<u128> {
        std::iter::from_fn(|| arrivals.take(now)).map(|due| due.as_micros()).collect()
    }

    #[test]
    fn requests_are_due_at_even_distances() {
        let mut arrivals = Arrivals::new(1000, (0, 1), Duration::ZERO, Extent::Requests(5));
        assert_eq!(taken(&mut arrivals, Duration::ZERO), [0]);
        assert_eq!(taken(&mut arrivals, Duration::from_micros(999)), [] as [u128; 0]);
        assert_eq!(arrivals.next_due(), Some(Duration::from_millis(1)));
        assert_eq!(taken(&mut arrivals, Duration::from_millis(1)), [1000]);
        // A stalled thread gets them late, with the moments at which they were due.
        assert_eq!(taken(&mut arrivals, SECOND), [2000, 3000, 4000]);
        assert_eq!((arrivals.next_due(), arrivals.take(SECOND)), (None, None));
    }

    #[test]
    fn threads_share_the_requests() {
        let all = |extent, warmup| {
            let of = |thread| taken(&mut Arrivals::new(10, (thread, 3), warmup, extent), 100 * SECOND);
            let mut all: Vec<u128> = (0..3).flat_map(of).collect();
            all.sort_unstable();
            all
        };
        let tenths = |count: u128| (0..count).map(|n| n * 100_000).collect::<Vec<_>>();
        assert_eq!(all(Extent::Requests(7), Duration::ZERO), tenths(7));
        assert_eq!(all(Extent::Requests(7), SECOND), tenths(17));
        assert_eq!(all(Extent::Duration(2 * SECOND), SECOND), tenths(30));
    }

    #[test]
    fn no_rate_is_too_high_and_no_run_too_long() {
        let mut arrivals = Arrivals::new(u64::MAX, (1, 2), SECOND, Extent::Requests(u64::MAX));
        assert_eq!(arrivals.take(SECOND), Some(Duration::ZERO));
        let mut slow = Arrivals::new(1, (0, 1), Duration::ZERO, Extent::Duration(Duration::MAX));
        slow.next = u64::MAX - 1;
        assert!(slow.next_due().is_some() && slow.take(Duration::MAX).is_some() && slow.next_due().is_none());
    }

    #[test]
    fn thirds_of_a_second_do_not_drift() {
        let mut arrivals = Arrivals::new(3, (0, 1), Duration::ZERO, Extent::Requests(3_000_001));
        let last = std::iter::from_fn(|| arrivals.take(2_000_000 * SECOND)).last();
        assert_eq!(last, Some(1_000_000 * SECOND));
    }
}
