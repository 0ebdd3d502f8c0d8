//! The work that is due after commands of another server were applied by a thread that is no worker.

use crate::aof::writer;
use crate::workers::shared::Shared;
use commands::persistence::aof as log_file;
use persistence::aof::{Aof, State};

/// Returns the append-only file, if there is one.
pub fn log_file_of(shared: &Shared) -> Option<&Aof> {
    persistence::aof::of(&shared.engine).filter(|aof| aof.state() == State::On)
}

/// Writes the log's waiting changes, while no thread syncs it.
pub fn write_log(shared: &Shared, aof: &Aof) {
    if aof.journal.waiting() == 0 || aof.has_failed() {
        return;
    }
    let attempt = aof.attempt();
    log_file::wrote(&shared.engine, aof, attempt, &writer::write(aof));
    if aof.keeps_replies() {
        shared.notifier.ring();
    }
}

/// Notifies others of applied commands, as the thread that counts as this worker.
pub fn tell_others(shared: &Shared, place: usize) {
    let engine = &*shared.engine;
    if engine.tracking().has_pending(place) {
        engine.tracking().broadcast(engine.pubsub(), place);
    }
    for (worker, pushes) in engine.pubsub().take_outgoing(place) {
        shared.post_pushes(worker, pushes);
    }
    if engine.pubsub().take_for_nodes(place) {
        engine.host().send_to_nodes();
    }
    engine.end_turn(place);
}
