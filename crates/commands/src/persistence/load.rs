//! Loading: a file into the keyspace, when the server starts and for DEBUG RELOAD.
//!
//! The calling thread reads, makes entries and hashes names; keys of one shard are collected until they are worth a
//! lock, and go into a queue that other threads put into their tables, as the host has some to spare. Packed
//! collections are collected as the file has them: the thread that puts them in unpacks and checks them, which is most
//! of the work. If the queue is long, or no thread helps, the reader does it itself. Tables are made for as many keys
//! as the file states.
//!
//! ```text
//!   file -> parse -> entries by shard -> queue -> packed collections -> tables
//!           reader   128 of a shard      32 at most    helpers, reader
//! ```

use crate::core::yielding::Yielding;
use crate::scripting::fcall;
use cluster::slot_set::SlotSet;
use engine::Engine;
use engine::config::{Config, Directive};
use engine::data::key_hash::KeyHash;
use engine::data::value::KeyEntry;
use engine::keyspace::Keyspace;
use engine::keyspace::caller::{Caller, ExecContext, is_due};
use engine::keyspace::held_locks::HeldLocks;
use engine::keyspace::keys::{Key, Keys};
use engine::scripts::function_libraries::Libraries;
use engine::time::{UnixMs, UnixUs};
use persistence::format::Family;
use persistence::load::{self, Doing, LoadOptions, LoadedKey, Sink, Unread};
use persistence::rdb_reader::{Fault, Reason, Source};
use persistence::{check, decode};
use replication::replid::ReplicationId;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::{self, Display, Formatter};
use std::io::{ErrorKind, Read};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The counts of a load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LoadedFile {
    /// Keys that were put into the keyspace.
    pub keys: u64,
    /// Keys that were left out because they had expired.
    pub expired: u64,
    /// Collections that were left out because they had no elements.
    pub empty: u64,
    /// Hashes that were left out because all of their fields had expired.
    pub all_expired: u64,
    /// The history of the data, its offset in that, and the database that its stream had selected.
    pub history: Option<(ReplicationId, u64, u32)>,
    /// The importing slots, of a snapshot for replicas.
    pub open_slots: Vec<u8>,
}

/// Writes the counts in the log's form.
impl Display for LoadedFile {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "Done loading RDB, keys loaded: {}, keys expired: {}", self.keys, self.expired)?;
        if self.empty > 0 {
            write!(f, ", empty keys skipped: {}", self.empty)?;
        }
        write!(f, ", all fields expired hashes: {}.", self.all_expired)
    }
}

/// The reason that nothing was loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoadFailure {
    /// Text for the log.
    pub text: String,
    /// The file's content is at fault: [`report`] has the details.
    pub is_corrupt: bool,
}

/// Reads the file that `dbfilename` names; None if there is none. `merge`: keys that are there already are replaced.
/// Commands that need data are refused meanwhile, and afterwards if they were before: the caller has more to do then.
///
/// # Errors
/// The file cannot be read or is faulty; keys before the fault are in the keyspace.
pub fn load_file(engine: &Engine, merge: bool) -> Result<Option<LoadedFile>, LoadFailure> {
    let (config, host) = (engine.config().snapshot(), engine.host());
    let name = config.text(Directive::DBFILENAME);
    let (mut file, size) = match host.open_file(name) {
        Ok(opened) => opened,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => {
            let text =
                format!("Fatal error: can't open the RDB file {} for reading: {error}", String::from_utf8_lossy(name));
            return Err(LoadFailure { text, is_corrupt: false });
        }
    };
    let (saves, began) = (engine.persistence_status(), host.unix_us(UnixUs(0)));
    saves.loading.started_at.store(began.seconds(), Relaxed);
    saves.loading.total_bytes.store(size, Relaxed);
    saves.loading.loaded_bytes.store(0, Relaxed);
    let was_loading = saves.deny_reasons().is_loading();
    saves.set_loading(true);
    // A command admitted before would write between the loaded keys.
    while !engine.pass_locks(&mut 0, || false) {}
    // A key expires on a replica only when its primary removes it.
    let (options, mode) = (options(engine, &config), Mode { merge, expires: !engine.is_following() });
    let mut source = Source::new(&mut *file, options.check_sum);
    let result = read(Target::served(engine), &config, &mut source, options, mode, &|| Ok(()));
    engine.end_reserving();
    saves.set_loading(was_loading);
    let loaded = result.map_err(|fault| LoadFailure {
        text: describe(&fault, "rdbLoadObject"),
        is_corrupt: matches!(fault.reason, Reason::Corrupt(_) | Reason::Empty),
    })?;
    saves.loading.keys_loaded.store(loaded.keys, Relaxed);
    saves.loading.keys_expired.store(loaded.expired, Relaxed);
    saves.changes.store(engine.stats().dirty, Relaxed);
    host.notice(&loaded.to_string());
    let took = host.unix_us(UnixUs(0)).since(began).max(0) as f64 / 1e6;
    host.notice(&format!("DB loaded from disk: {took:.3} seconds"));
    Ok(Some(loaded))
}

/// Checks whether there is the file that `dbfilename` names, and begins as a loadable file does.
///
/// # Errors
/// There is none, it cannot be read, or it begins otherwise.
pub fn check_file(engine: &Engine) -> Result<(), LoadFailure> {
    let (config, failed) = (engine.config().snapshot(), |text| LoadFailure { text, is_corrupt: false });
    let opened = engine.host().open_file(config.text(Directive::DBFILENAME));
    let (mut file, _) = opened.map_err(|error| failed(format!("The RDB file cannot be opened: {error}")))?;
    let checked = load::check_header(&mut Source::new(&mut *file, false), options(engine, &config));
    checked.map_err(|fault| failed(describe(&fault, "rdbLoadObject")))
}

/// Reads a snapshot that another server sends, in the place of the present data, which stays until the first bytes are
/// good, when it is `emptied`. `size`: bytes of it; 0 if that is not known. Commands that need data are refused from
/// then on; a caller that admitted them before has made sure that none changes anything any more.
///
/// # Errors
/// The snapshot cannot be read or is faulty. A part of it may be loaded, and the old data is gone.
pub fn load_in_place(
    engine: &Engine,
    reader: &mut dyn Read,
    size: u64,
    emptied: &dyn Fn(),
) -> Result<LoadedFile, LoadFailure> {
    let (config, host) = (engine.config().snapshot(), engine.host());
    let (saves, began) = (engine.persistence_status(), host.unix_us(UnixUs(0)));
    let options = options(engine, &config);
    let mut source = Source::new(reader, options.check_sum);
    let begin = || {
        saves.loading.started_at.store(began.seconds(), Relaxed);
        saves.loading.total_bytes.store(size, Relaxed);
        saves.loading.loaded_bytes.store(0, Relaxed);
        saves.set_loading(true);
        while !engine.pass_locks(&mut 0, || false) {}
        emptied();
        Ok(())
    };
    let mode = Mode { merge: false, expires: false };
    let result = read(Target::served(engine), &config, &mut source, options, mode, &begin);
    engine.end_reserving();
    let loaded = result.map_err(|fault| {
        if saves.deny_reasons().is_loading() {
            emptied();
        }
        saves.set_loading(false);
        LoadFailure { text: describe(&fault, "rdbLoadObject"), is_corrupt: matches!(fault.reason, Reason::Corrupt(_)) }
    })?;
    saves.set_loading(false);
    saves.loading.keys_loaded.store(loaded.keys, Relaxed);
    saves.loading.keys_expired.store(loaded.expired, Relaxed);
    host.notice(&loaded.to_string());
    Ok(loaded)
}

/// The destination of keys and functions.
#[derive(Clone, Copy)]
pub(crate) struct Target<'e> {
    pub engine: &'e Engine,
    pub keyspace: &'e Keyspace,
    /// Functions go here if not among those that are called.
    pub libraries: Option<&'e RefCell<Libraries>>,
}

impl<'e> Target<'e> {
    /// Returns the data set that is served as the target.
    fn served(engine: &'e Engine) -> Target<'e> {
        Target { engine, keyspace: engine, libraries: None }
    }
}

/// The treatment of keys that are there already, or that have expired.
#[derive(Clone, Copy)]
pub(crate) struct Mode {
    pub merge: bool,
    pub expires: bool,
}

/// An action for when the file's first bytes are good.
pub(crate) type Begin<'b> = &'b dyn Fn() -> Result<(), String>;

pub(crate) fn read(
    target: Target<'_>,
    config: &Config,
    source: &mut Source<'_>,
    options: LoadOptions,
    mode: Mode,
    begin: Begin<'_>,
) -> Result<LoadedFile, Fault> {
    let engine = target.engine;
    let now = engine.host().unix_us(UnixUs(0)).ms();
    let inserter = Inserter { engine, keyspace: target.keyspace, mode, now, queue: Queue::default() };
    let mut result = None;
    engine.host().alongside(&|| inserter.help(), &mut || {
        let libraries = fcall::FromFile::new(engine, target.libraries);
        let mut loader = Loader::new(&inserter, libraries, Delay::new(config.int(Directive::KEY_LOAD_DELAY)), begin);
        let read = load::load(source, options, engine.encoding_limits(), &mut loader).map(|()| {
            loader.flush();
            let (id, offset, db) = loader.history;
            let history = id.zip(offset).map(|(id, offset)| (id, offset, db));
            LoadedFile { history, ..loader.loaded }
        });
        inserter.finish();
        // A helper's fault is an error, too, and the one that ended the reading.
        result = Some(match inserter.queue.lock().failure.take() {
            Some(Refused::Unreadable(fault)) => Err(fault),
            Some(Refused::Duplicate(text)) => source.corrupt(text),
            None => read,
        });
    });
    let queue = &inserter.queue;
    let [keys, empty, all_expired] =
        [&queue.inserted, &queue.empty, &queue.all_expired].map(|count| count.load(Relaxed));
    result.map_or(Ok(LoadedFile::default()), |result| {
        result.map(|loaded| LoadedFile { keys, empty, all_expired, ..loaded })
    })
}

/// Describes a fault as a line for the log. `function`: the function at work.
pub fn describe(fault: &Fault, function: &str) -> String {
    match &fault.reason {
        Reason::Checksum { found, stated } => {
            format!("Wrong RDB checksum expected: ({found:x}) but got ({stated:x}). Aborting now: RDB CRC error")
        }
        Reason::Truncated => {
            format!("Short read or OOM loading DB. Unrecoverable error, aborting now: at offset {}", fault.offset)
        }
        Reason::UnknownType(_) => {
            "Unknown type or opcode when loading DB. Unrecoverable error, aborting now.".to_owned()
        }
        Reason::Version(_) | Reason::Foreign { .. } => format!("{}", fault.reason),
        reason => format!("Internal error in RDB reading offset {}, function at {function} -> {reason}", fault.offset),
    }
}

/// Writes the report of a check of the file to the log.
pub fn report(engine: &Engine) {
    let config = engine.config().snapshot();
    let name = config.text(Directive::DBFILENAME);
    if let Ok((mut file, _)) = engine.host().open_file(name) {
        let now = engine.host().unix_us(UnixUs(0)).ms();
        let report = check::check(&String::from_utf8_lossy(name), &mut *file, now);
        report.text.lines().for_each(|line| engine.host().log(line));
    }
}

/// Keys of a few shards on their way into their tables.
struct Batch {
    db: u32,
    keys: Collected,
}

/// Keys of a few shards.
#[derive(Default)]
struct Collected {
    entries: Vec<(KeyHash, KeyEntry)>,
    /// Keys whose values are still to be read, and all of their names and values in a row.
    unread: Vec<Later>,
    bytes: Vec<u8>,
}

/// A key whose value is still to be read.
struct Later {
    hash: KeyHash,
    name_len: usize,
    value_len: usize,
    kind: u8,
    family: Family,
    /// Offset of the value in the file.
    offset: u64,
    expiry: Option<u64>,
    /// Its access mark.
    meta: u32,
}

impl Collected {
    fn is_worth_a_lock(&self) -> bool {
        self.entries.len() + self.unread.len() >= BATCH || self.bytes.len() >= BATCH_BYTES
    }

    fn is_empty(&self) -> bool {
        self.entries.is_empty() && self.unread.is_empty()
    }
}

/// Shards whose keys are collected together: few, so that those of a batch find their tables in the processor's cache,
/// and not each by itself, so that the collected keys do not take up much memory.
const TOGETHER: usize = 16;
/// Keys that are put in together.
const BATCH: usize = 128;
/// Keys for each bucket of a table above which it is smaller than expected.
const OVERFULL: usize = 16;
/// Bytes of unread values, at most, but for one key's.
const BATCH_BYTES: usize = 64 << 10;
/// Waiting batches, at most.
const QUEUE: usize = 32;

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
    inserted: AtomicU64,
    empty: AtomicU64,
    all_expired: AtomicU64,
    failed: AtomicBool,
}

/// The reason that a key is not in its table.
enum Refused {
    Duplicate(String),
    Unreadable(Fault),
}

#[derive(Default)]
struct Waiting {
    batches: VecDeque<Batch>,
    is_over: bool,
    failure: Option<Refused>,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts entries into their tables.
struct Inserter<'e> {
    engine: &'e Engine,
    /// The keyspace of the tables.
    keyspace: &'e Keyspace,
    mode: Mode,
    /// Unix time in milliseconds.
    now: UnixMs,
    queue: Queue,
}

impl Inserter<'_> {
    /// Runs a helping thread: takes batches until the end.
    fn help(&self) {
        let mut waiting = self.queue.lock();
        loop {
            if let Some(batch) = waiting.batches.pop_front() {
                drop(waiting);
                self.insert(batch);
                waiting = self.queue.lock();
            } else if waiting.is_over {
                return;
            } else {
                waiting = self.queue.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn submit(&self, batch: Batch) {
        let mut waiting = self.queue.lock();
        waiting.batches.push_back(batch);
        let surplus = (waiting.batches.len() > QUEUE).then(|| waiting.batches.pop_front()).flatten();
        drop(waiting);
        match surplus {
            Some(batch) => self.insert(batch),
            None => self.queue.changed.notify_one(),
        }
    }

    /// Finishes the rest, and releases the helpers.
    fn finish(&self) {
        self.queue.lock().is_over = true;
        self.queue.changed.notify_all();
        self.help();
    }

    /// Decodes the unread values.
    fn read(&self, keys: &mut Collected) -> Result<(), Fault> {
        let mut bytes = keys.bytes.as_slice();
        let mut source = Source::of(b"");
        for later in &keys.unread {
            let (name, rest) = bytes.split_at(later.name_len);
            let (value, rest) = rest.split_at(later.value_len);
            bytes = rest;
            source.restart(value, later.offset);
            match decode::value(&mut source, later.kind, later.family, self.engine.encoding_limits()) {
                Ok(value) => {
                    keys.entries.push((later.hash, value.into_entry(name, later.expiry, later.meta)));
                }
                Err(Fault { reason: Reason::Empty, .. }) => self.tell_empty(name),
                Err(fault) => return Err(fault),
            }
        }
        Ok(())
    }

    /// Takes out elements that have expired; false when none is left.
    fn drop_expired(&self, db: u32, name: &[u8], entry: &mut KeyEntry) -> bool {
        let Some(object) = entry.payload_mut() else { return true };
        if object.next_expiry().is_none_or(|at| !is_due(at, self.now)) {
            return true;
        }
        let mut words = vec![object.element_words().removal.to_vec(), name.to_vec()];
        while object.pop_due(self.now.0.max(0) as u64, |element| words.push(element.to_vec())) {}
        self.engine.record_left_out(db, words.iter().map(Vec::as_slice));
        !object.is_empty()
    }

    fn tell_empty(&self, name: &[u8]) {
        if self.queue.empty.fetch_add(1, Relaxed) < EMPTY_TOLD {
            self.engine.host().notice(&format!("rdbLoadObject skipping empty key: {}", String::from_utf8_lossy(name)));
        }
    }

    fn refuse(&self, why: Refused) {
        self.queue.lock().failure.get_or_insert(why);
        self.queue.failed.store(true, Relaxed);
    }

    fn insert(&self, mut batch: Batch) {
        if let Err(fault) = self.read(&mut batch.keys) {
            return self.refuse(Refused::Unreadable(fault));
        }
        let mut entries = batch.keys.entries;
        // The order within a shard is that of the file.
        entries.sort_by_key(|(hash, _)| hash.shard());
        entries.iter().for_each(|(hash, _)| self.keyspace.prefetch_bucket(batch.db, *hash));
        let (mut inserted, mut name, mut entries) = (0, Vec::new(), entries.into_iter().peekable());
        let context = ExecContext { caller: Caller::Replay, now: self.now };
        while let Some(&(first, _)) = entries.peek() {
            let (held, shard) = (HeldLocks::keys(self.keyspace, std::iter::once(first)), first.shard());
            let mut keys = Keys::new(self.keyspace, held, batch.db, context);
            while let Some((hash, mut entry)) = entries.next_if(|(hash, _)| hash.shard() == shard) {
                name.clear();
                name.extend_from_slice(entry.key());
                if self.mode.expires && !self.drop_expired(batch.db, &name, &mut entry) {
                    self.queue.all_expired.fetch_add(1, Relaxed);
                    continue;
                }
                let mut edit = keys.edit(Key { name: &name, hash });
                if edit.exists() && !self.mode.merge {
                    edit.unchanged();
                    let text =
                        format!("RDB has duplicated key '{}' in DB {}", String::from_utf8_lossy(&name), batch.db);
                    self.refuse(Refused::Duplicate(text));
                    continue;
                }
                edit.put(entry);
                edit.commit_silently(0);
                inserted += 1;
            }
            // Tags may bring a shard more than its share.
            let table = &mut keys.shard_at(first).dbs[batch.db].table;
            if table.len() > table.bucket_count() * OVERFULL {
                table.set_resizing(true);
            }
            self.keyspace.inform_observers(&mut keys.release());
        }
        self.queue.inserted.fetch_add(inserted, Relaxed);
    }
}

/// `key-load-delay`: microseconds a key, or the number of keys to a microsecond.
struct Delay {
    nanos: u64,
    owed: u64,
}

impl Delay {
    fn new(directive: i64) -> Delay {
        let nanos = if directive >= 0 { directive.unsigned_abs() * 1000 } else { 1000 / directive.unsigned_abs() };
        Delay { nanos, owed: 0 }
    }

    fn key(&mut self, engine: &Engine) {
        const WORTH_IT: u64 = 1_000_000;
        self.owed += self.nanos;
        if self.owed >= WORTH_IT {
            engine.host().rest(Duration::from_nanos(std::mem::take(&mut self.owed)));
        }
    }
}

/// Collects keys by shards.
struct Loader<'i, 'e> {
    inserter: &'i Inserter<'e>,
    engine: &'e Engine,
    db: u32,
    /// One batch for each few shards.
    batches: Vec<Collected>,
    delay: Delay,
    libraries: fcall::FromFile<'e>,
    begin: Begin<'i>,
    /// The history's name, the offset in it, the database of its stream.
    history: (Option<ReplicationId>, Option<u64>, u32),
    loaded: LoadedFile,
    /// The lending of the worker whose client loads.
    yielding: Yielding<'e>,
}

/// Empty keys that the log names.
const EMPTY_TOLD: u64 = 10;

impl<'i, 'e> Loader<'i, 'e> {
    fn new(inserter: &'i Inserter<'e>, libraries: fcall::FromFile<'e>, delay: Delay, begin: Begin<'i>) -> Self {
        let engine = inserter.engine;
        let batches = (0..engine.locks().len().div_ceil(TOGETHER)).map(|_| Collected::default()).collect();
        Loader {
            inserter,
            engine,
            db: 0,
            batches,
            delay,
            libraries,
            begin,
            history: (None, None, 0),
            loaded: LoadedFile::default(),
            yielding: Yielding::without_locks(engine),
        }
    }

    /// Sends off the collected keys.
    fn flush(&mut self) {
        for keys in &mut self.batches {
            if !keys.is_empty() {
                self.inserter.submit(Batch { db: self.db, keys: std::mem::take(keys) });
            }
        }
    }

    /// Returns a key's shard, with its expiry and its access mark; None if it has expired.
    fn place(
        &mut self,
        (db, name): (u64, &[u8]),
        expiry: Option<i64>,
        idle: Option<u64>,
        frequency: Option<u8>,
    ) -> Result<Option<(KeyHash, Option<u64>, u32)>, String> {
        let databases = self.engine.databases();
        let Some(db) = u32::try_from(db).ok().filter(|db| (*db as usize) < databases) else {
            return Err(format!(
                "Data file was created with a server configured to handle more than {databases} databases"
            ));
        };
        if self.inserter.queue.failed.load(Relaxed) {
            // The reason is reported at the end.
            return Err(String::new());
        }
        self.delay.key(self.engine);
        let now = self.inserter.now;
        let expiry = expiry.filter(|at| *at != -1).map(|at| at.max(0) as u64);
        if self.inserter.mode.expires && expiry.is_some_and(|at| is_due(at, now)) {
            self.loaded.expired += 1;
            self.engine.record_left_out(db, [self.engine.removal_word(), name].into_iter());
            return Ok(None);
        }
        if db != self.db {
            self.flush();
            self.db = db;
        }
        let meta = self.engine.access_clock(now).marked(idle, frequency);
        Ok(Some((self.engine.hasher().hash(name), expiry, meta)))
    }

    fn submit_if_worth(&mut self, at: usize) {
        let keys = &mut self.batches[at];
        if keys.is_worth_a_lock() {
            let next = Collected { entries: Vec::with_capacity(keys.entries.len()), ..Collected::default() };
            let keys = std::mem::replace(keys, next);
            self.inserter.submit(Batch { db: self.db, keys });
        }
    }
}

impl Sink for Loader<'_, '_> {
    fn begin(&mut self) -> Result<(), String> {
        (self.begin)()
    }

    fn key(&mut self, found: LoadedKey) -> Result<(), String> {
        let LoadedKey { db, name, value, expiry, idle, frequency } = found;
        if let Some((hash, expiry, meta)) = self.place((db, &name), expiry, idle, frequency)? {
            let at = hash.shard() / TOGETHER;
            self.batches[at].entries.push((hash, value.into_entry(&name, expiry, meta)));
            self.submit_if_worth(at);
        }
        Ok(())
    }

    fn takes_unread(&self) -> bool {
        true
    }

    fn unread(&mut self, found: Unread<'_>) -> Result<(), String> {
        let Unread { db, name, kind, family, bytes, offset, expiry, idle, frequency } = found;
        if let Some((hash, expiry, meta)) = self.place((db, name), expiry, idle, frequency)? {
            let at = hash.shard() / TOGETHER;
            let keys = &mut self.batches[at];
            keys.bytes.extend_from_slice(name);
            keys.bytes.extend_from_slice(bytes);
            let (name_len, value_len) = (name.len(), bytes.len());
            keys.unread.push(Later { hash, name_len, value_len, kind, family, offset, expiry, meta });
            self.submit_if_worth(at);
        }
        Ok(())
    }

    fn reserve_keys(&mut self, db: u64, keys: u64) {
        // No key takes less than this; a larger hint is wrong.
        const KEY_MIN: u64 = 3;
        let loading = &self.engine.persistence_status().loading;
        let left = loading.total_bytes.load(Relaxed).saturating_sub(loading.loaded_bytes.load(Relaxed));
        if let Some(db) = u32::try_from(db).ok().filter(|db| (*db as usize) < self.engine.databases()) {
            self.inserter.keyspace.reserve_keys(db, keys.min(left / KEY_MIN));
        }
    }

    fn slot_import(&mut self, name: &[u8; 40], slots: SlotSet) {
        self.engine.host().track_import(name, &slots);
        // A data set that is read beside the served one counts by itself.
        self.inserter.keyspace.importing_slots().hide(*name, slots);
    }

    fn function(&mut self, code: Vec<u8>) -> Result<(), String> {
        let merge = self.inserter.mode.merge;
        self.libraries.add(&code, merge).map_err(|error| format!("Failed creating the functions library: {error}"))
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        let text = String::from_utf8_lossy(value);
        match name {
            b"valkey-ver" => self.engine.host().notice(&format!("Loading RDB produced by Valkey version {text}")),
            b"redis-ver" => self.engine.host().notice(&format!("Loading RDB produced by Redis version {text}")),
            b"cinnabar-ver" => self.engine.host().notice(&format!("Loading RDB produced by Cinnabar version {text}")),
            b"repl-id" => self.history.0 = ReplicationId::parse(value),
            b"repl-offset" => self.history.1 = text.parse().ok(),
            b"repl-stream-db" => self.history.2 = text.parse().unwrap_or(0),
            b"cluster-slot-states" => self.loaded.open_slots = value.to_vec(),
            b"ctime" => {
                let age = text.parse().map_or(0, |then: i64| (self.inserter.now.seconds() - then).max(0));
                self.engine.host().notice(&format!("RDB age {age} seconds"));
            }
            b"used-mem" => {
                let megabytes = text.parse().map_or(0.0, |bytes: f64| bytes / f64::from(1 << 20));
                self.engine.host().notice(&format!("RDB memory usage when created {megabytes:.2} Mb"));
            }
            _ => {}
        }
    }

    fn empty_key(&mut self, name: &[u8]) {
        self.inserter.tell_empty(name);
    }

    fn skipped_module(&mut self, name: &str) {
        self.engine.host().log(&format!("The RDB file contains AUX data of module '{name}', which was skipped"));
    }

    fn progress(&mut self, offset: u64, _: Doing) {
        self.engine.persistence_status().loading.loaded_bytes.store(offset, Relaxed);
        self.yielding.step();
    }
}

/// Reads the base of a log. No key in it counts as expired: the records after it may rely on it.
pub(crate) fn load_base(engine: &Engine, source: &mut Source<'_>, options: LoadOptions) -> Result<LoadedFile, String> {
    let config = engine.config().snapshot();
    let mode = Mode { merge: false, expires: false };
    let result = read(Target::served(engine), &config, source, options, mode, &|| Ok(()));
    engine.end_reserving();
    result.map_err(|fault| describe(&fault, "rdbLoadObject"))
}

pub(crate) fn options(engine: &Engine, config: &Config) -> LoadOptions {
    engine.persistence_status().sanitizations.fetch_add(1, Relaxed);
    LoadOptions {
        relaxed: config.choice(Directive::RDB_VERSION_CHECK) == "relaxed",
        check_sum: checks_sums(engine, config),
    }
}

/// Returns whether the checksums of snapshots are looked at.
pub fn checks_sums(engine: &Engine, config: &Config) -> bool {
    config.flag(Directive::RDBCHECKSUM) && !engine.persistence_status().skips_checksums()
}
