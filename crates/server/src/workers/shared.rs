//! What all threads of the server share.

use crate::system::log;
use crate::workers::congestion::Congestion;
use crate::workers::link_lines::LinkLines;
use crate::workers::mailbox::{Mailbox, WorkerMessage};
use crate::workers::migration_messages::MigrationMessage;
use crate::workers::notifier::Notifier;
use crate::workers::replication_messages::ReplicationMessage;
use crate::workers::slumber::{self, Alarm, Slumber};
use crate::workers::stream_stops::StreamStops;
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
    /// The worker that this thread is.
    static SELF: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// What the client of the link to the primary has for its worker.
pub const LINK_WORKER: usize = usize::MAX;

/// What the other ends of slots' migrations have for theirs.
pub const MIGRATION_WORKER: usize = usize::MAX - 1;

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

/// Starts a thread for a worker.
pub type Starter = dyn Fn(usize) -> io::Result<()> + Send + Sync;

/// `threads`, or one worker a core.
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
    /// How many of them have been used.
    used: AtomicUsize,
    starter: OnceLock<Box<Starter>>,
    /// Messages for clients that workers have not taken yet.
    pub congestion: Congestion,
    /// Wakes the main thread, which ends the server.
    stop: OnceLock<mio::Waker>,
    /// The server ends.
    pub stopping: AtomicBool,
    /// Wakes the thread that writes the log.
    pub notifier: Notifier,
    /// The thread that keeps the link to the primary.
    link_thread: OnceLock<Thread>,
    /// What it has open.
    pub link_lines: LinkLines,
    /// The last time that it did nothing, or still does.
    slumber: Mutex<Option<Slumber>>,
    /// The thread that serves replicas.
    pub replication: ThreadInbox<ReplicationMessage>,
    /// Where snapshots have begun in its stream.
    pub stream_stops: StreamStops,
    /// The thread that moves slots.
    pub migrations: ThreadInbox<MigrationMessage>,
    /// Connections that were let in, and that were refused, since the statistics were reset.
    pub connections_received: AtomicU64,
    pub connections_rejected: AtomicU64,
}

impl Shared {
    /// For as many workers as the engine has at the start. None of them has a thread yet.
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
            stream_stops: StreamStops::default(),
            migrations: ThreadInbox::default(),
            connections_received: AtomicU64::new(0),
            connections_rejected: AtomicU64::new(0),
        }
    }

    /// The shards whose background work is this worker's, as one of so many; none for one that is on its way out.
    pub fn shards_of(&self, worker: usize, workers: usize) -> Range<usize> {
        let shards = self.engine.locks().len();
        if worker < workers { worker * shards / workers..(worker + 1) * shards / workers } else { 0..0 }
    }

    /// Called once: what starts threads for workers.
    pub fn set_starter(&self, starter: Box<Starter>) {
        assert!(self.starter.set(starter).is_ok(), "the starter is set once");
    }

    /// The next worker's place, with this poll. Only one thread at a time may do this.
    pub fn add(&self, poll: Poll) -> io::Result<()> {
        let worker = self.used.load(SeqCst);
        let (mailbox, inbox) = Mailbox::new(&poll)?;
        self.slots[worker].put(poll, inbox);
        assert!(self.slots[worker].mailbox.set(mailbox).is_ok(), "a worker has one mailbox");
        self.used.store(worker + 1, SeqCst);
        Ok(())
    }

    /// From now on there are so many workers. Those that come share the work at once; those that go do so when all
    /// their connections have gone to others. Only one thread at a time may do this.
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
        // Those that are to go hear of it.
        self.running().try_for_each(|worker| self.rouse(worker))?;
        started
    }

    /// Has a worker look around; it has a thread then.
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

    /// Workers with threads, those on their way out among them.
    pub fn running(&self) -> impl Iterator<Item = usize> {
        (0..self.used.load(SeqCst)).filter(|worker| self.slots[*worker].is_running())
    }

    /// The place of a worker.
    pub fn slot(&self, worker: usize) -> &WorkerSlot {
        &self.slots[worker]
    }

    /// Called once, when the thread is there.
    pub fn set_link_thread(&self, thread: Thread) {
        assert!(self.link_thread.set(thread).is_ok(), "the link's thread is set once");
    }

    /// Whom the server follows has changed.
    pub fn wake_link_thread(&self) {
        self.link_lines.hang_up_but(self.engine.replication().generation());
        if let Some(thread) = self.link_thread.get() {
            thread.unpark();
        }
    }

    /// Called once, by the main thread.
    pub fn set_stop_waker(&self, waker: mio::Waker) {
        assert!(self.stop.set(waker).is_ok(), "the stop waker is set once");
    }

    /// Sends a message to a worker.
    pub fn post(&self, worker: usize, message: WorkerMessage) {
        // A client that has become a replica is no worker's.
        if worker >= WORKERS_MAX {
            return;
        }
        let Some(mailbox) = self.slots[worker].mailbox.get() else { return };
        if mailbox.post(message, SELF.get() == worker)
            && let Err(error) = self.start(worker)
        {
            // What lies there is taken by the next thread.
            log::warning(format_args!("Can't start a worker: {error}"));
        }
    }

    /// Sends a worker what its clients are to be told.
    pub fn post_pushes(&self, worker: usize, pushes: Vec<Push>) {
        if worker >= WORKERS_MAX {
            // For a client that has become a replica: it gets the stream and nothing else.
            return;
        }
        let bytes = pushes.iter().map(Push::size).sum();
        self.congestion.add(&self.engine, worker, bytes);
        self.post(worker, WorkerMessage::Pushes { pushes, bytes });
    }

    /// Sends a message to every worker.
    pub fn post_all(&self, message: impl Fn() -> WorkerMessage) {
        // A worker that starts meanwhile sees what was written before.
        fence(SeqCst);
        self.running().for_each(|worker| self.post(worker, message()));
    }

    /// How many workers there are.
    pub fn workers(&self) -> usize {
        self.engine.workers()
    }

    /// Sends a message to every worker but the one that the calling thread is.
    pub fn post_others(&self, message: impl Fn() -> WorkerMessage) {
        self.running().filter(|worker| *worker != SELF.get()).for_each(|worker| self.post(worker, message()));
    }

    /// The worker that a new connection goes to.
    pub fn assign(&self) -> usize {
        let worker = self.least_crowded();
        self.slots[worker].load.fetch_add(1, Relaxed);
        worker
    }

    /// The worker with the fewest connections, of those that come to serve them soon, if there is one.
    pub fn least_crowded(&self) -> usize {
        let clock = self.engine.host().nanos();
        let by = |worker: &usize| (self.is_stuck(*worker, clock), self.slots[*worker].load.load(Relaxed));
        (0..self.workers()).min_by_key(by).unwrap_or(0)
    }

    /// Messages that a worker has not taken.
    pub fn backlog(&self, worker: usize) -> usize {
        self.slots[worker].mailbox.get().map_or(0, Mailbox::waiting)
    }

    /// Whether one command or the like has had the worker's thread for so long that others wait for it.
    pub fn is_stuck(&self, worker: usize, clock: Nanos) -> bool {
        self.engine.metrics()[worker].present_turn_nanos(clock) > STUCK
    }

    /// A connection of one worker is another's from now on.
    pub fn reassign(&self, from: usize, to: usize) {
        self.slots[from].load.fetch_sub(1, Relaxed);
        self.slots[to].load.fetch_add(1, Relaxed);
    }

    /// Connections now.
    pub fn connections(&self) -> usize {
        self.slots.iter().map(|slot| slot.load.load(Relaxed)).sum()
    }

    /// A connection of a worker is another thread's from now on.
    pub fn release(&self, worker: usize) {
        self.slots[worker].load.fetch_sub(1, Relaxed);
    }

    /// A client is gone.
    pub fn forget(&self, worker: usize, client: u64) {
        self.slots[worker].load.fetch_sub(1, Relaxed);
        self.engine.clients().end(client);
    }

    /// All workers but the calling one, and the threads that talk to other servers, do nothing from now on until the
    /// alarm is dropped: they end first what they have begun.
    pub fn put_to_sleep(&self) -> Alarm {
        let (alarm, slumber) = slumber::begin();
        self.post_others(|| WorkerMessage::Sleep(slumber.clone()));
        self.replication.post(ReplicationMessage::Sleep(slumber.clone()));
        *self.slumber.lock() = Some(slumber);
        alarm
    }

    /// While the server is to do nothing a thread that talks to other servers sleeps here.
    pub fn sleep_with_server(&self) {
        let slumber = self.slumber.lock().clone();
        if let Some(slumber) = slumber {
            slumber.wait();
        }
    }

    /// Whether the server sleeps at the moment.
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
