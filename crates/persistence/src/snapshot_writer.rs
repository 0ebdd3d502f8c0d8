//! Writes a snapshot out: steps through all shards in turns, in blocks, at a pace that leaves clients their
//! processors.
//!
//! ```text
//!   shard 0  | step | .... | step | ....          each step some ten microseconds under the shard's lock
//!   shard 1  | .... | step | .... | step
//!              block of 64 KiB -> out, rest       longer than the work, while clients keep the workers busy
//! ```
//!
//! While clients need next to nothing other threads help, as many as the host has to spare: a free thread takes some of
//! the shards. Blocks consist of whole keys, so their order does not matter. One thread writes large values, after all
//! others.

use engine::Engine;
use engine::config::Directive;
use engine::snapshot::before_images::BeforeImages;
use engine::snapshot::capture::Part;
use engine::snapshot::open_snapshots::Purpose;
use engine::snapshot_steps::{Cancelled, Snapshot};
use engine::stats::metrics;
use engine::time::Nanos;
use std::io;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Bytes of old values that wait to be written, above which they move to the disk; or half of their limit.
const WAITING_MAX: u64 = 16 << 20;
/// Bytes that are written at once.
const BLOCK: usize = 64 << 10;

/// Receives the blocks of a snapshot.
pub trait SnapshotBlocks {
    /// Writes some keys of a database; returns how many there have been by now.
    fn block(&mut self, db: u32, bytes: &[u8], keys: u64) -> io::Result<u64>;
}

/// Writes all of a snapshot. `delay`: rest after each key.
///
/// # Errors
/// The error of `out`; `Interrupted` where the snapshot was cancelled.
pub fn write(snapshot: &Snapshot<'_>, delay: Duration, out: &mut (dyn SnapshotBlocks + Send)) -> io::Result<()> {
    let spills = !spill_beside(snapshot);
    let all = All { snapshot, delay, spills, out: Mutex::new(out), turns: Mutex::default(), changed: Condvar::new() };
    let mut result = Ok(());
    let mut work = || result = all.work();
    if delay.is_zero() && snapshot.begun().keys >= WORTH_HELP {
        snapshot.engine().host().alongside(&|| all.help(), &mut work);
    } else {
        work();
    }
    result
}

/// Interval of the checks whether there are too many old values in memory.
const SPILL_LOOK: Duration = Duration::from_millis(5);

/// Starts a thread that moves old values to the disk for as long as the snapshot is open; false if no thread is
/// available.
fn spill_beside(snapshot: &Snapshot<'_>) -> bool {
    let copies = Arc::downgrade(&snapshot.begun().copies);
    let work = move |engine: &Engine| {
        while let Some(copies) = copies.upgrade() {
            let has_more = copies.spill();
            drop(copies);
            if !has_more {
                engine.host().rest(SPILL_LOOK);
            }
        }
    };
    snapshot.engine().host().in_background(Directive::BGSAVE_CPULIST, Box::new(work)).is_ok()
}

/// Keys for which other threads are asked to help.
const WORTH_HELP: u64 = 1000;

/// State that the writing threads share.
struct All<'w> {
    snapshot: &'w Snapshot<'w>,
    delay: Duration,
    /// Old values are moved to the disk between two steps, as no other thread does that.
    spills: bool,
    out: Mutex<&'w mut (dyn SnapshotBlocks + Send)>,
    turns: Mutex<Turns>,
    changed: Condvar,
}

/// Shards that are still to be written.
#[derive(Default)]
struct Turns {
    db: u32,
    groups: Vec<Vec<usize>>,
    /// Groups that a thread is writing.
    taken: usize,
    failure: Option<io::Error>,
    is_over: bool,
}

/// Shards that one thread writes in turns, so that none is busy with this for long.
const GROUP: usize = 16;

impl<'w> All<'w> {
    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn out(&self) -> MutexGuard<'_, &'w mut (dyn SnapshotBlocks + Send)> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'t>(&self, turns: MutexGuard<'t, Turns>) -> MutexGuard<'t, Turns> {
        self.changed.wait(turns).unwrap_or_else(PoisonError::into_inner)
    }

    fn writer(&self) -> SnapshotWriter<'_, 'w> {
        SnapshotWriter {
            all: self,
            snapshot: self.snapshot,
            block: Vec::new(),
            keys: 0,
            pace: Pace::new(self.snapshot),
        }
    }

    /// Runs the caller's thread: it does everything, unless others help. Large values come last, and it writes them
    /// alone.
    fn work(&self) -> io::Result<()> {
        let shards = self.snapshot.shards();
        let mut writer = self.writer();
        let mut result = Ok(());
        for &db in self.snapshot.begun().databases.keys() {
            let mut turns = self.turns();
            (turns.db, turns.groups) = (db, shards.chunks(GROUP).map(<[usize]>::to_vec).collect());
            drop(turns);
            self.changed.notify_all();
            result = self.all_groups(&mut writer);
            if result.is_err() {
                break;
            }
        }
        self.turns().is_over = true;
        self.changed.notify_all();
        result?;
        for &db in self.snapshot.begun().databases.keys() {
            let mut shards = shards.to_vec();
            writer.group(Part::Large, db, &mut shards, false)?;
        }
        Ok(())
    }

    /// Writes the groups that other threads leave, and return, until none writes any more.
    fn all_groups(&self, writer: &mut SnapshotWriter<'_, 'w>) -> io::Result<()> {
        loop {
            self.groups(writer, false);
            let mut turns = self.turns();
            while turns.taken > 0 && (turns.groups.is_empty() || turns.failure.is_some()) {
                turns = self.wait(turns);
            }
            if let Some(failure) = turns.failure.take() {
                turns.groups.clear();
                return Err(failure);
            }
            if turns.groups.is_empty() {
                return Ok(());
            }
        }
    }

    /// Runs a helping thread, while clients need next to nothing: they are to find a processor free.
    fn help(&self) {
        let mut writer = self.writer();
        let mut turns = self.turns();
        while !turns.is_over {
            if turns.groups.is_empty() || turns.failure.is_some() {
                turns = self.wait(turns);
                continue;
            }
            writer.pace.read_clock();
            if writer.pace.is_used {
                let a_while = Duration::from_nanos(LOOK / 2);
                turns = self.changed.wait_timeout(turns, a_while).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            drop(turns);
            self.groups(&mut writer, true);
            turns = self.turns();
        }
    }

    /// Writes groups of shards until there are no more, or a thread has failed. `yields`: or until clients are back.
    fn groups(&self, writer: &mut SnapshotWriter<'_, 'w>, yields: bool) {
        let mut turns = self.turns();
        while turns.failure.is_none()
            && let Some(mut group) = turns.groups.pop()
        {
            turns.taken += 1;
            let db = turns.db;
            drop(turns);
            let result = writer.group(Part::Walk, db, &mut group, yields);
            turns = self.turns();
            turns.taken -= 1;
            let is_done = group.is_empty();
            // The lock covers both steps: a thread that finds nothing left, and none that writes, takes all to be
            // written.
            match result {
                Err(error) => _ = turns.failure.get_or_insert(error),
                Ok(()) if is_done => {}
                Ok(()) => turns.groups.push(group),
            }
            self.changed.notify_all();
            if !is_done {
                return;
            }
        }
    }
}

/// One thread's part in writing a snapshot.
struct SnapshotWriter<'a, 'w> {
    all: &'a All<'w>,
    snapshot: &'a Snapshot<'w>,
    block: Vec<u8>,
    /// Keys in the block.
    keys: u64,
    pace: Pace<'a>,
}

impl SnapshotWriter<'_, '_> {
    /// Steps through these shards in turns and takes out the finished ones: until none is left, or, if it `yields`,
    /// clients are back.
    fn group(&mut self, part: Part, db: u32, shards: &mut Vec<usize>, yields: bool) -> io::Result<()> {
        while !(shards.is_empty() || yields && self.pace.is_used) {
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

    /// Takes one step in a shard, or as many as a large value needs; returns whether there is more.
    fn shard(&mut self, part: Part, shard: usize, db: u32) -> io::Result<bool> {
        loop {
            let at = self.block.len();
            let step = self.snapshot.step(part, shard, db, &mut self.block).map_err(|Cancelled| cancelled())?;
            if let Some(kept) = step.kept {
                self.pour(db, at, kept)?;
            }
            while self.all.spills && self.snapshot.begun().copies.spill() {}
            self.keys += step.keys;
            if self.block.len() >= BLOCK || !self.all.delay.is_zero() {
                self.flush(db)?;
            }
            if !step.within {
                let copies = &self.snapshot.begun().copies;
                if part == Part::Walk && copies.waiting() > WAITING_MAX.min(copies.limit() / 2) {
                    self.drain(db)?;
                }
                return Ok(step.more);
            }
        }
    }

    fn flush(&mut self, db: u32) -> io::Result<()> {
        let keys = std::mem::take(&mut self.keys);
        let mut out = self.all.out();
        let written = out.block(db, &self.block, keys)?;
        tell(self.snapshot, written);
        drop(out);
        self.block.clear();
        rest(self.snapshot, self.all.delay, keys)?;
        self.pace.rest();
        Ok(())
    }

    /// Puts old values where they belong in the block.
    fn pour(&mut self, db: u32, at: usize, kept: BeforeImages) -> io::Result<()> {
        let after = self.block.split_off(at);
        self.flush(db)?;
        // No other thread writes in between: parts do not end at the borders of keys.
        let mut out = self.all.out();
        kept.pour(|bytes| out.block(db, bytes, 0).map(drop))?;
        drop(out);
        self.block = after;
        Ok(())
    }

    /// Takes all old values that wait, wherever they are. `at`: the database that the block is of.
    fn drain(&mut self, at: u32) -> io::Result<()> {
        self.flush(at)?;
        for &db in self.snapshot.begun().databases.keys() {
            for &shard in self.snapshot.shards() {
                if let Some(kept) = self.snapshot.drain(shard, db).map_err(|Cancelled| cancelled())? {
                    self.keys += kept.keys;
                    self.pour(db, 0, kept)?;
                }
            }
            self.flush(db)?;
        }
        Ok(())
    }
}

/// Leaves most of a processor to the clients while they need it: where processors are few, a save at full speed halves
/// the clients' throughput, and the scheduler interrupts it while it holds a lock.
struct Pace<'e> {
    engine: &'e Engine,
    purpose: Purpose,
    /// The thread's processor time when the last rest ended. Time in which it waits for the taker of the blocks, or
    /// others have the processor, serves clients as a rest does.
    worked: Nanos,
    /// Consecutive looks in which clients did not keep the workers busy.
    calm: u32,
    /// Whether clients use the workers more than a little.
    is_used: bool,
    /// Beginning of the present look, and the workers' work by then.
    since: Nanos,
    done: u64,
}

/// Ratio of a rest to the work before it; fewer where a client or a replica waits for the end.
const REST: u64 = 5;
const SHORT_REST: u64 = 1;
/// The longest rest, in nanoseconds.
const REST_MAX: u64 = 20_000_000;
/// Workers that use at least one part of so many of their time are busy.
const BUSY_SHARE: u64 = 8;
/// Workers that use at least one part of so many need others' threads out of their way.
const USED_SHARE: u64 = 128;
/// Duration of a look, in nanoseconds: longer than most ticks, whose time counts when they end.
const LOOK: u64 = 20_000_000;
/// Looks after which clients that kept the workers busy count as gone: workers that get no processor seem idle, and a
/// save that speeds up because of it takes the rest from them.
const CALM: u32 = 5;

impl Pace<'_> {
    fn new<'s>(snapshot: &'s Snapshot<'_>) -> Pace<'s> {
        let (engine, purpose) = (snapshot.engine(), snapshot.purpose());
        let now = engine.host().nanos();
        let worked = engine.host().thread_nanos();
        Pace { engine, purpose, worked, calm: CALM - 1, is_used: true, since: now, done: busy(engine) }
    }

    /// Checks now and then whether clients keep the workers busy.
    fn read_clock(&mut self) {
        let now = self.engine.host().nanos();
        let looked = now.since(self.since);
        if looked >= LOOK {
            let all = looked.saturating_mul(self.engine.workers() as u64);
            let done = busy(self.engine);
            let used = done.saturating_sub(self.done);
            let is_busy = used.saturating_mul(BUSY_SHARE) > all;
            self.calm = if is_busy { 0 } else { CALM.min(self.calm + 1) };
            self.is_used = used.saturating_mul(USED_SHARE) > all;
            (self.since, self.done) = (now, done);
        }
    }

    fn rest(&mut self) {
        let host = self.engine.host();
        self.read_clock();
        if self.calm < CALM {
            let worked = host.thread_nanos().since(self.worked);
            let saves = self.engine.persistence_status();
            let is_foreground = saves.is_running() && !saves.is_running_in_background();
            let is_waited_for = match self.purpose {
                Purpose::Save => is_foreground,
                // Changes made meanwhile are buffered for the replica.
                Purpose::Transfer | Purpose::Slots => true,
                Purpose::Rewrite => false,
            };
            let times = if is_waited_for { SHORT_REST } else { REST };
            host.rest(Duration::from_nanos(worked.saturating_mul(times).min(REST_MAX)));
        }
        self.worked = host.thread_nanos();
    }
}

fn busy(engine: &Engine) -> u64 {
    metrics::sum(engine.metrics(), |worker| &worker.turn_nanos)
}

fn tell(snapshot: &Snapshot<'_>, written: u64) {
    if is_told(snapshot) {
        let (progress, copies) = (&snapshot.engine().persistence_status().progress, &snapshot.begun().copies);
        progress.keys.store(written, Relaxed);
        progress.copied.store(copies.total(), Relaxed);
        progress.copied_peak.fetch_max(copies.peak(), Relaxed);
    }
}

/// Returns whether the progress shown is this one's: a save's before that of a rewrite.
pub fn is_told(snapshot: &Snapshot<'_>) -> bool {
    match snapshot.purpose() {
        Purpose::Save => true,
        Purpose::Rewrite => !snapshot.engine().persistence_status().is_running(),
        Purpose::Transfer | Purpose::Slots => false,
    }
}

fn cancelled() -> io::Error {
    io::Error::new(io::ErrorKind::Interrupted, "the save was cancelled")
}

/// Slows a save down, for tests; a cancellation is seen at once.
fn rest(snapshot: &Snapshot<'_>, delay: Duration, keys: u64) -> io::Result<()> {
    const SLICE: Duration = Duration::from_millis(10);
    let mut left = delay.saturating_mul(u32::try_from(keys).unwrap_or(u32::MAX));
    while !left.is_zero() {
        if snapshot.is_cancelled() {
            return Err(cancelled());
        }
        let slice = left.min(SLICE);
        snapshot.engine().host().rest(slice);
        left -= slice;
    }
    Ok(())
}
