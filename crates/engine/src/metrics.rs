//! Counters of the workers. Each worker writes only its own lines, and whoever asks sums them up.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A counter with one writer: no locked instruction is needed to add to it.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Relaxed).wrapping_add(n), Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// For CONFIG RESETSTAT; an addition of the writer's at the same moment may survive it.
    pub fn reset(&self) {
        self.0.store(0, Relaxed);
    }
}

/// What one worker counts. On lines of its own.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerMetrics {
    pub commands: Counter,
    pub input_bytes: Counter,
    pub output_bytes: Counter,
    pub reads: Counter,
    pub writes: Counter,
    pub turns: Counter,
    pub error_replies: Counter,
}

impl WorkerMetrics {
    pub fn reset(&self) {
        let WorkerMetrics { commands, input_bytes, output_bytes, reads, writes, turns, error_replies } = self;
        for counter in [commands, input_bytes, output_bytes, reads, writes, turns, error_replies] {
            counter.reset();
        }
    }
}

/// The sum of one counter over all workers.
pub fn sum(workers: &[WorkerMetrics], counter: impl Fn(&WorkerMetrics) -> &Counter) -> u64 {
    workers.iter().map(|worker| counter(worker).get()).sum()
}
