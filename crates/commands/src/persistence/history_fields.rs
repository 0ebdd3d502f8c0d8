//! What a saved file says of the history that it is of, so that replicas go on where they were after a restart.

use engine::Engine;
use persistence::save::{SaveOptions, SnapshotFile};
use std::io;

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
    // Nothing of a primary's stream is applied meanwhile, and the primary stays the same.
    let applying = status.applying.lock();
    let mut mark = None;
    let at_snapshot = || mark = if status.is_replica() { None } else { engine.host().mark_stream() };
    let mut file = SnapshotFile::begin(engine, options, at_snapshot, give_up)?;
    let link = status.link();
    let position = if status.is_replica() {
        link.can_resume.then(|| (status.history().id, status.offset(), link.stream_db))
    } else {
        drop(applying);
        // The stream of a primary selects the database anew after a snapshot.
        mark.and_then(|mark| mark.position()).map(|(id, offset)| (id, offset, 0))
    };
    if let Some((id, offset, db)) = position {
        file.add_field("repl-stream-db", db.to_string());
        file.add_field("repl-id", id.to_string());
        file.add_field("repl-offset", offset.to_string());
    }
    Ok(file)
}
