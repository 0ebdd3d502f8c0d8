//! The engine: the store with all that belongs to it.
//!
//! On top of all other rooms: it owns their parts and hands them down, and none of them knows of it.

mod background_work;
pub mod client_endings;
pub mod held_writes;
pub mod host;
pub mod memory_limit;
mod prefix_walk;
pub mod snapshot_steps;
pub mod status_copy;
pub mod unblock_clients;

use crate::acl::users::Users;
use crate::clients::deferred::Deferred;
use crate::clients::pubsub::PubSub;
use crate::clients::registry::Clients;
use crate::config::Config;
use crate::engine::host::Host;
use crate::engine::memory_limit::MemoryLimit;
use crate::engine::prefix_walk::PrefixWalk;
use crate::host::clock::Clock;
use crate::host::peer_connections::PeerConnections;
use crate::keyspace::{Keyspace, Options};
use crate::locks::sync::Mutex;
use crate::per_worker::PerWorker;
use crate::propagation::effects::{Author, Effects, ReadyKey};
use crate::snapshot::open_snapshots::OpenSnapshots;
use crate::stats::command_log::{CommandLog, LogReason};
use crate::stats::hot_key_tracking::HotKeys;
use crate::stats::latency_monitor::LatencyMonitor;
use crate::stats::mass_deletions::MassDeletions;
use crate::stats::metrics::{Rates, Totals, WorkerMetrics};
use crate::stats::slot_traffic::SlotTraffic;
use crate::status::cluster_status::ClusterStatus;
use crate::status::deny_reasons::Paused;
use crate::status::lag_hold::{LagHold, UNFRAMED_MAX};
use crate::status::pause::{Hold, Pause};
use crate::status::replication_status::ReplicationStatus;
use crate::time::{Nanos, SteadyMs, UnixUs};
use cluster::slot_map::SlotMap;
use cluster::slot_set::SlotSet;
use crossbeam_utils::CachePadded;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst};

/// An in-memory data structure store that any number of threads may use at once.
pub struct Engine {
    keyspace: Keyspace,
    host: Arc<dyn Host>,
    clients: Clients,
    users: Users,
    /// By worker, each on cache lines of its own.
    metrics: PerWorker<WorkerMetrics>,
    /// Workers that take new connections and share the background's work: the first so many.
    workers: AtomicUsize,
    pause: Pause,
    /// Blocking commands that have had to wait.
    arrivals: CachePadded<AtomicU64>,
    rates: Rates,
    pubsub: PubSub,
    latency: LatencyMonitor,
    command_log: CommandLog,
    hot_keys: HotKeys,
    mass_deletions: MassDeletions,
    prefix_walk: Mutex<PrefixWalk>,
    slot_traffic: SlotTraffic,
    attention: CachePadded<Attention>,
    /// `latency-tracking`.
    tracks_latency: AtomicBool,
    timers_paused: AtomicBool,
    open_snapshots: OpenSnapshots,
    replication: ReplicationStatus,
    cluster: ClusterStatus,
    deferred: Deferred,
    links: PeerConnections,
    memory_limit: MemoryLimit,
    stream_hold: LagHold,
}

/// The least of the thresholds above which a command is reported (command log, latency monitor, HOTKEYS, MONITOR), so
/// that most commands compare with this one only.
struct Attention {
    nanos: AtomicU64,
    bytes: AtomicU64,
    /// The least of the thresholds without HOTKEYS.
    nanos_of_others: AtomicU64,
    bytes_of_others: AtomicU64,
}

impl Default for Attention {
    fn default() -> Self {
        let never = || AtomicU64::new(u64::MAX);
        Attention { nanos: never(), bytes: never(), nanos_of_others: never(), bytes_of_others: never() }
    }
}

impl Deref for Engine {
    type Target = Keyspace;

    #[inline(always)]
    fn deref(&self) -> &Keyspace {
        &self.keyspace
    }
}

impl Engine {
    /// Makes an engine with the default configuration.
    #[track_caller]
    pub fn new(options: &Options, host: Arc<dyn Host>) -> Self {
        Engine::with_config(options, Config::default(), host)
    }

    /// Makes an empty engine with this configuration in force.
    #[track_caller]
    pub fn with_config(options: &Options, config: Config, host: Arc<dyn Host>) -> Self {
        let options = options.within_limits();
        Engine {
            keyspace: Keyspace::new(&options, config, Arc::clone(&host) as Arc<dyn Clock>),
            host,
            clients: Clients::default(),
            users: Users::default(),
            metrics: PerWorker::new(options.workers),
            workers: AtomicUsize::new(options.workers),
            rates: Rates::default(),
            pubsub: PubSub::new(options.workers),
            latency: LatencyMonitor::default(),
            command_log: CommandLog::default(),
            hot_keys: HotKeys::new(options.workers),
            mass_deletions: MassDeletions::default(),
            prefix_walk: Mutex::new(PrefixWalk::default()),
            slot_traffic: SlotTraffic::new(options.workers),
            attention: CachePadded::default(),
            tracks_latency: AtomicBool::new(true),
            pause: Pause::default(),
            arrivals: CachePadded::default(),
            timers_paused: AtomicBool::new(false),
            open_snapshots: OpenSnapshots::default(),
            replication: ReplicationStatus::default(),
            cluster: ClusterStatus::default(),
            deferred: Deferred::default(),
            links: PeerConnections::default(),
            memory_limit: MemoryLimit::new(options.workers),
            stream_hold: LagHold::new(Hold::Stream, UNFRAMED_MAX),
        }
    }

    /// Returns the host, for an engine beside this one.
    pub fn host_handle(&self) -> Arc<dyn Host> {
        Arc::clone(&self.host)
    }

    /// Returns the host: the process around the engine.
    pub fn host(&self) -> &dyn Host {
        &*self.host
    }

    /// Returns all connected clients.
    pub fn clients(&self) -> &Clients {
        &self.clients
    }

    /// Returns all users, and their rights.
    #[inline(always)]
    pub fn users(&self) -> &Users {
        &self.users
    }

    /// Returns the state of CLIENT PAUSE.
    pub fn pause(&self) -> &Pause {
        &self.pause
    }

    /// Pauses from `now` on until `until` (Unix times in milliseconds). A pause that is on is never made shorter or
    /// milder. Commands that were admitted before have ended when all locks have been
    /// [passed](crate::keyspace::Keyspace::pass_locks).
    pub fn begin_pause(&self, paused: Paused, until: SteadyMs, now: SteadyMs) {
        self.pause().begin(self.persistence_status(), paused, until, now);
    }

    /// Ends the pause that clients have asked for (CLIENT UNPAUSE).
    pub fn end_pause(&self) {
        self.pause().end(self.persistence_status());
    }

    /// Ends the pause that clients have asked for when its time has come; true when this call ended it.
    pub fn end_pause_if_over(&self, now: SteadyMs) -> bool {
        self.pause().end_if_over(self.persistence_status(), now)
    }

    /// Makes a pause of writes that clients have asked for end by that moment. Workers learn of it as of a new pause.
    pub fn limit_pause(&self, until: SteadyMs) {
        self.pause().limit(self.persistence_status(), until);
    }

    /// Refuses writes until each caller has called [`release_writes`](Self::release_writes) for the same reason;
    /// commands that run already end first.
    pub fn hold_writes(&self, hold: Hold) {
        self.pause().hold(self.persistence_status(), hold, true);
    }

    /// Releases the writes that [`hold_writes`](Self::hold_writes) holds.
    pub fn release_writes(&self, hold: Hold) {
        self.pause().hold(self.persistence_status(), hold, false);
    }

    /// Returns a number above all that were given before.
    fn next_arrival(&self) -> u64 {
        self.arrivals.fetch_add(1, Relaxed) + 1
    }

    /// Returns the replication status: the primary that the server follows, and the replicas that follow it.
    pub fn replication(&self) -> &ReplicationStatus {
        &self.replication
    }

    /// Returns the cluster status: the slots that are served here, if the server is a node of a cluster.
    #[inline]
    pub fn cluster(&self) -> &ClusterStatus {
        &self.cluster
    }

    /// Whether the server is a node of a cluster.
    pub fn is_clustered(&self) -> bool {
        self.persistence_status().deny_reasons().is_clustered()
    }

    /// Returns this moment by a clock that never goes back, by which spans are measured.
    pub fn steady_now(&self) -> SteadyMs {
        self.host().steady_ms(self.host().unix_us(UnixUs(0)))
    }

    /// Replaces the slot map. A command that was admitted before may still run until
    /// [all locks were passed](crate::keyspace::Keyspace::pass_locks).
    pub fn set_slot_map(&self, map: SlotMap) {
        let before = self.cluster.map();
        self.slot_traffic.reset(|slot| before.is_own(slot) != map.is_own(slot));
        self.cluster.set_map(map);
        self.persistence_status().begin_epoch();
    }

    /// Stops serving slots if the slot map has expired.
    #[cold]
    pub fn expire_slot_map(&self, now: Nanos) {
        if self.cluster.expire(now) {
            self.persistence_status().begin_epoch();
        }
    }

    /// Extends the slot map up to that moment. `knows`: if it had expired, the bus knew when it made this map. False if
    /// the bus does not know yet.
    pub fn extend_slot_map(&self, now: Nanos, until: Nanos, knows: bool) -> bool {
        let changes = self.cluster.extend(now, until, knows);
        if changes == Some(true) {
            self.persistence_status().begin_epoch();
        }
        changes.is_some()
    }

    /// Changes the slots that this server's primary has lost, as its stream tells: nobody reads them here, though the
    /// map may still say that they are its own.
    pub fn change_left_slots(&self, change: impl FnOnce(&mut SlotSet)) {
        self.cluster.change_left(change);
        self.persistence_status().begin_epoch();
    }

    /// Returns the connections to other servers, and keys on their way there.
    pub fn links(&self) -> &PeerConnections {
        &self.links
    }

    /// Returns the hold on writes that are ahead of the stream.
    pub(crate) fn stream_hold(&self) -> &LagHold {
        &self.stream_hold
    }

    /// Returns the memory limit.
    #[inline]
    pub fn memory_limit(&self) -> &MemoryLimit {
        &self.memory_limit
    }

    /// Counters, one set a worker.
    #[inline(always)]
    pub fn metrics(&self) -> &PerWorker<WorkerMetrics> {
        &self.metrics
    }

    /// Returns how many workers there are. Others may be on their way out.
    #[inline(always)]
    pub fn workers(&self) -> usize {
        self.workers.load(Relaxed)
    }

    /// Sets the number of workers, one at least.
    pub fn set_workers(&self, workers: usize) {
        self.workers.store(workers.max(1), SeqCst);
    }

    /// Returns how fast the counters grow; [`sample_rates`](Self::sample_rates) keeps it up to date.
    pub fn rates(&self) -> &Rates {
        &self.rates
    }

    /// Returns the subscribers and monitors.
    pub fn pubsub(&self) -> &PubSub {
        &self.pubsub
    }

    /// Starts or ends a connection's feed of a line of every command.
    pub fn monitor(&self, worker: usize, token: usize, on: bool) {
        self.pubsub.monitor(worker, token, on);
        self.refresh_attention();
    }

    /// Whether a command that took so long and moved so many bytes, in its request or in its reply, is of interest to
    /// the command log, the latency monitor, HOTKEYS, CLUSTER SLOT-STATS or clients in MONITOR.
    #[inline]
    pub fn wants_to_know(&self, nanos: u64, bytes: u64) -> bool {
        nanos >= self.attention.nanos.load(Relaxed) || bytes >= self.attention.bytes.load(Relaxed)
    }

    /// Recomputes the thresholds. To be called when one has changed.
    pub fn refresh_attention(&self) {
        let log = |reason| self.command_log.threshold(reason);
        let others = match self.pubsub.is_monitored() || self.slot_traffic.is_on() {
            true => (0, 0),
            false => (
                self.latency.threshold().min(log(LogReason::Slow)),
                log(LogReason::LargeRequest).min(log(LogReason::LargeReply)),
            ),
        };
        let all = if self.hot_keys.is_on() { (0, 0) } else { others };
        let Attention { nanos, bytes, nanos_of_others, bytes_of_others } = &*self.attention;
        for (place, threshold) in
            [(nanos_of_others, others.0), (bytes_of_others, others.1), (nanos, all.0), (bytes, all.1)]
        {
            place.store(threshold, Relaxed);
        }
    }

    /// Whether HOTKEYS alone wants to know of a command that is of interest.
    #[inline]
    pub fn only_hot_keys_want(&self, nanos: u64, bytes: u64) -> bool {
        nanos < self.attention.nanos_of_others.load(Relaxed) && bytes < self.attention.bytes_of_others.load(Relaxed)
    }

    /// Returns the latency monitor.
    pub fn latency(&self) -> &LatencyMonitor {
        &self.latency
    }

    /// Returns the log of SLOWLOG and COMMANDLOG.
    pub fn command_log(&self) -> &CommandLog {
        &self.command_log
    }

    /// Returns the use of each slot by commands.
    pub fn slot_traffic(&self) -> &SlotTraffic {
        &self.slot_traffic
    }

    /// Starts or ends the count of commands by slot.
    pub fn count_by_slot(&self, on: bool) {
        self.slot_traffic.set_on(on);
        self.refresh_attention();
    }

    /// Returns the keys that take the most.
    pub fn hot_keys(&self) -> &HotKeys {
        &self.hot_keys
    }

    /// Continues the walk that sums up the memory of keys by prefix. One worker calls this now and then.
    pub fn measure_prefixes(&self) {
        if self.users.measures_memory() {
            self.prefix_walk.lock().go_on(&self.keyspace, || self.users.measured_prefixes());
        }
    }

    /// Deletions of many keys that are under way.
    pub fn mass_deletions(&self) -> &MassDeletions {
        &self.mass_deletions
    }

    /// Whether histograms of each command's durations are kept.
    #[inline]
    pub fn tracks_latency(&self) -> bool {
        self.tracks_latency.load(Relaxed)
    }

    /// Sets `latency-tracking`.
    pub fn track_latency(&self, on: bool) {
        self.tracks_latency.store(on, Relaxed);
    }

    /// Samples the counters. One thread calls this about ten times a second.
    pub fn sample_rates(&self, now: SteadyMs) {
        self.rates.sample(now, || self.totals());
    }

    /// Returns the counts of workers and of replication together.
    pub fn totals(&self) -> Totals {
        let counts = &self.replication().counts;
        Totals {
            replication_input: counts.input_bytes.load(Relaxed),
            replication_output: counts.output_bytes.load(Relaxed),
            slot_import: counts.slot_import_bytes.load(Relaxed),
            slot_export: counts.slot_export_bytes.load(Relaxed),
            ..Totals::of(&self.metrics)
        }
    }

    /// Stops the periodic work of workers, or resumes it (DEBUG PAUSE-CRON).
    pub fn pause_timers(&self, paused: bool) {
        self.timers_paused.store(paused, Relaxed);
    }

    /// Whether workers leave out periodic work (DEBUG PAUSE-CRON).
    pub fn are_timers_paused(&self) -> bool {
        self.timers_paused.load(Relaxed)
    }

    /// Hands the effects of a command to the host. No lock may be held. Returns the keys whose waiting clients are to
    /// be [served](Self::serve) now.
    #[inline]
    #[must_use]
    pub fn publish(&self, effects: &mut Effects, author: Author) -> Vec<ReadyKey> {
        let Some(mut rare) = effects.take_rare() else { return Vec::new() };
        if !rare.changes.is_empty() || rare.flushed {
            self.tracking().tell(&self.pubsub, rare.changes, rare.flushed, author);
        }
        self.hand_to_observers(&mut rare.notes);
        rare.garbage.append(&mut rare.outlived);
        if !rare.garbage.is_empty() {
            self.host.free(rare.garbage);
        }
        if !rare.events.is_empty() {
            self.host.events(rare.events);
        }
        rare.ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DbSummary;
    use crate::clients::watch::WatchFlag;
    use crate::data::event_class::EventClass;
    use crate::data::value::NewString;
    use crate::engine::host::NullHost;
    use crate::host::threads::Server;
    use crate::keyspace::caller::ExecContext;
    use crate::keyspace::edit::Ttl;
    use crate::keyspace::held_locks::HeldLocks;
    use crate::keyspace::keys::Keys;
    use crate::keyspace::shard::ShardStats;
    use crate::propagation::log_batch::put_command;
    use crate::testing::MemoryLog;
    use crate::time::UnixMs;

    fn at(now: UnixMs) -> Server {
        Server { worker: 0, now_us: now.us() }
    }

    fn engine() -> Engine {
        Engine::new(
            &Options { shards: 4, databases: 2, hash_seed: 1, workers: 1, counts_slots: true },
            Arc::new(NullHost),
        )
    }

    fn keys<'e>(engine: &'e Engine, names: &[&[u8]], now: UnixMs) -> Keys<'e> {
        let hashes = names.iter().map(|name| engine.hasher().hash(name));
        Keys::new(engine, HeldLocks::keys(engine, hashes), 0, ExecContext::client(now))
    }

    fn set(engine: &Engine, name: &[u8], value: &[u8], ttl: Ttl, now: UnixMs) {
        let mut keys = keys(engine, &[name], now);
        let key = keys.key(name);
        let mut edit = keys.edit(key);
        edit.set_string(NewString::encode(value.into()), ttl);
        edit.commit(EventClass::STRING, "set");
        let mut text = Vec::new();
        put_command(&mut text, [&b"SET"[..], name, value].into_iter());
        keys.record(0, || text.into());
        keys.unlock();
        assert!(engine.publish(&mut keys.effects, Author { worker: 0, client: 0 }).is_empty());
    }

    fn get(engine: &Engine, name: &[u8], now: UnixMs) -> Option<Vec<u8>> {
        let mut keys = keys(engine, &[name], now);
        let key = keys.key(name);
        let value = keys.string(key).unwrap().map(|value| value.to_vec());
        keys.unlock();
        value
    }

    #[test]
    fn a_key_lives_until_its_expiry() {
        let engine = engine();
        set(&engine, b"k", b"v", Ttl::At(UnixMs(1000)), UnixMs(1));
        assert_eq!(get(&engine, b"k", UnixMs(999)).as_deref(), Some(&b"v"[..]));
        assert_eq!(get(&engine, b"k", UnixMs(1000)), None);
        assert_eq!(engine.len(0), 0, "the access removed it");
        assert_eq!(engine.stats(), ShardStats { hits: 1, misses: 1, expired: 1, dirty: 1, ..ShardStats::default() });
    }

    #[test]
    fn the_background_removes_what_nobody_looks_at() {
        let engine = engine();
        for n in 0..1000u32 {
            set(&engine, &n.to_le_bytes(), b"v", Ttl::At(UnixMs(1000 + i64::from(n % 2) * 1000)), UnixMs(1));
        }
        assert!(!engine.expire_due(0..4, at(UnixMs(999)), 10_000));
        assert_eq!(engine.len(0), 1000);
        assert!(engine.expire_due(0..4, at(UnixMs(1000)), 100), "the budget ends first");
        assert_eq!(engine.len(0), 900);
        assert!(!engine.expire_due(0..4, at(UnixMs(1000)), 10_000));
        assert_eq!(engine.summary(0, UnixMs(1000)), DbSummary { keys: 500, expires: 500, mean_ttl: 1000, volatile: 0 });
        engine.expire_due(0..4, at(UnixMs(2000)), 10_000);
        assert_eq!(engine.len(0), 0);
    }

    #[test]
    fn a_changed_expiry_replaces_the_old_one() {
        let engine = engine();
        set(&engine, b"k", b"v", Ttl::At(UnixMs(1000)), UnixMs(1));
        set(&engine, b"k", b"v", Ttl::At(UnixMs(5000)), UnixMs(1));
        engine.expire_due(0..4, at(UnixMs(2000)), 100);
        assert_eq!(engine.len(0), 1);
        set(&engine, b"k", b"v", Ttl::Clear, UnixMs(1));
        engine.expire_due(0..4, at(UnixMs(9000)), 100);
        assert_eq!(engine.summary(0, UnixMs(1)), DbSummary { keys: 1, expires: 0, mean_ttl: 0, volatile: 0 });
    }

    #[test]
    fn the_log_has_writes_in_order_and_the_end_of_expired_keys() {
        let engine = engine();
        let log = MemoryLog::of(&engine);
        set(&engine, b"k", b"1", Ttl::At(UnixMs(1000)), UnixMs(1));
        set(&engine, b"k", b"2", Ttl::At(UnixMs(1000)), UnixMs(2000));
        engine.expire_due(0..4, at(UnixMs(3000)), 10);
        let record = |words: &[&str]| (0, words.iter().map(|word| word.as_bytes().to_vec()).collect());
        let expected: Vec<(u32, Vec<Vec<u8>>)> = vec![
            record(&["SET", "k", "1"]),
            record(&["MULTI"]),
            record(&["UNLINK", "k"]),
            record(&["SET", "k", "2"]),
            record(&["EXEC"]),
            record(&["UNLINK", "k"]),
        ];
        assert_eq!(log.take(), expected);
    }

    #[test]
    fn watchers_see_writes_and_expiry() {
        let engine = engine();
        set(&engine, b"k", b"1", Ttl::At(UnixMs(1000)), UnixMs(1));
        let flag = Arc::new(WatchFlag::default());
        let index = engine.hasher().hash(b"k").shard();
        engine.locks().one(index).dbs[0].clients.watch(b"k", &flag, false);
        set(&engine, b"other", b"1", Ttl::Clear, UnixMs(1));
        assert!(!flag.is_raised());
        engine.expire_due(0..4, at(UnixMs(3000)), 10);
        assert!(flag.is_raised());
    }
}
