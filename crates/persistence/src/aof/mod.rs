//! The append-only file: every change in the order of execution, in several files.
//!
//! ```text
//!   appendonlydir/  appendonly.aof.manifest          which files there are                        manifest.rs
//!                   appendonly.aof.2.base.rdb        the keyspace when the log was rewritten      ../save.rs, rewrite.rs
//!                   appendonly.aof.2.incr.aof        the changes since then                       journal.rs, read.rs
//! ```
//!
//! A rewrite opens the next file of changes and lists it, turns the journal to it in the moment of a
//! [cut](engine::cut), writes the keyspace of that moment into a new base, and then lists the new base in the place of
//! all before it. At every moment the manifest on the disk names files that together are the whole log.
//!
//! [`Aof`] is the engine's change log. No files and threads here: they come in as [`Storage`]; `commands` decides when
//! what happens, `server` has the thread that writes and syncs.

pub mod check;
pub mod journal;
pub mod manifest;
pub mod read;
pub mod rewrite;
pub mod storage;

use engine::Engine;
use engine::blocked::Ticket;
use engine::log::ChangeLog;
use journal::{Journal, Target};
use manifest::Manifest;
use parking_lot::Mutex;
use std::any::Any;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering::Relaxed};
use storage::Storage;

/// Whether there is a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Off,
    On,
    /// It begins with the rewrite that is to come or under way.
    Waiting,
}

/// The log with its files.
pub struct Aof {
    pub journal: Journal,
    pub storage: Arc<dyn Storage>,
    /// Where its files are, and what their names begin with.
    dir: Vec<u8>,
    file: Vec<u8>,
    pub manifest: Mutex<Manifest>,
    state: AtomicU8,
    /// Held while the log is turned on or off, or gets a new base.
    pub switch: Mutex<()>,
    /// Who waits until the log is durable up to an offset.
    waiters: Mutex<Vec<(u64, Arc<Ticket>)>>,
    pub stats: Stats,
}

/// For INFO, and for what is decided by it.
#[derive(Default)]
pub struct Stats {
    /// A rewrite is to begin when what is in its way has ended.
    pub scheduled: AtomicBool,
    pub rewriting: AtomicBool,
    /// Somebody wants the rewrite to end.
    pub cancelled: AtomicBool,
    /// Unix time in milliseconds when it began; 0 for none.
    pub started_at: AtomicI64,
    /// Seconds that the last one took, and one more; 0 for none.
    pub last_seconds: AtomicI64,
    pub last_failed: AtomicBool,
    pub rewrites: AtomicU64,
    pub failures: AtomicU64,
    /// Unix time in milliseconds of the last that failed.
    pub failed_at: AtomicI64,
    /// The limit of rewrites that fail has been told of.
    pub limit_told: AtomicBool,
    /// The log's bytes after the last rewrite.
    pub base_size: AtomicU64,
    /// Writes that did not wait for a sync, but should not have had to.
    pub delayed: AtomicU64,
    /// The error's number in the system after a write or sync failed; 0: all is well.
    pub error: AtomicI64,
    /// Replies that were kept so far until the log is durable.
    pub kept: AtomicU64,
    /// What a sync takes, in nanoseconds, on average of the last few.
    pub sync_nanos: AtomicU64,
    /// Microseconds to sleep before a write (DEBUG AOF-FLUSH-SLEEP).
    pub flush_sleep: AtomicU64,
}

impl ChangeLog for Aof {
    fn append(&self, first: u32, last: u32, is_group: bool, render: &mut dyn FnMut(&mut Vec<u8>)) -> u64 {
        self.journal.append(first, last, is_group, render)
    }

    fn waiting(&self) -> u64 {
        self.journal.waiting()
    }
}

/// The engine's append-only file, if there may be one.
pub fn of(engine: &Engine) -> Option<&Aof> {
    let log: &dyn Any = engine.change_log()?;
    log.downcast_ref()
}

impl Aof {
    pub fn new(storage: Arc<dyn Storage>, dir: &[u8], file: &[u8]) -> Aof {
        Aof {
            journal: Journal::default(),
            storage,
            dir: dir.to_vec(),
            file: file.to_vec(),
            manifest: Mutex::default(),
            state: AtomicU8::new(State::Off as u8),
            switch: Mutex::default(),
            waiters: Mutex::default(),
            stats: Stats::default(),
        }
    }

    #[inline]
    pub fn state(&self) -> State {
        match self.state.load(Relaxed) {
            0 => State::Off,
            1 => State::On,
            _ => State::Waiting,
        }
    }

    pub fn set_state(&self, state: State) {
        self.state.store(state as u8, Relaxed);
    }

    /// The log's own name, which the names of its files begin with, and their directory.
    pub fn file(&self) -> &[u8] {
        &self.file
    }

    pub fn dir(&self) -> &[u8] {
        &self.dir
    }

    /// A file of the log, as the storage knows it.
    pub fn path(&self, name: &[u8]) -> Vec<u8> {
        [&self.dir, &b"/"[..], name].concat()
    }

    pub fn manifest_path(&self) -> Vec<u8> {
        self.path(&[&self.file, &b".manifest"[..]].concat())
    }

    /// The file of changes before the log has a base.
    pub fn temporary_incr(&self) -> Vec<u8> {
        [b"temp-", &self.file[..], b".incr"].concat()
    }

    /// Opens a file of the log to be appended to.
    pub fn target(&self, name: &[u8]) -> io::Result<Target> {
        let (file, len) = self.storage.append(&self.path(name))?;
        Ok(Target { file, name: name.to_vec(), len })
    }

    /// Makes what the manifest says durable, and then takes it for the present one.
    pub fn adopt(&self, manifest: Manifest) -> io::Result<()> {
        self.storage.replace(&self.manifest_path(), &manifest.format())?;
        *self.manifest.lock() = manifest;
        Ok(())
    }

    /// Adopts the manifest without the files that are not needed any more, and removes them; `tell` gets their names.
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

    /// Bytes in the files that the manifest names.
    pub fn total_size(&self) -> io::Result<u64> {
        let manifest = self.manifest.lock();
        manifest.readable().map(|entry| self.storage.len(&self.path(&entry.name))).sum()
    }

    /// The client waits until the log is durable up to this offset.
    pub fn wait_for(&self, offset: u64, ticket: &Arc<Ticket>) {
        let mut waiters = self.waiters.lock();
        waiters.retain(|(_, ticket)| ticket.is_waiting());
        waiters.push((offset, Arc::clone(ticket)));
    }

    /// Those whose wait is over now: `tell` owes each of them the reply.
    pub fn end_waits(&self, mut tell: impl FnMut(&Arc<Ticket>)) {
        let synced = self.journal.synced();
        let over: Vec<_> = self.waiters.lock().extract_if(.., |(offset, _)| *offset <= synced).collect();
        over.iter().filter(|(_, ticket)| ticket.finish()).for_each(|(_, ticket)| tell(ticket));
    }

    /// Whether writing or syncing fails.
    pub fn has_failed(&self) -> bool {
        self.stats.error.load(Relaxed) != 0
    }
}
