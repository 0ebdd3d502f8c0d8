//! The end of a log: one word, by which threads reserve places side by side. The blocks themselves, and the use of
//! places, are in [`log_block`](crate::log_block).

use crossbeam_utils::CachePadded;
use std::ptr::{NonNull, null_mut};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::*};

/// Bytes of text in a block that many records share.
pub const TEXT: usize = 64 << 10;
/// Records in such a block at most.
pub(crate) const HEADS: usize = TEXT / 64;
/// Bits of [`Reserved`]: of the text's bytes, and of the records.
const TEXT_BITS: u32 = 17;
const RECORD_BITS: u32 = 11;
const _: () = assert!(TEXT < 1 << TEXT_BITS && HEADS < 1 << RECORD_BITS);

/// Reserved places in the block at the end, as one word:
///
/// ```text
///   | turns so far, 35 bits | closed | records, 11 bits | bytes of text, 17 bits |
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
struct Reserved(u64);

impl Reserved {
    const CLOSED: u64 = 1 << (TEXT_BITS + RECORD_BITS);
    const TURN: u64 = Reserved::CLOSED << 1;

    fn text(self) -> usize {
        (self.0 & ((1 << TEXT_BITS) - 1)) as usize
    }

    fn records(self) -> usize {
        (self.0 >> TEXT_BITS & ((1 << RECORD_BITS) - 1)) as usize
    }

    fn turns(self) -> u64 {
        self.0 / Reserved::TURN
    }

    fn fits(self, len: usize) -> bool {
        self.0 & Reserved::CLOSED == 0 && len <= TEXT - self.text() && self.records() < HEADS
    }

    /// Returns the word with one more record, which must [fit](Self::fits).
    fn and(self, len: usize) -> Reserved {
        Reserved(self.0 + (1 << TEXT_BITS) + len as u64)
    }

    /// Returns the word of the next block, without reservations.
    fn turned(self, is_closed: bool) -> Reserved {
        let closed = if is_closed { Reserved::CLOSED } else { 0 };
        Reserved((self.turns() + 1).wrapping_mul(Reserved::TURN) | closed)
    }
}

/// A block that is at the end, or was lately.
struct Recent<B> {
    start: AtomicU64,
    block: AtomicPtr<B>,
}

/// Blocks whose places are distinguished.
const RECENT: usize = 8;

/// The end of a log, where threads reserve places, each by one exchange of a word. The contents of blocks are their
/// owner's affair: here are only pointers to them.
pub struct LogEnd<B> {
    reserved: CachePadded<AtomicU64>,
    /// By turns, modulo their number. Stored before the word names them, and not again for so many turns.
    recent: CachePadded<[Recent<B>; RECENT]>,
}

impl<B> LogEnd<B> {
    /// Makes the end of a log without a byte, whose block has no room.
    pub(crate) fn closed(block: *const B) -> LogEnd<B> {
        let recent = |n| Recent {
            start: AtomicU64::new(0),
            block: AtomicPtr::new(if n == 0 { block.cast_mut() } else { null_mut() }),
        };
        LogEnd {
            reserved: CachePadded::new(AtomicU64::new(Reserved::CLOSED)),
            recent: CachePadded::new(std::array::from_fn(recent)),
        }
    }

    fn word(&self) -> Reserved {
        Reserved(self.reserved.load(Acquire))
    }

    fn recent(&self, turns: u64) -> &Recent<B> {
        &self.recent[turns as usize % RECENT]
    }

    /// Returns the numbers of records and of bytes of text that are reserved in the block at the end.
    pub(crate) fn reserved(&self) -> (usize, usize) {
        let reserved = self.word();
        (reserved.records(), reserved.text())
    }

    /// Returns the bytes that were reserved so far.
    #[inline]
    pub fn offset(&self) -> u64 {
        loop {
            let reserved = self.word();
            // A later value here belongs to a turn that the second look sees.
            let start = self.recent(reserved.turns()).start.load(Acquire);
            if self.word().turns() == reserved.turns() {
                return start + reserved.text() as u64;
            }
        }
    }

    /// Returns the next place for so many bytes, which is still to be taken. None: there is no room, so the tail has to
    /// turn.
    ///
    /// # Panics
    /// When they are none.
    #[inline]
    pub fn offer(&self, len: usize) -> Option<Offer<'_, B>> {
        assert!(len > 0, "a record has text");
        let reserved = self.word();
        let recent = self.recent(reserved.turns());
        let (block, start) = (NonNull::new(recent.block.load(Acquire))?, recent.start.load(Acquire));
        reserved.fits(len).then_some(Offer { end: self, reserved, block, start, len })
    }

    /// Continues in another block, so many bytes behind the places reserved by then. `begin` gets its beginning, and
    /// returns the block; more than once, if places are reserved meanwhile. For one thread at a time. Returns how many
    /// bytes of the log and records of the block before are reserved.
    pub(crate) fn turn(&self, is_closed: bool, skipped: usize, mut begin: impl FnMut(u64) -> *const B) -> (u64, usize) {
        let mut reserved = self.word();
        loop {
            let end = self.recent(reserved.turns()).start.load(Acquire) + reserved.text() as u64;
            let next = reserved.turned(is_closed);
            let recent = self.recent(next.turns());
            recent.start.store(end + skipped as u64, Release);
            recent.block.store(begin(end + skipped as u64).cast_mut(), Release);
            match self.reserved.compare_exchange(reserved.0, next.0, AcqRel, Acquire) {
                Ok(_) => return (end, reserved.records()),
                Err(other) => reserved = Reserved(other),
            }
        }
    }
}

/// A place that is the next one as long as no other thread takes it.
pub struct Offer<'e, B> {
    end: &'e LogEnd<B>,
    reserved: Reserved,
    block: NonNull<B>,
    start: u64,
    len: usize,
}

/// A place that was reserved.
pub(crate) struct Place<B> {
    pub block: NonNull<B>,
    /// Records before it in the block.
    pub head: usize,
    /// Bytes of text before it in the block.
    pub at: usize,
    pub len: usize,
    /// Its end in the log.
    pub end: u64,
}

impl<B> Offer<'_, B> {
    /// Reserves it. None: another thread was faster.
    #[inline]
    pub(crate) fn take(self) -> Option<Place<B>> {
        let Offer { end, reserved, block, start, len } = self;
        // An equal word proves that no thread has turned since: turns are counted, and come back to a number only after
        // more bytes than a log can have. So `block` and `start` are the ones of the word's block.
        end.reserved.compare_exchange(reserved.0, reserved.and(len).0, AcqRel, Relaxed).ok()?;
        let (head, at) = (reserved.records(), reserved.text());
        Some(Place { block, head, at, len, end: start + (at + len) as u64 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_tells_what_fits() {
        let closed = Reserved(Reserved::CLOSED);
        let open = closed.turned(false);
        assert!(!closed.fits(1) && open.fits(TEXT) && !open.fits(TEXT + 1));
        let full = open.and(TEXT);
        assert_eq!((full.text(), full.records(), full.turns(), full.fits(1)), (TEXT, 1, 1, false));
        let many = (0..HEADS).fold(open, |word, _| word.and(1));
        assert_eq!((many.text(), many.records(), many.turns(), many.fits(1)), (HEADS, HEADS, 1, false));
        assert_eq!(many.turned(true).turns(), 2);
        assert!(!many.turned(true).fits(1) && many.turned(false).fits(1));
    }

    #[test]
    fn offsets_go_on_over_turns() {
        let blocks = [0u8; 2 * RECENT];
        let end = LogEnd::closed(&raw const blocks[0]);
        let mut length = 0;
        for (turn, block) in blocks.iter().enumerate().skip(1) {
            let skipped = turn % 3;
            let told = end.turn(false, skipped, |start| {
                assert_eq!(start, length + skipped as u64);
                block
            });
            assert_eq!(told, (length, usize::from(turn > 1)));
            length += skipped as u64;
            let place = end.offer(turn).and_then(Offer::take).expect("there is room");
            length += turn as u64;
            assert_eq!(
                (place.block.as_ptr().cast_const(), place.end, end.offset()),
                (&raw const *block, length, length)
            );
        }
    }
}
