//! The threads of workers.

use crate::event_loop::worker::{Worker, WorkerEnd};
use crate::listener::acceptor::Acceptor;
use crate::system::affinity;
use crate::system::log;
use crate::system::proc;
use crate::workers::shared::Shared;
use commands::core::mode;
use engine::config::Directive;
use engine::locks::sync::Mutex;
use mio::Poll;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{Ordering::SeqCst, fence};
use std::thread;

/// Stack of a worker in bytes, of which nearly all is never touched. Lua's patterns recurse once for each of their
/// items, as the parser of `cjson` does for each level; what runs over the stack ends the process.
pub(super) const WORKER_STACK: usize = 64 << 20;

/// Threads of workers that have not been waited for.
#[derive(Default)]
pub struct WorkerThreads(Mutex<Vec<thread::JoinHandle<()>>>);

impl WorkerThreads {
    /// Takes one thread.
    fn next(&self) -> Option<thread::JoinHandle<()>> {
        self.0.lock().pop()
    }

    /// Waits for all to end.
    pub fn join(&self) {
        // A thread that ends may have started another just before.
        while let Some(thread) = self.next() {
            // A worker that panicked has ended the process.
            let _ = thread.join();
        }
    }

    fn add(&self, thread: thread::JoinHandle<()>) {
        let mut threads = self.0.lock();
        threads.retain(|thread| !thread.is_finished());
        threads.push(thread);
    }
}

/// Starts a worker for each poll, in the calling thread's mode: of the server, or of the Sentinel within it.
pub fn start_workers(
    shared: &Arc<Shared>,
    acceptor: &Arc<Acceptor>,
    polls: Vec<Poll>,
) -> io::Result<Arc<WorkerThreads>> {
    let (workers, is_within) = (polls.len(), mode::is_sentinel_within());
    polls.into_iter().try_for_each(|poll| shared.add(poll))?;
    let threads = Arc::<WorkerThreads>::default();
    let (weak, acceptor, started) = (Arc::downgrade(shared), Arc::clone(acceptor), Arc::clone(&threads));
    shared.set_starter(Box::new(move |index| {
        let Some(shared) = weak.upgrade() else { return Ok(()) };
        let acceptor = Arc::clone(&acceptor);
        let name = if is_within { "sentinel-worker".to_owned() } else { format!("worker-{index}") };
        let thread = thread::Builder::new().name(name).stack_size(WORKER_STACK);
        started.add(thread.spawn(move || {
            mode::enter_sentinel_within(is_within);
            if index == 0 && !is_within {
                proc::set_main_thread();
            }
            work(index, &shared, &acceptor);
        })?);
        Ok(())
    }));
    shared.resize(workers)?;
    Ok(threads)
}

/// Runs a worker in this thread, until the server stops or there is nothing left to do for the worker.
fn work(index: usize, shared: &Arc<Shared>, acceptor: &Arc<Acceptor>) {
    affinity::pin(&shared.engine.config().snapshot(), Directive::SERVER_CPULIST);
    // The server stops: either this worker was notified, or it sees the flag.
    fence(SeqCst);
    let slot = shared.slot(index);
    let mut parts = slot.take();
    while let Some((poll, inbox)) = parts {
        match Worker::new(index, Arc::clone(shared), Arc::clone(acceptor), poll, inbox).run() {
            Ok(WorkerEnd::Stopped) => return,
            Ok(WorkerEnd::Left(poll, inbox)) => parts = slot.detach(poll, inbox),
            Err(error) => {
                log::warning(format_args!("Worker {index} cannot go on: {error}"));
                return shared.request_stop();
            }
        }
    }
}
