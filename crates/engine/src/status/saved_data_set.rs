//! Data sets in files. A synchronization replaces the data set, and files have the former one until the next save.

use std::sync::atomic::{AtomicU64, Ordering::AcqRel, Ordering::Acquire};

/// Kind of files that a server reads at its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedIn {
    /// A snapshot.
    Snapshot,
    /// The append-only file.
    Log,
}

/// Number of the present data set, and the numbers of those in files.
#[derive(Debug, Default)]
pub struct SavedDataSet {
    present: AtomicU64,
    in_snapshot: AtomicU64,
    in_log: AtomicU64,
}

impl SavedDataSet {
    /// Returns the present data set's number: files that are begun from now on have it, or a later one.
    pub fn present(&self) -> u64 {
        self.present.load(Acquire)
    }

    /// Records that another server's data set has replaced the present one. Returns its number.
    pub fn replace(&self) -> u64 {
        self.present.fetch_add(1, AcqRel) + 1
    }

    /// Records that files of this kind have the data set of this number.
    pub fn save(&self, kind: SavedIn, number: u64) {
        self.of(kind).fetch_max(number, AcqRel);
    }

    /// Returns whether files of this kind have the present data set, or there was no other one since the start.
    pub fn is_saved(&self, kind: SavedIn) -> bool {
        self.of(kind).load(Acquire) >= self.present()
    }

    fn of(&self, kind: SavedIn) -> &AtomicU64 {
        match kind {
            SavedIn::Snapshot => &self.in_snapshot,
            SavedIn::Log => &self.in_log,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_data_set_that_came_is_saved_by_a_save_that_began_behind_it() {
        let sets = SavedDataSet::default();
        assert!(sets.is_saved(SavedIn::Snapshot) && sets.is_saved(SavedIn::Log));
        let before = sets.present();
        let number = sets.replace();
        sets.save(SavedIn::Snapshot, before);
        assert!(!sets.is_saved(SavedIn::Snapshot) && !sets.is_saved(SavedIn::Log));
        sets.save(SavedIn::Snapshot, number);
        assert!(sets.is_saved(SavedIn::Snapshot) && !sets.is_saved(SavedIn::Log));
    }
}
