//! Serving other clients while a script, or a long command, has the worker's thread.
//!
//! A command that may run a script, or that has [asked for it](commands::core::yielding), is run apart from its
//! connection: its session and the buffer of replies are taken out, and the worker is lent to the thread for the time.
//! When the command has run for a while the engine calls the host now and then ([`serve`]), which has the worker do a
//! small tick from within: poll, read, run, write. The commands of this tick take the locks that are free; a command
//! that wants another, or to run a script itself, is retried later. After `busy-reply-threshold` all commands are
//! refused (-BUSY) but the ones for such times, which take no lock of the keyspace.
//!
//! ```text
//!   tick - process - EVAL (session apart) - Lua - hook - serve_clients - once: the rest of the tick
//!                                                      serve_clients_busy - small tick: GET; SCRIPT KILL, GET -> -BUSY
//! ```
//!
//! Input that the tick had read and not run yet comes first, and its replies are written: [`Remaining`] is lent with
//! the worker, and the finished part of it is marked, since the tick resumes when the script has ended. Only the
//! script's own connection waits. When the script lasts, clients that ask for something are given to workers with time.
//! Connections that would have to give up watched keys are not closed, and messages that need locks are retained for
//! later.
//!
//! **A script that is debugged on a copy of the data** has a thread of its own, which has the client's connection until
//! both end, and nobody waits for it.
//!
//! ```text
//!   worker   the connection, when all earlier replies have gone -> thread
//!   thread   the script: bytes to the client, and its next request, again and again; the last bytes; the end
//! ```
//!
//! The client stays on the list of clients and counts as its worker's connection. CLIENT KILL and the like mark it as
//! ended there, which the thread sees within [`DEBUG_WAIT`]; so it does with the server's end. A script whose client is
//! gone runs to its end, as one does that the debugger has let go of.

use crate::connection::socket::Readiness;
use crate::connection::state::Connection;
use crate::event_loop::poller::told;
use crate::event_loop::tick::{Remaining, SMALL_ARENA};
use crate::event_loop::worker::Worker;
use crate::event_loop::worker_threads::WORKER_STACK;
use crate::system::{clock, log};
use crate::workers::mailbox::WorkerMessage;
use crate::workers::shared::Shared;
use commands::LendingMode;
use commands::core::context::Flow;
use commands::core::dispatch::{self, Prepared};
use commands::core::session::DebugSession;
use commands::{Args, Now};
use mio::{Events, Poll, Token};
use resp::{Progress, RequestLimits, RequestParser};
use scoped_tls_hkt::scoped_thread_local;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread;
use std::time::Duration;

/// The buffer for the reply of such a command is kept up to this size, in bytes.
const REPLY_KEPT: usize = 64 << 10;

scoped_thread_local! {
    /// The worker whose thread runs a script, or the client of a script with a thread of its own.
    static mut LENT: for<'a> &'a mut (dyn Lent + 'a)
}

trait Lent {
    /// Serves other clients for a moment. `is_lent`: their commands are run if they can be, and not refused.
    fn serve(&mut self, is_lent: bool);

    /// Sends bytes to the script's client, and waits for its next request.
    fn converse(&mut self, bytes: &[u8]) -> Option<Vec<Vec<u8>>>;
}

struct Yielding<'l, 'b> {
    worker: &'l mut Worker,
    /// The script's client.
    token: usize,
    /// Bytes that the client has sent since, in debugging.
    said: Vec<u8>,
    /// Rest of the tick that the script began in.
    rest: Option<Remaining<'l, 'b>>,
}

impl Lent for Yielding<'_, '_> {
    fn serve(&mut self, is_lent: bool) {
        self.worker.is_lent = is_lent;
        let visit = self.worker.metrics().running.visit();
        if let Some(rest) = self.rest.take() {
            self.worker.end_tick(rest, clock::now());
        }
        self.worker.serve_in_script();
        self.worker.metrics().running.resume(visit);
        self.worker.is_lent = false;
    }

    fn converse(&mut self, bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
        self.worker.write_replies(clock::now());
        self.worker.converse(self.token, bytes, &mut self.said)
    }
}

/// Lets the worker that this thread is serve others for a moment, if it runs a script.
pub fn serve(is_lent: bool) {
    if LENT.is_set() {
        LENT.with(|lent| lent.serve(is_lent));
    }
}

/// Sends bytes to the client of the script that this thread runs, and waits for its next request.
pub fn converse(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    if LENT.is_set() { LENT.with(|lent| lent.converse(bytes)) } else { None }
}

/// Nanoseconds of a small tick for all chunked commands together.
const CHUNKED: u64 = 40_000;

/// Time that a debugged script's thread waits at a time, and limit of bytes of a request to the debugger.
const DEBUG_WAIT: Duration = Duration::from_millis(100);
const DEBUG_REQUEST_MAX: usize = 1 << 20;

impl Worker {
    /// Runs a command that may run a script. Appends its reply as always; returns where the reply begins.
    pub fn run_apart(
        &mut self,
        prepared: &Prepared,
        args: &mut Args<'_>,
        rest: Remaining<'_, '_>,
        now: Now,
    ) -> (Flow, usize) {
        let (token, before) = (rest.token, (self.lapses, self.logged_before));
        let connection = &mut self.connections[token];
        connection.waiting.set_apart(true);
        if let Some(entry) = prepared.entry() {
            connection.session.info.last_command.store(entry.id + 1, Relaxed);
        }
        let stand_in = connection.session.stand_in();
        let mut session = std::mem::replace(&mut connection.session, stand_in);
        let mode = std::mem::replace(&mut session.yielding, LendingMode::Apart);
        let mut reply = std::mem::take(&mut self.apart_reply);
        reply.set_protocol(connection.protocol);
        let shared = Arc::clone(&self.shared);
        let mut yielding = Yielding { worker: self, token, said: Vec::new(), rest: Some(rest) };
        let run = || dispatch::run(&shared.engine, &mut session, prepared, args, now, &mut reply);
        let flow = LENT.set(&mut yielding, run);
        // Ticks within have begun later.
        (self.lapses, self.logged_before) = before;
        let start = self.replies.len();
        let sink = self.replies.sink();
        sink.set_protocol(reply.protocol());
        sink.raw(reply.as_slice());
        if reply.len() > REPLY_KEPT {
            drop(reply.take());
        }
        reply.truncate(0);
        let protocol = reply.protocol();
        self.apart_reply = reply;
        session.yielding = mode;
        let connection = &mut self.connections[token];
        connection.protocol = protocol;
        connection.session = session;
        connection.waiting.set_apart(false);
        (flow, start)
    }

    /// Finishes the tick for all connections but the one whose command has not ended.
    fn end_tick(&mut self, rest: Remaining<'_, '_>, now: Now) {
        let Remaining { token, mut items, spans, unparsed } = rest;
        while let Some(item) = items.first() {
            let done = if item.token == token { 1 } else { self.run_some(items, spans, &unparsed, now) };
            let (ran, left) = items.split_at_mut(done);
            ran.iter_mut().filter(|item| item.token != token).for_each(|item| item.set_done());
            items = left;
        }
        self.run_batches(unparsed, Some(token), now);
        for input in unparsed.inputs() {
            // Unparsed input among the connection's own bytes goes back to it at once.
            if let Some(kept) = input.take_kept()
                && let Some(connection) = self.connections.get_mut(input.token)
            {
                connection.input.give_back(kept);
            }
        }
        self.write_replies(now);
        for other in self.run_queue.end_tick_but_for(token) {
            // The connection has not been read from yet.
            if self.connections.get(other).is_some_and(|connection| connection.visits.is_enqueued()) {
                self.run_queue.put_back(other);
            }
            self.settle(other, now);
        }
    }

    fn serve_in_script(&mut self) {
        let now = clock::now();
        self.retry_delayed(now);
        self.note_events(Duration::ZERO, now);
        if self.accept_pending {
            self.accept();
        }
        self.take_messages_in_script(now);
        self.end_pause();
        self.step_chunked(self.nanos().after(CHUNKED), now);
        let mut served = Vec::new();
        let (mut arena, mut inputs) = (Vec::new(), Vec::new());
        for token in self.run_queue.take_all() {
            if self.run_queue.is_in_tick(token) {
                self.run_queue.put_back(token);
                continue;
            }
            let watches = self.connections.get(token).is_some_and(|it| it.session.watching.is_some());
            if watches {
                if !self.evacuate(token) {
                    self.run_queue.put_back(token);
                }
                continue;
            }
            arena.resize(SMALL_ARENA, 0);
            self.gather(token, &mut arena, &mut 0, &mut inputs, now);
            self.process(&arena, &mut inputs, now);
            served.push(token);
        }
        self.serve_links();
        self.write_replies(now);
        for token in served {
            self.settle(token, now);
            self.evacuate(token);
        }
    }

    /// Serves no other client meanwhile: it may want what the script has locked.
    fn converse(&mut self, token: usize, bytes: &[u8], said: &mut Vec<u8>) -> Option<Vec<Vec<u8>>> {
        let connection = self.connections.get_mut(token)?;
        connection.send(bytes, usize::MAX, clock::now().unix_ms()).ok()?;
        loop {
            if let Some(words) = read_request(self.connections.get_mut(token)?, said)? {
                return Some(words);
            }
            self.note_events(DEBUG_WAIT, clock::now());
            while let Some(message) = self.inbox.take() {
                match message {
                    WorkerMessage::Stop | WorkerMessage::Durable => self.take_message(message, clock::now()),
                    others => self.deferred_messages.add(others),
                }
            }
            if self.stopping {
                return None;
            }
        }
    }

    /// Waits for events at sockets, and records them for later.
    fn note_events(&mut self, wait: Duration, now: Now) {
        let mut events = Events::with_capacity(256);
        // A poll that has failed is tried again at the next call.
        if self.poller.wait(&mut events, wait).is_ok_and(|has_waited| has_waited) {
            told(&events).for_each(|event| self.note_in_script(event, now));
        }
    }
}

/// Reads the next request to the debugger, if it is all there; None when there can be none any more.
fn read_request(connection: &mut Connection, said: &mut Vec<u8>) -> Option<Option<Vec<Vec<u8>>>> {
    loop {
        if let Some(words) = take_request(said)? {
            return Some(Some(words));
        }
        let filled = said.len();
        said.resize(filled + REPLY_KEPT, 0);
        let read = connection.socket.read(&mut said[filled..]);
        said.truncate(filled + *read.as_ref().unwrap_or(&0));
        connection.flush_all().ok()?;
        let is_over = connection.socket.has_ended() || connection.session.info.has_ended();
        if is_over || said.len() > DEBUG_REQUEST_MAX {
            return None;
        }
        if read.ok()? == 0 {
            return Some(None);
        }
    }
}

/// Takes the first request of the client's input, if it is all there; None when it can be none.
fn take_request(said: &mut Vec<u8>) -> Option<Option<Vec<Vec<u8>>>> {
    let mut spans = Vec::new();
    let (consumed, words) = match RequestParser::new().parse(said, &RequestLimits::default(), &mut spans).ok()? {
        Progress::Command { consumed, owned } => {
            let args = Args::parsed(said, &spans, owned.into());
            (consumed, Some(args.iter().map(<[u8]>::to_vec).collect()))
        }
        Progress::Empty { consumed } => (consumed, None),
        Progress::Incomplete => return Some(None),
        Progress::Large { .. } => return None,
    };
    said.drain(..consumed);
    Some(words)
}

/// The client of a script that is debugged on a copy of the data.
struct DebugClient {
    connection: Connection,
    shared: Arc<Shared>,
    poll: Poll,
    events: Events,
    /// Requests that came with the script, and bytes that came later and are no whole request yet.
    queued: VecDeque<Vec<Vec<u8>>>,
    said: Vec<u8>,
}

/// Starts the thread for a connection that was this worker's. `is_there`: neither the client nor its socket was lost.
pub fn start_debugger(
    shared: &Arc<Shared>,
    worker: usize,
    connection: Connection,
    session: DebugSession,
    is_there: bool,
) {
    let (id, theirs) = (connection.client(), Arc::clone(shared));
    let run = move || {
        let client =
            if is_there { DebugClient::new(connection, &theirs) } else { Err(io::ErrorKind::NotConnected.into()) };
        match client {
            Ok(mut client) => client.hold(session),
            Err(error) => log::verbose(format_args!("A script is not debugged: {error}")),
        }
        theirs.forget(worker, id);
    };
    // The closure is dropped with the connection if there is no thread for it.
    if let Err(error) = thread::Builder::new().name("debugger".to_owned()).stack_size(WORKER_STACK).spawn(run) {
        log::warning(format_args!("Can't start a thread for a debugged script: {error}"));
        shared.forget(worker, id);
    }
}

impl DebugClient {
    fn new(mut connection: Connection, shared: &Arc<Shared>) -> io::Result<DebugClient> {
        let (poll, events) = (Poll::new()?, Events::with_capacity(8));
        connection.socket.stream().register(poll.registry(), Token(0))?;
        let words = |args: Args<'_>| args.iter().map(<[u8]>::to_vec).collect();
        let queued = connection.input.take_queued().into_iter().map(words).collect();
        let said = connection.input.pending().to_vec();
        Ok(DebugClient { connection, shared: Arc::clone(shared), poll, events, queued, said })
    }

    /// Runs the script, and sends the rest of its output.
    fn hold(&mut self, session: DebugSession) {
        let said = LENT.set(self, || session.run());
        let sent = self.connection.send(&said, usize::MAX, clock::now().unix_ms());
        let mut goes_on = sent.is_ok();
        while goes_on && !self.connection.output.is_drained() {
            goes_on = self.wait() && self.connection.flush_all().is_ok();
        }
    }

    /// Waits for the socket for a moment. False if the client or the server is about to end.
    fn wait(&mut self) -> bool {
        // A poll that has failed is tried again at the next call.
        if self.poll.poll(&mut self.events, Some(DEBUG_WAIT)).is_ok() {
            for event in &self.events {
                self.connection.note_readiness(Readiness::of(event));
            }
        }
        !self.shared.stopping.load(Relaxed) && !self.connection.session.info.has_ended()
    }
}

impl Lent for DebugClient {
    /// The thread has no other client.
    fn serve(&mut self, _is_lent: bool) {}

    fn converse(&mut self, bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
        self.connection.send(bytes, usize::MAX, clock::now().unix_ms()).ok()?;
        if let Some(words) = self.queued.pop_front() {
            return Some(words);
        }
        loop {
            if let Some(words) = read_request(&mut self.connection, &mut self.said)? {
                return Some(words);
            }
            if !self.wait() {
                return None;
            }
        }
    }
}
