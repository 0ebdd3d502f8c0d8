//! Values of which each worker has its own, for workers that come later, too.
//!
//! The values of the first workers lie side by side. Others lie in blocks that are made when the first worker of one
//! comes; workers that never were take no memory. The value of a worker that ends stays, and its successor gets it:
//! counters continue.

use crossbeam_utils::CachePadded;
use std::ops::Index;
use std::sync::OnceLock;

/// Greatest number of workers at a time.
pub const WORKERS_MAX: usize = 1024;

/// Place of the thread that applies a primary's stream: it runs commands as workers do, and has counts beside theirs.
pub const LINK_PLACE: usize = WORKERS_MAX;

/// Place of the thread that applies commands that arrive with slots from other nodes.
pub const MIGRATION_PLACE: usize = WORKERS_MAX + 1;

/// Workers of a block.
const BLOCK: usize = 16;

type Block<T> = Box<[CachePadded<T>]>;

/// One value a worker, each on cache lines of its own.
#[derive(Debug)]
pub struct PerWorker<T> {
    first: Block<T>,
    later: OnceLock<Box<[OnceLock<Block<T>>]>>,
    link: CachePadded<T>,
    migration: CachePadded<T>,
}

impl<T: Default> PerWorker<T> {
    /// Makes values for so many workers from the start.
    pub fn new(workers: usize) -> PerWorker<T> {
        PerWorker {
            first: block(workers),
            later: OnceLock::new(),
            link: CachePadded::default(),
            migration: CachePadded::default(),
        }
    }

    #[cold]
    #[inline(never)]
    fn later(&self, worker: usize) -> &T {
        if worker == LINK_PLACE {
            return &self.link;
        }
        if worker == MIGRATION_PLACE {
            return &self.migration;
        }
        assert!(worker < WORKERS_MAX, "there is no worker {worker}");
        let blocks = || (self.first.len()..WORKERS_MAX).step_by(BLOCK).map(|_| OnceLock::new()).collect();
        let (at, within) = ((worker - self.first.len()) / BLOCK, (worker - self.first.len()) % BLOCK);
        let later = self.later.get_or_init(blocks);
        // Without gaps, so that all can be gone through in order.
        later[..at].iter().for_each(|before| _ = before.get_or_init(|| block(BLOCK)));
        &later[at].get_or_init(|| block(BLOCK))[within]
    }
}

impl<T> PerWorker<T> {
    /// Returns the values of all workers, in their order, including workers that never were if they share a block. The
    /// values of the threads that apply a primary's stream and migrations of slots are the last.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        let later = self.later.get().into_iter().flatten().map_while(OnceLock::get);
        self.first.iter().chain(later.flatten()).chain([&self.link, &self.migration]).map(|it| &**it)
    }
}

impl<T: Default> Index<usize> for PerWorker<T> {
    type Output = T;

    #[inline(always)]
    fn index(&self, worker: usize) -> &T {
        match self.first.get(worker) {
            Some(found) => found,
            None => self.later(worker),
        }
    }
}

fn block<T: Default>(workers: usize) -> Block<T> {
    (0..workers).map(|_| CachePadded::default()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    #[test]
    fn workers_that_come_later_have_a_place_that_stays() {
        let all = PerWorker::<AtomicUsize>::new(2);
        for worker in [0, 1, 2, 17, 18, 40] {
            all[worker].store(worker + 1, Relaxed);
        }
        assert_eq!([1, 2, 17, 18].map(|worker| all[worker].load(Relaxed)), [2, 3, 18, 19]);
        let sum = |all: &PerWorker<AtomicUsize>| all.iter().map(|it| it.load(Relaxed)).sum::<usize>();
        assert_eq!(sum(&all), 1 + 2 + 3 + 18 + 19 + 41);
        all[WORKERS_MAX - 1].store(9, Relaxed);
        assert_eq!(all[WORKERS_MAX - 1].load(Relaxed), 9);
        all[LINK_PLACE].store(5, Relaxed);
        all[MIGRATION_PLACE].store(6, Relaxed);
        let last: Vec<usize> = all.iter().map(|it| it.load(Relaxed)).collect();
        assert_eq!((&last[last.len() - 2..], last[0]), (&[5, 6][..], 1));
    }

    #[test]
    fn nothing_is_taken_for_workers_that_never_were() {
        let all = PerWorker::<AtomicUsize>::new(2);
        assert_eq!(all.iter().count(), 2 + 2);
        all[2].store(1, Relaxed);
        assert_eq!(all.iter().count(), 2 + BLOCK + 2);
    }
}
