//! Files, read and written whole or bit by bit.

use std::io;

/// Files.
pub trait Files: Send + Sync {
    /// Changes the working directory and returns its absolute path.
    ///
    /// # Errors
    /// The folder is missing or may not be entered.
    fn change_dir(&self, _path: &[u8]) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Creates a file, which replaces the one of that name when it is committed.
    ///
    /// # Errors
    /// The file cannot be created.
    fn create_file(&self, _path: &[u8], _in_steps: bool) -> io::Result<Box<dyn NewFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Creates a file without a name for data that does not stay in memory.
    ///
    /// # Errors
    /// The file cannot be created.
    fn scratch_file(&self) -> io::Result<Box<dyn Scratch>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Opens a file for reading, and returns its length in bytes.
    ///
    /// # Errors
    /// The file cannot be opened.
    fn open_file(&self, _path: &[u8]) -> io::Result<(Box<dyn io::Read + Send>, u64)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Reads the whole of a file.
    ///
    /// # Errors
    /// The file cannot be opened or read.
    fn read_file(&self, _path: &[u8]) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Replaces a file by `content`, so that at every moment one of the two is there.
    ///
    /// # Errors
    /// Writing, syncing or renaming fails; the old content is still there then.
    fn replace_file(&self, _path: &[u8], _content: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A file that is being written. Dropped before it is committed, it leaves nothing behind.
pub trait NewFile: io::Write + Send {
    /// Makes the content durable and gives the file its name, in the place of another file of that name.
    ///
    /// # Errors
    /// Syncing or renaming fails; the old file still has the name.
    fn commit(self: Box<Self>) -> io::Result<()>;
}

/// A file that is deleted when this is dropped.
pub trait Scratch: Send {
    /// Writes at the end, `end`; after a failure it is still the end.
    ///
    /// # Errors
    /// Writing fails.
    fn append_at(&mut self, end: u64, bytes: &[u8]) -> io::Result<()>;

    /// Fills `to` with the bytes from there on.
    ///
    /// # Errors
    /// Reading fails; `UnexpectedEof`: the file is shorter.
    fn read_at(&mut self, from: u64, to: &mut [u8]) -> io::Result<()>;
}
