//! What is written down of every command: its count and time, its entry in the command log, the line that monitors get.
//!
//! The clock is read once a command, when it has ended, which is the beginning of the next: the worker sets it anew
//! before each batch. Calls of plain commands that follow each other are counted some at a time ([`Calls`]), before anything
//! that could show the counts. What a call of a command within a command (EXEC, a script) takes is part of both.
//!
//! A command that goes on in pieces or waits is counted when it ends; what was known at its beginning waits with its
//! client ([`Unfinished`]). Monitors are told of one that waits when it begins, and of all others when they end.

use crate::core::args::Args;
use crate::core::command::{ADMIN, FAST, SKIP_COMMANDLOG, SKIP_MONITOR};
use crate::core::context::{Cx, Flow, Now};
use crate::core::dispatch;
use crate::core::redact::{REDACTED, is_secret};
use crate::core::session::Session;
use crate::core::table::{Entry, Table};
use crate::pubsub::monitor;
use crate::scripting;
use engine::stats::command_log::{Logged, Reason};
use engine::stats::metrics::{CommandStats, WorkerMetrics};
use engine::{Engine, Error, Host};
use resp::Reply;
use std::sync::atomic::Ordering::Relaxed;

/// Arguments that a log entry has, and bytes of each.
const LOGGED_ARGS: usize = 32;
const LOGGED_BYTES: usize = 128;

/// What is known when a command begins.
#[derive(Clone, Copy)]
pub(crate) struct Start<'e> {
    worker: &'e WorkerMetrics,
    stats: &'e CommandStats,
    clock: u64,
    reply: usize,
    request: usize,
}

/// Of arguments that the handler may make a value of: how they will be shown.
#[derive(Debug)]
pub struct Kept {
    shown: Vec<(usize, Vec<u8>)>,
    line: Option<Vec<u8>>,
}

/// A command that has begun and not ended.
#[derive(Debug)]
pub struct Unfinished {
    entry: &'static Entry,
    /// What the clock showed when it began.
    clock: u64,
    args: Vec<Vec<u8>>,
    took: Took,
    /// What monitors will be told.
    line: Option<Vec<u8>>,
}

/// What a command took.
#[derive(Clone, Copy, Debug)]
struct Took {
    nanos: u64,
    /// Bytes of its request and of its reply.
    request: usize,
    answer: usize,
}

#[inline(always)]
pub(crate) fn begin<'e>(
    engine: &'e Engine,
    session: &mut Session,
    entry: &'static Entry,
    args: &Args<'_>,
    now: Now,
    reply: &Reply,
) -> Start<'e> {
    if args.has_own() {
        keep(engine, session, entry, args, now);
    }
    let worker = &engine.metrics()[session.worker];
    begin_counted(worker, stats(worker, entry), args, reply)
}

/// The same where it is known where the command is counted, of one whose arguments own nothing.
#[inline(always)]
pub(crate) fn begin_counted<'e>(
    worker: &'e WorkerMetrics,
    stats: &'e CommandStats,
    args: &Args<'_>,
    reply: &Reply,
) -> Start<'e> {
    Start { worker, stats, clock: worker.clock.get(), reply: reply.len(), request: args.wire_len() }
}

/// Where a worker counts a command.
#[inline(always)]
pub(crate) fn stats<'e>(worker: &'e WorkerMetrics, entry: &Entry) -> &'e CommandStats {
    worker.command(entry.id, ids)
}

#[cold]
fn keep(engine: &Engine, session: &mut Session, entry: &Entry, args: &Args<'_>, now: Now) {
    let shown = args.own_indices().map(|index| (index, shown_arg(entry, args, index))).collect();
    let line = engine.pubsub().is_monitored().then(|| monitor::line(session, entry, args, now));
    session.kept = Some(Box::new(Kept { shown, line }));
}

/// The command's handler is about to write over this argument, which is to be shown as it was given.
#[cold]
pub(crate) fn keep_given(cx: &mut Cx<'_>, args: &Args<'_>, index: usize) {
    let Some(entry) = dispatch::lookup(args) else { return };
    if cx.session.kept.is_none() {
        keep(cx.engine, cx.session, entry, args, cx.now);
    }
    if let Some(kept) = &mut cx.session.kept {
        kept.shown.push((index, shown_arg(entry, args, index)));
    }
}

#[expect(clippy::too_many_arguments, reason = "the fields of one command, borrowed apart")]
#[inline(always)]
pub(crate) fn end(
    engine: &Engine,
    session: &mut Session,
    entry: &'static Entry,
    args: &Args<'_>,
    start: Start<'_>,
    now: Now,
    flow: &Flow,
    reply: &Reply,
) {
    let clock = engine.host().nanos();
    start.worker.clock.set(clock);
    let nanos = clock.saturating_sub(start.clock);
    let took = Took { nanos, request: start.request, answer: reply.len().saturating_sub(start.reply) };
    let end = match flow {
        Flow::More(_) => End::Later,
        Flow::Wait(_) | Flow::WaitOn => End::Unknown,
        _ => End::Now,
    };
    if end == End::Now {
        count(engine, session, start.worker, start.stats, nanos);
    }
    if args.has_own() || end != End::Now || engine.wants_to_know(nanos, took.request.max(took.answer) as u64) {
        tell(engine, session, entry, args, start.clock, took, now, end);
    }
}

/// The same of one that [came to nothing more](Flow::Next) and whose arguments owned nothing; it is counted with `calls`.
#[expect(clippy::too_many_arguments, reason = "the fields of one command, borrowed apart")]
#[inline(always)]
pub(crate) fn end_next(
    engine: &Engine,
    host: &dyn Host,
    session: &mut Session,
    entry: &'static Entry,
    args: &Args<'_>,
    start: Start<'_>,
    now: Now,
    reply: &Reply,
    calls: &mut Calls,
) {
    let clock = host.nanos();
    start.worker.clock.set(clock);
    let nanos = clock.saturating_sub(start.clock);
    calls.push(engine, session, start, nanos);
    let answer = reply.len().saturating_sub(start.reply);
    if engine.wants_to_know(nanos, start.request.max(answer) as u64) {
        tell_next(engine, session, entry, args, start, now, reply);
    }
}

/// What calls of one command that follow each other took, which are counted together: a counter that each of them adds to is waited
/// for, by the next lock at the latest.
#[derive(Default)]
pub(crate) struct Calls {
    nanos: [u64; TOGETHER],
    len: usize,
}

/// Calls that are counted together, at most.
const TOGETHER: usize = 16;

impl Calls {
    #[inline(always)]
    fn push(&mut self, engine: &Engine, session: &Session, start: Start<'_>, nanos: u64) {
        self.nanos[self.len] = nanos;
        self.len += 1;
        if self.len == TOGETHER {
            self.count(engine, session, start.worker, start.stats);
        }
    }

    /// Counts them as calls of the command of `stats`.
    #[inline(never)]
    pub(crate) fn count(&mut self, engine: &Engine, session: &Session, worker: &WorkerMetrics, stats: &CommandStats) {
        let calls = &self.nanos[..self.len];
        session.info.count_commands(calls.len() as u64);
        worker.commands.add(calls.len() as u64);
        stats.count(calls, engine.tracks_latency());
        self.len = 0;
    }
}

#[cold]
fn tell_next(
    engine: &Engine,
    session: &mut Session,
    entry: &'static Entry,
    args: &Args<'_>,
    start: Start<'_>,
    now: Now,
    reply: &Reply,
) {
    let nanos = start.worker.clock.get().saturating_sub(start.clock);
    let took = Took { nanos, request: start.request, answer: reply.len().saturating_sub(start.reply) };
    tell(engine, session, entry, args, start.clock, took, now, End::Now);
}

/// When a command ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Now,
    /// It goes on in pieces.
    Later,
    /// It waits.
    Unknown,
}

/// Whoever may want to know of the command is told, or will be when it has ended.
#[expect(clippy::too_many_arguments, reason = "the fields of one command, borrowed apart")]
#[cold]
fn tell(
    engine: &Engine,
    session: &mut Session,
    entry: &'static Entry,
    args: &Args<'_>,
    clock: u64,
    took: Took,
    now: Now,
    end: End,
) {
    let mut kept = session.kept.take();
    let mut line = None;
    if engine.pubsub().is_monitored() && !entry.command.flags.has(SKIP_MONITOR.and(ADMIN)) {
        let kept = kept.as_mut().and_then(|kept| kept.line.take());
        line = Some(kept.unwrap_or_else(|| monitor::line(session, entry, args, now)));
    }
    if end != End::Later
        && let Some(line) = line.take()
    {
        engine.pubsub().feed_monitors(session.worker, &line);
    }
    if end != End::Now {
        let args = shown_args(entry, args, kept.as_deref());
        session.unfinished = Some(Box::new(Unfinished { entry, clock, args, took, line }));
    } else if is_notable(engine, &took) {
        note(engine, session, entry, took, now, || shown_args(entry, args, kept.as_deref()));
    }
}

#[inline(always)]
fn count(engine: &Engine, session: &Session, worker: &WorkerMetrics, stats: &CommandStats, nanos: u64) {
    session.info.count_commands(1);
    worker.commands.add(1);
    stats.count(&[nanos], engine.tracks_latency());
}

/// The number of commands, for tables by id.
fn ids() -> usize {
    Table::get().ids()
}

/// A command was refused before it ran.
#[cold]
pub(crate) fn count_rejected(engine: &Engine, worker: usize, entry: &Entry) {
    stats(&engine.metrics()[worker], entry).rejected.add(1);
}

/// A command that ran replied an error.
#[cold]
pub(crate) fn count_failed(engine: &Engine, worker: usize, entry: &Entry) {
    stats(&engine.metrics()[worker], entry).failed.add(1);
}

/// A command that is read from the log, or one within it, replied an error, which it did not when it was logged.
#[cold]
pub(crate) fn count_unexpected(engine: &Engine, worker: usize, read: &str, failed: &Entry, error: &Error) {
    count_failed(engine, worker, failed);
    let text = scripting::text(engine, error);
    engine.metrics()[worker].count_error(&text);
    engine.saves().loading.errors.fetch_add(1, Relaxed);
    let text = String::from_utf8_lossy(&text);
    engine.host().log(&format!(
        "== CRITICAL == This server is sending an error to its AOF-loading-client: '-{text}' after processing the command '{read}'"
    ));
}

/// One more piece of an unfinished command was done since the clock showed `clock`, and wrote `answer` bytes.
pub(crate) fn piece(engine: &Engine, session: &mut Session, clock: u64, answer: usize, now: Now, done: bool) {
    let nanos = engine.host().nanos().saturating_sub(clock);
    let Some(mut unfinished) = session.unfinished.take() else { return };
    unfinished.took.nanos += nanos;
    unfinished.took.answer += answer;
    if done {
        finish(engine, session, *unfinished, now);
    } else {
        session.unfinished = Some(unfinished);
    }
}

/// The client's blocked command has ended with this reply. The time that it waited counts as its own, but does not make
/// it slow.
pub fn unblocked(engine: &Engine, session: &mut Session, reply: &[u8], now: Now) {
    let Some(mut unfinished) = session.unfinished.take() else { return };
    unfinished.took.answer += reply.len();
    let Unfinished { entry, clock, args, took, .. } = *unfinished;
    let worker = &engine.metrics()[session.worker];
    let stats = stats(worker, entry);
    count(engine, session, worker, stats, engine.host().nanos().saturating_sub(clock));
    match reply {
        // By CLIENT UNBLOCK.
        [b'-', text @ ..] if text.starts_with(b"UNBLOCKED") => {
            worker.count_error(text);
            stats.rejected.add(1);
        }
        [b'-', ..] => stats.failed.add(1),
        _ => {}
    }
    if is_notable(engine, &took) {
        note(engine, session, entry, took, now, || args);
    }
}

fn finish(engine: &Engine, session: &Session, unfinished: Unfinished, now: Now) {
    let Unfinished { entry, args, took, line, .. } = unfinished;
    if let Some(line) = line {
        engine.pubsub().feed_monitors(session.worker, &line);
    }
    let worker = &engine.metrics()[session.worker];
    count(engine, session, worker, stats(worker, entry), took.nanos);
    if is_notable(engine, &took) {
        note(engine, session, entry, took, now, || args);
    }
}

/// Whether the command log or the latency monitor has to hear of it.
fn is_notable(engine: &Engine, took: &Took) -> bool {
    let log = engine.command_log();
    took.nanos >= engine.latency().threshold()
        || took.nanos >= log.threshold(Reason::Slow)
        || took.request as u64 >= log.threshold(Reason::LargeRequest)
        || took.answer as u64 >= log.threshold(Reason::LargeReply)
}

#[cold]
fn note(engine: &Engine, session: &Session, entry: &Entry, took: Took, now: Now, shown: impl FnOnce() -> Vec<Vec<u8>>) {
    let ended_ms = now.unix_ms() + (took.nanos / 1_000_000) as i64;
    let event = if entry.command.flags.has(FAST) { "fast-command" } else { "command" };
    engine.latency().note(event, took.nanos, ended_ms);
    if entry.command.flags.has(SKIP_COMMANDLOG) {
        return;
    }
    let log = engine.command_log();
    let logged = Logged {
        id: 0,
        at: ended_ms / 1000,
        value: 0,
        args: shown(),
        addr: session.info.addr.clone(),
        name: session.info.details().name,
    };
    let values = [
        (Reason::Slow, took.nanos, took.nanos / 1000),
        (Reason::LargeRequest, took.request as u64, took.request as u64),
        (Reason::LargeReply, took.answer as u64, took.answer as u64),
    ];
    for (reason, measured, value) in values {
        if measured >= log.threshold(reason) {
            log.push(reason, Logged { value, ..logged.clone() });
        }
    }
}

/// The arguments as the log has them.
#[cold]
fn shown_args(entry: &Entry, args: &Args<'_>, kept: Option<&Kept>) -> Vec<Vec<u8>> {
    let count = args.len();
    let whole = if count > LOGGED_ARGS { LOGGED_ARGS - 1 } else { count };
    let kept = |index| kept.and_then(|kept| kept.shown.iter().find(|(at, _)| *at == index));
    let mut shown: Vec<Vec<u8>> = (0..whole)
        .map(|index| kept(index).map_or_else(|| shown_arg(entry, args, index), |(_, text)| text.clone()))
        .collect();
    if count > whole {
        shown.push(format!("... ({} more arguments)", count - whole).into_bytes());
    }
    shown
}

fn shown_arg(entry: &Entry, args: &Args<'_>, index: usize) -> Vec<u8> {
    if is_secret(&entry.full_name, args, index) {
        return REDACTED.to_vec();
    }
    let arg = &args[index];
    let mut shown = arg[..arg.len().min(LOGGED_BYTES)].to_vec();
    if arg.len() > LOGGED_BYTES {
        shown.extend_from_slice(format!("... ({} more bytes)", arg.len() - LOGGED_BYTES).as_bytes());
    }
    shown
}
