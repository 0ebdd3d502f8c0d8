//! Writing a file: the keyspace, or some of its slots, as it was at one moment, while others continue to change it.
//!
//! The moment is a [snapshot](engine::snapshot::captures): a command that afterwards changes a key that has not been
//! written yet writes it down before. The writer takes each shard's lock for a few buckets at a time, or for a
//! [piece](crate::chunked_values) of a large value.

use crate::chunked_values::{self, ChunkedWriter};
use crate::encode::{Style, put_kind, put_length, put_string, put_value};
use crate::format::{VERSION_VALKEY, opcode};
use crate::snapshot_writer::{self, SnapshotBlocks};
use cluster::slot_set::SlotSet;
use engine::Engine;
use engine::data::value::{KeyEntry, Object, Value};
use engine::snapshot::encoder::{Encode, Encoder, ValueCursor};
use engine::snapshot::open_snapshots::{BegunSnapshot, Purpose};
use engine::snapshot_steps::{Snapshot, SnapshotRequest};
use rdb::checksum::{self, Digest};
use std::any::Any;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// The content besides keys, and the way of writing.
#[derive(Clone, Debug)]
pub struct SaveOptions {
    /// The slots whose keys are written. Functions are written if these are all.
    pub slots: SlotSet,
    /// Keys are written, and functions.
    pub data: bool,
    /// Functions are written, if the slots are all.
    pub functions: bool,
    /// The purpose of the file.
    pub purpose: Purpose,
    /// The form of values.
    pub style: Style,
    /// A checksum is written in the end (`rdbchecksum`).
    pub sum: bool,
    /// The fields of the file about itself.
    pub fields: Vec<(&'static str, String)>,
    /// The form of keys' access marks.
    pub marks: Marks,
    /// Rest after each key (`rdb-key-save-delay`).
    pub delay: Duration,
}

/// The meaning of a key's 24 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// The bits are not written.
    None,
    /// Seconds of the last access; the clock as it is now.
    Recency(engine::keyspace::lru::AccessClock),
    /// Frequency of use, which decays; the clock as it is now.
    Frequency(engine::keyspace::lru::AccessClock),
}

/// The size of a written file.
#[derive(Clone, Copy, Debug, Default)]
pub struct SavedSize {
    /// Keys in the file.
    pub keys: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// Writes the keyspace as it is now to `to`.
///
/// # Errors
/// `to` cannot be written; `Interrupted` where the snapshot was cancelled.
pub fn save(engine: &Engine, options: &SaveOptions, to: &mut (dyn Write + Send)) -> io::Result<SavedSize> {
    save_unless(engine, options, &|| false, to)
}

/// Writes the keyspace as it is now to `to`; does nothing if some locks are held and `give_up` expects them to stay so
/// (`WouldBlock`).
///
/// # Errors
/// The errors of [`save`], and `WouldBlock`.
pub fn save_unless(
    engine: &Engine,
    options: &SaveOptions,
    give_up: &dyn Fn() -> bool,
    to: &mut (dyn Write + Send),
) -> io::Result<SavedSize> {
    SnapshotFile::begin(engine, options, || (), give_up)?.write(to)
}

/// Writes the keyspace as [`save`] does; `at_snapshot` runs in the snapshot's moment, under all locks.
///
/// # Errors
/// The errors of [`save`].
pub fn save_with(
    engine: &Engine,
    options: &SaveOptions,
    at_snapshot: &mut dyn FnMut(),
    to: &mut (dyn Write + Send),
) -> io::Result<SavedSize> {
    SnapshotFile::begin(engine, options, at_snapshot, || false)?.write(to)
}

/// A file of one moment that has begun: the snapshot is open, and not a byte of it is written. Until then others may
/// [join](crate::fan_out::FanOut::join) its writer.
pub struct SnapshotFile<'e> {
    snapshot: Snapshot<'e>,
    options: SaveOptions,
}

impl<'e> SnapshotFile<'e> {
    /// Begins a file of this moment, of the slots that the options name. `at_snapshot` runs in that moment, under the
    /// locks of all their shards.
    ///
    /// # Errors
    /// The errors of [`Engine::begin_snapshot`].
    pub fn begin(
        engine: &'e Engine,
        options: &SaveOptions,
        at_snapshot: impl FnOnce(),
        give_up: impl Fn() -> bool,
    ) -> io::Result<SnapshotFile<'e>> {
        let encode: Encode = Arc::new(Keys { style: options.style, marks: options.marks });
        let request = SnapshotRequest { slots: options.slots.clone(), purpose: options.purpose, encode };
        let snapshot = engine.begin_snapshot(request, at_snapshot, give_up)?;
        if snapshot_writer::is_told(&snapshot) {
            engine.persistence_status().progress.total.store(snapshot.begun().keys, Relaxed);
        }
        Ok(SnapshotFile { snapshot, options: options.clone() })
    }

    /// Returns whether there are collections whose elements have expiries, which older versions have no form for.
    pub fn has_element_expiries(&self) -> bool {
        self.snapshot.begun().timed
    }

    /// Adds a field of the file about itself.
    pub fn add_field(&mut self, name: &'static str, value: String) {
        self.options.fields.push((name, value));
    }

    /// Returns the length of the change log in its moment: later records are not in the file.
    pub fn offset(&self) -> u64 {
        self.snapshot.begun().offset
    }

    /// Writes the file.
    ///
    /// # Errors
    /// `to` cannot be written; `Interrupted` where the snapshot was cancelled.
    pub fn write(self, to: &mut (dyn Write + Send)) -> io::Result<SavedSize> {
        let (options, begun) = (&self.options, self.snapshot.begun());
        let sum = options.sum.then(checksum::digest);
        let mut out = Out { to, sum, written: SavedSize::default(), db: None, begun };
        out.put(&header(options, begun))?;
        if options.data {
            snapshot_writer::write(&self.snapshot, options.delay, &mut out)?;
        }
        out.put(&[opcode::EOF])?;
        let sum = out.sum.as_ref().map_or(0, Digest::finalize);
        out.put(&sum.to_le_bytes())?;
        Ok(out.written)
    }
}

/// Returns the head of a database: its number, and the number of its keys, as a hint.
fn select(db: u32, begun: &BegunSnapshot) -> Vec<u8> {
    let mut out = vec![opcode::SELECT_DB];
    put_length(&mut out, db.into());
    let (keys, expiries) = begun.databases.get(&db).copied().unwrap_or_default();
    out.push(opcode::RESIZE_DB);
    put_length(&mut out, keys);
    put_length(&mut out, expiries);
    out
}

fn header(options: &SaveOptions, begun: &BegunSnapshot) -> Vec<u8> {
    // Only Valkey's newest form has a place for slots that are being imported.
    let is_newest = begun.timed || !begun.hidden.is_empty() && options.data;
    let version = if is_newest { options.style.newest_version() } else { options.style.common_version() };
    let mut out = match version {
        VERSION_VALKEY.. => format!("VALKEY{version:03}"),
        _ => format!("REDIS{version:04}"),
    }
    .into_bytes();
    for (name, value) in &options.fields {
        out.push(opcode::AUX);
        put_string(&mut out, name.as_bytes(), false);
        put_string(&mut out, value.as_bytes(), false);
    }
    for library in begun.libraries.iter().filter(|_| options.functions).flat_map(|libraries| libraries.iter()) {
        out.push(opcode::FUNCTION);
        put_string(&mut out, &library.code, options.style.compress);
    }
    for (name, slots) in begun.hidden.iter().filter(|_| options.data && version >= VERSION_VALKEY) {
        out.push(opcode::SLOT_IMPORT);
        put_string(&mut out, name, false);
        let ranges = slots.ranges();
        put_length(&mut out, ranges.len() as u64);
        for range in ranges {
            put_length(&mut out, u64::from(*range.start()));
            put_length(&mut out, u64::from(*range.end()));
        }
    }
    out
}

/// The form of keys.
#[derive(PartialEq)]
struct Keys {
    style: Style,
    marks: Marks,
}

impl Encoder for Keys {
    fn put(&self, out: &mut Vec<u8>, entry: &KeyEntry) {
        put_head(out, entry, &self.style, self.marks);
        put_value(out, &entry.value(), &self.style);
    }

    fn keep(&self, out: &mut Vec<u8>, entry: &KeyEntry) {
        let style = Style { compress: false, ..self.style };
        put_head(out, entry, &style, self.marks);
        put_value(out, &entry.value(), &style);
    }

    fn keeps_like(&self, other: &dyn Encoder) -> bool {
        let other: &dyn Any = other;
        other.downcast_ref() == Some(self)
    }

    fn is_large(&self, entry: &KeyEntry) -> bool {
        chunked_values::is_large(&entry.value())
    }

    fn begin(&self, out: &mut Vec<u8>, entry: &KeyEntry) -> Box<dyn ValueCursor> {
        put_head(out, entry, &self.style, self.marks);
        Box::new(ChunkedWriter::begin(out, &entry.value(), self.style))
    }
}

/// Appends a key with its attributes, but not the value.
fn put_head(out: &mut Vec<u8>, entry: &KeyEntry, style: &Style, marks: Marks) {
    if let Value::Payload(Object::Stream(stream)) = entry.value()
        && let Some(state) = crate::stream::state(stream)
    {
        out.push(opcode::AUX);
        put_string(out, crate::stream::STATE, false);
        put_string(out, &state, false);
    }
    if let Some(expiry) = entry.expiry() {
        out.push(opcode::EXPIRY_MS);
        out.extend_from_slice(&expiry.to_le_bytes());
    }
    match marks {
        Marks::None => {}
        Marks::Recency(clock) => {
            out.push(opcode::IDLE);
            put_length(out, clock.idle_seconds(entry.meta()).into());
        }
        Marks::Frequency(clock) => out.extend_from_slice(&[opcode::FREQUENCY, clock.frequency(entry.meta()) as u8]),
    }
    let value = entry.value();
    put_kind(out, &value, style);
    put_string(out, entry.key(), style.compress);
}

/// The destination of a file, with its checksum.
struct Out<'w> {
    to: &'w mut (dyn Write + Send),
    /// The checksum of all bytes written, if the file is to have one.
    sum: Option<Digest>,
    written: SavedSize,
    /// The database that the last key belonged to.
    db: Option<u32>,
    begun: &'w BegunSnapshot,
}

impl SnapshotBlocks for Out<'_> {
    fn block(&mut self, db: u32, bytes: &[u8], keys: u64) -> io::Result<u64> {
        if !bytes.is_empty() {
            if self.db.replace(db) != Some(db) {
                self.put(&select(db, self.begun))?;
            }
            self.put(bytes)?;
        }
        self.written.keys += keys;
        Ok(self.written.keys)
    }
}

impl Out<'_> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if let Some(sum) = &mut self.sum {
            sum.update(bytes);
        }
        self.written.bytes += bytes.len() as u64;
        self.to.write_all(bytes)
    }
}
