//! Eviction: keys that go when there is more data than `maxmemory` allows, chosen by `maxmemory-policy`.
//!
//! # How much there is
//! The allocator can tell exactly, but not before every command. So it is asked twenty times a second, and in between
//! every worker keeps count of what it allocates and frees itself:
//! ```text
//!   in use = base + counted by worker 0 + counted by worker 1 + ...        base: what the allocator said, less these counts
//! ```
//! What of it waits to be written to the log is not counted: evicting keys makes that more, not less.
//! A worker that has found room goes on without adding that up until it has taken its share of the room, half of which
//! all workers have together.
//!
//! # Who goes
//! As in Redis: a few keys are drawn at random, the best of them are remembered in a pool from one time to the next,
//! and the one that was not used for longest (or least often) goes. Keys with the nearest end are not drawn, there is
//! an index of them. A drawn key is looked at again before it goes. Shards that somebody else holds are passed over
//! while others have keys.
//!
//! # For how long
//! A command that finds too much evicts for as long as `maxmemory-eviction-tenacity` says and then runs; the background
//! goes on. Only when there is nothing left to evict, commands that need memory are refused. What is freed on other
//! threads is waited for, not made up for with more keys.

use crate::clients::tracking::Author;
use crate::clients::waiters;
use crate::config::{Config, Directive};
use crate::data::value::{KeyEntry, Value};
use crate::engine::Engine;
use crate::host::threads::Server;
use crate::keyspace::lru::{AccessClock, Cause, removed};
use crate::keyspace::shard::{Db, Shard};
use crate::locks::sync::Mutex;
use crate::propagation::change_log::ChangeLog;
use crate::propagation::effects::Effects;
use crate::stats::metrics::sum;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use structures::hashtable::{Ref, position};

/// The memory limit, and how near to it the data is.
pub struct MemoryLimit {
    /// In bytes; `u64::MAX` when there is none.
    limit: AtomicU64,
    /// See the module's documentation. Wraps around at zero.
    base: AtomicU64,
    /// There was too much the last time that somebody looked, so that everybody looks.
    is_over: AtomicBool,
    /// Pieces of garbage that had been freed when the allocator was asked; [`UNKNOWN`] before it is.
    freed: AtomicUsize,
    pool: Mutex<Vec<Candidate>>,
    /// Unix time in milliseconds since when there has been too much that eviction did not bring down at once; 0 for
    /// none.
    exceeded_since: AtomicI64,
    /// Milliseconds of earlier such times together.
    exceeded_ms: AtomicU64,
}

/// A key that may be the next to go.
struct Candidate {
    /// The higher the sooner.
    score: u64,
    db: u32,
    name: Vec<u8>,
}

const UNKNOWN: usize = usize::MAX;
/// Keys that are remembered.
const POOL: usize = 16;
/// Room that nobody uses up in a turn.
const REST_OF_TURN: u64 = 1 << 60;
/// Elements by which a collection is weighed.
const WEIGHED: usize = 5;
/// Shards whose nearest ends are compared.
const COMPARED: usize = 64;
/// Keys that are evicted between two looks at the clock.
const STEP: usize = 16;
/// Drawn keys that were gone or have been used since, after which eviction is given up for now.
const MISSES_MAX: usize = 64;

/// `maxmemory-policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Policy {
    order: Order,
    /// Only keys with a deadline go.
    volatile: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// By the access clock, whichever kind it is.
    Access,
    Deadline,
    Random,
}

impl Policy {
    /// None when nothing is to be evicted.
    fn named(name: &str) -> Option<Policy> {
        let (which, order) = name.split_once('-')?;
        let order = match order {
            "ttl" => Order::Deadline,
            "random" => Order::Random,
            _ => Order::Access,
        };
        Some(Policy { order, volatile: which == "volatile" })
    }
}

/// What came of making room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Enough,
    /// There will be room: more is to be evicted, or is being freed.
    Later,
    /// Nothing may be evicted.
    Nothing,
}

impl Default for MemoryLimit {
    fn default() -> Self {
        MemoryLimit {
            limit: AtomicU64::new(u64::MAX),
            base: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            freed: AtomicUsize::new(0),
            pool: Mutex::default(),
            exceeded_since: AtomicI64::new(0),
            exceeded_ms: AtomicU64::new(0),
        }
    }
}

impl MemoryLimit {
    pub fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Whether more was in use than there may be, when somebody looked last.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    /// Milliseconds for which there was too much: all together, and of the present time.
    pub fn exceeded(&self, now: i64) -> (u64, u64) {
        let present = match self.exceeded_since.load(Relaxed) {
            0 => 0,
            since => (now - since).max(0) as u64,
        };
        (self.exceeded_ms.load(Relaxed) + present, present)
    }

    fn note(&self, outcome: Outcome, now: i64) {
        if outcome == Outcome::Enough {
            let since = self.exceeded_since.swap(0, Relaxed);
            if since > 0 {
                self.exceeded_ms.fetch_add((now - since).max(0) as u64, Relaxed);
            }
        } else {
            // Whoever notes it first has the right time.
            let _ = self.exceeded_since.compare_exchange(0, now.max(1), Relaxed, Relaxed);
        }
    }
}

impl Engine {
    /// `maxmemory` or the policy has changed; 0 bytes: there is no limit.
    pub fn limit_memory(&self, bytes: u64) {
        let memory_limit = self.memory_limit();
        memory_limit.limit.store(if bytes == 0 { u64::MAX } else { bytes }, Relaxed);
        memory_limit.pool.lock().clear();
        self.saves().set_limited(bytes > 0);
        self.saves().set_short_of_memory(false);
        // The next command has the allocator asked: this one may hold more than stays.
        memory_limit.freed.store(UNKNOWN, Relaxed);
        memory_limit.is_over.store(bytes > 0, Relaxed);
    }

    /// Asks the allocator. To be called now and then while there is a limit.
    pub fn measure_memory(&self) {
        let memory_limit = self.memory_limit();
        if memory_limit.limit() == u64::MAX {
            memory_limit.is_over.store(false, Relaxed);
            return;
        }
        memory_limit.freed.store(self.host().freeing().1, Relaxed);
        memory_limit.base.store(self.host().allocated().wrapping_sub(self.counted()), Relaxed);
        memory_limit.is_over.store(self.in_use() > memory_limit.limit(), Relaxed);
    }

    /// What workers have counted.
    fn counted(&self) -> u64 {
        sum(self.metrics(), |worker| &worker.allocated)
    }

    /// Bytes that are in use and no reason to evict.
    pub fn not_counted(&self) -> u64 {
        self.change_log().map_or(0, ChangeLog::waiting)
    }

    fn in_use(&self) -> u64 {
        self.memory_limit().base.load(Relaxed).wrapping_add(self.counted()).saturating_sub(self.not_counted())
    }

    fn count_allocated(&self, worker: usize) -> u64 {
        let own = self.host().own_allocated();
        self.metrics()[worker].allocated.set(own);
        own
    }

    /// To be called by every worker after each of its turns.
    pub fn end_turn(&self, worker: usize) {
        let own = self.count_allocated(worker);
        let until = &self.metrics()[worker].has_room_until;
        if until.get().wrapping_sub(own) as i64 > REST_OF_TURN as i64 / 2 {
            until.set(own);
        }
    }

    /// Before a command, while there is a limit: evicts keys if there is too much. No lock may be held.
    #[inline]
    pub fn make_room(&self, server: Server) {
        if !self.has_room(server.worker) {
            self.look_for_room(server);
        }
    }

    /// Whether there is room for another command of the worker's without a look at what others have taken.
    #[inline]
    pub fn has_room(&self, worker: usize) -> bool {
        let until = self.metrics()[worker].has_room_until.get();
        !self.memory_limit().is_over() && (self.count_allocated(worker).wrapping_sub(until) as i64) < 0
    }

    /// The same from the background; true when there is more to do.
    pub fn go_on_making_room(&self, server: Server) -> bool {
        let memory_limit = self.memory_limit();
        memory_limit.is_over()
            && memory_limit.freed.load(Relaxed) != UNKNOWN
            && self.look_for_room(server) == Outcome::Later
    }

    #[cold]
    fn look_for_room(&self, server: Server) -> Outcome {
        let memory_limit = self.memory_limit();
        let own = self.count_allocated(server.worker);
        if self.host().freeing().1 != memory_limit.freed.load(Relaxed) {
            self.measure_memory();
        }
        let (limit, in_use) = (memory_limit.limit(), self.in_use());
        let is_over = in_use > limit;
        memory_limit.is_over.store(is_over, Relaxed);
        let outcome = if is_over { self.evict(server) } else { Outcome::Enough };
        self.saves().set_short_of_memory(outcome == Outcome::Nothing);
        if outcome == Outcome::Enough {
            memory_limit.is_over.store(false, Relaxed);
            // Messages about evicted keys are no reason to evict more: they go with this turn.
            let share = if is_over { REST_OF_TURN } else { (limit - in_use) / (2 * self.metrics().len() as u64) };
            self.metrics()[server.worker].has_room_until.set(own.wrapping_add(share.min(REST_OF_TURN)));
        }
        memory_limit.note(outcome, server.now_us / 1000);
        outcome
    }

    fn evict(&self, server: Server) -> Outcome {
        let config = self.config().snapshot();
        let rests = self.is_paused() || self.is_unlogged();
        if rests || self.saves().deny_reasons().is_loading() || self.scripts().is_busy() {
            return Outcome::Enough;
        }
        let Some(policy) = Policy::named(config.choice(Directive::MAXMEMORY_POLICY)).filter(|_| !self.is_importing())
        else {
            return Outcome::Nothing;
        };
        let (began, patience) = (self.host().nanos(), patience(config.int(Directive::MAXMEMORY_EVICTION_TENACITY)));
        if self.host().freeing().0 > 0 {
            return Outcome::Later;
        }
        let too_much = self.in_use().saturating_sub(self.memory_limit().limit());
        let (mut freed, mut effects) = (0, Effects::default());
        let mut outcome = Outcome::Later;
        for count in 1.. {
            let step = self.host().nanos();
            match self.evict_one(&config, policy, server, &mut effects) {
                Evicted::Bytes(bytes) => freed += bytes,
                Evicted::None(Drawn::Nothing) => {
                    outcome = Outcome::Nothing;
                    break;
                }
                Evicted::None(_) => break,
            }
            self.latency().note("eviction-del", self.host().nanos() - step, server.now_us / 1000);
            self.hand_over(&config, &mut effects, server);
            if freed >= too_much {
                outcome = Outcome::Enough;
                break;
            }
            if count % STEP == 0 && self.host().nanos() - began > patience {
                break;
            }
        }
        self.latency().note("eviction-cycle", self.host().nanos() - began, server.now_us / 1000);
        outcome
    }

    /// What is left to do of evicted keys without locks.
    fn hand_over(&self, config: &Config, effects: &mut Effects, server: Server) {
        effects.settle(|| config.flag(Directive::LAZYFREE_LAZY_EVICTION), || true);
        let ready = self.publish(effects, Author { worker: server.worker, client: 0 });
        waiters::serve(self, ready, server);
    }

    fn evict_one(&self, config: &Config, policy: Policy, server: Server, effects: &mut Effects) -> Evicted {
        if policy.order == Order::Random {
            return self.evict_at_random(config, policy, effects);
        }
        let clock = self.access_clock(server.now_us / 1000);
        let samples = config.int(Directive::MAXMEMORY_SAMPLES).max(1) as usize;
        let mut pool = self.memory_limit().pool.lock();
        for _ in 0..MISSES_MAX {
            let drawn = self.draw(policy, clock, samples, &mut pool);
            let Some(best) = pool.pop() else {
                if drawn == Drawn::Some {
                    continue;
                }
                return Evicted::None(drawn);
            };
            let hash = self.hasher().hash(&best.name);
            let Some(mut shard) = self.locks().try_one(hash.shard()) else { continue };
            let found = shard.dbs[best.db].table.find(hash.local(), |entry| entry.key() == best.name);
            if found.and_then(|entry| score(&entry, policy, clock)).is_some_and(|score| score >= best.score) {
                return Evicted::Bytes(self.remove_evicted(config, &mut shard, effects, best.db, &best.name));
            }
        }
        Evicted::None(Drawn::Held)
    }

    /// Draws keys into the pool: from one shard, or from more where they have few. Keys with the nearest end are those
    /// of many shards.
    fn draw(&self, policy: Policy, clock: AccessClock, samples: usize, pool: &mut Vec<Candidate>) -> Drawn {
        let by_deadline = policy.order == Order::Deadline;
        let wanted = if by_deadline { COMPARED } else { samples };
        self.somewhere(policy, wanted, |shard, left| {
            let mut drawn = 0;
            for (db, slot) in shard.dbs.iter() {
                let count = policy.offers(slot).min(if by_deadline { 1 } else { left });
                for _ in 0..count {
                    let Some(entry) = self.sample(policy, slot) else { continue };
                    let Some(score) = score(&entry, policy, clock) else { continue };
                    remember(pool, score, db, entry.key());
                }
                drawn += count;
            }
            drawn
        })
    }

    /// One of the keys that may go, or the one with the nearest end.
    fn sample<'s>(&self, policy: Policy, slot: &'s Db) -> Option<Ref<'s, KeyEntry>> {
        if !policy.volatile {
            return slot.table.random(fastrand::u64(..));
        }
        let ends = &slot.expiry.keys;
        let rank = if policy.order == Order::Deadline { 0 } else { fastrand::usize(..ends.len()) };
        let at = ends.position_at(rank)?;
        slot.table.find_at_position(at, |entry| {
            entry.deadline().is_some() && position(self.hasher().local_of(entry.key())) == at
        })
    }

    fn evict_at_random(&self, config: &Config, policy: Policy, effects: &mut Effects) -> Evicted {
        let mut bytes = 0;
        let drawn = self.somewhere(policy, 1, |shard, _| {
            let count = shard.dbs.iter().count();
            let from = fastrand::usize(..count);
            let all = || shard.dbs.iter();
            let drawn = all()
                .skip(from)
                .chain(all().take(from))
                .filter(|(_, slot)| policy.offers(slot) > 0)
                .find_map(|(db, slot)| self.sample(policy, slot).map(|entry| (db, entry.key().to_vec())));
            if let Some((db, name)) = drawn {
                bytes = self.remove_evicted(config, shard, effects, db, &name);
            }
            1
        });
        if drawn == Drawn::Some { Evicted::Bytes(bytes) } else { Evicted::None(drawn) }
    }

    /// Calls `visit` with shards that have keys that may go and that nobody holds, from a random one on, until it has
    /// taken as much as is wanted; it is told what is left of that and says how much it took. Only where it took
    /// nothing others are waited for, a moment each.
    fn somewhere(&self, policy: Policy, wanted: usize, mut visit: impl FnMut(&mut Shard, usize) -> usize) -> Drawn {
        let shards = self.locks().len();
        let first = fastrand::usize(..shards);
        let (mut taken, mut held) = (0, Vec::new());
        let mut look = |shard: &mut Shard, taken: &mut usize| {
            if shard.dbs.iter().any(|(_, slot)| policy.offers(slot) > 0) {
                *taken += visit(shard, wanted - *taken);
            }
        };
        for index in (first..shards).chain(0..first) {
            match self.locks().try_one(index) {
                Some(mut shard) => look(&mut shard, &mut taken),
                None => held.push(index),
            }
            if taken >= wanted {
                return Drawn::Some;
            }
        }
        if taken == 0 {
            held.retain(|index| {
                if taken > 0 {
                    return true;
                }
                let Some(mut shard) = self.locks().one_unless(*index, || true) else { return true };
                look(&mut shard, &mut taken);
                false
            });
        }
        match (taken, held.is_empty()) {
            (1.., _) => Drawn::Some,
            (0, false) => Drawn::Held,
            (0, true) => Drawn::Nothing,
        }
    }

    /// Returns about how many bytes that frees, now or soon.
    fn remove_evicted(&self, config: &Config, shard: &mut Shard, effects: &mut Effects, db: u32, name: &[u8]) -> u64 {
        let local = self.hasher().local_of(name);
        let hasher = |entry: &KeyEntry| self.hasher().local_of(entry.key());
        let Some(entry) = shard.dbs[db].table.remove(local, |entry| entry.key() == name, hasher) else {
            return 0;
        };
        let beyond = if let Value::Payload(object) = entry.value() { object.memory_usage(WEIGHED) } else { 0 };
        let bytes = entry.allocated() + beyond;
        removed(self, shard, effects, db, local, entry, Cause::Evicted);
        let word: &[u8] = if config.flag(Directive::LAZYFREE_LAZY_EVICTION) { b"UNLINK" } else { b"DEL" };
        self.record_removal(db, word, name);
        bytes as u64
    }
}

/// What came of drawing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Drawn {
    Some,
    /// Somebody else has what may go.
    Held,
    Nothing,
}

/// What one attempt freed.
enum Evicted {
    Bytes(u64),
    None(Drawn),
}

impl Policy {
    /// How many keys of a database may go.
    fn offers(self, slot: &Db) -> usize {
        if self.volatile { slot.expiry.keys.len() } else { slot.table.len() }
    }
}

/// How soon a key is to go; None if it may not.
fn score(entry: &KeyEntry, policy: Policy, clock: AccessClock) -> Option<u64> {
    if policy.volatile && entry.deadline().is_none() {
        return None;
    }
    match (policy.order, clock) {
        (Order::Deadline, _) => Some(u64::MAX - entry.deadline()?),
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

/// Nanoseconds that one command may evict for.
fn patience(tenacity: i64) -> u64 {
    const AT_TEN: f64 = 500_000.0;
    match tenacity {
        0..=10 => 50_000 * tenacity as u64,
        11..=99 => (AT_TEN * 1.15f64.powi(tenacity as i32 - 10)) as u64,
        _ => u64::MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::memory::Memory;

    use crate::engine::Options;
    use crate::propagation::change_log::put_command;

    use crate::testing::MemoryLog;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::sync::Arc;

    struct Full;

    impl Memory for Full {
        fn allocated(&self) -> u64 {
            1000
        }
    }

    crate::host_defaults!(Full: Clock, Files, Threads, Peers, Process, Log, Connections, Delivery, EffectSink);

    #[test]
    fn what_waits_for_the_log_is_not_counted() {
        let engine = Engine::new(&Options { shards: 1, databases: 1, hash_seed: 1, workers: 1 }, Arc::new(Full));
        let log = MemoryLog::of(&engine);
        engine.limit_memory(950);
        let is_over = || {
            engine.measure_memory();
            engine.memory_limit().is_over()
        };
        assert!(is_over());
        log.append(0, 0, false, &mut |out| put_command(out, [&b"DEL"[..], &[b'k'; 60]].into_iter()));
        assert!(!is_over() && engine.not_counted() >= 60);
        log.take();
        assert!(is_over());
    }

    #[test]
    fn a_policy_is_what_its_name_says() {
        assert_eq!(Policy::named("noeviction"), None);
        for (name, volatile, order) in [
            ("volatile-lru", true, Order::Access),
            ("volatile-lfu", true, Order::Access),
            ("volatile-random", true, Order::Random),
            ("volatile-ttl", true, Order::Deadline),
            ("allkeys-lru", false, Order::Access),
            ("allkeys-lfu", false, Order::Access),
            ("allkeys-random", false, Order::Random),
        ] {
            assert_eq!(Policy::named(name), Some(Policy { order, volatile }), "{name}");
        }
    }

    #[test]
    fn patience_grows_with_tenacity() {
        assert_eq!((patience(0), patience(1), patience(10), patience(100)), (0, 50_000, 500_000, u64::MAX));
        assert!((10..99).all(|tenacity| patience(tenacity) < patience(tenacity + 1)));
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
