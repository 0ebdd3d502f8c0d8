//! When a connection is served: whether it is in its worker's queue, and whether behind others; and the time that its
//! visits took.

/// Visits for which a connection is deprioritized. The end of a long pipeline is short, and the next one begins at
/// once.
const DEPRIORITIZED_VISITS: u8 = 8;
/// Nanoseconds of a visit besides its commands, to read and to write.
const VISIT_NANOS: u64 = 5_000;

/// A connection's visits by its worker.
#[derive(Debug)]
pub struct Visits {
    /// Further visits for which the connection is served after others: it sent much lately, or ran for long, or has
    /// never been served.
    deprioritized: u8,
    /// Whether it got much in this tick: the rest of its commands waits for the next one.
    quantum_used: bool,
    /// Whether it is in its worker's queue already.
    enqueued: bool,
    /// Nanoseconds that its visits have taken, about, since its worker last asked.
    nanos: u64,
}

impl Default for Visits {
    /// Creates the visits of a new connection: deprioritized until it has shown that it is none that connects, sends
    /// nonsense and leaves.
    fn default() -> Visits {
        Visits { deprioritized: 1, quantum_used: false, enqueued: false, nanos: 0 }
    }
}

impl Visits {
    /// Begins a visit: the connection is in no queue any more.
    #[inline]
    pub fn begin(&mut self) {
        self.enqueued = false;
        self.quantum_used = false;
        self.nanos += VISIT_NANOS;
    }

    /// Adds time for which commands have run.
    #[inline]
    pub fn count_commands(&mut self, nanos: u64) {
        self.nanos += nanos;
    }

    /// Returns about how many nanoseconds its visits have taken since the last call.
    pub fn take_nanos(&mut self) -> u64 {
        std::mem::take(&mut self.nanos)
    }

    /// Records that the connection has something to do. True if it is to be put into the queue, where it was not
    /// before.
    #[inline]
    pub fn enqueue(&mut self) -> bool {
        !std::mem::replace(&mut self.enqueued, true)
    }

    /// Returns whether it is in its worker's queue.
    pub fn is_enqueued(&self) -> bool {
        self.enqueued
    }

    /// Deprioritizes a connection that asks for much: it is served after others from now on.
    pub fn deprioritize(&mut self) {
        self.deprioritized = DEPRIORITIZED_VISITS;
    }

    /// Records that something was read; `is_much`: more than others send.
    #[inline]
    pub fn count_read(&mut self, is_much: bool) {
        match is_much {
            true => self.deprioritize(),
            false => self.deprioritized = self.deprioritized.saturating_sub(1),
        }
    }

    /// Returns whether it is served after others because of its demand.
    #[inline]
    pub fn is_deprioritized(&self) -> bool {
        self.deprioritized > 0
    }

    /// Records that it got as much as a connection may get in a tick.
    pub fn set_enough(&mut self) {
        self.quantum_used = true;
    }

    /// Returns whether the rest of the commands waits for the next tick.
    #[inline]
    pub fn quantum_used(&self) -> bool {
        self.quantum_used
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
    fn a_connection_stands_in_the_queue_once() {
        let mut visits = Visits::default();
        assert!(visits.enqueue() && !visits.enqueue() && visits.is_enqueued());
        visits.set_enough();
        visits.begin();
        assert!(!visits.is_enqueued() && !visits.quantum_used() && visits.enqueue());
    }

    #[test]
    fn time_of_visits_is_counted_from_one_question_to_the_next() {
        let mut visits = Visits::default();
        visits.begin();
        visits.count_commands(700);
        assert_eq!((visits.take_nanos(), visits.take_nanos()), (VISIT_NANOS + 700, 0));
    }
}
