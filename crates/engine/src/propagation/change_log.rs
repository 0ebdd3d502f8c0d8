//! The change log: every write, once, in the order of execution.
//!
//! Commands are appended while the locks of the shards that they changed are held. Two writes to the same key are
//! therefore in the log in the order in which they were made, and so are any two writes one of which saw the other.
//!
//! ```text
//!   commands, under their shards' locks                                             sinks, each with a reader
//!     reserve a place by one exchange of a word     [ block ] - [ block ] - [ block ]     the append-only file
//!     copy the text into the block - publish             ^           ^                    replicas, ...
//! ```
//!
//! The text of a record is requests as clients send them, rendered once or not at all. Beside it stands its
//! [`RecordHead`], by which a sink frames it: its database, and whether several commands belong together. SELECT, MULTI
//! and EXEC are no part of the log; a sink adds them.
//!
//! **Offsets** count bytes of text. A record ends at the offset that its append returns. By then it is published, and
//! so is every record that the command had seen before it. A record that another thread appends at the same time may
//! still be on its way into the block: readers stop before it.

use crate::locks::sync::{Mutex, interleave};
use crate::propagation::log_reader::{LogReader, Overflow, Sink};
use crossbeam_utils::CachePadded;
use std::any::Any;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::*};
use structures::log_block::{LARGE, Label, LogEnd, LogTail, Space};
use structures::log_memory::LogMemory;

/// The sink that turns the log on and off: the append-only file.
pub trait LogKeeper: Any + Send + Sync {
    /// Returns the bytes of the log that it still holds in memory.
    fn waiting(&self) -> u64;
}

/// Facts about a record besides its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHead {
    /// The database that its first command is meant for.
    pub first: u32,
    /// The database that its commands leave their reader in.
    pub last: u32,
    /// Whether it is several commands, which no reader may see in part.
    pub is_group: bool,
    /// The shard that it changed, if that is the only one.
    pub shard: Option<u16>,
    /// Readers that get it.
    pub readers: Readers,
}

/// Readers of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Readers {
    /// All readers.
    #[default]
    All,
    /// Replicas only: it changes nothing, or the file has it without the commands that change nothing.
    Replicas,
    /// The append-only file only: replicas have it together with commands that change nothing.
    File,
}

/// The bit of a tag that says that the record is a group. A database's number has fewer bits.
const GROUP: u32 = 1 << 31;
/// The bits that say that it is for replicas only, or for the file only.
const ONLY_REPLICAS: u32 = 1 << 30;
const ONLY_FILE: u32 = 1 << 29;

impl RecordHead {
    /// Makes the head of one command.
    pub fn command(db: u32, shard: Option<usize>) -> RecordHead {
        RecordHead {
            first: db,
            last: db,
            is_group: false,
            shard: shard.map(|shard| shard as u16),
            readers: Readers::All,
        }
    }

    /// Returns the tag; records in a row with the same tag are of the same database and of the same kind.
    #[inline]
    fn label(self) -> Label {
        let group = if self.is_group { GROUP } else { 0 };
        let readers = match self.readers {
            Readers::All => 0,
            Readers::Replicas => ONLY_REPLICAS,
            Readers::File => ONLY_FILE,
        };
        let tag = self.first | group | readers;
        let shard = self.shard.map_or(0, |shard| u64::from(shard) + 1);
        Label { tag, note: u64::from(self.last) << 32 | shard }
    }

    pub(crate) fn of(label: Label) -> RecordHead {
        RecordHead {
            first: label.tag & !(GROUP | ONLY_REPLICAS | ONLY_FILE),
            last: (label.note >> 32) as u32,
            is_group: is_group(label.tag),
            shard: (label.note as u32).checked_sub(1).map(|shard| shard as u16),
            readers: match label.tag & (ONLY_REPLICAS | ONLY_FILE) {
                ONLY_REPLICAS => Readers::Replicas,
                ONLY_FILE => Readers::File,
                _ => Readers::All,
            },
        }
    }
}

pub(crate) fn is_group(tag: u32) -> bool {
    tag & GROUP != 0
}

/// The change log's length after a command's records; 0: there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OwnRecords {
    /// Length after its last change.
    pub changed_to: u64,
    /// Length after the last record that is no change of its own: expired keys that it came upon, and commands for
    /// replicas only.
    pub told_to: u64,
}

/// See the module's documentation.
pub struct ChangeLog {
    /// End of the log, where places are reserved.
    end: Arc<LogEnd>,
    memory: Arc<LogMemory>,
    /// Whether there are sinks. Nothing is appended without one.
    is_read: AtomicBool,
    /// Held while the log moves to another block, and while sinks are added and removed.
    tail: CachePadded<Mutex<Tail>>,
    /// Called before each append.
    #[cfg(any(test, feature = "testing"))]
    watcher: std::sync::OnceLock<Box<dyn Fn() + Send + Sync>>,
}

#[derive(Default)]
struct Tail {
    log: LogTail,
    sinks: Vec<Arc<Sink>>,
}

impl Default for ChangeLog {
    fn default() -> ChangeLog {
        let tail = Tail::default();
        ChangeLog {
            end: Arc::clone(tail.log.end()),
            memory: Arc::clone(tail.log.memory()),
            is_read: AtomicBool::new(false),
            tail: CachePadded::new(Mutex::new(tail)),
            #[cfg(any(test, feature = "testing"))]
            watcher: std::sync::OnceLock::new(),
        }
    }
}

impl ChangeLog {
    /// Returns its length now. The last of it may not be published yet.
    #[inline]
    pub fn appended(&self) -> u64 {
        self.end.offset()
    }

    /// Returns the bytes of memory that it takes up: bytes that its slowest sink has still to read, and room for new
    /// ones.
    pub fn memory(&self) -> u64 {
        self.memory.bytes()
    }

    /// Appends whole commands, and returns the log's length afterwards, for which a reply that must be durable waits.
    /// The locks of the changed keys must be held.
    #[inline]
    pub fn append(&self, head: RecordHead, text: &[u8]) -> u64 {
        if text.len() >= LARGE || text.is_empty() {
            return self.append_owned(head, text.to_vec());
        }
        if !self.is_read.load(Acquire) {
            return self.appended();
        }
        let space = self.reserve(text.len());
        let end = space.end();
        interleave();
        let written = space.write(text);
        interleave();
        written.publish(head.label());
        end
    }

    #[inline]
    fn reserve(&self, len: usize) -> Space {
        loop {
            let Some(offer) = self.end.offer(len) else {
                self.turn(len);
                continue;
            };
            interleave();
            if let Some(space) = Space::take(offer) {
                return space;
            }
            std::hint::spin_loop();
        }
    }

    /// Makes room for so many bytes, unless another thread has done so.
    #[cold]
    #[inline(never)]
    fn turn(&self, len: usize) {
        let mut tail = self.tail.lock();
        if self.end.offer(len).is_none() {
            tail.log.turn();
            self.drop_slow_sinks(&mut tail);
        }
    }

    fn drop_slow_sinks(&self, tail: &mut Tail) {
        let end = self.appended();
        tail.sinks.retain(|sink| !sink.is_lost(end));
        self.is_read.store(!tail.sinks.is_empty(), Release);
    }

    /// Appends commands and takes their bytes over, if these are many.
    #[inline(never)]
    fn append_owned(&self, head: RecordHead, text: Vec<u8>) -> u64 {
        let mut tail = self.tail.lock();
        if tail.sinks.is_empty() || text.is_empty() {
            return self.appended();
        }
        let end = tail.log.append_owned(head.label(), text);
        self.drop_slow_sinks(&mut tail);
        end
    }

    /// Appends commands, and takes their bytes over if these are many and owned.
    #[inline]
    pub fn append_text(&self, head: RecordHead, text: Cow<'_, [u8]>) -> u64 {
        #[cfg(any(test, feature = "testing"))]
        self.watcher.get().inspect(|watcher| watcher());
        match text {
            Cow::Owned(text) if text.len() >= LARGE => self.append_owned(head, text),
            text => self.append(head, &text),
        }
    }

    /// Calls `watcher` from now on before each append.
    #[cfg(any(test, feature = "testing"))]
    pub fn watch(&self, watcher: impl Fn() + Send + Sync + 'static) {
        assert!(self.watcher.set(Box::new(watcher)).is_ok(), "one watches already");
    }

    /// Opens a reader of all later records. If no command is under way, as under all shards' locks, these are the
    /// changes of the present data.
    pub fn open(self: &Arc<Self>, overflow: Overflow) -> LogReader {
        let mut tail = self.tail.lock();
        let sink = Arc::new(Sink::new(tail.log.cursor(), overflow));
        tail.sinks.push(Arc::clone(&sink));
        self.is_read.store(true, Release);
        LogReader::new(Arc::clone(self), sink)
    }

    pub(crate) fn close(&self, sink: &Arc<Sink>) {
        let mut tail = self.tail.lock();
        tail.sinks.retain(|other| !Arc::ptr_eq(other, sink));
        self.is_read.store(!tail.sinks.is_empty(), Release);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::propagation::log_reader::SinkDropped;
    use std::ops::ControlFlow;
    use structures::log_end::TEXT;

    /// Returns everything that a sink can read now.
    fn texts(reader: &mut LogReader) -> Result<Vec<(RecordHead, Vec<u8>)>, SinkDropped> {
        let mut all = Vec::new();
        reader.read(u64::MAX, |head, run| {
            all.push((head, run.text().to_vec()));
            ControlFlow::Continue(())
        })?;
        Ok(all)
    }

    #[test]
    fn sinks_read_at_their_own_pace_from_where_they_began() {
        let log = Arc::new(ChangeLog::default());
        assert_eq!(log.append(RecordHead::command(0, None), b"nobody"), 0, "nothing is kept for nobody");
        let mut first = log.open(Overflow::Keep);
        let [one, two] = [(0, Some(7)), (3, None)].map(|(db, shard)| RecordHead::command(db, shard));
        let group = RecordHead { last: 2, is_group: true, ..RecordHead::command(3, Some(65_535)) };
        for (head, text) in [(one, "a"), (one, "b"), (two, "c"), (group, "de"), (group, "f")] {
            log.append(head, text.as_bytes());
        }
        let mut second = log.open(Overflow::Keep);
        let end = log.append(two, b"last");
        let all = [(one, "ab"), (two, "c"), (group, "de"), (group, "f"), (two, "last")];
        let all = all.map(|(head, text)| (head, text.as_bytes().to_vec()));
        assert_eq!(texts(&mut first), Ok(all.to_vec()));
        assert_eq!(texts(&mut second), Ok(all[4..].to_vec()));
        assert_eq!(first.read(u64::MAX, |_, _| ControlFlow::Break(())), Ok(end));
    }

    #[test]
    fn a_large_group_keeps_its_bytes() {
        let log = Arc::new(ChangeLog::default());
        let mut reader = log.open(Overflow::Keep);
        let text = vec![b'x'; 20 << 20];
        let (place, head) = (text.as_ptr(), RecordHead { is_group: true, ..RecordHead::command(0, None) });
        log.append(head, b"before");
        log.append_text(head, Cow::Owned(text));
        let mut places = Vec::new();
        let read = reader.read(u64::MAX, |_, run| {
            places.push(run.text().as_ptr());
            ControlFlow::Continue(())
        });
        assert_eq!((read, places.len(), places[1]), (Ok(6 + (20 << 20)), 2, place));
    }

    #[test]
    fn the_log_lets_go_of_large_bytes_when_they_are_read() {
        let log = Arc::new(ChangeLog::default());
        let mut reader = log.open(Overflow::Keep);
        let empty = log.memory();
        log.append_text(RecordHead::command(0, None), Cow::Owned(vec![b'x'; 20 << 20]));
        let mut kept = None;
        let read = reader.read(u64::MAX, |_, run| {
            kept = run.shared_text().map(Arc::clone);
            ControlFlow::Continue(())
        });
        let kept = kept.expect("bytes of its own");
        assert_eq!((read, kept.len(), Arc::strong_count(&kept)), (Ok(20 << 20), 20 << 20, 1));
        assert!(log.memory() < empty + (1 << 20), "{}", log.memory());
    }

    #[test]
    fn a_reader_that_does_not_keep_up_is_dropped_if_it_allowed_that() {
        let log = Arc::new(ChangeLog::default());
        let (mut patient, mut hasty) = (log.open(Overflow::Keep), log.open(Overflow::Drop(3 * TEXT as u64)));
        let record = vec![b'x'; 1000];
        let fill = |bytes: usize| {
            (0..bytes / record.len()).for_each(|_| _ = log.append(RecordHead::command(0, None), &record));
        };
        fill(2 * TEXT);
        assert!(texts(&mut hasty).is_ok());
        fill(3 * TEXT);
        assert!(texts(&mut hasty).is_ok(), "it has kept up");
        fill(5 * TEXT);
        assert_eq!(texts(&mut hasty), Err(SinkDropped));
        let read: usize = texts(&mut patient).into_iter().flatten().map(|(_, text)| text.len()).sum();
        assert_eq!(read as u64, log.appended());
        drop(patient);
        let end = log.appended();
        fill(TEXT);
        assert_eq!(log.appended(), end, "nobody is left");
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod interleavings {
    use super::*;
    use shuttle::thread;
    use std::ops::ControlFlow;

    const WRITERS: u8 = 3;
    const RECORDS: u8 = 3;

    /// Bytes that a reader has found, and the offset up to which it says that it has read.
    #[derive(Default)]
    struct Seen {
        bytes: Vec<u8>,
        offset: u64,
    }

    /// Writers append under the locks of two shards, which count; a reader follows. `look`: its way of reading.
    fn model(look: fn(&mut LogReader, &mut Seen)) {
        let log = Arc::new(ChangeLog::default());
        let mut reader = log.open(Overflow::Keep);
        let shards = Arc::new([Mutex::new(0u8), Mutex::new(0u8)]);
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (log, shards) = (Arc::clone(&log), Arc::clone(&shards));
                thread::spawn(move || {
                    for record in 0..RECORDS {
                        let index = (writer ^ record) & 1;
                        let mut shard = shards[usize::from(index)].lock();
                        *shard += 1;
                        let text = [index, *shard];
                        let end = log.append(RecordHead::command(0, Some(index.into())), &text);
                        assert!(end <= log.appended() && end.is_multiple_of(2));
                    }
                })
            })
            .collect();
        let reading = thread::spawn(move || {
            let mut seen = Seen::default();
            for _ in 0..4 {
                look(&mut reader, &mut seen);
                check(&seen);
            }
            (reader, seen)
        });
        writers.into_iter().for_each(|writer| writer.join().expect("no thread fails"));
        let (mut reader, mut seen) = reading.join().expect("no thread fails");
        faithful(&mut reader, &mut seen);
        check(&seen);
        assert_eq!(seen.offset, log.appended());
    }

    /// Checks that everything before the read offset was found, each record whole, and each shard's records in the
    /// order of their execution.
    fn check(seen: &Seen) {
        assert!(seen.bytes.len() as u64 >= seen.offset, "what counts as read was read");
        let mut last = [0; 2];
        for record in seen.bytes.chunks(2) {
            let last = &mut last[usize::from(record[0])];
            *last += 1;
            assert_eq!(record[1], *last);
        }
    }

    fn faithful(reader: &mut LogReader, seen: &mut Seen) {
        let read = reader.read(u64::MAX, |_, run| {
            seen.bytes.extend_from_slice(run.text());
            ControlFlow::Continue(())
        });
        seen.offset = read.expect("the log keeps all for it");
    }

    /// Reads as if all reserved bytes were published.
    fn hasty(reader: &mut LogReader, seen: &mut Seen) {
        let end = reader.log().appended();
        faithful(reader, seen);
        seen.offset = end;
    }

    #[test]
    fn records_are_read_whole_and_in_order() {
        shuttle::check_random(|| model(faithful), 10_000);
        shuttle::check_pct(|| model(faithful), 10_000, 4);
    }

    #[test]
    #[should_panic(expected = "what counts as read was read")]
    fn an_offset_that_is_published_early_is_found() {
        shuttle::check_pct(|| model(hasty), 10_000, 4);
    }
}
