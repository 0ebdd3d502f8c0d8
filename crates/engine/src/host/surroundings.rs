//! What the engine and its commands ask of whoever runs them.

use crate::clients::waiters::Ticket;
use crate::config::{Config, Directive, ServerHook};
use crate::engine::Engine;
use crate::host::threads::Server;
use crate::propagation::effects::{Event, Garbage};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::Duration;

/// The engine starts no thread, opens no socket or file and reads no clock; what needs one of them goes
/// through here. Called without locks held. What has a body here is what a program without sockets and
/// files does.
pub trait Host: Send + Sync {
    /// Frees what is dear to free, preferably on another thread.
    fn free(&self, garbage: Vec<Garbage>);

    /// Something happened to keys, and `notify-keyspace-events` asks for it.
    fn events(&self, events: Vec<Event>);

    /// Ends the connection of a client that `worker` serves (CLIENT KILL).
    fn kill(&self, _worker: usize, _client: u64) {}

    /// Sends a client that was blocked the reply that it waited for; its worker takes the ticket out of the queues.
    fn deliver(&self, _ticket: &Arc<Ticket>, _reply: Vec<u8>) {}

    /// The clients' pause has begun, changed or ended: workers look at it again.
    fn pause_changed(&self) {}

    /// The log was turned off, or replies wait for it in another way: who waits for it looks again.
    fn log_changed(&self) {}

    /// Adds to `left` how many workers there are. Each takes one off when it has done what had reached it before this
    /// call, the calling one too: those who ask for much are served after others.
    fn after_others(&self, _left: &Arc<AtomicUsize>) {}

    /// A clock in nanoseconds that never goes back, for measuring how long commands take. Read after every command, so
    /// it must be cheap.
    fn nanos(&self) -> u64 {
        0
    }

    /// Unix time in microseconds; `known` is what the caller was told last.
    fn unix_us(&self, known: i64) -> i64 {
        known
    }

    /// Stops the calling thread, and the other workers, too (DEBUG SLEEP).
    fn sleep(&self, _time: Duration) {}

    /// Stops the calling thread alone.
    fn rest(&self, _time: Duration) {}

    /// A script runs for so long that others are not to wait for it: the thread that it has serves other clients for a
    /// moment, who may only call what is for such times. Called under the locks of the script.
    fn while_busy(&self) {}

    /// A script has run for a while: the thread that it has serves other clients for a moment, as far as their commands
    /// can do with locks that are free. Called under the locks of the script.
    fn while_long(&self) {}

    /// Sends bytes to the client whose script this thread runs, and waits for its next request: the words of it, or
    /// None when the client or the server is about to end. Called under the locks of the script.
    fn converse(&self, _bytes: Vec<u8>) -> Option<Vec<Vec<u8>>> {
        None
    }

    /// Writes a line into the server's log (DEBUG LOG).
    fn log(&self, _line: &str) {}

    fn process(&self) -> ProcessInfo {
        ProcessInfo::default()
    }

    fn memory(&self) -> MemoryStats {
        MemoryStats::default()
    }

    /// Bytes in live allocations, as in [`memory`](Self::memory).
    fn allocated(&self) -> u64 {
        0
    }

    /// Bytes that the calling thread has allocated more than it has freed. Asked often, so it must be cheap. Wraps
    /// around at zero.
    fn own_allocated(&self) -> u64 {
        0
    }

    /// Pieces of garbage that wait to be freed, and how many have been.
    fn freeing(&self) -> (usize, usize) {
        (0, 0)
    }

    fn connections(&self) -> ConnectionStats {
        ConnectionStats::default()
    }

    /// Gives memory that the allocator keeps for later back to the system (MEMORY PURGE).
    fn purge_memory(&self) {}

    /// What the allocator tells of itself at length (MEMORY MALLOC-STATS); None when it tells nothing.
    fn allocator_report(&self) -> Option<String> {
        None
    }

    /// Reads a number of the allocator's by its name, after it has written one there (DEBUG MALLCTL).
    fn allocator_number(&self, _name: &str, _new: Option<u64>) -> io::Result<u64> {
        Err(io::ErrorKind::NotFound.into())
    }

    /// Reads a text of the allocator's by its name (DEBUG MALLCTL-STR).
    fn allocator_text(&self, _name: &str) -> io::Result<String> {
        Err(io::ErrorKind::NotFound.into())
    }

    /// Ends the process the hard way (DEBUG SEGFAULT).
    fn crash(&self) {}

    /// Begins anew as another process with the same number, as the server was called; returns only when that fails.
    fn restart(&self) -> io::Error {
        io::ErrorKind::Unsupported.into()
    }

    /// Counts connections anew (CONFIG RESETSTAT).
    fn reset_stats(&self) {}

    /// Has the surroundings follow this configuration in what the hook names; the text of an error is for the client.
    fn apply(&self, _hook: ServerHook, _config: &Config) -> Result<(), String> {
        Ok(())
    }

    /// Changes the working directory and answers its absolute path.
    fn change_dir(&self, _path: &[u8]) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Writes a line of less weight into the server's log.
    fn notice(&self, _line: &str) {}

    /// Writes a line that somebody is to read into the server's log.
    fn warn(&self, _line: &str) {}

    /// A new file, which takes the place of one of that name when it is committed.
    fn create_file(&self, _path: &[u8], _in_steps: bool) -> io::Result<Box<dyn NewFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A file without a name for what does not stay in memory.
    fn scratch_file(&self) -> io::Result<Box<dyn Scratch>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A file for reading, and its length in bytes.
    fn open_file(&self, _path: &[u8]) -> io::Result<(Box<dyn io::Read + Send>, u64)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Runs `work` on another thread, on the processors that a directive lists.
    fn in_background(&self, _cpus: Directive, _work: Task) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Runs `work` on one of a few threads that may wait for other machines, when one of them is free. Shard locks may
    /// be held.
    fn abroad(&self, _work: Task) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Runs `work` on a worker's thread, between two commands and without locks; drops it if the worker ends before.
    fn on_worker(&self, _worker: usize, _work: WorkerTask) {}

    /// Connects to another server. `patience`: how long that may take, and then each read and each write.
    fn connect(&self, _host: &[u8], _port: &[u8], _patience: Duration) -> io::Result<Box<dyn Peer>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Does `work`, while other threads do `help`, as many as there are processors to spare; returns when all have
    /// ended.
    fn alongside(&self, _help: &(dyn Fn() + Sync), work: &mut dyn FnMut()) {
        work();
    }

    /// Writes a line of little weight into the server's log.
    fn detail(&self, _line: &str) {}

    /// The whole of a file.
    fn read_file(&self, _path: &[u8]) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Puts `content` in the place of a file, so that at every moment one of the two is there.
    fn replace_file(&self, _path: &[u8], _content: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// Something that is done on another thread.
pub type Task = Box<dyn FnOnce(&Engine) + Send>;

/// The same on that of a worker.
pub type WorkerTask = Box<dyn FnOnce(&Engine, Server) + Send>;

/// Another server, at the other end of a connection.
pub trait Peer: io::Read + io::Write + Send {
    /// How long each read and each write may take from now on.
    fn set_patience(&mut self, patience: Duration) -> io::Result<()>;
}

/// A file that is being written. Dropped before it is committed, it leaves nothing behind.
pub trait NewFile: io::Write + Send {
    /// Makes the content durable and gives the file its name, in the place of what had it.
    fn commit(self: Box<Self>) -> io::Result<()>;
}

/// A file that is gone with the one who has it.
pub trait Scratch: Send {
    /// Writes at the end, which is there; after a failure it still is.
    fn append_at(&mut self, end: u64, bytes: &[u8]) -> io::Result<()>;

    /// Fills `to` with what was written from there on.
    fn read_at(&mut self, from: u64, to: &mut [u8]) -> io::Result<()>;
}

/// The process, for INFO.
#[derive(Clone, Debug, Default)]
pub struct ProcessInfo {
    pub id: u32,
    /// Unix time in milliseconds.
    pub started_at: i64,
    /// Name, release and machine of the operating system.
    pub os: String,
    pub executable: String,
    /// `no`, `systemd` or `upstart`.
    pub supervisor: &'static str,
    /// Absolute path of the configuration file; empty when there is none.
    pub config_file: Vec<u8>,
    /// 40 hexadecimal digits that are this run's own.
    pub run_id: String,
    /// Processor time used so far.
    pub user: Duration,
    pub system: Duration,
    /// That of the thread that the process began with.
    pub main_user: Duration,
    pub main_system: Duration,
}

/// Memory in bytes.
#[derive(Clone, Debug, Default)]
pub struct MemoryStats {
    /// Name and version of the allocator.
    pub allocator: &'static str,
    /// Bytes in live allocations, with what their size classes round them up by.
    pub allocated: u64,
    /// Bytes in pages that hold allocations.
    pub active: u64,
    /// Bytes in pages that the allocator has from the system.
    pub resident: u64,
    /// Bytes in pages that it has offered to the system, which has not taken them yet.
    pub muzzy: u64,
    /// The highest `allocated` that was seen, and that of the empty server.
    pub peak: u64,
    pub startup: u64,
    /// What the system counts as the process's.
    pub rss: u64,
    /// Memory of the machine.
    pub total_system: u64,
    /// Objects that wait to be freed, and that were freed, in the background.
    pub lazy_pending: u64,
    pub lazy_freed: u64,
}

/// Connections since the start or CONFIG RESETSTAT.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionStats {
    pub received: u64,
    pub rejected: u64,
}

/// A host without threads and listeners: frees on the spot, tells nobody.
#[derive(Debug, Default)]
pub struct NullHost;

impl Host for NullHost {
    fn free(&self, garbage: Vec<Garbage>) {
        drop(garbage);
    }

    fn events(&self, _: Vec<Event>) {}
}
