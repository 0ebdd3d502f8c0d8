//! Counters and agreements that threads of a load share.

use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

/// Upper bound of recorded latencies, in microseconds; longer ones count as this.
pub const LATENCY_MAX: u64 = 60_000_000;

/// Counters of all threads, read by the one that shows them, and their agreements.
#[derive(Debug)]
pub struct LoadCounts {
    /// Sequences that a thread has taken on, and how many of them count towards the number of requests.
    pub scheduled: AtomicU64,
    pub counted: AtomicU64,
    /// Replies, those of the warm-up too, and the sum of their latencies in microseconds.
    pub finished: AtomicU64,
    pub latency_sum: AtomicU64,
    /// Longest delay of a request of an open loop after it was due, in microseconds.
    pub lateness: AtomicU64,
    /// Time at which the last thread finished, in microseconds since the start.
    pub ended: AtomicU64,
    pub stop: AtomicBool,
    pub created: Instant,
    /// An open loop starts when all threads have their connections.
    pub connected: Barrier,
    pub opened: OnceLock<Instant>,
}

impl LoadCounts {
    pub fn new(threads: usize) -> Self {
        LoadCounts {
            scheduled: AtomicU64::new(0),
            counted: AtomicU64::new(0),
            finished: AtomicU64::new(0),
            latency_sum: AtomicU64::new(0),
            lateness: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            stop: AtomicBool::new(false),
            created: Instant::now(),
            connected: Barrier::new(threads),
            opened: OnceLock::new(),
        }
    }

    /// Returns when the load began.
    pub fn started(&self) -> Instant {
        self.opened.get().copied().unwrap_or(self.created)
    }

    /// Returns the time that all threads took together.
    pub fn took(&self) -> Duration {
        Duration::from_micros(self.ended.load(Relaxed))
    }

    /// Returns the longest time between the due moment of a request of an open loop and its sending.
    pub fn lateness(&self) -> Duration {
        Duration::from_micros(self.lateness.load(Relaxed))
    }

    /// Ends the run early.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }
}

/// Returns an empty histogram of latencies in microseconds.
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX, 3).expect("the bounds are legal")
}
