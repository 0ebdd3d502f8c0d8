//! Commands in the form in which the log has them and clients send them.

use crate::propagation::change_log::{ChangeLog, Readers, RecordHead};
use std::borrow::Cow;
use std::ops::Range;

/// Appends a command as clients send it.
pub fn put_command<'a>(out: &mut Vec<u8>, words: impl ExactSizeIterator<Item = &'a [u8]>) {
    put_count(out, b'*', words.len());
    for word in words {
        put_word(out, word);
    }
}

/// Appends a word of a command.
#[inline]
pub fn put_word(out: &mut Vec<u8>, word: &[u8]) {
    put_count(out, b'$', word.len());
    out.extend_from_slice(word);
    out.extend_from_slice(b"\r\n");
}

/// Appends the line with the number of words, or with a word's length.
#[inline]
pub fn put_count(out: &mut Vec<u8>, kind: u8, count: usize) {
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
    /// Commands that not all readers get.
    only: Vec<Only>,
}

/// A command that not all readers of the log get.
#[derive(Debug)]
struct Only {
    readers: Readers,
    place: Range<usize>,
    commands: usize,
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

    /// Adds a command that changes nothing, for replicas only.
    pub fn push_told<'a>(&mut self, db: u32, words: impl ExactSizeIterator<Item = &'a [u8]>) {
        let mut told = LogBatch::default();
        told.push(db, words);
        self.absorb_for(told, Readers::Replicas);
    }

    /// Adds the commands of another batch, of one database, for these readers.
    pub fn absorb_for(&mut self, other: LogBatch, readers: Readers) {
        let commands = other.commands;
        if commands > 0 {
            self.turn_to(other.first);
            let start = self.bytes.len();
            self.bytes.extend_from_slice(&other.bytes);
            self.commands += commands - 1;
            self.only.push(Only { readers, place: start..self.bytes.len(), commands });
        }
    }

    /// Adds one command, which `render` writes.
    pub fn push_with(&mut self, db: u32, render: impl FnOnce(&mut Vec<u8>)) {
        self.turn_to(db);
        render(&mut self.bytes);
    }

    /// Adds a command as clients send it, whose bytes are not copied if they are its own and there are no others.
    pub fn push_text(&mut self, db: u32, text: Cow<'_, [u8]>) {
        self.turn_to(db);
        match text {
            Cow::Owned(text) if self.bytes.is_empty() => self.bytes = text,
            text => self.bytes.extend_from_slice(&text),
        }
    }

    fn turn_to(&mut self, db: u32) {
        if self.commands == 0 {
            (self.first, self.last) = (db, db);
        }
        if self.last != db {
            put_select(&mut self.bytes, db);
            self.last = db;
        }
        self.commands += 1;
    }

    /// Adds the commands of another batch at the end.
    pub fn absorb(&mut self, other: LogBatch) {
        if self.commands == 0 {
            *self = other;
            return;
        }
        let LogBatch { bytes, commands, first, last, only } = other;
        if commands > 0 {
            self.turn_to(first);
            let at = self.bytes.len();
            self.only.extend(only.into_iter().map(|it| Only { place: it.place.start + at..it.place.end + at, ..it }));
            self.bytes.extend_from_slice(&bytes);
            self.commands += commands - 1;
            self.last = last;
        }
    }

    /// Whether the append-only file gets some of it.
    pub fn is_for_file(&self) -> bool {
        let elsewhere = self.only.iter().filter(|it| it.readers == Readers::Replicas);
        self.commands > elsewhere.map(|it| it.commands).sum()
    }

    /// Appends all to a log, as one group if there are several, and returns its length if there was any. The locks of
    /// the changed keys must be held. `shard`: the only one that they change.
    pub fn append_to(self, log: &ChangeLog, shard: Option<usize>) -> Option<u64> {
        let LogBatch { bytes, commands, first, last, only } = self;
        let head = |readers, commands| RecordHead {
            last,
            is_group: commands > 1,
            readers,
            ..RecordHead::command(first, shard)
        };
        if only.is_empty() {
            return (commands > 0).then(|| log.append_text(head(Readers::All, commands), Cow::Owned(bytes)));
        }
        let mut end = None;
        for readers in [Readers::File, Readers::Replicas] {
            let others = || only.iter().filter(|it| it.readers != readers);
            let own = commands - others().map(|it| it.commands).sum::<usize>();
            if own > 0 {
                end = Some(log.append_text(head(readers, own), without(&bytes, others().map(|it| &it.place)).into()));
            }
        }
        end
    }
}

/// Returns the bytes without the ones at these places, which ascend.
fn without<'p>(bytes: &[u8], places: impl Iterator<Item = &'p Range<usize>>) -> Vec<u8> {
    let mut left = Vec::with_capacity(bytes.len());
    let mut from = 0;
    for place in places {
        left.extend_from_slice(&bytes[from..place.start]);
        from = place.end;
    }
    left.extend_from_slice(&bytes[from..]);
    left
}

/// The command before a group, for readers that take the log as a client's commands.
pub const GROUP_BEGIN: &[u8] = b"*1\r\n$5\r\nMULTI\r\n";
/// The command after a group.
pub const GROUP_END: &[u8] = b"*1\r\n$4\r\nEXEC\r\n";

/// Appends the command that makes its reader select another database.
pub fn put_select(out: &mut Vec<u8>, db: u32) {
    let mut digits = itoa::Buffer::new();
    put_command(out, [&b"SELECT"[..], digits.format(db).as_bytes()].into_iter());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::propagation::log_reader::Overflow;
    use crate::testing::MemoryLog;
    use std::ops::ControlFlow;
    use std::sync::Arc;

    #[test]
    fn commands_are_rendered_as_clients_send_them() {
        let mut out = Vec::new();
        put_command(&mut out, [&b"SET"[..], b"k", &[b'v'; 12]].into_iter());
        assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$12\r\nvvvvvvvvvvvv\r\n");
    }

    #[test]
    fn a_group_within_another_one_comes_at_its_place() {
        let log = MemoryLog::default();
        let mut outer = LogBatch::default();
        outer.push(1, [&b"A"[..]].into_iter());
        outer.absorb(LogBatch::default());
        let mut inner = LogBatch::default();
        inner.absorb(LogBatch::default());
        inner.push(2, [&b"B"[..]].into_iter());
        inner.push(3, [&b"C"[..]].into_iter());
        outer.absorb(inner);
        outer.push(3, [&b"D"[..]].into_iter());
        outer.append_to(&log.log(), None);
        let names: Vec<(u32, Vec<u8>)> = log.take().into_iter().map(|(db, record)| (db, record[0].clone())).collect();
        let expected = [(1, "MULTI"), (1, "A"), (2, "B"), (3, "C"), (3, "D"), (3, "EXEC")];
        assert_eq!(names, expected.map(|(db, name)| (db, name.as_bytes().to_vec())));
    }

    #[test]
    fn records_that_change_nothing_are_for_replicas_at_their_place() {
        let log = Arc::new(ChangeLog::default());
        let mut reader = log.open(Overflow::Keep);
        let (mut inner, mut outer) = (LogBatch::default(), LogBatch::default());
        inner.push_told(0, [&b"T"[..]].into_iter());
        outer.push(0, [&b"A"[..]].into_iter());
        outer.absorb(inner);
        outer.push(0, [&b"B"[..]].into_iter());
        outer.append_to(&log, None);
        let mut alone = LogBatch::default();
        alone.push_told(0, [&b"T"[..]].into_iter());
        alone.append_to(&log, None);
        let mut all = Vec::new();
        let read = reader.read(u64::MAX, |head, run| {
            let text = String::from_utf8_lossy(run.text()).replace("*1\r\n$1\r\n", "").replace("\r\n", "");
            all.push((head.readers, head.is_group, text));
            ControlFlow::Continue(())
        });
        let expected = [(Readers::File, true, "AB"), (Readers::Replicas, true, "ATB"), (Readers::Replicas, false, "T")];
        assert!(read.is_ok() && all == expected.map(|(readers, is_group, text)| (readers, is_group, text.to_owned())));
    }

    #[test]
    fn several_commands_are_one_group() {
        let log = MemoryLog::default();
        let append = |batch: LogBatch| batch.append_to(&log.log(), Some(3));
        assert_eq!(append(LogBatch::default()), None);
        let mut batch = LogBatch::default();
        batch.push(1, [&b"INCR"[..], b"a"].into_iter());
        assert_eq!(append(batch), Some(log.log().appended()));
        let mut batch = LogBatch::default();
        batch.push_text(1, Cow::Owned(b"*2\r\n$4\r\nINCR\r\n$1\r\na\r\n".to_vec()));
        batch.push(2, [&b"INCR"[..], b"b"].into_iter());
        append(batch);
        let names: Vec<(u32, Vec<u8>)> = log.take().into_iter().map(|(db, record)| (db, record[0].clone())).collect();
        let expected = [(1, "INCR"), (1, "MULTI"), (1, "INCR"), (2, "INCR"), (2, "EXEC")];
        assert_eq!(names, expected.map(|(db, name)| (db, name.as_bytes().to_vec())));
    }
}
