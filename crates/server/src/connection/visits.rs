//! When a connection is served: whether it stands in its worker's queue, and whether behind others; and what its visits
//! took.

/// For so many visits a connection is deprioritized. The end of a long pipeline is short, and the next one begins at
/// once.
const DEPRIORITIZED_VISITS: u8 = 8;
/// What a visit takes besides its commands, to read and to write, in nanoseconds.
const VISIT_NANOS: u64 = 5_000;

/// A connection's visits by its worker.
#[derive(Debug)]
pub struct Visits {
    /// For how many visits more it is served after others: it sent much lately, or ran for long, or has never been
    /// served.
    deprioritized: u8,
    /// It got much in this tick: the rest of its commands waits for the next one.
    has_enough: bool,
    /// It stands in its worker's queue already.
    enqueued: bool,
    /// Nanoseconds that its visits have taken, about, since its worker last asked.
    nanos: u64,
}

impl Default for Visits {
    /// Of a new connection: deprioritized until it has shown that it is not one of those that come, talk nonsense and
    /// go.
    fn default() -> Visits {
        Visits { deprioritized: 1, has_enough: false, enqueued: false, nanos: 0 }
    }
}

impl Visits {
    /// A visit begins: it stands in no queue any more.
    #[inline]
    pub fn begin(&mut self) {
        self.enqueued = false;
        self.has_enough = false;
        self.nanos += VISIT_NANOS;
    }

    /// Commands have run for so long.
    #[inline]
    pub fn count_commands(&mut self, nanos: u64) {
        self.nanos += nanos;
    }

    /// About how many nanoseconds its visits have taken since this was asked last.
    pub fn take_nanos(&mut self) -> u64 {
        std::mem::take(&mut self.nanos)
    }

    /// It has something to do. True if it is to be put into the queue, in which it did not stand.
    #[inline]
    pub fn enqueue(&mut self) -> bool {
        !std::mem::replace(&mut self.enqueued, true)
    }

    /// Whether it stands in its worker's queue.
    pub fn is_enqueued(&self) -> bool {
        self.enqueued
    }

    /// It asks for much: it is served after others from now on.
    pub fn deprioritize(&mut self) {
        self.deprioritized = DEPRIORITIZED_VISITS;
    }

    /// Something was read from it; `is_much`: more than others send.
    #[inline]
    pub fn count_read(&mut self, is_much: bool) {
        match is_much {
            true => self.deprioritize(),
            false => self.deprioritized = self.deprioritized.saturating_sub(1),
        }
    }

    /// Whether it is served after others for what it asked for.
    #[inline]
    pub fn is_deprioritized(&self) -> bool {
        self.deprioritized > 0
    }

    /// It got as much as one may get in a tick.
    pub fn set_enough(&mut self) {
        self.has_enough = true;
    }

    /// Whether the rest of its commands waits for the next tick.
    #[inline]
    pub fn has_enough(&self) -> bool {
        self.has_enough
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn much_is_remembered_for_some_visits() {
        let mut visits = Visits::default();
        assert!(visits.is_deprioritized(), "it is new");
        visits.count_read(false);
        assert!(!visits.is_deprioritized());
        visits.count_read(true);
        (1..DEPRIORITIZED_VISITS).for_each(|_| visits.count_read(false));
        assert!(visits.is_deprioritized());
        (0..2).for_each(|_| visits.count_read(false));
        assert!(!visits.is_deprioritized());
    }

    #[test]
    fn it_stands_in_the_queue_once() {
        let mut visits = Visits::default();
        assert!(visits.enqueue() && !visits.enqueue() && visits.is_enqueued());
        visits.set_enough();
        visits.begin();
        assert!(!visits.is_enqueued() && !visits.has_enough() && visits.enqueue());
    }

    #[test]
    fn what_visits_take_is_counted_from_one_question_to_the_next() {
        let mut visits = Visits::default();
        visits.begin();
        visits.count_commands(700);
        assert_eq!((visits.take_nanos(), visits.take_nanos()), (VISIT_NANOS + 700, 0));
    }
}
