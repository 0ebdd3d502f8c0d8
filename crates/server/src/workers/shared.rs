//! What all threads of the server share.

use crate::workers::congestion::Congestion;
use crate::workers::mailbox::{Mailbox, WorkerMessage};
use crate::workers::notifier::Notifier;
use crate::workers::replication_handle::ReplicationHandle;
use crossbeam_utils::CachePadded;
use engine::Engine;
use engine::clients::pubsub::Push;
use engine::time::Nanos;
use std::cell::Cell;
use std::ops::Range;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

thread_local! {
    /// The worker that this thread is.
    static SELF: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Nanoseconds of one turn after which a worker counts as stuck.
const STUCK: u64 = 10_000_000;

/// This thread is a worker from now on.
pub fn become_worker(index: usize) {
    SELF.set(index);
}

/// The worker that the calling thread is; the first one for threads that are none.
pub fn this_worker() -> usize {
    match SELF.get() {
        usize::MAX => 0,
        index => index,
    }
}

/// The engine and the state of the server around it.
pub struct Shared {
    /// The data, and the commands' part of the server's state.
    pub engine: Arc<Engine>,
    workers: usize,
    /// Connections of each worker, for spreading new ones.
    loads: Box<[AtomicUsize]>,
    mailboxes: OnceLock<Vec<Mailbox>>,
    /// Messages for clients that workers have not taken yet.
    pub congestion: Congestion,
    /// Wakes the main thread, which ends the server.
    stop: OnceLock<mio::Waker>,
    /// The server ends.
    pub stopping: AtomicBool,
    /// Wakes the thread that writes the log.
    pub notifier: Notifier,
    /// The thread that serves replicas.
    pub replication: ReplicationHandle,
    /// Of each worker, which writes it with each tick, whether it keeps replies until the log is durable.
    pub await_durability: Box<[CachePadded<AtomicBool>]>,
    /// Connections that were let in, and that were refused, since the statistics were reset.
    pub connections_received: AtomicU64,
    pub connections_rejected: AtomicU64,
}

impl Shared {
    /// For so many workers, whose mailboxes are set later.
    pub fn new(engine: Arc<Engine>, workers: usize, notifier: Notifier) -> Shared {
        Shared {
            engine,
            workers,
            loads: (0..workers).map(|_| AtomicUsize::new(0)).collect(),
            mailboxes: OnceLock::new(),
            congestion: Congestion::new(workers),
            stop: OnceLock::new(),
            stopping: AtomicBool::new(false),
            notifier,
            replication: ReplicationHandle::default(),
            await_durability: (0..workers).map(|_| CachePadded::default()).collect(),
            connections_received: AtomicU64::new(0),
            connections_rejected: AtomicU64::new(0),
        }
    }

    /// The shards whose background work is this worker's.
    pub fn shards_of(&self, worker: usize) -> Range<usize> {
        let shards = self.engine.locks().len();
        worker * shards / self.workers..(worker + 1) * shards / self.workers
    }

    /// Called once, before the workers run.
    pub fn set_mailboxes(&self, mailboxes: Vec<Mailbox>) {
        assert!(self.mailboxes.set(mailboxes).is_ok(), "mailboxes are set once");
    }

    /// Called once, by the main thread.
    pub fn set_stop_waker(&self, waker: mio::Waker) {
        assert!(self.stop.set(waker).is_ok(), "the stop waker is set once");
    }

    /// Sends a message to a worker.
    pub fn post(&self, worker: usize, message: WorkerMessage) {
        if let Some(mailbox) = self.mailboxes.get().and_then(|mailboxes| mailboxes.get(worker)) {
            mailbox.post(message, SELF.get() == worker);
        }
    }

    /// Sends a worker what its clients are to be told.
    pub fn post_pushes(&self, worker: usize, pushes: Vec<Push>) {
        if worker >= self.workers {
            // For a client that has become a replica: it gets the stream and nothing else.
            return;
        }
        let bytes = pushes.iter().map(Push::size).sum();
        self.congestion.add(&self.engine, worker, bytes);
        self.post(worker, WorkerMessage::Pushes { pushes, bytes });
    }

    /// Sends a message to every worker.
    pub fn post_all(&self, message: impl Fn() -> WorkerMessage) {
        (0..self.workers).for_each(|worker| self.post(worker, message()));
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Sends a message to every worker but the one that the calling thread is.
    pub fn post_others(&self, message: impl Fn() -> WorkerMessage) {
        (0..self.workers).filter(|worker| *worker != SELF.get()).for_each(|worker| self.post(worker, message()));
    }

    /// The worker that a new connection goes to.
    pub fn assign(&self) -> usize {
        let worker = self.least_crowded();
        self.loads[worker].fetch_add(1, Relaxed);
        worker
    }

    /// The worker with the fewest connections, of those that come to serve them soon, if there is one.
    pub fn least_crowded(&self) -> usize {
        let clock = self.engine.host().nanos();
        let by = |worker: &usize| (self.is_stuck(*worker, clock), self.loads[*worker].load(Relaxed));
        (0..self.workers).min_by_key(by).unwrap_or(0)
    }

    /// Whether one command or the like has had the worker's thread for so long that others wait for it.
    pub fn is_stuck(&self, worker: usize, clock: Nanos) -> bool {
        self.engine.metrics()[worker].present_turn_nanos(clock) > STUCK
    }

    /// A connection of one worker is another's from now on.
    pub fn reassign(&self, from: usize, to: usize) {
        self.loads[from].fetch_sub(1, Relaxed);
        self.loads[to].fetch_add(1, Relaxed);
    }

    /// Connections now.
    pub fn connections(&self) -> usize {
        self.loads.iter().map(|load| load.load(Relaxed)).sum()
    }

    /// A connection of a worker is another thread's from now on.
    pub fn release(&self, worker: usize) {
        self.loads[worker].fetch_sub(1, Relaxed);
    }

    /// A client is gone.
    pub fn forget(&self, worker: usize, client: u64) {
        self.loads[worker].fetch_sub(1, Relaxed);
        self.engine.clients().remove(client);
    }

    /// Asks the main thread to end the server.
    pub fn request_stop(&self) {
        self.stopping.store(true, Relaxed);
        if let Some(waker) = self.stop.get() {
            // Without its poll the main thread is ending already.
            let _ = waker.wake();
        }
    }
}
