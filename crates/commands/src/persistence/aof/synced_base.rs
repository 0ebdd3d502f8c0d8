//! A primary's snapshot as the base of the log: it lies in a file already, and need not be written once more.

use super::rewrite::tidy;
use engine::Engine;
use engine::config::Directive;
use engine::keyspace::record::LogUser;
use engine::status::saved_data_set::SavedIn;
use persistence::aof::{Aof, State};
use std::io;
use std::sync::atomic::Ordering::Relaxed;

/// Returns whether the data set stays equal to the file until the log continues behind it: only the primary changes it,
/// whose stream the caller does not apply meanwhile.
fn stays_the_same(engine: &Engine) -> bool {
    let config = engine.config().snapshot();
    let evicts = config.bytes(Directive::MAXMEMORY) > 0 && !config.flag(Directive::REPLICA_IGNORE_MAXMEMORY);
    config.flag(Directive::AOF_USE_RDB_PREAMBLE) && config.flag(Directive::REPLICA_READ_ONLY) && !evicts
}

/// Makes this file the base, and begins the log. False: the data set has to be written anew. [`Aof::switch`] must be
/// held.
///
/// # Errors
/// Files cannot be moved or written. The log is off then, and the file where it was.
pub fn adopt(engine: &Engine, aof: &Aof, file: &[u8]) -> io::Result<bool> {
    if !stays_the_same(engine) {
        return Ok(false);
    }
    if aof.stats.rewriting.load(Relaxed) {
        return Ok(false);
    }
    aof.storage.create_dir(aof.dir())?;
    let mut manifest = aof.manifest.lock().clone();
    let base = manifest.replace_base(aof.file(), true);
    manifest.retire_incr(0);
    let incr = manifest.add_incr(aof.file());
    let target = aof.new_target(&incr.name)?;
    aof.storage.rename(file, &aof.path(&base.name))?;
    if let Err(error) = aof.adopt(manifest) {
        // The file is of no use there; if it cannot be moved back, the failure is the same.
        let _ = aof.storage.rename(&aof.path(&base.name), file);
        return Err(error);
    }
    let data_sets = &engine.replication().data_sets;
    data_sets.save(SavedIn::Log, data_sets.present());
    aof.journal.begin(target);
    aof.set_state(State::On);
    engine.set_logging(LogUser::File, true);
    let name = String::from_utf8_lossy(&base.name).into_owned();
    engine.host().notice(&format!("Reused RDB file from primary sync as AOF base file: {name}"));
    tidy(engine, aof);
    Ok(true)
}
