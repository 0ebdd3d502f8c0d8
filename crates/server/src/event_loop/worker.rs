//! A worker: a thread with an event loop that does all work of its connections.
//!
//! A tick of the loop is a batch:
//!
//! ```text
//!   poll -> read every ready socket into the arena -> for each batch of commands:
//!             parse, look up, hash, ask for the buckets; ask for the entries; run in order
//!        -> write each connection once -> housekeeping: expiry, timeouts
//! ```
//!
//! Commands borrow their arguments from the arena. Bytes that a connection sent beyond its last complete command move
//! to its own buffer, which shrinks to them after two seconds of silence: an idle connection holds no memory for input
//! or output.

use crate::aof::durable_replies::DurableReplies;
use crate::aof::write_delay::WriteDelay;
use crate::connection::slow_reader_timeout::SlowReaderTimeout;
use crate::connection::state::Connection;
use crate::event_loop::pipeline::Pipeline;
use crate::event_loop::poller::{PollEvent, Poller, told};
use crate::event_loop::proxy_links::ProxyLinks;
use crate::event_loop::push_targets::PushTargets;
use crate::event_loop::replies::LastWriter;
use crate::event_loop::replies::is_outdated;
use crate::event_loop::reply_buffer::ReplyBuffer;
use crate::event_loop::settings::Settings;
use crate::event_loop::status_lines::StatusLines;
use crate::listener::acceptor::Acceptor;
use crate::schedule::fairness::Fairness;
use crate::schedule::load_balance::LoadBalance;
use crate::schedule::retries::{RETRY, Retries};
use crate::schedule::run_queue::RunQueue;
use crate::schedule::throttled::Throttled;
use crate::schedule::timers::Timers;
use crate::schedule::wait_timeouts::{WaitTimeout, WaitTimeouts};
use crate::schedule::worker_barrier::WorkerBarrier;
use crate::system::clock;
use crate::workers::mailbox::{DeferredMessages, Inbox};
use crate::workers::shared::{Shared, become_worker};
use crate::workers::slumber::Slumber;
use commands::Now;
use commands::core::queued;
use commands::pubsub::channels;
use commands::pubsub::tracking;
use engine::keyspace::record::LogUser;
use engine::propagation::effects::Garbage;
use engine::stats::metrics::WorkerMetrics;
use engine::time::Nanos;
use mio::{Events, Poll};
use resp::Reply;
use slab::Slab;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// Time that a worker on its way out waits before it gives more connections away.
const GIVE_AWAY_PAUSE: Duration = Duration::from_millis(1);

/// End of a worker's run.
pub enum WorkerEnd {
    /// The server stops.
    Stopped,
    /// The worker has nothing left to do; these are for its next thread.
    Left(Poll, Inbox),
}

/// A worker and all that it owns. Each part is a type with a file of its own; the methods wire them.
pub struct Worker {
    pub(super) index: usize,
    pub(super) shared: Arc<Shared>,
    pub(super) acceptor: Arc<Acceptor>,
    pub(super) settings: Settings,
    pub(super) connections: Slab<Connection>,
    /// Source of the events that wake the worker.
    pub(super) poller: Poller,
    pub(super) inbox: Inbox,
    pub(super) deferred_messages: DeferredMessages,
    /// Whether clients may wait to be connected.
    pub(super) accept_pending: bool,
    /// Connections whose turn it is, and for how long.
    pub(super) run_queue: RunQueue,
    pub(super) retries: Retries,
    pub(super) throttled: Throttled,
    pub(super) fairness: Fairness,
    pub(super) patience: SlowReaderTimeout,
    pub(super) load_balance: LoadBalance,
    /// Times at which work is due.
    pub(super) timers: Timers,
    pub(super) status_lines: StatusLines,
    pub(super) wait_timeouts: WaitTimeouts,
    pub(super) barrier: WorkerBarrier,
    /// Memory on the way from bytes to commands.
    pub(super) pipeline: Pipeline,
    /// Replies of this tick, replies of earlier ticks until the log is durable, messages.
    pub(super) replies: ReplyBuffer,
    pub(super) durable_replies: DurableReplies,
    pub(super) last_writer: LastWriter,
    /// The log's length after the last write in this tick whose client gets no reply.
    pub(super) unanswered_to: u64,
    /// Number of changes of the server's primary when replies were looked at last.
    pub(super) generation: u64,
    /// How often the node's slot map had not held any more when the commands of this tick began to run.
    pub(super) lapses: u64,
    /// The log's length at that moment.
    pub(super) logged_before: u64,
    pub(super) write_delay: WriteDelay,
    pub(super) push_targets: PushTargets,
    pub(super) proxy_links: ProxyLinks,
    /// Whether a script has the thread: only commands whose locks are free are run.
    pub(super) is_lent: bool,
    /// Reply of a command that runs apart, until it has ended.
    pub(super) apart_reply: Reply,
    /// The connection whose reply buffer is looked at next.
    pub(super) next_resized: usize,
    /// Number of workers when this one last looked; a worker with a higher number is on its way out.
    pub(super) workers: usize,
    /// Whether this worker is on its way out and has connections that others could take over.
    pub(super) gives_away: bool,
    /// Shards whose keys the worker expires.
    pub(super) shards: Range<usize>,
    /// Sleep that the server was ordered to, in which it does nothing.
    pub(super) slumber: Option<Slumber>,
    pub(super) stopping: bool,
}

impl Worker {
    /// Creates a worker that has done nothing yet.
    pub fn new(index: usize, shared: Arc<Shared>, acceptor: Arc<Acceptor>, poll: Poll, inbox: Inbox) -> Worker {
        Worker {
            index,
            acceptor,
            settings: Settings::new(shared.engine.config()),
            connections: Slab::new(),
            poller: Poller::new(poll),
            inbox,
            deferred_messages: DeferredMessages::default(),
            accept_pending: false,
            run_queue: RunQueue::default(),
            retries: Retries::default(),
            throttled: Throttled::default(),
            fairness: Fairness::default(),
            patience: SlowReaderTimeout::default(),
            status_lines: StatusLines::default(),
            load_balance: LoadBalance::new(index),
            timers: Timers::default(),
            wait_timeouts: WaitTimeouts::default(),
            barrier: WorkerBarrier::default(),
            pipeline: Pipeline::default(),
            replies: ReplyBuffer::default(),
            durable_replies: DurableReplies::default(),
            last_writer: LastWriter::default(),
            unanswered_to: 0,
            generation: 0,
            lapses: 0,
            logged_before: 0,
            write_delay: WriteDelay::default(),
            push_targets: PushTargets::default(),
            proxy_links: ProxyLinks::default(),
            is_lent: false,
            apart_reply: Reply::default(),
            next_resized: 0,
            workers: 0,
            gives_away: false,
            shards: 0..0,
            slumber: None,
            // A thread that stops the server notifies the workers that it sees.
            stopping: shared.stopping.load(SeqCst),
            shared,
        }
    }

    /// Runs until the server stops, or until the worker is not wanted any more and has nothing left to do.
    pub fn run(mut self) -> io::Result<WorkerEnd> {
        become_worker(self.index);
        self.shared.engine.begin_worker(self.index);
        // The start of this thread counts as a ring. Messages that are there already are seen before the first sleep.
        self.inbox.hear();
        let mut events = Events::with_capacity(1024);
        while !self.stopping {
            self.follow_workers();
            if self.may_leave() {
                return Ok(WorkerEnd::Left(self.poller.into_poll(), self.inbox));
            }
            let time = self.sleep_time();
            if !self.poller.wait(&mut events, time)? {
                continue;
            }
            let now = clock::now();
            let (began, commands) = (self.nanos(), self.metrics().commands.get());
            self.metrics().begin_turn(began);
            self.follow_clock(now, began);
            if self.settings.refresh(self.shared.engine.config()) {
                self.evict_clients(now.unix_ms());
            }
            for event in told(&events) {
                self.note(event, now);
            }
            let now = self.sleep().unwrap_or(now);
            self.tick(now);
            let background = self.nanos();
            self.housekeep(now);
            self.send_pushes(now.unix_ms());
            self.barrier.end_tick(self.run_queue.all_served());
            self.shared.engine.end_turn(self.index);
            self.shared.replication.note_growth(&self.shared.engine);
            if self.shared.engine.is_logged_for(LogUser::Migrations) {
                self.shared.migrations.wake();
            }
            self.metrics().count_turn(began, background, self.nanos(), commands, !events.is_empty() || self.index == 0);
        }
        self.release_replies(clock::now());
        self.flush_on_shutdown();
        Ok(WorkerEnd::Stopped)
    }

    /// Sleeps, doing nothing at all, for as long as was ordered; returns the time after that.
    fn sleep(&mut self) -> Option<Now> {
        self.slumber.take()?.wait();
        Some(clock::now())
    }

    /// Returns the time of the host's clock.
    pub fn nanos(&self) -> Nanos {
        self.shared.engine.host().nanos()
    }

    /// Returns the worker's own counters.
    pub fn metrics(&self) -> &WorkerMetrics {
        &self.shared.engine.metrics()[self.index]
    }

    /// Returns how long to wait for events.
    fn sleep_time(&self) -> Duration {
        // Messages that the worker posted to itself after its tick have not woken it.
        let has_work = !self.run_queue.is_idle()
            || self.timers.expires_more()
            || !self.inbox.is_empty()
            || self.accept_pending
            || !self.barrier.is_empty()
            || self.proxy_links.has_input()
            || self.slumber.is_some();
        if has_work {
            return Duration::ZERO;
        }
        let engine = &self.shared.engine;
        let pause = (self.index == 0 && engine.is_paused()).then(|| engine.pause().until());
        if self.gives_away {
            return GIVE_AWAY_PAUSE;
        }
        let has_tries = !self.retries.is_empty() || engine.has_deferred();
        let most = if has_tries { RETRY as i64 / 1000 } else { self.settings.timer_interval * 1000 };
        let times = [self.wait_timeouts.next(), pause, self.proxy_links.next_time(), self.throttled.next()];
        self.timers.sleep(self.nanos(), times, most)
    }

    /// Returns the same time in milliseconds, for callers that take a number.
    pub fn steady_ms(&self) -> i64 {
        self.nanos().ms().0
    }

    fn note(&mut self, event: PollEvent, now: Now) {
        match event {
            PollEvent::Messages => {
                self.inbox.hear();
                self.take_messages(now);
            }
            PollEvent::Listeners => self.accept_pending = true,
            PollEvent::Link { link, readiness } => self.note_link(link, readiness),
            PollEvent::Socket { token, readiness } => {
                let Some(connection) = self.connections.get_mut(token) else { return };
                connection.note_readiness(readiness);
                if connection.is_closed() {
                    return self.close(token);
                }
                self.go_on(token, now);
            }
        }
    }

    /// Records an event while a script has the thread: nothing is closed and messages are taken later.
    pub fn note_in_script(&mut self, event: PollEvent, now: Now) {
        match event {
            PollEvent::Messages => self.inbox.hear(),
            PollEvent::Listeners => self.accept_pending = true,
            PollEvent::Link { link, readiness } => self.note_link(link, readiness),
            PollEvent::Socket { token, readiness } => {
                let Some(connection) = self.connections.get_mut(token) else { return };
                connection.note_readiness(readiness);
                self.go_on(token, now);
            }
        }
    }

    /// Handles an event at the connection's socket.
    fn go_on(&mut self, token: usize, now: Now) {
        if self.connections[token].wakes(now.unix_ms(), self.patience) {
            self.run_queue.add_chunked(token);
        }
        self.enqueue(token);
    }

    /// Accepts some of the clients that want to be connected.
    pub fn accept(&mut self) {
        if let Some(more) = self.acceptor.accept(&self.shared) {
            self.accept_pending = more;
        }
    }

    /// Puts the connection on the list for the next tick, once.
    pub fn enqueue(&mut self, token: usize) {
        let connection = &mut self.connections[token];
        if connection.visits.enqueue() {
            self.run_queue.add(token, connection.deprioritized());
        }
    }

    /// Ends the connection of this client, if it is here.
    pub fn close_client(&mut self, id: u64) {
        let found = self.connections.iter().find(|(_, connection)| connection.client() == id);
        if let Some((token, _)) = found {
            self.close(token);
        }
    }

    /// Ends the connection of this client when its replies have been sent. A client that is off the list of clients
    /// already gets no more time than [housekeeping](crate::event_loop::housekeeping) allows.
    pub fn close_after_reply(&mut self, id: u64) {
        let found = self.connections.iter_mut().find(|(_, connection)| connection.client() == id);
        if let Some((token, connection)) = found {
            let (output, session) = (&connection.output, &connection.session);
            // A reply that waits for the disk comes too late, unless the client has removed its own user by it.
            let is_late = output.has_held() && !session.ends_with_reply;
            if !session.info.has_ended() || output.has_replies_ahead() && !is_late {
                connection.close();
                return self.enqueue(token);
            }
            // Earlier replies may have come in the same tick; a connection that is gone gets nothing.
            if !is_outdated(&self.shared.engine, connection) {
                let _ = connection.flush_all();
            }
            self.close(token);
        } else if let Some(client) = self.shared.engine.clients().get(id) {
            // The client was handed to another worker meanwhile.
            self.shared.engine.host().close(client.worker.load(std::sync::atomic::Ordering::Relaxed), id);
        }
    }

    /// Ends a connection at once; its unsent output is lost. Its token may stay on lists: they are looked up with care,
    /// since another connection may have the token by then. A connection whose command runs apart ends when the command
    /// has ended, since the command returns to the connection.
    pub fn close(&mut self, token: usize) {
        if let Some(connection) = self.connections.get_mut(token).filter(|connection| connection.waiting.is_apart()) {
            return connection.abort();
        }
        if let Some(mut connection) = self.connections.try_remove(token) {
            if let Some(ticket) = connection.waiting.take_ticket() {
                self.wait_timeouts.remove(WaitTimeout::of(&ticket));
                ticket.finish();
                self.shared.engine.cancel_wait(&ticket);
            }
            if let Some(chunked) = connection.chunked.take() {
                // The work may hold a collection that no key has any more.
                self.shared.engine.host().free(vec![Garbage::Work(Box::new(chunked.work))]);
            }
            queued::forget(&self.shared.engine, &mut connection.session);
            tracking::end(&self.shared.engine, &mut connection.session);
            channels::unsubscribe_all(&self.shared.engine, &mut connection.session);
            connection.memory.end(self.metrics());
            self.shared.forget(self.index, connection.client());
        }
    }

    /// Sends the last output that each connection's socket still takes.
    fn flush_on_shutdown(&mut self) {
        for (_, connection) in &mut self.connections {
            if !is_outdated(&self.shared.engine, connection) {
                // A connection that is gone gets nothing.
                let _ = connection.flush_all();
            }
        }
    }
}
