//! The append-only file's place: a directory of the process's file system.

use crate::system::files::path;
use persistence::aof::storage::{LogFile, Storage};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

/// Files of the process's file system.
pub struct Disk;

/// Syncs a file's directory, which makes changes of names in it durable.
fn sync_directory(name: &[u8]) -> io::Result<()> {
    let directory = path(name).parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(directory)?.sync_all()
}

impl Storage for Disk {
    fn append(&self, name: &[u8]) -> io::Result<(Arc<dyn LogFile>, u64)> {
        let is_new = !path(name).exists();
        let file = OpenOptions::new().append(true).create(true).open(path(name))?;
        if is_new {
            sync_directory(name)?;
        }
        let len = file.metadata()?.len();
        Ok((Arc::new(DiskFile(file)), len))
    }

    fn open(&self, name: &[u8]) -> io::Result<(Box<dyn Read + Send>, u64)> {
        let file = File::open(path(name))?;
        let len = file.metadata()?.len();
        Ok((Box::new(file), len))
    }

    fn replace(&self, name: &[u8], content: &[u8]) -> io::Result<()> {
        let target = path(name);
        let mut temporary = b"temp-".to_vec();
        temporary.extend_from_slice(target.file_name().unwrap_or_default().as_bytes());
        let temporary = target.with_file_name(OsStr::from_bytes(&temporary));
        let mut file = File::create(&temporary)?;
        let written = file.write_all(content).and_then(|()| file.sync_all());
        if let Err(error) = written.and_then(|()| fs::rename(&temporary, target)) {
            // The error that is reported is the one that came first.
            let _ = fs::remove_file(&temporary);
            return Err(error);
        }
        sync_directory(name)
    }

    fn rename(&self, from: &[u8], to: &[u8]) -> io::Result<()> {
        fs::rename(path(from), path(to))?;
        sync_directory(to)
    }

    fn remove(&self, name: &[u8]) -> io::Result<()> {
        fs::remove_file(path(name))
    }

    fn create_dir(&self, name: &[u8]) -> io::Result<()> {
        match fs::create_dir(path(name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            result => result,
        }
    }

    fn len(&self, name: &[u8]) -> io::Result<u64> {
        Ok(fs::metadata(path(name))?.len())
    }
}

struct DiskFile(File);

impl LogFile for DiskFile {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0).write(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }
}
