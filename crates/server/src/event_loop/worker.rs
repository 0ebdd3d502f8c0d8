//! A worker: a thread with an event loop that does all work of its connections.
//!
//! A tick of the loop is a batch:
//!
//! ```text
//!   poll -> read every ready socket into the arena -> for each batch of commands:
//!             parse, look up, hash, ask for the buckets; ask for the entries; run in order
//!        -> write each connection once -> background: expiry, timeouts
//! ```
//!
//! Commands borrow their arguments from the arena. What a connection sent beyond its last complete command
//! moves to its own buffer, of which no more than that stays after two seconds of silence: an idle connection holds no
//! memory for input or output.

use crate::aof::durable_replies::DurableReplies;
use crate::connection::output_buffer::{OutputBuffer, Resized};
use crate::connection::socket::Socket;
use crate::connection::state::{Connection, patience};
use crate::event_loop::coalescing::Coalescer;
use crate::event_loop::fairness::{LIGHT_BYTES, VISIT_MAX};
use crate::event_loop::settings::{Settings, requires_password};
use crate::event_loop::tick::ARENA;
use crate::listener::acceptor::{Acceptor, LISTENERS};
use crate::system::clock;
use crate::system::log;
use crate::workers::mailbox::{Inbox, WAKE, WorkerMessage};
use crate::workers::shared::{Shared, become_worker};
use commands::batch::Batch;
use commands::batch::command_cache::CommandCache;
use commands::batch::prefetch::Prefetcher;
use commands::batch::requests::Requests;
use commands::core::dispatch;
use commands::core::instrument;
use commands::pubsub::channels;
use commands::pubsub::tracking;
use commands::transactions::multi;
use commands::{Now, Session};
use engine::clients::waiters::{self, Ticket};
use engine::host::threads::Server;
use engine::keyspace::held_locks::LockTimeout;
use engine::propagation::effects::Garbage;
use engine::stats::metrics::WorkerMetrics;
use mio::event::Event;
use mio::{Events, Poll, Token};
use resp::{Protocol, Reply};
use slab::Slab;
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::time::{Duration, Instant};

/// Nanoseconds between two tries to get what a script has for long.
const RETRY: u64 = 500_000;
/// Keys that somebody has a copy of and that are forgotten at a time, when there are too many.
const FORGOTTEN_AT_ONCE: usize = 1000;
/// Milliseconds between two looks for idle connections.
const IDLE_CHECK: i64 = 500;
/// Of how many connections the reply buffer of one is looked at in a tick, and of how many at least.
const RESIZE_SHARE: usize = 20;
const RESIZE_MIN: usize = 5;
/// The share of its patience that a worker may lose in a tick: of a crowd that hangs up some are left for a moment, who
/// would be given more and more the fewer they become.
const PATIENCE_LOSS: i64 = 16;
/// Room for arguments of commands that a worker keeps between two ticks.
const SPANS_KEPT: usize = 16 << 10;
/// Messages that are taken at a time, and new connections among them, so that a flood does not keep everybody else
/// waiting.
const MESSAGES_MAX: usize = 256;
const CONNECTIONS_MAX: usize = 4;
/// Ticks after which a worker has done what had reached it: the one in which it is told so began before, the next
/// reads, and one more serves who is put last.
const TICKS_TO_SETTLE: usize = 3;
/// It does not wait longer for those who are served last: there may always be more of them.
const TICKS_MAX: usize = 100;

pub struct Worker {
    pub index: usize,
    pub shared: Arc<Shared>,
    acceptor: Arc<Acceptor>,
    pub poll: Poll,
    pub inbox: Inbox,
    /// Messages that have to wait for the end of a script.
    pub deferred_messages: Vec<WorkerMessage>,
    pub connections: Slab<Connection>,
    pub settings: Settings,
    /// Somebody may wait to be connected.
    pub accept_pending: bool,
    pub coalescer: Coalescer,
    /// Connections that have something to do in the next tick.
    pub ready: Vec<usize>,
    /// Likewise, but they are served after the others, one after the other (see `fairness`).
    pub deprioritized: VecDeque<usize>,
    /// Connections that are served in this one.
    pub in_tick: Vec<usize>,
    /// Connections with a command that wants what a script has for long, and when they are tried again, by the host's
    /// clock.
    pub delayed: Vec<usize>,
    pub next_try: u64,
    /// A script has the thread: only what can be done with locks that are free is run.
    pub is_lent: bool,
    /// Connections with a command that goes on in pieces.
    pub jobs: Vec<usize>,
    /// Nanoseconds for one connection without a look at others, now.
    pub visit_max: u64,
    /// Bytes that are read from one connection at a time, and sent of what waits for it, now.
    pub visit_bytes: usize,
    /// Bytes of replies after which its visit ends, and of them sent at once, now.
    pub visit_replies: usize,
    /// Milliseconds after which a connection goes on whose peer does not read.
    pub patience: i64,
    /// When a connection was last served that is not deprioritized, in the host's nanoseconds.
    pub light_at: u64,
    pub arena: Vec<u8>,
    /// Empty while no batch is filled or runs.
    pub batch: Batch<'static>,
    pub prefetcher: Prefetcher,
    pub command_cache: CommandCache,
    pub reply: Reply,
    /// What a command that runs apart replies, until it is over.
    pub apart_reply: Reply,
    /// Which part of `reply` is for which connection, in order.
    pub replies: Vec<(usize, Range<usize>)>,
    /// Replies of earlier ticks that wait until the log is durable, in order.
    pub durable_replies: DurableReplies,
    /// Since when a write of the log waits for a sync (Unix time in milliseconds).
    pub postponed_since: Option<i64>,
    /// Connections that got pushes in this tick.
    pub pushed: Vec<usize>,
    /// Connections that got more pushes than they may have to read.
    pub over_limit: Vec<(usize, u64)>,
    /// The connection whose reply buffer is looked at next.
    next_resized: usize,
    /// When waits are over: Unix time in milliseconds, the ticket's arrival, the connection.
    deadlines: BTreeSet<(i64, u64, usize)>,
    shards: Range<usize>,
    expire_more: bool,
    next_timers: i64,
    next_idle_check: i64,
    /// Who waits for this worker to have done what has reached it, and for how many ticks.
    settling: Vec<(Arc<AtomicUsize>, usize)>,
    /// DEBUG SLEEP stops all workers until then.
    asleep_until: Option<Instant>,
    pub stopping: bool,
}

impl Worker {
    pub fn new(index: usize, shared: Arc<Shared>, acceptor: Arc<Acceptor>, poll: Poll, inbox: Inbox) -> Worker {
        let shards = shared.shards_of(index);
        let settings = Settings::new(shared.engine.config());
        Worker {
            index,
            acceptor,
            poll,
            inbox,
            deferred_messages: Vec::new(),
            connections: Slab::new(),
            settings,
            accept_pending: false,
            coalescer: Coalescer::default(),
            ready: Vec::new(),
            deprioritized: VecDeque::new(),
            visit_max: VISIT_MAX,
            visit_bytes: LIGHT_BYTES,
            visit_replies: usize::MAX,
            patience: patience(0, 0),
            light_at: 0,
            in_tick: Vec::new(),
            delayed: Vec::new(),
            next_try: 0,
            is_lent: false,
            jobs: Vec::new(),
            arena: vec![0; ARENA],
            batch: Batch::default().renewed(),
            prefetcher: Prefetcher::default(),
            command_cache: CommandCache::default(),
            reply: Reply::new(Vec::new(), Protocol::Resp2),
            apart_reply: Reply::default(),
            replies: Vec::new(),
            durable_replies: DurableReplies::default(),
            postponed_since: None,
            pushed: Vec::new(),
            over_limit: Vec::new(),
            next_resized: 0,
            deadlines: BTreeSet::new(),
            shards,
            expire_more: false,
            next_timers: 0,
            next_idle_check: 0,
            settling: Vec::new(),
            asleep_until: None,
            stopping: false,
            shared,
        }
    }

    /// Runs until the server stops.
    pub fn run(mut self) -> io::Result<()> {
        become_worker(self.index);
        let mut events = Events::with_capacity(1024);
        self.coalescer = Coalescer::of_this_thread();
        while !self.stopping {
            let patience = self.patience();
            if !patience.is_zero() {
                self.coalescer.pause();
            }
            match self.poll.poll(&mut events, Some(patience)) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                result => result?,
            }
            let now = clock::now();
            let (began, commands) = (self.nanos(), self.metrics().commands.get());
            if self.settings.refresh(self.shared.engine.config()) {
                self.evict_clients(now.unix_ms());
            }
            for event in &events {
                self.note(event, now);
            }
            let now = self.sleep().unwrap_or(now);
            self.tick(now);
            let background = self.nanos();
            self.background(now);
            self.send_pushes(now.unix_ms());
            self.settle_others();
            self.shared.engine.end_turn(self.index);
            self.coalescer.end_tick(now.unix_ms());
            self.metrics().count_turn(began, background, self.nanos(), commands, !events.is_empty() || self.index == 0);
        }
        self.release_replies(clock::now());
        self.flush_on_shutdown();
        Ok(())
    }

    /// Does nothing at all for as long as it was told to; returns the time after that.
    fn sleep(&mut self) -> Option<Now> {
        let until = self.asleep_until.take()?;
        std::thread::sleep(until.saturating_duration_since(Instant::now()));
        Some(clock::now())
    }

    /// A tick is over, for those who wait for some.
    fn settle_others(&mut self) {
        let none_left = self.deprioritized.is_empty();
        self.settling.retain_mut(|(left, ticks)| {
            *ticks += 1;
            let settled = *ticks >= TICKS_TO_SETTLE && none_left || *ticks >= TICKS_MAX;
            if settled {
                left.fetch_sub(1, Release);
            }
            !settled
        });
    }

    /// A script has the thread: who waits for this worker's ticks is to wait no longer.
    pub fn settle_at_once(&mut self) {
        self.settling.drain(..).for_each(|(left, _)| _ = left.fetch_sub(1, Release));
    }

    pub fn nanos(&self) -> u64 {
        self.shared.engine.host().nanos()
    }

    pub fn metrics(&self) -> &WorkerMetrics {
        &self.shared.engine.metrics()[self.index]
    }

    /// How long to wait for events.
    fn patience(&self) -> Duration {
        // What the worker posted to itself after its tick has woken nobody.
        let has_connections = !self.ready.is_empty() || !self.deprioritized.is_empty();
        let has_work = has_connections || !self.jobs.is_empty() || self.expire_more || !self.inbox.is_empty();
        let has_work = has_work || self.accept_pending || !self.settling.is_empty();
        if has_work || self.asleep_until.is_some() {
            return Duration::ZERO;
        }
        let mut until = self.next_timers;
        if let Some((deadline, ..)) = self.deadlines.first() {
            until = until.min(*deadline);
        }
        let pause = self.shared.engine.pause();
        if self.index == 0 && self.shared.engine.is_paused() {
            until = until.min(pause.until());
        }
        let left = until.saturating_mul(1000).saturating_sub(clock::now().unix_us);
        let has_tries = !self.delayed.is_empty() || self.shared.engine.has_leftovers();
        let most = if has_tries { RETRY as i64 / 1000 } else { self.settings.timer_interval * 1000 };
        Duration::from_micros(left.clamp(0, most) as u64)
    }

    fn note(&mut self, event: &Event, now: Now) {
        match event.token() {
            WAKE => {
                self.inbox.hear();
                return self.take_messages(now);
            }
            LISTENERS => return self.accept_pending = true,
            _ => {}
        }
        let token = event.token().0;
        let Some(connection) = self.connections.get_mut(token) else { return };
        if event.is_readable() || event.is_read_closed() || event.is_error() {
            connection.socket.readable = true;
            connection.socket.hung_up |= event.is_read_closed() || event.is_error();
        }
        connection.socket.writable |= event.is_writable() && connection.has_unsent();
        if connection.closing && connection.is_drained() {
            return self.close(token);
        }
        if connection.wakes(now.unix_ms(), self.patience) {
            self.jobs.push(token);
        }
        self.enqueue(token);
    }

    /// Lets some of those in who want to be connected.
    pub fn accept(&mut self) {
        self.accept_pending = self.acceptor.accept(&self.shared);
    }

    pub fn take_messages(&mut self, now: Now) {
        for message in std::mem::take(&mut self.deferred_messages) {
            self.take_message(message, now);
        }
        let mut connections = 0;
        for _ in 0..MESSAGES_MAX {
            let Some(message) = self.inbox.take() else { break };
            connections += usize::from(matches!(message, WorkerMessage::Connection { .. }));
            self.take_message(message, now);
            if connections == CONNECTIONS_MAX {
                break;
            }
        }
    }

    pub fn take_message(&mut self, message: WorkerMessage, now: Now) {
        match message {
            WorkerMessage::Reply { ticket, bytes } => self.unblock(&ticket, &bytes),
            WorkerMessage::PauseChanged => self.release_postponed(),
            WorkerMessage::Pushes { pushes, bytes } => {
                self.shared.congestion.remove(&self.shared.engine, self.index, bytes);
                self.deliver(&pushes);
            }
            WorkerMessage::Durable => self.release_replies(now),
            WorkerMessage::Settle { left } => self.settling.push((left, 0)),
            WorkerMessage::Sleep { until } => self.asleep_until = Some(until),
            WorkerMessage::Stop => self.stopping = true,
            WorkerMessage::Task(work) => work(&self.shared.engine, Server { worker: self.index, now_us: now.unix_us }),
            WorkerMessage::Kill { client } => {
                self.close_client(client);
            }
            WorkerMessage::Connection { mut stream, info, book } => {
                let entry = self.connections.vacant_entry();
                let token = entry.key();
                if stream.register(self.poll.registry(), Token(token)).is_err() {
                    return self.shared.forget(self.index, info.id);
                }
                let mut session = Session::new(info);
                session.token = token;
                session.patience = LockTimeout::Short;
                session.info.token.store(token, Relaxed);
                // Not the worker's copy: who set the password was told OK before this worker's tick may end.
                session.authenticated = !requires_password(self.shared.engine.config());
                session.was_authenticated = session.authenticated;
                let (requests, protocol) =
                    if book { (Requests::book(), Protocol::Book) } else { (Requests::resp(), Protocol::Resp2) };
                entry.insert(Connection {
                    socket: Socket { stream, readable: true, writable: false, hung_up: false, ended: false },
                    requests,
                    session,
                    protocol,
                    pending: Vec::new(),
                    output: OutputBuffer::default(),
                    job: None,
                    blocked: None,
                    postponed: false,
                    delayed: false,
                    unparsed: false,
                    closing: false,
                    noted: false,
                    held_replies: 0,
                    held_bytes: 0,
                    pushed: false,
                    held_back: Vec::new(),
                    withheld: false,
                    over_soft_since: None,
                    shown_memory: 0,
                    counted_memory: 0,
                    // Until it has shown that it is not one of those who come, talk nonsense and go.
                    deprioritized_visits: 1,
                    has_enough: false,
                    enqueued: false,
                    is_apart: false,
                    active_at: now.unix_ms(),
                    progress_at: now.unix_ms(),
                });
                self.enqueue(token);
            }
        }
    }

    /// The connection's command waits from now on.
    pub fn block(&mut self, token: usize, ticket: Arc<Ticket>) {
        if ticket.deadline > 0 {
            self.deadlines.insert((ticket.deadline, ticket.arrival, token));
        }
        self.connections[token].blocked = Some(ticket);
    }

    /// The wait is over, with this reply. The connection may have gone meanwhile.
    fn unblock(&mut self, ticket: &Arc<Ticket>, reply: &[u8]) {
        let token = ticket.token;
        self.deadlines.remove(&(ticket.deadline, ticket.arrival, token));
        let Some(connection) = self.connections.get_mut(token) else { return };
        if !connection.blocked.as_ref().is_some_and(|blocked| Arc::ptr_eq(blocked, ticket)) {
            return;
        }
        connection.blocked = None;
        connection.session.logged_at = connection.session.logged_at.max(ticket.request().logged_at());
        waiters::leave(&self.shared.engine, ticket);
        let start = self.reply.len();
        self.reply.raw(reply);
        instrument::unblocked(&self.shared.engine, &mut connection.session, reply, clock::now());
        dispatch::end_reply(&mut connection.session, &mut self.reply, start);
        self.reply.raw(&std::mem::take(&mut connection.held_back));
        self.note_reply(token, start);
        self.enqueue(token);
    }

    /// Ends waits whose time is over, and the pause.
    pub fn end_waits(&mut self, now: Now) {
        while let Some(&(deadline, arrival, token)) = self.deadlines.first()
            && deadline <= now.unix_ms()
        {
            self.deadlines.pop_first();
            let ticket = self.connections.get(token).and_then(|connection| connection.blocked.clone());
            // One that has been served meanwhile gets its reply by message.
            if let Some(ticket) = ticket.filter(|ticket| ticket.arrival == arrival && ticket.finish()) {
                self.unblock(&ticket, &ticket.request().timeout_reply());
            }
        }
        let engine = &self.shared.engine;
        if self.index == 0 && engine.is_paused() && engine.end_pause_if_over(now.unix_ms()) {
            self.shared.post_all(|| WorkerMessage::PauseChanged);
            self.release_postponed();
        }
    }

    /// Those who waited for the end of a pause try again.
    fn release_postponed(&mut self) {
        let postponed: Vec<usize> =
            self.connections.iter().filter(|(_, connection)| connection.postponed).map(|(token, _)| token).collect();
        for token in postponed {
            let connection = &mut self.connections[token];
            connection.postponed = false;
            connection.session.info.postponed.store(false, Relaxed);
            self.enqueue(token);
        }
    }

    /// Tries again what a script's locks stood in the way of.
    pub fn retry_delayed(&mut self, now: Now) {
        let clock = self.nanos();
        if clock < self.next_try {
            return;
        }
        self.next_try = clock + RETRY;
        for token in std::mem::take(&mut self.delayed) {
            if let Some(connection) = self.connections.get_mut(token).filter(|connection| connection.delayed) {
                connection.delayed = false;
                self.enqueue(token);
            }
        }
        let engine = &self.shared.engine;
        if engine.has_leftovers() {
            engine.do_leftovers(Server { worker: self.index, now_us: now.unix_us });
        }
    }

    /// Puts the connection on the list for the next tick, once.
    pub fn enqueue(&mut self, token: usize) {
        let connection = &mut self.connections[token];
        if !std::mem::replace(&mut connection.enqueued, true) {
            if connection.deprioritized() {
                self.deprioritized.push_back(token);
            } else {
                self.ready.push(token);
            }
        }
    }

    /// Timers: expiry, idle connections, connections that waited long enough for their peer.
    fn background(&mut self, now: Now) {
        let server = Server { worker: self.index, now_us: now.unix_us };
        let now = now.unix_ms();
        let paused = self.shared.engine.are_timers_paused();
        if paused {
            self.expire_more = false;
        } else if self.expire_more || now >= self.next_timers {
            self.expire_more = self.shared.engine.expire_due(self.shards.clone(), server, self.settings.expire_budget);
        }
        if !paused {
            self.expire_more |= self.index == 0 && self.shared.engine.go_on_making_room(server);
        }
        if now >= self.next_timers {
            self.next_timers = now + self.settings.timer_interval;
            // The worker that hears of them may be busy.
            self.accept();
            commands::scripting::forget_flushed(&self.shared.engine);
            if self.index == 0 && !paused {
                self.shared.engine.sample_rates(now);
                self.shared.engine.measure_memory();
                commands::persistence::save::tick(&self.shared.engine, now);
                commands::persistence::aof::tick(&self.shared.engine, now);
                self.shared.engine.links().close_idle(now);
                if self.shared.engine.tracking().is_over() {
                    self.shared.engine.trim_tracking(self.index, FORGOTTEN_AT_ONCE);
                }
            }
            let waiting = self.wake_throttled(now);
            if self.reply.is_empty() {
                // One large reply makes it large.
                drop(self.reply.take());
            }
            self.batch.give_back_room(SPANS_KEPT);
            if !paused {
                self.enforce_output_limits(&waiting, now);
            }
        }
        if now >= self.next_idle_check && !paused {
            self.next_idle_check = now + IDLE_CHECK;
            if self.connections.len() * 4 < self.connections.capacity() {
                self.connections.shrink_to_fit();
            }
            self.close_idle(now);
            self.shrink_inputs(now);
        }
    }

    /// Room for input that was not needed lately is given back.
    fn shrink_inputs(&mut self, now: i64) {
        let metrics = &self.shared.engine.metrics()[self.index];
        for (_, connection) in self.connections.iter_mut().filter(|(_, connection)| connection.pending.capacity() > 0) {
            connection.shrink_input(now);
            connection.note_memory(metrics);
        }
    }

    /// Those go on who have waited long enough for their peer. Returns who waits for it, or did when it was looked at
    /// last.
    fn wake_throttled(&mut self, now: i64) -> Vec<usize> {
        let (mut unsent, mut throttled_count) = (0, 0);
        let mut waiting = Vec::new();
        for (token, connection) in &self.connections {
            if connection.waits_for_peer() {
                unsent += connection.output.len();
                throttled_count += usize::from(connection.is_full());
                waiting.push(token);
            }
        }
        let patience = patience(unsent, throttled_count).max(self.patience - self.patience / PATIENCE_LOSS);
        self.patience = patience;
        for &token in &waiting {
            let connection = &mut self.connections[token];
            if connection.wakes(now, patience) {
                self.jobs.push(token);
            }
            let connection = &self.connections[token];
            if !connection.output.is_empty() && !connection.output_full(now, patience) {
                self.enqueue(token);
            }
        }
        waiting
    }

    fn close_idle(&mut self, now: i64) {
        let (timeout, book_timeout) = (self.settings.timeout, self.settings.book_timeout);
        let idle: Vec<usize> = self
            .connections
            .iter()
            .filter(|(_, connection)| {
                let limit = if connection.requests.is_book() { book_timeout } else { timeout };
                limit > 0 && !connection.is_busy() && !connection.listens() && now - connection.active_at > limit
            })
            .map(|(token, _)| token)
            .collect();
        for token in idle {
            log::verbose("Closing idle client");
            self.close(token);
        }
    }

    /// The first reply buffers of some connections follow what their clients need: all are looked at once a second, or
    /// five a tick if that is more.
    pub fn resize_reply_buffers(&mut self, now: i64) {
        let peak_reset_time = self.shared.engine.clients().reply_buffers.peak_reset_time.load(Relaxed);
        let metrics = &self.shared.engine.metrics()[self.index];
        let slots = self.connections.capacity();
        for _ in 0..(self.connections.len() / RESIZE_SHARE).max(RESIZE_MIN).min(slots) {
            self.next_resized = (self.next_resized + 1) % slots;
            let Some(connection) = self.connections.get_mut(self.next_resized) else { continue };
            match connection.output.resize(now, peak_reset_time) {
                Resized::No => continue,
                Resized::Smaller => metrics.reply_buffer_shrinks.add(1),
                Resized::Larger => metrics.reply_buffer_expands.add(1),
            }
            connection.show_buffers();
        }
    }

    pub fn close_client(&mut self, id: u64) {
        let found = self.connections.iter().find(|(_, connection)| connection.session.info.id == id);
        if let Some((token, _)) = found {
            self.close(token);
        }
    }

    /// Ends a connection at once; what it has not been sent is lost. Its token may stay on lists: they are looked up
    /// with care, since another connection may have it by then.
    pub fn close(&mut self, token: usize) {
        if let Some(mut connection) = self.connections.try_remove(token) {
            if let Some(ticket) = connection.blocked.take() {
                self.deadlines.remove(&(ticket.deadline, ticket.arrival, token));
                ticket.finish();
                waiters::leave(&self.shared.engine, &ticket);
            }
            if let Some(job) = connection.job.take() {
                // It may hold a collection that is no key's any more.
                self.shared.engine.host().free(vec![Garbage::Work(Box::new(job.work))]);
            }
            multi::forget(&self.shared.engine, &mut connection.session);
            tracking::end(&self.shared.engine, &mut connection.session);
            channels::leave(&self.shared.engine, &mut connection.session);
            self.metrics().client_bytes.add((connection.counted_memory as u64).wrapping_neg());
            self.shared.forget(self.index, connection.session.info.id);
        }
    }

    /// The last thing a connection gets is what its socket still takes.
    fn flush_on_shutdown(&mut self) {
        for (_, connection) in &mut self.connections {
            let _ = connection.output.flush_all(&mut connection.socket.stream);
        }
    }
}
