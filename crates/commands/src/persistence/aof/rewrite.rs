//! Rewriting: a new base of the present moment, and a new file for the records after it.
//!
//! ```text
//!   the next file of changes is opened and listed - the cut: the journal turns to it - the base is written -
//!   the manifest names the new base and the new file alone - the others are removed
//! ```
//!
//! A log that is being turned on has no base to fall back on: its first file of changes has a temporary name until
//! there is a base.

use super::log_health::{refuse_until_on, wrote};
use crate::persistence::write_options;
use engine::Engine;
use engine::config::{Config, Directive, os_message};
use engine::keyspace::record::LogUser;
use engine::status::saved_data_set::SavedIn;
use engine::time::UnixUs;
use persistence::aof::journal::JournalTarget;
use persistence::aof::rewrite::{self, RewriteOptions};
use persistence::aof::{Aof, State, of};
use persistence::save::save_with;
use std::io::{self, ErrorKind};
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::time::Duration;

/// Begins a rewrite on another thread; false if that is impossible. The files of a server that ends stay as they are:
/// a tick begins the rewrite if the server goes on after all.
pub fn start(engine: &Engine, aof: &Aof) -> bool {
    let (host, stats) = (engine.host(), &aof.stats);
    if stats.rewriting.swap(true, SeqCst) {
        return false;
    }
    if engine.replication().acknowledgement.is_ending() {
        stats.scheduled.store(true, Relaxed);
        stats.rewriting.store(false, Relaxed);
        return true;
    }
    stats.scheduled.store(false, Relaxed);
    stats.started_at.store(engine.steady_now().0.max(1), Relaxed);
    match host.in_background(Directive::AOF_REWRITE_CPULIST, Box::new(run)) {
        Ok(()) => {
            engine.persistence_status().forks.fetch_add(1, Relaxed);
            true
        }
        Err(error) => {
            host.log(&format!("Can't rewrite append only file in background: {}", os_message(&error)));
            stats.rewriting.store(false, Relaxed);
            stats.started_at.store(0, Relaxed);
            false
        }
    }
}

fn run(engine: &Engine) {
    let Some(aof) = of(engine) else { return };
    while attempt(engine, aof) {}
}

/// Attempts a rewrite; true if it was given up, and is to begin anew.
fn attempt(engine: &Engine, aof: &Aof) -> bool {
    let (host, stats) = (engine.host(), &aof.stats);
    let result = rewrite(engine, aof);
    let now = engine.steady_now();
    let began = stats.started_at.swap(0, Relaxed);
    stats.last_seconds.store((now.0 - began).max(0) / 1000 + 1, Relaxed);
    match &result {
        Ok(()) => {
            host.notice("Background AOF rewrite finished successfully");
            stats.rewrites.fetch_add(1, Relaxed);
            stats.failures.store(0, Relaxed);
            stats.limit_told.store(false, Relaxed);
            stats.last_failed.store(false, Relaxed);
        }
        Err(error) if error.kind() == ErrorKind::ResourceBusy => stats.scheduled.store(true, Relaxed),
        Err(error) if error.kind() == ErrorKind::Interrupted => {
            host.log("Background AOF rewrite terminated by signal 10");
        }
        Err(error) => {
            host.log(&format!("Background AOF rewrite terminated with error: {}", os_message(error)));
            stats.failures.fetch_add(1, Relaxed);
            stats.failed_at.store(now.0, Relaxed);
            stats.limit_told.store(false, Relaxed);
            stats.last_failed.store(true, Relaxed);
            refuse_until_on(engine, aof, error);
        }
    }
    // A cancellation holds this lock, too, so that it never hits a rewrite that has ended.
    let _switch = aof.switch.lock();
    engine.persistence_status().cancel_rewrite(false);
    let is_ending = engine.replication().acknowledgement.is_ending();
    let again = stats.cancelled.swap(false, Relaxed) && !is_ending && stats.scheduled.swap(false, Relaxed);
    match again {
        true => stats.started_at.store(now.0.max(1), Relaxed),
        false => stats.rewriting.store(false, Relaxed),
    }
    if !engine.persistence_status().is_running() {
        engine.persistence_status().progress.reset();
    }
    again
}

/// Makes the rewrite that is under way end early, if there is one. [`Aof::switch`] must be held.
pub fn cancel(engine: &Engine, aof: &Aof) {
    if aof.stats.rewriting.load(Relaxed) {
        aof.stats.cancelled.store(true, Relaxed);
        engine.persistence_status().cancel_rewrite(true);
    }
}

fn rewrite(engine: &Engine, aof: &Aof) -> io::Result<()> {
    let (host, state) = (engine.host(), aof.state());
    if engine.persistence_status().is_running_in_background() {
        // The save began in the same moment, and goes first.
        return Err(ErrorKind::ResourceBusy.into());
    }
    let config = engine.config().snapshot();
    let mut next = match state {
        State::On => Some(open_next(engine, aof)?),
        State::Waiting => Some(open_temporary(engine, aof)?),
        State::Off => None,
    };
    host.notice(&format!("Background append only file rewriting started by pid {}", host.process().id));
    let temporary = format!("temp-rewriteaof-bg-{}.aof", host.process().id).into_bytes();
    let mut cut_at = 0;
    let mut begin = || {
        cut_at = aof.journal.appended();
        if let Some(target) = next.take() {
            match state {
                State::Waiting => {
                    aof.journal.begin(target);
                    engine.set_logging(LogUser::File, true);
                }
                _ => aof.journal.turn_to(target),
            }
        }
    };
    let rdb = wants_rdb(&config);
    let data_sets = &engine.replication().data_sets;
    let number = data_sets.present();
    let result = write_base(engine, &config, rdb, &temporary, &mut begin).and_then(|()| {
        let names = String::from_utf8_lossy(&temporary).into_owned();
        host.notice(&format!("Successfully created the temporary AOF base file {names}"));
        finish(engine, aof, rdb, &temporary)
    });
    if result.is_ok() {
        data_sets.save(SavedIn::Log, number);
        aof.journal.settle(cut_at);
    } else {
        // The first error is the one reported.
        let _ = aof.storage.remove(&temporary);
        if state == State::Waiting {
            abandon(engine, aof);
        }
    }
    result
}

/// Opens the next file of changes, which is part of the log before it has a record.
fn open_next(engine: &Engine, aof: &Aof) -> io::Result<JournalTarget> {
    let mut manifest = aof.manifest.lock().clone();
    let entry = manifest.add_incr(aof.file());
    let target = aof.new_target(&entry.name)?;
    aof.adopt(manifest)?;
    tell_opened(engine, &entry.name);
    Ok(target)
}

fn open_temporary(engine: &Engine, aof: &Aof) -> io::Result<JournalTarget> {
    let name = aof.temporary_incr();
    aof.storage.create_dir(aof.dir())?;
    match aof.storage.remove(&aof.path(&name)) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let target = aof.target(&name)?;
    tell_opened(engine, &name);
    Ok(target)
}

fn tell_opened(engine: &Engine, name: &[u8]) {
    let name = String::from_utf8_lossy(name);
    engine.host().notice(&format!("Creating AOF incr file {name} on background rewrite"));
}

/// Writes a base file; durable when this returns.
pub fn write_base(
    engine: &Engine,
    config: &Config,
    rdb: bool,
    name: &[u8],
    at_snapshot: &mut dyn FnMut(),
) -> io::Result<()> {
    let mut file = engine.host().create_file(name, config.flag(Directive::AOF_REWRITE_INCREMENTAL_FSYNC))?;
    if rdb {
        let options = write_options::options(engine, config, true);
        save_with(engine, &options, at_snapshot, &mut *file)?;
    } else {
        let seconds = engine.host().unix_us(UnixUs(0)).seconds();
        let options = RewriteOptions {
            stamp: config.flag(Directive::AOF_TIMESTAMP_ENABLED).then_some(seconds),
            delay: Duration::from_micros(config.int(Directive::RDB_KEY_SAVE_DELAY).max(0) as u64),
        };
        rewrite::write(engine, &options, at_snapshot, &mut *file)?;
    }
    file.commit()
}

/// Puts the new base in the place of the files before it.
fn finish(engine: &Engine, aof: &Aof, rdb: bool, temporary: &[u8]) -> io::Result<()> {
    // No thread turns the log on or off in the meantime.
    let _switch = aof.switch.lock();
    if aof.stats.cancelled.load(Relaxed) {
        return Err(ErrorKind::Interrupted.into());
    }
    let host = engine.host();
    host.notice("Background AOF rewrite terminated with success");
    let mut manifest = aof.manifest.lock().clone();
    let base = manifest.replace_base(aof.file(), rdb);
    let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    aof.storage.create_dir(aof.dir())?;
    aof.storage.rename(temporary, &aof.path(&base.name))?;
    host.notice(&format!(
        "Successfully renamed the temporary AOF base file {} into {}",
        shown(temporary),
        shown(&base.name)
    ));
    let state = aof.state();
    match state {
        State::On => manifest.retire_incr(1),
        State::Off => manifest.retire_incr(0),
        State::Waiting => {
            manifest.retire_incr(0);
            let (from, entry) = (aof.temporary_incr(), manifest.add_incr(aof.file()));
            aof.storage.rename(&aof.path(&from), &aof.path(&entry.name))?;
            host.notice(&format!(
                "Successfully renamed the temporary AOF incr file {} into {}",
                shown(&from),
                shown(&entry.name)
            ));
        }
    }
    aof.adopt(manifest)?;
    if state == State::Waiting {
        aof.set_state(State::On);
        if aof.stats.is_owed.swap(false, Relaxed) {
            wrote(engine, aof, aof.attempt(), &Ok(()));
            super::regulate(engine, aof);
        }
    }
    tidy(engine, aof);
    Ok(())
}

/// Looks at the files of a log that is complete, and removes those that are not part of it any more. A removal that
/// fails is tried again after the next rewrite.
pub fn tidy(engine: &Engine, aof: &Aof) {
    let is_kept = engine.config().snapshot().flag(Directive::AOF_DISABLE_AUTO_GC);
    let result = aof.total_size().and_then(|size| {
        aof.journal.size.store(size, Relaxed);
        aof.stats.base_size.store(size, Relaxed);
        let tell = |name: &[u8]| {
            let name = String::from_utf8_lossy(name);
            engine.host().notice(&format!("Removing the history file {name} in the background"));
        };
        if is_kept { Ok(()) } else { aof.drop_history(tell) }
    });
    if let Err(error) = result {
        engine.host().log(&format!("Error removing AOF history files: {}", os_message(&error)));
    }
}

/// Abandons the log that was to begin.
fn abandon(engine: &Engine, aof: &Aof) {
    engine.set_logging(LogUser::File, false);
    aof.journal.end();
    let name = aof.temporary_incr();
    let shown = String::from_utf8_lossy(&name).into_owned();
    engine.host().notice(&format!("Removing the temp incr aof file {shown} in the background"));
    // The file is made anew with the next attempt.
    let _ = aof.storage.remove(&aof.path(&name));
}

/// Returns whether a new base is being written.
pub(crate) fn is_rewriting(engine: &Engine) -> bool {
    of(engine).is_some_and(|aof| aof.stats.rewriting.load(Relaxed))
}

/// Returns whether a base is to be in the snapshots' format.
pub(super) fn wants_rdb(config: &Config) -> bool {
    config.flag(Directive::AOF_USE_RDB_PREAMBLE)
}
