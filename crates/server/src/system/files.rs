//! Files of the process: names as bytes, files that appear under their name when they are complete, scratch files.

use engine::host::files::{NewFile, Scratch};
use std::ffi::OsStr;
use std::io::{self, Seek, SeekFrom, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Returns the path of this name.
pub fn path(bytes: &[u8]) -> &Path {
    Path::new(OsStr::from_bytes(bytes))
}

/// A file without a name that other processes could find.
pub struct Nameless(std::fs::File);

impl Nameless {
    /// Creates a new one in the working directory.
    pub fn create() -> io::Result<Nameless> {
        let name = format!("temp-{}-scratch.rdb", std::process::id());
        // The name may be left from a killed process with the same number.
        let _ = std::fs::remove_file(&name);
        let file = std::fs::File::options().read(true).write(true).create_new(true).open(&name)?;
        std::fs::remove_file(&name)?;
        Ok(Nameless(file))
    }
}

impl Scratch for Nameless {
    fn append_at(&mut self, end: u64, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all_at(bytes, end)
    }

    fn read_at(&mut self, from: u64, to: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(to, from)
    }
}

/// A file under a name of its own until it is complete.
pub struct Temporary {
    file: std::fs::File,
    /// Name of the file; empty when it has its final one.
    name: PathBuf,
    target: PathBuf,
    /// Bytes that may be on their way to the disk only; None if all wait for the end.
    unsynced: Option<usize>,
}

/// Bytes after which written data is synced, if that is wanted.
const SYNC_STEP: usize = 4 << 20;

/// Incomplete file, for the thread that ends the process before the file is complete.
static UNFINISHED: Mutex<Option<PathBuf>> = Mutex::new(None);

/// Removes the file that an end in the middle of saving would leave behind.
pub fn remove_temporary() {
    if let Some(name) = unfinished().take() {
        let _ = std::fs::remove_file(name);
    }
}

fn unfinished() -> MutexGuard<'static, Option<PathBuf>> {
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Temporary {
    /// Creates it beside `target`. `in_steps`: it is synced while it is written, and not only at its end.
    pub fn create(target: &Path, in_steps: bool) -> io::Result<Temporary> {
        // Absolute, since the working directory may change meanwhile.
        let target = std::path::absolute(target)?;
        let process = std::process::id();
        let named = |name: String| {
            let name = target.with_file_name(name);
            std::fs::File::options().read(true).write(true).create_new(true).open(&name).map(|file| (file, name))
        };
        let mut made = named(format!("temp-{process}.rdb"));
        for number in 0..u32::MAX {
            if !matches!(&made, Err(error) if error.kind() == io::ErrorKind::AlreadyExists) {
                break;
            }
            made = named(format!("temp-{process}-{number}.rdb"));
        }
        let (file, name) = made?;
        *unfinished() = Some(name.clone());
        Ok(Temporary { file, name, target, unsynced: in_steps.then_some(0) })
    }

    /// Returns the absolute name that it gets.
    pub fn target(&self) -> Vec<u8> {
        self.target.as_os_str().as_bytes().to_vec()
    }

    /// Makes the content durable.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    /// Returns a reader of what was written, and its length. Nothing may be written any more.
    pub fn content(&self) -> io::Result<(std::fs::File, u64)> {
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(0))?;
        let length = file.metadata()?.len();
        Ok((file, length))
    }
}

impl Write for Temporary {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.file.write(bytes)?;
        if let Some(unsynced) = &mut self.unsynced {
            *unsynced += written;
            if *unsynced >= SYNC_STEP {
                *unsynced = 0;
                self.file.sync_data()?;
            }
        }
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl NewFile for Temporary {
    fn commit(mut self: Box<Self>) -> io::Result<()> {
        self.file.sync_all()?;
        std::fs::rename(&self.name, &self.target)?;
        self.name = PathBuf::new();
        *unfinished() = None;
        // The new name is durable when the directory is.
        let directory = self.target.parent().unwrap_or(Path::new("."));
        std::fs::File::open(directory)?.sync_all()
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.name.as_os_str().is_empty() {
            // The error that is reported is the one that came first.
            let _ = std::fs::remove_file(&self.name);
            *unfinished() = None;
        }
    }
}

/// Returns the name as it is found from any working directory.
pub fn absolute(name: &[u8]) -> Vec<u8> {
    std::path::absolute(path(name)).map_or_else(|_| name.to_vec(), |path| path.into_os_string().into_vec())
}

/// Replaces a file's content; it has the old or the new one at any time.
pub fn replace(target: &Path, content: &[u8]) -> io::Result<()> {
    let mut temporary = target.as_os_str().to_owned();
    temporary.push(format!(".{}.tmp", std::process::id()));
    let temporary = Path::new(&temporary);
    let written = write_synced(temporary, content).and_then(|()| {
        if let Ok(old) = std::fs::metadata(target) {
            std::fs::set_permissions(temporary, old.permissions())?;
        }
        std::fs::rename(temporary, target)
    });
    if written.is_err() {
        // The error that is reported is the one that came first.
        let _ = std::fs::remove_file(temporary);
    }
    written
}

fn write_synced(name: &Path, content: &[u8]) -> io::Result<()> {
    let mut file = std::fs::File::create(name)?;
    file.write_all(content)?;
    file.sync_all()
}

/// Syncs the directory, so that the new name survives a loss of power.
pub fn sync_directory_of(target: &Path) -> io::Result<()> {
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::File::open(parent)?.sync_all()
}

/// Changes the working directory; returns its absolute name.
pub fn change_dir(name: &[u8]) -> io::Result<Vec<u8>> {
    std::env::set_current_dir(path(name))?;
    Ok(std::env::current_dir()?.into_os_string().into_vec())
}
