//! When a worker lets work gather before it looks for more.
//!
//! A tick for one connection costs about as much for itself (the wait for events, two wake-ups) as for what was asked
//! for. A network card has the same trouble with interrupts, and moderates them: while much comes in, it waits some
//! microseconds for more. So does a worker, as long as many connections ask for something so often that several more
//! come in [`PAUSE`]. One client or a few never wait, and a worker that has enough to do looks at once.

use std::num::NonZeroU64;
use std::time::Duration;

/// How long it waits.
const PAUSE: Duration = Duration::from_micros(50);
/// How much later than asked for the kernel may wake the worker, in nanoseconds. It would be 50,000.
const SLACK: u64 = 1_000;
/// Milliseconds over which visits of connections are counted, for the next as many.
const PERIOD: i64 = 4;
/// Visits in a period from which on it waits: two and more come in a pause.
const VISITS: usize = 64 * PERIOD as usize;
/// The same of connections, each counted once a millisecond: of a few, all would soon wait for the worker.
const ACTIVE: usize = 20 * PERIOD as usize;
/// Visits in one tick that are enough for one.
const ENOUGH: usize = 16;

#[derive(Default)]
pub struct Coalescer {
    /// The period that is counted, by its number since 1970.
    period: i64,
    visits: usize,
    active: usize,
    in_tick: usize,
    is_on: bool,
    waits: bool,
}

impl Coalescer {
    /// For the thread that calls this.
    pub fn of_this_thread() -> Coalescer {
        // Without it pauses are longer, no more.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(SLACK));
        Coalescer::default()
    }

    /// A connection was served that had sent something, `is_first`: for the first time in this millisecond.
    pub fn count_visit(&mut self, is_first: bool) {
        self.in_tick += 1;
        self.active += usize::from(is_first);
    }

    /// A tick is over. `now`: when it began, Unix time in milliseconds.
    pub fn end_tick(&mut self, now: i64) {
        let in_tick = std::mem::take(&mut self.in_tick);
        self.visits += in_tick;
        let period = now / PERIOD;
        if period != self.period {
            self.is_on = period == self.period + 1 && self.visits >= VISITS && self.active >= ACTIVE;
            (self.period, self.visits, self.active) = (period, 0, 0);
        }
        self.waits = self.is_on && in_tick < ENOUGH;
    }

    /// Lets work gather, if it is worth that.
    pub fn pause(&self) {
        if self.waits {
            std::thread::sleep(PAUSE);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ticks of `visits` each for `millis` milliseconds, so many a millisecond. Returns in how many of them it waits.
    fn waits(
        coalescer: &mut Coalescer,
        millis: std::ops::Range<i64>,
        ticks: usize,
        visits: usize,
        clients: usize,
    ) -> usize {
        let mut waits = 0;
        for now in millis {
            let mut seen = 0;
            for _ in 0..ticks {
                for _ in 0..visits {
                    coalescer.count_visit(seen < clients);
                    seen += 1;
                }
                coalescer.end_tick(now);
                waits += usize::from(coalescer.waits);
            }
        }
        waits
    }

    #[test]
    fn waits_while_many_ask_often() {
        let mut coalescer = Coalescer::default();
        assert_eq!(waits(&mut coalescer, 400..404, 40, 2, 50), 0, "nothing is known yet");
        assert_eq!(waits(&mut coalescer, 404..440, 40, 2, 50), 36 * 40);
        assert_eq!(waits(&mut coalescer, 440..450, 5, 2, 50), 4 * 5, "the last period is what counts");
        assert_eq!(waits(&mut coalescer, 450..460, 40, 2, 50), 4 * 40, "from the first whole period on");
        assert_eq!(waits(&mut coalescer, 500..501, 1, 1, 50), 0, "silence");
    }

    #[test]
    fn does_not_wait_for_few_or_when_there_is_enough() {
        assert_eq!(waits(&mut Coalescer::default(), 400..440, 90, 1, 4), 0);
        assert_eq!(waits(&mut Coalescer::default(), 400..440, 10, 20, 50), 0);
    }
}
