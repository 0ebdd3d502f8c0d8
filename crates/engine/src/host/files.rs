//! Files, read and written whole or bit by bit.

use std::io;

/// Files.
pub trait Files: Send + Sync {
    /// Changes the working directory and answers its absolute path.
    ///
    /// # Errors
    /// The folder is missing or may not be entered.
    fn change_dir(&self, _path: &[u8]) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A new file, which takes the place of one of that name when it is committed.
    ///
    /// # Errors
    /// Those of creating the file.
    fn create_file(&self, _path: &[u8], _in_steps: bool) -> io::Result<Box<dyn NewFile>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A file without a name for what does not stay in memory.
    ///
    /// # Errors
    /// Those of creating the file.
    fn scratch_file(&self) -> io::Result<Box<dyn Scratch>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// A file for reading, and its length in bytes.
    ///
    /// # Errors
    /// Those of opening the file.
    fn open_file(&self, _path: &[u8]) -> io::Result<(Box<dyn io::Read + Send>, u64)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The whole of a file.
    ///
    /// # Errors
    /// Those of opening and reading the file.
    fn read_file(&self, _path: &[u8]) -> io::Result<Vec<u8>> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// Puts `content` in the place of a file, so that at every moment one of the two is there.
    ///
    /// # Errors
    /// Those of writing, syncing and renaming; the old content is still there then.
    fn replace_file(&self, _path: &[u8], _content: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

/// A file that is being written. Dropped before it is committed, it leaves nothing behind.
pub trait NewFile: io::Write + Send {
    /// Makes the content durable and gives the file its name, in the place of what had it.
    ///
    /// # Errors
    /// Those of syncing and renaming; what had the name has it still.
    fn commit(self: Box<Self>) -> io::Result<()>;
}

/// A file that is gone with the one who has it.
pub trait Scratch: Send {
    /// Writes at the end, which is there; after a failure it still is.
    ///
    /// # Errors
    /// Those of writing.
    fn append_at(&mut self, end: u64, bytes: &[u8]) -> io::Result<()>;

    /// Fills `to` with what was written from there on.
    ///
    /// # Errors
    /// Those of reading, and `UnexpectedEof` where less was written.
    fn read_at(&mut self, from: u64, to: &mut [u8]) -> io::Result<()>;
}
