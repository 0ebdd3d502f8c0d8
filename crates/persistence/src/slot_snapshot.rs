//! Keys of some slots as commands, as another node takes them: SET for a string, RESTORE for any other value, SELECT
//! where the database changes.
//!
//! As with a file, they are of one moment, while others continue to change them. A string needs no type, version and
//! checksum, which cost both ends more work than its bytes.

use crate::chunked_values::ChunkedWriter;
use crate::dump::{ChunkedDump, dump};
use crate::encode::Style;
use crate::snapshot_writer::{self, SnapshotBlocks};
use cluster::slot_set::SlotSet;
use engine::Engine;
use engine::data::value::{KeyEntry, Object, Value};
use engine::propagation::log_batch::{put_command, put_select};
use engine::snapshot::before_images::SharedImages;
use engine::snapshot::encoder::{Encode, Encoder, ValueCursor};
use engine::snapshot::open_snapshots::Purpose;
use engine::snapshot_steps::{Snapshot, SnapshotRequest};
use std::any::Any;
use std::io::{self, Write};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// The keys of some slots as they were at one moment.
pub struct SlotSnapshot<'e>(Snapshot<'e>);

impl<'e> SlotSnapshot<'e> {
    /// Begins a snapshot of this moment.
    ///
    /// # Errors
    /// The errors of [`Engine::begin_snapshot`].
    pub fn begin(engine: &'e Engine, slots: SlotSet, style: Style) -> io::Result<SlotSnapshot<'e>> {
        let encode: Encode = Arc::new(Commands { style });
        let request = SnapshotRequest { slots, purpose: Purpose::Slots, encode };
        engine.begin_snapshot(request, || (), || false).map(SlotSnapshot)
    }

    /// Returns the length of the change log in its moment: later records are not in the snapshot.
    pub fn offset(&self) -> u64 {
        self.0.begun().offset
    }

    /// Writes the snapshot. `delay`: rest after each key.
    ///
    /// # Errors
    /// `to` cannot be written.
    pub fn write(self, delay: Duration, to: &mut (dyn Write + Send)) -> io::Result<()> {
        let mut out = Out { to, db: None, keys: 0 };
        snapshot_writer::write(&self.0, delay, &mut out)?;
        out.to.flush()
    }
}

/// The form of keys.
#[derive(PartialEq)]
struct Commands {
    style: Style,
}

impl Encoder for Commands {
    fn put(&self, out: &mut Vec<u8>, entry: &KeyEntry) {
        put_entry(out, entry, &self.style);
    }

    fn keep(&self, out: &mut Vec<u8>, entry: &KeyEntry) {
        put_entry(out, entry, &Style { compress: false, ..self.style });
    }

    fn is_large(&self, entry: &KeyEntry) -> bool {
        ChunkedDump::begin(&entry.value(), &self.style).is_some()
    }

    fn begin(&self, out: &mut Vec<u8>, entry: &KeyEntry) -> Box<dyn ValueCursor> {
        if let Value::Payload(Object::String(bytes)) = entry.value() {
            return Box::new(LargeString::begin(out, entry, bytes.len(), self.style));
        }
        let (dump, key, expiry) =
            (ChunkedDump::begin(&entry.value(), &self.style), entry.key().to_vec(), entry.expiry());
        match dump {
            Some(dump) => Box::new(LargeValue { dump, key, expiry, is_whole: false }),
            None => {
                self.put(out, entry);
                Box::new(Done)
            }
        }
    }

    fn keeps_like(&self, other: &dyn Encoder) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref() == Some(self)
    }
}

fn put_entry(out: &mut Vec<u8>, entry: &KeyEntry, style: &Style) {
    let (key, expiry) = (entry.key(), entry.expiry());
    match entry.value() {
        Value::Int(number) => put_set(out, key, expiry, itoa::Buffer::new().format(number).as_bytes()),
        Value::Inline(bytes) => put_set(out, key, expiry, bytes),
        Value::Payload(Object::String(bytes)) => put_set(out, key, expiry, bytes),
        value => put_restore(out, key, expiry, &dump(&value, style)),
    }
}

fn put_set(out: &mut Vec<u8>, key: &[u8], expiry: Option<u64>, value: &[u8]) {
    match expiry {
        None => put_command(out, [&b"SET"[..], key, value].into_iter()),
        Some(at) => {
            let mut digits = itoa::Buffer::new();
            let words: [&[u8]; 5] = [b"SET", key, value, b"PXAT", digits.format(at).as_bytes()];
            put_command(out, words.into_iter());
        }
    }
}

fn put_restore(out: &mut Vec<u8>, key: &[u8], expiry: Option<u64>, payload: &[u8]) {
    let mut digits = itoa::Buffer::new();
    let at = digits.format(expiry.unwrap_or(0)).as_bytes();
    let words: [&[u8]; 6] = [b"RESTORE", key, at, payload, b"REPLACE", b"ABSTTL"];
    put_command(out, words.into_iter());
}

/// A large string: SET with its bytes, which are sent a piece at a time as they are. Changes cost the blocks that they
/// change, or all bytes that are left.
struct LargeString {
    bytes: ChunkedWriter,
    expiry: Option<u64>,
}

impl LargeString {
    fn begin(out: &mut Vec<u8>, entry: &KeyEntry, len: usize, style: Style) -> LargeString {
        let (key, expiry, mut digits) = (entry.key(), entry.expiry(), itoa::Buffer::new());
        let words: &[u8] = if expiry.is_some() { b"*5\r\n$3\r\nSET\r\n$" } else { b"*3\r\n$3\r\nSET\r\n$" };
        out.extend_from_slice(words);
        out.extend_from_slice(digits.format(key.len()).as_bytes());
        out.extend_from_slice(b"\r\n");
        out.extend_from_slice(key);
        out.extend_from_slice(b"\r\n$");
        out.extend_from_slice(digits.format(len).as_bytes());
        out.extend_from_slice(b"\r\n");
        // The length stands before the bytes already, in another form than the file's.
        let bytes = ChunkedWriter::begin(&mut Vec::new(), &entry.value(), Style { compress: false, ..style });
        LargeString { bytes, expiry }
    }
}

impl ValueCursor for LargeString {
    fn put(&mut self, out: &mut Vec<u8>, object: &Object, max: usize) -> bool {
        self.bytes.put(out, object, max)
    }

    fn keep_bytes(&mut self, object: &Object, bytes: &Range<usize>) -> bool {
        self.bytes.keep_bytes(object, bytes)
    }

    fn follow(&mut self, object: &mut Object, kept: &SharedImages) {
        self.bytes.follow(object, kept);
    }

    fn put_all(&mut self, object: &Object, kept: &SharedImages) {
        self.bytes.put_all(object, kept);
    }

    fn finish(self: Box<Self>, out: &mut Vec<u8>) {
        out.extend_from_slice(b"\r\n");
        if let Some(at) = self.expiry {
            let (mut digits, mut length) = (itoa::Buffer::new(), itoa::Buffer::new());
            let at = digits.format(at).as_bytes();
            for part in [&b"$4\r\nPXAT\r\n$"[..], length.format(at.len()).as_bytes(), b"\r\n", at, b"\r\n"] {
                out.extend_from_slice(part);
            }
        }
    }
}

/// A large value, which is dumped a piece at a time: RESTORE takes it as a whole. A value that is about to change is
/// dumped to its end before.
struct LargeValue {
    dump: ChunkedDump,
    key: Vec<u8>,
    expiry: Option<u64>,
    is_whole: bool,
}

/// Bytes that are dumped at once before a value changes.
const AT_ONCE: usize = 1 << 20;

impl ValueCursor for LargeValue {
    fn put(&mut self, _: &mut Vec<u8>, object: &Object, max: usize) -> bool {
        self.is_whole = self.is_whole || self.dump.step_object(object, max);
        self.is_whole
    }

    fn follow(&mut self, object: &mut Object, kept: &SharedImages) {
        self.put_all(object, kept);
    }

    fn put_all(&mut self, object: &Object, _: &SharedImages) {
        while !self.put(&mut Vec::new(), object, AT_ONCE) {}
    }

    fn finish(self: Box<Self>, out: &mut Vec<u8>) {
        put_restore(out, &self.key, self.expiry, &self.dump.finish());
    }
}

/// A value that was written at once.
struct Done;

impl ValueCursor for Done {
    fn put(&mut self, _: &mut Vec<u8>, _: &Object, _: usize) -> bool {
        true
    }
}

/// The destination of the commands.
struct Out<'w> {
    to: &'w mut (dyn Write + Send),
    db: Option<u32>,
    keys: u64,
}

impl SnapshotBlocks for Out<'_> {
    fn block(&mut self, db: u32, bytes: &[u8], keys: u64) -> io::Result<u64> {
        if !bytes.is_empty() {
            if self.db.replace(db) != Some(db) {
                let mut select = Vec::new();
                put_select(&mut select, db);
                self.to.write_all(&select)?;
            }
            self.to.write_all(bytes)?;
        }
        self.keys += keys;
        Ok(self.keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::put;
    use engine::data::slot::slot_of;
    use engine::{NullHost, Options};
    use structures::entry::NewValue;

    /// Splits bytes into commands, their words with spaces between.
    fn commands(mut bytes: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        let line = |bytes: &mut &[u8]| {
            let end = bytes.iter().position(|byte| *byte == b'\r').unwrap();
            let number = String::from_utf8_lossy(&bytes[1..end]).parse::<usize>().unwrap();
            *bytes = &bytes[end + 2..];
            number
        };
        while !bytes.is_empty() {
            let words = (0..line(&mut bytes)).map(|_| {
                let len = line(&mut bytes);
                let word = String::from_utf8_lossy(&bytes[..len]).into_owned();
                bytes = &bytes[len + 2..];
                word
            });
            found.push(words.collect::<Vec<_>>().join(" "));
        }
        found
    }

    #[test]
    fn strings_are_set_and_others_restored_in_their_databases() {
        let engine = Engine::new(&Options { shards: 4, databases: 16, ..Options::default() }, Arc::new(NullHost));
        let entry = |name: &str, value, expiry| KeyEntry::new(name.as_bytes(), value, expiry, 0);
        put(&engine, 0, entry("{a}1", NewValue::Inline(b"text"), None));
        put(&engine, 0, entry("{a}2", NewValue::Int(-7), Some(1_700_000_000_123)));
        put(&engine, 3, entry("{a}3", NewValue::Payload(Object::String(vec![b'v'; 100].into())), None));
        let list = crate::decode::value(
            &mut crate::rdb_reader::Source::new(&mut &b"\x01\x01x"[..], false),
            1,
            crate::format::Family::Valkey,
            engine.encoding_limits(),
        )
        .unwrap();
        put(&engine, 3, list.into_entry(b"{a}4", Some(1_700_000_000_124), 0));
        put(&engine, 0, entry("{b}1", NewValue::Inline(b"another slot's"), None));
        let slot = slot_of(b"{a}");
        let style = Style { compress: true, family: crate::format::Family::Valkey };
        let mut bytes = Vec::new();
        let snapshot = SlotSnapshot::begin(&engine, SlotSet::of([slot..=slot]), style).unwrap();
        snapshot.write(Duration::ZERO, &mut bytes).unwrap();
        let mut found = commands(&bytes);
        found[1..3].sort();
        found[4..].sort();
        assert_eq!(found[..3], ["SELECT 0", "SET {a}1 text", "SET {a}2 -7 PXAT 1700000000123"]);
        assert_eq!(found[3], "SELECT 3");
        assert!(
            found[4].starts_with("RESTORE {a}4 1700000000124 ") && found[4].ends_with(" REPLACE ABSTTL"),
            "{found:?}"
        );
        assert_eq!((&found[5], found.len()), (&format!("SET {{a}}3 {}", "v".repeat(100)), 6));
    }

    /// The string is changed in the middle and at its end while it is sent.
    #[test]
    fn a_large_string_is_set_as_it_was_and_a_change_of_some_bytes_copies_few() {
        let style = Style { compress: true, family: crate::format::Family::Valkey };
        let old: Vec<u8> = (0..6 << 20).map(|at: usize| (at % 251) as u8).collect();
        for expiry in [None, Some(1_700_000_000_123)] {
            for grows in [false, true] {
                let mut object = Object::String(old.clone().into());
                let entry = KeyEntry::new(b"k", NewValue::Payload(object.clone()), expiry, 0);
                let commands_of = Commands { style };
                assert!(commands_of.is_large(&entry));
                let mut out = Vec::new();
                let mut cursor = commands_of.begin(&mut out, &entry);
                assert!(!cursor.put(&mut out, &object, 1 << 20) && out.len() < (1 << 20) + 100, "sent as it goes");
                for at in [10, 2 << 20, (6 << 20) - 5] {
                    assert!(cursor.keep_bytes(&object, &(at..at + 5)));
                    let Object::String(string) = &mut object else { unreachable!() };
                    string.bytes_mut()[at..at + 5].fill(0xff);
                }
                if grows {
                    let Object::String(string) = &mut object else { unreachable!() };
                    assert!(cursor.keep_bytes(&Object::String(string.clone()), &(6 << 20..7 << 20)));
                    string.bytes_mut().resize(7 << 20, 0xff);
                }
                while !cursor.put(&mut out, &object, 1 << 20) {}
                cursor.finish(&mut out);
                let mut expected = Vec::new();
                put_set(&mut expected, b"k", expiry, &old);
                assert!(out == expected, "expiry {expiry:?}, grows {grows}");
            }
        }
    }
}
