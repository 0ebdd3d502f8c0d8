//! Counters of the workers. Each worker writes only its own lines, and whoever asks sums them up.

use crate::sync::Mutex;
use std::collections::{BTreeMap, VecDeque};
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
    /// How often each error code was replied. Only its worker writes it, so nobody waits for the lock.
    errors: Mutex<BTreeMap<Vec<u8>, u64>>,
}

/// More codes than this are not told apart: a script may invent as many as it likes.
const ERROR_CODES_MAX: usize = 128;

impl WorkerMetrics {
    /// Counts an error reply by its code, the first word of its text.
    #[cold]
    pub fn count_error(&self, text: &[u8]) {
        self.error_replies.add(1);
        let code = text.split(|byte| *byte == b' ').next().unwrap_or_default();
        let mut errors = self.errors.lock();
        if let Some(count) = errors.get_mut(code) {
            *count += 1;
        } else if errors.len() < ERROR_CODES_MAX {
            errors.insert(code.to_vec(), 1);
        }
    }

    pub fn reset(&self) {
        let WorkerMetrics { commands, input_bytes, output_bytes, reads, writes, turns, error_replies, errors } = self;
        errors.lock().clear();
        for counter in [commands, input_bytes, output_bytes, reads, writes, turns, error_replies] {
            counter.reset();
        }
    }
}

/// The sum of one counter over all workers.
pub fn sum(workers: &[WorkerMetrics], counter: impl Fn(&WorkerMetrics) -> &Counter) -> u64 {
    workers.iter().map(|worker| counter(worker).get()).sum()
}

/// Error replies of all workers by code.
pub fn errors(workers: &[WorkerMetrics]) -> BTreeMap<Vec<u8>, u64> {
    let mut sum = BTreeMap::new();
    for worker in workers {
        for (code, count) in &*worker.errors.lock() {
            *sum.entry(code.clone()).or_default() += count;
        }
    }
    sum
}

/// What is counted for [`Rates`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    pub commands: u64,
    pub input_bytes: u64,
    pub output_bytes: u64,
}

impl Totals {
    pub fn of(workers: &[WorkerMetrics]) -> Totals {
        Totals {
            commands: sum(workers, |worker| &worker.commands),
            input_bytes: sum(workers, |worker| &worker.input_bytes),
            output_bytes: sum(workers, |worker| &worker.output_bytes),
        }
    }
}

/// How fast totals grow: the difference between the newest sample and the oldest of the last one and a half seconds.
#[derive(Debug, Default)]
pub struct Rates(Mutex<VecDeque<(i64, Totals)>>);

/// Samples that are kept, and milliseconds between two.
const SAMPLES: usize = 16;
const SAMPLE_EVERY: i64 = 100;

impl Rates {
    /// Takes note of the totals at `now` (Unix time in milliseconds), unless that was done a moment ago.
    pub fn sample(&self, now: i64, totals: impl FnOnce() -> Totals) {
        let mut samples = self.0.lock();
        if samples.back().is_some_and(|(last, _)| now < last + SAMPLE_EVERY) {
            return;
        }
        if samples.len() == SAMPLES {
            samples.pop_front();
        }
        samples.push_back((now, totals()));
    }

    /// Growth a second.
    pub fn per_second(&self) -> Totals {
        let samples = self.0.lock();
        let (Some((from, old)), Some((to, new))) = (samples.front(), samples.back()) else { return Totals::default() };
        let time = (to - from).max(1) as u64;
        // A reset in between makes totals fall.
        let rate = |old: u64, new: u64| new.saturating_sub(old) * 1000 / time;
        Totals {
            commands: rate(old.commands, new.commands),
            input_bytes: rate(old.input_bytes, new.input_bytes),
            output_bytes: rate(old.output_bytes, new.output_bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_growth_over_the_last_samples() {
        let rates = Rates::default();
        assert_eq!(rates.per_second(), Totals::default());
        for n in 0..40u64 {
            let commands = if n < 20 { 0 } else { (n - 20) * 10 };
            rates.sample(n as i64 * 100, || Totals { commands, ..Totals::default() });
            rates.sample(n as i64 * 100 + 50, || unreachable!("too early"));
        }
        assert_eq!(rates.per_second().commands, 100);
    }

    #[test]
    fn errors_are_counted_by_code_up_to_a_limit() {
        let worker = WorkerMetrics::default();
        worker.count_error(b"ERR one");
        worker.count_error(b"ERR two");
        for n in 0..200 {
            worker.count_error(format!("CODE{n} x").as_bytes());
        }
        let counted = errors(std::slice::from_ref(&worker));
        assert_eq!(counted[&b"ERR"[..]], 2);
        assert_eq!((counted.len(), worker.error_replies.get()), (ERROR_CODES_MAX, 202));
        worker.reset();
        assert!(errors(std::slice::from_ref(&worker)).is_empty());
    }
}
