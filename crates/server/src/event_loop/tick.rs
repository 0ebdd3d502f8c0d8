//! One tick of a worker: read, parse, prefetch, run, write.

use crate::connection::chunked::ChunkedCommand;
use crate::connection::input::{InputBytes, PENDING_COPY_MAX};
use crate::connection::state::Connection;
use crate::event_loop::replies::is_outdated;
use crate::event_loop::tick_input::{TickInput, Unparsed};
use crate::event_loop::worker::Worker;
use crate::schedule::fairness::{LIGHT_BYTES, LIMITED_VISIT_MAX, VISIT_BYTES};
use crate::system::log::{self, Level};
use commands::batch::Batch;
use commands::batch::execute::{BatchEnd, BatchRun};
use commands::batch::item::BatchItem;
use commands::batch::parse::{Filled, RequestSource};
use commands::core::client_line::described;
use commands::core::command::Command;
use commands::core::context::Flow;
use commands::{Now, Work};
use engine::Engine;
use engine::config::{Directive, os_message};
use engine::host::threads::Server;
use engine::keyspace::held_locks::LockTimeout;
use engine::time::Nanos;
use resp::{ProtocolError, Span};
use std::sync::atomic::Ordering::Relaxed;

/// Bytes of replies to one connection after which others are looked at: the kernel takes long to copy them.
const VISIT_REPLY_MAX: usize = 64 << 10;
/// Bytes of replies to one connection with a hard limit, which applies to replies that wait together.
const LIMITED_REPLY_MAX: usize = 256 << 10;
/// Bytes of the arena that have to be free for the input of one connection; the size of the arena of a tick within a
/// tick.
pub const SMALL_ARENA: usize = VISIT_BYTES + PENDING_COPY_MAX;

impl Worker {
    /// Serves all connections that have something to do.
    pub fn tick(&mut self, now: Now) {
        if !self.retries.is_empty() || self.shared.engine.has_deferred() {
            self.retry_delayed(now);
        }
        self.end_throttled();
        let connections = &self.connections;
        let is_deprioritized = |token| connections.get(token).is_some_and(Connection::deprioritized);
        let ready = self.run_queue.begin_tick(is_deprioritized);
        let mut arena = self.pipeline.take_arena();
        let mut inputs = Vec::with_capacity(ready.len());
        let mut fill = 0;
        for &token in &ready {
            if arena.len() - fill < SMALL_ARENA {
                self.process(&arena, &mut inputs, now);
                fill = 0;
            }
            self.gather(token, &mut arena, &mut fill, &mut inputs, now);
        }
        self.process(&arena, &mut inputs, now);
        self.serve_deprioritized(&mut arena, !ready.is_empty(), now);
        self.pipeline.put_arena(arena);
        if self.accept_pending {
            self.write_replies(now);
            self.accept();
        }
        self.take_messages(now);
        self.end_waits();
        self.serve_links();
        self.write_replies(now);
        for &token in &ready {
            match self.connections.get_mut(token) {
                // Closing a socket takes long, and nothing waits for it.
                Some(connection) if connection.is_closing() => {
                    connection.visits.deprioritize();
                    self.enqueue(token);
                }
                _ => self.settle(token, now),
            }
        }
        self.evict_clients(now.unix_ms());
        self.run_queue.end_tick(ready);
    }

    /// Reads from a connection's socket and records what there is to parse.
    pub fn gather(&mut self, token: usize, arena: &mut [u8], fill: &mut usize, inputs: &mut Vec<TickInput>, now: Now) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        connection.visits.begin();
        if connection.socket.takes_more() {
            let is_outdated = is_outdated(&self.shared.engine, connection);
            if is_outdated || connection.flush(self.fairness.visit_bytes(), now.unix_ms()).is_err() {
                return self.close(token);
            }
            if connection.wakes(now.unix_ms(), self.patience) {
                self.run_queue.add_chunked(token);
            }
            if connection.socket.takes_more() {
                // The rest is read in another visit, before there is more of it.
                return;
            }
        }
        if !connection.may_run(now.unix_ms(), self.patience) {
            return;
        }
        let (waiting, start, kept) = (connection.input.has_waiting(), *fill, connection.input.pending().len());
        let gathered = connection.input.gather(&mut connection.socket, arena, start, self.fairness.visit_bytes());
        let gathered = match gathered {
            Ok(gathered) => gathered,
            Err(error) => {
                log::verbose(format_args!("Reading from client: {}", os_message(&error)));
                return self.close(token);
            }
        };
        if gathered.read > 0 {
            let metrics = &self.shared.engine.metrics()[self.index];
            connection.note_active(now.unix_ms());
            connection.count_read(gathered.read, metrics);
            connection.visits.count_read(gathered.is_large || kept + gathered.read >= LIGHT_BYTES);
            if gathered.is_large {
                // Memory is recorded before the input becomes a value.
                connection.note_memory(metrics);
                if self.end_if_input_too_long(token, now.unix_ms()) {
                    return;
                }
                self.evict_clients(now.unix_ms());
            }
        }
        let Some(connection) = self.connections.get_mut(token) else { return };
        if !waiting && !gathered.more {
            if let InputBytes::Own(own) = gathered.bytes {
                connection.input.give_back(own);
            }
            return;
        }
        if let InputBytes::Arena(range) = &gathered.bytes {
            connection.input.move_to(arena, start);
            *fill = range.end;
        }
        inputs.push(TickInput::new(token, gathered.bytes));
    }

    /// Runs everything that was read, batch by batch.
    pub fn process(&mut self, arena: &[u8], inputs: &mut Vec<TickInput>, now: Now) {
        if inputs.is_empty() {
            return;
        }
        let since = self.nanos();
        self.run_batches(Unparsed::new(arena, inputs, since), None, now);
        for input in inputs.drain(..) {
            let token = input.token;
            if let Some((own, kept)) = input.into_kept()
                && let Some(connection) = self.connections.get_mut(token)
            {
                connection.input.keep_own(own, kept);
            }
        }
    }

    /// Runs all input that has not been parsed yet, batch by batch; the input of `left_out` waits.
    pub fn run_batches(&mut self, mut unparsed: Unparsed<'_>, left_out: Option<usize>, now: Now) {
        let mut batch = self.pipeline.take_batch();
        loop {
            self.fill_batch(&mut unparsed, left_out, &mut batch, now);
            if batch.is_empty() {
                break;
            }
            let engine = &*self.shared.engine;
            let (mut items, spans) = batch.begin(engine, self.pipeline.prefetcher());
            let clock = engine.host().nanos();
            engine.metrics()[self.index].set_clock(clock);
            if engine.cluster().is_late(clock) {
                engine.expire_slot_map(clock);
            }
            if self.replies.len() == 0 && engine.is_clustered() {
                (self.lapses, self.logged_before) = (engine.cluster().lapses(), engine.change_log().appended());
            }
            while !items.is_empty() {
                let done = self.run_some(items, spans, &unparsed, now);
                items = &mut items[done..];
            }
            batch.clear();
            if self.replies.is_high(self.shared.engine.persistence_status().deny_reasons().is_limited()) {
                self.write_replies(now);
            }
        }
        self.pipeline.put_batch(batch);
    }

    fn fill_batch<'b>(
        &mut self,
        unparsed: &mut Unparsed<'b>,
        left_out: Option<usize>,
        batch: &mut Batch<'b>,
        now: Now,
    ) {
        while let Some((input, bytes)) = unparsed.current() {
            let token = input.token;
            let is_for_now = !input.is_done() && left_out != Some(token);
            if is_for_now && self.connections.contains(token) {
                let is_over_budget = self.is_over_budget(token, unparsed.since());
                let part = match self.may_fill(token, is_over_budget, now) {
                    false => *unparsed.offset()..bytes.len(),
                    true => match self.fill_from(token, bytes, unparsed.offset(), batch) {
                        Filled::Batch => return,
                        Filled::Input { keep } => keep,
                    },
                };
                if let Some(part) = input.keep(bytes, part) {
                    self.connections[token].input.keep(part);
                }
            }
            if is_for_now {
                input.set_done();
            }
            unparsed.go_on(self.metrics().clock());
        }
    }

    /// Returns whether a connection whose turn came at `since` has kept others waiting for long enough.
    fn is_over_budget(&self, token: usize, since: Nanos) -> bool {
        let connection = &self.connections[token];
        let visit = self.metrics().clock().since(since);
        let is_hard = || self.settings.clients.is_hard(connection);
        connection.visits.quantum_used() || self.fairness.is_over_budget(visit, self.replies.wire_len(), is_hard)
    }

    /// Returns whether a connection's requests may go into the batch now.
    fn may_fill(&mut self, token: usize, is_over_budget: bool, now: Now) -> bool {
        let connection = &mut self.connections[token];
        if is_over_budget {
            connection.visits.deprioritize();
        }
        let may_run = connection.may_run(now.unix_ms(), self.patience) && !is_over_budget;
        let may = may_run && self.allowance(token) > 0;
        self.connections[token].input.set_unparsed(!may);
        may
    }

    fn fill_from<'b>(&mut self, token: usize, bytes: &'b [u8], offset: &mut usize, batch: &mut Batch<'b>) -> Filled {
        let connection = &mut self.connections[token];
        let limits = self.settings.limits(connection.session.authenticated);
        let (engine, db, command_cache) = (&*self.shared.engine, connection.session.db, self.pipeline.command_cache());
        connection.input.fill(&mut RequestSource { engine, token, db, limits, command_cache }, bytes, offset, batch)
    }

    /// Runs the items of the first one's connection, up to one that needs more than a reply. Returns the number of
    /// finished items.
    pub fn run_some(
        &mut self,
        items: &mut [BatchItem<'_>],
        spans: &[Span],
        unparsed: &Unparsed<'_>,
        now: Now,
    ) -> usize {
        let token = items[0].token;
        let is_limited = self.shared.engine.persistence_status().deny_reasons().is_limited();
        if is_limited {
            // Invalidations of keys that are evicted for a command come before its reply.
            let evicted_to = self.shared.engine.make_room(Server { worker: self.index, now_us: now.unix_us });
            self.deliver_own();
            let session = &mut self.connections[token].session;
            session.told_at = session.told_at.max(evicted_to);
        }
        let allowed = match self.requests_allowed(items, spans) {
            Ok(allowed) => allowed,
            Err(done) => return done,
        };
        let items = &mut items[..allowed];
        let mut start = self.replies.len();
        self.replies.sink().set_protocol(self.connections[token].protocol);
        let client = self.connections[token].session.info.id;
        self.metrics().running.begin_visit(client);
        let began = self.metrics().clock();
        let (mut done, end) = self.run_visit(items, spans, now);
        let took = self.metrics().clock().since(began);
        let connection = &mut self.connections[token];
        connection.visits.count_commands(took);
        connection.meter.count_commands(done - usize::from(matches!(end, BatchEnd::BlockedCommand { .. })));
        connection.protocol = self.replies.sink().protocol();
        let mut last = Flow::Next;
        match end {
            BatchEnd::Next => {}
            BatchEnd::Flow(flow) => last = flow,
            BatchEnd::Chunked(work, command) => self.begin_chunked(token, work, command),
            BatchEnd::BlockedCommand { is_postponed } => self.retry_later(&mut items[done - 1], spans, is_postponed),
            BatchEnd::Violation(error) => {
                log_violation(&self.shared.engine, connection, &error, items[done - 1].bytes, now);
                last = Flow::Close;
            }
            BatchEnd::Full => connection.visits.set_enough(),
            BatchEnd::Later => {
                done += 1;
                self.retry_later(&mut items[done - 1], spans, false);
            }
            // Replies of earlier commands are recorded first.
            BatchEnd::Apart if done > 0 => {}
            BatchEnd::Apart => {
                let (item, others) = items[done..].split_first_mut().expect("it was looked at");
                done += 1;
                let began = self.nanos();
                (last, start) =
                    self.run_item_apart(item, Remaining { token, items: others, spans, unparsed: *unparsed }, now);
                let took = self.nanos().since(began);
                let connection = &mut self.connections[token];
                connection.visits.count_commands(took);
                connection.meter.count_commands(usize::from(!matches!(last, Flow::RetryLater | Flow::Postponed)));
            }
        }
        self.metrics().running.end_visit();
        self.note_reply(token, start);
        self.deliver_own();
        self.follow(token, last);
        done
    }

    /// Returns how many requests of the first one's connection may run now.
    ///
    /// # Errors
    /// The number of requests that were dealt with otherwise, where none may run.
    #[inline]
    fn requests_allowed(&mut self, items: &mut [BatchItem<'_>], spans: &[Span]) -> Result<usize, usize> {
        let token = items[0].token;
        let Some(connection) = self.connections.get_mut(token) else { return Err(1) };
        let is_held = connection.is_closing() || connection.is_busy() || connection.debugs();
        if is_held || connection.visits.quantum_used() {
            let asked = self.ask_behind(items, spans);
            if asked == 0 {
                return Err(self.put_back(items, spans));
            }
            self.connections[token].meter.count_commands(asked);
            return Err(asked);
        }
        match self.allowance(token).min(items.len()) {
            0 => Err(self.put_back(items, spans)),
            allowed => Ok(allowed),
        }
    }

    /// Runs requests of the first one's connection for as long as it may keep others waiting.
    fn run_visit(&mut self, items: &mut [BatchItem<'_>], spans: &[Span], now: Now) -> (usize, BatchEnd) {
        let (token, start) = (items[0].token, self.replies.wire_len());
        let visit = (start + VISIT_REPLY_MAX, self.fairness.visit_nanos());
        let (done, end) = self.run_requests(items, spans, visit, now);
        if matches!(end, BatchEnd::Full) && self.settings.clients.is_hard(&self.connections[token]) {
            let visit = (start + LIMITED_REPLY_MAX, LIMITED_VISIT_MAX);
            let (more, end) = self.run_requests(&mut items[done..], spans, visit, now);
            return (done + more, end);
        }
        (done, end)
    }

    #[inline]
    fn run_requests(
        &mut self,
        items: &mut [BatchItem<'_>],
        spans: &[Span],
        (reply_max, nanos): (usize, u64),
        now: Now,
    ) -> (usize, BatchEnd) {
        let engine = &*self.shared.engine;
        let mut run = BatchRun {
            engine,
            session: &mut self.connections[items[0].token].session,
            prefetcher: self.pipeline.prefetcher(),
            now,
            reply: self.replies.sink(),
            reply_max,
            until: engine.metrics()[self.index].clock().after(nanos),
            is_limited: engine.persistence_status().deny_reasons().is_limited(),
            is_lent: self.is_lent,
        };
        run.run(items, spans)
    }

    /// Puts back the requests that `items` begins with of the first one's connection, which cannot run now. Returns
    /// their number.
    fn put_back(&mut self, items: &mut [BatchItem<'_>], spans: &[Span]) -> usize {
        let token = items[0].token;
        let connection = &mut self.connections[token];
        let count = items.iter().take_while(|item| item.token == token).count();
        for item in &mut items[..count] {
            if !connection.is_closing() {
                connection.input.put_back(item, spans);
            }
        }
        count
    }

    /// Retries a request that has done nothing: after a pause, or else a little later.
    fn retry_later(&mut self, item: &mut BatchItem<'_>, spans: &[Span], is_postponed: bool) {
        let connection = &mut self.connections[item.token];
        connection.input.put_back(item, spans);
        if is_postponed {
            connection.waiting.postpone();
            connection.session.info.postponed.store(true, Relaxed);
        } else {
            let patience = &mut connection.session.patience;
            *patience = patience.after_failure(self.retries.is_empty());
            connection.waiting.delay();
            self.retries.add(item.token);
        }
    }

    /// Runs an item that may run a script, or is long. Returns where its reply begins.
    fn run_item_apart(&mut self, item: &mut BatchItem<'_>, rest: Remaining<'_, '_>, now: Now) -> (Flow, usize) {
        let (token, spans) = (rest.token, rest.spans);
        let mut entry = None;
        let ran = item.call(spans, |prepared, args| {
            entry = prepared.entry();
            self.run_apart(prepared, args, rest, now)
        });
        let (flow, start) = ran.unwrap_or_else(|| (Flow::Next, self.replies.len()));
        let flow = match (flow, entry) {
            (Flow::More(work), Some(entry)) => {
                self.begin_chunked(token, work, entry.command);
                Flow::Next
            }
            (flow, _) => flow,
        };
        match flow {
            Flow::RetryLater => self.retry_later(item, spans, false),
            Flow::Postponed => self.retry_later(item, spans, true),
            _ => self.connections[token].session.patience = LockTimeout::Short,
        }
        (flow, start)
    }

    /// Continues the command as a chunked one.
    fn begin_chunked(&mut self, token: usize, work: Work, command: &'static Command) {
        let lapses = self.lapses;
        self.connections[token].chunked.go_on(ChunkedCommand { work, command, replied: 0, lapses });
        self.run_queue.add_chunked(token);
    }

    fn follow(&mut self, token: usize, flow: Flow) {
        match flow {
            Flow::Next
            | Flow::More(_)
            | Flow::StillBlocked
            | Flow::ReplyDeferred
            | Flow::RetryLater
            | Flow::Postponed => {}
            Flow::Wait(ticket) => self.block(token, ticket),
            Flow::Forward(question) => self.forward(token, *question),
            Flow::Close => self.connections[token].close(),
            Flow::Abort => {
                self.connections[token].abort();
                self.replies.take_back(token);
            }
            Flow::Shutdown => self.shared.request_stop(),
            Flow::Replicate => self.connections[token].detach(),
        }
    }

    /// Ends a connection after the tick, or enqueues it for the next one when there is more to do.
    pub fn settle(&mut self, token: usize, now: Now) {
        let Some(connection) = self.connections.get_mut(token) else { return };
        if connection.waiting.is_waiting() && connection.socket.has_hung_up() {
            return self.close(token);
        }
        if connection.leaves() {
            return self.give_to_replication(token);
        }
        let nothing_left = !connection.input.has_waiting() && !connection.is_busy();
        if connection.socket.has_ended() && nothing_left {
            if !connection.is_closing() && log::shows(Level::Verbose) {
                let client = described(&self.shared.engine, &connection.session.info, now.unix_ms());
                log::verbose(format_args!("Client closed connection {client}"));
            }
            connection.close();
        }
        if connection.is_closed() {
            return self.close(token);
        }
        connection.note_memory(&self.shared.engine.metrics()[self.index]);
        if connection.memory.shown() > PENDING_COPY_MAX && self.end_if_input_too_long(token, now.unix_ms()) {
            return;
        }
        let Some(connection) = self.connections.get_mut(token) else { return };
        let has_work = connection.socket.is_readable() || !nothing_left;
        if connection.socket.takes_more() || has_work && connection.may_run(now.unix_ms(), self.patience) {
            self.enqueue(token);
        }
    }
}

/// Rest of the tick in which a connection's command runs apart.
pub struct Remaining<'w, 'b> {
    /// The connection.
    pub token: usize,
    /// Requests of the batch that come after it, and where their arguments lie.
    pub items: &'w mut [BatchItem<'b>],
    pub spans: &'w [Span],
    /// Input that was read and is not parsed.
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
