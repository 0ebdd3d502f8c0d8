//! From arguments to effects: the path of every command.
//!
//! [`prepare`] looks the command up and hashes its keys once; a [batch](crate::batch) of prepared commands is prefetched
//! before it runs in order. [`run`] checks what must hold before any handler, locks the shards of the keys, calls the handler, puts its write into the
//! change log, unlocks, and lets the engine carry out what is left.

use crate::core::admission::{self, Request, Verdict};
use crate::core::args::Args;
use crate::core::command::Command;
use crate::core::context::{Cx, Flow, KeyArgs, Now, Piecewise};
use crate::core::key_spec::{self, key_indices};
use crate::core::session::{Replies, Session};
use crate::core::table::{Entry, KeyPlan, Table};
use crate::core::{http_guard, instrument, lazy_free};
use crate::pubsub::tracking;
use crate::scripting;
use crate::transactions::blocking::Blocking;
use crate::transactions::multi;
use engine::clients::tracking::Author;
use engine::clients::waiters;
use engine::data::key_hash::KeyHash;
use engine::host::threads::Server;
use engine::keyspace::held_locks::Held;
use engine::keyspace::keys::Keys;
use engine::keyspace::origin::{Asker, Origin};
use engine::propagation::effects::Effects;
use engine::{Engine, Error, Word};
use resp::Reply;
use std::sync::atomic::Ordering::Relaxed;

/// A command that was looked up, with the hashes of its keys.
pub struct Prepared {
    /// None when the command will be refused.
    entry: Option<&'static Entry>,
    keys: KeyArgs,
}

/// Looks the command up, checks its arity and hashes its keys.
#[inline(always)]
pub fn prepare(engine: &Engine, args: &Args<'_>) -> Prepared {
    prepare_entry(engine, accepted(args), args)
}

/// The entry of the command, unless it is refused for want of one or for the number of its arguments.
pub(crate) fn accepted(args: &Args<'_>) -> Option<&'static Entry> {
    lookup(args).filter(|entry| entry.accepts(args.len()))
}

/// Hashes the keys of a command whose entry [is known](crate::batch::command_cache).
#[inline]
pub fn prepare_entry(engine: &Engine, entry: Option<&'static Entry>, args: &Args<'_>) -> Prepared {
    match entry {
        Some(entry) if entry.plan != KeyPlan::None => match entry.only_key() {
            Some(index) => Prepared::of_one(engine, entry, index, &args[index]),
            None => Prepared { entry: Some(entry), keys: many_keys(engine, Some(entry), args) },
        },
        _ => Prepared { entry, keys: KeyArgs::new() },
    }
}

#[inline(never)]
fn many_keys(engine: &Engine, entry: Option<&'static Entry>, args: &Args<'_>) -> KeyArgs {
    match entry.map(|entry| entry.plan) {
        // Mostly it is one key.
        Some(KeyPlan::Range { first, last: -1, step }) => {
            let keys = args.from(first).enumerate().step_by(step.max(1));
            keys.map(|(at, key)| (first + at, engine.hasher().hash(key))).collect()
        }
        Some(KeyPlan::Counted(index)) => {
            let count = key_spec::counted(index, args).unwrap_or(0);
            let keys = args.from(index + 1).take(count).enumerate();
            keys.map(|(at, key)| (index + 1 + at, engine.hasher().hash(key))).collect()
        }
        _ => {
            let indices = entry.and_then(|entry| key_indices(entry, args).ok()).unwrap_or_default();
            indices.into_iter().map(|index| (index, engine.hasher().hash(&args[index]))).collect()
        }
    }
}

/// The entry that the first words name, of a subcommand where the command has some.
#[inline(always)]
pub(crate) fn lookup(args: &Args<'_>) -> Option<&'static Entry> {
    let entry = Table::get().find(&args[0])?;
    if !entry.subcommands.is_empty() && args.len() > 1 { entry.subcommand(&args[1]) } else { Some(entry) }
}

/// The entry for these arguments, or why there is none.
pub fn find(args: &Args<'_>) -> Result<&'static Entry, Error> {
    let Some(entry) = lookup(args) else {
        return Err(match Table::get().find(&args[0]) {
            Some(container) => unknown_subcommand(container, args),
            None => unknown_command(args),
        });
    };
    if !entry.accepts(args.len()) {
        return Err(Error::WrongArity(Word::of(&*entry.full_name)));
    }
    Ok(entry)
}

impl Prepared {
    /// A command with this entry and one key, the argument number `index`.
    #[inline(always)]
    pub fn of_one(engine: &Engine, entry: &'static Entry, index: usize, key: &[u8]) -> Prepared {
        Prepared { entry: Some(entry), keys: KeyArgs::from_buf([(index, engine.hasher().hash(key))]) }
    }

    /// The keys, with their places among the arguments.
    #[inline]
    pub fn keys(&self) -> &[(usize, KeyHash)] {
        &self.keys
    }

    /// For commands about an element of a collection: the key's and the element's argument, and the key's hash.
    #[inline]
    pub fn element(&self) -> Option<(usize, usize, KeyHash)> {
        match (self.entry?.command.element, &self.keys[..]) {
            (0, _) | (_, []) => None,
            (element, [(key, hash), ..]) => Some((*key, element, *hash)),
        }
    }

    /// The entry and the key of a [plain](Entry::is_plain) command.
    #[inline(always)]
    pub fn plain(&self) -> Option<(&'static Entry, &[(usize, KeyHash); 1])> {
        let entry = self.entry.filter(|entry| entry.is_plain)?;
        Some((entry, self.keys[..].try_into().ok()?))
    }

    /// Whether it owns no memory, so that nothing has to be dropped.
    #[inline]
    pub fn is_inline(&self) -> bool {
        !self.keys.spilled()
    }

    /// Whether the command may run a script.
    #[inline]
    pub fn runs_scripts(&self) -> bool {
        self.entry.is_some_and(|entry| entry.runs_scripts)
    }

    /// Whether the command can run while a script has its thread: it runs none itself, and its entry names the locks
    /// that it takes.
    pub fn runs_meanwhile(&self) -> bool {
        self.entry.is_none_or(|entry| !entry.runs_scripts && !entry.may_touch_more)
    }

    /// The entry, unless the command is refused anyway.
    pub fn entry(&self) -> Option<&'static Entry> {
        self.entry
    }
}

/// Runs a prepared command for a client.
#[inline(always)]
pub fn run<'e>(
    engine: &'e Engine,
    session: &'e mut Session,
    prepared: &'e Prepared,
    args: &mut Args<'_>,
    now: Now,
    reply: &'e mut Reply,
) -> Flow {
    let start = reply.len();
    let flow = match prepared.entry {
        Some(entry) if admission::is_open(engine, session) => {
            run_admitted(engine, session, entry, &prepared.keys, args, now, reply)
        }
        Some(entry) => {
            let request = Request::of(engine, session, entry, args);
            match admission::admit(engine, session, &request, now) {
                Verdict::Run
                    if session.multi.is_some() && multi::queue(engine, session, entry, &prepared.keys, args, reply) =>
                {
                    Flow::Next
                }
                Verdict::Run => run_admitted(engine, session, entry, &prepared.keys, args, now, reply),
                Verdict::Wait => return Flow::Postponed,
                Verdict::Refuse(error) => {
                    reject(engine, session, args, &error, reply);
                    Flow::Next
                }
            }
        }
        None if http_guard::is_one(&args[0]) => {
            http_guard::tell(engine, session, now);
            Flow::Abort
        }
        None => {
            let unknown = find(args).err().filter(|_| !admission::needs_password(engine, session));
            reject(engine, session, args, &unknown.unwrap_or(Error::NoAuth), reply);
            Flow::Next
        }
    };
    match flow {
        Flow::NotNow => retry_later(engine, session, args, reply, start),
        flow => {
            if session.replies != Replies::On && !matches!(flow, Flow::More(_) | Flow::Wait(_)) {
                mute(session, reply, start);
            }
            flow
        }
    }
}

#[inline(always)]
fn run_admitted(
    engine: &Engine,
    session: &mut Session,
    entry: &'static Entry,
    keys: &KeyArgs,
    args: &mut Args<'_>,
    now: Now,
    reply: &mut Reply,
) -> Flow {
    let flow = call(engine, session, entry, keys, args, now, reply);
    if session.caching && !matches!(flow, Flow::NotNow) {
        tracking::end_caching(session, entry);
    }
    flow
}

/// The command wants a lock that a script has for long: it is run again later, or refused once the server is busy with
/// that.
#[cold]
fn retry_later(engine: &Engine, session: &mut Session, args: &Args<'_>, reply: &mut Reply, start: usize) -> Flow {
    reply.truncate(start);
    session.kept = None;
    if !engine.scripts().is_busy() {
        return Flow::NotNow;
    }
    reject(engine, session, args, &scripting::busy(engine), reply);
    end_reply(session, reply, start);
    Flow::Next
}

/// Replies why a command does not run, and counts it where there is one of that name.
#[cold]
fn reject(engine: &Engine, session: &mut Session, args: &Args<'_>, error: &Error, reply: &mut Reply) {
    let entry = lookup(args);
    session.info.last_command.store(entry.map_or(0, |entry| entry.id + 1), Relaxed);
    if let Some(entry) = entry {
        instrument::count_rejected(engine, session.worker, entry);
    }
    let is_exec = entry.is_some_and(|entry| entry.full_name == "exec");
    let instead = multi::refused(engine, session, is_exec, error);
    refuse(engine, session, instead.as_ref().unwrap_or(error), reply);
}

/// Replies an error and counts it; false if it is none to show, because the command is to be run again.
fn refuse(engine: &Engine, session: &Session, error: &Error, reply: &mut Reply) -> bool {
    let Some(text) = error.text() else { return false };
    if !error.is_counted() {
        engine.metrics()[session.worker].count_error(&text);
    }
    reply.error(text);
    true
}

/// What was replied from `start` on ends a command that began earlier.
pub fn end_reply(session: &mut Session, reply: &mut Reply, start: usize) {
    if session.replies != Replies::On {
        mute(session, reply, start);
    }
}

/// Takes back what was replied from `start` on, if the client does not want it.
#[cold]
fn mute(session: &mut Session, reply: &mut Reply, start: usize) {
    let start = if std::mem::take(&mut session.keeps_reply) { reply.len() } else { start };
    match session.replies {
        Replies::On => {}
        Replies::Off => reply.truncate(start),
        Replies::SkipNext => session.replies = Replies::Skip,
        Replies::Skip => {
            reply.truncate(start);
            session.replies = Replies::On;
        }
    }
}

/// Runs a command and writes down what it took.
#[inline(always)]
pub(crate) fn call(
    engine: &Engine,
    session: &mut Session,
    entry: &'static Entry,
    key_args: &[(usize, KeyHash)],
    args: &mut Args<'_>,
    now: Now,
    reply: &mut Reply,
) -> Flow {
    let start = instrument::begin(engine, session, entry, args, now, reply);
    let (flow, failed) = call_command(engine, session, entry.command, key_args, args, now, reply);
    end_call(engine, session, entry, args, start, now, flow, failed, reply)
}

/// Writes down what a command took, unless it is to be run again.
#[expect(clippy::too_many_arguments, reason = "the fields of one command, borrowed apart")]
#[inline(always)]
fn end_call(
    engine: &Engine,
    session: &mut Session,
    entry: &'static Entry,
    args: &Args<'_>,
    start: instrument::Start<'_>,
    now: Now,
    flow: Flow,
    failed: bool,
    reply: &Reply,
) -> Flow {
    if matches!(flow, Flow::NotNow) {
        return flow;
    }
    if failed {
        instrument::count_failed(engine, session.worker, entry);
    }
    instrument::end(engine, session, entry, args, start, now, &flow, reply);
    flow
}

/// Runs a handler under the locks of its keys and follows up on what it did; true if it replied an error.
#[inline(always)]
pub(crate) fn call_command<'e>(
    engine: &'e Engine,
    session: &'e mut Session,
    command: &'static Command,
    key_args: &'e [(usize, KeyHash)],
    args: &mut Args<'_>,
    now: Now,
    reply: &'e mut Reply,
) -> (Flow, bool) {
    match Held::keys_with(engine, key_args.iter().map(|(_, hash)| *hash), session.patience) {
        // The locks are free for who changes what it was admitted by, and this command has done nothing.
        Some(_) if session.admitted.promises() != engine.saves().deny_reasons().promises() => (Flow::NotNow, false),
        Some(held) => call_locked(engine, session, command, held, key_args, args, now, reply),
        None => (Flow::NotNow, false),
    }
}

#[expect(clippy::too_many_arguments, reason = "the fields of one command, borrowed apart")]
#[inline(always)]
fn call_locked<'e>(
    engine: &'e Engine,
    session: &'e mut Session,
    command: &'static Command,
    held: Held<'e>,
    key_args: &'e [(usize, KeyHash)],
    args: &mut Args<'_>,
    now: Now,
    reply: &'e mut Reply,
) -> (Flow, bool) {
    let db = session.db;
    let mut keys = Keys::new(engine, held, db, session.origin(engine, now));
    keys.set_no_touch(session.no_touch);
    keys.set_patience(session.patience);
    keys.set_admitted(session.admitted);
    let mut cx =
        Cx { engine, keys, reply, session, command, now, flow: Flow::Next, blocking: Blocking::Allowed, key_args };
    let failed = run_held(engine, &mut cx, args, db);
    let flow = std::mem::take(&mut cx.flow);
    // All that it owned has been taken out.
    std::mem::forget(cx);
    (flow, failed)
}

/// Runs the handler of the context's entry under the locks of its keys, which end with it, and follows up on what it
/// did; true if it replied an error.
#[inline(always)]
pub(crate) fn run_held(engine: &Engine, cx: &mut Cx<'_>, args: &mut Args<'_>, db: u32) -> bool {
    // Under the locks: the log is not turned on or off meanwhile.
    let logs = engine.has_log();
    if logs {
        args.make_lasting();
    }
    let start = cx.reply.len();
    let failed = match (cx.command.run)(cx, args) {
        Ok(()) => false,
        Err(error) => {
            let is_told = refuse(engine, cx.session, &error, cx.reply);
            if !is_told {
                cx.flow = Flow::NotNow;
            }
            is_told
        }
    };
    if cx.session.tracker.is_some() {
        tracking::remember(cx, args, cx.key_args);
    }
    if logs && let Some(length) = engine.record(&cx.keys.effects, db, |out| args.put_to(out)) {
        cx.session.logged_at = length;
    }
    cx.keys.unlock();
    if cx.keys.effects.seen().is_some() {
        let mut effects = std::mem::take(&mut cx.keys.effects);
        lazy_free::settle(engine, cx.command, &mut effects);
        let foreground = effects.take_foreground();
        follow_up(engine, effects, cx.session, cx.now);
        if !foreground.is_empty() {
            lazy_free::before_reply(cx, foreground, start);
        }
    }
    failed
}

/// Runs a command of the past once more, to its end: it is not logged and not measured, and finds what was there at its
/// time, whatever has run out since. Whoever calls this has seen to it that nothing is logged now.
pub(crate) fn replay<'e>(
    engine: &'e Engine,
    session: &'e mut Session,
    args: &mut Args<'_>,
    now: Now,
    reply: &'e mut Reply,
) {
    let prepared = prepare(engine, args);
    let Some(entry) = prepared.entry else { return };
    if admission::admit(engine, session, &Request::replayed(entry.command), now) != Verdict::Run {
        return;
    }
    if session.multi.is_some() && multi::queue(engine, session, entry, &prepared.keys, args, reply) {
        return;
    }
    let held = Held::keys(engine, prepared.keys.iter().map(|(_, hash)| *hash));
    let origin = Origin { asker: Asker::Replay, now: now.unix_ms() };
    let keys = Keys::new(engine, held, session.db, origin);
    let (command, key_args) = (entry.command, &prepared.keys[..]);
    let (flow, blocking) = (Flow::Next, Blocking::Refused);
    let mut cx = Cx { engine, keys, reply, session, command, now, flow, blocking, key_args };
    if let Err(error) = (command.run)(&mut cx, args) {
        instrument::count_unexpected(engine, cx.session.worker, &entry.full_name, entry, &error);
        cx.reply.error(scripting::text(engine, &error));
    }
    cx.complete();
    let Cx { keys, session, .. } = cx;
    let effects = keys.release();
    if effects.seen().is_some() {
        follow_up(engine, effects, session, now);
    }
}

/// Keys that are forgotten after a command while there are too many that somebody has a copy of.
const FORGOTTEN_AT_ONCE: usize = 100;

/// What a command leaves to be done without locks: the host's part, and clients that it made an end to waiting for.
fn follow_up(engine: &Engine, mut effects: Effects, session: &Session, now: Now) {
    let worker = session.worker;
    let ready = engine.publish(&mut effects, Author { worker, client: session.info.id });
    if engine.tracking().is_over() {
        engine.trim_tracking(worker, FORGOTTEN_AT_ONCE);
    }
    if !ready.is_empty() {
        waiters::serve(engine, ready, Server { worker, now_us: now.unix_us });
    }
}

/// Does one piece of a command that goes on in pieces; true when it has ended.
pub fn step<'e>(
    engine: &'e Engine,
    session: &'e mut Session,
    command: &'static Command,
    work: &mut dyn Piecewise,
    now: Now,
    reply: &'e mut Reply,
) -> bool {
    let (start, clock) = (reply.len(), engine.host().nanos());
    let mut keys = Keys::new(engine, Held::Nothing, session.db, session.origin(engine, now));
    keys.set_patience(session.patience);
    let mut cx =
        Cx { engine, keys, reply, session, command, now, flow: Flow::Next, blocking: Blocking::Refused, key_args: &[] };
    let done = work.step(&mut cx);
    let Cx { keys, reply, session, .. } = cx;
    follow_up(engine, keys.release(), session, now);
    let answer = reply.len().saturating_sub(start);
    instrument::piece(engine, session, clock, answer, now, done);
    if done {
        end_reply(session, reply, start);
    }
    done
}

/// Runs one command for a client to its end: [`prepare`], [`run`] and as many [`step`]s as it takes. One that has to
/// wait for the end of a pause has done and replied nothing ([`Flow::Postponed`]).
pub fn execute<'e>(
    engine: &'e Engine,
    session: &'e mut Session,
    args: &mut Args<'_>,
    now: Now,
    reply: &'e mut Reply,
) -> Flow {
    let prepared = prepare(engine, args);
    let mut flow = run(engine, session, &prepared, args, now, reply);
    while matches!(flow, Flow::NotNow) {
        flow = run(engine, session, &prepared, args, now, reply);
    }
    match (flow, prepared.entry()) {
        (Flow::More(mut work), Some(entry)) => {
            while !step(engine, session, entry.command, &mut **work, now, reply) {}
            Flow::Next
        }
        (flow, _) => flow,
    }
}

/// How much of an unknown command's arguments its error repeats, in bytes.
const UNKNOWN_SHOWN: usize = 128;

fn unknown_command(args: &Args<'_>) -> Error {
    let mut text = Vec::new();
    let mut left = UNKNOWN_SHOWN;
    for arg in args.from(1) {
        if left == 0 {
            break;
        }
        let arg = engine::before_nul(arg);
        let arg = &arg[..arg.len().min(left)];
        text.push(b'\'');
        text.extend_from_slice(arg);
        text.extend_from_slice(b"' ");
        left = left.saturating_sub(arg.len() + 3);
    }
    Error::UnknownCommand(Word::of(shown(&args[0])), Word::of(text))
}

fn unknown_subcommand(entry: &Entry, args: &Args<'_>) -> Error {
    Error::UnknownSubcommand(Word::of(shown(&args[1])), Word::of(entry.command.name.to_uppercase()))
}

/// As much of a name as an error repeats.
pub(crate) fn shown(name: &[u8]) -> &[u8] {
    let name = engine::before_nul(name);
    &name[..name.len().min(UNKNOWN_SHOWN)]
}
