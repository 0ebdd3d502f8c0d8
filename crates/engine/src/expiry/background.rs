//! Expiry of keys, and of elements inside of collections. One machinery serves both.
//!
//! # Place of the expiries
//! ```text
//!   exact       key's entry: expiry          collection's element: expiry (a hash's field is such an entry)
//!                    |                                    |
//!   ordered     shard: keys by expiry        collection: elements by expiry       (boxed; only if there are any)
//!                                                         | the earliest
//!                                              shard: collections by the earliest expiry of an element
//! ```
//! All three ordered indexes are [`TtlIndex`](structures::ttl_index::TtlIndex): records of an expiry and a position in
//! a hash table. A shard has two for each database ([`ExpiryIndex`](crate::data::table::ExpiryIndex)), so that expired
//! entries are found without looking at any others.
//!
//! # View of clients
//! Every access compares the exact expiry. An expired key is removed by the command that comes upon it. An expired
//! element is shown to no client, and writing to it is like adding it, but only writers and the background remove it: a
//! read never has to clear away a million elements first. Until then it counts in the length that HLEN answers, as in
//! Valkey 9.1.
//!
//! # The background
//! Every worker calls [`Engine::expire_due`](crate::Engine::expire_due) for its share of the shards, twenty times a
//! second. It locks shards that have [something to do](crate::keyspace::shard_counters), removes at most `budget` keys
//! and elements, at most [`STEP`] of either under one hold of a lock, and returns whether more may be due. A collection
//! with more expired elements than that retains its record and its turn. When the last element goes, the key goes with
//! it. Tables that are being resized are moved on meanwhile (`activerehashing`).
//!
//! # Consistency of the indexes
//! Only [`Edit`](crate::keyspace::edit::Edit) and [`removal`] put entries into a table, take them out, or change a
//! collection, and they compare the earliest expiry before and after. So RENAME, COPY, MOVE, overwriting, deleting and
//! loading need nothing of their own; FLUSHALL and SWAPDB treat the index as a part of the table.
//!
//! # Another type whose elements expire
//! Give its structure a `TtlIndex`, its [`TypedValue`](crate::data::typed_value::TypedValue) the methods `next_expiry`
//! and `pop_due`, and its [line of the table](crate::data::value_type::ValueType::element_expiry) the event and the
//! command that announce expired elements.

use crate::config::Directive;
use crate::data::table::element_expiry;
use crate::data::value::KeyEntry;
use crate::keyspace::Keyspace;
use crate::keyspace::caller::is_due;
use crate::keyspace::removal;
use crate::keyspace::shard::Shard;
use crate::propagation::effects::Effects;
use crate::stats::latency_monitor::LatencyMonitor;
use crate::time::UnixMs;
use structures::hashtable::position;

/// Keys and elements that the background removes at most under one hold of a shard's lock: some ten microseconds'
/// worth.
pub(crate) const STEP: usize = 32;
/// Buckets of a table that is being resized, moved under one hold of a shard's lock, in about the same time. Without
/// writes, a table of a million entries takes some seconds.
const RESIZE_STEP: usize = 32;

/// Result of a step.
#[derive(Default)]
pub(crate) struct Expired {
    pub effects: Effects,
    /// Removed keys and elements.
    pub count: usize,
    /// Whether there may be more.
    pub more: bool,
}

/// Removes up to `max` keys and as many elements of a shard that have expired by `now`, Unix time in milliseconds.
pub(crate) fn expire_step(
    keyspace: &Keyspace,
    latency: &LatencyMonitor,
    index: usize,
    now: UnixMs,
    max: usize,
) -> Expired {
    let began = keyspace.clock().nanos();
    let mut effects = Effects::default();
    let (mut keys, mut elements) = (0, 0);
    // A long script may hold it; other threads must not wait for that.
    let Some(mut guard) = keyspace.locks().one_unless(index, || true) else { return Expired::default() };
    // Under the lock: nothing is removed any more once a pause has begun.
    if keyspace.expiry_is_paused() {
        return Expired::default();
    }
    // The sender of a key that is on its way here decides over its expiry; other keys of the shard expire on access.
    if keyspace.importing_slots().hides_any(keyspace.hasher().slots_of(index)) {
        return Expired::default();
    }
    let shard = &mut *guard;
    let resizes = keyspace.config().snapshot().flag(Directive::ACTIVEREHASHING);
    let mut next = Some(0);
    while let Some(db) = next.and_then(|number| shard.dbs.next(number)) {
        next = db.checked_add(1);
        keys += expire_keys(keyspace, shard, &mut effects, db, now, max - keys);
        elements += expire_elements(keyspace, shard, &mut effects, db, now, max - elements);
        if resizes {
            let hasher = |entry: &KeyEntry| keyspace.hasher().local_of(entry.key());
            shard.dbs[db].table.step(RESIZE_STEP, hasher);
        }
    }
    keyspace.settle_due_time(index, shard);
    keyspace.record_expired(shard, &mut effects);
    // Memory is free and events are recorded before another thread sees that the keys are gone.
    effects.settle(|| keyspace.config().snapshot().flag(Directive::LAZYFREE_LAZY_EXPIRE), || true);
    drop(effects.take_foreground());
    latency.note("expire-cycle", keyspace.clock().nanos().since(began), now);
    keyspace.settle_lengths(index, shard);
    Expired { effects, count: keys + elements, more: keys == max || elements == max }
}

/// Removes a key to which a client of a writable replica has given an expiry, if that has passed. False: a long script
/// holds its shard, and the caller has to retry.
pub(crate) fn expire_replica_key(
    keyspace: &Keyspace,
    effects: &mut Effects,
    (db, name): (u32, &[u8]),
    now: UnixMs,
) -> bool {
    let hash = keyspace.hasher().hash(name);
    let (index, local) = (hash.shard(), hash.local());
    let Some(mut guard) = keyspace.locks().one_unless(index, || true) else { return false };
    let shard = &mut *guard;
    let found = shard.dbs[db].table.find(local, |entry| entry.key() == name);
    if found.and_then(|entry| entry.expiry()).is_some_and(|at| is_due(at, now)) {
        removal::expire(keyspace, shard, effects, db, local, name);
    }
    keyspace.record_expired(shard, effects);
    effects.settle(|| keyspace.config().snapshot().flag(Directive::LAZYFREE_LAZY_EXPIRE), || true);
    drop(effects.take_foreground());
    keyspace.settle_lengths(index, shard);
    true
}

fn expire_keys(
    keyspace: &Keyspace,
    shard: &mut Shard,
    effects: &mut Effects,
    db: u32,
    now: UnixMs,
    max: usize,
) -> usize {
    let mut removed = 0;
    while removed < max
        && let Some(at) = shard.dbs[db].expiry.keys.pop_due(now.0 as u64)
    {
        removed += 1;
        let due = |entry: &KeyEntry| {
            entry.expiry().is_some_and(|expiry| is_due(expiry, now))
                && position(keyspace.hasher().local_of(entry.key())) == at
        };
        let hasher = |entry: &KeyEntry| keyspace.hasher().local_of(entry.key());
        if let Some(entry) = shard.dbs[db].table.remove_at_position(at, due, hasher) {
            let local = keyspace.hasher().local_of(entry.key());
            removal::expired(keyspace, shard, effects, db, local, entry);
        }
    }
    removed
}

fn expire_elements(
    keyspace: &Keyspace,
    shard: &mut Shard,
    effects: &mut Effects,
    db: u32,
    now: UnixMs,
    max: usize,
) -> usize {
    let mut removed = 0;
    while removed < max
        && let Some(at) = shard.dbs[db].expiry.elements.first_due(now.0 as u64)
    {
        let due = |entry: &KeyEntry| {
            element_expiry(entry).is_some_and(|expiry| is_due(expiry, now))
                && position(keyspace.hasher().local_of(entry.key())) == at
        };
        let Some(name) = shard.dbs[db].table.find_at_position(at, due).map(|entry| entry.key().to_vec()) else {
            debug_assert!(false, "a record without a collection");
            shard.dbs[db].expiry.elements.pop_due(now.0 as u64);
            continue;
        };
        let local = keyspace.hasher().local_of(&name);
        removed += removal::expire_elements(keyspace, shard, effects, db, local, &name, now, max - removed);
    }
    removed
}
