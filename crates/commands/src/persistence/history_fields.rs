//! A saved file's name for the history that it is of, so that replicas go on where they were after a restart.

use engine::Engine;
use engine::locks::sync::{MutexGuard, unlock_fairly};
use persistence::save::{SaveOptions, SnapshotFile};
use replication::arrived::Position;
use std::cell::Cell;
use std::io::{self, ErrorKind};
use std::time::Duration;

/// Looks at a lock of the keyspace, while a snapshot that begins keeps a primary's stream from being applied, before it
/// lets the stream go on.
const LOOKS: u32 = 64;
/// The rest after such a wait was in vain.
const REST: Duration = Duration::from_millis(1);

/// Begins a file of this moment that says which part of which history it is, if the data set has one that others know.
///
/// # Errors
/// Those of [`SnapshotFile::begin`].
pub fn begin<'e>(
    engine: &'e Engine,
    options: &SaveOptions,
    give_up: impl Fn() -> bool,
) -> io::Result<SnapshotFile<'e>> {
    let status = engine.replication();
    let mut mark = None;
    let at_snapshot = || mark = if status.is_replica() { None } else { engine.host().mark_stream() };
    let (mut file, applying) = begin_between_commands(engine, options, at_snapshot, give_up)?;
    let link = status.link();
    let position = if status.is_replica() {
        link.can_resume.then(|| (status.history().id, status.offset(), link.stream_db))
    } else {
        drop(applying);
        // The stream of a primary selects the database anew after a snapshot.
        mark.and_then(|mark| mark.position()).map(|(id, offset)| (id, offset, 0))
    };
    status.acknowledgement.note_saved(position.map(|(id, offset, _)| Position { id, offset }));
    if let Some((id, offset, db)) = position {
        file.add_field("repl-stream-db", db.to_string());
        file.add_field("repl-id", id.to_string());
        file.add_field("repl-offset", offset.to_string());
    }
    Ok(file)
}

/// Begins a file of this moment between two commands of a primary's stream. While the caller keeps the guard nothing of
/// the stream is applied, and the primary stays the same.
///
/// A transaction that holds the keyspace's locks may wait for the guard's lock (REPLICAOF within EXEC). So the wait for
/// the keyspace is short under it, and both are released between two tries.
///
/// # Errors
/// Those of [`SnapshotFile::begin`].
pub fn begin_between_commands<'e>(
    engine: &'e Engine,
    options: &SaveOptions,
    mut at_snapshot: impl FnMut(),
    give_up: impl Fn() -> bool,
) -> io::Result<(SnapshotFile<'e>, MutexGuard<'e, ()>)> {
    let host = engine.host();
    loop {
        let applying = engine.replication().applying.lock();
        let looks = Cell::new(0);
        let has_waited = || looks.replace(looks.get() + 1) >= LOOKS;
        match SnapshotFile::begin(engine, options, &mut at_snapshot, || give_up() || has_waited()) {
            Err(error) if error.kind() == ErrorKind::WouldBlock && !give_up() => {
                unlock_fairly(applying);
                host.rest(REST);
            }
            begun => return begun.map(|file| (file, applying)),
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
