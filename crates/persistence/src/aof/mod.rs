//! The append-only file: every change in the order of execution, in several files.
//!
//! ```text
//!   appendonlydir/  appendonly.aof.manifest          which files there are                        manifest.rs
//!                   appendonly.aof.2.base.rdb        the keyspace when the log was rewritten      ../save.rs, rewrite.rs
//!                   appendonly.aof.2.incr.aof        the changes since then                       journal.rs, read.rs
//! ```
//!
//! A rewrite opens the next file of changes and lists it, turns the journal to it in the moment of a
//! [snapshot](engine::snapshot::captures), writes the keyspace of that moment into a new base, and then lists the new
//! base in the place of all before it. At every moment the manifest on the disk names files that together are the whole
//! log.
//!
//! [`Aof`] is a sink of the engine's change log. It has no files and threads of its own: files come in as [`Storage`];
//! `commands` decides when each step happens, `server` has the thread that writes and syncs.

pub mod check;
mod file_bytes;
pub mod framing;
pub mod journal;
pub mod manifest;
mod policy;
pub mod read;
pub mod rewrite;
pub mod storage;

use engine::Engine;
use engine::clients::waiters::Ticket;
use engine::locks::sync::Mutex;
use engine::propagation::change_log::{ChangeLog, LogKeeper};
use engine::status::lag_hold::LagHold;
use engine::status::pause::Hold;
use journal::{Journal, JournalTarget, Policy};
use manifest::Manifest;
use std::any::Any;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering::*};
use storage::Storage;

/// Bytes of the log that may be in memory until it has caught up. Beyond that commands that write wait.
const BEHIND_MAX: u64 = 32 << 20;

/// Whether there is a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// The log is off.
    Off,
    /// Every write is appended to it.
    On,
    /// The log begins with the rewrite that is to come or under way.
    Waiting,
}

/// The log with its files.
pub struct Aof {
    /// The appended records, and how much of them is on disk.
    pub journal: Journal,
    /// The disk.
    pub storage: Arc<dyn Storage>,
    /// Directory of its files, and the beginning of their names.
    dir: Vec<u8>,
    file: Vec<u8>,
    /// The files of the log.
    pub manifest: Mutex<Manifest>,
    state: AtomicU8,
    /// Held while the log is turned on or off, or gets a new base.
    pub switch: Mutex<Switch>,
    /// Clients that wait until the log is durable up to an offset.
    waiters: Mutex<Vec<(u64, Arc<Ticket>)>>,
    health: Health,
    /// Writes are held back until the log has caught up.
    pub lag_hold: LagHold,
    /// Counters and marks of rewrites.
    pub stats: AofStats,
}

/// The right to turn the log on and off.
#[derive(Default)]
pub struct Switch {
    /// Another data set takes the place of the present one: the log stays off until then.
    pub is_stopped: bool,
}

/// Whether the log can be written, as far as is known.
#[derive(Default)]
struct Health {
    /// The error's number in the system after a write or sync failed; 0: all is well.
    error: AtomicI64,
    /// Failures so far.
    failures: AtomicU64,
    /// Held while it changes.
    change: Mutex<()>,
}

/// A write or sync that has begun: the number of failures by then. See [`Aof::attempt`].
#[derive(Clone, Copy, Debug)]
pub struct RewriteAttempt(u64);

/// Figures for INFO, and for decisions about rewrites.
#[derive(Default)]
pub struct AofStats {
    /// A rewrite is to begin when its obstacles have ended.
    pub scheduled: AtomicBool,
    /// A rewrite is under way.
    pub rewriting: AtomicBool,
    /// The log was on before a synchronization, and has not begun again.
    pub is_owed: AtomicBool,
    /// The rewrite is to end at its next step.
    pub cancelled: AtomicBool,
    /// Its beginning by the monotonic clock, in milliseconds; 0 for none.
    pub started_at: AtomicI64,
    /// Seconds that the last one took, and one more; 0 for none.
    pub last_seconds: AtomicI64,
    /// The last rewrite failed.
    pub last_failed: AtomicBool,
    /// Rewrites that have ended.
    pub rewrites: AtomicU64,
    /// Rewrites in a row that failed.
    pub failures: AtomicU64,
    /// The end of the last failed rewrite, by that clock.
    pub failed_at: AtomicI64,
    /// The limit of failing rewrites has been logged.
    pub limit_told: AtomicBool,
    /// The log's bytes after the last rewrite.
    pub base_size: AtomicU64,
    /// Writes that did not wait for a sync, but should not have had to.
    pub delayed: AtomicU64,
    /// Replies that were held back so far until the log is durable.
    pub kept: AtomicU64,
    /// Nanoseconds of a sync, on average of the last few.
    pub sync_nanos: AtomicU64,
    /// Nanoseconds that the log's thread has spent on writes and syncs while replies wait for them.
    pub thread_nanos: AtomicU64,
    /// Microseconds to sleep before a write (DEBUG AOF-FLUSH-SLEEP).
    pub flush_sleep: AtomicU64,
}

impl LogKeeper for Aof {
    fn waiting(&self) -> u64 {
        self.behind()
    }
}

/// Returns the engine's append-only file, if there may be one.
pub fn of(engine: &Engine) -> Option<&Aof> {
    let keeper: &dyn Any = engine.log_keeper()?;
    keeper.downcast_ref()
}

impl Aof {
    /// Installs a log that is off in an engine. Its files are in `dir`, and their names begin with `file`.
    pub fn install(engine: &Engine, storage: Arc<dyn Storage>, dir: &[u8], file: &[u8]) {
        let log = Arc::clone(engine.change_log());
        engine.install_log_keeper(Arc::new(Aof::new(log, storage, dir, file)));
    }

    fn new(log: Arc<ChangeLog>, storage: Arc<dyn Storage>, dir: &[u8], file: &[u8]) -> Aof {
        Aof {
            journal: Journal::new(log),
            storage,
            dir: dir.to_vec(),
            file: file.to_vec(),
            manifest: Mutex::default(),
            state: AtomicU8::new(State::Off as u8),
            switch: Mutex::default(),
            waiters: Mutex::default(),
            health: Health::default(),
            lag_hold: LagHold::new(Hold::Log, BEHIND_MAX),
            stats: AofStats::default(),
        }
    }

    /// Returns whether the log is on.
    #[inline]
    pub fn state(&self) -> State {
        match self.state.load(Relaxed) {
            0 => State::Off,
            1 => State::On,
            _ => State::Waiting,
        }
    }

    /// Turns the log on or off; the caller holds [`switch`](Self::switch).
    pub fn set_state(&self, state: State) {
        self.state.store(state as u8, Relaxed);
    }

    /// Returns the log's own name, with which the names of its files begin.
    pub fn file(&self) -> &[u8] {
        &self.file
    }

    /// Returns the directory of the log's files.
    pub fn dir(&self) -> &[u8] {
        &self.dir
    }

    /// Returns a file of the log, as the storage knows it.
    pub fn path(&self, name: &[u8]) -> Vec<u8> {
        [&self.dir, &b"/"[..], name].concat()
    }

    /// Returns the manifest, as the storage knows it.
    pub fn manifest_path(&self) -> Vec<u8> {
        self.path(&[&self.file, &b".manifest"[..]].concat())
    }

    /// Returns the file of changes before the log has a base.
    pub fn temporary_incr(&self) -> Vec<u8> {
        [b"temp-", &self.file[..], b".incr"].concat()
    }

    /// Opens a file of the log to be appended to.
    ///
    /// # Errors
    /// The file cannot be opened or made.
    pub fn target(&self, name: &[u8]) -> io::Result<JournalTarget> {
        let (file, len) = self.storage.append(&self.path(name))?;
        Ok(JournalTarget { file, name: name.to_vec(), len })
    }

    /// Opens a file of the log that is to begin. Bytes that a failed attempt left under its name are not a part of the
    /// log.
    ///
    /// # Errors
    /// The file cannot be opened, made or emptied.
    pub fn new_target(&self, name: &[u8]) -> io::Result<JournalTarget> {
        let mut target = self.target(name)?;
        if target.len > 0 {
            target.file.truncate(0)?;
            target.len = 0;
        }
        Ok(target)
    }

    /// Makes the manifest durable, and then takes it for the present one.
    ///
    /// # Errors
    /// The manifest cannot be written; the present one stays.
    pub fn adopt(&self, manifest: Manifest) -> io::Result<()> {
        self.storage.replace(&self.manifest_path(), &manifest.format())?;
        *self.manifest.lock() = manifest;
        Ok(())
    }

    /// Adopts the manifest without the files that are not needed any more, and removes them; `tell` receives their
    /// names.
    ///
    /// # Errors
    /// The manifest cannot be written, or an existing file cannot be removed.
    pub fn drop_history(&self, mut tell: impl FnMut(&[u8])) -> io::Result<()> {
        let mut manifest = self.manifest.lock().clone();
        if manifest.history.is_empty() {
            return Ok(());
        }
        let history = std::mem::take(&mut manifest.history);
        self.adopt(manifest)?;
        for entry in history {
            tell(&entry.name);
            match self.storage.remove(&self.path(&entry.name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns names and lengths of the files that the manifest names, in the order in which they are read.
    ///
    /// # Errors
    /// The length of a file cannot be read.
    pub fn files(&self) -> io::Result<Vec<(Vec<u8>, u64)>> {
        let manifest = self.manifest.lock();
        manifest.readable().map(|entry| Ok((entry.name.clone(), self.storage.len(&self.path(&entry.name))?))).collect()
    }

    /// Returns the bytes in the files that the manifest names.
    ///
    /// # Errors
    /// The length of a file cannot be read.
    pub fn total_size(&self) -> io::Result<u64> {
        Ok(self.files()?.iter().map(|(_, len)| len).sum())
    }

    /// Returns whether all of the change log up to this length, and nothing else, is in the files and durable, and the
    /// files stay the same.
    pub fn ends_at(&self, length: u64) -> bool {
        let journal = &self.journal;
        let is_whole = journal.appended() == length && journal.synced() == length && !journal.is_in_doubt();
        self.state() == State::On && is_whole && !self.has_failed() && !self.stats.rewriting.load(Relaxed)
    }

    /// Makes the client wait until the log is durable up to this offset.
    pub fn wait_for(&self, offset: u64, ticket: &Arc<Ticket>) {
        let mut waiters = self.waiters.lock();
        waiters.retain(|(_, ticket)| ticket.is_waiting());
        waiters.push((offset, Arc::clone(ticket)));
    }

    /// Ends the waits of clients that need not wait any longer: `tell` owes each of them the reply. All clients where
    /// the log is off.
    pub fn end_waits(&self, mut tell: impl FnMut(&Arc<Ticket>)) {
        let durable = if self.state() == State::Off { u64::MAX } else { self.journal.synced() };
        let over: Vec<_> = self.waiters.lock().extract_if(.., |(offset, _)| *offset <= durable).collect();
        over.iter().filter(|(_, ticket)| ticket.finish()).for_each(|(_, ticket)| tell(ticket));
    }

    /// Returns the bytes of the log that replies wait for, or that wait to be written where replies wait for nothing.
    pub fn behind(&self) -> u64 {
        match self.keeps_replies() {
            true => self.journal.appended().saturating_sub(self.journal.released()),
            false => self.journal.waiting(),
        }
    }

    /// Returns whether replies wait until the log is durable.
    pub fn keeps_replies(&self) -> bool {
        self.state() == State::On && self.journal.policy() == Policy::Always
    }

    /// Returns whether writing or syncing fails.
    #[inline]
    pub fn has_failed(&self) -> bool {
        self.error() != 0
    }

    /// Returns the error's number in the system; 0: no error.
    pub fn error(&self) -> i64 {
        self.health.error.load(Acquire)
    }

    /// Begins an attempt, before a write or sync, and before a check whether they [fail](Self::has_failed).
    pub fn attempt(&self) -> RewriteAttempt {
        RewriteAttempt(self.health.failures.load(Acquire))
    }

    /// Concludes an attempt with the error's number, or None. A success ends only a failure that was known when the
    /// attempt began: a failure that came to light meanwhile is newer. If the result changes the state, `follow`
    /// runs before any other thread has another result. While the log is off nothing fails.
    pub fn conclude(&self, attempt: RewriteAttempt, error: Option<i64>, follow: impl FnOnce()) {
        let _change = self.health.change.lock();
        let known = self.error();
        match error {
            Some(number) if self.state() != State::Off => {
                self.health.failures.fetch_add(1, Release);
                self.health.error.store(number, Release);
                if known != number {
                    follow();
                }
            }
            None if known != 0 && self.health.failures.load(Acquire) == attempt.0 => {
                self.health.error.store(0, Release);
                follow();
            }
            _ => {}
        }
    }

    /// Forgets the failure of a log that is off: `follow` applies the consequences. The log must be off already.
    pub fn forget_failure(&self, follow: impl FnOnce()) {
        let _change = self.health.change.lock();
        self.health.error.store(0, Release);
        follow();
    }
}

#[cfg(test)]
mod tests {
    use super::storage::faulty::{Disk, Faults};
    use super::*;
    use engine::propagation::change_log::{Readers, RecordHead};
    use std::cell::Cell;

    #[test]
    fn only_a_success_that_began_after_a_failure_ends_it() {
        let aof = Aof::new(Arc::default(), Arc::new(Disk::default()), b"dir", b"file");
        let told = Cell::new(0);
        let conclude = |attempt, error| aof.conclude(attempt, error, || told.set(told.get() + 1));
        aof.set_state(State::On);
        let (slow, failing) = (aof.attempt(), aof.attempt());
        conclude(failing, Some(28));
        conclude(slow, None);
        assert_eq!((aof.error(), told.get()), (28, 1));
        let later = aof.attempt();
        conclude(failing, Some(28));
        conclude(later, None);
        assert_eq!((aof.error(), told.get()), (28, 1), "it failed once more meanwhile");
        conclude(aof.attempt(), None);
        assert_eq!((aof.error(), told.get()), (0, 2));
        aof.set_state(State::Off);
        conclude(aof.attempt(), Some(5));
        assert!(!aof.has_failed(), "nobody would try again");
    }

    #[test]
    fn no_client_waits_for_records_that_are_not_for_the_file() {
        for policy in [Policy::Always, Policy::EverySecond, Policy::No] {
            let (disk, log) = (Disk::default(), Arc::<ChangeLog>::default());
            let aof = Aof::new(Arc::clone(&log), Arc::new(disk.clone()), b"dir", b"file");
            let journal = &aof.journal;
            journal.set_policy(policy);
            journal.begin(aof.target(b"one").unwrap());
            let append =
                |readers| log.append(RecordHead { readers, ..RecordHead::command(0, None) }, b"*1\r\n$4\r\nPING\r\n");
            disk.set(Faults { sync_fails: true, ..Faults::default() });
            let told = append(Readers::Replicas);
            journal.write().unwrap();
            assert_eq!((journal.written(), journal.synced(), journal.released()), (told, told, told));
            assert!(journal.sync().is_ok(), "there is nothing to sync");
            append(Readers::File);
            let told = append(Readers::Replicas);
            journal.write().unwrap();
            assert_eq!(journal.written(), told);
            assert!(journal.synced() < told && journal.released() < told, "it comes after what is not durable");
            if policy == Policy::Always {
                assert!(journal.sync().is_err());
                disk.set(Faults::default());
                journal.write().unwrap();
                assert_eq!((journal.sync().unwrap(), journal.released()), (told, told));
            }
        }
    }
}
