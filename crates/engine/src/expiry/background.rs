//! The end of time: of keys, and of elements inside of collections. One machinery serves both.
//!
//! # Where deadlines lie
//! ```text
//!   exact       key's entry: deadline          collection's element: deadline (a hash's field is such an entry)
//!                    |                                    |
//!   ordered     shard: keys by deadline        collection: elements by deadline       (boxed; only if there are any)
//!                                                         | the earliest
//!                                              shard: collections by the earliest deadline of an element
//! ```
//! All three ordered indexes are [`TtlIndex`](structures::ttl_index::TtlIndex): records of a deadline and a position in a hash table. A shard has two
//! for each database ([`ExpiryIndex`](crate::data::table::ExpiryIndex)), so that what is due is found without looking at anything that is not.
//!
//! # What is seen
//! Every access looks at the exact deadline. A key that is over is removed by whoever comes upon it. An element that is
//! over is shown to nobody, and writing to it is like adding it, but only writers and the background remove it: a read
//! never has to clear away a million elements first. Until then it counts in the length that HLEN answers, as in Valkey
//! 9.1.
//!
//! # The background
//! [`Engine::expire_due`] is called by every worker for its share of the shards, twenty times a second. It removes at
//! most `budget` keys and elements, at most [`STEP`] of either under one hold of a lock, and says whether more may be
//! due. A collection of which more elements are due than that keeps its record and its turn. When the last element
//! goes, the key goes with it. Tables that are being resized are moved on meanwhile (`activerehashing`).
//!
//! # What keeps the indexes right
//! Nobody but [`Edit`](crate::keyspace::edit::Edit) and [`access`] puts entries into a table or takes them out, or changes a
//! collection, and they compare the earliest deadline before and after. So RENAME, COPY, MOVE, overwriting, deleting
//! and loading need nothing of their own; FLUSHALL and SWAPDB treat the index as a part of the table.
//!
//! # Another type whose elements run out
//! Give its structure a `TtlIndex`, and [`Object::next_deadline`](crate::data::value::Object::next_deadline),
//! [`Object::pop_due`](crate::data::value::Object::pop_due) and
//! [`Object::element_words`](crate::data::value::Object::element_words) an arm; its [`Collection`](crate::data::value::Collection)
//! says its earliest deadline.

use crate::clients::tracking::Author;
use crate::clients::waiters;
use crate::config::Directive;
use crate::data::table::element_deadline;
use crate::data::value::KeyEntry;
use crate::engine::Engine;
use crate::host::threads::Server;
use crate::keyspace::lru::{self, is_due};
use crate::keyspace::shard::Shard;
use crate::propagation::effects::Effects;
use std::ops::Range;
use structures::hashtable::position;

/// What the background removes under one hold of a shard's lock, of keys and of elements: some ten microseconds' worth.
const STEP: usize = 32;
/// Buckets of a table that is being resized, moved under one hold of a shard's lock: as long as that. While nobody
/// writes, a table of a million entries takes some seconds.
const RESIZE_STEP: usize = 32;

impl Engine {
    /// Removes up to `budget` keys and elements of these shards whose deadline has passed; true when more may be due.
    /// Locks are given up every few of them, so nobody waits for the budget.
    pub fn expire_due(&self, shards: Range<usize>, server: Server, budget: usize) -> bool {
        if self.expiry_is_paused() {
            return false;
        }
        let mut left = budget;
        for index in shards {
            loop {
                if left == 0 {
                    return true;
                }
                let step = left.min(STEP);
                let (removed, more) = self.expire_step(index, server, step);
                left = left.saturating_sub(removed);
                if !more {
                    break;
                }
            }
        }
        false
    }

    /// How many keys and elements were removed, and whether there may be more.
    fn expire_step(&self, index: usize, server: Server, max: usize) -> (usize, bool) {
        let now = server.now_us / 1000;
        let began = self.host().nanos();
        let mut effects = Effects::default();
        let (mut keys, mut elements) = (0, 0);
        {
            // A long script may have it; others are not to wait for that.
            let Some(mut guard) = self.locks().one_unless(index, || true) else { return (0, false) };
            // Under the lock: nothing goes any more once a pause is said to be on.
            if self.expiry_is_paused() {
                return (0, false);
            }
            let shard = &mut *guard;
            let resizes = self.config().snapshot().flag(Directive::ACTIVEREHASHING);
            let mut next = Some(0);
            while let Some(db) = next.and_then(|number| shard.dbs.next(number)) {
                next = db.checked_add(1);
                keys += self.expire_keys(shard, &mut effects, db, now, max - keys);
                elements += self.expire_elements(shard, &mut effects, db, now, max - elements);
                if resizes {
                    let hasher = |entry: &KeyEntry| self.hasher().local_of(entry.key());
                    shard.dbs[db].table.step(RESIZE_STEP, hasher);
                }
            }
            self.record_expired(&mut effects);
            // Who sees that the keys are gone finds the memory free and the event noted.
            effects.settle(|| self.config().snapshot().flag(Directive::LAZYFREE_LAZY_EXPIRE), || true);
            drop(effects.take_foreground());
            self.latency().note("expire-cycle", self.host().nanos() - began, now);
        }
        let ready = self.publish(&mut effects, Author { worker: server.worker, client: 0 });
        waiters::serve(self, ready, server);
        (keys + elements, keys == max || elements == max)
    }

    fn expire_keys(&self, shard: &mut Shard, effects: &mut Effects, db: u32, now: i64, max: usize) -> usize {
        let mut removed = 0;
        while removed < max
            && let Some(at) = shard.dbs[db].expiry.keys.pop_due(now as u64)
        {
            removed += 1;
            let due = |entry: &KeyEntry| {
                entry.deadline().is_some_and(|deadline| is_due(deadline, now))
                    && position(self.hasher().local_of(entry.key())) == at
            };
            let hasher = |entry: &KeyEntry| self.hasher().local_of(entry.key());
            if let Some(entry) = shard.dbs[db].table.remove_at_position(at, due, hasher) {
                let local = self.hasher().local_of(entry.key());
                lru::expired(self, shard, effects, db, local, entry);
            }
        }
        removed
    }

    fn expire_elements(&self, shard: &mut Shard, effects: &mut Effects, db: u32, now: i64, max: usize) -> usize {
        let mut removed = 0;
        while removed < max
            && let Some(at) = shard.dbs[db].expiry.elements.first_due(now as u64)
        {
            let due = |entry: &KeyEntry| {
                element_deadline(entry).is_some_and(|deadline| is_due(deadline, now))
                    && position(self.hasher().local_of(entry.key())) == at
            };
            let Some(name) = shard.dbs[db].table.find_at_position(at, due).map(|entry| entry.key().to_vec()) else {
                debug_assert!(false, "a record without a collection");
                shard.dbs[db].expiry.elements.pop_due(now as u64);
                continue;
            };
            let local = self.hasher().local_of(&name);
            removed += lru::expire_elements(self, shard, effects, db, local, &name, now, max - removed);
        }
        removed
    }

    /// Removes those of these keys of one shard whose deadline has passed, for walks that come upon them, unless such
    /// keys [stay](Self::keeps_expired) now.
    pub fn remove_expired(&self, shard: &mut Shard, effects: &mut Effects, db: u32, names: &[Vec<u8>], now: i64) {
        if self.keeps_expired() {
            return;
        }
        for name in names {
            let local = self.hasher().local_of(name);
            let found = shard.dbs[db].table.find(local, |entry| entry.key() == name);
            if found.and_then(|entry| entry.deadline()).is_some_and(|at| is_due(at, now)) {
                lru::expire(self, shard, effects, db, local, name);
            }
        }
    }
}
