//! Runs a batch: the commands of one connection after the other.
//!
//! Most commands need nothing but themselves. A command is *plain* if it works on one key and leaves its client as it
//! is ([`CommandEntry::is_plain`]); a client is plain if its user may do everything, it is in no transaction, and gets
//! its replies and nothing else ([`Session::is_plain`]). For plain commands of a plain client that follow each other
//! most of the steps that [`dispatch::run`] takes once a command are taken once for all:
//!
//! ```text
//!   once        context, place of the statistics (again where the command changes)
//!   each time   what others may have changed meanwhile - lock - handler - log - unlock - effects - clock, statistics
//! ```

use crate::batch::item::{BatchItem, ItemKind};
use crate::batch::prefetch::Prefetcher;
use crate::core::args::{Args, RetainedArgs};
use crate::core::command::{Command, CommandEntry, READONLY};
use crate::core::context::{Blocking, Context, Flow, Now, Work};
use crate::core::dispatch::{self, run_held};
use crate::core::instrument;
use crate::core::session::LendingMode;
use crate::core::session::Session;
use engine::Engine;
use engine::clients::pubsub::Backlog;
use engine::keyspace::caller::Caller;
use engine::keyspace::held_locks::{HeldLocks, LockTimeout};
use engine::keyspace::keys::Keys;
use engine::stats::metrics::{CommandStats, WorkerMetrics};
use engine::status::deny_reasons::DenyReasons;
use engine::time::Nanos;
use resp::{ProtocolError, Reply, Span};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

/// Runs requests of one connection.
pub struct BatchRun<'r> {
    /// The engine with the data.
    pub engine: &'r Engine,
    /// The connection's client.
    pub session: &'r mut Session,
    /// The worker's prefetcher, which asks for the memory of the keys ahead.
    pub prefetcher: &'r mut Prefetcher,
    /// The time at which all of these requests run.
    pub now: Now,
    /// The sink of the replies, one after the other.
    pub reply: &'r mut Reply,
    /// Bytes in the sink of replies after which the run ends.
    pub reply_max: usize,
    /// Reading of the worker's clock at which the run is to end: other clients have waited for long enough.
    pub until: Nanos,
    /// Memory is limited.
    pub is_limited: bool,
    /// A script or a long command has the thread: only commands whose locks are free are run.
    pub is_lent: bool,
}

/// The reason that a run ended.
pub enum BatchEnd {
    /// The connection has no more requests here, or the next one is for another run.
    Next,
    /// The last command's outcome.
    Flow(Flow),
    /// The last command is chunked and continues later.
    Chunked(Work, &'static Command),
    /// The last request had no effect and is to be run again.
    BlockedCommand {
        /// After the pause that is on; otherwise a little later.
        is_postponed: bool,
    },
    /// The last request breaks the protocol, and the error is replied.
    Violation(ProtocolError),
    /// Much was replied, or it took long: the next request is to wait for others.
    Full,
    /// The next request cannot run now, and is to be tried a little later.
    Later,
    /// The next request is to be run apart from its connection, and by itself: it may run a script, or is long.
    Apart,
}

impl BatchRun<'_> {
    /// Runs the requests at the front of `items` that belong to the first one's connection, which may run commands, up
    /// to one whose outcome is more than a reply. Returns how many are finished.
    #[inline]
    pub fn run(&mut self, items: &mut [BatchItem<'_>], spans: &[Span]) -> (usize, BatchEnd) {
        let Some(token) = items.first().map(|item| item.token) else { return (0, BatchEnd::Next) };
        let mut done = 0;
        while items.get(done).is_some_and(|item| item.token == token) {
            let is_plain = self.session.is_plain(self.engine) && !self.is_lent;
            if is_plain {
                let (ran, flow) = self.run_plain(&items[done..], spans);
                done += ran;
                if !matches!(flow, Flow::Next) {
                    return self.or_apart(done, end(flow, items[done - 1].entry()));
                }
                // The flow owns nothing, which the compiler does not know at the drop.
                std::mem::forget(flow);
            }
            let left = &mut items[done..];
            if !is_plain {
                self.prefetcher.at(self.engine, left, spans);
            }
            let Some(item) = left.first_mut().filter(|item| item.token == token) else { break };
            if item.is_done() {
                done += 1;
                continue;
            }
            if let Some(end) = self.stop_before(item, done) {
                return (done, end);
            }
            done += 1;
            let end = self.run_one(item, spans);
            if !matches!(end, BatchEnd::Next) || self.must_deliver(item) || self.session.is_newly_authenticated() {
                return self.or_apart(done, end);
            }
        }
        (done, BatchEnd::Next)
    }

    /// Returns the end of the run, unless the last command has asked to be run apart.
    fn or_apart(&mut self, done: usize, end: BatchEnd) -> (usize, BatchEnd) {
        if self.session.yielding != LendingMode::Requested {
            return (done, end);
        }
        self.session.yielding = LendingMode::OnRequest;
        match end {
            // While another command has the thread, the request is run later.
            BatchEnd::BlockedCommand { .. } if !self.is_lent => (done - 1, BatchEnd::Apart),
            end => (done, end),
        }
    }

    /// Returns the reason that the run has to end before this request, if there is one.
    fn stop_before(&self, item: &BatchItem<'_>, done: usize) -> Option<BatchEnd> {
        let (engine, runs_scripts) = (self.engine, item.runs_scripts());
        let has_own = engine.pubsub().has_own(self.session.worker);
        if done > 0 && (runs_scripts || self.is_limited || has_own && !item.publishes()) {
            return Some(BatchEnd::Next);
        }
        let is_late = done > 0 && engine.metrics()[self.session.worker].clock() > self.until;
        if self.reply.wire_len() > self.reply_max || is_late {
            return Some(BatchEnd::Full);
        }
        let must_not_push = engine.persistence_status().deny_reasons().is_congested() && item.may_push(engine);
        let backlog = engine.pubsub().backlog();
        let awaits_nodes = backlog != Backlog::Little && item.awaits_nodes(backlog, self.session.queued_flags());
        if must_not_push || awaits_nodes || self.is_lent && !item.runs_meanwhile() {
            return Some(BatchEnd::Later);
        }
        runs_scripts.then_some(BatchEnd::Apart)
    }

    /// Returns whether messages have to go out after this request. A client's messages go out together, unless the
    /// client receives messages itself.
    fn must_deliver(&self, item: &BatchItem<'_>) -> bool {
        self.engine.pubsub().has_own(self.session.worker) && (self.session.is_told() || !item.publishes())
    }

    /// Runs any request.
    #[inline(always)]
    fn run_one(&mut self, item: &mut BatchItem<'_>, spans: &[Span]) -> BatchEnd {
        let (engine, session, now) = (self.engine, &mut *self.session, self.now);
        let reply = &mut *self.reply;
        let is_read = item.entry().is_some_and(|entry| entry.command.flags.has(READONLY)) && !item.runs_scripts();
        let flow = match &mut item.kind {
            ItemKind::Violation(error) => {
                engine.metrics()[session.worker].count_error(b"ERR Protocol error");
                reply.protocol_error(error);
                return BatchEnd::Violation(*error);
            }
            ItemKind::Done => Flow::Next,
            ItemKind::Command { .. } | ItemKind::Queued { .. } => {
                if let Some(entry) = item.entry() {
                    session.info.last_command.store(entry.id + 1, Relaxed);
                }
                // A read's reply goes to the client as it is; those of transactions and scripts are read first.
                reply.set_may_share(is_read);
                let run =
                    |prepared: &_, args: &mut Args<'_>| dispatch::run(engine, session, prepared, args, now, reply);
                let flow = item.call(spans, run).unwrap_or_default();
                reply.set_may_share(false);
                flow
            }
        };
        if !matches!(flow, Flow::RetryLater | Flow::Postponed) {
            self.session.patience = LockTimeout::Short;
        }
        if let Flow::Next = flow { BatchEnd::Next } else { end(flow, item.entry()) }
    }

    /// Runs the plain commands at the front of `items`, of a plain client, up to one whose outcome is not
    /// [`Flow::Next`]. Returns how many there were, and the last one's outcome.
    #[inline(never)]
    fn run_plain(&mut self, items: &[BatchItem<'_>], spans: &[Span]) -> (usize, Flow) {
        let Some(mut last) = items.first().and_then(BatchItem::entry) else { return (0, Flow::Next) };
        let (engine, now, reply_max, until) = (self.engine, self.now, self.reply_max, self.until);
        let (token, first, mut items) = (items[0].token, items[0].bytes, items.iter());
        let (session, prefetcher) = (&mut *self.session, &mut *self.prefetcher);
        // The epoch is read before the gate admits a command: at worst the command is admitted anew.
        let admitted = engine.epoch();
        let own = engine.pubsub().own(session.worker);
        let is_primary = matches!(session.caller, Caller::Primary | Caller::Migration);
        let rights = if is_primary { engine.users().generation() } else { session.open_at };
        let is_sent_on = session.info.redirects.load(Relaxed);
        let (worker, is_limited) = (session.worker, self.is_limited);
        let reads_replicas = session.info.read_only.load(Relaxed);
        let gate = Gate { engine, worker, own, rights, is_limited, is_primary, is_sent_on, reads_replicas };
        let worker = &engine.metrics()[session.worker];
        let (db, patience) = (session.db, session.patience);
        let mut keys = Keys::new(engine, HeldLocks::Nothing, db, session.origin(engine, now));
        keys.set_no_touch(session.no_touch);
        keys.set_patience(patience);
        keys.set_admitted(admitted);
        let mut stats = turn_to(last, session, worker);
        worker.running.begin_requests(first);
        let mut cx = Context::new(engine, keys, session, last.command, now, &mut *self.reply);
        cx.blocking = Blocking::Allowed;
        cx.reply.set_may_share(true);
        let mut ran = 0;
        while cx.reply.wire_len() <= reply_max && (ran == 0 || worker.clock() <= until) {
            prefetcher.at(engine, items.as_slice(), spans);
            let next = items.next().filter(|item| item.token == token && gate.is_open(item));
            let Some(plain) = next.and_then(|item| item.plain(spans)) else { break };
            ran += 1;
            if !std::ptr::eq(last, plain.entry) {
                last = plain.entry;
                stats = turn_to(last, cx.session, worker);
                cx.command = last.command;
            }
            worker.running.begin_request(plain.bytes);
            let mut args = Args::request(plain.bytes, plain.spans, RetainedArgs::default());
            let start = instrument::begin_counted(worker, stats, &args, cx.reply);
            let shard = plain.key[0].1.shard();
            let guard = engine.locks().one_unless(shard, patience.from_now(engine));
            // Under the lock: the state there since a later epoch applies to the command.
            let Some(guard) = guard.filter(|shard| shard.admits(admitted)) else {
                cx.flow = Flow::RetryLater;
                break;
            };
            cx.keys.begin_with(shard, guard, db);
            cx.key_args = plain.key;
            if run_held(engine, &mut cx, &mut args, db) {
                stats.failed.add(1);
            }
            if matches!(cx.flow, Flow::RetryLater) {
                break;
            }
            instrument::end(engine, cx.session, last, &args, start, now, &cx.flow, cx.reply);
            if !matches!(cx.flow, Flow::Next) {
                break;
            }
        }
        cx.reply.set_may_share(false);
        let flow = std::mem::take(&mut cx.flow);
        // The context's values have all been taken out.
        debug_assert!(cx.applying.is_none());
        std::mem::forget(cx);
        (ran, flow)
    }
}

/// Checks before each plain command: only the state that other threads may have changed since the last one.
/// [`dispatch::run`] checks everything else that a command may have to wait for.
struct Gate<'e> {
    engine: &'e Engine,
    worker: usize,
    /// Set while there are messages of this worker's for its own clients.
    own: &'e AtomicBool,
    /// The number of changes of users at which the client's user may do everything.
    rights: u64,
    is_limited: bool,
    /// The client is the stream of the followed primary.
    is_primary: bool,
    /// The client follows redirections.
    is_sent_on: bool,
    /// In a cluster the client reads from replicas.
    reads_replicas: bool,
}

impl Gate<'_> {
    #[inline(always)]
    fn is_open(&self, item: &BatchItem<'_>) -> bool {
        let reasons = self.engine.persistence_status().deny_reasons();
        (reasons.is_limit_only() || self.is_open_to(item, reasons))
            && self.rights == self.engine.users().generation()
            && !self.engine.scripts().is_busy()
            && !self.own.load(Relaxed)
            && (!self.is_limited || self.has_room(item))
    }

    /// Checks a command on a server that follows another one, or is one of a cluster.
    #[inline(never)]
    fn is_open_to(&self, item: &BatchItem<'_>, reasons: DenyReasons) -> bool {
        if self.is_primary {
            return reasons.lets_primary_run();
        }
        if !reasons.is_clustered() {
            return !self.is_sent_on && item.reads() && reasons.lets_reads_run();
        }
        let Some((_, key)) = item.keys().0.first() else { return false };
        let cluster = self.engine.cluster();
        match reasons.is_clustered_only() {
            true => cluster.serves(key.slot()),
            false => {
                self.reads_replicas && cluster.serves_reads(key.slot()) && item.reads() && reasons.lets_reads_run()
            }
        }
    }

    #[inline(never)]
    fn has_room(&self, item: &BatchItem<'_>) -> bool {
        item.reads() && !self.engine.memory_limit().is_over() || self.engine.has_room(self.worker)
    }
}

/// Sets the entry of the commands from here on. Returns their statistics.
#[inline(never)]
fn turn_to<'e>(entry: &CommandEntry, session: &Session, worker: &'e WorkerMetrics) -> &'e CommandStats {
    session.info.last_command.store(entry.id + 1, Relaxed);
    instrument::stats(worker, entry)
}

/// Returns the end of a run for a command with this outcome.
#[cold]
fn end(flow: Flow, entry: Option<&'static CommandEntry>) -> BatchEnd {
    match (flow, entry) {
        (Flow::Next, _) => BatchEnd::Next,
        (Flow::RetryLater, _) => BatchEnd::BlockedCommand { is_postponed: false },
        (Flow::Postponed, _) => BatchEnd::BlockedCommand { is_postponed: true },
        (Flow::More(work), Some(entry)) => BatchEnd::Chunked(work, entry.command),
        (flow, _) => BatchEnd::Flow(flow),
    }
}
