//! The engine: the store with all that belongs to it.
//!
//! On top of all other rooms: it owns their parts and hands them down, and none of them knows of it.

pub mod host;

use crate::clients::pubsub::PubSub;
use crate::clients::registry::Clients;
use crate::clients::tracking::{Author, Tracking};
use crate::config::{Config, ConfigStore, Directive};
use crate::data::event_class::EventClass;
use crate::data::key_hash::{KeyHash, KeyHasher};
use crate::data::table::EntryHint;
use crate::data::value::Value;
use crate::engine::host::Host;
use crate::expiry::eviction::MemoryLimit;
use crate::host::peer_connections::Links;
use crate::keyspace::encoding_limits::Packing;
use crate::keyspace::keys::Key;
use crate::keyspace::lru::AccessClock;
use crate::keyspace::shard::{Shard, ShardStats};
use crate::locks::deferred::Deferred;
use crate::locks::protocol::LockSet;
use crate::propagation::change_log::{Batch, ChangeLog, put_command};
use crate::propagation::effects::{Effects, Logged, ReadyKey};
use crate::scripts::script_cache::Scripts;
use crate::stats::command_log::{CommandLog, Reason};
use crate::stats::latency_monitor::LatencyMonitor;
use crate::stats::metrics::{Rates, Totals, WorkerMetrics};
use crate::status::deny_reasons::Paused;
use crate::status::pause::Pause;
use crate::status::persistence_status::Saves;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use structures::hashtable::{BucketHint, HintedArray};

/// How an engine is built.
#[derive(Clone, Debug)]
pub struct Options {
    /// Pieces of the keyspace; rounded up to a power of two, at most 4096.
    pub shards: usize,
    /// Numbered databases, at least 1.
    pub databases: usize,
    /// The secret of the key hash.
    pub hash_seed: u64,
    /// Threads that count what they do in [`Engine::metrics`]; sessions name theirs.
    pub workers: usize,
}

impl Default for Options {
    fn default() -> Self {
        Options { shards: 64, databases: 16, hash_seed: 0, workers: 1 }
    }
}

/// How accesses are to be counted; `maxmemory-policy` and the lfu directives decide.
#[derive(Default)]
struct AccessPolicy {
    by_frequency: AtomicBool,
    decay: AtomicU32,
    log_factor: AtomicU32,
}

/// An in-memory data structure store that any number of threads may use at once.
pub struct Engine {
    locks: LockSet<Shard>,
    /// By database, then by shard. Where there are many databases some share theirs: hints may be wrong.
    hints: Box<[SharedHint]>,
    hasher: KeyHasher,
    databases: usize,
    host: Arc<dyn Host>,
    log: OnceLock<Arc<dyn ChangeLog>>,
    /// Changes go into the log. Turned under all locks, so that whoever holds one may rely on it.
    logs: AtomicBool,
    access: AccessPolicy,
    event_mask: AtomicU32,
    clients: Clients,
    config: ConfigStore,
    packing: Packing,
    metrics: Box<[WorkerMetrics]>,
    pause: Pause,
    /// Blocking commands that had to wait so far.
    arrivals: AtomicU64,
    rates: Rates,
    pubsub: PubSub,
    tracking: Tracking,
    scripts: Scripts,
    latency: LatencyMonitor,
    command_log: CommandLog,
    attention: Attention,
    /// `latency-tracking`.
    tracks_latency: AtomicBool,
    /// DEBUG SET-ACTIVE-EXPIRE 0: keys expire when somebody looks at them only.
    expiry_paused: AtomicBool,
    timers_paused: AtomicBool,
    /// `import-mode`.
    importing: AtomicBool,
    /// Somebody reads the keyspace as it was at one moment.
    pub(crate) cut_open: AtomicBool,
    saves: Saves,
    /// 40 hexadecimal digits that name the history of this data set.
    replication_id: Mutex<String>,
    pub(crate) deferred: Deferred,
    links: Links,
    memory_limit: MemoryLimit,
}

/// The least of all thresholds from which on somebody wants to know of a command, so that most need only look here.
struct Attention {
    nanos: AtomicU64,
    bytes: AtomicU64,
}

impl Default for Attention {
    fn default() -> Self {
        Attention { nanos: AtomicU64::new(u64::MAX), bytes: AtomicU64::new(u64::MAX) }
    }
}

/// Databases with hints of their own; a power of two.
const HINTED: usize = 16;

/// A table's hint where every thread can read it. Set by whoever holds the shard's lock; the two words may be of
/// different moments.
#[derive(Default)]
struct SharedHint {
    /// Start and buckets of the new array and of the old one, and the frontier.
    words: [AtomicU64; 5],
}

impl SharedHint {
    /// Words of different hints, if it is just being set.
    #[inline(always)]
    fn get(&self) -> BucketHint {
        let [new, new_len, old, old_len, frontier] = self.words.each_ref().map(|word| word.load(Relaxed));
        let array = |start: u64, len: u64| HintedArray { start: start as usize, len: len as usize };
        BucketHint { new: array(new, new_len), old: array(old, old_len), frontier }
    }

    /// Written only when it differs, so that readers keep their copies of the line.
    #[inline]
    fn set(&self, hint: BucketHint) {
        if self.get() != hint {
            let BucketHint { new, old, frontier } = hint;
            let words = [new.start as u64, new.len as u64, old.start as u64, old.len as u64, frontier];
            self.words.iter().zip(words).for_each(|(shared, word)| shared.store(word, Relaxed));
        }
    }
}

/// What is in one database, summed over the shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DbSummary {
    pub keys: usize,
    /// Keys with a deadline.
    pub expires: usize,
    /// Collections with elements that have one.
    pub volatile: usize,
    /// Mean time left of these, in milliseconds, by a sample.
    pub mean_ttl: u64,
}

fn new_replication_id() -> String {
    format!("{:032x}{:08x}", fastrand::u128(..), fastrand::u32(..))
}

impl Engine {
    /// An engine with the default configuration.
    pub fn new(options: &Options, host: Arc<dyn Host>) -> Self {
        Engine::with_config(options, Config::default(), host)
    }

    pub fn with_config(options: &Options, config: Config, host: Arc<dyn Host>) -> Self {
        let shards = options.shards.clamp(1, 4096).next_power_of_two();
        let databases = options.databases.max(1);
        Engine {
            locks: LockSet::new((0..shards).map(|_| Shard::new(databases))),
            hints: (0..shards * databases.next_power_of_two().min(HINTED)).map(|_| SharedHint::default()).collect(),
            hasher: KeyHasher::new(options.hash_seed, shards.trailing_zeros()),
            databases,
            host,
            log: OnceLock::new(),
            logs: AtomicBool::new(false),
            access: AccessPolicy::default(),
            event_mask: AtomicU32::new(0),
            clients: Clients::default(),
            packing: Packing::new(&config),
            config: ConfigStore::new(config),
            metrics: (0..options.workers.max(1)).map(|_| WorkerMetrics::default()).collect(),
            rates: Rates::default(),
            pubsub: PubSub::new(options.workers.max(1)),
            tracking: Tracking::new(options.workers.max(1)),
            scripts: Scripts::default(),
            latency: LatencyMonitor::default(),
            command_log: CommandLog::default(),
            attention: Attention::default(),
            tracks_latency: AtomicBool::new(true),
            pause: Pause::default(),
            arrivals: AtomicU64::new(0),
            expiry_paused: AtomicBool::new(false),
            timers_paused: AtomicBool::new(false),
            importing: AtomicBool::new(false),
            cut_open: AtomicBool::new(false),
            saves: Saves::default(),
            replication_id: Mutex::new(new_replication_id()),
            deferred: Deferred::default(),
            links: Links::default(),
            memory_limit: MemoryLimit::default(),
        }
    }

    pub fn locks(&self) -> &LockSet<Shard> {
        &self.locks
    }

    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    pub fn databases(&self) -> usize {
        self.databases
    }

    pub fn config(&self) -> &ConfigStore {
        &self.config
    }

    /// How large small collections may grow.
    pub fn packing(&self) -> &Packing {
        &self.packing
    }

    pub(crate) fn host_handle(&self) -> Arc<dyn Host> {
        Arc::clone(&self.host)
    }

    pub fn host(&self) -> &dyn Host {
        &*self.host
    }

    pub fn clients(&self) -> &Clients {
        &self.clients
    }

    /// CLIENT PAUSE.
    pub fn pause(&self) -> &Pause {
        &self.pause
    }

    /// What has to wait now.
    pub fn paused(&self) -> Paused {
        self.saves().deny_reasons().paused()
    }

    /// True from [`begin_pause`](Self::begin_pause) until [`end_pause`](Self::end_pause), or the
    /// [`end_pause_if_over`](Self::end_pause_if_over) that comes after its time; and while somebody
    /// [holds](Self::hold_writes) writes back.
    pub fn is_paused(&self) -> bool {
        self.paused() != Paused::Nothing
    }

    /// Pauses from `now` on until `until` (Unix times in milliseconds). A pause that is on is never made shorter or
    /// milder. Commands that were admitted before are over when all locks have been [passed](Self::pass_locks).
    pub fn begin_pause(&self, paused: Paused, until: i64, now: i64) {
        self.pause().begin(self.saves(), paused, until, now);
    }

    pub fn end_pause(&self) {
        self.pause().end(self.saves());
    }

    /// Ends the pause that clients have asked for when its time has come; true when it was this call that ended it.
    pub fn end_pause_if_over(&self, now: i64) -> bool {
        self.pause().end_if_over(self.saves(), now)
    }

    /// Nobody writes until as many have called [`release_writes`](Self::release_writes); commands that run already end
    /// first.
    pub fn hold_writes(&self) {
        self.pause().hold(self.saves(), true);
    }

    pub fn release_writes(&self) {
        self.pause().hold(self.saves(), false);
    }

    /// A number above all that were given before.
    pub(crate) fn next_arrival(&self) -> u64 {
        self.arrivals.fetch_add(1, Relaxed) + 1
    }

    /// What is known of saving and loading.
    pub fn replication_id(&self) -> String {
        self.replication_id.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// From now on the data set's history is another one.
    pub fn change_replication_id(&self) {
        *self.replication_id.lock().unwrap_or_else(PoisonError::into_inner) = new_replication_id();
    }

    pub fn saves(&self) -> &Saves {
        &self.saves
    }

    /// Connections to other servers, and keys on their way there.
    pub fn links(&self) -> &Links {
        &self.links
    }

    /// The memory limit.
    #[inline]
    pub fn memory_limit(&self) -> &MemoryLimit {
        &self.memory_limit
    }

    /// Counters, one set a worker.
    pub fn metrics(&self) -> &[WorkerMetrics] {
        &self.metrics
    }

    /// How fast the counters grow; [`sample_rates`](Self::sample_rates) keeps it up to date.
    pub fn rates(&self) -> &Rates {
        &self.rates
    }

    /// Scripts and functions, and what runs of them.
    #[inline]
    pub fn scripts(&self) -> &Scripts {
        &self.scripts
    }

    /// Subscribers and monitors.
    pub fn pubsub(&self) -> &PubSub {
        &self.pubsub
    }

    /// Clients that are told when what they read changes.
    pub fn tracking(&self) -> &Tracking {
        &self.tracking
    }

    /// A connection wants a line of every command from now on, or no longer.
    pub fn monitor(&self, worker: usize, token: usize, on: bool) {
        self.pubsub.monitor(worker, token, on);
        self.refresh_attention();
    }

    /// Whether somebody may want to know of a command that took so long and moved so many bytes, in its request or in
    /// its reply: the command log, the latency monitor, clients in MONITOR.
    #[inline]
    pub fn wants_to_know(&self, nanos: u64, bytes: u64) -> bool {
        nanos >= self.attention.nanos.load(Relaxed) || bytes >= self.attention.bytes.load(Relaxed)
    }

    /// To be called when a threshold has changed.
    pub fn refresh_attention(&self) {
        let log = |reason| self.command_log.threshold(reason);
        let (nanos, bytes) = match self.pubsub.is_monitored() {
            true => (0, 0),
            false => (
                self.latency.threshold().min(log(Reason::Slow)),
                log(Reason::LargeRequest).min(log(Reason::LargeReply)),
            ),
        };
        self.attention.nanos.store(nanos, Relaxed);
        self.attention.bytes.store(bytes, Relaxed);
    }

    pub fn latency(&self) -> &LatencyMonitor {
        &self.latency
    }

    pub fn command_log(&self) -> &CommandLog {
        &self.command_log
    }

    /// Whether histograms of each command's durations are kept.
    #[inline]
    pub fn tracks_latency(&self) -> bool {
        self.tracks_latency.load(Relaxed)
    }

    pub fn track_latency(&self, on: bool) {
        self.tracks_latency.store(on, Relaxed);
    }

    /// To be called about ten times a second, by one thread.
    pub fn sample_rates(&self, now: i64) {
        self.rates.sample(now, || Totals::of(&self.metrics));
    }

    /// Whether [`expire_due`](Self::expire_due) does nothing.
    pub fn pause_expiry(&self, paused: bool) {
        self.expiry_paused.store(paused, Relaxed);
    }

    /// Makes room for so many keys in a database that is to be loaded; tables that hold keys already stay as they are.
    /// Until [`end_expecting`](Engine::end_expecting) they do not change their sizes.
    pub fn expect_keys(&self, db: u32, keys: u64) {
        let shards = self.locks.len();
        let each = usize::try_from(keys).unwrap_or(usize::MAX) / shards;
        for index in 0..shards {
            let table = &mut self.locks.one(index).dbs[db].table;
            if table.is_empty() {
                table.reserve(each);
                table.set_resizing(false);
            }
        }
    }

    /// All keys that were expected are there.
    pub fn end_expecting(&self) {
        for index in 0..self.locks.len() {
            self.locks.one(index).dbs.iter_mut().for_each(|(_, db)| db.table.set_resizing(true));
        }
    }

    /// Stops what workers do by the clock, and lets them go on with it (DEBUG PAUSE-CRON).
    pub fn pause_timers(&self, paused: bool) {
        self.timers_paused.store(paused, Relaxed);
    }

    pub fn are_timers_paused(&self) -> bool {
        self.timers_paused.load(Relaxed)
    }

    /// Whether nothing may run out by itself now.
    pub(crate) fn expiry_is_paused(&self) -> bool {
        self.expiry_paused.load(Relaxed) || self.keeps_expired() || self.saves.deny_reasons().is_loading()
    }

    /// Whether keys whose time is over stay, though nobody sees them, until somebody writes to them.
    pub fn keeps_expired(&self) -> bool {
        self.is_paused() || self.is_importing() || self.is_unlogged()
    }

    /// The log cannot be written: nothing goes by itself, since that could not be logged.
    pub fn is_unlogged(&self) -> bool {
        self.saves.deny_reasons().is_unlogged()
    }

    /// The data of another server is being brought (`import-mode`), which decides what goes.
    pub fn is_importing(&self) -> bool {
        self.importing.load(Relaxed)
    }

    pub fn set_importing(&self, on: bool) {
        self.importing.store(on, Relaxed);
    }

    /// There is a log, which nothing is appended to before [`set_logging`](Self::set_logging) says so. At most once.
    pub fn install_log(&self, log: Arc<dyn ChangeLog>) {
        assert!(self.log.set(log).is_ok(), "the engine has a change log already");
    }

    /// Whether changes go into the log that is installed. What must not miss a change turns it on in the moment of a
    /// [cut](Self::begin_cut).
    pub fn set_logging(&self, on: bool) {
        self.logs.store(on, Relaxed);
    }

    /// The log that is installed.
    pub fn change_log(&self) -> Option<&dyn ChangeLog> {
        self.log.get().map(|log| &**log)
    }

    /// Whether changes go into a log.
    #[inline]
    pub fn has_log(&self) -> bool {
        self.logs.load(Relaxed)
    }

    /// Selects the classes of keyspace events that the host is told of.
    pub fn set_event_mask(&self, mask: u32) {
        self.event_mask.store(mask, Relaxed);
    }

    /// The classes and targets of [`keyspace_events`](crate::config::keyspace_events).
    pub fn event_mask(&self) -> u32 {
        self.event_mask.load(Relaxed)
    }

    #[inline]
    pub fn wants_event(&self, class: EventClass) -> bool {
        self.event_mask.load(Relaxed) & class.0 != 0
    }

    /// Counts accesses by frequency (LFU) or by time (LRU).
    pub fn set_access_policy(&self, by_frequency: bool, decay_minutes: u32, log_factor: u32) {
        self.access.by_frequency.store(by_frequency, Relaxed);
        self.access.decay.store(decay_minutes, Relaxed);
        self.access.log_factor.store(log_factor, Relaxed);
    }

    pub fn counts_frequency(&self) -> bool {
        self.access.by_frequency.load(Relaxed)
    }

    /// The access clock at `now` (Unix time in milliseconds).
    #[inline]
    pub fn access_clock(&self, now: i64) -> AccessClock {
        let seconds = (now / 1000) as u64;
        if self.counts_frequency() {
            AccessClock::Frequency {
                minutes: (seconds / 60) as u32 & 0xFFFF,
                decay: self.access.decay.load(Relaxed),
                log_factor: self.access.log_factor.load(Relaxed),
                random: fastrand::u32(..),
            }
        } else {
            AccessClock::Recency(seconds as u32 & structures::entry::MAX_META)
        }
    }

    /// Goes through the locks, the gate and then those of the shards from `next` on, and is true when it has had each.
    /// Whatever had locks before the first call has given them up then, and whatever has had some since has seen what
    /// the caller changed before it. False: one is not free yet, and `give_up` says that it takes a while.
    pub fn pass_locks(&self, next: &mut usize, give_up: impl Fn() -> bool) -> bool {
        if self.locks.several_unless(&mut SmallVec::new(), || &give_up).is_none() {
            return false;
        }
        while *next < self.locks.len() {
            if self.locks.one_unless(*next, &give_up).is_none() {
                return false;
            }
            *next += 1;
        }
        true
    }

    /// First step of looking up a batch: asks for the key's bucket. Takes no lock.
    #[inline]
    pub fn prefetch_bucket(&self, db: u32, hash: KeyHash) {
        self.locks.ask_for(hash.shard());
        self.hint(db, hash.shard()).get().prefetch(hash.local());
    }

    /// Second step: where the key's entry may be. Nowhere when another thread is in the shard, since it is only a hint.
    #[inline]
    pub fn entry_hint(&self, db: u32, hash: KeyHash) -> EntryHint {
        match self.locks.try_one(hash.shard()) {
            Some(shard) => shard.dbs[db].table.entry_hint(hash.local()),
            None => EntryHint::NOWHERE,
        }
    }

    /// Third step: asks for the entry of a key that was [further](EntryHint::is_further) on.
    #[inline(never)]
    pub fn prefetch_chain(&self, db: u32, hash: KeyHash) {
        if let Some(shard) = self.locks.try_one(hash.shard()) {
            shard.dbs[db].table.prefetch_chain(hash.local());
        }
    }

    /// Publishes where the table lies in which the key is, for [`prefetch_bucket`](Self::prefetch_bucket). To be called
    /// now and then for some key: a table moves so rarely that most looks at this would find it where it was.
    pub fn show_table(&self, db: u32, hash: KeyHash) {
        let index = hash.shard();
        if let Some(shard) = self.locks.try_one(index) {
            self.hint(db, index).set(shard.dbs[db].table.bucket_hint());
        }
    }

    /// For several commands that look up elements of the same collection: asks for all of these.
    pub fn prefetch_elements<'a>(&self, db: u32, key: Key<'_>, elements: impl Iterator<Item = &'a [u8]>) {
        let Some(shard) = self.locks.try_one(key.hash.shard()) else { return };
        let found = shard.dbs[db].table.find(key.hash.local(), |entry| entry.key() == key.name);
        if let Some(Value::Payload(object)) = found.as_ref().map(|found| found.value()) {
            object.prefetch(elements);
        }
    }

    #[inline]
    fn hint(&self, db: u32, shard: usize) -> &SharedHint {
        &self.hints[(db as usize * self.locks.len() + shard) & (self.hints.len() - 1)]
    }

    /// The command that tells the change log of a key whose time is over; `lazyfree-lazy-expire` chooses it.
    pub fn removal_word(&self) -> &'static [u8] {
        if self.config.snapshot().flag(Directive::LAZYFREE_LAZY_EXPIRE) { b"UNLINK" } else { b"DEL" }
    }

    /// Puts a command into the change log, with what else it changed; `render` writes it as clients send it. The locks
    /// of that must still be held. Returns the log's length after a change that the command made itself.
    #[inline]
    pub fn record(&self, effects: &Effects, db: u32, render: impl Fn(&mut Vec<u8>)) -> Option<u64> {
        if effects.dirty == 0 && effects.seen().is_none() || !self.has_log() {
            return None;
        }
        let log = self.change_log()?;
        let length = match effects.seen() {
            None => Some(log.append(db, db, false, &mut |out| render(out))),
            Some(_) => {
                let mut batch = Batch::default();
                self.collect(&mut batch, effects, db, render);
                batch.append_to(log)
            }
        };
        length.filter(|_| effects.dirty > 0)
    }

    /// Adds what [`record`](Self::record) would append, for commands that are logged together with others.
    pub fn collect(&self, batch: &mut Batch, effects: &Effects, db: u32, render: impl Fn(&mut Vec<u8>)) {
        self.collect_expired(batch, effects);
        if effects.dirty > 0 {
            match effects.logged() {
                Logged::Verbatim => batch.push_with(db, render),
                Logged::As(instead) => {
                    instead.iter().for_each(|record| batch.push(db, record.iter().map(Vec::as_slice)));
                }
                Logged::Nothing => {}
            }
        }
    }

    /// The part of [`collect`](Self::collect) that is no work of the command: what it found to be over and removed.
    pub fn collect_expired(&self, batch: &mut Batch, effects: &Effects) {
        if let Some(rare) = effects.seen() {
            rare.expired.iter().for_each(|(db, key)| batch.push(*db, [self.removal_word(), key].into_iter()));
            rare.expired_elements.iter().for_each(|(db, record)| batch.push(*db, record.iter().map(Vec::as_slice)));
        }
    }

    /// Puts the end of keys and elements into the log that nobody asked for: each is a change of its own. Under the
    /// locks under which they were removed.
    pub fn record_expired(&self, effects: &mut Effects) {
        if effects.seen().is_none() {
            return;
        }
        let rare = effects.rare();
        let (keys, elements) = (std::mem::take(&mut rare.expired), std::mem::take(&mut rare.expired_elements));
        let Some(log) = self.change_log().filter(|_| self.has_log()) else { return };
        let word = self.removal_word();
        for (db, key) in &keys {
            log.append(*db, *db, false, &mut |out| put_command(out, [word, key].into_iter()));
        }
        for (db, record) in &elements {
            log.append(*db, *db, false, &mut |out| put_command(out, record.iter().map(Vec::as_slice)));
        }
    }

    /// Puts the removal of a key into the log, as a change of its own.
    pub fn record_removal(&self, db: u32, word: &[u8], name: &[u8]) {
        if let Some(log) = self.change_log().filter(|_| self.has_log()) {
            log.append(db, db, false, &mut |out| put_command(out, [word, name].into_iter()));
        }
    }

    /// Appends commands that belong together, and returns the log's length then. The locks of what they change must
    /// still be held.
    pub fn record_together(&self, batch: &Batch) -> Option<u64> {
        batch.append_to(self.change_log().filter(|_| self.has_log())?)
    }

    /// Hands the effects of a command to the host. No lock may be held. Returns the keys whose waiting clients are to
    /// be [served](crate::clients::waiters::serve) now.
    #[inline]
    #[must_use]
    pub fn publish(&self, effects: &mut Effects, author: Author) -> Vec<ReadyKey> {
        let Some(mut rare) = effects.take_rare() else { return Vec::new() };
        if !rare.changes.is_empty() || rare.flushed {
            self.tracking.tell(&self.pubsub, rare.changes, rare.flushed, author);
        }
        rare.garbage.append(&mut rare.outlived);
        if !rare.garbage.is_empty() {
            self.host.free(rare.garbage);
        }
        if !rare.events.is_empty() {
            self.host.events(rare.events);
        }
        rare.ready
    }

    /// Keys in a database.
    pub fn len(&self, db: u32) -> usize {
        (0..self.locks.len()).map(|index| self.locks.one(index).dbs[db].table.len()).sum()
    }

    pub fn summary(&self, db: u32, now: i64) -> DbSummary {
        let (mut sum, mut ttl_sum, mut ttl_count) = (DbSummary::default(), 0u128, 0u128);
        for index in 0..self.locks.len() {
            let shard = self.locks.one(index);
            let slot = &shard.dbs[db];
            sum.keys += slot.table.len();
            sum.expires += slot.expiry.keys.len();
            sum.volatile += slot.expiry.elements.len();
            if let Some(left) = slot.expiry.keys.mean_left(now.max(0) as u64, TTL_SAMPLE) {
                ttl_sum += u128::from(left) * slot.expiry.keys.len() as u128;
                ttl_count += slot.expiry.keys.len() as u128;
            }
        }
        sum.mean_ttl = ttl_sum.checked_div(ttl_count).unwrap_or(0) as u64;
        sum
    }

    /// Statistics of all shards.
    pub fn stats(&self) -> ShardStats {
        self.stats_unless(|| false).unwrap_or_default()
    }

    /// The same; None when one is not free and `give_up` says that it will not be soon.
    pub fn stats_unless(&self, give_up: impl Fn() -> bool) -> Option<ShardStats> {
        let mut sum = ShardStats { dirty: self.saves.elsewhere.load(Relaxed), ..ShardStats::default() };
        for index in 0..self.locks.len() {
            sum.add(&self.locks.one_unless(index, &give_up)?.stats);
        }
        Some(sum)
    }

    pub fn reset_stats(&self) {
        self.saves.forks.store(0, Relaxed);
        self.saves.cut_nanos.store(0, Relaxed);
        self.saves.loading.errors.store(0, Relaxed);
        for index in 0..self.locks.len() {
            let mut shard = self.locks.one(index);
            shard.stats = ShardStats { dirty: shard.stats.dirty, ..ShardStats::default() };
        }
    }
}

/// Records at either end of a shard's expiry index that INFO's mean looks at.
const TTL_SAMPLE: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::watch::WatchFlag;
    use crate::data::value::NewString;
    use crate::engine::host::NullHost;
    use crate::host::threads::Server;
    use crate::keyspace::edit::Ttl;
    use crate::keyspace::held_locks::Held;
    use crate::keyspace::keys::Keys;
    use crate::keyspace::origin::Origin;
    use crate::testing::MemoryLog;

    fn at(now: i64) -> Server {
        Server { worker: 0, now_us: now * 1000 }
    }

    fn engine() -> Engine {
        Engine::new(&Options { shards: 4, databases: 2, hash_seed: 1, workers: 1 }, Arc::new(NullHost))
    }

    fn keys<'e>(engine: &'e Engine, names: &[&[u8]], now: i64) -> Keys<'e> {
        let hashes = names.iter().map(|name| engine.hasher().hash(name));
        Keys::new(engine, Held::keys(engine, hashes), 0, Origin::client(now))
    }

    fn set(engine: &Engine, name: &[u8], value: &[u8], ttl: Ttl, now: i64) {
        let mut keys = keys(engine, &[name], now);
        let key = keys.key(name);
        let mut edit = keys.edit(key);
        edit.set_string(NewString::encode(value.into()), ttl);
        edit.commit(EventClass::STRING, "set");
        engine.record(&keys.effects, 0, |out| put_command(out, [&b"SET"[..], name, value].into_iter()));
        keys.unlock();
        assert!(engine.publish(&mut keys.effects, Author { worker: 0, client: 0 }).is_empty());
    }

    fn get(engine: &Engine, name: &[u8], now: i64) -> Option<Vec<u8>> {
        let mut keys = keys(engine, &[name], now);
        let key = keys.key(name);
        keys.string(key).unwrap().map(|value| value.to_vec())
    }

    #[test]
    fn a_key_lives_until_its_deadline() {
        let engine = engine();
        set(&engine, b"k", b"v", Ttl::At(1000), 1);
        assert_eq!(get(&engine, b"k", 999).as_deref(), Some(&b"v"[..]));
        assert_eq!(get(&engine, b"k", 1000), None);
        assert_eq!(engine.len(0), 0, "the access removed it");
        assert_eq!(engine.stats(), ShardStats { hits: 1, misses: 1, expired: 1, dirty: 1, ..ShardStats::default() });
    }

    #[test]
    fn the_background_removes_what_nobody_looks_at() {
        let engine = engine();
        for n in 0..1000u32 {
            set(&engine, &n.to_le_bytes(), b"v", Ttl::At(1000 + i64::from(n % 2) * 1000), 1);
        }
        assert!(!engine.expire_due(0..4, at(999), 10_000));
        assert_eq!(engine.len(0), 1000);
        assert!(engine.expire_due(0..4, at(1000), 100), "the budget ends first");
        assert_eq!(engine.len(0), 900);
        assert!(!engine.expire_due(0..4, at(1000), 10_000));
        assert_eq!(engine.summary(0, 1000), DbSummary { keys: 500, expires: 500, mean_ttl: 1000, volatile: 0 });
        engine.expire_due(0..4, at(2000), 10_000);
        assert_eq!(engine.len(0), 0);
    }

    #[test]
    fn a_changed_deadline_replaces_the_old_one() {
        let engine = engine();
        set(&engine, b"k", b"v", Ttl::At(1000), 1);
        set(&engine, b"k", b"v", Ttl::At(5000), 1);
        engine.expire_due(0..4, at(2000), 100);
        assert_eq!(engine.len(0), 1);
        set(&engine, b"k", b"v", Ttl::Clear, 1);
        engine.expire_due(0..4, at(9000), 100);
        assert_eq!(engine.summary(0, 1), DbSummary { keys: 1, expires: 0, mean_ttl: 0, volatile: 0 });
    }

    #[test]
    fn the_log_has_writes_in_order_and_the_end_of_expired_keys() {
        let engine = engine();
        let log = MemoryLog::of(&engine);
        set(&engine, b"k", b"1", Ttl::At(1000), 1);
        set(&engine, b"k", b"2", Ttl::At(1000), 2000);
        engine.expire_due(0..4, at(3000), 10);
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
        set(&engine, b"k", b"1", Ttl::At(1000), 1);
        let flag = Arc::new(WatchFlag::default());
        let index = engine.hasher().hash(b"k").shard();
        engine.locks().one(index).dbs[0].watchers.watch(b"k", &flag, false);
        set(&engine, b"other", b"1", Ttl::Clear, 1);
        assert!(!flag.is_raised());
        engine.expire_due(0..4, at(3000), 10);
        assert!(flag.is_raised());
    }
}
