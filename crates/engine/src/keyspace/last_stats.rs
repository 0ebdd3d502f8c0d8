//! The statistics of each shard as a command saw them last.
//!
//! They are what is told of a shard whose lock another one has for long.

use crate::keyspace::shard::ShardStats;
use crate::locks::sync::Mutex;
use std::collections::BTreeMap;

/// Those of shards that have any.
#[derive(Default)]
pub(crate) struct LastStats(Mutex<BTreeMap<usize, ShardStats>>);

impl LastStats {
    /// A shard has these now.
    pub fn note(&self, shard: usize, stats: &ShardStats) {
        if *stats != ShardStats::default() {
            self.0.lock().insert(shard, *stats);
        }
    }

    /// A shard's.
    pub fn of(&self, shard: usize) -> ShardStats {
        self.0.lock().get(&shard).copied().unwrap_or_default()
    }

    /// Begins them anew (CONFIG RESETSTAT).
    pub fn reset(&self) {
        self.0.lock().values_mut().for_each(ShardStats::reset);
    }
}
