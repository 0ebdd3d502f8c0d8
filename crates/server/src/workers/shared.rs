//! The state that all threads of the server share.

use crate::system::log;
use crate::workers::congestion::Congestion;
use crate::workers::link_lines::LinkLines;
use crate::workers::mailbox::{Mailbox, WorkerMessage};
use crate::workers::migration_messages::MigrationMessage;
use crate::workers::notifier::Notifier;
use crate::workers::replication_messages::ReplicationMessage;
use crate::workers::slumber::{self, Alarm, Slumber};
use crate::workers::snapshot_offsets::StreamStops;
use crate::workers::thread_inbox::ThreadInbox;
use crate::workers::worker_slot::WorkerSlot;
use engine::Engine;
use engine::clients::pubsub::Push;
use engine::config::{Config, Directive};
use engine::locks::sync::Mutex;
use engine::per_worker::{PerWorker, WORKERS_MAX};
use engine::time::Nanos;
use mio::Poll;
use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst, fence};
use std::thread::{self, Thread};

thread_local! {
    /// Number of the worker that this thread is.
    static SELF: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// Number in the place of the worker for the client of the link to the primary.
pub const LINK_WORKER: usize = usize::MAX;

/// Number in the place of the worker for the other ends of slots' migrations.
pub const MIGRATION_WORKER: usize = usize::MAX - 1;

/// Number in the place of the worker for clients whose script is debugged on a thread of its own.
pub const DEBUG_WORKER: usize = usize::MAX - 2;

/// Nanoseconds of one turn after which a worker counts as stuck.
const STUCK: u64 = 10_000_000;

/// Makes this thread a worker.
pub fn become_worker(index: usize) {
    SELF.set(index);
}

/// Returns the worker that the calling thread is; the first one for threads that are none.
pub fn this_worker() -> usize {
    match SELF.get() {
        usize::MAX => 0,
        index => index,
    }
}

/// Returns the worker that the calling thread is, if it is one.
pub fn own_worker() -> Option<usize> {
    Some(SELF.get()).filter(|index| *index != usize::MAX)
}

/// Starts a thread for a worker.
pub type Starter = dyn Fn(usize) -> io::Result<()> + Send + Sync;

/// Returns `threads`, or one worker a core.
pub fn worker_count(config: &Config) -> usize {
    match config.int(Directive::THREADS) {
        0 => thread::available_parallelism().map_or(1, usize::from),
        threads => threads.max(1) as usize,
    }
}

/// The engine and the state of the server around it.
pub struct Shared {
    /// The data, and the commands' part of the server's state.
    pub engine: Arc<Engine>,
    slots: PerWorker<WorkerSlot>,
    /// Number of slots that have been used.
    used: AtomicUsize,
    starter: OnceLock<Box<Starter>>,
    /// Messages for clients that workers have not taken yet.
    pub congestion: Congestion,
    /// Wakes the main thread, which ends the server.
    stop: OnceLock<mio::Waker>,
    /// Whether the server ends.
    pub stopping: AtomicBool,
    /// Wakes the thread that writes the log.
    pub notifier: Notifier,
    /// Thread that has the link to the primary.
    link_thread: OnceLock<Thread>,
    /// Connections that it has open.
    pub link_lines: LinkLines,
    /// Last sleep of the server, or the present one.
    slumber: Mutex<Option<Slumber>>,
    /// The thread that serves replicas.
    pub replication: ThreadInbox<ReplicationMessage>,
    /// Places in its stream where snapshots have begun.
    pub snapshot_offsets: StreamStops,
    /// The thread that moves slots.
    pub migrations: ThreadInbox<MigrationMessage>,
    /// Connections that were let in, and that were refused, since the statistics were reset.
    pub connections_received: AtomicU64,
    pub connections_rejected: AtomicU64,
}

impl Shared {
    /// Creates the state for as many workers as the engine has at the start. None of them has a thread yet.
    pub fn new(engine: Arc<Engine>, notifier: Notifier) -> Shared {
        let workers = engine.workers();
        Shared {
            engine,
            slots: PerWorker::new(workers),
            used: AtomicUsize::new(0),
            starter: OnceLock::new(),
            congestion: Congestion::new(workers),
            stop: OnceLock::new(),
            stopping: AtomicBool::new(false),
            notifier,
            link_thread: OnceLock::new(),
            link_lines: LinkLines::default(),
            slumber: Mutex::default(),
            replication: ThreadInbox::default(),
            snapshot_offsets: StreamStops::default(),
            migrations: ThreadInbox::default(),
            connections_received: AtomicU64::new(0),
            connections_rejected: AtomicU64::new(0),
        }
    }

    /// Returns the shards whose background work is this worker's, as one of so many; none for one that is on its way
    /// out.
    pub fn shards_of(&self, worker: usize, workers: usize) -> Range<usize> {
        let shards = self.engine.locks().len();
        if worker < workers { worker * shards / workers..(worker + 1) * shards / workers } else { 0..0 }
    }

    /// Sets the function that starts threads for workers; called once.
    pub fn set_starter(&self, starter: Box<Starter>) {
        assert!(self.starter.set(starter).is_ok(), "the starter is set once");
    }

    /// Adds a worker with this poll. Only one thread at a time may do this.
    pub fn add(&self, poll: Poll) -> io::Result<()> {
        let worker = self.used.load(SeqCst);
        let (mailbox, inbox) = Mailbox::new(&poll)?;
        self.slots[worker].put(poll, inbox);
        assert!(self.slots[worker].mailbox.set(mailbox).is_ok(), "a worker has one mailbox");
        self.used.store(worker + 1, SeqCst);
        Ok(())
    }

    /// Sets the number of workers. New ones share the work at once; surplus ones end when all their connections have
    /// gone to others. Only one thread at a time may do this.
    pub fn resize(&self, workers: usize) -> io::Result<()> {
        let before = self.workers();
        for _ in self.used.load(SeqCst)..workers {
            self.add(Poll::new()?)?;
        }
        self.engine.set_workers(workers);
        let started = (0..workers).try_for_each(|worker| self.rouse(worker));
        if started.is_err() {
            self.engine.set_workers(before);
        }
        // Surplus workers are notified.
        self.running().try_for_each(|worker| self.rouse(worker))?;
        started
    }

    /// Wakes a worker, and starts a thread if it has none.
    fn rouse(&self, worker: usize) -> io::Result<()> {
        let wants_thread = self.slots[worker].mailbox.get().is_some_and(Mailbox::wake);
        if wants_thread { self.start(worker) } else { Ok(()) }
    }

    #[cold]
    fn start(&self, worker: usize) -> io::Result<()> {
        let started = self.starter.get().map_or(Ok(()), |starter| starter(worker));
        if started.is_err() {
            self.slots[worker].mailbox.get().into_iter().for_each(|mailbox| mailbox.wake_state().fail());
        }
        started
    }

    /// Returns the workers with threads, including those on their way out.
    pub fn running(&self) -> impl Iterator<Item = usize> {
        (0..self.used.load(SeqCst)).filter(|worker| self.slots[*worker].is_running())
    }

    /// Returns the slot of a worker.
    pub fn slot(&self, worker: usize) -> &WorkerSlot {
        &self.slots[worker]
    }

    /// Sets the link's thread; called once, when it is there.
    pub fn set_link_thread(&self, thread: Thread) {
        assert!(self.link_thread.set(thread).is_ok(), "the link's thread is set once");
    }

    /// Notifies the link's thread that the server follows another one.
    pub fn wake_link_thread(&self) {
        self.link_lines.hang_up_but(self.engine.replication().generation());
        if let Some(thread) = self.link_thread.get() {
            thread.unpark();
        }
    }

    /// Sets the waker of the main thread; called once, by that thread.
    pub fn set_stop_waker(&self, waker: mio::Waker) {
        assert!(self.stop.set(waker).is_ok(), "the stop waker is set once");
    }

    /// Sends a message to a worker.
    pub fn post(&self, worker: usize, message: WorkerMessage) {
        // A client that has become a replica has no worker.
        if worker >= WORKERS_MAX {
            return;
        }
        let Some(mailbox) = self.slots[worker].mailbox.get() else { return };
        if mailbox.post(message, SELF.get() == worker)
            && let Err(error) = self.start(worker)
        {
            // Messages that are there are taken by the next thread.
            log::warning(format_args!("Can't start a worker: {error}"));
        }
    }

    /// Sends a worker pushes for its clients.
    pub fn post_pushes(&self, worker: usize, pushes: Vec<Push>) {
        if worker >= WORKERS_MAX {
            // A client that has become a replica gets the stream and nothing else.
            return;
        }
        let bytes = pushes.iter().map(Push::size).sum();
        self.congestion.add(&self.engine, worker, bytes);
        self.post(worker, WorkerMessage::Pushes { pushes, bytes });
    }

    /// Sends a message to every worker.
    pub fn post_all(&self, message: impl Fn() -> WorkerMessage) {
        // A worker that starts meanwhile sees all earlier writes.
        fence(SeqCst);
        self.running().for_each(|worker| self.post(worker, message()));
    }

    /// Returns the number of workers.
    pub fn workers(&self) -> usize {
        self.engine.workers()
    }

    /// Sends a message to every worker but the one that the calling thread is.
    pub fn post_others(&self, message: impl Fn() -> WorkerMessage) {
        self.running().filter(|worker| *worker != SELF.get()).for_each(|worker| self.post(worker, message()));
    }

    /// Returns the worker that a new connection goes to.
    pub fn assign(&self) -> usize {
        let worker = self.least_crowded();
        self.slots[worker].load.fetch_add(1, Relaxed);
        worker
    }

    /// Returns the worker with the fewest connections, of the workers that will serve them soon, if there is one.
    pub fn least_crowded(&self) -> usize {
        let clock = self.engine.host().nanos();
        let by = |worker: &usize| (self.is_stuck(*worker, clock), self.slots[*worker].load.load(Relaxed));
        (0..self.workers()).min_by_key(by).unwrap_or(0)
    }

    /// Returns the number of messages that a worker has not taken.
    pub fn backlog(&self, worker: usize) -> usize {
        self.slots[worker].mailbox.get().map_or(0, Mailbox::waiting)
    }

    /// Returns whether one command or the like has had the worker's thread for so long that others wait for it.
    pub fn is_stuck(&self, worker: usize, clock: Nanos) -> bool {
        self.engine.metrics()[worker].present_turn_nanos(clock) > STUCK
    }

    /// Counts a connection of one worker as another's from now on.
    pub fn reassign(&self, from: usize, to: usize) {
        self.slots[from].load.fetch_sub(1, Relaxed);
        self.slots[to].load.fetch_add(1, Relaxed);
    }

    /// Returns the number of connections.
    pub fn connections(&self) -> usize {
        self.slots.iter().map(|slot| slot.load.load(Relaxed)).sum()
    }

    /// Counts a connection of a worker as another thread's from now on.
    pub fn release(&self, worker: usize) {
        self.slots[worker].load.fetch_sub(1, Relaxed);
    }

    /// Removes a client that is gone.
    pub fn forget(&self, worker: usize, client: u64) {
        self.slots[worker].load.fetch_sub(1, Relaxed);
        self.engine.clients().end(client);
    }

    /// Puts all workers but the calling one, and the threads that talk to other servers, to sleep until the alarm is
    /// dropped: they first finish the work that they have begun.
    pub fn put_to_sleep(&self) -> Alarm {
        let (alarm, slumber) = slumber::begin();
        self.post_others(|| WorkerMessage::Sleep(slumber.clone()));
        self.replication.post(ReplicationMessage::Sleep(slumber.clone()));
        *self.slumber.lock() = Some(slumber);
        alarm
    }

    /// Puts the calling thread, which talks to other servers, to sleep while the server is to sleep.
    pub fn sleep_with_server(&self) {
        let slumber = self.slumber.lock().clone();
        if let Some(slumber) = slumber {
            slumber.wait();
        }
    }

    /// Returns whether the server sleeps at the moment.
    pub fn is_asleep(&self) -> bool {
        self.slumber.lock().as_ref().is_some_and(Slumber::goes_on)
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
