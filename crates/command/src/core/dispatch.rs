//! From arguments to effects: the path of every command.
//!
//! [`prepare`] looks the command up and hashes its keys once; a [batch](crate::batch) of prepared commands is
//! prefetched before it runs in order. [`run`] makes the checks before any handler, locks the shards of the keys, calls
//! the handler, puts its write into the change log, unlocks, and lets the engine carry out the remaining effects.

use crate::core::admission::{self, AdmissionRequest, Verdict};
use crate::core::args::Args;
use crate::core::cluster_proxy::{self, Behind};
use crate::core::cluster_routing;
use crate::core::command::{Command, CommandEntry, Group, KeyPlan, READONLY, RUNS_QUEUED, WRITE};
use crate::core::command_table::{accepted, find, lookup};
use crate::core::context::{Blocking, Context, Flow, KeyArgs, Now, Resumable};
use crate::core::key_spec::{self, key_indices};
use crate::core::redact::monitor_line;
use crate::core::session::{Replies, Session};
use crate::core::{acl_check, busy_script, client_line, http_guard, instrument, lazy_free, queued, tracked_reads};
use cluster::proxy::Follower;
use engine::data::key_hash::KeyHash;
use engine::host::threads::Server;
use engine::keyspace::caller::{Caller, ExecContext};
use engine::keyspace::held_locks::HeldLocks;
use engine::keyspace::keys::Keys;
use engine::propagation::effects::{Author, Effects};
use engine::{Engine, Error};
use resp::Reply;
use std::sync::atomic::Ordering::Relaxed;

/// A command that was looked up, with the hashes of its keys.
pub struct Prepared {
    /// The entry; None when the command will be refused.
    entry: Option<&'static CommandEntry>,
    keys: KeyArgs,
}

/// Looks the command up, checks its arity and hashes its keys.
#[inline(always)]
pub fn prepare(engine: &Engine, args: &Args<'_>) -> Prepared {
    prepare_entry(engine, accepted(args), args)
}

/// Hashes the keys of a command whose entry [is known](crate::batch::command_cache).
#[inline]
pub fn prepare_entry(engine: &Engine, entry: Option<&'static CommandEntry>, args: &Args<'_>) -> Prepared {
    match entry {
        Some(entry) if entry.plan != KeyPlan::None => match entry.only_key() {
            Some(index) => Prepared::of_one(engine, entry, index, &args[index]),
            None => Prepared { entry: Some(entry), keys: many_keys(engine, Some(entry), args) },
        },
        _ => Prepared { entry, keys: KeyArgs::new() },
    }
}

#[inline(never)]
fn many_keys(engine: &Engine, entry: Option<&'static CommandEntry>, args: &Args<'_>) -> KeyArgs {
    match entry.map(|entry| entry.plan) {
        // Most commands have one key.
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

impl Prepared {
    /// Prepares a command with this entry and one key, the argument number `index`.
    #[inline(always)]
    pub fn of_one(engine: &Engine, entry: &'static CommandEntry, index: usize, key: &[u8]) -> Prepared {
        Prepared { entry: Some(entry), keys: KeyArgs::from_buf([(index, engine.hasher().hash(key))]) }
    }

    /// Returns the keys, with their places among the arguments.
    #[inline]
    pub fn keys(&self) -> &[(usize, KeyHash)] {
        &self.keys
    }

    /// Returns the key's and the element's argument, and the key's hash, of a command about an element of a collection.
    #[inline]
    pub fn element(&self) -> Option<(usize, usize, KeyHash)> {
        match (self.entry?.command.element, &self.keys[..]) {
            (0, _) | (_, []) => None,
            (element, [(key, hash), ..]) => Some((*key, element, *hash)),
        }
    }

    /// Returns the entry and the key of a [plain](CommandEntry::is_plain) command.
    #[inline(always)]
    pub fn plain(&self) -> Option<(&'static CommandEntry, &[(usize, KeyHash); 1])> {
        let entry = self.entry.filter(|entry| entry.is_plain)?;
        Some((entry, self.keys[..].try_into().ok()?))
    }

    /// Returns whether it owns no memory, so that nothing has to be dropped.
    #[inline]
    pub fn is_inline(&self) -> bool {
        !self.keys.spilled()
    }

    /// Returns whether the command may run a script.
    #[inline]
    pub fn runs_scripts(&self) -> bool {
        self.entry.is_some_and(CommandEntry::runs_scripts)
    }

    /// Returns whether the command can run while another one has its thread: it runs no script itself, and its entry
    /// names the locks that it takes.
    pub fn runs_meanwhile(&self) -> bool {
        let names_locks = |entry: &CommandEntry| entry.command.takes_no_lock || !entry.may_touch_more;
        self.entry.is_none_or(|entry| !entry.runs_scripts() && names_locks(entry))
    }

    /// Returns the entry, unless the command is refused anyway.
    pub fn entry(&self) -> Option<&'static CommandEntry> {
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
        Some(entry) if admission::is_open(engine, session, entry, &prepared.keys) => {
            run_admitted(engine, session, entry, &prepared.keys, args, now, reply)
        }
        Some(entry) => {
            if let Some(question) = cluster_proxy::question_of_plain(engine, session, (entry, &prepared.keys), args) {
                session.info.last_command.store(entry.id + 1, Relaxed);
                return Flow::Forward(question);
            }
            let request = AdmissionRequest::of(engine, session, entry, args);
            match admission::admit(engine, session, &request, now) {
                Verdict::Run
                    if session.multi.is_some()
                        && queued::queue(engine, session, entry, &prepared.keys, args, reply) =>
                {
                    Flow::Next
                }
                Verdict::Run => run_admitted(engine, session, entry, &prepared.keys, args, now, reply),
                Verdict::Wait => return Flow::Postponed,
                Verdict::End => Flow::Close,
                Verdict::Forward(question) => Flow::Forward(question),
                Verdict::Refuse(error) => {
                    reject(engine, session, args, &error, now, reply);
                    Flow::Next
                }
            }
        }
        None if http_guard::is_one(&args[0]) => {
            http_guard::tell(engine, session, now);
            Flow::Abort
        }
        None if session.info.has_ended() => Flow::Close,
        None => {
            let unknown = find(args).err().filter(|_| !admission::needs_password(engine, session));
            reject(engine, session, args, &unknown.unwrap_or(Error::NoAuth), now, reply);
            Flow::Next
        }
    };
    match flow {
        Flow::RetryLater => retry_later(engine, session, args, now, reply, start),
        flow => {
            if session.asking {
                end_asking(session, prepared);
            }
            if session.replies != Replies::On && !matches!(flow, Flow::More(_) | Flow::Wait(_) | Flow::Forward(_)) {
                mute(session, reply, start);
            }
            flow
        }
    }
}

/// Forwards a command to another node behind others of its client, whose replies are on their way. `ask`: whether it
/// could be asked. False: it has to wait for them.
pub fn forward_behind(
    engine: &Engine,
    session: &mut Session,
    behind: &mut Behind,
    prepared: &Prepared,
    args: &Args<'_>,
    ask: impl FnOnce(&Follower<'_>) -> bool,
) -> bool {
    let Some(entry) = prepared.entry.filter(|entry| entry.is_plain) else { return false };
    let [(_, key)] = prepared.keys[..] else { return false };
    let Some(follower) = behind.follower(engine, session, (entry, key), args) else { return false };
    let is_asked = ask(&follower);
    if is_asked {
        session.info.last_command.store(entry.id + 1, Relaxed);
    }
    is_asked
}

#[inline(always)]
fn run_admitted(
    engine: &Engine,
    session: &mut Session,
    entry: &'static CommandEntry,
    keys: &KeyArgs,
    args: &mut Args<'_>,
    now: Now,
    reply: &mut Reply,
) -> Flow {
    let flow = call(engine, session, entry, keys, args, now, reply);
    if session.caching && !matches!(flow, Flow::RetryLater) {
        tracked_reads::end_caching(session, entry);
    }
    flow
}

/// Ends ASKING, which counts for one command, or for a transaction.
#[cold]
fn end_asking(session: &mut Session, prepared: &Prepared) {
    let is_said = prepared.entry.is_some_and(|entry| entry.command.name == "asking");
    session.asking = is_said || session.multi.is_some();
}

/// Handles a command that needs a lock which a script holds for long: it is run again later, or refused once the server
/// is busy with the script.
#[cold]
fn retry_later(
    engine: &Engine,
    session: &mut Session,
    args: &Args<'_>,
    now: Now,
    reply: &mut Reply,
    start: usize,
) -> Flow {
    reply.truncate(start);
    session.kept = None;
    if !session.is_refused_as_busy(engine) {
        return Flow::RetryLater;
    }
    reject(engine, session, args, &busy_script::busy(engine), now, reply);
    end_reply(session, reply, start);
    Flow::Next
}

/// Replies the reason that a command does not run, and counts it if there is one of that name. Monitors see the end of
/// queued commands even so.
#[cold]
fn reject(engine: &Engine, session: &mut Session, args: &Args<'_>, error: &Error, now: Now, reply: &mut Reply) {
    let entry = lookup(args);
    session.info.last_command.store(entry.map_or(0, |entry| entry.id + 1), Relaxed);
    if let Some(entry) = entry {
        instrument::count_rejected(engine, session.worker, entry);
    }
    let runs_queued = entry.is_some_and(|entry| entry.command.flags.has(RUNS_QUEUED));
    if let Some(entry) = entry.filter(|_| runs_queued && engine.pubsub().is_monitored()) {
        engine.pubsub().feed_monitors(session.worker, &monitor_line(session, entry, args, now));
    }
    let instead = queued::refused(engine, session, runs_queued, error);
    refuse(engine, session, instead.as_ref().unwrap_or(error), reply);
}

/// Replies an error and counts it; false if the error is not to be shown, because the command is to be run again.
fn refuse(engine: &Engine, session: &Session, error: &Error, reply: &mut Reply) -> bool {
    let Some(text) = error.text() else { return false };
    if !error.is_counted() {
        engine.metrics()[session.worker].count_error(&text);
    }
    let name = client_line::last_command(&session.info).unwrap_or("<unknown>");
    instrument::note_unexpected(engine, session, name, &text);
    reply.error(text);
    true
}

/// Ends a command that began earlier with the reply from `start` on.
pub fn end_reply(session: &mut Session, reply: &mut Reply, start: usize) {
    if session.replies != Replies::On {
        mute(session, reply, start);
    }
}

/// Takes the reply from `start` on back, if the client does not want it.
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

/// Runs a command and records its cost, unless it is to be run again.
#[inline(always)]
pub fn call(
    engine: &Engine,
    session: &mut Session,
    entry: &'static CommandEntry,
    key_args: &[(usize, KeyHash)],
    args: &mut Args<'_>,
    now: Now,
    reply: &mut Reply,
) -> Flow {
    args.publish(&engine.metrics()[session.worker].running);
    let start = instrument::begin(engine, session, entry, args, now, reply);
    let (flow, failed) = call_command(engine, session, entry.command, key_args, args, now, reply);
    if matches!(flow, Flow::RetryLater) {
        return flow;
    }
    if failed {
        instrument::count_failed(engine, session.worker, entry);
    }
    instrument::end(engine, session, entry, args, start, now, &flow, reply);
    flow
}

/// Runs a handler under the locks of its keys and carries out its effects; true if it replied an error.
#[inline(always)]
pub fn call_command<'e>(
    engine: &'e Engine,
    session: &'e mut Session,
    command: &'static Command,
    key_args: &'e [(usize, KeyHash)],
    args: &mut Args<'_>,
    now: Now,
    reply: &'e mut Reply,
) -> (Flow, bool) {
    let hashes = key_args.iter().map(|(_, hash)| *hash);
    let Some(held) = HeldLocks::keys_with(engine, hashes, session.patience) else { return (Flow::RetryLater, false) };
    // The locks were free for a thread that has changed the state of admission, and this command has had no effect.
    let admitted = session.admitted.epoch();
    if !held.admit(engine, admitted) {
        return (Flow::RetryLater, false);
    }
    let db = session.db;
    let mut keys = Keys::new(engine, held, db, session.origin(engine, now));
    keys.set_no_touch(session.no_touch);
    keys.set_patience(session.patience);
    keys.set_admitted(admitted);
    let mut cx = Context::new(engine, keys, session, command, now, reply);
    (cx.blocking, cx.key_args) = (Blocking::Allowed, key_args);
    // EXEC has no locks yet.
    if cx.session.open_slot.is_some()
        && !command.flags.has(RUNS_QUEUED)
        && let Err(error) = cluster_routing::look_at_keys(&mut cx, key_args, args)
    {
        return match cluster_proxy::question_of_ask(engine, cx.session, (command, args), &error) {
            Some(question) => (Flow::Forward(question), false),
            None => (Flow::Next, refuse(engine, cx.session, &error, cx.reply)),
        };
    }
    let failed = run_held(engine, &mut cx, args, db);
    let flow = std::mem::take(&mut cx.flow);
    // The context's values have all been taken out.
    debug_assert!(cx.applying.is_none());
    std::mem::forget(cx);
    (flow, failed)
}

/// Runs the handler of the context's entry under the locks of its keys, which end with it, and carries out its effects;
/// true if it replied an error.
#[inline(always)]
pub fn run_held(engine: &Engine, cx: &mut Context<'_>, args: &mut Args<'_>, db: u32) -> bool {
    // Under the locks the log is not turned on or off. A command without locks may take them later.
    if engine.has_log() || cx.keys.holds_nothing() {
        args.make_lasting();
    }
    let start = cx.reply.len();
    let failed = match (cx.command.run)(cx, args) {
        Ok(()) => false,
        Err(error) => {
            let is_told = refuse(engine, cx.session, &error, cx.reply);
            if !is_told {
                cx.flow = Flow::RetryLater;
            }
            is_told
        }
    };
    if cx.session.tracker.is_some() {
        tracked_reads::remember(cx, args, cx.key_args);
    }
    if engine.has_log() {
        log_command(cx, args, db);
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

/// Puts the command into the log, and records the offset that its reply waits for.
#[inline(always)]
fn log_command(cx: &mut Context<'_>, args: &mut Args<'_>, db: u32) {
    let keys = cx.key_args;
    // The log is the last to need the arguments, but for the keys.
    let may_go = |argument| keys.iter().all(|(key, _)| *key != argument);
    if let Some(length) = cx.keys.record_plain(db, || args.take_text(may_go)) {
        let session = &mut *cx.session;
        (session.logged_at, session.seen_to, session.has_looked) = (length, length, true);
        return;
    }
    cx.keys.record(db, || args.take_text(may_go));
    note_log(cx);
}

/// Records the offset that the reply waits for: the end of the records that the command has put into the log, and of
/// those that it can have seen, which are changes of the shards that it has locked. Under these locks.
#[inline(always)]
fn note_log(cx: &mut Context<'_>) {
    let own = cx.keys.take_own_records();
    cx.session.logged_at = cx.session.logged_at.max(own.changed_to);
    cx.session.told_at = cx.session.told_at.max(own.told_to);
    let seen_to = match cx.keys.logged_to() {
        Some(length) => {
            cx.session.has_looked |= !cx.touches_no_data || own.changed_to > 0;
            length
        }
        None => {
            cx.session.has_looked |= cx.command.flags.has(READONLY) || cx.command.flags.has(WRITE);
            seen_unlocked(cx.engine, cx.command)
        }
    };
    cx.session.seen_to = cx.session.seen_to.max(seen_to);
}

/// Records the offset for a command that has locked nothing: it may have looked anywhere, unless it is about its
/// connection only.
#[inline(never)]
pub fn seen_unlocked(engine: &Engine, command: &Command) -> u64 {
    match command.group {
        Group::Connection | Group::Transactions => 0,
        _ => engine.change_log().appended(),
    }
}

/// Runs a command of the past once more, to its end: it is not logged and not measured, and finds the data of its time,
/// whatever has expired since. The caller has made sure that nothing is logged now.
pub fn replay<'e>(engine: &'e Engine, session: &'e mut Session, args: &mut Args<'_>, now: Now, reply: &'e mut Reply) {
    let prepared = prepare(engine, args);
    let Some(entry) = prepared.entry else { return };
    let request = AdmissionRequest::of(engine, session, entry, args);
    if admission::admit(engine, session, &request, now) != Verdict::Run {
        return;
    }
    if session.multi.is_some() && queued::queue(engine, session, entry, &prepared.keys, args, reply) {
        return;
    }
    let held = HeldLocks::keys(engine, prepared.keys.iter().map(|(_, hash)| *hash));
    let keys = Keys::new(engine, held, session.db, session.origin(engine, now));
    let mut cx = Context::new(engine, keys, session, entry.command, now, reply);
    cx.key_args = &prepared.keys;
    if let Err(error) = (entry.command.run)(&mut cx, args) {
        instrument::count_unexpected(engine, cx.session.worker, &entry.full_name, entry, &error);
        cx.reply.error(busy_script::text(engine, &error));
    }
    cx.complete();
    let Context { keys, session, .. } = cx;
    let effects = keys.release();
    if effects.seen().is_some() {
        follow_up(engine, effects, session, now);
    }
}

/// Runs work that is no command, with the rights of a replay, to its end.
///
/// # Errors
/// The error of `run`.
pub fn internal(
    engine: &Engine,
    now: Now,
    run: impl FnOnce(&mut Context<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let (mut session, mut reply) = (Session::replay(), Reply::default());
    let keys = Keys::new(engine, HeldLocks::Nothing, 0, ExecContext { caller: Caller::Replay, now: now.unix_ms() });
    let mut cx = Context::new(engine, keys, &mut session, &NO_COMMAND, now, &mut reply);
    let result = run(&mut cx);
    let Context { keys, session, .. } = cx;
    let effects = keys.release();
    if effects.seen().is_some() {
        follow_up(engine, effects, session, now);
    }
    result
}

/// The entry of work outside of commands.
static NO_COMMAND: Command = Command::DEFAULT;

/// Keys that are forgotten after a command while clients hold copies of too many.
const FORGOTTEN_AT_ONCE: usize = 100;

/// Carries out a command's effects that need no locks: the host's part, and clients whose wait it ended.
fn follow_up(engine: &Engine, mut effects: Effects, session: &Session, now: Now) {
    let worker = session.worker;
    let ready = engine.publish(&mut effects, Author { worker, client: session.info.id });
    if engine.tracking().is_over() {
        engine.trim_tracking(worker, FORGOTTEN_AT_ONCE);
    }
    if !ready.is_empty() {
        engine.serve(ready, Server { worker, now_us: now.unix_us });
    }
}

/// Runs one chunk of a chunked command; true when it has ended. If its client has lost rights meanwhile, it does
/// nothing more: its reply may be written in part, so its connection is [to be closed](Session::is_cut_off).
pub fn step<'e>(
    engine: &'e Engine,
    session: &'e mut Session,
    command: &'static Command,
    work: &mut dyn Resumable,
    now: Now,
    reply: &'e mut Reply,
) -> bool {
    let (start, clock) = (reply.len(), engine.host().nanos());
    if !work.outlasts_rights() && acl_check::has_lost(engine, session) {
        session.is_cut_off = true;
        instrument::piece(engine, session, clock, 0, now, true);
        return true;
    }
    let mut keys = Keys::new(engine, HeldLocks::Nothing, session.db, session.origin(engine, now));
    keys.set_patience(session.patience);
    let mut cx = Context::new(engine, keys, session, command, now, reply);
    let done = work.step(&mut cx);
    if engine.has_log() {
        note_log(&mut cx);
    }
    let Context { keys, reply, session, .. } = cx;
    follow_up(engine, keys.release(), session, now);
    let answer = reply.len().saturating_sub(start);
    instrument::piece(engine, session, clock, answer, now, done);
    if done {
        end_reply(session, reply, start);
    }
    done
}

/// Runs one command for a client to its end: [`prepare`], [`run`] and as many [`step`]s as it takes. A command that has
/// to wait for the end of a pause has had no effect and no reply ([`Flow::Postponed`]).
pub fn execute<'e>(
    engine: &'e Engine,
    session: &'e mut Session,
    args: &mut Args<'_>,
    now: Now,
    reply: &'e mut Reply,
) -> Flow {
    let prepared = prepare(engine, args);
    let mut flow = run(engine, session, &prepared, args, now, reply);
    while matches!(flow, Flow::RetryLater) {
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
