//! The thread that writes and syncs the append-only file.
//!
//! ```text
//!   everysec, no   worker: commands - write - replies            this thread: a sync a second, what could not be written
//!   always         worker: commands - write - sync - replies          where a sync is quicker than waking a thread
//!                  worker: commands - replies are kept - goes on      this thread: write - sync - tells the workers
//! ```
//!
//! With `always` one sync is for all who wait: those who come while it is under way are the next group, which is waited
//! for a little when syncs take long. What a worker keeps it sends when the log is durable up to where it was when the
//! commands had run, whether they wrote or read what others had written.

use crate::system::affinity;
use crate::workers::mailbox::WorkerMessage;
use crate::workers::shared::Shared;
use commands::persistence::aof::{end_waits, regulate, wrote};
use commands::replication::wait_replicas;
use crossbeam_channel::{Receiver, RecvTimeoutError};
use engine::config::Directive;
use engine::memory_limit::LogThread;
use persistence::aof::journal::Policy;
use persistence::aof::{Aof, State, of};
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// Between two syncs, and between two attempts after an error.
const SECOND: Duration = Duration::from_secs(1);
/// A sync that takes no longer, in nanoseconds, is done by the worker itself.
const QUICK: u64 = 100_000;
/// How long a worker waits for others who sync.
const PATIENCE: Duration = Duration::from_nanos(QUICK);
/// The share of the last syncs' time that the next one waits for those who are expected, and the longest time.
const GATHERING_SHARE: u32 = 2;
const GATHERING_MAX: Duration = Duration::from_millis(5);
/// Looks at who has come, in that time, and the share of it after which nobody comes any more who has not come.
const GATHERING_LOOKS: u32 = 16;
const GATHERING_QUIET: u32 = 2;
/// Syncs that wait for nobody after one that has waited in vain, for less than so many quarters of whom it expected:
/// where syncs are shorter than the way to the clients and back, these come after the next sync all the same.
const UNGATHERED: u32 = 16;
const WORTH_GATHERING: u64 = 3;

/// Starts the thread, which ends when nobody can wake it any more.
pub fn start(shared: &Arc<Shared>, notifier: Receiver<()>) -> io::Result<JoinHandle<()>> {
    let shared = Arc::clone(shared);
    thread::Builder::new().name("aof".to_owned()).spawn(move || {
        affinity::pin(&shared.engine.config().snapshot(), Directive::BIO_CPULIST);
        run(&shared, &notifier);
    })
}

fn run(shared: &Shared, notifier: &Receiver<()>) {
    let Some(aof) = of(&shared.engine) else { return };
    let mut last = Instant::now();
    let mut group = Group::default();
    while !shared.stopping.load(Relaxed) {
        let left = SECOND.saturating_sub(last.elapsed());
        let rung = match notifier.recv_timeout(left) {
            Ok(()) => true,
            Err(RecvTimeoutError::Timeout) => false,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        // After an error it is tried again once a second, however often it is asked for.
        let is_time = last.elapsed() >= SECOND;
        if is_time {
            last = Instant::now();
        }
        let writes = is_time || rung && !aof.has_failed() && aof.journal.policy() == Policy::Always;
        if writes && aof.state() != State::Off {
            group.gather(aof);
            let clock = Instant::now();
            tend(shared, aof, &mut group);
            if aof.keeps_replies() {
                aof.stats.thread_nanos.fetch_add(clock.elapsed().as_nanos() as u64, Relaxed);
            }
        }
        if writes || rung {
            tell(shared, aof);
        }
    }
}

/// Those who wait for a sync together.
#[derive(Default)]
struct Group {
    /// How many replies had been kept when the last sync began.
    end: u64,
    /// How many it was for.
    size: u64,
    /// How many are likely to wait for the next one.
    expected: u64,
    /// Syncs that are still to wait for nobody.
    ungathered: u32,
}

impl Group {
    /// Waits for those who were told of the last sync, as they are writing again most likely: without them they would
    /// make up a second group, and everybody would wait for two syncs from then on. Who was expected in vain is waited
    /// for until nobody has come for a while.
    fn gather(&mut self, aof: &Aof) {
        let took = Duration::from_nanos(aof.stats.sync_nanos.load(Relaxed));
        let kept = || aof.stats.kept.load(Relaxed);
        let mut seen = kept();
        let is_for_many = aof.journal.policy() == Policy::Always && took > PATIENCE && seen > self.end;
        if is_for_many && self.ungathered > 0 {
            self.ungathered -= 1;
        } else if is_for_many {
            let most = (took / GATHERING_SHARE).min(GATHERING_MAX);
            let (began, mut came) = (Instant::now(), Instant::now());
            while seen - self.end < self.expected && began.elapsed() < most && came.elapsed() < most / GATHERING_QUIET {
                thread::sleep(most / GATHERING_LOOKS);
                let now = kept();
                if std::mem::replace(&mut seen, now) != now {
                    came = Instant::now();
                }
            }
            if (seen - self.end) * 4 < self.expected * WORTH_GATHERING {
                self.ungathered = UNGATHERED;
            }
        }
        (self.size, self.end) = (seen - self.end, seen);
    }

    /// To be called before who waited for a sync is told of it.
    fn release(&mut self, aof: &Aof) {
        // Who has rung for what the last sync had saved already says nothing of the next one.
        if self.size > 0 {
            self.expected = self.size + aof.stats.kept.load(Relaxed) - self.end;
        }
    }
}

/// Notes what a sync took.
fn note(shared: &Shared, aof: &Aof, took: Duration) {
    let (nanos, known) = (took.as_nanos() as u64, aof.stats.sync_nanos.load(Relaxed));
    aof.stats.sync_nanos.store(known - known / 8 + nanos / 8, Relaxed);
    shared.engine.latency().note("aof-fsync-always", nanos, crate::system::clock::now().unix_ms());
}

/// Whether nothing is to be synced now.
fn rests(shared: &Shared, aof: &Aof) -> bool {
    aof.stats.rewriting.load(Relaxed) && shared.engine.config().snapshot().flag(Directive::NO_APPENDFSYNC_ON_REWRITE)
}

/// Makes durable what the calling worker's clients are to be told of. False: the log's thread has to do it.
pub fn commit(shared: &Shared, aof: &Aof, offset: u64) -> bool {
    let stats = &aof.stats;
    let attempt = aof.attempt();
    let is_quick = stats.sync_nanos.load(Relaxed) <= QUICK && stats.flush_sleep.load(Relaxed) == 0;
    if !is_quick || aof.has_failed() || rests(shared, aof) {
        return false;
    }
    let clock = Instant::now();
    let Some(result) = aof.journal.commit(offset, PATIENCE) else { return false };
    note(shared, aof, clock.elapsed());
    wrote(&shared.engine, aof, attempt, &result);
    end_waits(&shared.engine, aof);
    result.is_ok()
}

/// Writes and syncs as the policy says.
fn tend(shared: &Shared, aof: &Aof, group: &mut Group) {
    let (journal, attempt) = (&aof.journal, aof.attempt());
    let mut result = write(aof);
    let rests = rests(shared, aof);
    let syncs = match journal.policy() {
        Policy::No => false,
        _ => !rests && journal.synced() < journal.written(),
    };
    if result.is_ok() && syncs {
        let clock = Instant::now();
        result = journal.sync_by_policy();
        note(shared, aof, clock.elapsed());
    }
    if result.is_ok() && (rests || journal.policy() != Policy::Always) {
        journal.release_written();
    }
    if result.is_ok() && journal.policy() != Policy::Always {
        // What was not written because of the sync.
        result = journal.write();
    }
    shared.engine.count_log_thread(LogThread::File);
    wrote(&shared.engine, aof, attempt, &result);
    group.release(aof);
}

/// Those look again who wait for the log: workers that keep replies, WAITAOF, and who may not write meanwhile.
fn tell(shared: &Shared, aof: &Aof) {
    let keepers = shared.running().filter(|worker| shared.slot(*worker).awaits_durability.load(Relaxed));
    keepers.for_each(|worker| shared.post(worker, WorkerMessage::Durable));
    end_waits(&shared.engine, aof);
    wait_replicas::end_waits(&shared.engine);
    regulate(&shared.engine, aof);
}

pub fn write(aof: &Aof) -> io::Result<()> {
    let pause = aof.stats.flush_sleep.load(Relaxed);
    if pause > 0 && aof.journal.waiting() > 0 {
        thread::sleep(Duration::from_micros(pause));
    }
    aof.journal.write()
}
