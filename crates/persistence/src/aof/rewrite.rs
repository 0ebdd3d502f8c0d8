//! A base that is commands, for logs that are not to begin in the snapshots' format (`aof-use-rdb-preamble no`).
//!
//! A key becomes the commands that make it, of at most [`AT_ONCE`] elements each, so that a server that reads them does
//! not stop for long.

use super::framing::stamp;
use crate::dump::dump;
use crate::encode::Style;
use crate::format::Family;
use crate::save::SavedSize;
use crate::snapshot_writer::{self, SnapshotBlocks};
use crate::stream;
use cluster::slot_set::SlotSet;
use engine::Engine;
use engine::data::value::{KeyEntry, Object, Str, Value};
use engine::propagation::log_batch::{put_command, put_select};
use engine::propagation::logged_words::{given_back, stream_state};
use engine::snapshot::encoder::Encode;
use engine::snapshot::open_snapshots::Purpose;
use engine::snapshot_steps::SnapshotRequest;
use std::io::{self, Write};
use std::sync::Arc;
use std::time::Duration;
use structures::hash::View;
use structures::stream::{ConsumerGroup, Id, Stream};

/// The form of values in commands of the log.
const RESTORED: Style = Style { compress: true, family: Family::Valkey };
/// Elements in one command.
const AT_ONCE: usize = 64;

/// The content besides keys, and the way of writing.
#[derive(Clone, Debug, Default)]
pub struct RewriteOptions {
    /// Unix time in seconds, if the file states it.
    pub stamp: Option<i64>,
    /// Rest after each key (`rdb-key-save-delay`).
    pub delay: Duration,
}

/// Writes the keyspace as it is now as commands; `at_snapshot` runs in the snapshot's moment, under all locks.
///
/// # Errors
/// `to` cannot be written; `Interrupted` where the snapshot was cancelled.
pub fn write(
    engine: &Engine,
    options: &RewriteOptions,
    at_snapshot: &mut dyn FnMut(),
    to: &mut (dyn Write + Send),
) -> io::Result<SavedSize> {
    let encode: Encode = Arc::new(|out: &mut Vec<u8>, entry: &KeyEntry| put_entry(out, entry));
    let request = SnapshotRequest { slots: SlotSet::all(), purpose: Purpose::Rewrite, encode };
    let snapshot = engine.begin_snapshot(request, at_snapshot, || false)?;
    let mut out = Out { to, db: None, written: SavedSize::default() };
    let mut head = Vec::new();
    if let Some(seconds) = options.stamp {
        head.extend_from_slice(&stamp(seconds));
    }
    for library in snapshot.begun().libraries.iter().flat_map(|libraries| libraries.iter()) {
        words(&mut head, &[b"FUNCTION", b"LOAD", &library.code]);
    }
    out.put(&head)?;
    snapshot_writer::write(&snapshot, options.delay, &mut out)?;
    Ok(out.written)
}

/// The destination of a base.
struct Out<'w> {
    to: &'w mut (dyn Write + Send),
    /// The database that its reader is in.
    db: Option<u32>,
    written: SavedSize,
}

impl Out<'_> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.written.bytes += bytes.len() as u64;
        self.to.write_all(bytes)
    }
}

impl SnapshotBlocks for Out<'_> {
    fn block(&mut self, db: u32, bytes: &[u8], keys: u64) -> io::Result<u64> {
        if !bytes.is_empty() {
            if self.db.replace(db) != Some(db) {
                let mut select = Vec::new();
                put_select(&mut select, db);
                self.put(&select)?;
            }
            self.put(bytes)?;
        }
        self.written.keys += keys;
        Ok(self.written.keys)
    }
}

fn words(out: &mut Vec<u8>, words: &[&[u8]]) {
    put_command(out, words.iter().copied());
}

/// Appends the commands that make a key.
fn put_entry(out: &mut Vec<u8>, entry: &KeyEntry) {
    let key = entry.key();
    match entry.value() {
        Value::Int(n) => words(out, &[b"SET", key, Str::Int(n).bytes(&mut itoa::Buffer::new())]),
        Value::Inline(bytes) => words(out, &[b"SET", key, bytes]),
        Value::Packed(bytes) => put_hash(out, key, View::packed(bytes)),
        Value::Payload(object) => put_object(out, key, object),
    }
    if let Some(expiry) = entry.expiry() {
        words(out, &[b"PEXPIREAT", key, itoa::Buffer::new().format(expiry).as_bytes()]);
    }
}

fn put_object(out: &mut Vec<u8>, key: &[u8], object: &Object) {
    match object {
        Object::String(bytes) => words(out, &[b"SET", key, bytes]),
        Object::List(list) => {
            let mut command = FileBytes::new(out, b"RPUSH", key, 1);
            list.each(0..list.len(), false, |item| command.add(item.to_vec()));
        }
        Object::Set(set) => {
            let mut command = FileBytes::new(out, b"SADD", key, 1);
            set.iter().for_each(|item| command.add(item.to_vec()));
        }
        Object::Hash(hash) => put_hash(out, key, hash.view()),
        Object::SortedSet(set) => {
            let mut command = FileBytes::new(out, b"ZADD", key, 2);
            for (member, score) in set {
                command.add(resp::format_by_digits(score).to_vec());
                command.add(member.to_vec());
            }
        }
        Object::Stream(stream) => put_stream(out, key, stream),
        Object::Other(value) => {
            if !value.rewrite(key, &mut |command| words(out, command)) {
                words(out, &[b"RESTORE", key, b"0", &dump(&Value::Payload(object), &RESTORED)]);
            }
        }
    }
}

fn put_hash(out: &mut Vec<u8>, key: &[u8], hash: View<'_>) {
    hash.visit_all(|field, value, expiry| {
        if let Some(at) = expiry {
            let (at, field, value) = (at.to_string(), field.to_vec(), value.to_vec());
            words(out, &[b"HSETEX", key, b"PXAT", at.as_bytes(), b"FIELDS", b"1", &field, &value]);
        }
    });
    let mut command = FileBytes::new(out, b"HMSET", key, 2);
    hash.visit_all(|field, value, expiry| {
        if expiry.is_none() {
            command.add(field.to_vec());
            command.add(value.to_vec());
        }
    });
}

/// One command with a limited number of elements, again and again.
struct FileBytes<'o> {
    out: &'o mut Vec<u8>,
    name: &'static [u8],
    key: &'o [u8],
    /// Words of one element.
    width: usize,
    words: Vec<Vec<u8>>,
}

impl<'o> FileBytes<'o> {
    fn new(out: &'o mut Vec<u8>, name: &'static [u8], key: &'o [u8], width: usize) -> FileBytes<'o> {
        FileBytes { out, name, key, width, words: Vec::new() }
    }

    fn add(&mut self, word: Vec<u8>) {
        self.words.push(word);
        if self.words.len() == AT_ONCE * self.width {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if !self.words.is_empty() {
            let all: Vec<&[u8]> =
                [self.name, self.key].into_iter().chain(self.words.iter().map(Vec::as_slice)).collect();
            words(self.out, &all);
            self.words.clear();
        }
    }
}

impl Drop for FileBytes<'_> {
    fn drop(&mut self) {
        self.flush();
    }
}

fn put_stream(out: &mut Vec<u8>, key: &[u8], stream: &Stream) {
    let last = stream.last_id.to_vec();
    let mut entries = stream.range(Id::MIN, Id::MAX);
    while let Some(id) = entries.next() {
        let mut all = vec![b"XADD".to_vec(), key.to_vec(), id.to_vec()];
        while let Some((field, value)) = entries.field() {
            all.push(field.to_vec());
            all.push(value.to_vec());
        }
        put_command(out, all.iter().map(Vec::as_slice));
    }
    if stream.is_empty() {
        // Only these commands make a stream without entries. Its last id cannot be 0-0.
        let id = if stream.last_id == Id::MIN { b"0-1".to_vec() } else { last.clone() };
        words(out, &[b"XADD", key, b"MAXLEN", b"0", &id, b"x", b"y"]);
    }
    let added = stream.entries_added.to_string();
    let deleted = stream.max_deleted_id.to_vec();
    words(out, &[b"XSETID", key, &last, b"ENTRIESADDED", added.as_bytes(), b"MAXDELETEDID", &deleted]);
    for (name, group) in stream.groups() {
        let read = group.entries_read.map_or(-1, |read| read as i64).to_string();
        let id = group.last_id.to_vec();
        words(out, &[b"XGROUP", b"CREATE", key, name, &id, b"ENTRIESREAD", read.as_bytes()]);
        put_consumers(out, key, name, group);
    }
    if let Some(state) = stream::state(stream) {
        put_command(out, stream_state(key, &state).iter().map(Vec::as_slice));
    }
}

/// Puts a group's consumers, their pending entries, and the pending entries without a consumer.
fn put_consumers(out: &mut Vec<u8>, key: &[u8], name: &[u8], group: &ConsumerGroup) {
    for (consumer, _) in group.consumers() {
        words(out, &[b"XGROUP", b"CREATECONSUMER", key, name, &consumer.name]);
        for id in consumer.pending_from(Id::MIN) {
            let Some(pending) = group.pending(id) else { continue };
            let (time, count) = (pending.delivered_at.to_string(), pending.deliveries.to_string());
            let (time, count) = (time.as_bytes(), count.as_bytes());
            let (id, none): (_, &[u8]) = (id.to_vec(), b"0");
            let head = [&b"XCLAIM"[..], key, name, &consumer.name, none, &id];
            let tail = [&b"TIME"[..], time, b"RETRYCOUNT", count, b"JUSTID", b"FORCE"];
            words(out, &[&head[..], &tail[..]].concat());
        }
    }
    let nobodys = group.pending_range(Id::MIN, Id::MAX).filter(|(_, pending)| pending.consumer.is_none());
    for (id, pending) in nobodys {
        let record = given_back(key, name, &id.to_vec(), pending.deliveries);
        put_command(out, record.iter().map(Vec::as_slice));
    }
}
