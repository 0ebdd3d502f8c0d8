//! What threads of a load have done so far, and what they agree on.

use hdrhistogram::Histogram;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Barrier, OnceLock};
use std::time::{Duration, Instant};

/// Latencies are counted up to this; longer ones count as this. Microseconds.
pub const LATENCY_MAX: u64 = 60_000_000;

/// What threads have done so far, for the one that shows it, and what they agree on.
#[derive(Debug)]
pub struct LoadCounts {
    /// Sequences that a thread has taken on, and how many of them count towards the number of requests.
    pub scheduled: AtomicU64,
    pub counted: AtomicU64,
    /// Replies, those of the warm-up too, and the sum of their latencies in microseconds.
    pub finished: AtomicU64,
    pub latency_sum: AtomicU64,
    /// How long after it was due a request of an open loop was sent, in microseconds: the longest.
    pub lateness: AtomicU64,
    /// When the last thread was done, in microseconds since the start.
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

    /// When the load began.
    pub fn started(&self) -> Instant {
        self.opened.get().copied().unwrap_or(self.created)
    }

    /// How long all threads took together.
    pub fn took(&self) -> Duration {
        Duration::from_micros(self.ended.load(Relaxed))
    }

    /// The longest time between when a request of an open loop was due and when it was sent.
    pub fn lateness(&self) -> Duration {
        Duration::from_micros(self.lateness.load(Relaxed))
    }

    /// Ends the run early.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }
}

/// A histogram of latencies in microseconds.
pub fn new_histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX, 3).expect("the bounds are legal")
}
