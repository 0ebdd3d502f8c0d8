//! Threads that wait until a worker has handled all that had reached it when they asked.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Release;

/// Ticks after which a worker has handled all that had reached it: the tick in which it gets the request began before,
/// the next reads, and one more serves deprioritized connections.
const TICKS_TO_SETTLE: usize = 3;
/// Ticks that a thread waits at most: there may always be more deprioritized connections.
const TICKS_MAX: usize = 100;

/// Threads that wait for one worker.
#[derive(Debug, Default)]
pub struct WorkerBarrier {
    /// Workers that the thread still waits for, and the number of this worker's ticks that it has waited.
    waiting: Vec<(Arc<AtomicUsize>, usize)>,
}

impl WorkerBarrier {
    /// Adds a thread that waits; `left` goes down by one when it need not wait for this worker any more.
    pub fn add(&mut self, left: Arc<AtomicUsize>) {
        self.waiting.push((left, 0));
    }

    /// Returns whether no thread waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Counts a tick that has ended. `none_left`: it has served all connections that had something to do.
    pub fn end_tick(&mut self, none_left: bool) {
        self.waiting.retain_mut(|(left, ticks)| {
            *ticks += 1;
            let settled = *ticks >= TICKS_TO_SETTLE && none_left || *ticks >= TICKS_MAX;
            if settled {
                left.fetch_sub(1, Release);
            }
            !settled
        });
    }

    /// Ends all waits: the worker has no ticks for a while.
    pub fn release(&mut self) {
        self.waiting.drain(..).for_each(|(left, _)| _ = left.fetch_sub(1, Release));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering::Acquire;

    #[test]
    fn threads_wait_for_some_ticks_and_longer_while_connections_are_put_last() {
        let mut barrier = WorkerBarrier::default();
        let (soon, late) = (Arc::new(AtomicUsize::new(4)), Arc::new(AtomicUsize::new(1)));
        barrier.add(Arc::clone(&soon));
        (0..2).for_each(|_| barrier.end_tick(true));
        assert_eq!(soon.load(Acquire), 4);
        barrier.end_tick(true);
        assert!(barrier.is_empty() && soon.load(Acquire) == 3);
        barrier.add(Arc::clone(&late));
        (1..TICKS_MAX).for_each(|_| barrier.end_tick(false));
        assert_eq!(late.load(Acquire), 1);
        barrier.end_tick(false);
        assert!(barrier.is_empty() && late.load(Acquire) == 0);
    }

    #[test]
    fn nothing_waits_for_a_worker_without_ticks() {
        let mut barrier = WorkerBarrier::default();
        let left = Arc::new(AtomicUsize::new(2));
        (0..2).for_each(|_| barrier.add(Arc::clone(&left)));
        barrier.release();
        assert!(barrier.is_empty() && left.load(Acquire) == 0);
    }
}
