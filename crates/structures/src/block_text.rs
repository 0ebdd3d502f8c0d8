//! The bytes of a block of a log.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

/// The bytes of a vector, of which some may not be initialized yet.
pub(crate) struct Text {
    pub start: NonNull<u8>,
    pub len: usize,
    pub capacity: usize,
    /// The vector, if its bytes are all there and others may retain them; the rest refers to it.
    pub shared: Option<Arc<Vec<u8>>>,
}

impl Text {
    /// Takes over a vector in which threads may write up to its capacity.
    pub fn of(bytes: Vec<u8>) -> Text {
        let mut bytes = ManuallyDrop::new(bytes);
        let start = NonNull::new(bytes.as_mut_ptr()).expect("a vector's pointer is never null");
        Text { start, len: bytes.len(), capacity: bytes.capacity(), shared: None }
    }

    /// Takes over bytes that do not change any more.
    pub fn shared(bytes: Vec<u8>) -> Text {
        let bytes = Arc::new(bytes);
        let start = NonNull::from(bytes.as_slice()).cast();
        Text { start, len: bytes.len(), capacity: bytes.capacity(), shared: Some(bytes) }
    }
}

impl Drop for Text {
    fn drop(&mut self) {
        if self.shared.is_some() {
            return;
        }
        // SAFETY: the three come from a vector that was not dropped, and `len` of its bytes were initialized then.
        drop(unsafe { Vec::from_raw_parts(self.start.as_ptr(), self.len, self.capacity) });
    }
}

// SAFETY: it owns its bytes, which are plain. The block's heads decide which threads write and read them.
unsafe impl Send for Text {}
// SAFETY: as above: all access is by `Space::write` and `LogBlock::text`, which say why they do not meet.
unsafe impl Sync for Text {}
