//! The memory limit: how near to `maxmemory` the data is, and when keys are evicted.
//! [`eviction`](crate::expiry::eviction) chooses the keys.
//!
//! # How much there is
//! The allocator can tell exactly, but not before every command. So it is asked twenty times a second, and in between
//! every worker keeps count of what it allocates and frees itself:
//! ```text
//!   in use = base + counted by worker 0 + counted by worker 1 + ...     base: the allocator's count less these counts
//! ```
//! The change log is not counted, nor the bytes that replicas have still to be sent: evicting keys makes that more, not
//! less. Workers fill the log and other threads empty it ([`LogThread`]), so these have counts of their own, too.
//!
//! A worker that has found room runs commands without adding that up until it has taken its share of the room, half of
//! which all workers have together, but at least a little ([`SLACK_MAX`]). A worker that finds too much evicts as much
//! more, so that at the limit not every command adds up and not every one evicts. The memory in use differs from the
//! limit by no more than that little for each worker.
//!
//! # For how long
//! A command that finds too much evicts for as long as `maxmemory-eviction-tenacity` says and then runs; the background
//! continues. Commands that need memory are refused only when nothing is left to evict. A command waits for memory that
//! other threads are freeing, and evicts no more keys in its place.

use crate::config::{Config, Directive};
use crate::engine::Engine;
use crate::expiry::eviction::{Drawn, Evicted, Eviction, EvictionPolicy, Pool};
use crate::host::threads::Server;
use crate::locks::sync::Mutex;
use crate::per_worker::PerWorker;
use crate::propagation::effects::{Author, Effects};
use crate::stats::metrics::sum;
use crate::status::deny_reasons::Paused;
use crate::time::UnixMs;
use crossbeam_utils::CachePadded;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// The memory limit, and how near to it the data is.
pub struct MemoryLimit {
    /// In bytes; `u64::MAX` when there is none.
    limit: AtomicU64,
    /// See the module's documentation. Wraps around at zero.
    base: AtomicU64,
    /// Whether the limit was exceeded when memory was last measured, so that every command measures it.
    is_over: AtomicBool,
    /// Pieces of garbage that had been freed when the allocator was asked; [`UNKNOWN`] before it is.
    freed: AtomicUsize,
    /// Bytes that threads which read the change log have allocated and not freed, by [`LogThread`].
    log_threads: [CachePadded<AtomicU64>; LogThread::COUNT],
    /// One for each worker.
    pools: PerWorker<Pool>,
    /// Lock of a change of `base` by the counts of workers.
    measuring: Mutex<()>,
    /// Unix time in milliseconds since when there has been too much that eviction did not bring down at once; 0 for
    /// none.
    exceeded_since: AtomicI64,
    /// Milliseconds of earlier such spans together.
    exceeded_ms: AtomicU64,
}

/// The threads that read the change log, and free what they have read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogThread {
    /// The thread that writes the append-only file.
    File,
    /// The thread that makes the stream for replicas.
    Stream,
}

impl LogThread {
    const COUNT: usize = 2;
}

const UNKNOWN: usize = usize::MAX;
/// Room that no worker uses up in a turn.
const REST_OF_TURN: u64 = 1 << 60;
/// Bytes that a worker may allocate before it looks at what others have allocated, at most, and the part of the limit
/// that this is at most.
const SLACK_MAX: u64 = 16 << 10;
const SLACK_PART: u64 = 65_536;
/// Keys that are evicted between two looks at the clock.
const STEP: usize = 16;

/// Result of making room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    Enough,
    /// There will be room: more is to be evicted, or is being freed.
    Later,
    /// Nothing may be evicted.
    Nothing,
}

impl MemoryLimit {
    pub(super) fn new(workers: usize) -> Self {
        MemoryLimit {
            limit: AtomicU64::new(u64::MAX),
            base: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            freed: AtomicUsize::new(0),
            log_threads: Default::default(),
            pools: PerWorker::new(workers),
            measuring: Mutex::default(),
            exceeded_since: AtomicI64::new(0),
            exceeded_ms: AtomicU64::new(0),
        }
    }

    /// Returns the limit in bytes; `u64::MAX` without one.
    pub fn limit(&self) -> u64 {
        self.limit.load(Relaxed)
    }

    /// Whether the limit was exceeded when memory was last measured.
    pub fn is_over(&self) -> bool {
        self.is_over.load(Relaxed)
    }

    /// Sets whether the limit is exceeded. Written only when it changes: all workers read it before each command.
    fn set_over(&self, is_over: bool) {
        if self.is_over() != is_over {
            self.is_over.store(is_over, Relaxed);
        }
    }

    fn slack(&self) -> u64 {
        (self.limit() / SLACK_PART).min(SLACK_MAX)
    }

    /// Returns the milliseconds for which there was too much: all together, and of the present span.
    pub fn exceeded(&self, now: UnixMs) -> (u64, u64) {
        let present = match self.exceeded_since.load(Relaxed) {
            0 => 0,
            since => (now.0 - since).max(0) as u64,
        };
        (self.exceeded_ms.load(Relaxed) + present, present)
    }

    fn note(&self, outcome: Outcome, now: UnixMs) {
        if outcome == Outcome::Enough {
            if self.exceeded_since.load(Relaxed) == 0 {
                return;
            }
            let since = self.exceeded_since.swap(0, Relaxed);
            if since > 0 {
                self.exceeded_ms.fetch_add((now.0 - since).max(0) as u64, Relaxed);
            }
        } else {
            // The first thread to record it has the right time.
            let _ = self.exceeded_since.compare_exchange(0, now.0.max(1), Relaxed, Relaxed);
        }
    }
}

impl Engine {
    /// Sets `maxmemory`, or applies a changed policy; 0 bytes: there is no limit.
    pub fn limit_memory(&self, bytes: u64) {
        let memory_limit = self.memory_limit();
        memory_limit.limit.store(if bytes == 0 { u64::MAX } else { bytes }, Relaxed);
        memory_limit.pools.iter().for_each(|pool| pool.clear());
        self.persistence_status().set_limited(bytes > 0);
        self.persistence_status().set_short_of_memory(false);
        // The next command asks the allocator: this one may hold more than stays.
        memory_limit.freed.store(UNKNOWN, Relaxed);
        memory_limit.is_over.store(bytes > 0, Relaxed);
    }

    /// Asks the allocator. To be called now and then while there is a limit.
    pub fn measure_memory(&self) {
        let memory_limit = self.memory_limit();
        if memory_limit.limit() == u64::MAX {
            memory_limit.set_over(false);
            return;
        }
        memory_limit.freed.store(self.host().freeing().1, Relaxed);
        let _alone = memory_limit.measuring.lock();
        memory_limit.base.store(self.host().allocated().wrapping_sub(self.counted()), Relaxed);
        let is_over = self.in_use() > memory_limit.limit() + memory_limit.slack() * self.workers() as u64;
        memory_limit.set_over(is_over);
        if !is_over {
            // A command that finds room does not look for it, so it cannot tell that there is some again.
            self.persistence_status().set_short_of_memory(false);
        }
    }

    /// Returns the bytes that workers and the log's threads have counted.
    fn counted(&self) -> u64 {
        let workers = sum(self.metrics(), |worker| &worker.allocated);
        self.memory_limit().log_threads.iter().fold(workers, |sum, thread| sum.wrapping_add(thread.load(Relaxed)))
    }

    /// Counts the bytes that a thread of the log has allocated and freed. The thread calls it when it has read some.
    pub fn count_log_thread(&self, thread: LogThread) {
        self.memory_limit().log_threads[thread as usize].store(self.host().own_allocated(), Relaxed);
    }

    /// Returns the bytes in use that are no reason to evict.
    pub fn not_counted(&self) -> u64 {
        self.change_log().memory() + self.replication().kept_for_replicas()
    }

    fn in_use(&self) -> u64 {
        self.memory_limit().base.load(Relaxed).wrapping_add(self.counted()).saturating_sub(self.not_counted())
    }

    fn count_allocated(&self, worker: usize) -> u64 {
        let own = self.host().own_allocated();
        self.metrics()[worker].allocated.set(own);
        own
    }

    /// Begins the count of a worker, on its thread before its first turn: bytes that another thread has counted for the
    /// worker stay in use.
    pub fn begin_worker(&self, worker: usize) {
        let _alone = self.memory_limit().measuring.lock();
        let (metrics, base) = (&self.metrics()[worker], &self.memory_limit().base);
        let (before, own) = (metrics.allocated.get(), self.host().own_allocated());
        let less = before.wrapping_sub(own);
        // The memory in use looks smaller for a moment, never larger: nothing is evicted for it.
        if (less as i64) < 0 {
            base.fetch_add(less, Relaxed);
            metrics.allocated.set(own);
        } else {
            metrics.allocated.set(own);
            base.fetch_add(less, Relaxed);
        }
        metrics.has_room_until.set(own);
    }

    /// Ends a turn of a worker. Every worker calls it after each of its turns.
    pub fn end_turn(&self, worker: usize) {
        let own = self.count_allocated(worker);
        let until = &self.metrics()[worker].has_room_until;
        if until.get().wrapping_sub(own) as i64 > REST_OF_TURN as i64 / 2 {
            until.set(until.get().wrapping_sub(REST_OF_TURN));
        }
    }

    /// Evicts keys before a command if there is too much, while there is a limit. No lock may be held. Returns the
    /// length of the change log that has all evicted keys; 0: none was.
    #[inline]
    pub fn make_room(&self, server: Server) -> u64 {
        if self.has_room(server.worker) {
            return 0;
        }
        let before = self.change_log().appended();
        self.look_for_room(server);
        let after = self.change_log().appended();
        if after > before { after } else { 0 }
    }

    /// Whether there is room for another command of the worker's without a look at what others have taken.
    #[inline]
    pub fn has_room(&self, worker: usize) -> bool {
        let until = self.metrics()[worker].has_room_until.get();
        !self.memory_limit().is_over() && (self.count_allocated(worker).wrapping_sub(until) as i64) < 0
    }

    /// Makes room in the background; true when there is more to do.
    pub fn go_on_making_room(&self, server: Server) -> bool {
        let memory_limit = self.memory_limit();
        memory_limit.is_over()
            && memory_limit.freed.load(Relaxed) != UNKNOWN
            && self.look_for_room(server) == Outcome::Later
    }

    #[cold]
    fn look_for_room(&self, server: Server) -> Outcome {
        let memory_limit = self.memory_limit();
        self.count_allocated(server.worker);
        if self.host().freeing().1 != memory_limit.freed.load(Relaxed) {
            self.measure_memory();
        }
        let (limit, slack, in_use) = (memory_limit.limit(), memory_limit.slack(), self.in_use());
        let is_over = in_use > limit;
        let outcome = if is_over { self.evict(server) } else { Outcome::Enough };
        self.persistence_status().set_short_of_memory(outcome == Outcome::Nothing);
        memory_limit.set_over(outcome != Outcome::Enough);
        if outcome == Outcome::Enough {
            let share = if is_over {
                // Messages about evicted keys are no reason to evict more: they go with this turn.
                slack + REST_OF_TURN
            } else {
                ((limit - in_use) / (2 * self.workers() as u64)).clamp(slack, REST_OF_TURN / 4)
            };
            let own = self.count_allocated(server.worker);
            self.metrics()[server.worker].has_room_until.set(own.wrapping_add(share));
        }
        memory_limit.note(outcome, server.now_us.ms());
        outcome
    }

    fn evict(&self, server: Server) -> Outcome {
        let config = self.config().snapshot();
        let state = self.persistence_status().deny_reasons();
        let rests = state.paused() != Paused::Nothing || state.is_unlogged() || state.is_loading();
        if rests || self.scripts().is_busy() {
            return Outcome::Enough;
        }
        if self.is_following() && config.flag(Directive::REPLICA_IGNORE_MAXMEMORY) {
            return Outcome::Enough;
        }
        let Some(policy) =
            EvictionPolicy::named(config.choice(Directive::MAXMEMORY_POLICY)).filter(|_| !self.is_importing())
        else {
            return Outcome::Nothing;
        };
        let (began, patience) = (self.host().nanos(), patience(config.int(Directive::MAXMEMORY_EVICTION_TENACITY)));
        if self.host().freeing().0 > 0 {
            return Outcome::Later;
        }
        let limit = self.memory_limit();
        let too_much = self.in_use().saturating_sub(limit.limit()) + limit.slack();
        let clock = self.access_clock(server.now_us.ms());
        let eviction = Eviction { keyspace: self, config: &config, policy, clock, admitted: state.epoch() };
        let (mut freed, mut effects) = (0, Effects::default());
        let mut outcome = Outcome::Later;
        for count in 1.. {
            let step = self.host().nanos();
            match eviction.evict_one(&limit.pools[server.worker], &mut effects) {
                Evicted::Bytes(bytes) => freed += bytes,
                Evicted::None(Drawn::Nothing) => {
                    outcome = Outcome::Nothing;
                    break;
                }
                Evicted::None(_) => break,
            }
            self.latency().note("eviction-del", self.host().nanos().since(step), server.now_us.ms());
            self.hand_over(&config, &mut effects, server);
            if freed >= too_much {
                outcome = Outcome::Enough;
                break;
            }
            if count % STEP == 0 && self.host().nanos().since(began) > patience {
                break;
            }
        }
        self.latency().note("eviction-cycle", self.host().nanos().since(began), server.now_us.ms());
        outcome
    }

    /// Finishes the eviction of keys without locks: frees them and announces their removal.
    fn hand_over(&self, config: &Config, effects: &mut Effects, server: Server) {
        effects.settle(|| config.flag(Directive::LAZYFREE_LAZY_EVICTION), || true);
        let ready = self.publish(effects, Author { worker: server.worker, client: 0 });
        self.serve(ready, server);
    }
}

/// Returns the nanoseconds that one command may evict for.
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
    use crate::Options;
    use crate::host::memory::Memory;
    use crate::propagation::change_log::RecordHead;
    use crate::propagation::log_reader::Overflow;
    use std::ops::ControlFlow;
    use std::sync::Arc;

    /// A host whose allocator has so many bytes in use.
    struct InUse(AtomicU64);

    impl Memory for InUse {
        fn allocated(&self) -> u64 {
            self.0.load(Relaxed)
        }
    }

    crate::host_defaults!(InUse: Clock, Files, Threads, Peers, Process, Log, Connections, Delivery, EffectSink);

    fn engine_with(bytes: u64) -> (Engine, Arc<InUse>) {
        let host = Arc::new(InUse(AtomicU64::new(bytes)));
        let options = Options { shards: 1, databases: 1, hash_seed: 1, workers: 1, counts_slots: true };
        (Engine::new(&options, Arc::clone(&host) as Arc<dyn crate::Host>), host)
    }

    #[test]
    fn the_change_log_is_not_counted() {
        let (engine, host) = engine_with(1000);
        engine.limit_memory(1100);
        let is_over = || {
            engine.measure_memory();
            engine.memory_limit().is_over()
        };
        assert!(!is_over() && engine.not_counted() == engine.change_log().memory());
        let log = engine.change_log();
        let mut reader = log.open(Overflow::Keep);
        (0..10).for_each(|_| _ = log.append(RecordHead::command(0, None), &[b'x'; 100_000]));
        assert!(log.memory() >= 1_000_000);
        host.0.fetch_add(log.memory(), Relaxed);
        assert!(!is_over(), "the log waits for its reader");
        let before = log.memory();
        reader.read(u64::MAX, |_, _| ControlFlow::Continue(())).expect("it is kept");
        assert!(log.memory() < 200_000, "what all have read goes");
        assert!(is_over(), "what was freed of the log is in use for something else");
        host.0.fetch_sub(before - log.memory(), Relaxed);
        assert!(!is_over());
    }

    #[test]
    fn memory_that_a_thread_of_the_log_frees_makes_room_at_once() {
        let (engine, host) = engine_with(1_000_000);
        engine.limit_memory(1_200_000);
        engine.measure_memory();
        engine.metrics()[0].allocated.set(500_000);
        assert!(engine.in_use() > 1_200_000, "a worker has allocated since");
        engine.memory_limit().log_threads[LogThread::Stream as usize].store(0u64.wrapping_sub(500_000), Relaxed);
        assert_eq!(engine.in_use() + engine.not_counted(), host.0.load(Relaxed));
    }

    #[test]
    fn a_server_that_has_room_again_is_not_short_of_it() {
        let (engine, host) = engine_with(1000);
        engine.limit_memory(900_000);
        engine.measure_memory();
        let server = Server { worker: 0, now_us: crate::time::UnixUs(0) };
        engine.make_room(server);
        assert!(engine.has_room(0));
        host.0.store(1_000_000, Relaxed);
        engine.measure_memory();
        engine.make_room(server);
        let is_short = || engine.persistence_status().deny_reasons().is_short_of_memory();
        assert!(is_short(), "nothing may be evicted");
        host.0.store(500_000, Relaxed);
        engine.measure_memory();
        assert!(!is_short() && engine.has_room(0));
    }

    #[test]
    fn patience_grows_with_tenacity() {
        assert_eq!((patience(0), patience(1), patience(10), patience(100)), (0, 50_000, 500_000, u64::MAX));
        assert!((10..99).all(|tenacity| patience(tenacity) < patience(tenacity + 1)));
    }
}
