//! Writing a file: the keyspace as it was at one moment, while others go on changing it.
//!
//! The moment is a [cut](engine::cut): whoever changes a key afterwards that has not been written yet writes it down before. The
//! walk takes each shard's lock for a few buckets at a time, or for a [piece](crate::pieces) of a large value.

use crate::crc64;
use crate::encode::{Style, put_kind, put_length, put_string, put_value};
use crate::format::{VERSION_COMMON, VERSION_VALKEY, opcode};
use crate::pieces::{self, Pieces};
use engine::Engine;
use engine::cut::{Begun, Cancelled, Encode, Encoder, Part, Rest};
use engine::metrics;
use engine::value::KeyEntry;
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
    save_with(engine, options, &mut || {}, to)
}

/// The same; `at_cut` runs in the moment whose keyspace it is, under all locks.
pub fn save_with(
    engine: &Engine,
    options: &Options,
    at_cut: &mut dyn FnMut(),
    to: &mut dyn Write,
) -> io::Result<Written> {
    let encode: Encode = Arc::new(Keys { style: options.style, marks: options.marks });
    let begun = engine.begin_cut_with(encode, at_cut)?;
    engine.saves().progress.total.store(begun.keys, Relaxed);
    let result = write(engine, options, &begun, to);
    engine.end_cut();
    result
}

/// Old values that wait to be written, in bytes, above which they are not left where they are any longer.
const WAITING_MAX: u64 = 16 << 20;
/// Bytes that are written at once.
const BLOCK: usize = 64 << 10;

fn write(engine: &Engine, options: &Options, begun: &Begun, to: &mut dyn Write) -> io::Result<Written> {
    let mut out = Out { to, crc: 0, sums: options.sum, written: Written::default(), db: None };
    out.put(&header(options, begun))?;
    let mut walk = Walk { engine, options, begun, out, block: Vec::new(), keys: 0, pace: Pace::new(engine) };
    for part in [Part::Walk, Part::Large] {
        for db in 0..engine.databases() as u32 {
            walk.database(part, db)?;
        }
    }
    let mut out = walk.out;
    out.put(&[opcode::EOF])?;
    let crc = if options.sum { out.crc } else { 0 };
    out.put(&crc.to_le_bytes())?;
    Ok(out.written)
}

/// Goes through the keyspace and writes what the steps bring, a block at a time.
struct Walk<'w> {
    engine: &'w Engine,
    options: &'w Options,
    begun: &'w Begun,
    out: Out<'w>,
    block: Vec<u8>,
    /// Keys in the block.
    keys: u64,
    pace: Pace<'w>,
}

impl Walk<'_> {
    fn database(&mut self, part: Part, db: u32) -> io::Result<()> {
        // All shards in turns, so that none is busy with this for long.
        let mut shards: Vec<usize> = (0..self.engine.locks().len()).collect();
        while !shards.is_empty() {
            let mut at = 0;
            while let Some(shard) = shards.get(at) {
                if self.shard(part, *shard, db)? {
                    at += 1;
                } else {
                    shards.remove(at);
                }
            }
        }
        self.flush(db)
    }

    /// One step in a shard, or as many as a large value takes; whether there is more.
    fn shard(&mut self, part: Part, shard: usize, db: u32) -> io::Result<bool> {
        loop {
            let step = self.engine.cut_step(part, shard, db, &mut self.block).map_err(|Cancelled| cancelled())?;
            self.keys += step.keys;
            if self.block.len() >= BLOCK || !self.options.delay.is_zero() {
                self.flush(db)?;
            }
            if !step.within {
                if self.begun.copies.waiting() > WAITING_MAX {
                    self.drain(db)?;
                }
                return Ok(step.more);
            }
        }
    }

    fn flush(&mut self, db: u32) -> io::Result<()> {
        let keys = std::mem::take(&mut self.keys);
        self.out.keys(&self.block, db, keys, self.begun)?;
        self.block.clear();
        tell(self.engine, self.begun, &self.out.written);
        rest(self.engine, self.options.delay, keys)?;
        self.pace.rest();
        Ok(())
    }

    /// Takes all old values that wait, wherever they are. `at`: the database that the block is of.
    fn drain(&mut self, at: u32) -> io::Result<()> {
        self.flush(at)?;
        for db in 0..self.engine.databases() as u32 {
            for shard in 0..self.engine.locks().len() {
                let taken = self.engine.cut_drain(shard, db, &mut self.block);
                self.keys += taken.map_err(|Cancelled| cancelled())?;
            }
            self.flush(db)?;
        }
        Ok(())
    }
}

/// Leaves most of a processor to the clients while they need it: where processors are few, a save that takes what it can
/// get halves what they get done, and is interrupted by the scheduler while it holds a lock.
struct Pace<'e> {
    engine: &'e Engine,
    /// When the last rest ended, and what the workers had done by then.
    began: u64,
    busy: u64,
}

/// A rest is so many times as long as the work before it.
const REST: u64 = 2;
/// No rest is longer, in nanoseconds.
const REST_MAX: u64 = 10_000_000;
/// One in so many parts of their time must be used by the workers.
const BUSY_SHARE: u64 = 4;

impl Pace<'_> {
    fn new(engine: &Engine) -> Pace<'_> {
        Pace { engine, began: engine.host().nanos(), busy: busy(engine) }
    }

    fn rest(&mut self) {
        let host = self.engine.host();
        let worked = host.nanos().saturating_sub(self.began);
        let all = worked.saturating_mul(self.engine.metrics().len() as u64);
        if busy(self.engine).saturating_sub(self.busy).saturating_mul(BUSY_SHARE) > all {
            host.sleep(Duration::from_nanos(worked.saturating_mul(REST).min(REST_MAX)));
        }
        (self.began, self.busy) = (host.nanos(), busy(self.engine));
    }
}

fn busy(engine: &Engine) -> u64 {
    metrics::sum(engine.metrics(), |worker| &worker.turn_nanos)
}

fn tell(engine: &Engine, begun: &Begun, written: &Written) {
    let progress = &engine.saves().progress;
    progress.keys.store(written.keys, Relaxed);
    progress.copied.store(begun.copies.total(), Relaxed);
    progress.copied_peak.fetch_max(begun.copies.waiting(), Relaxed);
}

fn cancelled() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "the save was cancelled")
}

/// Slows a save down, for tests; what cancels it is seen at once.
pub(crate) fn rest(engine: &Engine, delay: Duration, keys: u64) -> io::Result<()> {
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

/// What comes before a database's keys: its number, and how many there are, as a hint.
fn select(db: u32, begun: &Begun) -> Vec<u8> {
    let mut out = vec![opcode::SELECT_DB];
    put_length(&mut out, db.into());
    let (keys, deadlines) = begun.databases[db as usize];
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
    for library in begun.libraries.values() {
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
        pieces::is_large(&entry.value())
    }

    fn begin(&self, out: &mut Vec<u8>, entry: &KeyEntry) -> Box<dyn Rest> {
        put_head(out, entry, &self.style, self.marks);
        Box::new(Pieces::begin(out, &entry.value(), self.style))
    }
}

impl Rest for Pieces {
    fn put(&mut self, out: &mut Vec<u8>, entry: &KeyEntry, max: usize) -> bool {
        self.piece(out, &entry.value(), max)
    }
}

/// Appends a key with what belongs to it, but not the value.
fn put_head(out: &mut Vec<u8>, entry: &KeyEntry, style: &Style, marks: Marks) {
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
    to: &'w mut dyn Write,
    crc: u64,
    sums: bool,
    written: Written,
    /// The database that the last key belonged to.
    db: Option<u32>,
}

impl Out<'_> {
    fn keys(&mut self, bytes: &[u8], db: u32, keys: u64, begun: &Begun) -> io::Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        if self.db.replace(db) != Some(db) {
            self.put(&select(db, begun))?;
        }
        self.written.keys += keys;
        self.put(bytes)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.sums {
            self.crc = crc64::update(self.crc, bytes);
        }
        self.written.bytes += bytes.len() as u64;
        self.to.write_all(bytes)
    }
}
