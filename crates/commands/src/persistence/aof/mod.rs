//! The append-only file's commands: BGREWRITEAOF, WAITAOF; and the decisions about it at run time.
//!
//! [`persistence::aof`] describes the files. These files decide when they change: `lifecycle.rs` opens them when the
//! server starts and when `appendonly` changes, `replay.rs` reads them, `rewrite.rs` begins a new base. The thread that
//! writes and syncs is the host's; it reports each result to [`wrote`].

mod end_mark;
mod lifecycle;
mod log_health;
mod replay;
mod rewrite;
mod synced_base;
mod wait;

pub use end_mark::mark_end;
use engine::time::{SteadyMs, UnixMs};
pub use lifecycle::{StoppedLog, load_and_begin, stop_at_end};
pub(crate) use lifecycle::{follow, load_again, set_policy, set_timestamps, write_before_loading};
pub use log_health::wrote;
pub use replay::LoadFailed;
pub(crate) use rewrite::is_rewriting;
pub use wait::end_waits;

use crate::core::args::Args;
use crate::core::command::{ADMIN, BLOCKING, Command, Group, NO_ASYNC_LOADING, NO_SCRIPT};
use crate::core::context::Context;
use engine::config::Directive;
use engine::{Engine, Error};
use persistence::aof::journal::Policy;
use persistence::aof::{Aof, State, of};
use std::sync::atomic::Ordering::Relaxed;

pub(crate) const COMMANDS: &[Command] = &[
    Command {
        name: "bgrewriteaof",
        group: Group::Server,
        since: "1.0.0",
        arity: 1,
        categories: &["dangerous"],
        flags: ADMIN.and(NO_SCRIPT).and(NO_ASYNC_LOADING),
        summary: "Asynchronously rewrites the append-only file to disk.",
        complexity: "O(1)",
        run: rewrite_command,
        ..Command::DEFAULT
    },
    Command {
        name: "waitaof",
        group: Group::Generic,
        since: "7.2.0",
        arity: 4,
        categories: &["connection"],
        flags: BLOCKING,
        syntax: "numlocal:int numreplicas:int timeout:int",
        summary: "Blocks until all of the preceding write commands sent by the connection are written to the append-only file of the primary and/or replicas.",
        complexity: "O(1)",
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        run: wait::waitaof,
        ..Command::DEFAULT
    },
];

fn rewrite_command(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    let Some(aof) = of(cx.engine) else { return Err(Error::NoAof) };
    if aof.stats.rewriting.load(Relaxed) {
        // A cancelled rewrite has as good as ended: its thread continues with this one.
        if aof.stats.cancelled.load(Relaxed) {
            aof.stats.scheduled.store(true, Relaxed);
            cx.reply.simple("Background append only file rewriting started");
            return Ok(());
        }
        return Err(Error::AofRewriteRunning);
    }
    // A requested rewrite may be tried at once, however often the last ones failed.
    aof.stats.failures.store(0, Relaxed);
    if cx.engine.persistence_status().is_running() || cx.keys.reaches_all() {
        aof.stats.scheduled.store(true, Relaxed);
        cx.reply.simple("Background append only file rewriting scheduled");
    } else if rewrite::start(cx.engine, aof) {
        cx.reply.simple("Background append only file rewriting started");
    } else {
        return Err(Error::AofRewriteFailed);
    }
    Ok(())
}

/// Milliseconds in a minute.
const MINUTE: i64 = 60_000;
/// Rewrites that fail before the next one has to wait, and how long it waits at most, in minutes.
const FAILURES_ALLOWED: u64 = 3;
const DELAY_MAX: i64 = 60;

/// Begins rewrites that are due. To be called by one thread, some times a second. `now`: the same moment as `now_ms` by
/// the monotonic clock.
pub fn tick(engine: &Engine, now_ms: UnixMs, now: SteadyMs) {
    let Some(aof) = of(engine) else { return };
    let (config, stats) = (engine.config().snapshot(), &aof.stats);
    aof.journal.set_clock(if config.flag(Directive::AOF_TIMESTAMP_ENABLED) { now_ms.seconds() } else { 0 });
    let idle = !stats.rewriting.load(Relaxed)
        && !engine.persistence_status().is_running()
        && !engine.persistence_status().deny_reasons().is_loading()
        && !engine.replication().acknowledgement.is_ending();
    if !idle {
        return;
    }
    if aof.state() == State::Waiting || stats.scheduled.load(Relaxed) || aof.journal.is_in_doubt() {
        if !is_limited(engine, aof, now) {
            rewrite::start(engine, aof);
        }
        return;
    }
    let percentage = config.int(Directive::AUTO_AOF_REWRITE_PERCENTAGE);
    let size = aof.journal.size.load(Relaxed);
    if aof.state() != State::On || percentage <= 0 || size <= config.int(Directive::AUTO_AOF_REWRITE_MIN_SIZE) as u64 {
        return;
    }
    let base = stats.base_size.load(Relaxed).max(1);
    let growth = (u128::from(size) * 100 / u128::from(base)) as i64 - 100;
    if growth >= percentage && !is_limited(engine, aof, now) {
        engine.host().notice(&format!("Starting automatic rewriting of AOF on {growth}% growth"));
        rewrite::start(engine, aof);
    }
}

/// Returns whether so many rewrites failed that the next one has to wait.
fn is_limited(engine: &Engine, aof: &Aof, now: SteadyMs) -> bool {
    let stats = &aof.stats;
    let failures = stats.failures.load(Relaxed);
    if failures < FAILURES_ALLOWED {
        return false;
    }
    let doubled = (failures - FAILURES_ALLOWED).min(6) as u32;
    let minutes = (1i64 << doubled).min(DELAY_MAX);
    let limited = now.since(SteadyMs(stats.failed_at.load(Relaxed))) < minutes * MINUTE;
    if limited && !stats.limit_told.swap(true, Relaxed) {
        engine.host().log(&format!(
            "Background AOF rewrite has repeatedly failed and triggered the limit, will retry in {minutes} minutes"
        ));
    }
    limited
}

/// Returns whether the log is so far behind that it is to be written whatever stands in the way of that.
pub fn is_far_behind(aof: &Aof) -> bool {
    aof.behind() > aof.lag_hold.most()
}

/// Holds writes back while the log is too far behind or has not begun again since a synchronization, and releases them
/// after that; or if they are refused, since it cannot be written. To be called when the log has grown, was written, or
/// is turned on or off, and when the role changes.
pub fn regulate(engine: &Engine, aof: &Aof) {
    let behind = || match aof.state() {
        _ if aof.has_failed() => 0,
        State::Off | State::Waiting if owes_replies(engine, aof) => u64::MAX,
        State::Off => 0,
        _ => aof.behind(),
    };
    engine.regulate_writes(&aof.lag_hold, behind);
}

/// Returns whether no write may be acknowledged because each has to be durable and the log has not begun again since a
/// synchronization. A replica's data is its primary's to keep.
fn owes_replies(engine: &Engine, aof: &Aof) -> bool {
    aof.stats.is_owed.load(Relaxed) && aof.journal.policy() == Policy::Always && !engine.replication().is_replica()
}
