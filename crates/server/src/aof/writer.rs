//! The thread that writes and syncs the append-only file.
//!
//! ```text
//!   everysec, no   worker: commands - write - replies            this thread: a sync a second, writes that had failed
//!   always         worker: commands - write - sync - replies     (if a sync is quicker than waking a thread)
//!                  worker: commands - replies are held - next    this thread: write - sync - notify the workers
//! ```
//!
//! With `always` one sync is for all clients that wait: writes that come while it is under way are the next group,
//! which is waited for a little when syncs take long. A worker sends a held reply when the log is durable up to its
//! length when the command had run, whether the command wrote or read others' writes.

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

/// Time between two syncs, and between two attempts after an error.
const SECOND: Duration = Duration::from_secs(1);
/// A sync that takes no longer, in nanoseconds, is done by the worker itself.
const QUICK: u64 = 100_000;
/// Time that a worker waits for others that sync.
const PATIENCE: Duration = Duration::from_nanos(QUICK);
/// Share of the last syncs' time that the next one waits for expected replies, and the longest time.
const GATHERING_SHARE: u32 = 2;
const GATHERING_MAX: Duration = Duration::from_millis(5);
/// Number of looks at arrivals in that time, and the share of it after which no more arrivals are expected if none
/// came.
const GATHERING_LOOKS: u32 = 16;
const GATHERING_QUIET: u32 = 2;
/// Syncs that wait for no reply after one has waited in vain, for less than so many quarters of the expected ones:
/// where syncs are shorter than the way to the clients and back, their writes come after the next sync all the same.
const UNGATHERED: u32 = 16;
const WORTH_GATHERING: u64 = 3;

/// Starts the thread, which ends when no thread can wake it any more.
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
        // A write that failed is retried once a second, however often it is asked for.
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

/// Replies that wait for a sync together.
#[derive(Default)]
struct Group {
    /// Number of replies that had been held when the last sync began.
    end: u64,
    /// Number of replies that the last sync was for.
    size: u64,
    /// Number of replies that are likely to wait for the next sync.
    expected: u64,
    /// Further syncs that wait for no reply.
    ungathered: u32,
}

impl Group {
    /// Waits for clients whose writes the last sync had, as they are writing again most likely: without them they would
    /// make up a second group, and every client would wait for two syncs from then on. Clients that were expected in
    /// vain are waited for until no reply has come for a while.
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

    /// Expects the next group; to be called before the clients that waited for a sync get their replies.
    fn release(&mut self, aof: &Aof) {
        // A ring for writes that the last sync had already says nothing of the next one.
        if self.size > 0 {
            self.expected = self.size + aof.stats.kept.load(Relaxed) - self.end;
        }
    }
}

/// Records the time of a sync.
fn note(shared: &Shared, aof: &Aof, took: Duration) {
    let (nanos, known) = (took.as_nanos() as u64, aof.stats.sync_nanos.load(Relaxed));
    aof.stats.sync_nanos.store(known - known / 8 + nanos / 8, Relaxed);
    shared.engine.latency().note("aof-fsync-always", nanos, crate::system::clock::now().unix_ms());
}

/// Returns whether nothing is to be synced now.
fn rests(shared: &Shared, aof: &Aof) -> bool {
    aof.stats.rewriting.load(Relaxed) && shared.engine.config().snapshot().flag(Directive::NO_APPENDFSYNC_ON_REWRITE)
}

/// Makes durable the changes that the calling worker's replies show. False: the log's thread has to do it.
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

/// Writes and syncs as the policy requires.
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
        // Changes are written that the sync had held up.
        result = journal.write();
    }
    shared.engine.count_log_thread(LogThread::File);
    wrote(&shared.engine, aof, attempt, &result);
    group.release(aof);
}

/// Notifies all that wait for the log: workers that hold replies, clients in WAITAOF, and clients that may not write
/// meanwhile.
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
