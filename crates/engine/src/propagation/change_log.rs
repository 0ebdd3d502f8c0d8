//! The change log: every write, once, in the order of execution.
//!
//! Commands are appended while the locks of the shards that they changed are held. Two writes to the same
//! key are therefore in the log in the order in which they were made, and so are any two of which one saw
//! the other. The append-only file and the replication backlog read the log; who needs none leaves it out.
//!
//! The log's bytes are requests as clients send them. A command is rendered once, where it stays:
//!
//! ```text
//!   one command   SELECT 3, if the command before was in another database | *3 $3 SET $1 k $1 v
//!   several       the same, between MULTI and EXEC: nobody else's command comes between them
//! ```

use std::any::Any;

/// Where changes go. Called under shard locks: it must be quick and must not take any of them.
pub trait ChangeLog: Any + Send + Sync {
    /// Appends what `render` writes: whole commands, of which the first is meant for database `first` and which leave
    /// the reader in database `last`. A group comes between MULTI and EXEC. Returns the log's length afterwards, which
    /// a reply that must be durable waits for.
    fn append(&self, first: u32, last: u32, is_group: bool, render: &mut dyn FnMut(&mut Vec<u8>)) -> u64;

    /// Its length now.
    fn appended(&self) -> u64;

    /// Bytes that were appended and are still in memory.
    fn waiting(&self) -> u64;
}

/// Appends a command as clients send it.
pub fn put_command<'a>(out: &mut Vec<u8>, words: impl ExactSizeIterator<Item = &'a [u8]>) {
    put_count(out, b'*', words.len());
    for word in words {
        put_count(out, b'$', word.len());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

#[inline]
fn put_count(out: &mut Vec<u8>, kind: u8, count: usize) {
    // One call for the most frequent lengths.
    if count < 10 {
        out.extend_from_slice(&[kind, b'0' + count as u8, b'\r', b'\n']);
        return;
    }
    out.push(kind);
    out.extend_from_slice(itoa::Buffer::new().format(count).as_bytes());
    out.extend_from_slice(b"\r\n");
}

/// Commands that belong together.
#[derive(Debug, Default)]
pub struct LogBatch {
    bytes: Vec<u8>,
    commands: usize,
    first: u32,
    last: u32,
}

impl LogBatch {
    /// Whether nothing was added.
    pub fn is_empty(&self) -> bool {
        self.commands == 0
    }

    /// Adds a command that runs in a database.
    pub fn push<'a>(&mut self, db: u32, words: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.push_with(db, |out| put_command(out, words));
    }

    /// Adds what `render` writes: one command.
    pub fn push_with(&mut self, db: u32, render: impl FnOnce(&mut Vec<u8>)) {
        if self.commands == 0 {
            (self.first, self.last) = (db, db);
        }
        if self.last != db {
            put_select(&mut self.bytes, db);
            self.last = db;
        }
        render(&mut self.bytes);
        self.commands += 1;
    }

    /// Appends all to a log, as a transaction if there are several, and returns its length if there was any. The locks
    /// of what they change must be held.
    pub fn append_to(&self, log: &dyn ChangeLog) -> Option<u64> {
        let mut render = |out: &mut Vec<u8>| out.extend_from_slice(&self.bytes);
        (self.commands > 0).then(|| log.append(self.first, self.last, self.commands > 1, &mut render))
    }
}

/// What comes before and after the commands of a group.
pub const GROUP_BEGIN: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
/// Its end.
pub const GROUP_END: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// Appends the command that makes its reader go on in another database.
pub fn put_select(out: &mut Vec<u8>, db: u32) {
    let mut digits = itoa::Buffer::new();
    put_command(out, [&b"SELECT"[..], digits.format(db).as_bytes()].into_iter());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::MemoryLog;

    #[test]
    fn commands_are_rendered_as_clients_send_them() {
        let mut out = Vec::new();
        put_command(&mut out, [&b"SET"[..], b"k", &[b'v'; 12]].into_iter());
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$12\r\nvvvvvvvvvvvv\r\n");
    }

    #[test]
    fn several_commands_are_one_transaction() {
        let log = MemoryLog::default();
        let mut batch = LogBatch::default();
        batch.append_to(&log);
        assert!(log.take().is_empty());
        batch.push(1, [&b"INCR"[..], b"a"].into_iter());
        batch.append_to(&log);
        batch.push(2, [&b"INCR"[..], b"b"].into_iter());
        batch.append_to(&log);
        let names: Vec<(u32, Vec<u8>)> = log.take().into_iter().map(|(db, record)| (db, record[0].clone())).collect();
        let expected = [(1, "INCR"), (1, "MULTI"), (1, "INCR"), (2, "INCR"), (2, "EXEC")];
        assert_eq!(names, expected.map(|(db, name)| (db, name.as_bytes().to_vec())));
    }
}
