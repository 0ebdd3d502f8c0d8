//! Writing a file: the keyspace as it was at one moment, while others go on changing it.
//!
//! The moment is a [cut](engine::snapshot::capture): whoever changes a key afterwards that has not been written yet writes it down
//! before. The walk takes each shard's lock for a few buckets at a time, or for a [piece](crate::chunked_values) of a large
//! value.

use crate::chunked_values::{self, Pieces};
use crate::crc64;
use crate::encode::{Style, put_kind, put_length, put_string, put_value};
use crate::format::{VERSION_COMMON, VERSION_VALKEY, opcode};
use crate::keyspace_walk::{Blocks, walk};
use engine::Engine;
use engine::data::value::{KeyEntry, Object, Value};
use engine::snapshot::capture::{Begun, Encode, Encoder, ValueCursor};
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// What is written besides keys, and how.
#[derive(Clone, Debug)]
pub struct Options {
    pub style: Style,
    /// A checksum is written in the end (`rdbchecksum`).
    pub sum: bool,
    /// What the file says of itself.
    pub fields: Vec<(&'static str, String)>,
    /// How keys' access marks are written.
    pub marks: Marks,
    /// ValueCursor after each key (`rdb-key-save-delay`).
    pub delay: Duration,
}

/// What a key's 24 bits mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    None,
    /// Seconds of the last access; the clock as it is now.
    Recency(engine::keyspace::lru::AccessClock),
    Frequency(engine::keyspace::lru::AccessClock),
}

/// What was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    pub keys: u64,
    pub bytes: u64,
}

/// Writes the keyspace as it is now to `to`.
pub fn save(engine: &Engine, options: &Options, to: &mut (dyn Write + Send)) -> io::Result<Written> {
    save_unless(engine, options, &|| false, to)
}

/// The same; nothing is done where not all locks are free and `give_up` says that they will not be soon (`WouldBlock`).
pub fn save_unless(
    engine: &Engine,
    options: &Options,
    give_up: &dyn Fn() -> bool,
    to: &mut (dyn Write + Send),
) -> io::Result<Written> {
    save_cut(engine, options, &mut || {}, give_up, to)
}

/// As [`save`]; `at_cut` runs in the moment whose keyspace it is, under all locks.
pub fn save_with(
    engine: &Engine,
    options: &Options,
    at_cut: &mut dyn FnMut(),
    to: &mut (dyn Write + Send),
) -> io::Result<Written> {
    save_cut(engine, options, at_cut, &|| false, to)
}

fn save_cut(
    engine: &Engine,
    options: &Options,
    at_cut: &mut dyn FnMut(),
    give_up: &dyn Fn() -> bool,
    to: &mut (dyn Write + Send),
) -> io::Result<Written> {
    let encode: Encode = Arc::new(Keys { style: options.style, marks: options.marks });
    let begun = engine.begin_cut(encode, at_cut, give_up)?;
    engine.saves().progress.total.store(begun.keys, Relaxed);
    let result = write(engine, options, &begun, to);
    engine.end_cut();
    result
}

fn write(engine: &Engine, options: &Options, begun: &Begun, to: &mut (dyn Write + Send)) -> io::Result<Written> {
    let mut out = Out { to, crc: 0, sums: options.sum, written: Written::default(), db: None, begun };
    out.put(&header(options, begun))?;
    walk(engine, begun, options.delay, &mut out)?;
    out.put(&[opcode::EOF])?;
    let crc = if options.sum { out.crc } else { 0 };
    out.put(&crc.to_le_bytes())?;
    Ok(out.written)
}

/// What comes before a database's keys: its number, and how many there are, as a hint.
fn select(db: u32, begun: &Begun) -> Vec<u8> {
    let mut out = vec![opcode::SELECT_DB];
    put_length(&mut out, db.into());
    let (keys, deadlines) = begun.databases.get(&db).copied().unwrap_or_default();
    out.push(opcode::RESIZE_DB);
    put_length(&mut out, keys);
    put_length(&mut out, deadlines);
    out
}

fn header(options: &Options, begun: &Begun) -> Vec<u8> {
    let version = if begun.timed { options.style.newest_version() } else { VERSION_COMMON };
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
    for library in begun.libraries.iter() {
        out.push(opcode::FUNCTION);
        put_string(&mut out, &library.code, options.style.compress);
    }
    out
}

/// How keys are written.
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

    fn is_large(&self, entry: &KeyEntry) -> bool {
        chunked_values::is_large(&entry.value())
    }

    fn begin(&self, out: &mut Vec<u8>, entry: &KeyEntry) -> Box<dyn ValueCursor> {
        put_head(out, entry, &self.style, self.marks);
        Box::new(Pieces::begin(out, &entry.value(), self.style))
    }
}

/// Appends a key with what belongs to it, but not the value.
fn put_head(out: &mut Vec<u8>, entry: &KeyEntry, style: &Style, marks: Marks) {
    if let Value::Payload(Object::Stream(stream)) = entry.value()
        && let Some(state) = crate::stream::state(stream)
    {
        out.push(opcode::AUX);
        put_string(out, crate::stream::STATE, false);
        put_string(out, &state, false);
    }
    if let Some(deadline) = entry.deadline() {
        out.push(opcode::DEADLINE_MS);
        out.extend_from_slice(&deadline.to_le_bytes());
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

/// Where a file is written to, with its checksum.
struct Out<'w> {
    to: &'w mut (dyn Write + Send),
    crc: u64,
    sums: bool,
    written: Written,
    /// The database that the last key belonged to.
    db: Option<u32>,
    begun: &'w Begun,
}

impl Blocks for Out<'_> {
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
        if self.sums {
            self.crc = crc64::update(self.crc, bytes);
        }
        self.written.bytes += bytes.len() as u64;
        self.to.write_all(bytes)
    }
}
