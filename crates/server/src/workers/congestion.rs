//! Pushes that workers have been sent for their clients and have not taken yet: a worker in a long call takes none.
//!
//! ```text
//!   publisher -> its worker -> mailbox of another worker     counted here, at most FULL or so
//!                           -> output buffer of a subscriber        limited by client-output-buffer-limit
//! ```
//!
//! No worker waits for a mailbox: two workers may post to each other. While one is full, commands that would add to it
//! are retried later, like commands whose locks are not free, and their clients' further requests stay in their
//! sockets.

use engine::Engine;
use engine::locks::sync::Mutex;
use engine::per_worker::PerWorker;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

/// Bytes for one worker from which on it is full, and below which it is full no more.
const FULL: usize = 16 << 20;
const FREE: usize = FULL / 2;

/// Bytes that wait for each worker.
pub struct Congestion {
    /// Bytes that wait, by worker.
    waiting: PerWorker<AtomicUsize>,
    full: Mutex<Vec<bool>>,
}

impl Congestion {
    /// Creates the counters of so many workers at the start.
    pub fn new(workers: usize) -> Congestion {
        Congestion { waiting: PerWorker::new(workers), full: Mutex::default() }
    }

    /// Adds bytes that wait for a worker.
    pub fn add(&self, engine: &Engine, worker: usize, bytes: usize) {
        let before = self.waiting[worker].fetch_add(bytes, SeqCst);
        if before < FULL && before.saturating_add(bytes) >= FULL {
            self.settle(engine);
        }
    }

    /// Removes bytes that a worker has taken.
    pub fn remove(&self, engine: &Engine, worker: usize, bytes: usize) {
        let before = self.waiting[worker].fetch_sub(bytes, SeqCst);
        if before >= FREE && before.saturating_sub(bytes) < FREE {
            self.settle(engine);
        }
    }

    /// Publishes which workers are full. The lock is held, so that the last call has the present state.
    #[cold]
    fn settle(&self, engine: &Engine) {
        let mut full = self.full.lock();
        full.resize(self.waiting.iter().count(), false);
        for (worker, (full, waiting)) in full.iter_mut().zip(self.waiting.iter()).enumerate() {
            *full = waiting.load(SeqCst) >= if *full { FREE } else { FULL };
            engine.pubsub().set_full(worker, *full);
        }
        engine.persistence_status().set_congested(full.contains(&true));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::{NullHost, Options};
    use std::sync::Arc;

    #[test]
    fn one_full_mailbox_is_enough_and_it_is_full_until_much_is_taken() {
        let options = Options { workers: 2, ..Options::default() };
        let engine = Engine::new(&options, Arc::new(NullHost));
        let congestion = Congestion::new(2);
        let is_on = || engine.persistence_status().deny_reasons().is_congested();
        congestion.add(&engine, 0, FULL - 1);
        assert!(!is_on());
        congestion.add(&engine, 0, 1);
        congestion.add(&engine, 1, 5 * FULL);
        assert!(is_on());
        congestion.remove(&engine, 0, FULL - FREE);
        congestion.remove(&engine, 1, 5 * FULL);
        assert!(is_on(), "half of it is left");
        congestion.remove(&engine, 0, 1);
        assert!(!is_on() && engine.persistence_status().deny_reasons().is_none());
    }
}
