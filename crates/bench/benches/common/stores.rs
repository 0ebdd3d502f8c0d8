//! Engines to measure: a plain one, one with a change log, and one at its memory limit.

use crate::common::allocated;
use crate::pipelined_client::Client;
use engine::host::memory::Memory;
use engine::propagation::change_log::ChangeLog;
use engine::{Engine, Host, NullHost, Options};
use persistence::aof::journal::{Journal, JournalTarget};
use persistence::aof::storage::LogFile;
use resp::encode_command;
use std::io;
use std::sync::Arc;
use tikv_jemalloc_ctl::thread::{self, ThreadLocal};

/// What the engine is to cope with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    Plain,
    /// Writes go into a log, whose file swallows them.
    Logged,
    /// Every new key makes an old one go.
    Limited,
}

pub struct Store {
    pub engine: Engine,
    log: Option<Arc<Log>>,
}

/// Bytes of the log that are written at once.
const WRITTEN_AT_ONCE: u64 = 256 << 10;

impl Store {
    pub fn new(setting: Setting, workers: usize) -> Store {
        let options = Options { workers, ..Options::default() };
        let host: Arc<dyn Host> = if setting == Setting::Limited { Arc::new(Counting) } else { Arc::new(NullHost) };
        let engine = Engine::new(&options, host);
        let log = (setting == Setting::Logged).then(|| {
            let log = Arc::new(Log::default());
            log.0.begin(JournalTarget { file: Arc::new(Nowhere), name: Vec::new(), len: 0 });
            engine.install_log(Arc::clone(&log) as Arc<dyn ChangeLog>);
            engine.set_logging(true);
            log
        });
        Store { engine, log }
    }

    /// There may be no more than now, but for what threads keep for their next allocations.
    pub fn limit(&self) {
        let mut command = Vec::new();
        encode_command(&mut command, &[&b"CONFIG"[..], b"SET", b"maxmemory-policy", b"allkeys-lru"]);
        Client::new(&self.engine, 0).run(&command);
        self.engine.limit_memory(self.engine.host().allocated() + (8 << 20));
    }

    /// What a worker does after each of its turns.
    pub fn end_turn(&self, worker: usize) {
        self.engine.end_turn(worker);
        if let Some(log) = self.log.as_ref().filter(|log| worker == 0 && log.waiting() > WRITTEN_AT_ONCE) {
            log.0.write().expect("nothing is written");
        }
    }

    /// What one worker does 20 times a second.
    pub fn tick(&self) {
        self.engine.measure_memory();
    }
}

#[derive(Default)]
struct Log(Journal);

impl ChangeLog for Log {
    fn append(&self, first: u32, last: u32, is_group: bool, render: &mut dyn FnMut(&mut Vec<u8>)) -> u64 {
        self.0.append(first, last, is_group, render)
    }

    fn appended(&self) -> u64 {
        self.0.appended()
    }

    fn waiting(&self) -> u64 {
        self.0.waiting()
    }
}

struct Nowhere;

impl LogFile for Nowhere {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

/// A host that knows how much memory is in use.
struct Counting;

thread_local! {
    static COUNTS: (ThreadLocal<u64>, ThreadLocal<u64>) = (
        thread::allocatedp::read().expect("jemalloc counts"),
        thread::deallocatedp::read().expect("jemalloc counts"),
    );
}

impl Memory for Counting {
    fn allocated(&self) -> u64 {
        allocated() as u64
    }

    fn own_allocated(&self) -> u64 {
        COUNTS.with(|(allocated, freed)| allocated.get().wrapping_sub(freed.get()))
    }
}

engine::host_defaults!(Counting: Clock, Files, Threads, Peers, Process, Log, Connections, Delivery, EffectSink);
