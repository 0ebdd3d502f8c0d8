//! Admission: whether a command may run now. One function for every way in.
//!
//! | way in | what is looked at |
//! | --- | --- |
//! | a request of a client | the flags of its command, and of the script that it calls |
//! | EXEC | the same of all that is queued, together |
//! | a command that a script calls | its flags, and what the script has declared and done so far |
//! | the retry of a client that waits | the flags of its command |
//! | the log's replay | nothing: it was admitted once ([`Caller::is_obeyed`]) |
//! | the stream of the server that is followed | whether there is a pause; it was admitted there |
//!
//! The checks come in Valkey's order, so that clients get the same one of several reasons:
//!
//! ```text
//!   authentication - protected commands - MULTI - rights - quotas - slots, redirection - memory - disk - replicas - read-only replica -
//!   subscriptions - link to the primary - loading - busy script - monitors - pause
//! ```
//!
//! **The moment of admission.** All reasons are bits of one word ([`DenyReasons`]), which other threads set; with each
//! change that is more than a measurement an epoch begins. A command stores the epoch in which it was admitted. Under
//! its locks it checks whether their shards have [seen a later one](engine::keyspace::shard::Shard::admits): then it
//! has had no effect, and is admitted anew. A thread that has changed the word and then [passed all
//! locks](engine::Keyspace::pass_locks) knows that no command admitted before is still running: [`Settle`] does that
//! before a command replies. See docs/design/locks.md.

use crate::core::acl_check::{self, Call};
use crate::core::args::Args;
use crate::core::busy_script;
use crate::core::cluster_proxy;
use crate::core::cluster_routing::{self, Routed};
use crate::core::command::{
    ADMIN, ALLOW_BUSY, ALLOW_SUBSCRIBED, Command, CommandEntry, DENY_OOM, Flags, Group, LOADING, MAY_REPLICATE,
    NO_ASYNC_LOADING, NO_AUTH, NO_MULTI, PROTECTED, PUBSUB, READONLY, RUNS_QUEUED, STALE, TELLS_DISK_ERRORS, WRITE,
};
use crate::core::context::{Context, Flow, Now, Resumable};
use crate::core::session::Session;
use cluster::proxy::Question;
use engine::client_endings::Ending;
use engine::config::{Directive, os_message};
use engine::data::key_hash::KeyHash;
use engine::host::threads::Server;
use engine::keyspace::caller::Caller;
use engine::status::deny_reasons::{DenyReasons, Paused};
use engine::time::UnixMs;
use engine::{Engine, Error, Word};
use persistence::aof::{self, Aof};
use replication::failover_state::FailoverState;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

/// The decision about a command.
#[derive(Debug, PartialEq)]
pub enum Verdict {
    /// The command runs now.
    Run,
    /// The command waits until the pause has ended.
    Wait,
    /// The client gets this error, and the command does not run.
    Refuse(Error),
    /// The client's connection has been ended by others: it gets no reply any more.
    End,
    /// Other nodes are asked.
    Forward(Box<Question>),
}

/// A command that asks to run.
pub struct AdmissionRequest<'r> {
    caller: Caller,
    /// `container|subcommand`, or the name.
    name: &'r str,
    /// Flags of the command itself.
    own: Flags,
    /// Flags of everything that would run.
    flags: Flags,
    /// Flags that at least one of these commands lacks.
    lacking: Flags,
    /// The command may need locks.
    has_keys: bool,
    /// The call that the client's user needs the right for.
    call: Call<'r>,
    /// The entry that decides the node of a cluster at which it runs.
    command: &'static Command,
    args: &'r Args<'r>,
}

impl<'r> AdmissionRequest<'r> {
    /// Returns the request of a client's command with these arguments.
    pub fn of(
        engine: &Engine,
        session: &Session,
        entry: &'static CommandEntry,
        args: &'r Args<'_>,
    ) -> AdmissionRequest<'r> {
        let own = entry.command.flags_of(engine, args);
        let (mut flags, mut lacking) = (own, own.complement());
        if let Some((queued, missing)) = session.queued_flags().filter(|_| own.has(RUNS_QUEUED)) {
            (flags, lacking) = (flags.and(queued), lacking.and(missing));
        }
        let caller = session.caller;
        let (name, has_keys) = (&*entry.full_name, !entry.command.keys.is_empty());
        let call = Call::of(entry, args, session.next_db());
        AdmissionRequest { caller, name, own, flags, lacking, has_keys, call, command: entry.command, args }
    }
}

/// Returns whether a command with these keys may run, whatever it is: the common case. Stores the state of the server
/// by which that was decided.
#[inline(always)]
pub fn is_open(engine: &Engine, session: &mut Session, entry: &CommandEntry, keys: &[(usize, KeyHash)]) -> bool {
    session.admitted = engine.persistence_status().deny_reasons();
    (session.admitted.is_none() || session.admitted.is_clustered_only() && is_served(engine, session, entry, keys))
        && !engine.scripts().is_busy()
        && session.is_unrestricted(engine)
        && session.subscriptions.is_none()
        && session.multi.is_none()
        && !session.info.monitor.load(Relaxed)
}

/// Returns whether a command of a client of a cluster is about slots that stay here, one slot if it has several keys. A
/// command that may touch more than these keys is checked in full.
#[inline(never)]
fn is_served(engine: &Engine, session: &mut Session, entry: &CommandEntry, keys: &[(usize, KeyHash)]) -> bool {
    // A command that never ran may have left a slot.
    session.open_slot = None;
    let [(_, first), others @ ..] = keys else { return false };
    !entry.may_touch_more
        && engine.cluster().serves(first.slot())
        && others.iter().all(|(_, key)| key.slot() == first.slot())
        && !session.admitted.is_limited()
        && !session.asking
}

/// Returns whether a command may run now.
#[cold]
pub fn admit(engine: &Engine, session: &mut Session, request: &AdmissionRequest<'_>, now: Now) -> Verdict {
    if request.caller.is_obeyed() {
        session.admitted = engine.persistence_status().deny_reasons();
        if matches!(request.caller, Caller::Primary | Caller::Migration) && has_to_wait(session.admitted, request) {
            return Verdict::Wait;
        }
        if request.caller == Caller::Primary {
            if !comes_from_primaries(request) {
                engine.host().warn(&format!("The primary sent {}, which is not taken from a primary", request.name));
                return Verdict::Refuse(Error::NotFromPrimary(Word::of(request.name)));
            }
            see_disk(engine, session.admitted, request, now);
        }
        return Verdict::Run;
    }
    if session.info.has_ended() {
        return Verdict::End;
    }
    session.refresh_rights(engine);
    if !request.flags.has(NO_AUTH) && needs_password(engine, session) {
        return Verdict::Refuse(Error::NoAuth);
    }
    if request.own.has(PROTECTED)
        && let Err(error) = permitted(engine, session, request.name)
    {
        return Verdict::Refuse(error);
    }
    if session.multi.is_some() && request.flags.has(NO_MULTI) {
        return Verdict::Refuse(Error::NotInMulti(Word::of(request.name)));
    }
    let context = if session.multi.is_some() { acl_check::IN_MULTI } else { acl_check::TOPLEVEL };
    if let Err((_, error)) = acl_check::check(engine, session, &request.call, context, now) {
        return Verdict::Refuse(error);
    }
    if !request.flags.has(NO_AUTH)
        && let Err(error) = session.take_seat()
    {
        return Verdict::Refuse(error);
    }
    session.admitted = engine.persistence_status().deny_reasons();
    if session.admitted.is_clustered() {
        let (writes, publishes) = (request.flags.has(WRITE), request.flags.has(PUBSUB));
        let routed = Routed { command: request.command, args: request.args, writes, publishes };
        if let Some(verdict) = route(engine, session, request, routed, now) {
            return verdict;
        }
    } else if session.admitted.follows()
        && let Some(verdict) = sent_on(engine, session, request)
    {
        return verdict;
    }
    // The memory of this node's keys is full: a command about another node's keys has been sent there.
    if let Err(error) = request.call.check_memory(session) {
        return Verdict::Refuse(error);
    }
    if session.admitted.is_limited() {
        let evicted_to = engine.make_room(Server { worker: session.worker, now_us: now.unix_us });
        session.told_at = session.told_at.max(evicted_to);
    }
    session.admitted = engine.persistence_status().deny_reasons();
    match refusal(engine, session, request) {
        // A server that hands the lead over under a pause is a replica before that ends: a client that waits then is
        // disconnected.
        Some(Error::ReadOnlyReplica) if has_to_wait(session.admitted, request) => Verdict::Wait,
        Some(error) => Verdict::Refuse(error),
        None if has_to_wait(session.admitted, request) => Verdict::Wait,
        None => Verdict::Run,
    }
}

/// Returns whether primaries send such commands, orders of a cluster among them. The others change this server itself,
/// such as its role, and wait for the thread that applies the stream.
fn comes_from_primaries(request: &AdmissionRequest<'_>) -> bool {
    let own = request.own;
    !own.has(ADMIN) || own.has(WRITE) || own.has(MAY_REPLICATE) || request.command.group == Group::Cluster
}

/// Returns the verdict on a command of a cluster's client that does not run here.
fn route(
    engine: &Engine,
    session: &mut Session,
    request: &AdmissionRequest<'_>,
    routed: Routed<'_>,
    now: Now,
) -> Option<Verdict> {
    let reason = cluster_routing::route(engine, session, routed).err();
    let call = (request.command, request.args);
    if reason.as_ref().is_some_and(|reason| cluster_proxy::may_queue(engine, session, call, reason)) {
        // EXEC is admitted once its node is known.
        return Some(Verdict::Run).filter(|_| !is_mixed(session, request));
    }
    match cluster_proxy::question(engine, session, call, reason.as_ref(), now) {
        Err(error) => Some(Verdict::Refuse(error)),
        Ok(None) => reason.map(Verdict::Refuse),
        Ok(Some(_)) if is_mixed(session, request) => Some(Verdict::Refuse(Error::Subscribed(Word::of(request.name)))),
        Ok(Some(_)) if has_to_wait(engine.persistence_status().deny_reasons(), request) => Some(Verdict::Wait),
        Ok(Some(question)) => {
            cluster_proxy::hand_over(session, request.command);
            Some(Verdict::Forward(question))
        }
    }
}

/// Returns whether replies could not be distinguished from messages: in RESP3 messages have a form of their own.
fn is_mixed(session: &Session, request: &AdmissionRequest<'_>) -> bool {
    let is_mixed = session.subscriptions.is_some() && session.info.resp.load(Relaxed) != 3;
    is_mixed && !request.own.has(ALLOW_SUBSCRIBED)
}

/// Interval of the log's line about a replica that continues without its disk, in milliseconds.
const TOLD_EVERY: i64 = 10_000;

/// Ends a replica whose disk fails, rather than have it write commands that it cannot save, unless
/// `replica-ignore-disk-write-errors`.
fn see_disk(engine: &Engine, state: DenyReasons, request: &AdmissionRequest<'_>, now: Now) {
    let writes = request.flags.has(WRITE);
    if !state.is_failed() && !state.is_unlogged() || !writes && !request.own.has(TELLS_DISK_ERRORS) {
        return;
    }
    let goes_on = engine.config().snapshot().flag(Directive::REPLICA_IGNORE_DISK_WRITE_ERRORS);
    assert!(goes_on || !writes, "Replica was unable to write command to disk.");
    let (now, told_at) = (now.unix_ms(), &engine.replication().disk_told_at);
    if now.since(UnixMs(told_at.load(Relaxed))) > TOLD_EVERY {
        told_at.store(now.0, Relaxed);
        engine.host().log("Replica is applying a command even though it is unable to write to disk.");
    }
}

/// Returns the verdict on a command about keys of a client that follows redirections, on a server that follows another
/// one.
fn sent_on(engine: &Engine, session: &Session, request: &AdmissionRequest<'_>) -> Option<Verdict> {
    let info = &session.info;
    let is_about_keys = request.flags.has(WRITE) || request.flags.has(READONLY) && !info.read_only.load(Relaxed);
    if !info.redirects.load(Relaxed) || !is_about_keys {
        return None;
    }
    // Before the other server leads, it would send the client back.
    if engine.replication().failover.lock().state() == FailoverState::InProgress {
        return Some(Verdict::Wait);
    }
    let primary = engine.replication().primary()?;
    Some(Verdict::Refuse(primary.redirect()))
}

/// Returns whether the configuration lets this client have a protected command: DEBUG, or MODULE.
///
/// # Errors
/// [`Error::DebugNotAllowed`] or [`Error::ModuleNotAllowed`].
pub fn permitted(engine: &Engine, session: &Session, name: &str) -> Result<(), Error> {
    let (directive, refusal) = match name {
        "debug" => (Directive::ENABLE_DEBUG_COMMAND, Error::DebugNotAllowed),
        _ => (Directive::ENABLE_MODULE_COMMAND, Error::ModuleNotAllowed),
    };
    let permits = engine.config().snapshot().permits(directive, session.info.is_local());
    if permits { Ok(()) } else { Err(refusal) }
}

/// Returns whether the client has to authenticate first. A client that has not authenticated may run commands once no
/// password is required.
pub fn needs_password(engine: &Engine, session: &Session) -> bool {
    !session.caller.is_obeyed() && (session.identity.is_nobody() || !session.authenticated && engine.users().asks())
}

/// Returns the reason to refuse an authenticated client's command.
fn refusal(engine: &Engine, session: &Session, request: &AdmissionRequest<'_>) -> Option<Error> {
    let (state, busy) = (session.admitted, engine.scripts().is_busy());
    let may_grow = busy || !request.flags.has(DENY_OOM);
    if let Some(error) = refusal_of_write(engine, state, request.flags, may_grow, request.own.has(TELLS_DISK_ERRORS)) {
        return Some(error);
    }
    if is_mixed(session, request) {
        return Some(Error::Subscribed(Word::of(request.name)));
    }
    if state.is_stale() && request.lacking.has(STALE) {
        return Some(Error::PrimaryDown);
    }
    let is_loading = state.is_loading() && request.lacking.has(LOADING);
    if is_loading || state.is_async_loading() && request.flags.has(NO_ASYNC_LOADING) {
        return Some(Error::Loading);
    }
    // A command for such times must not need a lock, as the script may have it: WATCH, and the end of watching.
    let is_for_such_times = request.flags.has(ALLOW_BUSY) && !request.has_keys && session.watching.is_none();
    if busy && !is_for_such_times {
        return Some(busy_script::busy(engine));
    }
    let is_monitor = session.info.monitor.load(Relaxed);
    (is_monitor && request.flags.has(WRITE.and(READONLY).and(MAY_REPLICATE))).then_some(Error::MonitorHasNoKeys)
}

/// Returns the reason to refuse a command that would write, or need memory, to any client. `may_grow`: memory does not
/// matter. `is_told`: it is refused for a failing disk though it does not write.
fn refusal_of_write(engine: &Engine, state: DenyReasons, flags: Flags, may_grow: bool, is_told: bool) -> Option<Error> {
    let writes = flags.has(WRITE);
    if state.is_short_of_memory() && !may_grow {
        return Some(Error::Oom);
    }
    if state.is_failed() && (writes || is_told) {
        return Some(Error::SaveFailed);
    }
    if state.is_unlogged() && (writes || is_told) {
        return Some(unlogged(engine));
    }
    // A server that follows another one does not judge whether that one's replicas are enough.
    if state.is_short_of_replicas() && writes && !engine.is_following() {
        return Some(Error::TooFewReplicas);
    }
    (state.is_read_only_replica() && writes).then_some(Error::ReadOnlyReplica)
}

/// The system's number for an error without a number.
const EIO: i32 = 5;

/// Returns the reason that the log takes nothing.
fn unlogged(engine: &Engine) -> Error {
    let number = aof::of(engine).map_or(0, Aof::error);
    let error = io::Error::from_raw_os_error(i32::try_from(number).unwrap_or(EIO));
    Error::AofFailed(Word::of(os_message(&error)))
}

/// Returns whether the command has to wait for the end of the present pause.
fn has_to_wait(state: DenyReasons, request: &AdmissionRequest<'_>) -> bool {
    match state.paused() {
        Paused::Nothing => false,
        Paused::All => true,
        // The command would reach other servers.
        Paused::Writes => request.flags.has(WRITE.and(MAY_REPLICATE)),
    }
}

/// Returns the reason to refuse a script, or a command that it calls, with these flags. A script that has begun to
/// write continues.
pub fn refusal_in_script(engine: &Engine, flags: Flags, may_grow: bool, has_written: bool) -> Option<Error> {
    let state = engine.persistence_status().deny_reasons();
    if state.is_none() || has_written {
        return None;
    }
    refusal_of_write(engine, state, flags, may_grow || !flags.has(DENY_OOM), false)
}

/// Returns whether a waiting client may be served now with its command.
pub fn admit_retry(engine: &Engine, command: &'static Command) -> Verdict {
    let state = engine.persistence_status().deny_reasons();
    if state.is_none() {
        return Verdict::Run;
    }
    match refusal_of_write(engine, state, command.flags, !command.flags.has(DENY_OOM), false) {
        Some(error) => Verdict::Refuse(error),
        None => Verdict::Run,
    }
}

/// Returns whether a chunked command that writes may run its next piece, which then runs under no lock that has seen a
/// later epoch.
pub fn admit_piece(cx: &mut Context<'_>) -> Verdict {
    let state = cx.engine.persistence_status().deny_reasons();
    cx.keys.set_admitted(state.epoch());
    // A client that waits while a server hands the lead over gets the outcome of that.
    if state.paused() != Paused::Nothing {
        return Verdict::Wait;
    }
    let flags = cx.command.flags;
    match refusal_of_write(cx.engine, state, flags, !flags.has(DENY_OOM), false) {
        Some(error) => Verdict::Refuse(error),
        None => Verdict::Run,
    }
}

/// Replies once no command is under way any more that was admitted before this began, here or at another node that was
/// [asked for it](crate::core::cluster_proxy).
#[derive(Default)]
pub struct Settle {
    next: usize,
    /// The number of changes of users at its beginning.
    rights: Option<u64>,
    /// The reply, if it is a number.
    count: Option<i64>,
    /// The client's connection ends with the reply.
    ends_client: bool,
    waits_for_nodes: bool,
}

impl Settle {
    /// Returns the state for a command that is chunked already.
    pub fn new() -> Settle {
        Settle::default()
    }

    /// Replies OK to a command that has changed the state by which others are admitted. A command that holds all locks,
    /// as in a transaction, needs no wait.
    pub fn then_ok(cx: &mut Context<'_>) {
        Settle::new().begin(cx);
    }

    /// Replies OK or a number in the same way, perhaps as the client's last reply.
    pub fn then_reply(cx: &mut Context<'_>, count: Option<i64>, ends_client: bool) {
        Settle { count, ends_client, ..Settle::new() }.begin(cx);
    }

    fn begin(self, cx: &mut Context<'_>) {
        if cx.keys.reaches_all() {
            cx.keys.enter_epoch();
            self.reply(cx);
            // The transaction's reply is the last one, and may have to wait.
            cx.session.ends_with_reply |= self.ends_client;
        } else {
            cx.flow = Flow::more(self);
        }
    }

    fn reply(&self, cx: &mut Context<'_>) {
        match self.count {
            None => cx.reply.ok(),
            Some(count) => cx.reply.int(count),
        }
    }

    fn end(&self, cx: &mut Context<'_>) {
        self.reply(cx);
        if self.ends_client {
            cx.session.ends_with_reply = true;
            cx.engine.end_client(&cx.session.info, Ending::AfterReplies);
        }
    }
}

impl Resumable for Settle {
    fn step(&mut self, cx: &mut Context<'_>) -> bool {
        if cx.keys.reaches_all() {
            cx.keys.enter_epoch();
            self.end(cx);
            return true;
        }
        let (engine, patience) = (cx.engine, cx.session.patience);
        let rights = *self.rights.get_or_insert_with(|| engine.users().generation());
        let has_passed = engine.pass_locks(&mut self.next, patience.from_now(engine));
        self.waits_for_nodes = has_passed && asks_by_rights_before(engine, rights);
        let done = has_passed && !self.waits_for_nodes;
        if done {
            self.end(cx);
        }
        done
    }

    fn rests(&self) -> bool {
        self.waits_for_nodes
    }

    fn outlasts_rights(&self) -> bool {
        true
    }
}

/// Returns whether other nodes are asked under rights older than so many changes of users.
pub fn asks_by_rights_before(engine: &Engine, changes: u64) -> bool {
    engine.metrics().iter().any(|worker| worker.asks_by_rights_before(changes))
}
