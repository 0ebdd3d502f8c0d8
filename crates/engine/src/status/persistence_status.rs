//! The state of saving and loading: for INFO and LASTSAVE, for threads that would save at the same time, and for
//! commands that may not run meanwhile.

use crate::locks::sync::{Mutex, MutexGuard};
use crate::status::deny_reasons::{DenyReasons, Paused};
use crate::status::shutdown_status::ShutdownStatus;
use crate::time::{SteadyMs, UnixMs};
use crossbeam_utils::CachePadded;
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering::AcqRel, Ordering::Acquire, Ordering::Relaxed,
    Ordering::Release,
};

/// The state of saving and loading.
#[derive(Default)]
pub struct PersistenceStatus {
    /// Reasons for which commands may not run: [`DenyReasons`]. Every command reads it, so the numbers of a running
    /// save are on other cache lines.
    deny_reasons: CachePadded<AtomicU64>,
    /// Whether a save runs, and whether one may begin: [`RUNNING`], [`HELD`].
    saving: AtomicU8,
    /// Whether a save is to begin when the present one has ended.
    pub scheduled: AtomicBool,
    /// Unix time in seconds of the last save that succeeded.
    pub last_save: AtomicI64,
    /// Time of the last save that succeeded by the clock that never goes back, in milliseconds: save points count from
    /// it.
    pub saved_at: AtomicI64,
    /// The last attempt in the background, by that clock.
    pub tried_at: AtomicI64,
    failed: AtomicBool,
    cancelled: AtomicBool,
    skips_checksums: AtomicBool,
    /// Whether a signal has asked for the server's end, which has not begun.
    end_wanted: AtomicBool,
    /// The end while it is on its way.
    pub shutdown: ShutdownStatus,
    /// Held by the thread that ends the server; whether everything is done for it.
    ended: Mutex<bool>,
    /// Whether the rewrite of the log is to end.
    rewrite_cancelled: AtomicBool,
    /// The beginning of the present save in the background by that clock; 0 for none.
    pub started_at: AtomicI64,
    /// Duration of the last snapshot in the background, for the disk or for replicas, in seconds, plus one; 0 for none.
    seconds: AtomicI64,
    /// Saves that were begun.
    pub count: AtomicU64,
    /// Changes that the last save contains.
    pub changes: AtomicU64,
    /// Changes of functions, which belong to no shard.
    pub elsewhere: AtomicU64,
    /// Payloads of RESTORE and files whose packed values were searched for errors that their counts do not show.
    pub sanitizations: AtomicU64,
    /// Saves and rewrites that were begun in the background: for each of them other servers fork.
    pub forks: AtomicU64,
    /// Nanoseconds for which the last cut stopped all commands.
    pub snapshot_nanos: AtomicU64,
    /// Progress of the present save.
    pub progress: SaveProgress,
    /// The file that is read, or was read last.
    pub loading: Loading,
    /// Whether a thread is about to replace the data set.
    replacing: AtomicBool,
}

/// The right to replace the data set with another one, which one thread has at a time.
#[must_use]
pub struct ReplaceTurn<'s>(&'s AtomicBool);

impl Drop for ReplaceTurn<'_> {
    fn drop(&mut self) {
        self.0.store(false, Release);
    }
}

/// A save is under way.
const RUNNING: u8 = 1;
/// No save begins.
const HELD: u8 = 2;

/// While this exists no save begins: files of the former data set do not take the place of another one's.
#[must_use]
pub struct HeldSaves<'s>(&'s AtomicU8);

impl Drop for HeldSaves<'_> {
    fn drop(&mut self) {
        self.0.fetch_and(!HELD, Release);
    }
}

/// Progress of a save.
#[derive(Default)]
pub struct SaveProgress {
    /// Keys that were written.
    pub keys: AtomicU64,
    /// Keys that there are to save.
    pub total: AtomicU64,
    /// Bytes of values that were written down before they were changed.
    pub copied: AtomicU64,
    /// Bytes of values that the last save wrote down before they were changed.
    pub last_copied: AtomicU64,
    /// Most bytes of such values at once.
    pub copied_peak: AtomicU64,
}

impl SaveProgress {
    /// Resets it when nothing is written any more.
    pub fn reset(&self) {
        [&self.keys, &self.total, &self.copied, &self.copied_peak].iter().for_each(|number| number.store(0, Relaxed));
    }
}

/// A file that is being read, or was.
#[derive(Default)]
pub struct Loading {
    /// Unix time in seconds.
    pub started_at: AtomicI64,
    /// Bytes that the file has.
    pub total_bytes: AtomicU64,
    /// Bytes that were read.
    pub loaded_bytes: AtomicU64,
    /// Keys that were put into the keyspace.
    pub keys_loaded: AtomicU64,
    /// Keys that were left out because they had expired.
    pub keys_expired: AtomicU64,
    /// Commands that were read from a log and replied an error.
    pub errors: AtomicU64,
}

impl PersistenceStatus {
    /// Returns the reasons for which commands may not run now.
    #[inline]
    pub fn deny_reasons(&self) -> DenyReasons {
        // A thread that sees an epoch sees the state with which it began.
        DenyReasons(self.deny_reasons.load(Acquire))
    }

    /// Takes the right to replace the data set; None while another thread has it.
    pub fn replace_turn(&self) -> Option<ReplaceTurn<'_>> {
        (!self.replacing.swap(true, Acquire)).then(|| ReplaceTurn(&self.replacing))
    }

    /// Sets whether the data set is being read.
    pub fn set_loading(&self, on: bool) {
        self.set(DenyReasons::LOADING, on);
    }

    /// Sets whether another data set is being read beside the one that is served.
    pub fn set_async_loading(&self, on: bool) {
        self.set(DenyReasons::ASYNC_LOADING, on);
    }

    /// Sets whether writes are refused because saving fails.
    pub fn refuse_writes(&self, on: bool) {
        self.set(DenyReasons::FAILED, on);
    }

    /// Sets whether more memory is in use than `maxmemory` allows, and nothing can be evicted.
    pub fn set_short_of_memory(&self, on: bool) {
        self.set(DenyReasons::SHORT_OF_MEMORY, on);
    }

    /// Sets whether writes are refused because too few replicas follow.
    pub fn set_short_of_replicas(&self, on: bool) {
        self.set(DenyReasons::SHORT_OF_REPLICAS, on);
    }

    /// Sets whether clients may not write because the server follows another one.
    pub fn set_read_only_replica(&self, on: bool) {
        self.set(DenyReasons::READ_ONLY_REPLICA, on);
    }

    /// Sets whether the server follows another one.
    pub fn set_follows(&self, on: bool) {
        self.set(DenyReasons::FOLLOWS, on);
    }

    /// Sets whether the server has lost its primary, and is not to reply with its data.
    pub fn set_stale(&self, on: bool) {
        self.set(DenyReasons::STALE, on);
    }

    /// Sets whether the server is a node of a cluster.
    pub fn set_clustered(&self, on: bool) {
        self.set(DenyReasons::CLUSTERED, on);
    }

    /// Sets whether there is a limit to memory.
    pub fn set_limited(&self, on: bool) {
        self.set(DenyReasons::LIMITED, on);
    }

    /// Sets whether too much waits in the mailbox of a worker.
    pub fn set_congested(&self, on: bool) {
        self.set(DenyReasons::CONGESTED, on);
    }

    /// Sets whether writes are refused because the log cannot be written.
    pub fn refuse_unlogged(&self, on: bool) {
        self.set(DenyReasons::UNLOGGED, on);
    }

    pub(crate) fn set_paused(&self, paused: Paused) {
        let reason = match paused {
            Paused::Nothing => 0,
            Paused::Writes => DenyReasons::WRITES_PAUSED,
            Paused::All => DenyReasons::ALL_PAUSED,
        };
        self.change(DenyReasons::WRITES_PAUSED | DenyReasons::ALL_PAUSED, reason);
    }

    /// Begins an epoch with the same reasons, when another condition of admission has changed.
    pub fn begin_epoch(&self) {
        self.deny_reasons.fetch_add(DenyReasons::EPOCH, Release);
    }

    /// Takes over reasons of another engine, but those that only its own threads would end.
    pub(crate) fn take_reasons(&self, reasons: DenyReasons) {
        self.change(DenyReasons::LASTING, reasons.0 & DenyReasons::LASTING);
    }

    fn set(&self, reason: u64, on: bool) {
        self.change(reason, if on { reason } else { 0 });
    }

    /// Replaces the reasons `among` by `reasons`.
    fn change(&self, among: u64, reasons: u64) {
        let with = |word| DenyReasons(word).with(among, reasons).map(|new| new.0);
        // A call that changes nothing writes nothing.
        let _ = self.deny_reasons.fetch_update(Relaxed, Relaxed, with);
    }

    /// Resets the counts of saves and their costs (CONFIG RESETSTAT).
    pub fn reset_counts(&self) {
        [&self.count, &self.forks, &self.snapshot_nanos, &self.loading.errors]
            .iter()
            .for_each(|number| number.store(0, Relaxed));
    }

    /// Prevents saves from beginning, for the thread that replaces the data set. One may still be under way.
    pub fn hold_saves(&self, _: &ReplaceTurn<'_>) -> HeldSaves<'_> {
        self.saving.fetch_or(HELD, AcqRel);
        HeldSaves(&self.saving)
    }

    /// Takes the right to save; false while another save has it, or none may begin. `background`: its beginning, in the
    /// background.
    pub fn begin(&self, background: Option<SteadyMs>) -> bool {
        if self.saving.compare_exchange(0, RUNNING, Acquire, Relaxed).is_err() {
            return false;
        }
        self.cancelled.store(false, Relaxed);
        self.count.fetch_add(1, Relaxed);
        self.progress.reset();
        self.started_at.store(background.map_or(0, |now| now.0.max(1)), Relaxed);
        if let Some(now) = background {
            self.tried_at.store(now.0, Relaxed);
        }
        true
    }

    /// Releases the right. `changes`: changes that the file contains, if it was written.
    pub fn end(&self, now: UnixMs, steady: SteadyMs, changes: Option<u64>, cancelled: bool) {
        let began = self.started_at.swap(0, Relaxed);
        if began > 0 {
            self.note_duration(SteadyMs(began), steady);
        }
        if let Some(changes) = changes {
            self.note_saved(now, steady);
            self.changes.store(changes, Relaxed);
        }
        // A client that waits for a save gets the error itself.
        if changes.is_some() || began > 0 && !cancelled {
            self.failed.store(changes.is_none(), Relaxed);
        }
        self.progress.last_copied.store(self.progress.copied.load(Relaxed), Relaxed);
        self.progress.reset();
        self.cancelled.store(false, Relaxed);
        self.saving.fetch_and(!RUNNING, Release);
    }

    /// Records the duration of a snapshot that was written in the background.
    pub fn note_duration(&self, began: SteadyMs, now: SteadyMs) {
        self.seconds.store(now.since(began).max(0) / 1000 + 1, Relaxed);
    }

    /// Records that the data set is on the disk since this moment, by both clocks.
    pub fn note_saved(&self, now: UnixMs, steady: SteadyMs) {
        self.last_save.store(now.seconds(), Relaxed);
        self.saved_at.store(steady.0, Relaxed);
    }

    /// Asks the running save to end: its next step, or the thread that rests between two, sees it.
    pub fn cancel(&self) {
        self.cancelled.store(self.is_running(), Relaxed);
    }

    /// Whether the running save is to end.
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Relaxed)
    }

    /// Whether the rewrite of the log is to end.
    pub fn is_rewrite_cancelled(&self) -> bool {
        self.rewrite_cancelled.load(Relaxed)
    }

    /// Sets whether the rewrite is to end.
    pub fn cancel_rewrite(&self, on: bool) {
        self.rewrite_cancelled.store(on, Relaxed);
    }

    /// Asks for the server's end (a signal).
    pub fn want_end(&self) {
        self.end_wanted.store(true, Relaxed);
    }

    /// Makes a requested end final; false if none was requested.
    pub fn settle_end(&self) -> bool {
        self.end_wanted.swap(false, Relaxed)
    }

    /// Returns the right to end the server, and whether everything has been done for its end. Waits while another
    /// thread has the right.
    pub fn end_turn(&self) -> MutexGuard<'_, bool> {
        self.ended.lock()
    }

    /// Whether the server's end was asked for and has not begun.
    pub fn is_end_wanted(&self) -> bool {
        self.end_wanted.load(Relaxed)
    }

    /// Sets whether checksums of files and dumps are skipped (DEBUG SET-SKIP-CHECKSUM-VALIDATION).
    pub fn skip_checksums(&self, on: bool) {
        self.skips_checksums.store(on, Relaxed);
    }

    /// Whether checksums are skipped.
    pub fn skips_checksums(&self) -> bool {
        self.skips_checksums.load(Relaxed)
    }

    /// Whether a save is under way.
    pub fn is_running(&self) -> bool {
        self.saving.load(Acquire) & RUNNING != 0
    }

    /// Whether the save under way is one in the background.
    pub fn is_running_in_background(&self) -> bool {
        self.is_running() && self.started_at.load(Relaxed) > 0
    }

    /// Whether the last save failed.
    pub fn has_failed(&self) -> bool {
        self.failed.load(Relaxed)
    }

    /// Returns the seconds that the last snapshot in the background took.
    pub fn last_seconds(&self) -> Option<i64> {
        Some(self.seconds.load(Relaxed)).filter(|seconds| *seconds > 0).map(|seconds| seconds - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_save_begins_while_saves_are_held_and_a_running_one_ends() {
        let status = PersistenceStatus::default();
        let turn = status.replace_turn().expect("the only one");
        assert!(status.begin(None) && !status.begin(None));
        let held = status.hold_saves(&turn);
        assert!(status.is_running());
        status.end(UnixMs(0), SteadyMs(0), None, true);
        assert!(!status.is_running() && !status.begin(None));
        drop(held);
        assert!(status.begin(None));
    }
}
