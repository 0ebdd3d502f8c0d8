//! Commands in a row that have nothing to them but themselves, as nearly all have.
//!
//! A command is *plain* if it works on one key and leaves its client as it is ([`Entry::is_plain`]); a client is
//! *steady* if it is authenticated, in no transaction, and gets its replies and nothing else ([`Session::is_steady`]).
//! For plain commands of a steady client most of what [`dispatch::run`](crate::core::dispatch::run) does once a
//! command is done once a row:
//!
//! ```text
//!   once        context, place of the statistics (again where the command changes)
//!   each time   lock - handler - log - unlock - effects - clock, statistics
//! ```
//!
//! Whether the server lets commands run is for the caller to see before each command.

use crate::core::args::{Args, OwnWords};
use crate::core::context::{Cx, Flow, Now};
use crate::core::dispatch::run_held;
use crate::core::instrument;
use crate::core::session::Session;
use crate::core::table::Entry;
use crate::transactions::blocking::Blocking;
use engine::Engine;
use engine::data::key_hash::KeyHash;
use engine::keyspace::held_locks::Held;
use engine::keyspace::keys::Keys;
use engine::keyspace::origin::Origin;
use engine::stats::metrics::{CommandStats, WorkerMetrics};
use resp::{Reply, Span};
use std::sync::atomic::Ordering::Relaxed;

/// A plain command whose arguments own nothing.
pub struct Plain<'e, 'b> {
    pub entry: &'static Entry,
    pub key: &'e [(usize, KeyHash); 1],
    /// The request, and where its arguments lie in it.
    pub bytes: &'b [u8],
    pub spans: &'b [Span],
}

/// Runs the plain commands that `next` gives for a steady client, of which the first has the entry `last`, up to one
/// that comes to more than [`Flow::Next`] or leaves more than `reply_max` bytes in the sink of replies. Returns how
/// many there were, and what the last one came to.
#[inline(always)]
pub fn run_row<'e, 'b>(
    engine: &'e Engine,
    session: &'e mut Session,
    now: Now,
    reply: &'e mut Reply,
    reply_max: usize,
    mut last: &'static Entry,
    mut next: impl FnMut() -> Option<Plain<'e, 'b>>,
) -> (usize, Flow) {
    let host = engine.host();
    let worker = &engine.metrics()[session.worker];
    let (db, patience) = (session.db, session.patience);
    let mut keys = Keys::new(engine, Held::Nothing, db, Origin::client(now.unix_ms()));
    keys.set_no_touch(session.no_touch);
    keys.set_patience(patience);
    let mut stats = turn_to(last, session, worker);
    let (flow, blocking, command) = (Flow::Next, Blocking::Allowed, last.command);
    let mut cx = Cx { engine, keys, reply, session, command, now, flow, blocking, key_args: &[] };
    let (mut ran, mut calls) = (0, instrument::Row::default());
    while cx.reply.len() <= reply_max
        && let Some(plain) = next()
    {
        ran += 1;
        if !std::ptr::eq(last, plain.entry) {
            calls.count(engine, cx.session, worker, stats);
            last = plain.entry;
            stats = turn_to(last, cx.session, worker);
            cx.command = last.command;
        }
        let mut args = Args::request(plain.bytes, plain.spans, OwnWords::default());
        let start = instrument::begin_counted(worker, stats, &args, cx.reply);
        let shard = plain.key[0].1.shard();
        let Some(guard) = engine.locks().one_unless(shard, patience.from_now(engine)) else {
            cx.flow = Flow::NotNow;
            break;
        };
        // Under the lock: what has begun to hold since the command was let in holds for it.
        if !engine.saves().deny_reasons().is_limit_only() {
            cx.flow = Flow::NotNow;
            break;
        }
        cx.keys.begin_with(shard, guard, db);
        cx.key_args = plain.key;
        if run_held(engine, &mut cx, &mut args, db) {
            stats.failed.add(1);
        }
        if !matches!(cx.flow, Flow::Next) {
            if !matches!(cx.flow, Flow::NotNow) {
                instrument::end(engine, cx.session, last, &args, start, now, &cx.flow, cx.reply);
            }
            break;
        }
        instrument::end_next(engine, host, cx.session, last, &args, start, now, cx.reply, &mut calls);
    }
    calls.count(engine, cx.session, worker, stats);
    (ran, std::mem::take(&mut cx.flow))
}

/// The commands from here on are of this entry. Returns where they are counted.
#[inline(never)]
fn turn_to<'e>(entry: &Entry, session: &Session, worker: &'e WorkerMetrics) -> &'e CommandStats {
    session.info.last_command.store(entry.id + 1, Relaxed);
    instrument::stats(worker, entry)
}
