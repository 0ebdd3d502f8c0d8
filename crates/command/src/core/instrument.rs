//! The records of every command: its count and time, its entry in the command log, the line that monitors get, the
//! figures of HOTKEYS and CLUSTER SLOT-STATS.
//!
//! The clock is read once a command, when it has ended, which is the beginning of the next: the worker sets it anew
//! before each batch. The time of a command within a command (EXEC, a script) is part of both.
//!
//! A command that is chunked or waits is counted when it ends; the data of its beginning wait with its client
//! ([`Unfinished`]). Monitors see a command that waits when it begins, and all others when they end.

use crate::core::args::Args;
use crate::core::busy_script;
use crate::core::command::{ADMIN, CommandEntry, FAST, SKIP_COMMANDLOG, SKIP_MONITOR};
use crate::core::command_table::{CommandTable, lookup};
use crate::core::context::{Context, Flow, Now};
use crate::core::key_spec::keys_and_flags;
use crate::core::redact::{monitor_line, shown_arg, shown_args};
use crate::core::session::{LoggedArgs, Session, Took, Unfinished};
use crate::core::slot_use;
use engine::config::Directive;
use engine::keyspace::caller::Caller;
use engine::stats::command_log::{LogReason, LoggedCommand};
use engine::stats::metrics::{CommandStats, WorkerMetrics};
use engine::time::{Nanos, UnixMs};
use engine::{Engine, Error};
use resp::Reply;
use std::sync::atomic::Ordering::Relaxed;

/// Data of a command's beginning.
#[derive(Clone, Copy)]
pub struct Start<'e> {
    worker: &'e WorkerMetrics,
    stats: &'e CommandStats,
    clock: Nanos,
    reply: usize,
    request: usize,
    is_within: bool,
}

/// Begins the measurement of a command: its statistics, its line for monitors, its entry in the logs of slow
/// commands.
#[inline(always)]
pub fn begin<'e>(
    engine: &'e Engine,
    session: &mut Session,
    entry: &'static CommandEntry,
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

/// Begins a command whose counters are known and whose arguments own nothing.
#[inline(always)]
pub fn begin_counted<'e>(
    worker: &'e WorkerMetrics,
    stats: &'e CommandStats,
    args: &Args<'_>,
    reply: &Reply,
) -> Start<'e> {
    Start { worker, stats, clock: worker.clock(), reply: reply.wire_len(), request: args.wire_len(), is_within: false }
}

impl Start<'_> {
    /// Marks a command within another one.
    pub fn within(self) -> Self {
        Start { is_within: true, ..self }
    }
}

/// Returns a worker's counters of a command.
#[inline(always)]
pub fn stats<'e>(worker: &'e WorkerMetrics, entry: &CommandEntry) -> &'e CommandStats {
    worker.command(entry.id, ids)
}

#[cold]
fn keep(engine: &Engine, session: &mut Session, entry: &CommandEntry, args: &Args<'_>, now: Now) {
    let shown = args.own_indices().map(|index| (index, shown_arg(entry, args, index))).collect();
    let line = engine.pubsub().is_monitored().then(|| monitor_line(session, entry, args, now));
    session.kept = Some(Box::new(LoggedArgs { shown, line }));
}

/// Records an argument that the command's handler is about to overwrite, as it is to be shown.
#[cold]
pub fn keep_given(cx: &mut Context<'_>, args: &Args<'_>, index: usize) {
    let Some(entry) = lookup(args) else { return };
    if cx.session.kept.is_none() {
        keep(cx.engine, cx.session, entry, args, cx.now);
    }
    if let Some(kept) = &mut cx.session.kept {
        kept.shown.push((index, shown_arg(entry, args, index)));
    }
}

/// Records a command that has returned from its handler, and that is not to be run again.
#[expect(clippy::too_many_arguments, reason = "the fields of one command, borrowed apart")]
#[inline(always)]
pub fn end(
    engine: &Engine,
    session: &mut Session,
    entry: &'static CommandEntry,
    args: &Args<'_>,
    start: Start<'_>,
    now: Now,
    flow: &Flow,
    reply: &Reply,
) {
    let clock = engine.host().nanos();
    start.worker.set_clock(clock);
    let nanos = clock.since(start.clock);
    let end = match flow {
        Flow::More(_) => End::Later,
        Flow::Wait(_) | Flow::StillBlocked => End::Unknown,
        _ => End::Now,
    };
    if end == End::Now {
        count(engine, session, start.worker, start.stats, nanos);
    }
    let answer = reply.wire_len().saturating_sub(start.reply);
    if (session.kept.is_some() || end != End::Now || engine.wants_to_know(nanos, start.request.max(answer) as u64))
        && (end != End::Now || !is_passed_over(engine, session, entry, nanos, start.request, answer))
    {
        tell(engine, session, entry, args, start, now, reply, end);
    }
}

/// Returns whether only HOTKEYS wants the command, and samples another one: most are skipped if it samples some only.
#[inline(never)]
fn is_passed_over(
    engine: &Engine,
    session: &Session,
    entry: &CommandEntry,
    nanos: u64,
    request: usize,
    answer: usize,
) -> bool {
    session.kept.is_none()
        && engine.only_hot_keys_want(nanos, request.max(answer) as u64)
        // A call of a script is recorded as the script's own.
        && (session.in_script
            || (entry.names_its_keys()
                && engine.hot_keys().passes_over(session.worker, nanos, (request + answer) as u64)))
}

/// The time when a command ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Now,
    /// At the end of its last chunk.
    Later,
    /// At an unknown time: the command waits.
    Unknown,
}

/// Reports the command to the command log, the latency monitor and MONITOR, now or when it has ended.
#[expect(clippy::too_many_arguments, reason = "the fields of one command, borrowed apart")]
#[cold]
fn tell(
    engine: &Engine,
    session: &mut Session,
    entry: &'static CommandEntry,
    args: &Args<'_>,
    start: Start<'_>,
    now: Now,
    reply: &Reply,
    end: End,
) {
    let nanos = start.worker.clock().since(start.clock);
    let took = Took { nanos, request: start.request, answer: reply.wire_len().saturating_sub(start.reply) };
    let mut kept = session.kept.take();
    let mut line = None;
    if engine.pubsub().is_monitored() && !entry.command.flags.has(SKIP_MONITOR.and(ADMIN)) {
        let kept = kept.as_mut().and_then(|kept| kept.line.take());
        line = Some(kept.unwrap_or_else(|| monitor_line(session, entry, args, now)));
    }
    if end != End::Later
        && let Some(line) = line.take()
    {
        engine.pubsub().feed_monitors(session.worker, &line);
    }
    let hot_keys = keys_of_call(engine, session, entry, args);
    let slot = match start.is_within {
        true => {
            slot_use::join(engine, session, entry, args);
            None
        }
        false => slot_use::of_call(engine, session, entry, args),
    };
    if end != End::Now {
        let args = shown_args(entry, args, kept.as_deref());
        let (clock, identity) = (start.clock, session.identity.clone());
        session.unfinished = Some(Box::new(Unfinished { entry, clock, args, took, line, hot_keys, slot, identity }));
        return;
    }
    note_hot_keys(engine, session, &took, &hot_keys);
    slot_use::count(engine, session.worker, slot, nanos, &took);
    if is_notable(engine, &took) {
        note(engine, session, entry, took, now, || shown_args(entry, args, kept.as_deref()));
    }
}

/// Returns the command's keys, if HOTKEYS wants them. A script's calls are counted by themselves.
fn keys_of_call(engine: &Engine, session: &Session, entry: &CommandEntry, args: &Args<'_>) -> Vec<Vec<u8>> {
    if !engine.hot_keys().is_on() || session.in_script {
        return Vec::new();
    }
    // An argument that the handler may have made a value of is too long for a name anyway.
    let is_there = |index: &usize| !args.own_indices().any(|own| own == *index);
    let keys = keys_and_flags(entry.command, args).unwrap_or_default();
    keys.iter().map(|(index, _)| *index).filter(is_there).filter_map(|index| Some(args.get(index)?.to_vec())).collect()
}

fn note_hot_keys(engine: &Engine, session: &Session, took: &Took, keys: &[Vec<u8>]) {
    if !keys.is_empty() && engine.hot_keys().is_on() {
        let keys = keys.iter().map(Vec::as_slice);
        engine.hot_keys().note(session.worker, took.nanos, (took.request + took.answer) as u64, keys);
    }
}

#[inline(always)]
fn count(engine: &Engine, session: &Session, worker: &WorkerMetrics, stats: &CommandStats, nanos: u64) {
    session.info.count_command();
    worker.commands.add(1);
    stats.count(nanos, engine.tracks_latency());
}

/// Returns the number of commands, for tables by id.
fn ids() -> usize {
    CommandTable::get().ids()
}

/// Counts a command that was refused before it ran.
#[cold]
pub fn count_rejected(engine: &Engine, worker: usize, entry: &CommandEntry) {
    stats(&engine.metrics()[worker], entry).rejected.add(1);
}

/// Counts a command that ran and replied an error.
#[cold]
pub fn count_failed(engine: &Engine, worker: usize, entry: &CommandEntry) {
    stats(&engine.metrics()[worker], entry).failed.add(1);
}

/// Counts an error of a command that is read from the log, or of one within it, which it did not reply when it was
/// logged.
#[cold]
pub fn count_unexpected(engine: &Engine, worker: usize, read: &str, failed: &CommandEntry, error: &Error) {
    count_failed(engine, worker, failed);
    let text = busy_script::text(engine, error);
    engine.metrics()[worker].count_error(&text);
    tell_unexpected(engine, Caller::Replay, read, &text);
}

/// Bytes of an error that the log shows.
const SHOWN: usize = 4096;

/// Handles an error to another server that this one obeys.
#[cold]
pub fn note_unexpected(engine: &Engine, session: &Session, name: &str, error: &[u8]) {
    if matches!(session.caller, Caller::Primary | Caller::Migration) {
        session.info.migration.has_failed.store(true, Relaxed);
        tell_unexpected(engine, session.caller, name, error);
    }
}

/// Handles an error of the command called `name`, which was accepted once, by the log's writer or by the primary: the
/// data may differ from the original. `propagation-error-behavior` may end the server.
#[cold]
pub fn tell_unexpected(engine: &Engine, caller: Caller, name: &str, error: &[u8]) {
    let config = engine.config().snapshot();
    let behavior = config.choice(Directive::PROPAGATION_ERROR_BEHAVIOR);
    let (who, whom, is_fatal) = match caller {
        Caller::Migration => ("slot-import-target", "slot-import-source", false),
        Caller::Primary => ("replica", "primary", behavior != "ignore" && config.flag(Directive::REPLICA_READ_ONLY)),
        _ => ("server", "AOF-loading-client", behavior == "panic"),
    };
    engine.persistence_status().loading.errors.fetch_add(1, Relaxed);
    let text = String::from_utf8_lossy(&error[..error.len().min(SHOWN)]);
    engine.host().log(&format!(
        "== CRITICAL == This {who} is sending an error to its {whom}: '-{text}' after processing the command '{name}'"
    ));
    assert!(!is_fatal, "This {who} panicked sending an error to its {whom} after processing the command '{name}'");
}

/// Records one more piece of an unfinished command, done since the clock showed `clock`, which wrote `answer` bytes.
pub fn piece(engine: &Engine, session: &mut Session, clock: Nanos, answer: usize, now: Now, done: bool) {
    let nanos = engine.host().nanos().since(clock);
    let Some(mut unfinished) = session.unfinished.take() else { return };
    unfinished.took.nanos += nanos;
    unfinished.took.answer += answer;
    if done {
        finish(engine, session, *unfinished, now);
    } else {
        session.unfinished = Some(unfinished);
    }
}

/// Records that the client's blocked command has ended with this reply. The time that it waited counts as its own, but
/// does not make it slow.
pub fn unblocked(engine: &Engine, session: &mut Session, reply: &[u8], now: Now) {
    let Some(mut unfinished) = session.unfinished.take() else { return };
    unfinished.took.answer += reply.len();
    let Unfinished { entry, clock, args, took, hot_keys, slot, .. } = *unfinished;
    note_hot_keys(engine, session, &took, &hot_keys);
    let worker = &engine.metrics()[session.worker];
    let stats = stats(worker, entry);
    if reply.starts_with(b"-NOPERM") {
        // The command has not run: its user may not run it any more.
        return stats.rejected.add(1);
    }
    let nanos = engine.host().nanos().since(clock);
    count(engine, session, worker, stats, nanos);
    slot_use::count(engine, session.worker, slot, nanos, &took);
    match reply {
        // The client was unblocked by CLIENT UNBLOCK.
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
    let Unfinished { entry, args, took, line, hot_keys, slot, .. } = unfinished;
    note_hot_keys(engine, session, &took, &hot_keys);
    slot_use::count(engine, session.worker, slot, took.nanos, &took);
    if let Some(line) = line {
        engine.pubsub().feed_monitors(session.worker, &line);
    }
    let worker = &engine.metrics()[session.worker];
    count(engine, session, worker, stats(worker, entry), took.nanos);
    if is_notable(engine, &took) {
        note(engine, session, entry, took, now, || args);
    }
}

/// Returns whether the command is to be recorded in the command log or the latency monitor.
fn is_notable(engine: &Engine, took: &Took) -> bool {
    let log = engine.command_log();
    took.nanos >= engine.latency().threshold()
        || took.nanos >= log.threshold(LogReason::Slow)
        || took.request as u64 >= log.threshold(LogReason::LargeRequest)
        || took.answer as u64 >= log.threshold(LogReason::LargeReply)
}

#[cold]
fn note(
    engine: &Engine,
    session: &Session,
    entry: &CommandEntry,
    took: Took,
    now: Now,
    shown: impl FnOnce() -> Vec<Vec<u8>>,
) {
    let ended_ms = now.unix_ms().0 + (took.nanos / 1_000_000) as i64;
    let event = if entry.command.flags.has(FAST) { "fast-command" } else { "command" };
    engine.latency().note(event, took.nanos, UnixMs(ended_ms));
    if entry.command.flags.has(SKIP_COMMANDLOG) {
        return;
    }
    let log = engine.command_log();
    let logged = LoggedCommand {
        id: 0,
        at: ended_ms / 1000,
        value: 0,
        args: shown(),
        addr: session.info.addr.clone(),
        name: session.info.details().name,
    };
    let values = [
        (LogReason::Slow, took.nanos, took.nanos / 1000),
        (LogReason::LargeRequest, took.request as u64, took.request as u64),
        (LogReason::LargeReply, took.answer as u64, took.answer as u64),
    ];
    for (reason, measured, value) in values {
        if measured >= log.threshold(reason) {
            log.push(reason, LoggedCommand { value, ..logged.clone() });
        }
    }
}
