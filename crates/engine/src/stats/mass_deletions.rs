//! Progress of deletions of many keys (DELPREFIX, DELPATTERN).
//!
//! A deletion has a [`DeletionProgress`] and counts in it; both end together, also when the client goes before all keys
//! are deleted.

use crate::locks::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Weak};

/// Progress of one deletion.
#[derive(Debug, Default)]
pub struct DeletionProgress {
    /// Ten thousandths of the keyspace that it has walked.
    done: AtomicU32,
    keys: AtomicU64,
}

/// Value of a whole walk.
const WHOLE: u32 = 10_000;

impl DeletionProgress {
    /// Sets how many of how many parts it has walked.
    pub fn set_done(&self, parts: usize, of: usize) {
        let done = parts as u64 * u64::from(WHOLE) / (of as u64).max(1);
        self.done.store(u32::try_from(done).unwrap_or(WHOLE).min(WHOLE), Relaxed);
    }

    /// Counts deleted keys.
    pub fn count(&self, keys: u64) {
        self.keys.fetch_add(keys, Relaxed);
    }

    /// Returns how many keys it has deleted.
    pub fn keys(&self) -> u64 {
        self.keys.load(Relaxed)
    }
}

/// The deletions of a server.
#[derive(Debug, Default)]
pub struct MassDeletions {
    running: Mutex<Vec<Weak<DeletionProgress>>>,
}

/// Totals of the deletions that are under way.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RunningDeletions {
    /// Number of deletions.
    pub count: usize,
    /// Keys that they have deleted so far.
    pub keys: u64,
    /// Percentage of the keyspace that the last of them has walked; 0 where there is none.
    pub percent: f64,
}

impl MassDeletions {
    /// Begins one.
    pub fn begin(&self) -> Arc<DeletionProgress> {
        let progress = Arc::default();
        let mut running = self.running.lock();
        running.retain(|one| one.strong_count() > 0);
        running.push(Arc::downgrade(&progress));
        progress
    }

    /// Returns the totals of the deletions that are under way.
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
