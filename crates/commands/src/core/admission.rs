//! Admission: whether a command may run now. One function for every way in.
//!
//! | way in | what is looked at |
//! | --- | --- |
//! | a request of a client, of the book protocol too | the flags of its command, and of the script that it calls |
//! | EXEC | the same of all that is queued, together |
//! | a command that a script calls | its flags, and what the script has declared and done so far |
//! | the retry of a client that waits | the flags of its command |
//! | the log's replay | nothing: it was admitted once ([`Asker::is_obeyed`]) |
//! | the stream of the server that is followed | whether there is a pause; it was admitted there |
//!
//! The checks come in Valkey's order, so that of several reasons clients are told the same one:
//!
//! ```text
//!   authentication - protected commands - MULTI - rights - quotas - slots, redirection - memory - disk - replicas - read-only replica -
//!   subscriptions - link to the primary - loading - busy script - monitors - pause
//! ```
//!
//! **At which moment.** All reasons are bits of one word ([`DenyReasons`]), which others set; with each change of what
//! is more than measured an epoch begins. A command keeps the epoch in which it was admitted. Under its locks it looks
//! whether their shards have [seen a later one](engine::keyspace::shard::Shard::admits): then it has done nothing, and
//! is admitted anew. Who has changed the word and then [passed all locks](Engine::pass_locks) knows that nothing runs
//! any more that was admitted before: [`Settle`] does that before a command replies. See docs/design/locks.md.

use crate::core::args::Args;
use crate::core::busy_script;
use crate::core::cluster_routing::{self, Routed};
use crate::core::command::{
    ADMIN, ALLOW_BUSY, ALLOW_SUBSCRIBED, Command, CommandEntry, DENY_OOM, Flags, Group, LOADING, MAY_REPLICATE,
    NO_ASYNC_LOADING, NO_AUTH, NO_MULTI, PROTECTED, PUBSUB, READONLY, RUNS_QUEUED, STALE, TELLS_DISK_ERRORS, WRITE,
};
use crate::core::context::{Context, Flow, Now, Piecewise};
use crate::core::forwarding;
use crate::core::rights::{self, Call};
use crate::core::session::Session;
use cluster::proxy::Question;
use engine::client_endings::Ending;
use engine::config::{Directive, os_message};
use engine::data::key_hash::KeyHash;
use engine::host::threads::Server;
use engine::keyspace::origin::Asker;
use engine::status::deny_reasons::{DenyReasons, Paused};
use engine::time::UnixMs;
use engine::{Engine, Error, Word};
use persistence::aof::{self, Aof};
use replication::failover_state::FailoverState;
use std::io;
use std::sync::atomic::Ordering::Relaxed;

/// What is to become of a command.
#[derive(Debug, PartialEq)]
pub(crate) enum Verdict {
    Run,
    /// Until the pause has ended.
    Wait,
    Refuse(Error),
    /// The client's connection has been ended by others: it is replied nothing more.
    End,
    /// Other nodes are asked.
    Forward(Box<Question>),
}

/// A command that asks to run.
pub(crate) struct AdmissionRequest<'r> {
    asker: Asker,
    /// `container|subcommand`, or the name.
    name: &'r str,
    /// Flags of the command itself.
    own: Flags,
    /// Those of everything that would run.
    flags: Flags,
    /// Flags that something of that has not.
    lacking: Flags,
    /// It may need locks.
    has_keys: bool,
    /// What the client's user needs the right for.
    call: Call<'r>,
    /// What says where in a cluster it runs.
    command: &'static Command,
    args: &'r Args<'r>,
}

impl<'r> AdmissionRequest<'r> {
    /// A command of a client with these arguments.
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
        let asker = session.asker;
        let (name, has_keys) = (&*entry.full_name, !entry.command.keys.is_empty());
        let call = Call::of(entry, args, session.next_db());
        AdmissionRequest { asker, name, own, flags, lacking, has_keys, call, command: entry.command, args }
    }

    /// One that is told from its entry alone, with the rights that it needs.
    pub fn of_command(command: &'static Command, args: &'r Args<'r>, call: Call<'r>) -> AdmissionRequest<'r> {
        let (asker, name, own) = (Asker::Client, command.name, command.flags);
        let (flags, lacking, has_keys) = (own, own.complement(), !command.keys.is_empty());
        AdmissionRequest { asker, name, own, flags, lacking, has_keys, call, command, args }
    }
}

/// Whether a command with these keys may run, whatever it is: so it nearly always is. Remembers the state of the server
/// by which that was decided.
#[inline(always)]
pub(crate) fn is_open(engine: &Engine, session: &mut Session, entry: &CommandEntry, keys: &[(usize, KeyHash)]) -> bool {
    session.admitted = engine.persistence_status().deny_reasons();
    (session.admitted.is_none() || session.admitted.is_clustered_only() && is_served(engine, session, entry, keys))
        && !engine.scripts().is_busy()
        && session.is_unrestricted(engine)
        && session.subscriptions.is_none()
        && session.multi.is_none()
        && !session.info.monitor.load(Relaxed)
}

/// Whether a command of a client of a cluster is about slots that stay here, one slot if it has several keys. What may
/// touch more than these keys is looked at as a whole.
#[inline(never)]
fn is_served(engine: &Engine, session: &mut Session, entry: &CommandEntry, keys: &[(usize, KeyHash)]) -> bool {
    // Of a command that did not come to run.
    session.open_slot = None;
    let [(_, first), others @ ..] = keys else { return false };
    !entry.may_touch_more
        && engine.cluster().serves(first.slot())
        && others.iter().all(|(_, key)| key.slot() == first.slot())
        && !session.admitted.is_limited()
        && !session.asking
}

/// Whether a command may run now.
#[cold]
pub(crate) fn admit(engine: &Engine, session: &mut Session, request: &AdmissionRequest<'_>, now: Now) -> Verdict {
    if request.asker.is_obeyed() {
        session.admitted = engine.persistence_status().deny_reasons();
        if matches!(request.asker, Asker::Primary | Asker::Migration) && has_to_wait(session.admitted, request) {
            return Verdict::Wait;
        }
        if request.asker == Asker::Primary {
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
    let context = if session.multi.is_some() { rights::IN_MULTI } else { rights::TOPLEVEL };
    if let Err((_, error)) = rights::check(engine, session, &request.call, context, now) {
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
    // The memory of this node's keys is full: a command about another's has been sent there.
    if let Err(error) = request.call.check_memory(session) {
        return Verdict::Refuse(error);
    }
    if session.admitted.is_limited() {
        let evicted_to = engine.make_room(Server { worker: session.worker, now_us: now.unix_us });
        session.told_at = session.told_at.max(evicted_to);
    }
    session.admitted = engine.persistence_status().deny_reasons();
    match refusal(engine, session, request) {
        // A server that hands the lead over under a pause is a replica before that ends: who waits then is cut off.
        Some(Error::ReadOnlyReplica) if has_to_wait(session.admitted, request) => Verdict::Wait,
        Some(error) => Verdict::Refuse(error),
        None if has_to_wait(session.admitted, request) => Verdict::Wait,
        None => Verdict::Run,
    }
}

/// Whether primaries send such commands, orders of a cluster among them. The others change this server itself, its role
/// say, and wait for the thread that applies the stream.
fn comes_from_primaries(request: &AdmissionRequest<'_>) -> bool {
    let own = request.own;
    !own.has(ADMIN) || own.has(WRITE) || own.has(MAY_REPLICATE) || request.command.group == Group::Cluster
}

/// What becomes of a command of a cluster's client that does not run here.
fn route(
    engine: &Engine,
    session: &mut Session,
    request: &AdmissionRequest<'_>,
    routed: Routed<'_>,
    now: Now,
) -> Option<Verdict> {
    let reason = cluster_routing::route(engine, session, routed).err();
    let call = (request.command, request.args);
    if reason.as_ref().is_some_and(|reason| forwarding::may_queue(engine, session, call, reason)) {
        // EXEC is admitted when it is known where it runs.
        return Some(Verdict::Run).filter(|_| !is_mixed(session, request));
    }
    match forwarding::question(engine, session, call, reason.as_ref(), now) {
        Err(error) => Some(Verdict::Refuse(error)),
        Ok(None) => reason.map(Verdict::Refuse),
        Ok(Some(_)) if is_mixed(session, request) => Some(Verdict::Refuse(Error::Subscribed(Word::of(request.name)))),
        Ok(Some(_)) if has_to_wait(engine.persistence_status().deny_reasons(), request) => Some(Verdict::Wait),
        Ok(Some(question)) => {
            forwarding::hand_over(session, request.command);
            Some(Verdict::Forward(question))
        }
    }
}

/// Whether replies could not be told from messages: in RESP3 these look like nothing else.
fn is_mixed(session: &Session, request: &AdmissionRequest<'_>) -> bool {
    let is_mixed = session.subscriptions.is_some() && session.info.resp.load(Relaxed) != 3;
    is_mixed && !request.own.has(ALLOW_SUBSCRIBED)
}

/// How often the log is told that a replica goes on without its disk, in milliseconds.
const TOLD_EVERY: i64 = 10_000;

/// A replica whose disk fails ends rather than write what it cannot save, unless `replica-ignore-disk-write-errors`.
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

/// What becomes of a command about keys of a client that follows redirections, on a server that follows another one.
fn sent_on(engine: &Engine, session: &Session, request: &AdmissionRequest<'_>) -> Option<Verdict> {
    let info = &session.info;
    let is_about_keys = request.flags.has(WRITE) || request.flags.has(READONLY) && !info.read_only.load(Relaxed);
    if !info.redirects.load(Relaxed) || !is_about_keys {
        return None;
    }
    // Until the other one leads it would send the client back.
    if engine.replication().failover.lock().state() == FailoverState::InProgress {
        return Some(Verdict::Wait);
    }
    let primary = engine.replication().primary()?;
    Some(Verdict::Refuse(primary.redirect()))
}

/// Whether the configuration lets this client have a protected command: DEBUG, or MODULE.
pub(crate) fn permitted(engine: &Engine, session: &Session, name: &str) -> Result<(), Error> {
    let (directive, refusal) = match name {
        "debug" => (Directive::ENABLE_DEBUG_COMMAND, Error::DebugNotAllowed),
        _ => (Directive::ENABLE_MODULE_COMMAND, Error::ModuleNotAllowed),
    };
    let permits = engine.config().snapshot().permits(directive, session.info.is_local());
    if permits { Ok(()) } else { Err(refusal) }
}

/// Whether the client has to authenticate itself first. Who did not may do what others may as soon as nobody has to.
pub(crate) fn needs_password(engine: &Engine, session: &Session) -> bool {
    !session.asker.is_obeyed() && (session.identity.is_nobody() || !session.authenticated && engine.users().asks())
}

/// Why an authenticated client's command is refused.
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
    // What is for such times must not need a lock, as the script may have it: WATCH, and the end of what is watched.
    let is_for_such_times = request.flags.has(ALLOW_BUSY) && !request.has_keys && session.watching.is_none();
    if busy && !is_for_such_times {
        return Some(busy_script::busy(engine));
    }
    let is_monitor = session.info.monitor.load(Relaxed);
    (is_monitor && request.flags.has(WRITE.and(READONLY).and(MAY_REPLICATE))).then_some(Error::MonitorHasNoKeys)
}

/// Why something that would write, or need memory, is refused to any client. `may_grow`: memory is no matter.
/// `is_told`: it is told of a disk that fails though it does not write.
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
    // Who follows another server has no say in whether that one's replicas are enough.
    if state.is_short_of_replicas() && writes && !engine.is_following() {
        return Some(Error::TooFewReplicas);
    }
    (state.is_read_only_replica() && writes).then_some(Error::ReadOnlyReplica)
}

/// What the system calls an error that has no number.
const EIO: i32 = 5;

/// Why the log takes nothing.
fn unlogged(engine: &Engine) -> Error {
    let number = aof::of(engine).map_or(0, Aof::error);
    let error = io::Error::from_raw_os_error(i32::try_from(number).unwrap_or(EIO));
    Error::AofFailed(Word::of(os_message(&error)))
}

/// Whether the command has to wait for the end of the pause that is on.
fn has_to_wait(state: DenyReasons, request: &AdmissionRequest<'_>) -> bool {
    match state.paused() {
        Paused::Nothing => false,
        Paused::All => true,
        // What other servers would hear of.
        Paused::Writes => request.flags.has(WRITE.and(MAY_REPLICATE)),
    }
}

/// Why a script, or a command that it calls, with these flags is refused. What has begun to write goes on.
pub(crate) fn refusal_in_script(engine: &Engine, flags: Flags, may_grow: bool, has_written: bool) -> Option<Error> {
    let state = engine.persistence_status().deny_reasons();
    if state.is_none() || has_written {
        return None;
    }
    refusal_of_write(engine, state, flags, may_grow || !flags.has(DENY_OOM), false)
}

/// Whether a client that waits may be served now with the command that it waits with.
pub(crate) fn admit_retry(engine: &Engine, command: &'static Command) -> Verdict {
    let state = engine.persistence_status().deny_reasons();
    if state.is_none() {
        return Verdict::Run;
    }
    match refusal_of_write(engine, state, command.flags, !command.flags.has(DENY_OOM), false) {
        Some(error) => Verdict::Refuse(error),
        None => Verdict::Run,
    }
}

/// Whether a chunked command that writes may go on with its next piece, which then runs under no lock that has seen a
/// later epoch.
pub(crate) fn admit_piece(cx: &mut Context<'_>) -> Verdict {
    let state = cx.engine.persistence_status().deny_reasons();
    cx.keys.set_admitted(state.epoch());
    // Who waits while a server hands the lead over hears what became of that.
    if state.paused() != Paused::Nothing {
        return Verdict::Wait;
    }
    let flags = cx.command.flags;
    match refusal_of_write(cx.engine, state, flags, !flags.has(DENY_OOM), false) {
        Some(error) => Verdict::Refuse(error),
        None => Verdict::Run,
    }
}

/// Replies when no command is under way any more that was admitted before this began, here or at another node that was
/// [asked for it](crate::core::forwarding).
#[derive(Default)]
pub(crate) struct Settle {
    next: usize,
    /// The number of changes of users at its beginning.
    rights: Option<u64>,
    /// The reply, where it is a number.
    count: Option<i64>,
    /// The client's connection ends with the reply.
    ends_client: bool,
    waits_for_nodes: bool,
}

impl Settle {
    /// For a command that is chunked already.
    pub fn new() -> Settle {
        Settle::default()
    }

    /// For a command that has changed what others are admitted by. Who holds all locks, as a transaction with such a
    /// command does, knows already that nothing else is under way.
    pub fn then_ok(cx: &mut Context<'_>) {
        Settle::new().begin(cx);
    }

    /// The same with OK or a number as the reply, which may be the client's last.
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

impl Piecewise for Settle {
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

/// Whether other nodes are asked by rights that held before so many changes of users.
pub(crate) fn asks_by_rights_before(engine: &Engine, changes: u64) -> bool {
    engine.metrics().iter().any(|worker| worker.asks_by_rights_before(changes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::dispatch;
    use crate::testing::Client;
    use engine::time::SteadyMs;

    #[test]
    fn a_change_of_users_is_acknowledged_when_no_node_is_asked_by_rights_of_before() {
        let mut client = Client::new();
        client.is("ACL SETUSER u on", "+OK");
        let engine = client.shared_engine().clone();
        let asks = |changes: Option<u64>| engine.metrics()[0].set_asks_by(changes);
        asks(Some(engine.users().generation()));
        let mut running = client.begin(&["ACL", "SETUSER", "u", "off"]);
        assert!(!running.step() && !running.step());
        asks(None);
        assert_eq!(running.end(), "+OK");
    }

    fn verdict(client: &mut Client, line: &str) -> Verdict {
        let (engine, now) = (client.shared_engine().clone(), client.now());
        let args: Args<'_> = line.split(' ').map(str::as_bytes).collect();
        let entry = dispatch::prepare(&engine, &args).entry().expect("a known command");
        let request = AdmissionRequest::of(&engine, client.session(), entry, &args);
        admit(&engine, client.session(), &request, now)
    }

    fn refused(client: &mut Client, line: &str) -> Option<Error> {
        match verdict(client, line) {
            Verdict::Refuse(error) => Some(error),
            _ => None,
        }
    }

    #[test]
    fn what_is_obeyed_needs_no_password() {
        let client = Client::new();
        let engine = client.shared_engine();
        engine.users().set_default_password(b"secret", crate::core::acl_catalog::rule_context(engine));
        let (mut session, mut reply) = (Session::replay(), resp::Reply::default());
        let mut args: Args<'_> = [&b"no-command"[..]].into_iter().collect();
        dispatch::execute(engine, &mut session, &mut args, client.now(), &mut reply);
        assert!(reply.take().starts_with(b"-ERR unknown command 'no-command'"));
    }

    #[test]
    fn of_several_reasons_clients_are_told_the_one_that_valkey_tells_them() {
        let mut client = Client::new();
        let engine = client.shared_engine().clone();
        let saves = engine.persistence_status();
        client.session().subscriptions = Some(Box::default());
        saves.set_loading(true);
        saves.set_short_of_replicas(true);
        saves.refuse_writes(true);
        saves.set_short_of_memory(true);
        let users = engine.users();
        users.set_default_password(b"secret", crate::core::acl_catalog::rule_context(&engine));
        client.session().authenticated = false;
        assert_eq!(refused(&mut client, "SET k v"), Some(Error::NoAuth));
        users.set_default_password(b"", crate::core::acl_catalog::rule_context(&engine));
        assert_eq!(refused(&mut client, "SET k v"), Some(Error::Oom));
        assert_eq!(refused(&mut client, "DEL k"), Some(Error::SaveFailed));
        assert_eq!(refused(&mut client, "PING"), Some(Error::SaveFailed));
        saves.refuse_writes(false);
        assert_eq!(refused(&mut client, "DEL k"), Some(Error::TooFewReplicas));
        saves.set_short_of_replicas(false);
        assert_eq!(refused(&mut client, "DEL k"), Some(Error::Subscribed(Word::of("del"))));
        client.session().subscriptions = None;
        assert_eq!(refused(&mut client, "DEL k"), Some(Error::Loading));
        assert_eq!(refused(&mut client, "INFO"), None);
        saves.set_loading(false);
        assert_eq!(verdict(&mut client, "DEL k"), Verdict::Run);
    }

    #[test]
    fn a_pause_outlasts_the_change_to_a_replica() {
        let mut client = Client::new();
        let engine = client.shared_engine().clone();
        engine.begin_pause(Paused::Writes, SteadyMs(i64::MAX), SteadyMs(0));
        engine.persistence_status().set_read_only_replica(true);
        assert_eq!(verdict(&mut client, "SET k v"), Verdict::Wait);
        assert_eq!(verdict(&mut client, "GET k"), Verdict::Run);
        engine.end_pause();
        assert_eq!(refused(&mut client, "SET k v"), Some(Error::ReadOnlyReplica));
    }

    #[test]
    fn a_transaction_is_judged_by_what_is_queued() {
        let mut client = Client::new();
        let engine = client.shared_engine().clone();
        client.is("MULTI", "+OK").is("GET k", "+QUEUED");
        engine.persistence_status().refuse_writes(true);
        engine.persistence_status().set_short_of_memory(true);
        assert_eq!(verdict(&mut client, "EXEC"), Verdict::Run);
        engine.persistence_status().set_loading(true);
        assert_eq!(refused(&mut client, "EXEC"), Some(Error::Loading));
        engine.persistence_status().set_loading(false);
        client.is("DISCARD", "+OK");
        engine.persistence_status().refuse_writes(false);
        client.is("MULTI", "+OK").is("DEL k", "+QUEUED");
        assert_eq!(verdict(&mut client, "EXEC"), Verdict::Run);
        engine.persistence_status().refuse_unlogged(true);
        let text = refused(&mut client, "EXEC").map(|error| error.to_string());
        assert!(text.is_some_and(|text| text.starts_with("MISCONF Errors writing to the AOF file")));
    }

    #[test]
    fn a_script_writes_only_where_its_client_could() {
        let mut client = Client::new();
        let engine = client.shared_engine().clone();
        let call = ["EVAL", "redis.call('set', KEYS[1], 1) return redis.call('get', KEYS[1])", "1", "k"];
        engine.persistence_status().refuse_unlogged(true);
        assert!(client.run_words(&call).starts_with("-MISCONF Errors writing to the AOF file"));
        engine.persistence_status().refuse_unlogged(false);
        engine.persistence_status().set_short_of_replicas(true);
        assert!(client.run_words(&call).starts_with("-NOREPLICAS"));
        engine.persistence_status().set_short_of_replicas(false);
        assert_eq!(client.run_words(&call), "1");
    }

    #[test]
    fn what_changes_while_a_command_waits_for_its_locks_holds_for_it() {
        for lines in [&["SET k v"][..], &["MULTI", "SET k v", "EXEC"], &["MULTI", "SORT k STORE k", "EXEC"]] {
            let mut client = Client::new();
            let engine = client.shared_engine().clone();
            let (last, queued) = lines.split_last().expect("one command");
            queued.iter().for_each(|line| drop(client.run(line)));
            let args: Args<'_> = last.split(' ').map(str::as_bytes).collect();
            let prepared = dispatch::prepare(&engine, &args);
            let (entry, now) = (prepared.entry().expect("a known command"), client.now());
            assert_eq!(verdict(&mut client, last), Verdict::Run);
            let run = |client: &mut Client| {
                let (mut args, mut reply) = (last.split(' ').map(str::as_bytes).collect(), resp::Reply::default());
                let flow =
                    dispatch::call(&engine, client.session(), entry, prepared.keys(), &mut args, now, &mut reply);
                assert!(matches!(flow, Flow::NotNow | Flow::Next));
                matches!(flow, Flow::Next)
            };
            engine.begin_pause(Paused::All, SteadyMs(i64::MAX), SteadyMs(0));
            assert!(engine.pass_locks(&mut 0, || false));
            assert!(!run(&mut client), "{last} does not run after the barrier");
            engine.end_pause();
            assert!(!run(&mut client), "{last} was admitted before the pause");
            assert_eq!(engine.len(0), 0);
            assert_eq!(verdict(&mut client, last), Verdict::Run);
            assert!(run(&mut client), "{last} is admitted anew");
        }
    }
}
