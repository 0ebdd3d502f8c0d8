//! A second data set beside the one that is served: filled while no client sees it, and then put in its place.
//!
//! Keys lie in the same shards of both and have the same hashes, so tables change places as they are.

use crate::keyspace::shard::{Databases, Db};
use crate::keyspace::{Keyspace, Options};
use std::sync::Arc;

impl Keyspace {
    /// Makes an empty data set like this one, whose changes are not announced.
    pub fn beside(&self) -> Keyspace {
        let (shards, databases) = (self.locks.len(), self.databases);
        let counts_slots = self.slot_counts.is_on();
        let options = Options { shards, databases, counts_slots, ..Options::default() }.within_limits();
        let config = (*self.config.snapshot()).clone();
        let mut beside = Keyspace::new(&options, config, Arc::clone(&self.clock));
        beside.hasher = self.hasher.clone();
        beside
    }

    /// Takes out all of its data, by shards.
    pub fn take_data(&self) -> Vec<Databases> {
        let take = |index| {
            let mut shard = self.locks.one(index);
            self.note_change(index);
            std::mem::take(&mut shard.dbs)
        };
        (0..self.locks.len()).map(take).collect()
    }

    /// Updates counts and hints of a database of a shard, whose lock is held, after it has got another data set's
    /// table.
    pub fn table_came(&self, shard: usize, number: u32, db: &Db) {
        self.keys_came(shard, number, db.table.len());
        // The background looks for expired keys in it.
        self.expires_at(shard, Some(0));
    }
}
