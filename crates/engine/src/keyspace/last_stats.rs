//! The statistics of each shard as a command saw them last.
//!
//! They are what is told of a shard whose lock another one has for long.

use crate::keyspace::shard::ShardStats;
use crate::locks::sync::Mutex;

/// Those of all shards. Its size is fixed: who asks how much memory is used does not use more.
pub(crate) struct LastStats(Mutex<Box<[ShardStats]>>);

impl LastStats {
    /// Those of so many shards that nobody has seen.
    pub fn new(shards: usize) -> LastStats {
        LastStats(Mutex::new(vec![ShardStats::default(); shards].into_boxed_slice()))
    }

    /// A shard has these now.
    pub fn note(&self, shard: usize, stats: &ShardStats) {
        self.0.lock()[shard] = *stats;
    }

    /// A shard's.
    pub fn of(&self, shard: usize) -> ShardStats {
        self.0.lock()[shard]
    }

    /// Begins them anew (CONFIG RESETSTAT).
    pub fn reset(&self) {
        self.0.lock().iter_mut().for_each(ShardStats::reset);
    }
}
