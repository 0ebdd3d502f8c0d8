//! The file with this server's record as a member: on the disk before the server acknowledges anything that follows
//! from it, and read when the data set has been loaded.

use crate::system::log;
use engine::Engine;
use engine::status::acknowledgement::{Acknowledgement, LogEnd};
use engine::status::replication_status::new_id;
use persistence::aof::{Aof, of};
use replication::in_sync_set::Term;
use replication::link_event::Position;
use replication::member_record::{Loaded, LoggedPlace, MemberRecord, sum};
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;

/// The file's name in the working directory.
const NAME: &str = "in-sync.record";
/// Name of the file until it is complete.
const NEW: &str = "in-sync.record.new";
/// Bytes of the file that are read at most.
const SIZE_MAX: u64 = 64 << 10;

/// Saves the record, unless it is on the disk.
///
/// # Errors
/// The file cannot be written.
pub fn persist(engine: &Engine) -> io::Result<()> {
    write(&engine.replication().acknowledgement, None, None)
}

fn write(status: &Acknowledgement, saved: Option<Position>, logged: Option<LoggedPlace>) -> io::Result<()> {
    let mut last = status.record.lock();
    let membership = status.membership();
    if membership.term == Term::NONE {
        return Ok(());
    }
    let record = MemberRecord { membership, saved, logged, directory: std::fs::metadata(".")?.ino() };
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

/// Takes the record's statements about the data set that was loaded. Returns the place of a log that is the one of the
/// last shutdown.
pub fn restore(engine: &Engine, loaded: Loaded) -> Option<LoggedPlace> {
    let mut text = Vec::new();
    let read = File::open(NAME).and_then(|file| file.take(SIZE_MAX).read_to_end(&mut text));
    match read {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        Err(error) => {
            log::warning(format_args!("The record of the in-sync set cannot be read: {error}"));
            return None;
        }
        Ok(_) => {}
    }
    let Some(record) = MemberRecord::parse(&text) else {
        log::warning("The record of the in-sync set is damaged: this server is a member no more.");
        return None;
    };
    let directory = std::fs::metadata(".").map_or(0, |it| it.ino());
    let is_log = matches!(loaded, Loaded::Log(_)) && record.has_heir(loaded, directory);
    let logged = record.logged.filter(|_| is_log);
    let known = record.restore(new_id(), loaded, directory);
    match known.is_restored {
        true => log::notice("The data set is that of the last shutdown: this server is in the in-sync set as before."),
        false => log::notice("The data set may lack acknowledged writes: this server is a new one to the in-sync set."),
    }
    engine.replication().acknowledgement.update_membership(|membership| *membership = known);
    logged
}

/// Returns the sum of the names and lengths of the log's files.
pub fn sum_of_files(aof: &Aof) -> Option<u64> {
    let files = aof.files().ok()?;
    let lines = files.iter().flat_map(|(name, len)| [format!("{len} ").as_bytes(), name, b"\n"].concat());
    Some(sum(&lines.collect::<Vec<u8>>()))
}

/// Saves at the end of the process, when nothing is acknowledged any more, which data is on the disk.
pub fn complete(engine: &Engine) {
    let status = &engine.replication().acknowledgement;
    let (saved, logged) = (status.saved_at(), logged(engine));
    if (saved.is_some() || logged.is_some())
        && let Err(error) = write(status, saved, logged)
    {
        log::warning(format_args!("The record of the in-sync set cannot be written: {error}"));
    }
}

/// Returns the place of the log's data, if the log has all of the data and nothing came after its end was recorded.
fn logged(engine: &Engine) -> Option<LoggedPlace> {
    let LogEnd { position, db, length } = engine.replication().acknowledgement.log_end()?;
    let aof = of(engine).filter(|aof| aof.ends_at(length))?;
    Some(LoggedPlace { position, db, files: sum_of_files(aof)? })
}
