//! The keys and their values, as one command sees them.
//!
//! A key's hash says which shard it lies in; a shard is plain data behind one lock. In: the locks that a command holds,
//! its caller, and the time. Out: values through the view ([`keys`]), and changes through an [`edit`], whose commit
//! announces them to the rest. It knows no command, and reads no clock but to see how long it waits for a lock.

mod beside;
pub mod caller;
pub mod edit;
pub mod encoding_limits;
pub mod held_locks;
pub mod importing_slots;
mod in_place_edit;
pub mod key_change;
pub mod keys;
pub mod keyspace_stats;
pub mod keyspace_sums;
pub mod lru;
mod own_records;
mod prefetching;
mod quiesce;
pub mod record;
pub mod removal;
pub mod replica_keys;
mod seen_shards;
pub mod shard;
pub mod shard_counters;
pub mod slot_counts;
mod streaming;
mod table_hints;

use crate::clients::listeners::Listeners;
use crate::clients::tracking::Tracking;
use crate::config::{Config, ConfigStore, Directive};
use crate::data::event_class::EventClass;
use crate::data::key_hash::KeyHasher;
use crate::data::slot::SLOTS;
use crate::host::clock::Clock;
use crate::keyspace::encoding_limits::EncodingLimits;
use crate::keyspace::importing_slots::HiddenSlots;
use crate::keyspace::lru::{AccessClock, AccessPolicy};
use crate::keyspace::replica_keys::ReplicaKeys;
use crate::keyspace::seen_shards::SeenShards;
use crate::keyspace::shard::Shard;
use crate::keyspace::shard_counters::{DueTimes, Lengths};
use crate::keyspace::slot_counts::SlotCounts;
use crate::keyspace::table_hints::TableHints;
use crate::locks::protocol::LockSet;
use crate::propagation::change_log::{ChangeLog, LogKeeper};
use crate::propagation::change_observer::Observers;
use crate::scripts::script_cache::Scripts;
use crate::status::deny_reasons::Paused;
use crate::status::persistence_status::PersistenceStatus;
use crate::time::UnixMs;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

/// Number of shards by default: so many that threads seldom want the same one, and so few that their empty databases do
/// not take up much.
const SHARDS: usize = 256;

/// How an engine is built.
#[derive(Clone, Debug)]
pub struct Options {
    /// Pieces of the keyspace; rounded up to a power of two, at most one for each slot.
    pub shards: usize,
    /// Numbered databases, at least 1.
    pub databases: usize,
    /// The secret of the key hash.
    pub hash_seed: u64,
    /// Threads that count in metrics of their own; each session has one of them.
    pub workers: usize,
    /// Whether keys are counted by slot.
    pub counts_slots: bool,
}

impl Default for Options {
    fn default() -> Self {
        Options { shards: SHARDS, databases: 16, hash_seed: 0, workers: 1, counts_slots: false }
    }
}

impl Options {
    /// Returns the options with numbers that are possible.
    pub(crate) fn within_limits(&self) -> Options {
        Options {
            shards: self.shards.clamp(1, SLOTS).next_power_of_two(),
            databases: self.databases.max(1),
            workers: self.workers.max(1),
            ..self.clone()
        }
    }
}

/// All shards, and what a command needs besides its keys to read and to change them.
pub struct Keyspace {
    locks: LockSet<Shard, Lengths>,
    due_times: DueTimes,
    table_hints: TableHints,
    hasher: KeyHasher,
    databases: usize,
    clock: Arc<dyn Clock>,
    log: Arc<ChangeLog>,
    log_keeper: OnceLock<Arc<dyn LogKeeper>>,
    /// Users of the log, as bits of [`LogUser`](record::LogUser); 0: changes are not logged. Switched under all locks,
    /// so that it stays as it is while any lock is held.
    logs: AtomicU8,
    access: AccessPolicy,
    listeners: Arc<Listeners>,
    observers: Observers,
    config: ConfigStore,
    encoding_limits: EncodingLimits,
    tracking: Tracking,
    scripts: Scripts,
    /// DEBUG SET-ACTIVE-EXPIRE 0: keys expire only when a command looks at them.
    expiry_paused: AtomicBool,
    /// `import-mode`.
    importing: AtomicBool,
    /// Whether another server is followed.
    following: AtomicBool,
    replica_keys: ReplicaKeys,
    importing_slots: HiddenSlots,
    slot_counts: SlotCounts,
    persistence_status: PersistenceStatus,
    seen_shards: SeenShards,
}

impl Keyspace {
    /// Makes a keyspace. `options`: [within the limits](Options::within_limits).
    #[track_caller]
    pub(crate) fn new(options: &Options, config: Config, clock: Arc<dyn Clock>) -> Self {
        let &Options { shards, databases, hash_seed, workers, counts_slots } = options;
        let listeners = Arc::<Listeners>::default();
        Keyspace {
            locks: LockSet::new((0..shards).map(Shard::new)),
            due_times: DueTimes::new(shards),
            table_hints: TableHints::new(shards),
            hasher: KeyHasher::new(hash_seed, shards.trailing_zeros()),
            databases,
            clock,
            log: Arc::default(),
            log_keeper: OnceLock::new(),
            logs: AtomicU8::new(0),
            access: AccessPolicy::default(),
            listeners: Arc::clone(&listeners),
            observers: Observers::default(),
            encoding_limits: EncodingLimits::new(&config),
            config: ConfigStore::new(config),
            tracking: Tracking::new(workers, listeners),
            scripts: Scripts::default(),
            expiry_paused: AtomicBool::new(false),
            importing: AtomicBool::new(false),
            following: AtomicBool::new(false),
            replica_keys: ReplicaKeys::default(),
            importing_slots: HiddenSlots::default(),
            slot_counts: SlotCounts::new(counts_slots),
            persistence_status: PersistenceStatus::default(),
            seen_shards: SeenShards::new(shards),
        }
    }

    /// Clocks, and waiting.
    pub fn clock(&self) -> &dyn Clock {
        &*self.clock
    }

    /// Returns the slots whose keys clients do not see yet.
    #[inline(always)]
    pub fn importing_slots(&self) -> &HiddenSlots {
        &self.importing_slots
    }

    /// Returns the numbers of shards as they were seen last.
    #[inline(always)]
    fn seen_shards(&self) -> &SeenShards {
        &self.seen_shards
    }

    /// Returns the shards, each behind its lock.
    pub fn locks(&self) -> &LockSet<Shard, Lengths> {
        &self.locks
    }

    /// Returns the hasher of all keys.
    pub fn hasher(&self) -> &KeyHasher {
        &self.hasher
    }

    /// Returns how many databases there are (`databases`).
    pub fn databases(&self) -> usize {
        self.databases
    }

    /// Returns the configuration.
    pub fn config(&self) -> &ConfigStore {
        &self.config
    }

    /// Returns how large small collections may grow.
    pub fn encoding_limits(&self) -> &EncodingLimits {
        &self.encoding_limits
    }

    /// Returns the scripts and functions, and the runs of them.
    #[inline]
    pub fn scripts(&self) -> &Scripts {
        &self.scripts
    }

    /// Returns the clients that are notified when keys that they have read change.
    pub fn tracking(&self) -> &Tracking {
        &self.tracking
    }

    /// Returns the status of saving and loading, and the reasons for which commands may not run.
    pub fn persistence_status(&self) -> &PersistenceStatus {
        &self.persistence_status
    }

    /// Returns the kind of commands that have to wait now.
    pub fn paused(&self) -> Paused {
        self.persistence_status().deny_reasons().paused()
    }

    /// Whether there is a [pause](crate::status::pause), or writes are held back.
    pub fn is_paused(&self) -> bool {
        self.paused() != Paused::Nothing
    }

    /// Whether expired keys stay, hidden from clients, until a command writes to them.
    pub fn keeps_expired(&self) -> bool {
        self.is_paused() || self.is_importing() || self.is_following() || self.is_unlogged()
    }

    /// Whether the log cannot be written: no key is removed without a command, since that could not be logged.
    pub fn is_unlogged(&self) -> bool {
        self.persistence_status.deny_reasons().is_unlogged()
    }

    /// Whether the data of another server is being imported (`import-mode`), which decides over removals.
    pub fn is_importing(&self) -> bool {
        self.importing.load(Relaxed)
    }

    /// Whether a command that gives a key this expiry removes the key instead. While another server's data is being
    /// imported, that server decides.
    #[inline]
    pub(crate) fn is_past(&self, expiry: UnixMs, now: UnixMs) -> bool {
        expiry <= now && !self.is_importing()
    }

    /// Whether another server is followed, which decides over removals.
    #[inline]
    pub fn is_following(&self) -> bool {
        self.following.load(Relaxed)
    }

    /// Sets whether another server is followed. The admission of commands is left to the caller.
    pub fn set_following(&self, on: bool) {
        self.following.store(on, Relaxed);
    }

    /// Returns the keys that expire on a writable replica.
    pub fn replica_keys(&self) -> &ReplicaKeys {
        &self.replica_keys
    }

    /// Sets `import-mode`.
    pub fn set_importing(&self, on: bool) {
        self.importing.store(on, Relaxed);
    }

    /// Sets whether nothing expires in the background.
    pub fn pause_expiry(&self, paused: bool) {
        self.expiry_paused.store(paused, Relaxed);
    }

    /// Whether no key may expire without a command now.
    pub(crate) fn expiry_is_paused(&self) -> bool {
        self.expiry_stands() || self.keeps_expired()
    }

    /// Whether not even keys that clients of a writable replica have set may expire.
    pub(crate) fn expiry_stands(&self) -> bool {
        let is_off = self.expiry_paused.load(Relaxed) || self.is_paused() || self.is_unlogged();
        is_off || self.persistence_status.deny_reasons().is_loading()
    }

    /// Returns the word of those that changes concern.
    #[inline(always)]
    pub(crate) fn listeners(&self) -> &Listeners {
        &self.listeners
    }

    /// Returns the observers of changes.
    pub(crate) fn observers(&self) -> &Observers {
        &self.observers
    }

    /// Whether events of this class are published.
    #[inline]
    pub fn wants_event(&self, class: EventClass) -> bool {
        self.listeners.wants_event(class)
    }

    /// Returns the classes and targets of [`keyspace_events`](crate::config::keyspace_events).
    pub fn event_mask(&self) -> u32 {
        self.listeners.event_mask()
    }

    /// Selects the classes of keyspace events that the host gets.
    pub fn set_event_mask(&self, mask: u32) {
        self.listeners.set_event_mask(mask);
    }

    /// Sets whether accesses are counted by frequency (LFU) or by time (LRU).
    pub fn set_access_policy(&self, by_frequency: bool, decay_minutes: u32, log_factor: u32) {
        self.access.set(by_frequency, decay_minutes, log_factor);
    }

    /// Sets how accesses are counted, as this configuration says.
    pub fn set_access_by(&self, config: &Config) {
        let number = |directive| config.int(directive).clamp(0, u32::MAX.into()) as u32;
        let by_frequency = config.choice(Directive::MAXMEMORY_POLICY).ends_with("lfu");
        let (decay, factor) = (number(Directive::LFU_DECAY_TIME), number(Directive::LFU_LOG_FACTOR));
        self.set_access_policy(by_frequency, decay, factor);
    }

    /// Returns how accesses are counted.
    #[inline]
    pub(crate) fn access(&self) -> &AccessPolicy {
        &self.access
    }

    /// Whether accesses are counted by frequency.
    pub fn counts_frequency(&self) -> bool {
        self.access.counts_frequency()
    }

    /// Returns the access clock at `now` (Unix time in milliseconds).
    #[inline]
    pub fn access_clock(&self, now: UnixMs) -> AccessClock {
        self.access.clock(now)
    }

    /// Makes room for so many keys in a database that is to be loaded; tables that hold keys already stay as they are.
    /// Until [`end_reserving`](Self::end_reserving) they do not change their sizes.
    pub fn reserve_keys(&self, db: u32, keys: u64) {
        let shards = self.locks.len();
        let each = usize::try_from(keys).unwrap_or(usize::MAX) / shards;
        for index in 0..shards {
            let mut shard = self.locks.one(index);
            self.note_change(index);
            let table = &mut shard.dbs[db].table;
            if table.is_empty() {
                table.reserve(each);
                table.set_resizing(false);
            }
        }
    }

    /// Ends the reservation: all expected keys are there.
    pub fn end_reserving(&self) {
        for index in 0..self.locks.len() {
            self.locks.one(index).dbs.iter_mut().for_each(|(_, db)| db.table.set_resizing(true));
            // The background looks whether the tables have the right sizes.
            self.expires_at(index, Some(0));
        }
    }
}
