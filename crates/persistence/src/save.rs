//! Writing a file: the keyspace as it was at one moment, while others go on changing it.
//!
//! The moment is a [cut](engine::cut): whoever changes a key afterwards that has not been written yet writes it down before. The
//! walk takes each shard's lock for a few buckets at a time.

use crate::crc64;
use crate::encode::{Style, put_kind, put_length, put_string, put_value};
use crate::format::{VERSION_COMMON, VERSION_VALKEY, opcode};
use engine::Engine;
use engine::cut::{Begun, Cancelled, Encode};
use engine::value::KeyEntry;
use std::io::{self, Write};
use std::sync::Arc;
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
    /// Rest after each key (`rdb-key-save-delay`).
    pub delay: Duration,
}

/// What a key's 24 bits mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    None,
    /// Seconds of the last access; the clock as it is now.
    Recency(engine::access::AccessClock),
    Frequency(engine::access::AccessClock),
}

/// What was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Written {
    pub keys: u64,
    pub bytes: u64,
}

/// Writes the keyspace as it is now to `to`.
pub fn save(engine: &Engine, options: &Options, to: &mut dyn Write) -> io::Result<Written> {
    let (style, marks) = (options.style, options.marks);
    let encode: Encode = Arc::new(move |out: &mut Vec<u8>, entry: &KeyEntry| put_entry(out, entry, &style, marks));
    let begun = engine.begin_cut(encode)?;
    let result = write(engine, options, &begun, to);
    engine.end_cut();
    result
}

fn write(engine: &Engine, options: &Options, begun: &Begun, to: &mut dyn Write) -> io::Result<Written> {
    let mut out = Out { to, crc: 0, sums: options.sum, written: Written::default() };
    out.put(&header(options, begun))?;
    let mut buffer = Vec::new();
    for db in 0..engine.databases() as u32 {
        let mut selected = false;
        for shard in 0..engine.locks().len() {
            let mut more = true;
            while more {
                buffer.clear();
                let step = engine.cut_step(shard, db, &mut buffer).map_err(|Cancelled| cancelled())?;
                more = step.more;
                if buffer.is_empty() {
                    continue;
                }
                if !selected {
                    out.put(&select(db))?;
                    selected = true;
                }
                out.put(&buffer)?;
                out.written.keys += step.keys;
                rest(engine, options.delay, step.keys)?;
            }
        }
    }
    out.put(&[opcode::EOF])?;
    let crc = if options.sum { out.crc } else { 0 };
    out.put(&crc.to_le_bytes())?;
    Ok(out.written)
}

fn cancelled() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "the save was cancelled")
}

/// Slows a save down, for tests; what cancels it is seen at once.
fn rest(engine: &Engine, delay: Duration, keys: u64) -> io::Result<()> {
    const SLICE: Duration = Duration::from_millis(10);
    let mut left = delay.saturating_mul(u32::try_from(keys).unwrap_or(u32::MAX));
    while !left.is_zero() {
        if !engine.cut_is_open() {
            return Err(cancelled());
        }
        let slice = left.min(SLICE);
        engine.host().sleep(slice);
        left -= slice;
    }
    Ok(())
}

fn select(db: u32) -> Vec<u8> {
    let mut out = vec![opcode::SELECT_DB];
    put_length(&mut out, db.into());
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
    for library in begun.libraries.values() {
        out.push(opcode::FUNCTION);
        put_string(&mut out, &library.code, options.style.compress);
    }
    out
}

/// Appends a key with what belongs to it.
fn put_entry(out: &mut Vec<u8>, entry: &KeyEntry, style: &Style, marks: Marks) {
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
    put_value(out, &value, style);
}

/// Where a file is written to, with its checksum.
struct Out<'w> {
    to: &'w mut dyn Write,
    crc: u64,
    sums: bool,
    written: Written,
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
