//! The log when the server starts and ends, and when `appendonly` changes.

use super::log_health::refuse_until_on;
use super::replay::{LoadFailed, load_files};
use super::rewrite::wants_rdb;
use super::rewrite::{cancel, start, tidy, write_base};
use super::synced_base;
use engine::Engine;
use engine::config::{Config, Directive, os_message};
use engine::keyspace::record::LogUser;
use engine::time::UnixUs;
use persistence::aof::journal::Policy;
use persistence::aof::{Aof, State, of};
use std::io;
use std::sync::atomic::Ordering::Relaxed;

/// Turns the log on or off by the configuration. A step that takes all locks is left for later in a transaction, which
/// has some. While another data set comes the log stays off: [`StoppedLog`] looks at the configuration at its end. An
/// error is for the client that changed it.
pub fn follow(engine: &Engine, config: &Config, in_transaction: bool) -> Result<(), String> {
    let Some(aof) = of(engine) else { return Ok(()) };
    let switch = aof.switch.lock();
    match (config.flag(Directive::APPENDONLY), aof.state() == State::Off) {
        (true, true) if !switch.is_stopped => turn_on(engine, aof, in_transaction)?,
        (false, false) => turn_off(engine, aof),
        _ => {}
    }
    Ok(())
}

/// Sets whether the log has remarks of the time from now on.
pub(crate) fn set_timestamps(engine: &Engine, config: &Config) {
    if let Some(aof) = of(engine) {
        let seconds = engine.host().unix_us(UnixUs(0)).seconds();
        aof.journal.set_clock(if config.flag(Directive::AOF_TIMESTAMP_ENABLED) { seconds } else { 0 });
    }
}

/// Sets when the log is synced from now on. Held replies may not have to wait any more.
pub(crate) fn set_policy(engine: &Engine, config: &Config) {
    if let Some(aof) = of(engine) {
        aof.journal.set_policy(policy(config));
        super::regulate(engine, aof);
        engine.host().log_changed();
    }
}

/// Writes records that the log does not have yet, before the present data makes way for that of the log. Nothing may be
/// logged meanwhile.
pub(crate) fn write_before_loading(engine: &Engine) -> Result<(), LoadFailed> {
    of(engine).map_or(Ok(()), |aof| aof.journal.write()).map_err(|error| {
        engine.host().log(&format!("Error writing to the AOF file: {}", os_message(&error)));
        LoadFailed
    })
}

/// Reads the log once more, in the place of the present data (DEBUG LOADAOF). Nothing may be logged meanwhile.
pub(crate) fn load_again(engine: &Engine) -> Result<(), LoadFailed> {
    let Some(aof) = of(engine) else { return Ok(()) };
    let is_there = load_files(engine, aof)? || aof.manifest.lock().readable().next().is_some();
    if is_there { Ok(()) } else { Err(LoadFailed) }
}

fn policy(config: &Config) -> Policy {
    match config.choice(Directive::APPENDFSYNC) {
        "always" => Policy::Always,
        "no" => Policy::No,
        _ => Policy::EverySecond,
    }
}

/// Turns the log on. [`Aof::switch`] must be held.
fn turn_on(engine: &Engine, aof: &Aof, in_transaction: bool) -> Result<(), String> {
    aof.set_state(State::Waiting);
    aof.stats.failures.store(0, Relaxed);
    if aof.stats.rewriting.load(Relaxed) {
        engine.host().notice(
            "AOF was enabled but there is already an AOF rewriting in background. Stopping background AOF and starting a rewrite now.",
        );
        aof.stats.scheduled.store(true, Relaxed);
        cancel(engine, aof);
    } else if engine.persistence_status().is_running() {
        engine.host().notice(
            "AOF was enabled but there is already another background operation. An AOF background was scheduled to start when possible.",
        );
        aof.stats.scheduled.store(true, Relaxed);
    } else if in_transaction {
        engine
            .host()
            .notice("AOF was enabled during a transaction. An AOF background was scheduled to start when possible.");
        aof.stats.scheduled.store(true, Relaxed);
    } else if !start(engine, aof) {
        aof.set_state(State::Off);
        return Err("Unable to turn on AOF. Check server logs.".to_owned());
    }
    Ok(())
}

/// Turns the log off. [`Aof::switch`] must be held.
fn turn_off(engine: &Engine, aof: &Aof) {
    engine.set_logging(LogUser::File, false);
    aof.set_state(State::Off);
    aof.stats.scheduled.store(false, Relaxed);
    aof.stats.is_owed.store(false, Relaxed);
    if aof.stats.rewriting.load(Relaxed) {
        engine.host().notice(&format!("Killing running AOF rewrite child: {}", engine.host().process().id));
        cancel(engine, aof);
    }
    // Bytes that cannot be written are not needed any more.
    let _ = flush(engine, aof);
    aof.journal.end();
    aof.forget_failure(|| engine.persistence_status().refuse_unlogged(false));
    super::regulate(engine, aof);
    super::end_waits(engine, aof);
    engine.host().log_changed();
}

/// The log while another server's data set takes the place of this one. It is off until this value is dropped, whether
/// the other data set came or not: then it begins anew with the keyspace as it is.
#[must_use]
pub struct StoppedLog<'e> {
    engine: &'e Engine,
    /// The file that holds the data set, too.
    file: Option<Vec<u8>>,
}

impl<'e> StoppedLog<'e> {
    /// Turns the log off: records of the data set that goes are not needed any more.
    pub fn stop(engine: &'e Engine) -> StoppedLog<'e> {
        if let Some(aof) = of(engine) {
            let mut switch = aof.switch.lock();
            switch.is_stopped = true;
            if aof.state() != State::Off {
                turn_off(engine, aof);
                aof.stats.is_owed.store(true, Relaxed);
            }
        }
        StoppedLog { engine, file: None }
    }

    /// Records that this file holds the data set, too, and becomes the base of the log. Nothing of the primary's stream
    /// may be applied until this value is dropped.
    pub fn set_base(&mut self, file: Vec<u8>) {
        self.file = Some(file);
    }
}

impl Drop for StoppedLog<'_> {
    fn drop(&mut self) {
        let (engine, file) = (self.engine, self.file.as_deref());
        engine.config().settled(|config| restart_after_sync(engine, config, file));
    }
}

/// Turns the log on after a synchronization, unless the configuration has none. If that fails now it is tried again,
/// and clients' writes are refused meanwhile.
fn restart_after_sync(engine: &Engine, config: &Config, file: Option<&[u8]>) {
    let Some(aof) = of(engine) else { return };
    let mut switch = aof.switch.lock();
    switch.is_stopped = false;
    if !config.flag(Directive::APPENDONLY) || aof.state() != State::Off {
        aof.stats.is_owed.store(false, Relaxed);
        super::regulate(engine, aof);
        return;
    }
    let adopted = file.map_or(Ok(false), |file| synced_base::adopt(engine, aof, file));
    if let Err(error) = &adopted {
        let error = os_message(error);
        engine.host().log(&format!("The primary's snapshot cannot become the base of the log: {error}"));
    }
    if matches!(adopted, Ok(true)) {
        aof.stats.is_owed.store(false, Relaxed);
        super::regulate(engine, aof);
        return;
    }
    aof.stats.is_owed.store(true, Relaxed);
    super::regulate(engine, aof);
    if let Err(error) = turn_on(engine, aof, false) {
        engine.host().log(&format!("This replica can't rewrite its log after the sync and tries again: {error}"));
        aof.set_state(State::Waiting);
        refuse_until_on(engine, aof, &io::Error::other(error));
    }
}

/// Writes and syncs all records.
pub(super) fn flush(engine: &Engine, aof: &Aof) -> io::Result<()> {
    let result = aof.journal.write().and_then(|()| aof.journal.sync().map(drop));
    if let Err(error) = &result {
        engine.host().log(&format!("Fail to fsync the AOF file: {}", os_message(error)));
    }
    result
}

/// Ends the log before the server ends; false if the server must not end, because the log is not complete yet, or
/// cannot be completed though clients rely on it.
pub fn stop_at_end(engine: &Engine, force: bool) -> bool {
    let Some(aof) = of(engine) else { return true };
    // A first rewrite that fails does not hold the process for good.
    if aof.state() == State::Waiting && aof.stats.rewriting.load(Relaxed) {
        if !force {
            engine.host().log("Writing initial AOF, can't exit.");
            return false;
        }
        engine.host().log("Writing initial AOF. Exit anyway.");
    }
    if aof.stats.rewriting.load(Relaxed) {
        engine.host().log("There is a child rewriting the AOF. Killing it!");
        let _switch = aof.switch.lock();
        cancel(engine, aof);
    }
    if aof.state() == State::On {
        engine.host().notice("Calling fsync() on the AOF file.");
        let is_complete = flush(engine, aof).is_ok() || aof.keeps_replies();
        if !is_complete && !force {
            engine.host().log("Error writing the AOF file, can't exit.");
            return false;
        }
    }
    true
}

/// Reads the log, and continues it.
///
/// # Errors
/// A file is missing or faulty, or the one to append to cannot be opened; the log names it.
pub fn load_and_begin(engine: &Engine) -> Result<(), LoadFailed> {
    let Some(aof) = of(engine) else { return Ok(()) };
    let (host, began) = (engine.host(), engine.host().unix_us(UnixUs(0)));
    if load_files(engine, aof)? {
        let took = host.unix_us(UnixUs(0)).since(began).max(0) as f64 / 1e6;
        host.notice(&format!("DB loaded from append only file: {took:.3} seconds"));
    }
    begin_at_start(engine, aof).map_err(|error| {
        host.log(&format!("Can't open or create append-only file: {}", os_message(&error)));
        LoadFailed
    })
}

/// Opens the file that is appended to; makes a base if there is none. No thread may have changed the data since the log
/// was read.
fn begin_at_start(engine: &Engine, aof: &Aof) -> io::Result<()> {
    let config = engine.config().snapshot();
    aof.storage.create_dir(aof.dir())?;
    let mut manifest = aof.manifest.lock().clone();
    let (host, before) = (engine.host(), manifest.clone());
    let shown = |name: &[u8]| String::from_utf8_lossy(name).into_owned();
    if manifest.base.is_none() && manifest.incr.is_empty() {
        let rdb = wants_rdb(&config);
        let base = manifest.replace_base(aof.file(), rdb);
        host.notice(&format!("Creating AOF base file {} on server start", shown(&base.name)));
        write_base(engine, &config, rdb, &aof.path(&base.name), &mut || {})?;
    }
    let (target, verb) = match manifest.incr.last() {
        Some(last) => (aof.target(&last.name)?, "Opening"),
        None => (aof.new_target(&manifest.add_incr(aof.file()).name)?, "Creating"),
    };
    host.notice(&format!("{verb} AOF incr file {} on server start", shown(&target.name)));
    if manifest != before {
        aof.adopt(manifest)?;
    }
    aof.journal.begin(target);
    aof.set_state(State::On);
    engine.set_logging(LogUser::File, true);
    tidy(engine, aof);
    Ok(())
}
