//! Blocks of a log: threads write records into them side by side, and readers follow, each at its own pace.
//!
//! ```text
//!   LogCursor          LogCursor                LogTail: behind its owner's lock
//!       v                  v                        v
//!   [ block ] --next--> [ block ] --next--> ... [ block ] <-- LogEnd: a word, by which places are reserved
//!
//!   heads | head 0 | head 1 |   0    |   0    | ...         one for each record: 0 until the record is published
//!   text  | record 0 ..... | record 1 . | (reserved) |      one after the other, with nothing in between
//! ```
//!
//! A writer takes three steps, all of them without a lock. It reserves the next place in the text and the next head by
//! one exchange of a word ([`Space::take`]); no other thread gets these. It [writes](Space::write) its bytes there.
//! Then it [publishes](Written::publish) them: it stores the head with release. A reader loads the head with acquire,
//! and finds the bytes written. It stops at a head of 0, so it never passes a record that is not whole, and sees the
//! records in the order of their reservation. If there is no room, a thread with the tail's lock
//! [turns](LogTail::turn).
//!
//! Texts of records in a row lie in a row. So a reader looks at heads only and takes the text of many records as one
//! slice. A large record is a block of its own, made of the bytes in which it came.
//!
//! **Lifetime of a block.** A block is counted: by the cursors that are in it, by slices of it, by the block before it,
//! and by the tail until all that was reserved in it is published. So blocks that the slowest cursor has still to read
//! stay, and the rest are freed. A [`Space`] points into its block without being counted: the tail retains the block
//! for it, and the tail's end forgets blocks with unpublished places rather than to free them.
//!
//! **No byte is read and written at once.** Each byte of the text is reserved once, is written by the thread that
//! reserved it, and is read only after it was published. A block is written anew only by its sole owner
//! ([`Arc::get_mut`]) and only where all is published: then no space, cursor or slice is left of it.

use crate::block_text::Text;
use crate::log_end::{self, HEADS, Offer, Place, TEXT};
use crate::log_memory::{LogMemory, MemoryShare};
use std::collections::VecDeque;
use std::ops::{Deref, Range};
use std::sync::atomic::{AtomicU64, Ordering::*};
use std::sync::{Arc, OnceLock};

/// Length from which records are better blocks of their own.
pub const LARGE: usize = TEXT / 2;
/// Closed blocks that the tail retains to write them anew.
const SPARE: usize = 4;

/// Facts about a record besides its text: the owner's affair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    /// Records in a row with the same tag can be read together.
    pub tag: u32,
    /// Number of the owner's, ignored when records are read together.
    pub note: u64,
}

#[derive(Default)]
struct RecordMark {
    /// The length in the lower half and the tag in the upper; 0: not published.
    lead: AtomicU64,
    note: AtomicU64,
}

/// Another block follows.
struct Next {
    /// Number of records in the block before it.
    records: usize,
    block: Arc<LogBlock>,
}

/// A piece of the log.
pub struct LogBlock {
    /// Bytes of the log before it.
    start: u64,
    heads: Box<[RecordMark]>,
    text: Text,
    next: OnceLock<Next>,
    /// The share of the log's memory that it takes up.
    _memory: MemoryShare,
}

impl LogBlock {
    fn new(start: u64, heads: Box<[RecordMark]>, text: Text, memory: &Arc<LogMemory>) -> LogBlock {
        let bytes = size_of::<LogBlock>() + heads.len() * size_of::<RecordMark>() + text.capacity;
        LogBlock { start, heads, text, next: OnceLock::new(), _memory: memory.take(bytes as u64) }
    }

    fn shared(memory: &Arc<LogMemory>) -> LogBlock {
        let heads = (0..HEADS).map(|_| RecordMark::default()).collect();
        LogBlock::new(0, heads, Text::of(Vec::with_capacity(TEXT)), memory)
    }

    /// Makes a block without room: a thread that has a record to write turns to another block.
    fn empty(memory: &Arc<LogMemory>) -> LogBlock {
        LogBlock::new(0, Box::new([]), Text::of(Vec::new()), memory)
    }

    /// Makes a block of one record that is there already.
    fn owned(start: u64, label: Label, bytes: Vec<u8>, memory: &Arc<LogMemory>) -> LogBlock {
        let head = RecordMark::default();
        head.publish(bytes.len(), label);
        LogBlock::new(start, Box::new([head]), Text::shared(bytes), memory)
    }

    fn is_owned(&self) -> bool {
        self.text.len > 0
    }

    /// Returns the record's head, if it is published.
    #[inline]
    fn published(&self, head: usize) -> Option<u64> {
        let lead = self.heads.get(head)?.lead.load(Acquire);
        (lead != 0).then_some(lead)
    }

    fn record_len(&self, lead: u64) -> usize {
        if self.is_owned() { self.text.len } else { lead as u32 as usize }
    }

    /// Whether the first so many records are published.
    fn is_complete(&self, records: usize) -> bool {
        self.heads[..records].iter().all(|head| head.lead.load(Acquire) != 0)
    }

    /// Returns the text of published records.
    ///
    /// # Safety
    /// The range is that of records in a row whose heads [were seen](Self::published) to be published.
    #[inline]
    unsafe fn text(&self, range: Range<usize>) -> &[u8] {
        // SAFETY: the range was reserved, so it lies in the text, and written before its heads were stored with
        // release, which the caller has loaded with acquire. No thread writes there again while `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.text.start.as_ptr().add(range.start), range.len()) }
    }

    /// Begins anew, for a sole owner. All that was reserved in it must be published.
    fn renew(&mut self) {
        self.heads.iter_mut().for_each(|head| *head.lead.get_mut() = 0);
        drop(self.next.take());
    }
}

/// Drops blocks one after the other, however many: not each within the drop of the one before it.
impl Drop for LogBlock {
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(mut block) = next.and_then(|next| Arc::into_inner(next.block)) {
            next = block.next.take();
        }
    }
}

impl RecordMark {
    #[inline]
    fn publish(&self, len: usize, label: Label) {
        self.note.store(label.note, Relaxed);
        let len = u32::try_from(len).unwrap_or(u32::MAX);
        self.lead.store(u64::from(label.tag) << 32 | u64::from(len), Release);
    }
}

/// The end of a log. One is made by its [tail](LogTail) only.
pub type LogEnd = log_end::LogEnd<LogBlock>;

/// A place in the log that was reserved and is still to be written.
#[must_use = "readers wait for it"]
pub struct Space(Place<LogBlock>);

impl Space {
    /// Reserves the offered place. None: another thread was faster.
    #[inline]
    pub fn take(offer: Offer<'_, LogBlock>) -> Option<Space> {
        offer.take().map(Space)
    }

    /// Returns its end in the log.
    pub fn end(&self) -> u64 {
        self.0.end
    }

    /// Writes the record's text.
    ///
    /// # Panics
    /// When it does not have the reserved length.
    #[inline]
    pub fn write(self, text: &[u8]) -> Written {
        assert_eq!(text.len(), self.0.len, "all that is reserved is written");
        // SAFETY: the tail retains the block until this place is published, which only `Written` can do: the end's word
        // counts the place, and the tail reads the word when it closes the block. The place is within the text, as the
        // word said that it fits, and no other `Space` has any of it. Readers do not look at it before it is published.
        // The caller's text does not overlap it: nothing else refers to it.
        unsafe {
            let to = self.0.block.as_ref().text.start.as_ptr().add(self.0.at);
            to.copy_from_nonoverlapping(text.as_ptr(), text.len());
        }
        Written(self)
    }
}

/// A record that is written and not seen by readers yet.
#[must_use = "readers wait for it"]
pub struct Written(Space);

impl Written {
    /// Publishes the record to readers.
    #[inline]
    pub fn publish(self, label: Label) {
        let Place { block, head, len, .. } = self.0.0;
        // SAFETY: as in `Space::write`; the block is not touched any more after the store that publishes.
        let block = unsafe { block.as_ref() };
        block.heads[head].publish(len, label);
    }
}

/// The blocks of a log, which the tail retains as long as places in them are not published, and turns.
pub struct LogTail {
    end: Arc<LogEnd>,
    /// The one at the end.
    block: Arc<LogBlock>,
    /// Blocks before it, oldest first: some with places that are still to be published, some to be written anew.
    closed: VecDeque<Arc<LogBlock>>,
    memory: Arc<LogMemory>,
}

impl Default for LogTail {
    fn default() -> Self {
        let memory = Arc::default();
        let block = Arc::new(LogBlock::empty(&memory));
        let end = LogEnd::closed(Arc::as_ptr(&block));
        LogTail { end: Arc::new(end), block, closed: VecDeque::new(), memory }
    }
}

impl LogTail {
    /// Returns the end, where places are reserved. Without the tail there is no room any more.
    pub fn end(&self) -> &Arc<LogEnd> {
        &self.end
    }

    /// Returns the memory of all blocks.
    pub fn memory(&self) -> &Arc<LogMemory> {
        &self.memory
    }

    /// Continues in another block: an old one, if no thread reads it any more.
    pub fn turn(&mut self) {
        let mut block = self.reused().unwrap_or_else(|| Arc::new(LogBlock::shared(&self.memory)));
        let (_, records) = turn(&self.end, &mut block, false, 0);
        self.close(records, block);
    }

    /// Appends a record that keeps its own bytes, and returns its end in the log.
    ///
    /// # Panics
    /// When it has none.
    pub fn append_owned(&mut self, label: Label, text: Vec<u8>) -> u64 {
        assert!(!text.is_empty(), "a record has text");
        let mut last = Arc::new(LogBlock::empty(&self.memory));
        let (start, records) = turn(&self.end, &mut last, true, text.len());
        let end = start + text.len() as u64;
        self.close(records, Arc::new(LogBlock::owned(start, label, text, &self.memory)));
        self.close(1, last);
        // It is large, so only readers are to retain it: neither the tail nor a block before it.
        self.closed.retain(|block| !is_done(block));
        end
    }

    /// Closes the last block, which has so many records; this one follows.
    fn close(&mut self, records: usize, block: Arc<LogBlock>) {
        let next = Next { records, block: Arc::clone(&block) };
        assert!(self.block.next.set(next).is_ok(), "the tail is the last block");
        self.closed.push_back(std::mem::replace(&mut self.block, block));
        while self.closed.len() > SPARE && self.closed.front().is_some_and(|block| is_done(block)) {
            self.closed.pop_front();
        }
    }

    fn reused(&mut self) -> Option<Arc<LogBlock>> {
        let mut block = self.closed.pop_front_if(|block| is_done(block) && Arc::strong_count(block) == 1)?;
        Arc::get_mut(&mut block).filter(|block| block.heads.len() == HEADS)?.renew();
        Some(block)
    }

    /// Returns a reader of all places that are reserved from now on.
    pub fn cursor(&self) -> LogCursor {
        let (head, at) = self.end.reserved();
        LogCursor { block: Arc::clone(&self.block), head, at }
    }
}

/// Makes a new block the one at the end, so many bytes behind the places reserved by then. Returns how many bytes of
/// the log and records of its last block these are.
fn turn(end: &LogEnd, block: &mut Arc<LogBlock>, is_closed: bool, skipped: usize) -> (u64, usize) {
    end.turn(is_closed, skipped, |start| {
        Arc::get_mut(block).expect("nobody else has a block that is to come").start = start;
        Arc::as_ptr(block)
    })
}

/// Whether all that was reserved in a block that was closed is published.
fn is_done(block: &LogBlock) -> bool {
    block.next.get().is_some_and(|next| block.is_complete(next.records))
}

impl Drop for LogTail {
    fn drop(&mut self) {
        // No thread reserves a place from here on, and a thread with an offer does not get it.
        let (_, records) = turn(&self.end, &mut Arc::new(LogBlock::empty(&self.memory)), true, 0);
        if !self.block.is_complete(records) {
            std::mem::forget(Arc::clone(&self.block));
        }
        for block in self.closed.drain(..) {
            if !is_done(&block) {
                std::mem::forget(block);
            }
        }
    }
}

/// Position of a reader in the log. It retains the blocks behind it.
pub struct LogCursor {
    block: Arc<LogBlock>,
    head: usize,
    at: usize,
}

/// Records in a row, all with the same tag.
pub struct Run<'c> {
    /// Label of the first.
    pub label: Label,
    block: &'c Arc<LogBlock>,
    range: Range<usize>,
}

impl LogCursor {
    /// Returns the bytes of the log before it.
    #[inline]
    pub fn offset(&self) -> u64 {
        self.block.start + self.at as u64
    }

    /// Passes over the next record that ends by `until`, which no record spans, and over the ones behind it with the
    /// same tag if the tag says that these are read `together`. None: there is none, or it is not published yet.
    #[inline]
    pub fn next_run(&mut self, until: u64, together: impl Fn(u32) -> bool) -> Option<Run<'_>> {
        if self.offset() >= until {
            return None;
        }
        let lead = loop {
            match self.block.published(self.head) {
                Some(lead) => break lead,
                None if self.step() => {}
                None => return None,
            }
        };
        let block = &self.block;
        let label = Label { tag: (lead >> 32) as u32, note: block.heads[self.head].note.load(Relaxed) };
        let begin = self.at;
        self.head += 1;
        self.at += block.record_len(lead);
        let end = usize::try_from(until - block.start).unwrap_or(usize::MAX);
        let joins = |lead: &u64| (*lead >> 32) as u32 == label.tag;
        while self.at < end
            && together(label.tag)
            && let Some(lead) = block.published(self.head).filter(joins)
        {
            self.head += 1;
            self.at += block.record_len(lead);
        }
        Some(Run { label, block, range: begin..self.at })
    }

    /// Lets go of blocks that it has read to the end.
    pub fn leave_read(&mut self) {
        while self.step() {}
    }

    /// Continues in the next block; false if there is none, or records are still to be published in this one.
    fn step(&mut self) -> bool {
        let Some(next) = self.block.next.get().filter(|next| next.records == self.head) else { return false };
        let block = Arc::clone(&next.block);
        (self.block, self.head, self.at) = (block, 0, 0);
        true
    }
}

impl Run<'_> {
    /// Returns their text.
    #[inline]
    pub fn text(&self) -> &[u8] {
        // SAFETY: `next_run` has seen the heads of all records in the range.
        unsafe { self.block.text(self.range.clone()) }
    }

    /// Returns the text of a record that has kept its own bytes: they may be retained for long, without the log.
    pub fn shared_text(&self) -> Option<&Arc<Vec<u8>>> {
        self.block.text.shared.as_ref()
    }

    /// Returns their text, to be retained.
    pub fn share(&self) -> LogSlice {
        LogSlice { block: Arc::clone(self.block), range: self.range.clone() }
    }
}

/// A part of the log's text, which it retains.
pub struct LogSlice {
    block: Arc<LogBlock>,
    range: Range<usize>,
}

impl Deref for LogSlice {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        // SAFETY: the range is that of a `Run`, and the block is not written anew while this counts.
        unsafe { self.block.text(self.range.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::Mutex;
    use std::thread;

    fn label(tag: u32) -> Label {
        Label { tag, note: u64::from(tag) * 3 }
    }

    /// Makes a tail with a block.
    fn begun() -> LogTail {
        let mut tail = LogTail::default();
        tail.turn();
        tail
    }

    fn reserve(tail: &mut LogTail, len: usize) -> Space {
        if tail.end.offer(len).is_none() {
            tail.turn();
        }
        tail.end.offer(len).and_then(Space::take).expect("there is room")
    }

    fn add(tail: &mut LogTail, tag: u32, text: &[u8]) {
        reserve(tail, text.len()).write(text).publish(label(tag));
    }

    fn rest(cursor: &mut LogCursor) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(run) = cursor.next_run(u64::MAX, |_| true) {
            all.extend_from_slice(run.text());
        }
        all
    }

    #[test]
    fn a_reader_stops_before_what_is_not_published() {
        let mut tail = begun();
        let mut cursor = tail.cursor();
        let [first, second] = [3, 4].map(|len| reserve(&mut tail, len));
        let second = second.write(b"2222");
        second.publish(label(1));
        assert!(cursor.next_run(u64::MAX, |_| true).is_none() && cursor.offset() == 0);
        let first = first.write(b"111");
        assert!(cursor.next_run(u64::MAX, |_| true).is_none(), "it is written, not published");
        first.publish(label(1));
        assert_eq!(rest(&mut cursor), b"1112222");
        assert_eq!((cursor.offset(), tail.end.offset()), (7, 7));
    }

    #[test]
    fn an_offer_is_good_until_somebody_takes_it_or_turns() {
        let mut tail = begun();
        let end = Arc::clone(tail.end());
        let [first, second] = [(); 2].map(|()| end.offer(2).expect("room"));
        let space = Space::take(first).expect("nobody was faster");
        assert_eq!((space.end(), end.offset()), (2, 2));
        assert!(Space::take(second).is_none());
        let late = end.offer(2).expect("room");
        tail.turn();
        assert!(Space::take(late).is_none() && end.offer(log_end::TEXT + 1).is_none());
        space.write(b"ab").publish(label(0));
        let late = end.offer(2).expect("room");
        drop(tail);
        assert!(Space::take(late).is_none() && end.offer(1).is_none() && end.offset() == 2);
    }

    #[test]
    fn runs_are_of_one_tag_and_end_where_they_are_to() {
        let mut tail = LogTail::default();
        let mut cursor = tail.cursor();
        for (tag, text) in [(1, "a"), (1, "b"), (2, "c"), (2, "d"), (2, "e"), (1, "f")] {
            add(&mut tail, tag, text.as_bytes());
        }
        let mut runs = Vec::new();
        while let Some(run) = cursor.next_run(5, |tag| tag == 2) {
            runs.push((run.label, String::from_utf8_lossy(run.text()).into_owned()));
        }
        let expected = [(1, "a"), (1, "b"), (2, "cde")].map(|(tag, text)| (label(tag), text.to_owned()));
        assert_eq!(runs, expected);
        assert_eq!(rest(&mut cursor), b"f");
    }

    #[test]
    fn a_block_is_written_anew_when_nobody_has_it() {
        let mut tail = begun();
        let mut cursor = tail.cursor();
        let first = Arc::as_ptr(&tail.block);
        let text = vec![b'x'; LARGE];
        add(&mut tail, 0, &text);
        let kept = cursor.next_run(u64::MAX, |_| true).expect("a record").share();
        for _ in 0..2 {
            tail.turn();
            add(&mut tail, 1, b"other");
            rest(&mut cursor);
        }
        assert!(tail.reused().is_none(), "a slice keeps its block and what comes after it");
        assert_eq!(*kept, text[..]);
        drop(kept);
        let again = tail.reused().expect("nobody has it");
        assert_eq!((Arc::as_ptr(&again), again.is_complete(1)), (first, false));
        let reserved = reserve(&mut tail, 1);
        (0..10).for_each(|_| tail.turn());
        assert!(tail.reused().is_none() && tail.closed.len() >= 10, "not before all is published");
        reserved.write(b"x").publish(label(0));
        tail.turn();
        assert_eq!(tail.closed.len(), SPARE);
    }

    #[test]
    fn a_place_that_is_never_published_is_forgotten() {
        /// Place at which a leak checker finds deliberate leaks.
        static FORGOTTEN: Mutex<Vec<usize>> = Mutex::new(Vec::new());
        let mut tail = begun();
        FORGOTTEN.lock().expect("no panic").push(Arc::as_ptr(&tail.block) as usize);
        let lost = reserve(&mut tail, 3);
        tail.turn();
        (0..10).for_each(|_| tail.turn());
        drop(tail);
        // The place is still there.
        lost.write(b"abc").publish(label(0));
    }

    #[test]
    fn a_long_log_goes_without_depth() {
        let mut tail = LogTail::default();
        let cursor = tail.cursor();
        (0..100_000).for_each(|_| _ = tail.append_owned(label(0), vec![1]));
        assert!(tail.closed.is_empty() && !tail.block.is_owned(), "only the cursor keeps them");
        drop(cursor);
        assert_eq!(tail.end.offset(), 100_000);
    }

    #[test]
    fn threads_write_side_by_side_and_nothing_is_torn() {
        let tail = LogTail::default();
        let (end, mut cursor) = (Arc::clone(tail.end()), tail.cursor());
        let tail = Mutex::new(tail);
        let (threads, records) = (4u8, 3000u32);
        let mut seen = vec![0; usize::from(threads)];
        thread::scope(|scope| {
            for thread in 0..threads {
                let (tail, end) = (&tail, &end);
                scope.spawn(move || {
                    for n in 0..records {
                        let mut text = vec![thread; 9 + (n as usize * 7) % 200];
                        text[..4].copy_from_slice(&n.to_le_bytes());
                        let space = loop {
                            match end.offer(text.len()) {
                                Some(offer) => {
                                    if let Some(space) = Space::take(offer) {
                                        break space;
                                    }
                                }
                                None => {
                                    let mut tail = tail.lock().expect("no panic");
                                    if end.offer(text.len()).is_none() {
                                        tail.turn();
                                    }
                                }
                            }
                        };
                        space.write(&text).publish(Label { tag: u32::from(thread) + 1, note: text.len() as u64 });
                    }
                });
            }
            let mut left = u32::from(threads) * records;
            while left > 0 {
                let Some(run) = cursor.next_run(u64::MAX, |_| false) else {
                    thread::yield_now();
                    continue;
                };
                let (thread, text) = (run.label.tag as usize - 1, run.text());
                assert_eq!(text.len() as u64, run.label.note);
                assert_eq!(text[..4], u32::to_le_bytes(seen[thread]));
                assert!(text[4..].iter().all(|byte| usize::from(*byte) == thread));
                seen[thread] += 1;
                left -= 1;
            }
        });
        assert_eq!(seen, [records; 4]);
    }

    #[derive(Clone, Debug)]
    enum Step {
        Add(u32, usize),
        Own(u32, usize),
        Turn,
        Open,
        Read(usize, u64),
        Close(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0..3u32, 1..2000usize).prop_map(|(tag, len)| Step::Add(tag, len)),
            2 => (0..3u32, LARGE / 2..LARGE).prop_map(|(tag, len)| Step::Add(tag, len)),
            1 => (0..3u32, 1..3 * LARGE).prop_map(|(tag, len)| Step::Own(tag, len)),
            1 => Just(Step::Turn),
            1 => Just(Step::Open),
            4 => (any::<usize>(), 0..3u64).prop_map(|(reader, wish)| Step::Read(reader, wish)),
            1 => any::<usize>().prop_map(Step::Close),
        ]
    }

    proptest! {
        #[test]
        fn every_reader_reads_all_since_it_began(steps in prop::collection::vec(step(), 1..120)) {
            let mut tail = LogTail::default();
            // The expected log, and the end of each record.
            let (mut model, mut ends, mut readers) = (Vec::new(), vec![0], Vec::new());
            for step in steps {
                match step {
                    Step::Add(tag, len) | Step::Own(tag, len) => {
                        let text: Vec<u8> = (0..len).map(|n| (model.len() + n) as u8).collect();
                        model.extend_from_slice(&text);
                        ends.push(model.len() as u64);
                        match step {
                            Step::Own(..) => prop_assert_eq!(tail.append_owned(label(tag), text), model.len() as u64),
                            _ => add(&mut tail, tag, &text),
                        }
                    }
                    Step::Turn => tail.turn(),
                    Step::Open => readers.push((tail.cursor(), model.len(), Vec::new())),
                    Step::Close(reader) if !readers.is_empty() => {
                        readers.remove(reader % readers.len());
                    }
                    Step::Read(reader, wish) if !readers.is_empty() => {
                        let count = readers.len();
                        let (cursor, _, read) = &mut readers[reader % count];
                        let until = if wish == 0 { u64::MAX } else { ends[(ends.len() * wish as usize / 3).saturating_sub(1)] };
                        while let Some(run) = cursor.next_run(until, |_| true) {
                            read.extend_from_slice(&run.share());
                        }
                        prop_assert!(cursor.offset() >= until.min(tail.end.offset()));
                    }
                    Step::Close(_) | Step::Read(..) => {}
                }
                prop_assert_eq!(tail.end.offset(), model.len() as u64);
            }
            for (mut cursor, begin, mut read) in readers {
                read.append(&mut rest(&mut cursor));
                prop_assert!(read == model[begin..], "from {begin} on");
            }
        }
    }
}
