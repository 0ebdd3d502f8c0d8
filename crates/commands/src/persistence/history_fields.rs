//! A saved file's name for the history that it is of, and a log's, so that replicas continue from their offset after a
//! restart.

use engine::Engine;
use engine::host::connections::StreamMark;
use engine::locks::sync::{MutexGuard, unlock_fairly};
use engine::status::acknowledgement::LogEnd;
use persistence::save::{SaveOptions, SnapshotFile};
use replication::link_event::Position;
use replication::replid::ReplicationId;
use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::time::Duration;

/// Tries at a lock of the keyspace, while a snapshot that begins prevents a primary's stream from being applied, before
/// it lets the stream continue.
const LOOKS: u32 = 64;
/// The rest after such a wait was in vain.
const REST: Duration = Duration::from_millis(1);

/// Begins a file of this moment that states its part of its history, if the data set has a history that others know.
///
/// # Errors
/// The errors of [`SnapshotFile::begin`].
pub fn begin<'e>(
    engine: &'e Engine,
    options: &SaveOptions,
    give_up: impl Fn() -> bool,
) -> io::Result<SnapshotFile<'e>> {
    let mut mark = None;
    let (mut file, applying) = begin_between_commands(engine, options, || mark = mark_stream(engine), give_up)?;
    let place = place_of(engine, applying, mark);
    let acknowledgement = &engine.replication().acknowledgement;
    acknowledgement.note_saved(place.map(|(id, offset, _)| Position { id, offset }));
    if let Some((id, offset, db)) = place {
        file.add_field("repl-stream-db", db.to_string());
        file.add_field("repl-id", id.to_string());
        file.add_field("repl-offset", offset.to_string());
    }
    Ok(file)
}

/// Returns the change log's length in this moment, and the moment's place in the history that others know. None: they
/// know of none, or a lock was not free until `give_up`.
pub fn log_end(engine: &Engine, give_up: impl Fn() -> bool) -> Option<LogEnd> {
    let mut mark = None;
    let look = |give_up: &dyn Fn() -> bool| {
        let locks = engine.locks().escalated_unless(|| give_up);
        let mut locks = locks.ok_or(ErrorKind::WouldBlock)?;
        if !locks.take_all(|| give_up) {
            return Err(ErrorKind::WouldBlock.into());
        }
        mark = mark_stream(engine);
        Ok(engine.change_log().appended())
    };
    let (length, applying) = between_commands(engine, look, give_up).ok()?;
    let (id, offset, db) = place_of(engine, applying, mark)?;
    Some(LogEnd { position: Position { id, offset }, db, length })
}

/// Records this moment, in which nothing runs, in a primary's stream.
fn mark_stream(engine: &Engine) -> Option<Box<dyn StreamMark>> {
    if engine.replication().is_replica() { None } else { engine.host().mark_stream() }
}

/// Returns the history of a moment, its length and its database, with the mark of the moment.
fn place_of(
    engine: &Engine,
    applying: MutexGuard<'_, ()>,
    mark: Option<Box<dyn StreamMark>>,
) -> Option<(ReplicationId, u64, u32)> {
    let status = engine.replication();
    if status.is_replica() {
        let link = status.link();
        return link.can_resume.then(|| (status.history().id, status.offset(), link.stream_db));
    }
    drop(applying);
    // The stream of a primary selects the database anew after a mark.
    mark?.position().map(|(id, offset)| (id, offset, 0))
}

/// Begins a file of this moment between two commands of a primary's stream. While the caller holds the guard nothing of
/// the stream is applied, and the primary stays the same.
///
/// # Errors
/// The errors of [`SnapshotFile::begin`].
pub fn begin_between_commands<'e>(
    engine: &'e Engine,
    options: &SaveOptions,
    mut at_snapshot: impl FnMut(),
    give_up: impl Fn() -> bool,
) -> io::Result<(SnapshotFile<'e>, MutexGuard<'e, ()>)> {
    between_commands(engine, |give_up| SnapshotFile::begin(engine, options, &mut at_snapshot, give_up), give_up)
}

/// Runs work that needs the keyspace's locks between two commands of a primary's stream.
///
/// A transaction that holds the keyspace's locks may wait for the guard's lock (REPLICAOF within EXEC). So the wait for
/// the keyspace is short under it, and both are released between two tries.
fn between_commands<'e, T>(
    engine: &'e Engine,
    mut act: impl FnMut(&dyn Fn() -> bool) -> io::Result<T>,
    give_up: impl Fn() -> bool,
) -> io::Result<(T, MutexGuard<'e, ()>)> {
    let host = engine.host();
    loop {
        let applying = engine.replication().applying.lock();
        let looks = Cell::new(0);
        let has_waited = || looks.replace(looks.get() + 1) >= LOOKS;
        match act(&|| give_up() || has_waited()) {
            Err(error) if error.kind() == ErrorKind::WouldBlock && !give_up() => {
                unlock_fairly(applying);
                host.rest(REST);
            }
            done => return done.map(|done| (done, applying)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::begin_between_commands;
    use crate::persistence::write_options::options;
    use crate::testing::Client;
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_save_lets_go_of_the_stream_while_a_transaction_has_the_keyspace() {
        let client = Client::new();
        let engine = client.engine();
        let options = options(engine, &engine.config().snapshot(), false);
        let applying = &engine.replication().applying;
        let keyspace = engine.locks().one(3);
        thread::scope(|scope| {
            let save = scope.spawn(|| begin_between_commands(engine, &options, || (), || false).map(drop));
            while applying.try_lock().is_some() {
                thread::yield_now();
            }
            assert!(applying.try_lock_for(Duration::from_secs(30)).is_some(), "the save keeps it");
            drop(keyspace);
            save.join().expect("no panic").expect("the save begins");
        });
    }
}
