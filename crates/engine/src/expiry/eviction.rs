//! Eviction: the choice of keys to remove when there is more data than `maxmemory` allows, by `maxmemory-policy`.
//!
//! As in Redis: a few keys are drawn at random, the best of them are remembered in a pool from one eviction to the
//! next, and the one that was not used for longest (or least often) goes. Keys with the nearest expiry are not drawn,
//! since there is an index of them. A drawn key is checked again before it goes. Shards whose locks are not free are
//! passed over while others have keys.
//!
//! Keys of slots that are on their way here never go. If drawing finds only such keys, a [sweep](super::visible_sweep)
//! looks for others, a part at a time.
//!
//! `engine/memory_limit.rs` decides when keys must go, and for how long.

use crate::config::{Config, Directive};
use crate::data::slot::slot_of;
use crate::data::value::{KeyEntry, Value};
use crate::expiry::visible_sweep::{Swept, VisibleSweep};
use crate::keyspace::Keyspace;
use crate::keyspace::lru::AccessClock;
use crate::keyspace::removal::removed;
use crate::keyspace::shard::{Db, Shard};
use crate::locks::sync::{Mutex, MutexGuard};
use crate::propagation::change_observer::By;
use crate::propagation::effects::Effects;
use crate::status::deny_reasons::Epoch;
use structures::hashtable::{Ref, position};

/// A key that may be the next to go.
struct Candidate {
    /// The higher the sooner.
    score: u64,
    db: u32,
    name: Vec<u8>,
}

/// State from one eviction to the next.
#[derive(Default)]
pub(crate) struct Pool {
    /// Keys that were drawn and are the next to go.
    candidates: Mutex<Vec<Candidate>>,
    shares: Mutex<Shares>,
    sweep: Mutex<VisibleSweep>,
}

impl Pool {
    pub fn clear(&self) {
        self.candidates.lock().clear();
        self.shares.lock().draws_left = 0;
        *self.sweep.lock() = VisibleSweep::default();
    }
}

/// Keys of each shard at a recent moment, so that a key of a shard with many of them, as tags may bring them together,
/// is drawn as often as another.
#[derive(Default)]
struct Shares {
    /// Keys of a shard and of those before it.
    ends: Vec<u64>,
    /// Draws after which they are counted anew.
    draws_left: usize,
}

/// Draws from one count of the shards' keys, which costs as much as some evictions.
const DRAWS: usize = 64;

impl Shares {
    fn draw(&mut self, keyspace: &Keyspace, volatile: bool) -> usize {
        if self.draws_left == 0 {
            self.draws_left = DRAWS;
            let mut total = 0;
            self.ends.clear();
            self.ends.extend((0..keyspace.locks().len()).map(|index| {
                let stays = volatile && keyspace.is_shard_lasting(index) || is_hidden(keyspace, index);
                total += if stays { 0 } else { keyspace.shard_total(index) as u64 };
                total
            }));
        }
        self.draws_left -= 1;
        match self.ends.last() {
            None | Some(0) => 0,
            Some(&total) => {
                let pick = fastrand::u64(..total);
                self.ends.partition_point(|end| *end <= pick)
            }
        }
    }
}

/// Whether all keys of a shard are on their way here.
fn is_hidden(keyspace: &Keyspace, shard: usize) -> bool {
    keyspace.importing_slots().is_any() && keyspace.importing_slots().hides_all(keyspace.hasher().slots_of(shard))
}

/// Keys in the pool.
const POOL: usize = 16;
/// Elements of a collection from whose sizes its own is estimated.
const WEIGHED: usize = 5;
/// Shards whose nearest expiries are compared.
const COMPARED: usize = 64;
/// Drawn keys that were gone or have been used since, after which eviction is given up for now.
const MISSES_MAX: usize = 64;
/// Draws after which a shard is left in which all drawn keys were of slots on their way here.
const HIDDEN_TRIES: usize = 16;
/// Shards in which no other key was drawn, after which none is drawn any more.
const HIDDEN_SHARDS: usize = 32;

/// `maxmemory-policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EvictionPolicy {
    order: Order,
    /// Whether only keys with an expiry go.
    volatile: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// By the access clock, of either kind.
    Access,
    Expiry,
    Random,
}

impl EvictionPolicy {
    /// Parses a policy; None when nothing is to be evicted.
    pub fn named(name: &str) -> Option<EvictionPolicy> {
        let (which, order) = name.split_once('-')?;
        let order = match order {
            "ttl" => Order::Expiry,
            "random" => Order::Random,
            _ => Order::Access,
        };
        Some(EvictionPolicy { order, volatile: which == "volatile" })
    }
}

/// An eviction under way.
pub(crate) struct Eviction<'k> {
    pub keyspace: &'k Keyspace,
    pub config: &'k Config,
    pub policy: EvictionPolicy,
    pub clock: AccessClock,
    /// Epoch in which keys were admitted to go.
    pub admitted: Epoch,
}

impl Eviction<'_> {
    /// Removes the best key to go.
    pub fn evict_one(&self, pool: &Pool, effects: &mut Effects) -> Evicted {
        let evicted = match self.policy.order {
            Order::Random => self.evict_at_random(pool, effects),
            _ => self.evict_best(pool, effects),
        };
        match evicted {
            Evicted::None(_) if self.keyspace.importing_slots().is_any() => self.evict_visible(pool, effects),
            evicted => evicted,
        }
    }

    fn evict_best(&self, pool: &Pool, effects: &mut Effects) -> Evicted {
        let (keyspace, policy, clock) = (self.keyspace, self.policy, self.clock);
        let samples = self.config.int(Directive::MAXMEMORY_SAMPLES).max(1) as usize;
        let mut candidates = pool.candidates.lock();
        for _ in 0..MISSES_MAX {
            let first = self.first_shard(pool);
            let drawn = self.draw(first, samples, &mut candidates);
            let Some(best) = candidates.pop() else {
                if drawn == Drawn::Some {
                    continue;
                }
                return Evicted::None(drawn);
            };
            let hash = keyspace.hasher().hash(&best.name);
            let Some(mut shard) = self.admitted(keyspace.locks().try_one(hash.shard())) else { continue };
            let found = shard.dbs[best.db].table.find(hash.local(), |entry| entry.key() == best.name);
            if found.and_then(|entry| score(&entry, policy, clock)).is_some_and(|score| score >= best.score) {
                return Evicted::Bytes(self.remove_evicted(&mut shard, effects, best.db, &best.name));
            }
        }
        Evicted::None(Drawn::RetryLater)
    }

    /// Removes any key that may go, if one is found soon.
    fn evict_visible(&self, pool: &Pool, effects: &mut Effects) -> Evicted {
        let lock = |index| self.admitted(self.keyspace.locks().try_one(index));
        let take = |shard: &mut Shard, db, name: &[u8]| self.remove_evicted(shard, effects, db, name);
        match pool.sweep.lock().go_on(self.keyspace, self.policy.volatile, lock, take) {
            Swept::Found(bytes) => Evicted::Bytes(bytes),
            Swept::More => Evicted::None(Drawn::RetryLater),
            Swept::Nothing => Evicted::None(Drawn::Nothing),
        }
    }

    /// Returns the shard, unless a pause that has begun there since may keep its keys.
    fn admitted<'s>(&self, shard: Option<MutexGuard<'s, Shard>>) -> Option<MutexGuard<'s, Shard>> {
        shard.filter(|shard| shard.admits(self.admitted))
    }

    fn first_shard(&self, pool: &Pool) -> usize {
        pool.shares.lock().draw(self.keyspace, self.policy.volatile)
    }

    /// Draws keys into the pool: from one shard, or from more where they have few. Keys with the nearest expiry come
    /// from many shards.
    fn draw(&self, first: usize, samples: usize, candidates: &mut Vec<Candidate>) -> Drawn {
        let (policy, clock) = (self.policy, self.clock);
        let by_expiry = policy.order == Order::Expiry;
        let wanted = if by_expiry { COMPARED } else { samples };
        self.visit_shards(first, wanted, |shard, left| {
            let (mut drawn, has_hidden) = (0, self.keyspace.importing_slots().is_any());
            for (db, slot) in shard.dbs.iter() {
                let count = policy.offers(slot).min(if by_expiry { 1 } else { left });
                for _ in 0..count {
                    let Some(entry) = self.sample(slot) else {
                        if has_hidden {
                            break;
                        }
                        continue;
                    };
                    drawn += usize::from(has_hidden);
                    let Some(score) = score(&entry, policy, clock) else { continue };
                    remember(candidates, score, db, entry.key());
                }
                drawn += if has_hidden { 0 } else { count };
            }
            drawn
        })
    }

    /// Draws one of the keys that may go, or takes the one with the nearest expiry. Keys of slots that are on their way
    /// here are left out.
    fn sample<'s>(&self, slot: &'s Db) -> Option<Ref<'s, KeyEntry>> {
        let hidden = self.keyspace.importing_slots();
        if !hidden.is_any() {
            return self.sample_all(slot, 0);
        }
        let may_go = |entry: &Ref<'s, KeyEntry>| !hidden.hides(slot_of(entry.key()));
        (0..HIDDEN_TRIES).find_map(|rank| self.sample_all(slot, rank).filter(may_go))
    }

    /// Draws one of all keys, or takes the one with this rank by its expiry.
    fn sample_all<'s>(&self, slot: &'s Db, rank: usize) -> Option<Ref<'s, KeyEntry>> {
        if !self.policy.volatile {
            return slot.table.random(fastrand::u64(..));
        }
        let ends = &slot.expiry.keys;
        let rank = if self.policy.order == Order::Expiry { rank } else { fastrand::usize(..ends.len()) };
        let at = ends.position_at(rank)?;
        slot.table.find_at_position(at, |entry| {
            entry.expiry().is_some() && position(self.keyspace.hasher().local_of(entry.key())) == at
        })
    }

    fn evict_at_random(&self, pool: &Pool, effects: &mut Effects) -> Evicted {
        let mut bytes = 0;
        let drawn = self.visit_shards(self.first_shard(pool), 1, |shard, _| {
            let count = shard.dbs.iter().count();
            let from = fastrand::usize(..count);
            let all = || shard.dbs.iter();
            let drawn = all()
                .skip(from)
                .chain(all().take(from))
                .filter(|(_, slot)| self.policy.offers(slot) > 0)
                .find_map(|(db, slot)| self.sample(slot).map(|entry| (db, entry.key().to_vec())));
            let Some((db, name)) = drawn else { return usize::from(!self.keyspace.importing_slots().is_any()) };
            bytes = self.remove_evicted(shard, effects, db, &name);
            1
        });
        if drawn == Drawn::Some { Evicted::Bytes(bytes) } else { Evicted::None(drawn) }
    }

    /// Calls `visit` with shards that have keys that may go and whose locks are free, from this one on, until it has
    /// taken as much as is wanted; it gets the rest of that and returns how much it took. Locks that are not free are
    /// waited for only if it took nothing, a moment each.
    fn visit_shards(&self, first: usize, wanted: usize, mut visit: impl FnMut(&mut Shard, usize) -> usize) -> Drawn {
        let shards = self.keyspace.locks().len();
        let (mut taken, mut held, mut fruitless) = (0, Vec::new(), 0);
        let mut look = |shard: &mut Shard, taken: &mut usize| {
            if shard.dbs.iter().any(|(_, slot)| self.policy.offers(slot) > 0) {
                let visited = visit(shard, wanted - *taken);
                *taken += visited;
                fruitless += usize::from(visited == 0);
            }
            fruitless < HIDDEN_SHARDS
        };
        for index in (first..shards).chain(0..first) {
            let is_lasting = self.policy.volatile && self.keyspace.is_shard_lasting(index);
            if is_lasting || self.keyspace.shard_total(index) == 0 || is_hidden(self.keyspace, index) {
                continue;
            }
            let goes_on = match self.admitted(self.keyspace.locks().try_one(index)) {
                Some(mut shard) => look(&mut shard, &mut taken),
                None => {
                    held.push(index);
                    true
                }
            };
            if taken >= wanted {
                return Drawn::Some;
            }
            if !goes_on {
                return if taken > 0 { Drawn::Some } else { Drawn::RetryLater };
            }
        }
        if taken == 0 {
            held.retain(|index| {
                if taken > 0 {
                    return true;
                }
                let shard = self.keyspace.locks().one_unless(*index, || true);
                let Some(mut shard) = self.admitted(shard) else { return true };
                look(&mut shard, &mut taken);
                false
            });
        }
        match (taken, held.is_empty()) {
            (1.., _) => Drawn::Some,
            (0, false) => Drawn::RetryLater,
            (0, true) => Drawn::Nothing,
        }
    }

    /// Removes a key; returns about how many bytes that frees, now or soon.
    fn remove_evicted(&self, shard: &mut Shard, effects: &mut Effects, db: u32, name: &[u8]) -> u64 {
        let local = self.keyspace.hasher().local_of(name);
        let hasher = |entry: &KeyEntry| self.keyspace.hasher().local_of(entry.key());
        let Some(entry) = shard.dbs[db].table.remove(local, |entry| entry.key() == name, hasher) else {
            return 0;
        };
        let beyond = if let Value::Payload(object) = entry.value() { object.memory_usage(WEIGHED) } else { 0 };
        let bytes = entry.allocated() + beyond;
        removed(self.keyspace, shard, effects, db, local, entry, By::Eviction);
        self.keyspace.settle_lengths(shard.index(), shard);
        let word: &[u8] = if self.config.flag(Directive::LAZYFREE_LAZY_EVICTION) { b"UNLINK" } else { b"DEL" };
        self.keyspace.record_removal(shard, db, word, name);
        bytes as u64
    }
}

/// Result of drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Drawn {
    Some,
    /// There may be keys that may go: shards are locked by other threads, or not all keys were looked at.
    RetryLater,
    Nothing,
}

/// Memory that one attempt freed.
pub(crate) enum Evicted {
    Bytes(u64),
    None(Drawn),
}

impl EvictionPolicy {
    /// Returns how many keys of a database may go.
    fn offers(self, slot: &Db) -> usize {
        if self.volatile { slot.expiry.keys.len() } else { slot.table.len() }
    }
}

/// Returns how soon a key is to go; None if it may not.
fn score(entry: &KeyEntry, policy: EvictionPolicy, clock: AccessClock) -> Option<u64> {
    if policy.volatile && entry.expiry().is_none() {
        return None;
    }
    match (policy.order, clock) {
        (Order::Expiry, _) => Some(u64::MAX - entry.expiry()?),
        (_, AccessClock::Recency(_)) => Some(clock.idle_seconds(entry.meta()).into()),
        (_, AccessClock::Frequency { .. }) => Some(u64::from(u8::MAX) - u64::from(clock.frequency(entry.meta()))),
    }
}

/// Puts a key into the pool if it is among the best: the last one is the first to go.
fn remember(pool: &mut Vec<Candidate>, score: u64, db: u32, name: &[u8]) {
    if pool.len() == POOL && pool[0].score >= score || pool.iter().any(|other| other.db == db && other.name == name) {
        return;
    }
    let at = pool.partition_point(|other| other.score < score);
    pool.insert(at, Candidate { score, db, name: name.to_vec() });
    if pool.len() > POOL {
        pool.remove(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::event_class::EventClass;
    use crate::data::value::NewString;
    use crate::keyspace::caller::ExecContext;
    use crate::keyspace::edit::Ttl;
    use crate::keyspace::held_locks::HeldLocks;
    use crate::keyspace::keys::Keys;
    use crate::status::deny_reasons::Paused;
    use crate::time::{SteadyMs, UnixMs};
    use cluster::slot_set::SlotSet;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    #[test]
    fn a_policy_is_what_its_name_says() {
        assert_eq!(EvictionPolicy::named("noeviction"), None);
        for (name, volatile, order) in [
            ("volatile-lru", true, Order::Access),
            ("volatile-lfu", true, Order::Access),
            ("volatile-random", true, Order::Random),
            ("volatile-ttl", true, Order::Expiry),
            ("allkeys-lru", false, Order::Access),
            ("allkeys-lfu", false, Order::Access),
            ("allkeys-random", false, Order::Random),
        ] {
            assert_eq!(EvictionPolicy::named(name), Some(EvictionPolicy { order, volatile }), "{name}");
        }
    }

    #[test]
    fn a_shard_is_drawn_as_often_as_it_has_keys() {
        let engine = crate::Engine::new(
            &crate::Options { shards: 1024, ..Default::default() },
            std::sync::Arc::new(crate::NullHost),
        );
        let mut shares = Shares::default();
        assert_eq!(shares.draw(&engine, false), 0, "no keys");
        (0..300).for_each(|shard| engine.keys_came(shard, 0, 1));
        engine.keys_came(700, 3, 900);
        shares.draws_left = 0;
        let drawn: Vec<usize> = (0..10_000).map(|_| shares.draw(&engine, false)).collect();
        assert!(drawn.iter().all(|shard| *shard < 300 || *shard == 700));
        let large = drawn.iter().filter(|shard| **shard == 700).count();
        assert!((7000..8000).contains(&large), "{large}");
        engine.expires_at(5, Some(1));
        shares.draws_left = 0;
        assert!((0..200).all(|_| shares.draw(&engine, true) == 5), "only one has keys that may go");
    }

    #[test]
    fn keys_due_for_eviction_before_a_pause_stay_after_its_barrier() {
        let engine = crate::Engine::new(
            &crate::Options { shards: 4, ..Default::default() },
            std::sync::Arc::new(crate::NullHost),
        );
        let mut keys = Keys::new(&engine, HeldLocks::Nothing, 0, ExecContext::client(UnixMs(1)));
        for name in ["a", "b", "c"] {
            keys.hold([keys.key(name.as_bytes()).hash].into_iter()).unwrap();
            let mut edit = keys.edit(keys.key(name.as_bytes()));
            edit.set_string(NewString::Bytes(b"v"), Ttl::Clear);
            edit.commit(EventClass::STRING, "set");
            keys.unlock();
        }
        let (config, clock) = (engine.config().snapshot(), engine.access_clock(UnixMs(1)));
        let admitted = engine.epoch();
        let evict = |policy, pool: &Pool| {
            let policy = EvictionPolicy::named(policy).unwrap();
            let eviction = Eviction { keyspace: &engine, config: &config, policy, clock, admitted };
            matches!(eviction.evict_one(pool, &mut Effects::default()), Evicted::Bytes(_))
        };
        let (pool, drawn) = (Pool::default(), Pool::default());
        assert!(evict("allkeys-random", &pool) && evict("allkeys-lru", &drawn));
        engine.begin_pause(Paused::Writes, SteadyMs(i64::MAX), SteadyMs(1));
        assert!(engine.pass_locks(&mut 0, || false));
        assert!(!evict("allkeys-random", &pool) && !evict("allkeys-lru", &drawn));
        assert_eq!(engine.len(0), 1);
    }

    #[test]
    fn keys_on_their_way_stay_and_others_are_found_among_them() {
        for policy in ["allkeys-random", "allkeys-lru", "volatile-random", "volatile-lfu", "volatile-ttl"] {
            let engine = crate::Engine::new(
                &crate::Options { shards: 4, databases: 16, counts_slots: true, ..Default::default() },
                std::sync::Arc::new(crate::NullHost),
            );
            let hidden = slot_of(b"{h}");
            engine.importing_slots().hide([b'j'; 40], SlotSet::of([hidden..=hidden]));
            let put = |db: u32, name: String| {
                let mut keys = Keys::new(&engine, HeldLocks::Nothing, db, ExecContext::client(UnixMs(1)));
                keys.hold([keys.key(name.as_bytes()).hash].into_iter()).unwrap();
                let mut edit = keys.edit(keys.key(name.as_bytes()));
                // Hidden keys are the first to go.
                let at = if name.starts_with("{h}") { 1000 } else { 2000 };
                edit.set_string(NewString::Bytes(b"v"), Ttl::At(UnixMs(at)));
                edit.commit(EventClass::STRING, "set");
            };
            (0..3000).for_each(|number| put(0, format!("{{h}}{number}")));
            // In the same shard, and in the same table.
            let tag = (0..)
                .map(|n| n.to_string())
                .find(|tag| slot_of(tag.as_bytes()) / 4096 == hidden / 4096 && slot_of(tag.as_bytes()) != hidden)
                .unwrap();
            (0..3).for_each(|number| put(0, format!("{{{tag}}}{number}")));
            put(9, format!("{{{tag}}}"));
            let (config, clock) = (engine.config().snapshot(), engine.access_clock(UnixMs(1)));
            let named = EvictionPolicy::named(policy).unwrap();
            let eviction =
                Eviction { keyspace: &engine, config: &config, policy: named, clock, admitted: engine.epoch() };
            let (pool, mut gone) = (Pool::default(), 0);
            let ends = (0..500).any(|_| match eviction.evict_one(&pool, &mut Effects::default()) {
                Evicted::Bytes(_) => {
                    gone += 1;
                    false
                }
                Evicted::None(drawn) => drawn == Drawn::Nothing,
            });
            assert_eq!(
                (gone, engine.len(0), engine.visible_len(0), engine.len(9), ends),
                (4, 3000, 0, 0, true),
                "{policy}"
            );
        }
    }

    proptest! {
        #[test]
        fn the_pool_keeps_the_best(drawn in prop::collection::vec((0..100u64, 0..60u8), 0..200)) {
            let mut pool = Vec::new();
            let mut first = BTreeMap::new();
            for (score, key) in drawn {
                // A key is drawn with the same score, as long as it is not used.
                let score = *first.entry(key).or_insert(score);
                remember(&mut pool, score, 0, &[key]);
            }
            let mut best: Vec<u64> = first.into_values().collect();
            best.sort_unstable();
            let best = best.split_off(best.len().saturating_sub(POOL));
            prop_assert_eq!(pool.iter().map(|candidate| candidate.score).collect::<Vec<_>>(), best);
        }
    }
}
