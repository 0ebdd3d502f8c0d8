//! The log between the commands and the disk: a buffer that commands append to, and a file that it is written to.
//!
//! ```text
//!   commands, under their shards' locks          one thread that writes                   one that syncs
//!   append -> [ buffer ....... | turn ..... ] -> [ taken, not written yet ] -> file ...... durable
//!                              from here on for the next file                     ^ written     ^ synced
//! ```
//!
//! Offsets count bytes from the start of the process: `synced <= written <= appended`. Appending takes the buffer's
//! lock for as long as rendering a command takes; writing takes it for a swap. A sync holds none but its own.
//!
//! **Nothing torn.** A write that fails in the middle is taken back by cutting the file off where it began; what cannot
//! be taken back is gone on with exactly where it ended. What was appended stays here until it is written.
//!
//! **A failed sync** may have lost pages that the kernel calls clean. With [`Policy::Always`] what is not durable is
//! kept, so it is cut off and written once more. Otherwise all up to there is in doubt: no later sync makes it durable,
//! but a new base does.

use super::storage::LogFile;
use engine::locks::sync::Mutex;
use engine::propagation::change_log::{GROUP_BEGIN, GROUP_END, put_select};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU64, Ordering::*};
use std::time::Duration;

/// When the file is synced (`appendfsync`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Whenever the system does.
    No,
    /// Once a second, by a thread of its own.
    EverySecond,
    /// Before any client is told of a change.
    Always,
}

/// The file that is appended to.
pub struct JournalTarget {
    /// The file itself.
    pub file: Arc<dyn LogFile>,
    /// Its name in the directory of the log.
    pub name: Vec<u8>,
    /// Bytes in it, all of which are whole commands.
    pub len: u64,
}

#[derive(Default)]
struct Buffer {
    /// There is a file. Otherwise nothing is kept of what comes.
    is_open: bool,
    bytes: Vec<u8>,
    /// The database that the reader of the file is in after these bytes; None: in a file that has just begun.
    db: Option<u32>,
    /// Unix time in seconds of the last remark of the time.
    stamp: i64,
    /// What comes from here on belongs into another file.
    turn: Option<(usize, JournalTarget)>,
}

#[derive(Default)]
struct Output {
    target: Option<JournalTarget>,
    /// Taken from the buffer, and not written yet.
    pending: Vec<u8>,
    turn: Option<(usize, JournalTarget)>,
    /// What was written last and is not synced, if the policy is to keep that.
    unsynced: Vec<u8>,
    /// The end of the file, as long as `unsynced`, may be lost and is still to be cut off.
    is_torn: bool,
    /// Files before the present one that are not synced yet.
    ended: Vec<Arc<dyn LogFile>>,
    /// How often the end of a file was cut off that had been written.
    cuts: u64,
}

/// See the module's documentation.
#[derive(Default)]
pub struct Journal {
    buffer: Mutex<Buffer>,
    output: Mutex<Output>,
    /// Held during a sync.
    syncs: Mutex<()>,
    appended: AtomicU64,
    written: AtomicU64,
    synced: AtomicU64,
    /// Up to where a failed sync may have lost what was not kept; 0: nothing.
    doubt: AtomicU64,
    /// Up to where replies may be sent that wait for it.
    released: AtomicU64,
    policy: AtomicU8,
    syncing: AtomicBool,
    /// Unix time in seconds, for remarks of the time; 0: there are none.
    clock: AtomicI64,
    /// Bytes in all files of the log.
    pub size: AtomicU64,
}

impl Journal {
    /// When the file is synced from now on.
    pub fn set_policy(&self, policy: Policy) {
        self.policy.store(policy as u8, Relaxed);
    }

    /// When the file is synced.
    #[inline]
    pub fn policy(&self) -> Policy {
        match self.policy.load(Relaxed) {
            0 => Policy::No,
            1 => Policy::EverySecond,
            _ => Policy::Always,
        }
    }

    /// Marks what comes with the time, Unix seconds (`aof-timestamp-enabled`); 0: not any more.
    pub fn set_clock(&self, seconds: i64) {
        self.clock.store(seconds, Relaxed);
    }

    /// Bytes that were appended, written and made durable so far.
    #[inline]
    pub fn appended(&self) -> u64 {
        self.appended.load(Acquire)
    }

    /// Bytes that were written to files so far.
    pub fn written(&self) -> u64 {
        self.written.load(Acquire)
    }

    /// Bytes that were made durable so far.
    pub fn synced(&self) -> u64 {
        self.synced.load(Acquire)
    }

    /// Up to where replies may be sent that wait until the log is as durable as it is to be.
    #[inline]
    pub fn released(&self) -> u64 {
        self.released.load(Acquire)
    }

    /// Replies need not wait for what is written to be durable.
    pub fn release_written(&self) {
        let mut output = self.output.lock();
        self.released.fetch_max(self.written(), AcqRel);
        // No reply waits for it, so it is not written again.
        if !output.is_torn {
            output.unsynced = Vec::new();
        }
    }

    /// Whether a failed sync may have lost what only a new base has.
    pub fn is_in_doubt(&self) -> bool {
        self.doubt.load(Acquire) > 0
    }

    /// There is a durable base of the moment when the log was that long, which was that of the last
    /// [turn](Self::turn_to): nothing before it is needed any more, written or not.
    pub fn settle(&self, appended: u64) {
        let _syncs = self.syncs.lock();
        let mut output = self.output.lock();
        let output = &mut *output;
        output.take(&mut self.buffer.lock());
        while let Some((at, next)) = output.turn.take() {
            output.pending.drain(..at);
            self.written.fetch_add(at as u64, Release);
            output.unsynced.clear();
            output.is_torn = false;
            output.target = Some(next);
            output.take(&mut self.buffer.lock());
        }
        output.ended.clear();
        if self.doubt.load(Acquire) <= appended {
            self.doubt.store(0, Release);
        }
        self.synced.fetch_max(appended, AcqRel);
        self.released.fetch_max(appended, AcqRel);
    }

    /// Whether a thread is syncing now.
    pub fn is_syncing(&self) -> bool {
        self.syncing.load(Relaxed)
    }

    /// Bytes that wait to be written.
    pub fn waiting(&self) -> u64 {
        self.appended().saturating_sub(self.written())
    }

    /// See [`ChangeLog::append`](engine::propagation::change_log::ChangeLog::append).
    pub fn append(&self, first: u32, last: u32, is_group: bool, render: &mut dyn FnMut(&mut Vec<u8>)) -> u64 {
        let mut buffer = self.buffer.lock();
        let buffer = &mut *buffer;
        if !buffer.is_open {
            return self.appended.load(Relaxed);
        }
        let before = buffer.bytes.len();
        let clock = self.clock.load(Relaxed);
        if clock > buffer.stamp {
            buffer.stamp = clock;
            put_stamp(&mut buffer.bytes, clock);
        }
        if is_group {
            buffer.bytes.extend_from_slice(GROUP_BEGIN);
        }
        if buffer.db != Some(first) {
            put_select(&mut buffer.bytes, first);
        }
        render(&mut buffer.bytes);
        if is_group {
            buffer.bytes.extend_from_slice(GROUP_END);
        }
        buffer.db = Some(last);
        // Nobody else writes it while the buffer is locked.
        let appended = self.appended.load(Relaxed) + (buffer.bytes.len() - before) as u64;
        self.appended.store(appended, Release);
        appended
    }

    /// Appends to this file from now on. All shards' locks must be held, so that nothing is under way.
    pub fn turn_to(&self, target: JournalTarget) {
        let mut buffer = self.buffer.lock();
        let at = buffer.bytes.len();
        (buffer.db, buffer.stamp) = (None, 0);
        buffer.turn = Some((at, target));
    }

    /// Begins with this file. What there was in the buffer is forgotten.
    pub fn begin(&self, target: JournalTarget) {
        self.start_anew(Some(target));
    }

    /// Has no file any more: nothing waits, and nothing is in doubt.
    pub fn end(&self) {
        self.start_anew(None);
    }

    fn start_anew(&self, target: Option<JournalTarget>) {
        let (mut output, mut buffer) = (self.output.lock(), self.buffer.lock());
        *buffer = Buffer { is_open: target.is_some(), ..Buffer::default() };
        *output = Output { target, cuts: output.cuts, ..Output::default() };
        self.doubt.store(0, Release);
        let appended = self.appended();
        for offset in [&self.written, &self.synced, &self.released] {
            offset.store(appended, Release);
        }
    }

    /// Writes what was appended before this was called. After an error nothing is lost: the next call goes on.
    ///
    /// # Errors
    /// The file cannot be written or cut off.
    pub fn write(&self) -> io::Result<()> {
        let mut output = self.output.lock();
        let output = &mut *output;
        self.cut_torn(output)?;
        if output.pending.is_empty() && self.waiting() == 0 && self.buffer.lock().turn.is_none() {
            return Ok(());
        }
        output.take(&mut self.buffer.lock());
        loop {
            let end = output.turn.as_ref().map_or(output.pending.len(), |(at, _)| *at);
            self.write_part(output, end)?;
            let Some((_, next)) = output.turn.take() else { break };
            self.change(output, next)?;
        }
        if output.pending.capacity() > KEPT_CAPACITY {
            output.pending = Vec::new();
        }
        Ok(())
    }

    /// Writes the first `end` bytes of what is pending.
    fn write_part(&self, output: &mut Output, end: usize) -> io::Result<()> {
        let Some(target) = &mut output.target else { return Ok(()) };
        let mut done = 0;
        while done < end {
            match target.file.write(&output.pending[done..end]) {
                Ok(0) => return Err(self.take_back(output, done, io::ErrorKind::WriteZero.into())),
                Ok(n) => done += n,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.take_back(output, done, error)),
            }
        }
        self.count(output, end);
        Ok(())
    }

    /// So many bytes in the beginning of what is pending are in the file.
    fn count(&self, output: &mut Output, bytes: usize) {
        if let Some(target) = &mut output.target {
            target.len += bytes as u64;
        }
        match self.policy() {
            Policy::Always => output.unsynced.extend_from_slice(&output.pending[..bytes]),
            // It must be the end of the file.
            _ => output.unsynced.clear(),
        }
        output.pending.drain(..bytes);
        if let Some((at, _)) = &mut output.turn {
            *at -= bytes;
        }
        self.size.fetch_add(bytes as u64, Relaxed);
        self.written.fetch_add(bytes as u64, Release);
    }

    /// A write ended early: the file ends where it ended before, or what it has of it counts as written.
    fn take_back(&self, output: &mut Output, done: usize, error: io::Error) -> io::Error {
        if let Some(target) = &output.target
            && done > 0
            && target.file.truncate(target.len).is_err()
        {
            self.count(output, done);
        }
        error
    }

    /// The present file is complete; the next one is appended to.
    fn change(&self, output: &mut Output, next: JournalTarget) -> io::Result<()> {
        if let Some(old) = output.target.take() {
            if self.policy() == Policy::Always
                && let Err(error) = old.file.sync()
            {
                // The old file stays until it is durable.
                output.target = Some(old);
                output.turn = Some((0, next));
                return Err(self.write_again(output, error));
            }
            output.ended.push(old.file);
        }
        output.unsynced.clear();
        output.target = Some(next);
        Ok(())
    }

    /// Makes durable what was written before this was called, and answers up to which offset that is.
    ///
    /// # Errors
    /// A file cannot be synced.
    pub fn sync(&self) -> io::Result<u64> {
        let _syncs = self.syncs.lock();
        self.sync_in_turn()
    }

    /// Writes and syncs what is appended, unless it is released up to `offset` already. None: others are at it for
    /// longer than `patience`.
    pub fn commit(&self, offset: u64, patience: Duration) -> Option<io::Result<()>> {
        let _syncs = self.syncs.try_lock_for(patience)?;
        if self.released() >= offset {
            return Some(Ok(()));
        }
        Some(self.write().and_then(|()| self.sync_in_turn().map(drop)))
    }

    fn sync_in_turn(&self) -> io::Result<u64> {
        let (mut ended, file, written, cuts) = {
            let mut output = self.output.lock();
            self.cut_torn(&mut output)?;
            let file = output.target.as_ref().map(|target| Arc::clone(&target.file));
            (std::mem::take(&mut output.ended), file, self.written(), output.cuts)
        };
        self.syncing.store(true, Relaxed);
        let result = loop {
            let Some(old) = ended.last() else { break file.map_or(Ok(()), |file| file.sync()) };
            if let Err(error) = old.sync() {
                break Err(error);
            }
            ended.pop();
        };
        self.syncing.store(false, Relaxed);
        let mut output = self.output.lock();
        if let Err(error) = result {
            output.ended.append(&mut ended);
            return Err(self.write_again(&mut output, error));
        }
        if output.cuts != cuts {
            // The sync of a writer that turned to the next file has failed meanwhile, and what this one saved is gone.
            return Err(io::Error::other("what was synced had to be cut off"));
        }
        let durable = if self.is_in_doubt() { self.synced() } else { written };
        let synced = self.synced.fetch_max(durable, AcqRel).max(durable);
        self.released.fetch_max(synced, AcqRel);
        let left = (self.written() - written).min(output.unsynced.len() as u64) as usize;
        let durable = output.unsynced.len() - left;
        output.unsynced.drain(..durable);
        Ok(synced)
    }

    /// A sync failed: what may be lost is to be written again, if it was kept.
    fn write_again(&self, output: &mut Output, error: io::Error) -> io::Error {
        output.is_torn = true;
        let known = self.written().saturating_sub(output.unsynced.len() as u64);
        if self.synced() < known {
            self.doubt.fetch_max(known, AcqRel);
        }
        // The error that is reported is the one that came first; the next write or sync tries again.
        let _ = self.cut_torn(output);
        error
    }

    /// Before anything else is done to the file: a later sync would not know of what this one has lost.
    fn cut_torn(&self, output: &mut Output) -> io::Result<()> {
        let lost = output.unsynced.len() as u64;
        if let Some(target) = output.target.as_mut().filter(|_| output.is_torn && lost > 0) {
            let start = target.len.saturating_sub(lost);
            target.file.truncate(start)?;
            target.len = start;
            output.cuts += 1;
            let mut pending = std::mem::take(&mut output.unsynced);
            pending.append(&mut output.pending);
            output.pending = pending;
            if let Some((at, _)) = &mut output.turn {
                *at += lost as usize;
            }
            self.written.fetch_sub(lost, Release);
            self.size.fetch_sub(lost, Relaxed);
        }
        output.is_torn = false;
        Ok(())
    }
}

impl Output {
    fn take(&mut self, buffer: &mut Buffer) {
        if self.turn.is_some() && buffer.turn.is_some() {
            // One after the other; the buffer can wait.
            return;
        }
        if let Some((at, target)) = buffer.turn.take() {
            self.turn = Some((self.pending.len() + at, target));
        }
        if self.pending.is_empty() {
            std::mem::swap(&mut self.pending, &mut buffer.bytes);
        } else {
            self.pending.append(&mut buffer.bytes);
        }
    }
}

/// Memory that a buffer keeps after it was written.
const KEPT_CAPACITY: usize = 1 << 20;

/// Appends a remark of the time, Unix seconds.
pub fn put_stamp(out: &mut Vec<u8>, seconds: i64) {
    out.extend_from_slice(format!("#TS:{seconds}\r\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::super::storage::Storage;
    use super::super::storage::faulty::{Disk, Faults};
    use super::*;
    use engine::propagation::change_log::put_command;

    fn journal(disk: &Disk, policy: Policy) -> Journal {
        let journal = Journal::default();
        journal.set_policy(policy);
        journal.begin(target(disk, b"one"));
        journal
    }

    fn target(disk: &Disk, name: &[u8]) -> JournalTarget {
        let (file, len) = disk.append(name).unwrap();
        JournalTarget { file, name: name.to_vec(), len }
    }

    fn add(journal: &Journal, db: u32, word: &str) -> u64 {
        journal.append(db, db, false, &mut |out| put_command(out, [word.as_bytes()].into_iter()))
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
        assert_eq!((journal.written(), journal.synced()), (appended, 0));
        assert_eq!(journal.sync().unwrap(), appended);
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
    fn what_a_failed_sync_may_have_lost_is_written_again() {
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
    fn what_is_cut_off_after_a_change_of_policy_is_nothing_older() {
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
    fn what_a_new_base_has_need_not_be_written_any_more() {
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
