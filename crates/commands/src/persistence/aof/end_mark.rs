//! The end of a log in the history: a member of an in-sync set that is shut down resumes its place when its log is
//! loaded.

use super::lifecycle::flush;
use crate::persistence::history_fields::log_end;
use engine::Engine;
use engine::held_writes::HeldWrites;
use engine::status::pause::Hold;
use persistence::aof::{State, of};
use replication::in_sync_set::Term;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

/// The longest wait for commands and a rewrite that are under way, in milliseconds.
const PATIENCE: i64 = 10_000;
/// The time between two checks of a rewrite that is to end.
const LOOK: Duration = Duration::from_millis(10);

/// Records the place in the history at which the log of a member ends, if the log has all of the data by now. No
/// command that writes begins until the returned value is dropped.
pub fn mark_end(engine: &Engine) -> Option<HeldWrites<'_>> {
    let aof = of(engine).filter(|aof| aof.state() == State::On)?;
    let acknowledgement = &engine.replication().acknowledgement;
    let is_loading = engine.persistence_status().deny_reasons().is_loading();
    if is_loading || acknowledgement.membership().term == Term::NONE {
        return None;
    }
    let until = engine.steady_now().after(PATIENCE);
    // A script that keeps the server busy has locks for as long as it likes.
    let is_late = || engine.scripts().is_busy() || engine.steady_now() >= until;
    while aof.stats.rewriting.load(SeqCst) && !is_late() {
        engine.host().rest(LOOK);
    }
    if is_late() {
        return None;
    }
    let held = HeldWrites::begin_settled(engine, Hold::Shutdown, is_late)?;
    let end = log_end(engine, is_late)?;
    if flush(engine, aof).is_ok() {
        acknowledgement.note_log_end(Some(end));
    }
    Some(held)
}
