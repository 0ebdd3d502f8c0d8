//! Deletions of many keys that are under way (DELPREFIX, DELPATTERN): how far they are.
//!
//! Who deletes has its [`DeletionProgress`] and counts in it; it ends with that, also when its client goes before all
//! is deleted.

use crate::locks::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// How far a deletion is.
#[derive(Debug, Default)]
pub struct DeletionProgress {
    /// Ten thousandths of the keyspace that it has looked through.
    done: AtomicU32,
    keys: AtomicU64,
}

/// What is done when all is done.
const WHOLE: u32 = 10_000;

impl DeletionProgress {
    /// It has looked through so many of so many parts.
    pub fn set_done(&self, parts: usize, of: usize) {
        let done = parts as u64 * u64::from(WHOLE) / (of as u64).max(1);
        self.done.store(u32::try_from(done).unwrap_or(WHOLE).min(WHOLE), Relaxed);
    }

    /// So many keys were deleted.
    pub fn count(&self, keys: u64) {
        self.keys.fetch_add(keys, Relaxed);
    }

    /// How many keys it has deleted.
    pub fn keys(&self) -> u64 {
        self.keys.load(Relaxed)
    }
}

/// Those of a server.
#[derive(Debug, Default)]
pub struct MassDeletions {
    running: Mutex<Vec<Weak<DeletionProgress>>>,
}

/// What is told of those that are under way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunningDeletions {
    /// How many there are.
    pub count: usize,
    /// Keys that they have deleted so far.
    pub keys: u64,
    /// How much of the keyspace the last of them has looked through, in percent; 0 where there is none.
    pub percent: f64,
}

impl MassDeletions {
    /// One begins.
    pub fn begin(&self) -> Arc<DeletionProgress> {
        let progress = Arc::default();
        let mut running = self.running.lock();
        running.retain(|one| one.strong_count() > 0);
        running.push(Arc::downgrade(&progress));
        progress
    }

    /// What is under way.
    pub fn running(&self) -> RunningDeletions {
        let running: Vec<Arc<DeletionProgress>> = self.running.lock().iter().filter_map(Weak::upgrade).collect();
        let least = running.iter().map(|one| one.done.load(Relaxed)).min().unwrap_or(0);
        RunningDeletions {
            count: running.len(),
            keys: running.iter().map(|one| one.keys()).sum(),
            percent: f64::from(least) * 100.0 / f64::from(WHOLE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deletion_is_told_of_as_long_as_somebody_has_it() {
        let deletions = MassDeletions::default();
        assert_eq!(deletions.running(), RunningDeletions::default());
        let (one, other) = (deletions.begin(), deletions.begin());
        one.set_done(1, 3);
        other.set_done(7, 8);
        one.count(5);
        other.count(2);
        assert_eq!(deletions.running(), RunningDeletions { count: 2, keys: 7, percent: 33.33 });
        drop(one);
        assert_eq!(deletions.running(), RunningDeletions { count: 1, keys: 2, percent: 87.5 });
        other.set_done(9, 8);
        assert_eq!(deletions.running().percent, 100.0);
        drop(other);
        assert_eq!(deletions.running(), RunningDeletions::default());
    }
}
