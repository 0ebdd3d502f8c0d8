//! Jumps of the time: measurements are not trusted for a while after one.

use crate::model::effect::Millis;
use crate::model::periods::Periods;

/// State after a jump of time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tilt {
    since: Option<Millis>,
    total: u64,
    previous_tick: Millis,
}

impl Tilt {
    /// Returns the state before any jump.
    pub fn new(now: Millis) -> Tilt {
        Tilt { since: None, total: 0, previous_tick: now }
    }

    /// Takes this as the time of the last tick.
    pub fn restart(&mut self, now: Millis) {
        self.previous_tick = now;
    }

    /// Returns whether measurements are not trusted.
    pub fn is_on(&self) -> bool {
        self.since.is_some()
    }

    /// Returns the beginning of it.
    pub fn since(&self) -> Option<Millis> {
        self.since
    }

    /// Returns the number of jumps.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Takes the time of a tick. Returns whether the time has jumped.
    pub fn tick(&mut self, now: Millis, periods: &Periods) -> bool {
        let passed = now - self.previous_tick;
        self.previous_tick = now;
        let has_jumped = passed < 0 || passed > periods.tilt_trigger;
        if has_jumped {
            self.since = Some(now);
            self.total += 1;
        }
        has_jumped
    }

    /// Ends it after its time. Returns whether it has ended now.
    pub fn end_when_over(&mut self, now: Millis, periods: &Periods) -> bool {
        let is_over = self.since.is_some_and(|since| now - since >= periods.tilt);
        if is_over {
            self.since = None;
        }
        is_over
    }
}
