//! One tick of a worker: read, parse, prefetch, run, write.

use crate::connection::state::{Connection, Job};
use crate::event_loop::fairness::{LIGHT_BYTES, VISIT_BYTES};
use crate::event_loop::replies::{REPLY_HIGH, REPLY_LOW};
use crate::event_loop::worker::Worker;
use crate::system::log::{self, Level};
use commands::Now;
use commands::batch::Batch;
use commands::batch::item::Item;
use commands::batch::parse::{Filled, Source};
use commands::batch::run::{End, Run};
use commands::core::context::Flow;
use commands::server::client_list::described;
use engine::Engine;
use engine::config::{Directive, os_message};
use engine::host::threads::Server;
use engine::keyspace::held_locks::LockTimeout;
use resp::{ProtocolError, Span};
use slab::Slab;
use std::cell::Cell;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;

/// The arena: what a tick reads before it runs anything.
pub const ARENA: usize = 256 << 10;
/// How many times as much may be read at a time when it belongs to a large argument, which is not parsed.
const LARGE: usize = 4;
/// Unfinished input longer than this is parsed where it lies instead of being copied to the arena.
const PENDING_COPY_MAX: usize = 16 << 10;
/// Bytes of replies to one connection after which others are looked at: to copy them is the kernel's work, and takes
/// long.
const VISIT_REPLY_MAX: usize = 64 << 10;
/// The same for one whose replies have a hard limit, which is for those that wait together.
const LIMITED_REPLY_MAX: usize = 256 << 10;
/// Nanoseconds for the visit of such a one: what a tick has cleared of fresh memory may be most of it.
const LIMITED_VISIT_MAX: u64 = 20_000_000;
/// The arena of a tick within a tick, for one connection at a time.
pub const SMALL_ARENA: usize = VISIT_BYTES + PENDING_COPY_MAX;

impl Worker {
    pub fn tick(&mut self, now: Now) {
        if !self.delayed.is_empty() || self.shared.engine.has_leftovers() {
            self.retry_delayed(now);
        }
        let mut ready = std::mem::take(&mut self.ready);
        self.set_aside_deprioritized(&mut ready);
        self.in_tick.clear();
        self.in_tick.extend_from_slice(&ready);
        let mut arena = std::mem::take(&mut self.arena);
        let mut inputs = Vec::with_capacity(ready.len());
        let mut fill = 0;
        for &token in &ready {
            if arena.len() - fill < VISIT_BYTES + PENDING_COPY_MAX {
                self.process(&arena, &mut inputs, now);
                fill = 0;
            }
            self.gather(token, &mut arena, &mut fill, &mut inputs, now);
        }
        self.process(&arena, &mut inputs, now);
        self.serve_deprioritized(&mut arena, !ready.is_empty(), now);
        self.arena = arena;
        if self.accept_pending {
            self.write_replies(now);
            self.accept();
        }
        self.take_messages(now);
        self.end_waits(now);
        self.write_replies(now);
        for &token in &ready {
            match self.connections.get_mut(token) {
                // To close a socket takes long, and nobody waits for it.
                Some(connection) if connection.closing => {
                    connection.deprioritize();
                    self.enqueue(token);
                }
                _ => self.settle(token, now),
            }
        }
        self.evict_clients(now.unix_ms());
        if self.ready.is_empty() {
            // Keeps the list's memory.
            self.ready = ready;
            self.ready.clear();
        }
    }

    /// Reads from a connection's socket and notes what there is to parse.
    pub fn gather(&mut self, token: usize, arena: &mut [u8], fill: &mut usize, inputs: &mut Vec<Input>, now: Now) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.enqueued = false;
        connection.has_enough = false;
        if connection.socket.writable {
            if connection.flush(self.visit_bytes, now.unix_ms()).is_err() {
                return self.close(token);
            }
            if connection.wakes(now.unix_ms(), self.patience) {
                self.jobs.push(token);
            }
            if connection.socket.writable {
                // The rest in another visit, before there is more of it.
                return;
            }
        }
        if connection.is_held() || connection.output_full(now.unix_ms(), self.patience) {
            return;
        }
        let waiting = connection.unparsed || connection.requests.has_parsed();
        let (start, kept) = (*fill, connection.pending.len());
        let gathered = gather_input(connection, arena, start, self.visit_bytes);
        let gathered = match gathered {
            Ok(gathered) => gathered,
            Err(error) => {
                log::verbose(format_args!("Reading from client: {}", os_message(&error)));
                return self.close(token);
            }
        };
        if gathered.read > 0 {
            let metrics = &self.shared.engine.metrics()[self.index];
            metrics.reads.add(1);
            metrics.input_bytes.add(gathered.read as u64);
            self.coalescer.count_visit(connection.note_active(now.unix_ms()));
            connection.session.info.count_input(gathered.read);
            match gathered.is_large || kept + gathered.read >= LIGHT_BYTES {
                true => connection.deprioritize(),
                false => connection.deprioritized_visits = connection.deprioritized_visits.saturating_sub(1),
            }
            if gathered.is_large {
                // Before it becomes a value.
                connection.note_memory(metrics);
                if self.end_if_input_too_long(token, now.unix_ms()) {
                    return;
                }
                self.evict_clients(now.unix_ms());
            }
        }
        let Some(connection) = self.connections.get_mut(token) else { return };
        if !waiting && !gathered.more {
            if let Bytes::Own(own) = gathered.bytes {
                connection.pending = own;
            }
            return;
        }
        if let Bytes::Arena(range) = &gathered.bytes {
            let kept = connection.pending.len();
            arena[start..start + kept].copy_from_slice(&connection.pending);
            connection.pending.clear();
            *fill = range.end;
        }
        inputs.push(Input { token, bytes: gathered.bytes, is_done: Cell::new(false), kept: Cell::new(None) });
    }

    /// Runs everything that was read, batch by batch.
    pub fn process(&mut self, arena: &[u8], inputs: &mut Vec<Input>, now: Now) {
        if inputs.is_empty() {
            return;
        }
        let place = Place { input: 0, offset: 0, since: self.shared.engine.host().nanos() };
        self.run_batches(Unparsed { arena, inputs, place }, None, now);
        for input in inputs.drain(..) {
            if let (Bytes::Own(own), Some(kept)) = (input.bytes, input.kept.take())
                && let Some(connection) = self.connections.get_mut(input.token)
            {
                connection.keep_own_input(own, kept);
            }
        }
    }

    /// Runs what has not been parsed yet, batch by batch; but for that of `left_out`, which waits.
    pub fn run_batches(&mut self, mut unparsed: Unparsed<'_>, left_out: Option<usize>, now: Now) {
        let mut batch = std::mem::take(&mut self.batch).renewed();
        loop {
            self.fill_batch(&mut unparsed, left_out, &mut batch, now);
            if batch.is_empty() {
                break;
            }
            let engine = &*self.shared.engine;
            let (mut items, spans) = batch.begin(engine, &mut self.prefetcher);
            engine.metrics()[self.index].clock.set(engine.host().nanos());
            while !items.is_empty() {
                let done = self.run_some(items, spans, &unparsed, now);
                items = &mut items[done..];
            }
            batch.clear();
            let is_limited = self.shared.engine.saves().deny_reasons().is_limited();
            if self.reply.len() >= if is_limited { REPLY_LOW } else { REPLY_HIGH } {
                self.write_replies(now);
            }
        }
        self.batch = batch.renewed();
    }

    fn fill_batch<'b>(
        &mut self,
        unparsed: &mut Unparsed<'b>,
        left_out: Option<usize>,
        batch: &mut Batch<'b>,
        now: Now,
    ) {
        let Unparsed { arena, inputs, place } = unparsed;
        while let Some(input) = inputs.get(place.input) {
            let bytes = match &input.bytes {
                Bytes::Arena(range) => &arena[range.clone()],
                Bytes::Own(bytes) => &bytes[..],
            };
            let is_for_now = !input.is_done.get() && left_out != Some(input.token);
            if is_for_now && self.connections.contains(input.token) {
                let is_over_budget = self.is_over_budget(input.token, place.since);
                let keep = match self.may_fill(input.token, is_over_budget, now) {
                    false => place.offset..bytes.len(),
                    true => match self.fill_from(input.token, bytes, &mut place.offset, batch) {
                        Filled::Batch => return,
                        Filled::Input { keep } => keep,
                    },
                };
                match &input.bytes {
                    Bytes::Own(_) => input.kept.set(Some((keep.start, keep.end))),
                    Bytes::Arena(_) => self.connections[input.token].keep_input(&bytes[keep]),
                }
            }
            input.is_done.set(input.is_done.get() || is_for_now);
            let since = self.shared.engine.metrics()[self.index].clock.get();
            *place = Place { input: place.input + 1, offset: 0, since };
        }
    }

    /// Whether a connection whose turn came at `since` has kept others waiting for long enough.
    fn is_over_budget(&self, token: usize, since: u64) -> bool {
        let connection = &self.connections[token];
        let visit = self.metrics().clock.get().saturating_sub(since);
        connection.has_enough
            || (visit > self.visit_max || self.reply.len() > self.visit_replies)
                && (visit > LIMITED_VISIT_MAX || !self.settings.clients.is_hard(connection))
    }

    /// Whether a connection's requests may go into the batch now.
    fn may_fill(&mut self, token: usize, is_over_budget: bool, now: Now) -> bool {
        let (patience, connection) = (self.patience, &mut self.connections[token]);
        if is_over_budget {
            connection.deprioritize();
        }
        connection.unparsed = connection.is_held() || connection.output_full(now.unix_ms(), patience) || is_over_budget;
        !connection.unparsed
    }

    fn fill_from<'b>(&mut self, token: usize, bytes: &'b [u8], offset: &mut usize, batch: &mut Batch<'b>) -> Filled {
        let connection = &mut self.connections[token];
        let limits = self.settings.limits(connection.session.authenticated);
        let (engine, db, command_cache) = (&*self.shared.engine, connection.session.db, &mut self.command_cache);
        batch.fill(&mut Source { engine, token, db, limits, command_cache }, &mut connection.requests, bytes, offset)
    }

    /// Runs the items of the first one's connection, up to one that has more to it than a reply. Returns how many are
    /// done with.
    pub fn run_some(&mut self, items: &mut [Item<'_>], spans: &[Span], unparsed: &Unparsed<'_>, now: Now) -> usize {
        let token = items[0].token;
        let is_limited = self.shared.engine.saves().deny_reasons().is_limited();
        if is_limited {
            // What clients are told of keys that have to go for a command comes before its reply.
            self.shared.engine.make_room(Server { worker: self.index, now_us: now.unix_us });
            self.deliver_own();
        }
        let Some(connection) = self.connections.get_mut(token) else { return 1 };
        if connection.closing || connection.has_enough || connection.is_busy() {
            return self.put_back(items, spans);
        }
        let mut start = self.reply.len();
        self.reply.set_protocol(connection.protocol);
        let (mut done, mut end) = self.run_requests(items, spans, start + VISIT_REPLY_MAX, now);
        if matches!(end, End::Full) && self.settings.clients.is_hard(&self.connections[token]) {
            let (more, ended) = self.run_requests(&mut items[done..], spans, start + LIMITED_REPLY_MAX, now);
            (done, end) = (done + more, ended);
        }
        let connection = &mut self.connections[token];
        connection.protocol = self.reply.protocol();
        let mut last = Flow::Next;
        match end {
            End::Next => {}
            End::Flow(flow) => last = flow,
            End::Chunked(work, command) => {
                connection.job = Some(Job { work, command, replied: 0, throttled: false });
                self.jobs.push(token);
            }
            End::Retry { is_postponed } => self.retry_later(&mut items[done - 1], spans, is_postponed),
            End::Violation(error) => {
                log_violation(&self.shared.engine, connection, &error, items[done - 1].bytes, now);
                last = Flow::Close;
            }
            End::Full => connection.has_enough = true,
            End::Later => {
                done += 1;
                self.retry_later(&mut items[done - 1], spans, false);
            }
            End::Script => {
                let (item, others) = items[done..].split_first_mut().expect("it was looked at");
                done += 1;
                (last, start) =
                    self.run_item_apart(item, Rest { token, items: others, spans, unparsed: *unparsed }, now);
            }
        }
        self.note_reply(token, start);
        self.deliver_own();
        self.follow(token, last);
        done
    }

    #[inline]
    fn run_requests(&mut self, items: &mut [Item<'_>], spans: &[Span], reply_max: usize, now: Now) -> (usize, End) {
        let engine = &*self.shared.engine;
        let mut run = Run {
            engine,
            session: &mut self.connections[items[0].token].session,
            prefetcher: &mut self.prefetcher,
            now,
            reply: &mut self.reply,
            reply_max,
            is_limited: engine.saves().deny_reasons().is_limited(),
            is_lent: self.is_lent,
        };
        run.run(items, spans)
    }

    /// The requests that `items` begins with of the first one's connection cannot run now. Returns how many there are.
    fn put_back(&mut self, items: &mut [Item<'_>], spans: &[Span]) -> usize {
        let token = items[0].token;
        let connection = &mut self.connections[token];
        let count = items.iter().take_while(|item| item.token == token).count();
        for item in &mut items[..count] {
            if !connection.closing {
                connection.closing = item.put_back(&mut connection.requests, spans);
            }
        }
        count
    }

    /// The request has done nothing and is run again: after a pause, or else a little later.
    fn retry_later(&mut self, item: &mut Item<'_>, spans: &[Span], is_postponed: bool) {
        let connection = &mut self.connections[item.token];
        connection.closing |= item.put_back(&mut connection.requests, spans);
        if is_postponed {
            connection.postponed = true;
            connection.session.info.postponed.store(true, Relaxed);
        } else {
            let patience = &mut connection.session.patience;
            *patience = patience.after_failure(self.delayed.is_empty());
            connection.delayed = true;
            self.delayed.push(item.token);
        }
    }

    /// Runs an item that may run a script. Returns where its reply begins.
    fn run_item_apart(&mut self, item: &mut Item<'_>, rest: Rest<'_, '_>, now: Now) -> (Flow, usize) {
        let (token, spans) = (rest.token, rest.spans);
        let ran = item.call(spans, |prepared, args| self.run_apart(prepared, args, rest, now));
        let (flow, start) = ran.unwrap_or_else(|| (Flow::Next, self.reply.len()));
        match flow {
            Flow::NotNow => self.retry_later(item, spans, false),
            Flow::Postponed => self.retry_later(item, spans, true),
            _ => self.connections[token].session.patience = LockTimeout::Short,
        }
        (flow, start)
    }

    fn follow(&mut self, token: usize, flow: Flow) {
        match flow {
            Flow::Next | Flow::More(_) | Flow::WaitOn | Flow::NotNow | Flow::Postponed => {}
            Flow::Wait(ticket) => self.block(token, ticket),
            Flow::Close => self.connections[token].closing = true,
            Flow::Abort => {
                self.connections[token].abort();
                self.take_back_replies(token);
            }
            Flow::Shutdown => self.shared.request_stop(),
        }
    }

    /// After the tick: a connection ends, or goes on in the next tick when there is more to do.
    pub fn settle(&mut self, token: usize, now: Now) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if connection.is_waiting() && connection.socket.hung_up {
            return self.close(token);
        }
        let nothing_left = !connection.unparsed && !connection.requests.has_queued() && !connection.is_busy();
        if connection.socket.ended && nothing_left {
            if !connection.closing && log::shows(Level::Verbose) {
                let client = described(&self.shared.engine, &connection.session.info, now.unix_ms());
                log::verbose(format_args!("Client closed connection {client}"));
            }
            connection.closing = true;
        }
        if connection.closing && connection.is_drained() {
            return self.close(token);
        }
        connection.note_memory(&self.shared.engine.metrics()[self.index]);
        if connection.shown_memory > PENDING_COPY_MAX && self.end_if_input_too_long(token, now.unix_ms()) {
            return;
        }
        let Some(connection) = self.connections.get_mut(token) else { return };
        let has_work = connection.socket.readable || !nothing_left;
        let may_run = !connection.is_held() && !connection.output_full(now.unix_ms(), self.patience);
        if connection.socket.writable || has_work && may_run {
            self.enqueue(token);
        }
    }
}

/// What was gathered for one connection.
struct Gathered {
    bytes: Bytes,
    /// Bytes that came from the socket.
    read: usize,
    /// There is more to parse than before.
    more: bool,
    /// It belongs to a large argument.
    is_large: bool,
}

/// Reads at most `most` bytes: a large argument to where it stays, anything else behind the pending input, which is in
/// the arena from `start` on (for which room is left) or, when it is long, in a buffer of its own.
fn gather_input(connection: &mut Connection, arena: &mut [u8], start: usize, most: usize) -> io::Result<Gathered> {
    let mut read = 0;
    let mut more = false;
    if let Some(large) = connection.requests.large_mut() {
        while large.missing() > 0 && connection.socket.readable && read < LARGE * most {
            let room = large.unfilled().len().min(LARGE * most - read);
            let n = connection.socket.read(&mut large.unfilled()[..room])?;
            large.advance(n);
            read += n;
        }
        if large.missing() > 0 {
            let own = std::mem::take(&mut connection.pending);
            return Ok(Gathered { bytes: Bytes::Own(own), read, more, is_large: true });
        }
        more = true;
        let len = connection.requests.large_len();
        connection.expect_input(len);
    }
    let is_large = more;
    let kept = connection.pending.len();
    if kept > PENDING_COPY_MAX {
        let mut own = std::mem::take(&mut connection.pending);
        if connection.socket.readable && !connection.unparsed {
            let n = connection.socket.read(&mut arena[start..start + most])?;
            own.extend_from_slice(&arena[start..start + n]);
            read += n;
        }
        return Ok(Gathered { bytes: Bytes::Own(own), read, more: more || read > 0, is_large });
    }
    let mut end = start + kept;
    // What has come is to run before there is more of it.
    if connection.socket.readable && !connection.unparsed {
        let n = connection.socket.read(&mut arena[end..end + most])?;
        end += n;
        read += n;
    }
    Ok(Gathered { bytes: Bytes::Arena(start..end), read, more: more || read > 0, is_large })
}

/// Input of one connection in a tick.
pub struct Input {
    token: usize,
    bytes: Bytes,
    /// All of it has been parsed that can be.
    is_done: Cell<bool>,
    /// Where the part lies that could not be parsed or run yet, of bytes that are the connection's own.
    kept: Cell<Option<(usize, usize)>>,
}

enum Bytes {
    Arena(Range<usize>),
    Own(Vec<u8>),
}

impl Input {
    /// What could not be parsed of bytes that are the connection's own goes back to it at once.
    pub fn give_back(&self, connections: &mut Slab<Connection>) {
        if let (Bytes::Own(own), Some((start, end))) = (&self.bytes, self.kept.take())
            && let Some(connection) = connections.get_mut(self.token)
        {
            connection.pending = own[start..end].to_vec();
        }
    }
}

/// Inputs of a tick, and where the filling of batches stands in them.
#[derive(Clone, Copy)]
pub struct Unparsed<'b> {
    arena: &'b [u8],
    pub inputs: &'b [Input],
    place: Place,
}

/// What else there is to do in the tick in which a connection's command runs apart.
pub struct Rest<'w, 'b> {
    pub token: usize,
    pub items: &'w mut [Item<'b>],
    pub spans: &'w [Span],
    pub unparsed: Unparsed<'w>,
}

/// Bytes of each end of the input that the log shows of a request that could not be understood.
const SHOWN: usize = 64;

#[cold]
fn log_violation(engine: &Engine, connection: &Connection, error: &ProtocolError, bytes: &[u8], now: Now) {
    if !log::shows(Level::Verbose) {
        return;
    }
    let client = described(engine, &connection.session.info, now.unix_ms());
    let error = error.to_string();
    let error = error.strip_prefix("-ERR Protocol error: ").unwrap_or(&error);
    let shown = |part: &[u8]| {
        part.iter().map(|c| if c.is_ascii_graphic() || *c == b' ' { char::from(*c) } else { '.' }).collect::<String>()
    };
    let input = match bytes.len() {
        _ if engine.config().snapshot().flag(Directive::HIDE_USER_DATA_FROM_LOG) => "*redacted*".to_owned(),
        len if len > 2 * SHOWN => format!(
            "'{}' (... more {} bytes ...) '{}'",
            shown(&bytes[..SHOWN]),
            len - 2 * SHOWN,
            shown(&bytes[len - SHOWN..])
        ),
        _ => format!("'{}'", shown(bytes)),
    };
    log::verbose(format_args!("Protocol error ({error}) from client: {client}. Query buffer: {input}"));
}

/// Where the filling of batches stands in the inputs.
#[derive(Clone, Copy)]
struct Place {
    input: usize,
    offset: usize,
    /// What the worker's clock showed when this input's turn came.
    since: u64,
}
