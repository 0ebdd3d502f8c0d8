//! Sums up the memory of keys by prefix, as quotas ask for it.
//!
//! ```text
//!   shard 0 | shard 1 ... some buckets under one hold, for a quarter of a millisecond | later: from there on
//!                                                                     the end: the sums are known, and it begins anew
//! ```
//!
//! A key that is added or removed behind the walk is counted by the next one. Without such quotas there is no walk.

use crate::acl::prefix_memory::PrefixMemory;
use crate::data::value::{KeyEntry, Value};
use crate::keyspace::Keyspace;
use crate::keyspace::shard::Shard;
use std::sync::Arc;
use structures::hashtable::position;

/// Buckets that are looked into under one hold of a shard's lock: some ten microseconds' worth.
const HELD: usize = 16;
/// Nanoseconds of a call.
const SLICE: u64 = 250_000;
/// Elements of a collection whose sizes are looked at.
const SAMPLES: usize = 5;

/// Position of the present walk.
#[derive(Default)]
pub(super) struct PrefixWalk {
    shard: usize,
    db: u32,
    /// Position in the table of that database. Entries before it have been counted.
    at: u64,
    /// Sums found so far. Empty: no walk is under way.
    sums: Vec<(Arc<PrefixMemory>, u64)>,
}

impl PrefixWalk {
    /// Continues for a moment. `prefixes`: the prefixes of quotas, with which a new walk begins.
    pub fn go_on(&mut self, keyspace: &Keyspace, prefixes: impl FnOnce() -> Vec<Arc<PrefixMemory>>) {
        if self.sums.is_empty() {
            let prefixes = prefixes();
            *self = PrefixWalk { sums: prefixes.into_iter().map(|prefix| (prefix, 0)).collect(), ..Default::default() };
        }
        let began = keyspace.clock().nanos();
        while self.shard < keyspace.locks().len() {
            if keyspace.shard_total(self.shard) == 0 {
                self.turn_to_shard(self.shard + 1);
                continue;
            }
            // A long script may have it.
            let Some(shard) = keyspace.locks().one_unless(self.shard, || true) else { return };
            self.count(keyspace, &shard);
            drop(shard);
            if keyspace.clock().nanos().since(began) > SLICE {
                return;
            }
        }
        for (prefix, bytes) in self.sums.drain(..) {
            prefix.set_bytes(bytes);
        }
    }

    fn turn_to_shard(&mut self, shard: usize) {
        (self.shard, self.db, self.at) = (shard, 0, 0);
    }

    /// Counts the keys in the next buckets of a shard. At its end it turns to the next one.
    fn count(&mut self, keyspace: &Keyspace, shard: &Shard) {
        let mut left = HELD;
        while let Some(number) = shard.dbs.next(self.db) {
            if number != self.db {
                (self.db, self.at) = (number, 0);
            }
            let table = &shard.dbs[number].table;
            let mut next = (!table.is_empty()).then_some(self.at);
            // A bucket may have been joined with one that was visited before the lock was last released.
            let mut visited_below = self.at;
            while let Some(at) = next {
                self.at = at;
                if left == 0 {
                    return;
                }
                left -= 1;
                next = table.scan(at, |entry| {
                    if visited_below == 0 || position(keyspace.hasher().local_of(entry.key())) >= visited_below {
                        self.add(entry);
                    }
                });
                visited_below = 0;
            }
            let Some(following) = number.checked_add(1) else { break };
            (self.db, self.at) = (following, 0);
        }
        self.turn_to_shard(self.shard + 1);
    }

    fn add(&mut self, entry: &KeyEntry) {
        let mut size = None;
        for (prefix, sum) in &mut self.sums {
            if entry.key().starts_with(prefix.prefix()) {
                *sum += *size.get_or_insert_with(|| size_of_entry(entry));
            }
        }
    }
}

/// Returns the bytes that a key and its value take.
fn size_of_entry(entry: &KeyEntry) -> u64 {
    let beyond = if let Value::Payload(object) = entry.value() { object.memory_usage(SAMPLES) } else { 0 };
    (entry.allocated() + beyond) as u64
}
