//! One tick of a worker: read, parse, prefetch, run, write.

use crate::connection::state::{Connection, Job, Wire};
use crate::event_loop::batch::{self, Filled, Filler, Item, What};
use crate::event_loop::fairness::{LIGHT_BYTES, VISIT_BYTES};
use crate::event_loop::quiet::Quiet;
use crate::event_loop::replies::{REPLY_HIGH, REPLY_LOW};
use crate::event_loop::worker::Worker;
use crate::system::log::{self, Level};
use commands::core::context::Flow;
use commands::core::dispatch::{self, Prepared};
use commands::core::table::Entry;
use commands::server::client_list::described;
use commands::{Args, Now, OwnWords};
use engine::Engine;
use engine::config::{Directive, os_message};
use engine::host::threads::Server;
use engine::keyspace::held_locks::LockTimeout;
use resp::{ProtocolError, Reply, Span};
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
        let waiting = connection.unparsed || !connection.queued.is_empty() || connection.violation.is_some();
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

    /// Runs everything that was read, window by window.
    pub fn process(&mut self, arena: &[u8], inputs: &mut Vec<Input>, now: Now) {
        if inputs.is_empty() {
            return;
        }
        let place = Place { input: 0, offset: 0, since: self.shared.engine.host().nanos() };
        self.run_windows(Unparsed { arena, inputs, place }, None, now);
        for input in inputs.drain(..) {
            if let (Bytes::Own(own), Some(kept)) = (input.bytes, input.kept.take())
                && let Some(connection) = self.connections.get_mut(input.token)
            {
                connection.keep_own_input(own, kept);
            }
        }
    }

    /// Runs what has not been parsed yet, window by window; but for that of `left_out`, which waits.
    pub fn run_windows(&mut self, mut unparsed: Unparsed<'_>, left_out: Option<usize>, now: Now) {
        let mut window = batch::renewed(std::mem::take(&mut self.window));
        let mut spans = std::mem::take(&mut self.spans);
        loop {
            spans.clear();
            let owns = self.fill_window(&mut unparsed, left_out, &mut window, &mut spans, now);
            if window.is_empty() {
                break;
            }
            let engine = &*self.shared.engine;
            self.windows = self.windows.wrapping_add(1);
            self.look_ahead.begin(engine, &window, &spans, self.windows);
            engine.metrics()[self.index].clock.set(engine.host().nanos());
            let mut left = &mut window[..];
            while !left.is_empty() {
                let done = self.run_some(left, &spans, &unparsed, now);
                left = &mut left[done..];
            }
            batch::clear(&mut window, owns);
            let is_limited = self.shared.engine.saves().deny_reasons().is_limited();
            if self.reply.len() >= if is_limited { REPLY_LOW } else { REPLY_HIGH } {
                self.write_replies(now);
            }
        }
        self.spans = spans;
        self.window = batch::renewed(window);
    }

    /// Fills the window; true if some item may own memory.
    fn fill_window<'b>(
        &mut self,
        unparsed: &mut Unparsed<'b>,
        left_out: Option<usize>,
        window: &mut Vec<Item<'b>>,
        spans: &mut Vec<Span>,
        now: Now,
    ) -> bool {
        let Unparsed { arena, inputs, place } = unparsed;
        let mut owns = false;
        while let Some(input) = inputs.get(place.input) {
            let bytes = match &input.bytes {
                Bytes::Arena(range) => &arena[range.clone()],
                Bytes::Own(bytes) => &bytes[..],
            };
            let is_for_now = !input.is_done.get() && left_out != Some(input.token);
            if is_for_now && let Some(connection) = self.connections.get_mut(input.token) {
                let limits = self.settings.limits(connection.session.authenticated);
                let (engine, token, now, patience) = (&*self.shared.engine, input.token, now.unix_ms(), self.patience);
                let clock = engine.metrics()[self.index].clock.get();
                let kept = matches!(input.bytes, Bytes::Own(_)).then_some(&input.kept);
                let visit = clock.saturating_sub(place.since);
                let over_budget = connection.has_enough
                    || (visit > self.visit_max || self.reply.len() > self.visit_replies)
                        && (visit > LIMITED_VISIT_MAX || !self.settings.clients.is_hard(connection));
                let (command_cache, owned) = (&mut self.command_cache, &mut owns);
                let (window, spans) = (&mut *window, &mut *spans);
                let mut filler = Filler {
                    engine,
                    token,
                    limits,
                    now,
                    patience,
                    over_budget,
                    kept,
                    command_cache,
                    owned,
                    window,
                    spans,
                };
                if filler.fill(connection, bytes, &mut place.offset) == Filled::Window {
                    return owns;
                }
            }
            input.is_done.set(input.is_done.get() || is_for_now);
            let since = self.shared.engine.metrics()[self.index].clock.get();
            *place = Place { input: place.input + 1, offset: 0, since };
        }
        owns
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
        let mut start = self.reply.len();
        self.reply.set_protocol(connection.protocol);
        let engine = &*self.shared.engine;
        let mut done = 0;
        let (mut last, mut has_begun) = (Flow::Next, false);
        let mut apart = false;
        let mut steady = connection.is_steady();
        while items.get(done).is_some_and(|item| item.token == token) {
            if steady && !self.is_lent {
                let reply_max = start + VISIT_REPLY_MAX;
                let look_ahead = &mut self.look_ahead;
                let quiet = Quiet { worker: self.index, is_limited, reply_max, look_ahead };
                let (session, reply) = (&mut connection.session, &mut self.reply);
                let (ran, flow) = quiet.run(engine, session, &items[done..], spans, now, reply);
                done += ran;
                match flow {
                    Flow::Next => {}
                    Flow::NotNow => items[done - 1].retry_later(&flow, connection, spans, &mut self.delayed),
                    flow => {
                        last = as_job(connection, items[done - 1].entry(), flow);
                        has_begun = connection.job.is_some();
                        break;
                    }
                }
                steady = false;
                continue;
            }
            self.look_ahead.at(engine, &items[done..], spans);
            let item = &mut items[done];
            let runs_scripts = item.runs_scripts();
            if done > 0 && (runs_scripts || is_limited || engine.pubsub().has_own(self.index) && !item.publishes()) {
                break;
            }
            done += 1;
            if connection.closing || item.is_done() {
                continue;
            }
            let replied = self.reply.len() - start;
            connection.has_enough |= replied > VISIT_REPLY_MAX
                && (replied > LIMITED_REPLY_MAX || !self.settings.clients.is_hard(connection));
            if connection.has_enough || connection.is_busy() {
                item.put_back(connection, spans);
                steady = false;
                continue;
            }
            let must_not_add = engine.saves().deny_reasons().is_congested() && item.may_push(engine);
            if must_not_add || self.is_lent && !item.runs_meanwhile() {
                item.delay(connection, spans, &mut self.delayed);
                continue;
            }
            if runs_scripts {
                apart = true;
                break;
            }
            let flow = run_item(engine, connection, item, spans, now, &mut self.reply);
            if matches!(flow, Flow::NotNow | Flow::Postponed) {
                item.retry_later(&flow, connection, spans, &mut self.delayed);
                continue;
            }
            connection.session.patience = LockTimeout::Short;
            // What a client publishes goes out together, unless it is told things itself.
            let must_deliver =
                engine.pubsub().has_own(self.index) && (connection.session.is_told() || !item.publishes());
            if !matches!(flow, Flow::Next) || connection.job.is_some() || must_deliver {
                last = flow;
                has_begun = connection.job.is_some();
                break;
            }
            steady = connection.is_steady();
        }
        connection.protocol = self.reply.protocol();
        if apart {
            let [item, others @ ..] = items else { return done };
            let rest = Rest { token, items: others, spans, unparsed: *unparsed };
            (last, start) = self.run_item_apart(item, rest, now);
            let connection = &mut self.connections[token];
            match last {
                Flow::NotNow | Flow::Postponed => item.retry_later(&last, connection, spans, &mut self.delayed),
                _ => connection.session.patience = LockTimeout::Short,
            }
        }
        if has_begun {
            self.jobs.push(token);
        }
        self.note_reply(token, start);
        self.deliver_own();
        self.follow(token, last);
        done
    }

    /// Runs an item that [runs scripts](Item::runs_scripts). Returns where its reply begins.
    fn run_item_apart(&mut self, item: &mut Item<'_>, rest: Rest<'_, '_>, now: Now) -> (Flow, usize) {
        match &mut item.what {
            What::Command { spans: range, own, prepared } => {
                let mut args = Args::request(item.bytes, &rest.spans[range.clone()], std::mem::take(own));
                let ran = self.run_apart(prepared, &mut args, rest, now);
                *own = args.into_own();
                ran
            }
            What::Queued { args, prepared } => self.run_apart(prepared, args, rest, now),
            _ => (Flow::Next, self.reply.len()),
        }
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
        let nothing_left = !connection.unparsed && connection.queued.is_empty() && !connection.is_busy();
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
    if let Wire::Resp(parser) = &mut connection.wire
        && let Some(large) = parser.large_mut()
    {
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
        let len = parser.large_len();
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

/// Inputs of a tick, and where the filling of windows stands in them.
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

/// Where the filling of windows stands in the inputs.
#[derive(Clone, Copy)]
struct Place {
    input: usize,
    offset: usize,
    /// What the worker's clock showed when this input's turn came.
    since: u64,
}

/// Runs one item. A command that goes on in pieces becomes the connection's job.
#[inline(always)]
fn run_item(
    engine: &Engine,
    connection: &mut Connection,
    item: &mut Item<'_>,
    spans: &[Span],
    now: Now,
    reply: &mut Reply,
) -> Flow {
    match &mut item.what {
        What::Command { spans: range, own, prepared } => {
            let mut args = Args::request(item.bytes, &spans[range.clone()], std::mem::take(own));
            let flow = run_command(engine, connection, prepared, &mut args, now, reply);
            if matches!(flow, Flow::NotNow | Flow::Postponed) {
                *own = args.into_own();
            }
            flow
        }
        What::Queued { args, prepared } => run_command(engine, connection, prepared, args, now, reply),
        What::BookQueued { args } => run_book(engine, connection, args, now, reply),
        What::Violation(error) => {
            log_violation(engine, connection, error, item.bytes, now);
            engine.metrics()[connection.session.worker].count_error(b"ERR Protocol error");
            reply.protocol_error(error);
            Flow::Close
        }
        What::Book { spans: range } => {
            let mut args = Args::parsed(item.bytes, &spans[range.clone()], OwnWords::default());
            run_book(engine, connection, &mut args, now, reply)
        }
        What::BookViolation => Flow::Close,
        What::Done => Flow::Next,
    }
}

fn run_book(engine: &Engine, connection: &mut Connection, args: &mut Args<'_>, now: Now, reply: &mut Reply) -> Flow {
    let flow = commands::book::run(engine, &mut connection.session, args, now, reply);
    if !matches!(flow, Flow::NotNow | Flow::Postponed) {
        engine.metrics()[connection.session.worker].commands.add(1);
    }
    flow
}

#[inline(always)]
fn run_command(
    engine: &Engine,
    connection: &mut Connection,
    prepared: &Prepared,
    args: &mut Args<'_>,
    now: Now,
    reply: &mut Reply,
) -> Flow {
    if let Some(entry) = prepared.entry() {
        connection.session.info.last_command.store(entry.id + 1, Relaxed);
    }
    let flow = dispatch::run(engine, &mut connection.session, prepared, args, now, reply);
    if let Flow::Next = flow { flow } else { as_job(connection, prepared.entry(), flow) }
}

/// What goes on in pieces is the connection's job from now on.
#[cold]
fn as_job(connection: &mut Connection, entry: Option<&'static Entry>, flow: Flow) -> Flow {
    match (flow, entry) {
        (Flow::More(work), Some(entry)) => {
            connection.job = Some(Job { work, command: entry.command, replied: 0, throttled: false });
            Flow::Next
        }
        (flow, _) => flow,
    }
}
