//! A worker's periodic work: when it is due, and how long the worker may sleep until then.

use engine::time::{Nanos, SteadyMs, UnixMs};
use std::time::Duration;

/// Milliseconds between two looks for idle connections.
const IDLE_CHECK: i64 = 500;
/// Least milliseconds that count as a set of the time of day: clocks are adjusted by less.
const CLOCK_STEP: i64 = 1000;

/// Times at which background work is due.
#[derive(Debug, Default)]
pub struct Timers {
    next: SteadyMs,
    next_idle_check: SteadyMs,
    /// Lead of the time of day over the clock that never goes back, when it was looked at last.
    ahead: Option<i64>,
    /// Whether more keys have expired than were removed at once.
    expires_more: bool,
}

impl Timers {
    /// Returns whether the timers are due. Then the next time is in `interval` milliseconds.
    pub fn take_due(&mut self, now: SteadyMs, interval: i64) -> bool {
        let is_due = now >= self.next;
        if is_due {
            self.next = now.after(interval);
        }
        is_due
    }

    /// Returns the milliseconds by which the time of day was set since the last call; 0 if it went as time goes.
    pub fn clock_step(&mut self, today: UnixMs, now: SteadyMs) -> i64 {
        let ahead = today.0.saturating_sub(now.0);
        let step = ahead.saturating_sub(self.ahead.replace(ahead).unwrap_or(ahead));
        if step.saturating_abs() < CLOCK_STEP { 0 } else { step }
    }

    /// Returns whether to look for idle connections. Then the next time is set.
    pub fn take_idle_check(&mut self, now: SteadyMs) -> bool {
        let is_due = now >= self.next_idle_check;
        if is_due {
            self.next_idle_check = now.after(IDLE_CHECK);
        }
        is_due
    }

    /// Returns whether to look for keys that have expired: the timers are due, or the last look left some.
    pub fn expires(&self, now: SteadyMs) -> bool {
        self.expires_more || now >= self.next
    }

    /// Returns whether background work was left over for the next tick.
    pub fn expires_more(&self) -> bool {
        self.expires_more
    }

    /// Sets whether background work is left over.
    pub fn set_expires_more(&mut self, more: bool) {
        self.expires_more = more;
    }

    /// Returns how long to sleep when there is nothing to do: until the timers are due or the earliest of `others`, and
    /// at most `most_us` microseconds.
    pub fn sleep(&self, now: Nanos, others: [Option<SteadyMs>; 4], most_us: i64) -> Duration {
        let until = others.into_iter().flatten().fold(self.next, SteadyMs::min);
        let left = until.0.saturating_mul(1000).saturating_sub((now.0 / 1000).cast_signed());
        Duration::from_micros(left.clamp(0, most_us) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timers_are_due_once_an_interval() {
        let mut timers = Timers::default();
        assert!(timers.expires(SteadyMs(1000)) && timers.take_due(SteadyMs(1000), 50), "at first all is due");
        assert!(!timers.expires(SteadyMs(1049)) && !timers.take_due(SteadyMs(1049), 50));
        assert!(
            timers.take_due(SteadyMs(1051), 10)
                && !timers.take_due(SteadyMs(1060), 10)
                && timers.take_due(SteadyMs(1061), 10)
        );
        assert!(
            timers.take_idle_check(SteadyMs(1061))
                && !timers.take_idle_check(SteadyMs(1560))
                && timers.take_idle_check(SteadyMs(1561))
        );
    }

    #[test]
    fn a_clock_that_is_set_is_noticed_once() {
        let mut timers = Timers::default();
        let mut step = |today, now| timers.clock_step(UnixMs(today), SteadyMs(now));
        assert_eq!((step(1_000_000, 10), step(1_000_500, 20), step(1_000_510, 30)), (0, 0, 0));
        assert_eq!((step(0, 40), step(10, 50)), (-1_000_520, 0));
        assert_eq!((step(5010, 60), step(5020, 70)), (4990, 0));
    }

    #[test]
    fn expiry_goes_on_until_nothing_is_left() {
        let mut timers = Timers::default();
        assert!(timers.take_due(SteadyMs(1000), 50) && !timers.expires(SteadyMs(1001)));
        timers.set_expires_more(true);
        assert!(timers.expires(SteadyMs(1001)) && timers.expires_more());
        timers.set_expires_more(false);
        assert!(!timers.expires(SteadyMs(1001)));
    }

    #[test]
    fn sleeps_until_the_first_thing_is_due() {
        let mut timers = Timers::default();
        timers.take_due(SteadyMs(1000), 50);
        let sleep = |us: u64, [first, second]: [Option<i64>; 2], most_us| {
            timers
                .sleep(Nanos(us * 1000), [first, None, second, None].map(|other| other.map(SteadyMs)), most_us)
                .as_micros()
        };
        assert_eq!(sleep(1_000_300, [None, None], 100_000), 49_700);
        assert_eq!(sleep(1_000_300, [Some(1010), None], 100_000), 9_700);
        assert_eq!(sleep(1_000_300, [Some(1010), Some(1002)], 100_000), 1_700);
        assert_eq!(sleep(1_000_300, [Some(2000), None], 500), 500);
        assert_eq!(sleep(1_050_300, [Some(i64::MAX), Some(i64::MIN)], 500), 0);
    }
}
