//! The statistics of each shard as a command saw them last.
//!
//! They are reported for a shard whose lock another command holds for long.

use crate::keyspace::shard::ShardStats;
use crate::locks::sync::Mutex;

/// Statistics of all shards. Its size is fixed: a command that asks how much memory is used does not use more.
pub(crate) struct LastStats(Mutex<Box<[ShardStats]>>);

impl LastStats {
    /// Makes statistics of so many shards before the first look.
    pub fn new(shards: usize) -> LastStats {
        LastStats(Mutex::new(vec![ShardStats::default(); shards].into_boxed_slice()))
    }

    /// Records the present statistics of a shard.
    pub fn note(&self, shard: usize, stats: &ShardStats) {
        self.0.lock()[shard] = *stats;
    }

    /// Returns the statistics of a shard.
    pub fn of(&self, shard: usize) -> ShardStats {
        self.0.lock()[shard]
    }

    /// Begins them anew (CONFIG RESETSTAT).
    pub fn reset(&self) {
        self.0.lock().iter_mut().for_each(ShardStats::reset);
    }
}
