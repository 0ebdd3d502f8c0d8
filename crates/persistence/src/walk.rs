//! The walk through a cut, for who writes a file of it: steps through all shards in turns, in blocks, at a pace that leaves clients
//! their processors.
//!
//! ```text
//!   shard 0  | step | .... | step | ....          each step some ten microseconds under the shard's lock
//!   shard 1  | .... | step | .... | step
//!              block of 64 KiB -> out, rest       three times as long as the work, while clients keep the workers busy
//! ```

use engine::Engine;
use engine::cut::{Begun, Cancelled, Part};
use engine::kept::Kept;
use engine::metrics;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Old values that wait to be written, in bytes, above which they are not left where they are any longer; or half of what there may be.
const WAITING_MAX: u64 = 16 << 20;
/// Bytes that are written at once.
const BLOCK: usize = 64 << 10;

/// Takes what a walk brings.
pub trait Blocks {
    /// Some keys of a database; answers how many there have been by now.
    fn block(&mut self, db: u32, bytes: &[u8], keys: u64) -> io::Result<u64>;
}

/// Goes through the whole keyspace of a cut. `delay`: rest after each key.
pub fn walk(engine: &Engine, begun: &Begun, delay: Duration, out: &mut dyn Blocks) -> io::Result<()> {
    let mut walk = Walk { engine, delay, begun, out, block: Vec::new(), keys: 0, pace: Pace::new(engine) };
    for part in [Part::Walk, Part::Large] {
        for db in 0..engine.databases() as u32 {
            walk.database(part, db)?;
        }
    }
    Ok(())
}

struct Walk<'w> {
    engine: &'w Engine,
    delay: Duration,
    begun: &'w Begun,
    out: &'w mut dyn Blocks,
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
            let at = self.block.len();
            let step = self.engine.cut_step(part, shard, db, &mut self.block).map_err(|Cancelled| cancelled())?;
            if let Some(kept) = step.kept {
                self.pour(db, at, kept)?;
            }
            self.keys += step.keys;
            if self.block.len() >= BLOCK || !self.delay.is_zero() {
                self.flush(db)?;
            }
            if !step.within {
                let copies = &self.begun.copies;
                if part == Part::Walk && copies.waiting() > WAITING_MAX.min(copies.limit() / 2) {
                    self.drain(db)?;
                }
                return Ok(step.more);
            }
        }
    }

    fn flush(&mut self, db: u32) -> io::Result<()> {
        let keys = std::mem::take(&mut self.keys);
        let written = self.out.block(db, &self.block, keys)?;
        self.block.clear();
        tell(self.engine, self.begun, written);
        rest(self.engine, self.delay, keys)?;
        self.pace.rest();
        Ok(())
    }

    /// Puts old values where they belong in the block.
    fn pour(&mut self, db: u32, at: usize, kept: Kept) -> io::Result<()> {
        let after = self.block.split_off(at);
        self.flush(db)?;
        kept.pour(|bytes| self.out.block(db, bytes, 0).map(drop))?;
        self.block = after;
        Ok(())
    }

    /// Takes all old values that wait, wherever they are. `at`: the database that the block is of.
    fn drain(&mut self, at: u32) -> io::Result<()> {
        self.flush(at)?;
        for db in 0..self.engine.databases() as u32 {
            for shard in 0..self.engine.locks().len() {
                if let Some(kept) = self.engine.cut_drain(shard, db).map_err(|Cancelled| cancelled())? {
                    self.keys += kept.keys;
                    self.pour(db, 0, kept)?;
                }
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
    /// When the last rest ended.
    began: u64,
    /// Whether clients keep the workers busy, since when that is being found out anew, and what the workers had done by then.
    is_busy: bool,
    since: u64,
    done: u64,
}

/// A rest is so many times as long as the work before it.
const REST: u64 = 3;
/// No rest is longer, in nanoseconds.
const REST_MAX: u64 = 20_000_000;
/// One in so many parts of their time must be used by the workers.
const BUSY_SHARE: u64 = 8;
/// How long they are looked at, in nanoseconds: longer than most turns take, whose time counts when they are over.
const LOOK: u64 = 20_000_000;

impl Pace<'_> {
    fn new(engine: &Engine) -> Pace<'_> {
        let now = engine.host().nanos();
        Pace { engine, began: now, is_busy: true, since: now, done: busy(engine) }
    }

    fn rest(&mut self) {
        let host = self.engine.host();
        let now = host.nanos();
        let looked = now.saturating_sub(self.since);
        if looked >= LOOK {
            let all = looked.saturating_mul(self.engine.metrics().len() as u64);
            let done = busy(self.engine);
            self.is_busy = done.saturating_sub(self.done).saturating_mul(BUSY_SHARE) > all;
            (self.since, self.done) = (now, done);
        }
        if self.is_busy {
            let worked = now.saturating_sub(self.began);
            host.rest(Duration::from_nanos(worked.saturating_mul(REST).min(REST_MAX)));
        }
        self.began = host.nanos();
    }
}

fn busy(engine: &Engine) -> u64 {
    metrics::sum(engine.metrics(), |worker| &worker.turn_nanos)
}

fn tell(engine: &Engine, begun: &Begun, written: u64) {
    let progress = &engine.saves().progress;
    progress.keys.store(written, Relaxed);
    progress.copied.store(begun.copies.total(), Relaxed);
    progress.copied_peak.fetch_max(begun.copies.peak(), Relaxed);
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
        engine.host().rest(slice);
        left -= slice;
    }
    Ok(())
}
