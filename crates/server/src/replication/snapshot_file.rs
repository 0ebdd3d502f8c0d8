//! A primary's snapshot on its way through a file. The data set and the saved file stay until the snapshot proves to be
//! whole: the data set until its checksum is right and it has its name, the file until all of it is loaded.
//!
//! ```text
//!   link -> file beside -- checksum, name -> keyspace -- loaded: the former file goes
//!                          \- wrong: nothing has changed \- faulty: the former file has its name again
//! ```

use crate::replication::link_thread::{End, LinkThread, Wanted};
use crate::replication::snapshot_reader::{SnapshotReader, Wire};
use crate::system::files::{Temporary, path};
use crate::system::log;
use commands::persistence::aof::StoppedLog;
use commands::persistence::load::checks_sums;
use commands::replication::snapshot_load::{load_snapshot, stream_db};
use engine::config::{Config, Directive};
use engine::host::files::NewFile;
use persistence::snapshot_sum::SnapshotSum;
use replication::primary_link::PrimaryLink;
use std::io::{self, Write};
use std::path::PathBuf;

/// Name of the source of a snapshot that is in a file.
const DISK: &str = "disk";

/// A writer that adds up the checksum of all that it writes.
struct Summed<'w> {
    to: &'w mut Temporary,
    sum: SnapshotSum,
}

impl Write for Summed<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.to.write(bytes)?;
        self.sum.add(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

/// The file that was saved before, under a second name until the snapshot is loaded.
struct Former {
    name: PathBuf,
    beside: PathBuf,
}

impl Former {
    fn of(target: &[u8]) -> Former {
        let name = path(target).to_path_buf();
        let mut beside = name.clone().into_os_string();
        beside.push(".former");
        let former = Former { name, beside: beside.into() };
        // One of a server that died while it loaded, or none: then nothing is restored.
        let _ = std::fs::remove_file(&former.beside);
        let _ = std::fs::hard_link(&former.name, &former.beside);
        former
    }

    /// Gives the file its name again; without a former file there is none.
    fn restore(&self) {
        if std::fs::rename(&self.beside, &self.name).is_err() {
            let _ = std::fs::remove_file(&self.name);
        }
    }
}

impl Drop for Former {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.beside);
    }
}

impl LinkThread {
    /// Writes the snapshot to a file that is to take the place of this server's own saves.
    pub(super) fn store(
        &self,
        wire: &mut Wire,
        link: &mut PrimaryLink,
        config: &Config,
        wanted: Wanted<'_>,
    ) -> Result<Box<Temporary>, End> {
        let mut file = Box::new(Temporary::create(path(config.text(Directive::DBFILENAME)), true)?);
        let mut reader = SnapshotReader::new(wire, link, self.status(), wanted);
        let mut summed = Summed { to: &mut file, sum: SnapshotSum::default() };
        io::copy(&mut reader, &mut summed)?;
        if checks_sums(self.engine(), config) && !summed.sum.is_right() {
            return Err(End::Load("The snapshot's checksum is wrong: RDB CRC error".to_owned(), DISK));
        }
        file.sync()?;
        Ok(file)
    }

    /// Gives the file its name, and reads it. The file that was saved before has its name again if that fails.
    pub(super) fn load_file(
        &self,
        file: Box<Temporary>,
        config: &Config,
        wanted: Wanted<'_>,
    ) -> Result<(StoppedLog<'_>, Option<u32>), End> {
        if !wanted.is_wanted() {
            return Err(End::Unwanted);
        }
        let (mut content, size) = file.content()?;
        let target = file.target();
        let former = Former::of(&target);
        file.commit().inspect_err(|error| {
            let name = String::from_utf8_lossy(config.text(Directive::DBFILENAME));
            log::warning(format_args!(
                "Failed trying to rename the temp DB into {name} in PRIMARY <-> REPLICA synchronization: {error}"
            ));
        })?;
        let mut log = StoppedLog::stop(self.engine());
        log::notice("PRIMARY <-> REPLICA sync: Loading DB in memory");
        let loaded = load_snapshot(self.engine(), &mut content, size);
        let db = match &loaded {
            Ok(loaded) => stream_db(loaded),
            Err(failure) => {
                former.restore();
                self.lose();
                return Err(End::Load(failure.text.clone(), DISK));
            }
        };
        if config.flag(Directive::RDB_DEL_SYNC_FILES) && !keeps_files(config) {
            let _ = std::fs::remove_file(path(&target));
        }
        log.set_base(target);
        Ok((log, db))
    }
}

/// Returns whether the data set is to be on the disk.
fn keeps_files(config: &Config) -> bool {
    config.flag(Directive::APPENDONLY) || !config.save_points().is_empty()
}
