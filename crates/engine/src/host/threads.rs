//! Threads: the ones that serve clients, and work on others.

use crate::config::Directive;
use crate::time::UnixUs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

/// The thread that serves a command: its place in the metrics, and its time.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// The worker's number: its place in the metrics.
    pub worker: usize,
    /// Unix time in microseconds.
    pub now_us: UnixUs,
}

/// Threads. `C`: the context of work on another thread.
pub trait Threads<C>: Send + Sync {
    /// Adds the number of workers to `left`. Each takes one off when it has handled everything that had reached it
    /// before this call, the calling one too: a client with large requests is served after others.
    fn after_all_workers(&self, _left: &Arc<AtomicUsize>) {}

    /// Runs `work` on another thread, on the processors that a directive lists.
    ///
    /// # Errors
    /// No thread could be started; `work` has not run and is dropped.
    fn in_background(&self, _cpus: Directive, _work: Task<C>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Runs `work` on one of a few threads that may wait for other machines, when one of them is free. Shard locks may
    /// be held.
    ///
    /// # Errors
    /// All of them are busy, or none could be started; `work` has not run and is dropped.
    fn abroad(&self, _work: Task<C>) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Runs `work` on a worker's thread, between two commands and without locks; drops it if the worker ends before.
    fn on_worker(&self, _worker: usize, _work: WorkerTask<C>) {}

    /// Does `work`, while other threads do `help`, as many as there are processors to spare; returns when all have
    /// ended.
    fn alongside(&self, _help: &(dyn Fn() + Sync), work: &mut dyn FnMut()) {
        work();
    }
}

/// Work for another thread.
pub type Task<C> = Box<dyn FnOnce(&C) + Send>;

/// Work for the thread of a worker.
pub type WorkerTask<C> = Box<dyn FnOnce(&C, Server) + Send>;
