//! The sink of the change log that is a file, and then the next file.
//!
//! ```text
//!   the log, in blocks                                             one thread that writes                one that syncs
//!   ... read [ records, in runs | turn | records ...... ] end      framed, pending ---> file ........... durable
//!            ^ taken             to the next file                                       ^ written         ^ synced
//! ```
//!
//! Offsets are the log's: `synced <= written <= taken <= appended`. Other bytes of the file (SELECT, MULTI, EXEC,
//! remarks of the time) are written between records and count for nothing. A thread that appends never waits for this
//! sink's locks. A sync holds only its own lock.
//!
//! **Nothing torn.** A write that fails in the middle is undone by truncating the file to where the write began; if
//! that fails too, the next write continues exactly where the failed one ended. Bytes taken from the log stay here
//! until they are written.
//!
//! **A failed sync** may have lost pages that the kernel calls clean. With [`Policy::Always`] bytes that are not
//! durable are retained, so they are cut off and written once more. Otherwise everything up to there is in doubt: no
//! later sync makes it durable, but a new base does.

use super::file_bytes::FileBytes;
use super::framing::Framing;
pub use super::policy::Policy;
use super::policy::SharedPolicy;
use super::storage::LogFile;
use engine::locks::sync::{Mutex, MutexGuard, spin};
use engine::propagation::change_log::{ChangeLog, Readers};
use engine::propagation::log_reader::{LogReader, Overflow};
use std::collections::VecDeque;
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::*};
use std::time::Duration;

/// The file that is appended to.
pub struct JournalTarget {
    /// The file itself.
    pub file: Arc<dyn LogFile>,
    /// Its name in the directory of the log.
    pub name: Vec<u8>,
    /// Bytes in it, which are all whole commands.
    pub len: u64,
}

/// Bytes that are taken from the log and written together.
const AT_ONCE: usize = 1 << 20;

/// An action due when the log is written up to an offset.
enum Mark {
    /// Records from here on belong into this file.
    Turn(JournalTarget),
    /// The time is remarked before the next record: Unix seconds.
    Stamp(i64),
}

#[derive(Default)]
struct Output {
    target: Option<JournalTarget>,
    /// None: there is no file.
    reader: Option<LogReader>,
    framing: Framing,
    /// Bytes taken from the log, and not written yet.
    pending: FileBytes,
    /// Offset up to which the log was taken.
    taken: u64,
    /// Some of the pending bytes are in the file already.
    has_begun: bool,
    /// The file that follows once all pending bytes are written.
    next: Option<JournalTarget>,
    /// The last bytes written and not synced, if the policy retains them, and the log's offset where they begin.
    unsynced: FileBytes,
    unsynced_from: u64,
    /// Offset up to which written bytes are not retained.
    unkept: u64,
    /// The end of the file, as long as `unsynced`, may be lost and is still to be cut off.
    is_torn: bool,
    /// Bytes in files that were written and not cut off again, since the start.
    bytes: u64,
    /// Bytes of them that are durable, as far as that matters.
    durable_bytes: u64,
    /// Number of times that a written end of a file was cut off.
    cuts: u64,
}

impl Output {
    /// Takes records up to `until`, or a part of them if they are many.
    fn take(&mut self, until: u64) {
        let Output { reader, framing, pending, .. } = self;
        let Some(reader) = reader else { return };
        let taken = reader.read(until, |head, run| {
            if head.readers != Readers::Replicas {
                framing.put(head, run, pending);
            }
            if pending.len() < AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        });
        // The log keeps all for this sink, so it is not dropped.
        self.taken = taken.unwrap_or(until);
    }

    /// Skips the log's records up to an offset.
    fn skip_to(&mut self, until: u64) {
        if let Some(reader) = &mut self.reader {
            self.taken = reader.read(until, |_, _| ControlFlow::Continue(())).unwrap_or(until);
        }
    }

    /// Continues in this file; bytes that were to be written before are forgotten.
    fn begin(&mut self, target: JournalTarget, seconds: i64) {
        self.pending.clear();
        self.unsynced.clear();
        (self.is_torn, self.has_begun) = (false, false);
        self.durable_bytes = self.bytes;
        self.framing = Framing::begin(seconds);
        self.target = Some(target);
    }
}

/// See the module's documentation.
pub struct Journal {
    log: Arc<ChangeLog>,
    output: Mutex<Output>,
    /// Marks by offset in the log, ascending.
    marks: Mutex<VecDeque<(u64, Mark)>>,
    /// Held during a sync.
    syncs: Mutex<()>,
    /// A file is open.
    is_open: AtomicBool,
    written: AtomicU64,
    synced: AtomicU64,
    /// Offset up to which a failed sync may have lost bytes that were not retained; 0: nothing.
    doubt: AtomicU64,
    /// Offset up to which replies that wait for it may be sent.
    released: AtomicU64,
    policy: SharedPolicy,
    syncing: AtomicBool,
    /// Unix time in seconds, for remarks of the time; 0: there are none.
    clock: AtomicI64,
    /// Bytes in all files of the log.
    pub size: AtomicU64,
}

impl Journal {
    /// Returns a journal without a file.
    pub fn new(log: Arc<ChangeLog>) -> Journal {
        Journal {
            log,
            output: Mutex::default(),
            marks: Mutex::default(),
            syncs: Mutex::default(),
            is_open: AtomicBool::new(false),
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            doubt: AtomicU64::new(0),
            released: AtomicU64::new(0),
            policy: SharedPolicy::new(Policy::No),
            syncing: AtomicBool::new(false),
            clock: AtomicI64::new(0),
            size: AtomicU64::new(0),
        }
    }

    /// Sets when the file is synced from now on.
    pub fn set_policy(&self, policy: Policy) {
        self.policy.set(policy);
    }

    /// Returns when the file is synced.
    #[inline]
    pub fn policy(&self) -> Policy {
        self.policy.get()
    }

    /// Marks later records with the time, Unix seconds (`aof-timestamp-enabled`); 0: no more.
    pub fn set_clock(&self, seconds: i64) {
        if self.clock.swap(seconds, Relaxed) >= seconds || !self.is_open.load(Relaxed) {
            return;
        }
        let mut marks = self.marks.lock();
        let appended = self.appended();
        marks.pop_back_if(|(at, mark)| *at == appended && matches!(mark, Mark::Stamp(_)));
        marks.push_back((appended, Mark::Stamp(seconds)));
    }

    /// Returns the log's length.
    #[inline]
    pub fn appended(&self) -> u64 {
        self.log.appended()
    }

    /// Returns the offset up to which the log is written to files.
    pub fn written(&self) -> u64 {
        self.written.load(Acquire)
    }

    /// Returns the offset up to which the log is durable.
    pub fn synced(&self) -> u64 {
        self.synced.load(Acquire)
    }

    /// Returns the offset up to which replies may be sent that wait for the log's durability.
    #[inline]
    pub fn released(&self) -> u64 {
        self.released.load(Acquire)
    }

    /// Lets replies go out without waiting for written bytes to be durable.
    pub fn release_written(&self) {
        let mut output = self.output.lock();
        self.released.fetch_max(self.written(), AcqRel);
        // No reply waits for these bytes, so they are not written again.
        if !output.is_torn {
            let end = if output.has_begun { output.taken } else { self.written() };
            output.unkept = output.unkept.max(end);
            output.unsynced.clear();
        }
    }

    /// Returns whether a failed sync may have lost bytes that only a new base contains.
    pub fn is_in_doubt(&self) -> bool {
        self.doubt.load(Acquire) > 0
    }

    /// Records that a durable base exists of the moment when the log had this length, the moment of the last
    /// [turn](Self::turn_to): nothing before it is needed any more, written or not.
    pub fn settle(&self, appended: u64) {
        let _syncs = self.syncs.lock();
        let mut output = self.output.lock();
        let output = &mut *output;
        if let Some(next) = self.last_turn(appended).or(output.next.take()) {
            output.skip_to(appended);
            output.begin(next, self.clock.load(Relaxed));
            self.written.fetch_max(output.taken, Release);
        }
        if self.doubt.load(Acquire) <= appended {
            self.doubt.store(0, Release);
        }
        self.synced.fetch_max(appended, AcqRel);
        self.released.fetch_max(appended, AcqRel);
    }

    /// Returns whether a thread is syncing now.
    pub fn is_syncing(&self) -> bool {
        self.syncing.load(Relaxed)
    }

    /// Returns the bytes that wait to be written.
    pub fn waiting(&self) -> u64 {
        if self.is_open.load(Relaxed) { self.appended().saturating_sub(self.written()) } else { 0 }
    }

    /// Appends to this file from now on. The caller must hold all shards' locks, so that no append is under way.
    pub fn turn_to(&self, target: JournalTarget) {
        let mut marks = self.marks.lock();
        marks.push_back((self.appended(), Mark::Turn(target)));
    }

    /// Takes out the marks up to the last turn that is at or before this offset, and returns it.
    fn last_turn(&self, offset: u64) -> Option<JournalTarget> {
        let mut marks = self.marks.lock();
        let is_one = |(at, mark): &(u64, Mark)| *at <= offset && matches!(mark, Mark::Turn(_));
        let last = marks.iter().rposition(is_one)?;
        match marks.drain(..=last).next_back()? {
            (_, Mark::Turn(target)) => Some(target),
            (_, Mark::Stamp(_)) => None,
        }
    }

    /// Begins with this file, and with records that are appended from now on. Bytes not written yet are forgotten.
    pub fn begin(&self, target: JournalTarget) {
        self.start_anew(Some(target));
    }

    /// Detaches the file: no client waits, and nothing is in doubt.
    pub fn end(&self) {
        self.start_anew(None);
    }

    fn start_anew(&self, target: Option<JournalTarget>) {
        let mut output = self.output.lock();
        self.marks.lock().clear();
        self.is_open.store(target.is_some(), Relaxed);
        let reader = target.is_some().then(|| self.log.open(Overflow::Keep));
        let (taken, framing) = (self.appended(), Framing::begin(self.clock.load(Relaxed)));
        let (bytes, cuts) = (output.bytes, output.cuts);
        *output = Output { target, reader, framing, taken, bytes, durable_bytes: bytes, cuts, ..Output::default() };
        self.doubt.store(0, Release);
        for offset in [&self.written, &self.synced, &self.released] {
            offset.store(taken, Release);
        }
    }

    /// Writes the records appended before this call. After an error nothing is lost: the next call continues.
    ///
    /// # Errors
    /// The file cannot be written or truncated.
    pub fn write(&self) -> io::Result<()> {
        let mut output = self.output.lock();
        let output = &mut *output;
        self.cut_torn(output)?;
        let end = self.appended();
        loop {
            self.write_pending(output)?;
            if let Some(next) = output.next.take() {
                self.change(output, next)?;
            }
            if output.reader.is_none() || !self.take(output, end) {
                return Ok(());
            }
        }
    }

    /// Takes the next part of the log: some records before `end`, or the next file. False: nothing is left.
    fn take(&self, output: &mut Output, end: u64) -> bool {
        loop {
            let until = {
                let mut marks = self.marks.lock();
                match marks.pop_front_if(|(at, _)| *at <= output.taken) {
                    Some((_, Mark::Turn(next))) => {
                        output.next = Some(next);
                        return true;
                    }
                    Some((_, Mark::Stamp(seconds))) => {
                        output.framing.stamp = Some(seconds);
                        continue;
                    }
                    None => marks.front().map_or(end, |(at, _)| end.min(*at)),
                }
            };
            let before = output.taken;
            if before >= until {
                return false;
            }
            output.take(until);
            if output.taken > before {
                return true;
            }
            // The thread that appends the next record is still copying it.
            spin();
        }
    }

    /// Writes all that is pending.
    fn write_pending(&self, output: &mut Output) -> io::Result<()> {
        let Some(target) = &mut output.target else { return Ok(()) };
        let (mut done, end) = (0, output.pending.len());
        while done < end {
            match target.file.write(output.pending.after(done)) {
                Ok(0) => return Err(self.take_back(output, done, io::ErrorKind::WriteZero.into())),
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.take_back(output, done, error)),
            }
        }
        if end > 0 {
            self.count(output, end);
        } else {
            self.note_written(output);
        }
        Ok(())
    }

    /// Records that all bytes taken are in the file, or not meant for it; without bytes to sync they are durable.
    fn note_written(&self, output: &Output) {
        self.written.store(output.taken, Release);
        if output.bytes == output.durable_bytes && !self.is_in_doubt() {
            self.synced.fetch_max(output.taken, AcqRel);
            self.released.fetch_max(output.taken, AcqRel);
        }
    }

    /// Records that so many bytes of the front of the pending bytes are in the file.
    fn count(&self, output: &mut Output, bytes: usize) {
        if let Some(target) = &mut output.target {
            target.len += bytes as u64;
        }
        if self.policy() == Policy::Always {
            if output.unsynced.is_empty() {
                output.unsynced_from = self.written();
            }
            output.pending.move_front(bytes, Some(&mut output.unsynced));
        } else {
            // The retained bytes must be the end of the file.
            output.unsynced.clear();
            output.unkept = output.taken;
            output.pending.drop_front(bytes);
        }
        output.bytes += bytes as u64;
        self.size.fetch_add(bytes as u64, Relaxed);
        output.has_begun = !output.pending.is_empty();
        if !output.has_begun {
            self.note_written(output);
        }
    }

    /// Handles a write that ended early: the file ends where it ended before, or its bytes of it count as written.
    fn take_back(&self, output: &mut Output, done: usize, error: io::Error) -> io::Error {
        if let Some(target) = &output.target
            && done > 0
            && target.file.truncate(target.len).is_err()
        {
            self.count(output, done);
        }
        error
    }

    /// Completes the present file and appends to the next one. The present one is durable by then: a crash must not
    /// take its end and leave the bytes after it.
    fn change(&self, output: &mut Output, next: JournalTarget) -> io::Result<()> {
        if let Some(target) = &output.target
            && let Err(error) = target.file.sync()
        {
            output.next = Some(next);
            return Err(self.write_again(output, error));
        }
        if self.policy() != Policy::Always {
            output.unkept = output.taken;
        }
        output.begin(next, self.clock.load(Relaxed));
        Ok(())
    }

    /// Makes the bytes written before this call durable, and returns the offset up to which they are.
    ///
    /// # Errors
    /// A file cannot be synced.
    pub fn sync(&self) -> io::Result<u64> {
        let _syncs = self.syncs.lock();
        self.sync_from(self.output.lock())
    }

    /// Makes the bytes written before this call durable, unless the policy is [`Policy::No`] by then, after which
    /// nothing is synced.
    ///
    /// # Errors
    /// A file cannot be synced.
    pub fn sync_by_policy(&self) -> io::Result<()> {
        let (_syncs, output) = (self.syncs.lock(), self.output.lock());
        if self.policy() == Policy::No { Ok(()) } else { self.sync_from(output).map(drop) }
    }

    /// Writes and syncs the appended records, unless they are released up to `offset` already. None: other threads hold
    /// the locks for longer than `patience`.
    pub fn commit(&self, offset: u64, patience: Duration) -> Option<io::Result<()>> {
        let _syncs = self.syncs.try_lock_for(patience)?;
        if self.released() >= offset {
            return Some(Ok(()));
        }
        Some(self.write().and_then(|()| self.sync_from(self.output.lock()).map(drop)))
    }

    /// Syncs the bytes written by now; the caller has its turn.
    fn sync_from(&self, mut output: MutexGuard<'_, Output>) -> io::Result<u64> {
        self.cut_torn(&mut output)?;
        let is_needed = output.bytes != output.durable_bytes;
        let file = output.target.as_ref().filter(|_| is_needed).map(|target| Arc::clone(&target.file));
        let (written, bytes, cuts) = (self.written(), output.bytes, output.cuts);
        drop(output);
        self.syncing.store(true, Relaxed);
        let result = file.map_or(Ok(()), |file| file.sync());
        self.syncing.store(false, Relaxed);
        let mut output = self.output.lock();
        if let Err(error) = result {
            return Err(self.write_again(&mut output, error));
        }
        if output.cuts != cuts {
            // A writer that turned to the next file failed to sync meanwhile: the bytes that this sync saved are gone.
            return Err(io::Error::other("what was synced had to be cut off"));
        }
        let durable = if self.is_in_doubt() { self.synced() } else { written };
        let synced = self.synced.fetch_max(durable, AcqRel).max(durable);
        self.released.fetch_max(synced, AcqRel);
        // Bytes written since are still to be synced.
        let left = (output.bytes - bytes).min(output.unsynced.len() as u64) as usize;
        let durable = output.unsynced.len() - left;
        output.unsynced.drop_front(durable);
        output.unsynced_from = written;
        output.durable_bytes = output.durable_bytes.max(bytes);
        Ok(synced)
    }

    /// Handles a failed sync: bytes that may be lost are to be written again, if they were retained.
    fn write_again(&self, output: &mut Output, error: io::Error) -> io::Error {
        output.is_torn = true;
        if self.synced() < output.unkept {
            self.doubt.fetch_max(output.unkept, AcqRel);
        }
        // The first error is the one reported; the next write or sync tries again.
        let _ = self.cut_torn(output);
        error
    }

    /// Truncates the end in doubt before any other operation on the file: a later sync would not know of the bytes that
    /// this one has lost.
    fn cut_torn(&self, output: &mut Output) -> io::Result<()> {
        let lost = output.unsynced.len() as u64;
        if let Some(target) = output.target.as_mut().filter(|_| output.is_torn && lost > 0) {
            let start = target.len.saturating_sub(lost);
            target.file.truncate(start)?;
            target.len = start;
            output.cuts += 1;
            output.pending.put_before(std::mem::take(&mut output.unsynced));
            output.has_begun = false;
            output.bytes -= lost;
            self.written.store(output.unsynced_from, Release);
            self.size.fetch_sub(lost, Relaxed);
        }
        output.is_torn = false;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::storage::Storage;
    use super::super::storage::faulty::{Disk, Faults};
    use super::*;
    use engine::propagation::change_log::RecordHead;
    use engine::propagation::log_batch::put_command;

    fn journal(disk: &Disk, policy: Policy) -> Journal {
        let journal = Journal::new(Arc::default());
        journal.set_policy(policy);
        journal.begin(target(disk, b"one"));
        journal
    }

    fn target(disk: &Disk, name: &[u8]) -> JournalTarget {
        let (file, len) = disk.append(name).unwrap();
        JournalTarget { file, name: name.to_vec(), len }
    }

    fn add(journal: &Journal, db: u32, word: &str) -> u64 {
        let mut text = Vec::new();
        put_command(&mut text, [word.as_bytes()].into_iter());
        journal.log.append(RecordHead::command(db, None), &text)
    }

    fn text(disk: &Disk, name: &[u8]) -> String {
        String::from_utf8(disk.content(name).unwrap()).unwrap().replace("\r\n", " ")
    }

    #[test]
    fn commands_say_their_database_when_it_changes() {
        let disk = Disk::default();
        let journal = journal(&disk, Policy::No);
        for (db, word) in [(0, "A"), (0, "B"), (3, "C")] {
            add(&journal, db, word);
        }
        journal.set_clock(7);
        add(&journal, 3, "D");
        journal.turn_to(target(&disk, b"two"));
        let appended = add(&journal, 3, "E");
        journal.write().unwrap();
        assert_eq!(text(&disk, b"one"), "*2 $6 SELECT $1 0 *1 $1 A *1 $1 B *2 $6 SELECT $1 3 *1 $1 C #TS:7 *1 $1 D ");
        assert_eq!(text(&disk, b"two"), "#TS:7 *2 $6 SELECT $1 3 *1 $1 E ");
        journal.sync_by_policy().unwrap();
        assert_eq!((journal.written(), journal.synced()), (appended, 0));
        journal.set_policy(Policy::EverySecond);
        journal.sync_by_policy().unwrap();
        assert_eq!(journal.synced(), appended);
        disk.crash();
        assert!(text(&disk, b"one").ends_with("D ") && text(&disk, b"two").ends_with("E "));
    }

    #[test]
    fn a_full_disk_tears_no_command_and_loses_none() {
        for truncate_fails in [false, true] {
            let disk = Disk::default();
            let journal = journal(&disk, Policy::EverySecond);
            add(&journal, 0, "first");
            journal.write().unwrap();
            let before = disk.content(b"one").unwrap();
            disk.set(Faults { room: Some(9), short: Some(4), truncate_fails, ..Faults::default() });
            add(&journal, 0, "second");
            assert!(journal.write().is_err() && journal.write().is_err());
            if !truncate_fails {
                assert_eq!(disk.content(b"one").unwrap(), before, "what was begun was taken back");
            }
            add(&journal, 0, "third");
            disk.set(Faults { short: Some(3), ..Faults::default() });
            journal.write().unwrap();
            assert_eq!(text(&disk, b"one"), "*2 $6 SELECT $1 0 *1 $5 first *1 $6 second *1 $5 third ");
            assert_eq!(journal.waiting(), 0);
        }
    }

    #[test]
    fn records_that_a_failed_sync_may_have_lost_are_written_again() {
        let disk = Disk::default();
        let journal = journal(&disk, Policy::Always);
        add(&journal, 0, "first");
        journal.write().unwrap();
        let first = journal.sync().unwrap();
        disk.set(Faults { sync_fails: true, ..Faults::default() });
        let second = add(&journal, 0, "second");
        journal.write().unwrap();
        assert!(journal.sync().is_err());
        assert_eq!((journal.synced(), journal.written()), (first, first));
        // The pages are gone though the next sync succeeds.
        disk.crash();
        disk.set(Faults::default());
        journal.write().unwrap();
        assert_eq!(journal.sync().unwrap(), second);
        disk.crash();
        assert_eq!(text(&disk, b"one"), "*2 $6 SELECT $1 0 *1 $5 first *1 $6 second ");
    }

    #[test]
    fn a_turn_waits_until_the_file_before_is_durable() {
        let disk = Disk::default();
        let journal = journal(&disk, Policy::Always);
        add(&journal, 0, "first");
        journal.turn_to(target(&disk, b"two"));
        let last = add(&journal, 0, "second");
        disk.set(Faults { sync_fails: true, ..Faults::default() });
        assert!(journal.write().is_err());
        assert!(disk.content(b"two").unwrap().is_empty());
        disk.set(Faults::default());
        journal.write().unwrap();
        assert_eq!(journal.sync().unwrap(), last);
        disk.crash();
        assert!(text(&disk, b"one").ends_with("first ") && text(&disk, b"two").ends_with("second "));
    }

    #[test]
    fn a_crash_leaves_no_hole_between_two_files() {
        for policy in [Policy::No, Policy::EverySecond] {
            let disk = Disk::default();
            let journal = journal(&disk, policy);
            add(&journal, 0, "first");
            journal.write().unwrap();
            journal.turn_to(target(&disk, b"two"));
            add(&journal, 0, "second");
            journal.write().unwrap();
            disk.crash();
            assert!(text(&disk, b"one").ends_with("first "));
        }
    }

    #[test]
    fn a_cut_after_a_change_of_policy_removes_no_older_records() {
        let disk = Disk::default();
        let journal = journal(&disk, Policy::Always);
        add(&journal, 0, "first");
        journal.write().unwrap();
        journal.set_policy(Policy::EverySecond);
        add(&journal, 0, "second");
        journal.write().unwrap();
        disk.set(Faults { sync_fails: true, ..Faults::default() });
        assert!(journal.sync().is_err() && journal.is_in_doubt());
        disk.set(Faults::default());
        journal.write().unwrap();
        journal.sync().unwrap();
        assert_eq!(text(&disk, b"one"), "*2 $6 SELECT $1 0 *1 $5 first *1 $6 second ");
    }

    #[test]
    fn records_in_a_new_base_need_not_be_written_any_more() {
        for policy in [Policy::Always, Policy::EverySecond] {
            let disk = Disk::default();
            let journal = journal(&disk, policy);
            disk.set(Faults { room: Some(9), ..Faults::default() });
            add(&journal, 0, "first");
            assert!(journal.write().is_err());
            // A rewrite that fails, and one that does not; nothing was written meanwhile.
            journal.turn_to(target(&disk, b"two"));
            add(&journal, 0, "second");
            assert!(journal.write().is_err());
            let cut_at = journal.appended();
            journal.turn_to(target(&disk, b"three"));
            let last = add(&journal, 0, "third");
            journal.settle(cut_at);
            assert_eq!((journal.written(), journal.synced(), journal.released()), (cut_at, cut_at, cut_at));
            disk.set(Faults::default());
            journal.write().unwrap();
            assert_eq!(journal.sync().unwrap(), last);
            assert_eq!(text(&disk, b"three"), "*2 $6 SELECT $1 0 *1 $5 third ");
            assert!(text(&disk, b"one").is_empty() && text(&disk, b"two").is_empty());
        }
    }

    #[test]
    fn nothing_waits_where_there_is_no_file_any_more() {
        let disk = Disk::default();
        let journal = journal(&disk, Policy::EverySecond);
        add(&journal, 0, "first");
        journal.write().unwrap();
        disk.set(Faults { sync_fails: true, ..Faults::default() });
        assert!(journal.sync().is_err() && journal.is_in_doubt());
        let length = add(&journal, 0, "second");
        journal.end();
        assert_eq!(add(&journal, 0, "third"), length, "nobody wants it");
        assert_eq!((journal.waiting(), journal.released(), journal.is_in_doubt()), (0, length, false));
        journal.begin(target(&disk, b"two"));
        add(&journal, 0, "fourth");
        journal.write().unwrap();
        assert_eq!(text(&disk, b"two"), "*2 $6 SELECT $1 0 *1 $6 fourth ");
    }
}
