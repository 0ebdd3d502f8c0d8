//! The log's health: clients' writes are refused while the log cannot be written, or cannot be begun.

use engine::Engine;
use engine::config::os_message;
use persistence::aof::{Aof, RewriteAttempt, State};
use std::io;
use std::sync::atomic::Ordering::Relaxed;

/// The system's number for an error without a number.
const EIO: i32 = 5;

/// Takes the result of an attempt to write or sync the log: clients' writes are refused while that fails. Records that
/// were written are no log yet where one is owed: it has no base.
pub fn wrote(engine: &Engine, aof: &Aof, attempt: RewriteAttempt, result: &io::Result<()>) {
    match result {
        Ok(()) if !aof.has_failed() || is_owed(aof) => {}
        Ok(()) => aof.conclude(attempt, None, || {
            engine.persistence_status().refuse_unlogged(false);
            engine.host().log("AOF write error looks solved. The server can write again.");
        }),
        Err(error) => aof.conclude(attempt, Some(error.raw_os_error().unwrap_or(EIO).into()), || {
            engine.host().log(&format!("Error writing to the AOF file: {}", os_message(error)));
            engine.persistence_status().refuse_unlogged(true);
        }),
    }
}

/// Refuses clients' writes until the log is on: it was on before a synchronization, and could not be begun again.
pub(super) fn refuse_until_on(engine: &Engine, aof: &Aof, error: &io::Error) {
    if is_owed(aof) {
        let error =
            error.raw_os_error().map_or_else(|| io::Error::other(error.to_string()), io::Error::from_raw_os_error);
        wrote(engine, aof, aof.attempt(), &Err(error));
        super::regulate(engine, aof);
    }
}

/// Returns whether the log was on before a synchronization, and is yet to be begun again.
fn is_owed(aof: &Aof) -> bool {
    aof.stats.is_owed.load(Relaxed) && aof.state() == State::Waiting
}
