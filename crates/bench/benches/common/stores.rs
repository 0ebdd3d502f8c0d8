//! Engines to measure: a plain one, one with a change log, and one at its memory limit.

use crate::common::allocated;
use crate::discarded_log::DiscardedLog;
use crate::pipelined_client::Client;
use engine::host::memory::Memory;
use engine::keyspace::record::LogUser;
use engine::{Engine, Host, NullHost, Options};
use persistence::aof::journal::{Journal, JournalTarget};
use resp::encode_command;
use std::sync::Arc;
use tikv_jemalloc_ctl::thread::{self, ThreadLocal};

/// The conditions that the engine works under.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Setting {
    Plain,
    /// Writes go into a log, whose file swallows them.
    Logged,
    /// Every new key evicts an old one.
    Limited,
}

pub struct Store {
    pub engine: Engine,
    log: Option<Journal>,
}

/// Bytes of the log that are written at once.
const WRITTEN_AT_ONCE: u64 = 256 << 10;

impl Store {
    pub fn new(setting: Setting, workers: usize) -> Store {
        let options = Options { workers, ..Options::default() };
        let host: Arc<dyn Host> = if setting == Setting::Limited { Arc::new(Counting) } else { Arc::new(NullHost) };
        let engine = Engine::new(&options, host);
        let log = (setting == Setting::Logged).then(|| {
            let log = Journal::new(Arc::clone(engine.change_log()));
            log.begin(JournalTarget { file: Arc::new(DiscardedLog), name: Vec::new(), len: 0 });
            engine.set_logging(LogUser::File, true);
            log
        });
        if setting == Setting::Limited {
            let mut command = Vec::new();
            encode_command(&mut command, &[&b"CONFIG"[..], b"SET", b"maxmemory-policy", b"allkeys-lru"]);
            Client::new(&engine, 0).run(&command);
        }
        Store { engine, log }
    }

    /// Limits the memory to its present size.
    pub fn limit(&self) {
        self.engine.limit_memory(self.engine.host().allocated());
    }

    /// Ends a turn, as a worker does.
    pub fn end_turn(&self, worker: usize) {
        self.engine.end_turn(worker);
        if let Some(log) = self.log.as_ref().filter(|log| worker == 0 && log.waiting() > WRITTEN_AT_ONCE) {
            log.write().expect("nothing is written");
        }
    }

    /// Measures the memory, as one worker does 20 times a second.
    pub fn tick(&self) {
        self.engine.measure_memory();
    }
}

/// A host that measures how much memory is in use.
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
