//! A log that keeps nothing, so that only the work before the disk is measured.

use persistence::aof::storage::LogFile;
use std::io;

/// A file that takes every write and discards it.
pub struct DiscardedLog;

impl LogFile for DiscardedLog {
    fn write(&self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn truncate(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}
