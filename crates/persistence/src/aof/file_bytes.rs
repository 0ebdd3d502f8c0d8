//! Bytes for a file: parts of the log where they lie, and the bytes that a sink writes between them.
//!
//! ```text
//!   own: SELECT 3, some short records | a slice of the log, of many records | own: MULTI, short records, EXEC | ...
//! ```

use std::collections::VecDeque;
use structures::log_block::{LogSlice, Run};

/// Parts of the log from this length on are not copied.
const SLICED: usize = 4 << 10;
/// Memory that is retained for the next bytes of one's own.
const KEPT_CAPACITY: usize = 256 << 10;

enum Bytes {
    Own(Vec<u8>),
    Log(LogSlice),
}

struct Piece {
    bytes: Bytes,
    /// Bytes at the front that are already consumed.
    gone: usize,
}

impl Piece {
    fn left(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Own(bytes) => &bytes[self.gone..],
            Bytes::Log(slice) => &slice[self.gone..],
        }
    }
}

/// A queue of bytes.
#[derive(Default)]
pub struct FileBytes {
    queue: VecDeque<Piece>,
    len: usize,
    /// Memory of consumed bytes, for reuse.
    spare: Vec<u8>,
}

impl FileBytes {
    /// Returns the bytes in it.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds the bytes that `write` appends.
    pub fn put_with(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        if !matches!(self.queue.back(), Some(Piece { bytes: Bytes::Own(_), .. })) {
            let bytes = Bytes::Own(std::mem::take(&mut self.spare));
            self.queue.push_back(Piece { bytes, gone: 0 });
        }
        if let Some(Piece { bytes: Bytes::Own(bytes), .. }) = self.queue.back_mut() {
            let before = bytes.len();
            write(bytes);
            self.len += bytes.len() - before;
        }
    }

    /// Adds bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.put_with(|own| own.extend_from_slice(bytes));
    }

    /// Adds records of the log.
    pub fn put_run(&mut self, run: &Run<'_>) {
        let text = run.text();
        if text.len() < SLICED {
            return self.put(text);
        }
        self.len += text.len();
        self.queue.push_back(Piece { bytes: Bytes::Log(run.share()), gone: 0 });
    }

    /// Returns a contiguous run of bytes behind the first `passed` ones.
    pub fn after(&self, mut passed: usize) -> &[u8] {
        for piece in &self.queue {
            let left = piece.left();
            if passed < left.len() {
                return &left[passed..];
            }
            passed -= left.len();
        }
        &[]
    }

    /// Drops so many bytes off the front.
    pub fn drop_front(&mut self, bytes: usize) {
        self.move_front(bytes, None);
    }

    /// Moves so many bytes off the front to another queue.
    pub fn move_front(&mut self, bytes: usize, mut to: Option<&mut FileBytes>) {
        let mut rest = bytes;
        while rest > 0
            && let Some(mut piece) = self.queue.pop_front()
        {
            let len = piece.left().len();
            if len > rest {
                if let Some(to) = &mut to {
                    to.put(&piece.left()[..rest]);
                }
                piece.gone += rest;
                self.queue.push_front(piece);
                self.len -= rest;
                return;
            }
            rest -= len;
            self.len -= len;
            match (&mut to, piece.bytes) {
                (Some(to), bytes) => {
                    to.len += len;
                    to.queue.push_back(Piece { bytes, gone: piece.gone });
                }
                (None, Bytes::Own(bytes)) if bytes.capacity() <= KEPT_CAPACITY => {
                    self.spare = bytes;
                    self.spare.clear();
                }
                (None, _) => {}
            }
        }
    }

    /// Puts another queue's bytes before its own.
    pub fn put_before(&mut self, mut first: FileBytes) {
        first.queue.append(&mut self.queue);
        self.queue = first.queue;
        self.len += first.len;
    }

    /// Drops all bytes.
    pub fn clear(&mut self) {
        self.drop_front(self.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::propagation::change_log::{ChangeLog, RecordHead};
    use engine::propagation::log_reader::Overflow;
    use std::ops::ControlFlow;
    use std::sync::Arc;

    fn all(pieces: &FileBytes) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < pieces.len() {
            bytes.extend_from_slice(pieces.after(bytes.len()));
        }
        bytes
    }

    #[test]
    fn bytes_go_from_the_front_and_come_back_there() {
        let log = Arc::new(ChangeLog::default());
        let mut reader = log.open(Overflow::Keep);
        let long: Vec<u8> = (0..SLICED + 100).map(|n| n as u8).collect();
        let texts = [&b"short"[..], &long, b"end"];
        for cut in [0, 1, 5, 6, 5 + SLICED, 5 + long.len(), 5 + long.len() + 1, 8 + long.len()] {
            let mut pieces = FileBytes::default();
            for (db, text) in texts.into_iter().enumerate() {
                log.append(RecordHead::command(db as u32, None), text);
            }
            let put = |_, run: &Run<'_>| {
                pieces.put_run(run);
                ControlFlow::Continue(())
            };
            assert_eq!(reader.read(u64::MAX, put), Ok(log.appended()));
            assert_eq!((pieces.len(), pieces.queue.len()), (8 + long.len(), 3));
            let (whole, mut others) = (all(&pieces), FileBytes::default());
            assert_eq!(whole, texts.concat());
            pieces.move_front(cut, Some(&mut others));
            assert_eq!((all(&others), all(&pieces)), (whole[..cut].to_vec(), whole[cut..].to_vec()));
            pieces.put_before(others);
            assert_eq!(all(&pieces), whole);
            pieces.drop_front(cut);
            assert_eq!(all(&pieces), whole[cut..]);
            pieces.clear();
            assert!(pieces.is_empty() && pieces.after(0).is_empty() && pieces.queue.is_empty());
        }
    }
}
