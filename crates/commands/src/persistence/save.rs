//! SAVE, BGSAVE, LASTSAVE: the keyspace into a file, and the decision when that happens by itself.
//!
//! Saving is the same in all ways: a thread of the host's walks a [snapshot](engine::snapshot::captures) while all
//! others serve. SAVE lets only its client wait for the end. One save at a time, and none in the background beside a
//! rewrite of the log, as users know it; [`PersistenceStatus`] records it. Snapshots would allow more.
//!
//! [`PersistenceStatus`]: engine::status::persistence_status::PersistenceStatus

use crate::core::args::Args;
use crate::core::busy_script;
use crate::core::command::{ADMIN, Command, FAST, Group, LOADING, NO_ASYNC_LOADING, NO_MULTI, NO_SCRIPT, STALE};
use crate::core::context::{Blocking, Context};
use crate::persistence::aof;
use crate::persistence::history_fields;
use crate::persistence::write_options::options;
use engine::config::{Config, Directive};
use engine::keyspace::held_locks::LockTimeout;
use engine::status::saved_data_set::SavedIn;
use engine::time::{SteadyMs, UnixUs};
use engine::{Engine, Error};
use persistence::save::SavedSize;
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::Duration;

const SAVING: Command =
    Command { group: Group::Server, since: "1.0.0", categories: &["dangerous"], flags: ADMIN, ..Command::DEFAULT };

pub(crate) const COMMANDS: &[Command] = &[
    Command {
        name: "bgsave",
        arity: -1,
        flags: ADMIN.and(NO_SCRIPT).and(NO_ASYNC_LOADING),
        syntax: "[operation: SCHEDULE@3.2.2 | CANCEL@8.1.0]",
        summary: "Asynchronously saves the database(s) to disk.",
        complexity: "O(1)",
        history: &[("3.2.2", "Added the `SCHEDULE` option."), ("8.1.0", "Added the `CANCEL` option.")],
        run: bgsave,
        ..SAVING
    },
    Command {
        name: "lastsave",
        arity: 1,
        flags: LOADING.and(STALE).and(FAST),
        categories: &["admin", "dangerous"],
        summary: "Returns the Unix timestamp of the last successful save to disk.",
        complexity: "O(1)",
        tips: &["nondeterministic_output"],
        run: lastsave,
        ..SAVING
    },
    Command {
        name: "save",
        arity: 1,
        flags: ADMIN.and(NO_SCRIPT).and(NO_ASYNC_LOADING).and(NO_MULTI),
        summary: "Synchronously saves the database(s) to disk.",
        complexity: "O(N) where N is the total number of keys in all databases",
        run: save_command,
        ..SAVING
    },
];

fn save_command(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    cx.must_be_alone("save")?;
    if cx.engine.persistence_status().is_running() {
        return Err(Error::SaveRunning);
    }
    let waiting = cx.wait_elsewhere(args).ok_or(Error::Failed)?;
    let work = move |engine: &Engine| {
        let outcome = match save_now(engine, Some(LockTimeout::Long)) {
            Ok(()) => Ok("OK"),
            Err(error) if error.kind() == ErrorKind::ResourceBusy => Err(Error::SaveRunning),
            Err(error) if error.kind() == ErrorKind::WouldBlock => Err(busy_script::busy(engine)),
            Err(_) => Err(Error::Failed),
        };
        waiting.end(engine, outcome);
    };
    if let Err(error) = cx.engine.host().in_background(Directive::SERVER_CPULIST, Box::new(work)) {
        cx.engine.host().log(&format!("Error saving DB on disk: {error}"));
        cx.wait_no_more();
        return Err(Error::Failed);
    }
    Ok(())
}

fn lastsave(cx: &mut Context<'_>, _: &mut Args<'_>) -> Result<(), Error> {
    cx.reply.int(cx.engine.persistence_status().last_save.load(Relaxed));
    Ok(())
}

fn bgsave(cx: &mut Context<'_>, args: &mut Args<'_>) -> Result<(), Error> {
    let is_asked = match args.len() {
        1 => false,
        2 if args.is(1, "schedule") => true,
        2 if args.is(1, "cancel") => return cancel(cx),
        _ => return Err(Error::Syntax),
    };
    let saves = cx.engine.persistence_status();
    if saves.is_running() {
        return Err(Error::SaveRunning);
    }
    // Later changes of its transaction are saved, too.
    let in_exec = cx.blocking == Blocking::Refused;
    let waits = in_exec || aof::is_rewriting(cx.engine);
    if waits && (is_asked || in_exec) {
        saves.scheduled.store(true, Relaxed);
        let why = if is_asked { "due to user request" } else { "to run after transaction execution" };
        cx.engine.host().notice(&format!("Background saving scheduled {why}"));
        cx.reply.simple("Background saving scheduled");
        return Ok(());
    }
    if waits {
        return Err(Error::SaveDuringRewrite);
    }
    if !start(cx.engine) {
        return Err(Error::Failed);
    }
    // The count is for clients that ask before the thread has begun.
    let keys = (0..cx.engine.locks().len()).map(|shard| cx.engine.shard_total(shard) as u64).sum();
    let _ = cx.engine.persistence_status().progress.total.compare_exchange(0, keys, Relaxed, Relaxed);
    cx.reply.simple("Background saving started");
    Ok(())
}

fn cancel(cx: &mut Context<'_>) -> Result<(), Error> {
    let saves = cx.engine.persistence_status();
    if saves.is_running_in_background() {
        cx.engine.host().notice("Background saving will be aborted due to user request");
        saves.cancel();
        cx.reply.simple("Background saving cancelled");
    } else if saves.scheduled.swap(false, Relaxed) {
        cx.engine.host().notice("Scheduled background saving will be cancelled due to user request");
        cx.reply.simple("Scheduled background saving cancelled");
    } else {
        return Err(Error::SaveNotRunning);
    }
    Ok(())
}

/// Saves in the calling thread, which waits for locks as long as `patience` allows.
///
/// # Errors
/// `ResourceBusy`: another save is under way. `WouldBlock`: that takes more than `patience`, and nothing was done.
/// Others are those of writing the file, which the log has, too.
pub fn save_now(engine: &Engine, patience: Option<LockTimeout>) -> io::Result<()> {
    let give_up = || patience.is_some_and(|patience| patience.is_over(engine));
    let saves = engine.persistence_status();
    // A caller that cannot have the locks must not count as one that saves.
    let can_begin = engine.stats_unless(give_up).is_some();
    if !can_begin || give_up() && saves.is_running() && !saves.is_running_in_background() {
        return Err(ErrorKind::WouldBlock.into());
    }
    if !saves.begin(None) {
        return Err(ErrorKind::ResourceBusy.into());
    }
    let result = save_to_file(engine, &give_up);
    if let Err(error) = &result
        && error.kind() != ErrorKind::WouldBlock
    {
        engine.host().log(&format!("Error saving DB on disk: {error}"));
    }
    result
}

/// Saves in the calling thread. A save in the background is given up: it would put former data in the place of this
/// file's.
///
/// # Errors
/// The errors of [`save_now`].
pub(crate) fn save_instead(engine: &Engine) -> io::Result<()> {
    let saves = engine.persistence_status();
    loop {
        match save_now(engine, None) {
            Err(error) if error.kind() == ErrorKind::ResourceBusy && !saves.deny_reasons().is_loading() => {
                if saves.is_running_in_background() {
                    saves.cancel();
                }
                engine.host().rest(LOOK);
            }
            done => return done,
        }
    }
}

/// Saves on another thread; false if none is available or a save is under way.
fn start(engine: &Engine) -> bool {
    let host = engine.host();
    if !engine.persistence_status().begin(Some(engine.steady_now())) {
        return false;
    }
    match host.in_background(Directive::BGSAVE_CPULIST, Box::new(save_in_background)) {
        Ok(()) => {
            engine.persistence_status().forks.fetch_add(1, Relaxed);
            host.notice(&format!("Background saving started by pid {}", host.process().id));
            true
        }
        Err(error) => {
            host.log(&format!("Can't save in background: {error}"));
            engine.persistence_status().end(host.unix_us(UnixUs(0)).ms(), engine.steady_now(), None, false);
            false
        }
    }
}

/// Interval of the checks whether a rewrite of the log, or another save, has ended.
const LOOK: Duration = Duration::from_millis(1);

/// Saves in the background. A rewrite of the log that began in the same moment ends first.
fn save_in_background(engine: &Engine) {
    while aof::is_rewriting(engine) && !engine.persistence_status().is_cancelled() {
        engine.host().rest(LOOK);
    }
    match save_to_file(engine, &|| false) {
        Ok(()) => engine.host().notice("Background saving terminated with success"),
        Err(error) if error.kind() == ErrorKind::Interrupted => {
            engine.host().log("Background saving terminated by signal 10");
        }
        Err(error) => engine.host().log(&format!("Background saving error: {error}")),
    }
}

/// Saves for a caller that has the right to, and returns the right.
fn save_to_file(engine: &Engine, give_up: &dyn Fn() -> bool) -> io::Result<()> {
    let stats = engine.stats_unless(give_up).ok_or(io::Error::from(ErrorKind::WouldBlock));
    let result = stats.and_then(|stats| write(engine, give_up).map(|_| stats.dirty));
    let cancelled = matches!(&result, Err(error) if error.kind() == ErrorKind::Interrupted);
    let now = engine.host().unix_us(UnixUs(0)).ms();
    engine.persistence_status().end(now, engine.steady_now(), result.as_ref().ok().copied(), cancelled);
    refresh(engine, &engine.config().snapshot());
    result?;
    engine.host().notice("DB saved on disk");
    Ok(())
}

fn write(engine: &Engine, give_up: &dyn Fn() -> bool) -> io::Result<SavedSize> {
    let config = engine.config().snapshot();
    let in_steps = config.flag(Directive::RDB_SAVE_INCREMENTAL_FSYNC);
    let mut file = engine.host().create_file(config.text(Directive::DBFILENAME), in_steps)?;
    let data_sets = &engine.replication().data_sets;
    let number = data_sets.present();
    let written = history_fields::begin(engine, &options(engine, &config, false), give_up)?.write(&mut *file)?;
    file.commit()?;
    data_sets.save(SavedIn::Snapshot, number);
    Ok(written)
}

/// Milliseconds before a save that failed is tried again by itself.
const RETRY: i64 = 6000;

/// Begins scheduled saves, and those that save points demand. To be called by one thread, some times a second.
pub fn tick(engine: &Engine, now: SteadyMs) {
    let (saves, config) = (engine.persistence_status(), engine.config().snapshot());
    refresh(engine, &config);
    if saves.is_running() || saves.deny_reasons().is_loading() || aof::is_rewriting(engine) {
        return;
    }
    if saves.scheduled.swap(false, Relaxed) {
        start(engine);
        return;
    }
    let points = config.save_points();
    let span_from = |at: &AtomicI64| now.since(SteadyMs(at.load(Relaxed)));
    let since = span_from(&saves.saved_at) / 1000;
    if saves.has_failed() && span_from(&saves.tried_at) < RETRY || !points.iter().any(|p| since > p.seconds) {
        return;
    }
    // Clients are not to wait for a long script because of this.
    let Some(stats) = engine.stats_unless(|| engine.scripts().is_long()) else { return };
    let changes = stats.dirty.saturating_sub(saves.changes.load(Relaxed));
    if let Some(point) = points.iter().find(|point| since > point.seconds && changes >= point.changes.max(0) as u64) {
        let text = format!("{} changes in {} seconds. Saving...", point.changes, point.seconds);
        engine.host().notice(&text);
        start(engine);
    }
}

/// Updates whether writes are refused, which depends on the last save and on the configuration.
pub fn refresh(engine: &Engine, config: &Config) {
    let refuse = engine.persistence_status().has_failed()
        && config.flag(Directive::STOP_WRITES_ON_BGSAVE_ERROR)
        && !config.save_points().is_empty();
    engine.persistence_status().refuse_writes(refuse);
}
