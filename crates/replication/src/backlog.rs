//! The last bytes of the stream, for replicas that reconnect and for replicas that are behind.
//!
//! ```text
//!   offset   start ............................... end
//!            [ block ][ block ][ block ][ block .. ]
//!                         ^ replica     ^ replica
//! ```
//!
//! All replicas are sent from one copy of the bytes. Bytes beyond the wanted size are dropped, unless a replica still
//! needs them. Another module decides which replica is too far behind.

use std::collections::VecDeque;
use std::sync::Arc;

/// Bytes of a block: the backlog drops whole blocks, so the blocks of a small backlog are smaller.
const BLOCK: usize = 64 << 10;
const BLOCK_MIN: usize = 16 << 10;
/// Number of blocks of a backlog, where blocks of that size are neither too small nor too large.
const BLOCKS: u64 = 16;
/// Length from which bytes are better a block of their own, shared with the place that they come from.
pub const SHARED: usize = 1 << 20;
/// Part of a shared block that is copied out of it, so that the block can go.
const REST: usize = 4;
/// Bytes of the stream that are returned as one piece.
const PIECE: usize = 256 << 10;

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Backlog {
    blocks: VecDeque<Block>,
    /// Bytes of the stream before the retained ones; the first block may still contain some of these.
    start: u64,
    /// Bytes of the stream so far.
    end: u64,
    /// Bytes to retain.
    size: u64,
}

#[derive(Debug)]
struct Block {
    /// Bytes of the stream before this block.
    start: u64,
    bytes: BlockBytes,
}

#[derive(Debug)]
enum BlockBytes {
    /// Bytes of the backlog's own, which may have room for more.
    Own(Vec<u8>),
    Shared(Arc<Vec<u8>>),
}

impl Block {
    fn bytes(&self) -> &Vec<u8> {
        match &self.bytes {
            BlockBytes::Own(bytes) => bytes,
            BlockBytes::Shared(bytes) => bytes,
        }
    }

    /// Returns the bytes of the stream up to this block's end.
    fn end(&self) -> u64 {
        self.start + self.bytes().len() as u64
    }

    /// Returns the block's own bytes, if there is room for more.
    fn with_room(&mut self) -> Option<&mut Vec<u8>> {
        match &mut self.bytes {
            BlockBytes::Own(bytes) if bytes.len() < bytes.capacity() => Some(bytes),
            BlockBytes::Own(_) | BlockBytes::Shared(_) => None,
        }
    }

    /// Makes a shared block one of its own bytes from this offset of the stream on, if these are a small part of it.
    fn cut_to(&mut self, offset: u64) {
        if let BlockBytes::Shared(bytes) = &self.bytes
            && offset > self.start
            && let rest = &bytes[(offset - self.start) as usize..]
            && rest.len() <= bytes.len() / REST
        {
            (self.start, self.bytes) = (offset, BlockBytes::Own(rest.to_vec()));
        }
    }
}

impl Backlog {
    /// Creates an empty backlog of a stream that has so many bytes already.
    pub fn new(offset: u64, size: u64) -> Backlog {
        Backlog { blocks: VecDeque::new(), start: offset, end: offset, size }
    }

    /// Returns the length of the stream so far.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Returns the length of the stream before the retained bytes.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Returns how many bytes are retained.
    pub fn len(&self) -> u64 {
        self.end - self.start()
    }

    /// Returns how much memory the blocks take.
    pub fn memory(&self) -> u64 {
        self.blocks.iter().map(|block| block.bytes().capacity() as u64).sum()
    }

    /// Returns whether no byte is retained.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sets how many bytes are to be retained.
    pub fn resize(&mut self, size: u64) {
        self.size = size;
    }

    /// Adds bytes.
    pub fn append(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let Some(block) = self.blocks.back_mut().and_then(Block::with_room) else {
                let len = ((self.size / BLOCKS) as usize).clamp(BLOCK_MIN, BLOCK);
                let bytes = BlockBytes::Own(Vec::with_capacity(len));
                self.blocks.push_back(Block { start: self.end, bytes });
                continue;
            };
            let (now, later) = bytes.split_at((block.capacity() - block.len()).min(bytes.len()));
            block.extend_from_slice(now);
            self.end += now.len() as u64;
            bytes = later;
        }
    }

    /// Adds bytes without a copy: [`SHARED`] of them or more.
    pub fn append_shared(&mut self, bytes: Arc<Vec<u8>>) {
        let start = self.end;
        self.end += bytes.len() as u64;
        self.blocks.push_back(Block { start, bytes: BlockBytes::Shared(bytes) });
    }

    /// Drops bytes beyond the wanted size, up to `needed`: all replicas have the stream up to there.
    pub fn trim(&mut self, needed: u64) {
        let keep = self.end.saturating_sub(self.size).min(needed);
        self.start = self.start.max(keep);
        while self.blocks.front().is_some_and(|block| block.end() <= keep) {
            self.blocks.pop_front();
        }
        if let Some(block) = self.blocks.front_mut() {
            block.cut_to(keep);
        }
    }

    /// Returns whether all bytes behind this offset of the stream are retained.
    pub fn has(&self, offset: u64) -> bool {
        (self.start()..=self.end).contains(&offset)
    }

    /// Returns the bytes behind this offset of the stream, piece by piece.
    pub fn after(&self, offset: u64) -> impl Iterator<Item = &[u8]> {
        let first = self.blocks.partition_point(|block| block.end() <= offset);
        let blocks = self.blocks.range(first..);
        blocks.flat_map(move |block| block.bytes()[offset.saturating_sub(block.start) as usize..].chunks(PIECE))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bytes_that_a_replica_needs_stay_and_others_go() {
        let mut backlog = Backlog::new(1000, BLOCK as u64);
        backlog.append(&vec![b'x'; 5 * BLOCK]);
        backlog.trim(1000);
        assert_eq!((backlog.start(), backlog.len()), (1000, 5 * BLOCK as u64));
        backlog.trim(u64::MAX);
        assert_eq!(backlog.start(), 1000 + 4 * BLOCK as u64);
        assert!(backlog.has(backlog.end()) && !backlog.has(backlog.end() + 1) && !backlog.has(backlog.start() - 1));
    }

    #[test]
    fn large_bytes_are_shared_until_little_of_them_is_wanted() {
        let mut backlog = Backlog::new(0, 2 * SHARED as u64);
        backlog.append(b"small");
        let large = Arc::new(vec![b'x'; 20 * SHARED]);
        backlog.append_shared(Arc::clone(&large));
        backlog.append(b"after");
        assert_eq!(backlog.after(5).next().map(<[u8]>::as_ptr), Some(large.as_ptr()), "not copied");
        assert_eq!(backlog.after(7).flatten().count(), large.len() + 3);
        backlog.trim(0);
        assert_eq!((Arc::strong_count(&large), backlog.start()), (2, 0));
        backlog.trim(u64::MAX);
        assert_eq!((Arc::strong_count(&large), backlog.len()), (1, 2 * SHARED as u64));
        let start = backlog.start();
        assert!(backlog.after(start).flatten().eq(large[5..2 * SHARED].iter().chain(b"after")));
        assert!(backlog.memory() <= 3 * SHARED as u64);
    }

    proptest! {
        #[test]
        fn a_backlog_has_the_bytes_of_the_stream(pieces in prop::collection::vec(0..200_000usize, 0..8), from in 0..500_000u64) {
            let (mut backlog, mut stream) = (Backlog::new(7, 100_000), Vec::new());
            for (number, len) in pieces.into_iter().enumerate() {
                let piece: Vec<u8> = (0..len).map(|n| (n * 7 + number) as u8).collect();
                match number % 2 {
                    0 => backlog.append(&piece),
                    _ => backlog.append_shared(Arc::new(piece.clone())),
                }
                stream.extend_from_slice(&piece);
                backlog.trim(u64::MAX);
                prop_assert!(backlog.len() >= (stream.len() as u64).min(100_000));
                prop_assert!(backlog.len() < (100_000 + BLOCK) as u64);
            }
            prop_assert_eq!(backlog.end(), 7 + stream.len() as u64);
            if backlog.has(from) {
                let got: Vec<u8> = backlog.after(from).flatten().copied().collect();
                prop_assert_eq!(&got[..], &stream[from as usize - 7..]);
            }
        }
    }
}
