//! The file with what this server knows as a member: on the disk before the server acknowledges anything that follows
//! from it, and read when the data set has been loaded.

use crate::system::log;
use engine::Engine;
use engine::status::acknowledgement::Acknowledgement;
use engine::status::replication_status::new_id;
use replication::arrived::Position;
use replication::in_sync_set::Term;
use replication::member_record::MemberRecord;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;

/// The file's name in the working directory.
const NAME: &str = "in-sync.record";
/// Its name until it is complete.
const NEW: &str = "in-sync.record.new";
/// Bytes that are read of it.
const SIZE_MAX: u64 = 64 << 10;

/// Brings what the server knows to the disk, unless it is there.
///
/// # Errors
/// The file cannot be written.
pub fn persist(engine: &Engine) -> io::Result<()> {
    write(&engine.replication().acknowledgement, None)
}

fn write(status: &Acknowledgement, saved: Option<Position>) -> io::Result<()> {
    let mut last = status.record.lock();
    let membership = status.membership();
    if membership.term == Term::NONE {
        return Ok(());
    }
    let record = MemberRecord { membership, saved, directory: std::fs::metadata(".")?.ino() };
    let text = record.to_text();
    if *last != text {
        let mut file = File::create(NEW)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(NEW, NAME)?;
        // The new name is durable when the directory is.
        File::open(".")?.sync_all()?;
        *last = text;
    }
    Ok(())
}

/// The data set is loaded, and is at that place of a history, if it says so.
pub fn restore(engine: &Engine, loaded: Option<Position>) {
    let mut text = Vec::new();
    let read = File::open(NAME).and_then(|file| file.take(SIZE_MAX).read_to_end(&mut text));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => return log::warning(format_args!("The record of the in-sync set cannot be read: {error}")),
        Ok(_) => {}
    }
    let Some(record) = MemberRecord::parse(&text) else {
        return log::warning("The record of the in-sync set is damaged: this server is a member no more.");
    };
    let directory = std::fs::metadata(".").map_or(0, |it| it.ino());
    let known = record.restore(new_id(), loaded, directory);
    match known.is_restored {
        true => log::notice("The data set is that of the last shutdown: this server is in the in-sync set as before."),
        false => log::notice("The data set may lack acknowledged writes: this server is a new one to the in-sync set."),
    }
    engine.replication().acknowledgement.update_membership(|membership| *membership = known);
}

/// The process ends, and nothing is acknowledged any more: the record says which data is on the disk.
pub fn complete(engine: &Engine) {
    let status = &engine.replication().acknowledgement;
    if let Some(saved) = status.saved_at()
        && let Err(error) = write(status, Some(saved))
    {
        log::warning(format_args!("The record of the in-sync set cannot be written: {error}"));
    }
}
