//! A block of bytes behind one thin pointer, which knows its own length.
//!
//! Small collections are kept as one run of bytes in the form in which they go to disk. There are millions of them, so
//! the pointer is 8 bytes (a null one is the `None` of an `Option`), and the length is not beside it but in the block:
//!
//! ```text
//!  0              4                                     len          rounded(len)
//!  +--------------+--------------------------------------+----------------+
//!  | len, u32 LE  | the owner's bytes                    | unused, unread |
//!  +--------------+--------------------------------------+----------------+
//! ```
//!
//! A listpack begins with its length in just this form, so nothing is stored twice.
//!
//! A block is allocated with its length [`rounded`] to the allocator's size classes. It therefore knows its allocated
//! size without storing it, and a change of length within a class neither moves nor copies the rest. Classes are
//! a quarter of a doubling apart, so growing byte by byte copies each byte a bounded number of times.
//!
//! Asserted: a length is at least [`PREFIX`] and fits 32 bits; only [`resize`](Thin::resize) writes it.

use crate::entry::rounded;
use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error, realloc};
use std::ptr::NonNull;

/// Bytes of the length at the beginning of a block.
pub const PREFIX: usize = 4;
/// The longest block, in bytes.
pub const MAX: usize = u32::MAX as usize;

/// An owned block of bytes.
pub struct Thin {
    block: NonNull<u8>,
}

// SAFETY: a `Thin` owns its block alone, and the block is plain bytes.
unsafe impl Send for Thin {}
// SAFETY: as above; no method of `&Thin` writes.
unsafe impl Sync for Thin {}

impl Thin {
    /// A block of `len` bytes: the length, then zeros.
    ///
    /// # Panics
    /// When `len` is not within [`PREFIX`] and [`MAX`].
    pub fn zeroed(len: usize) -> Self {
        let layout = layout(len);
        // SAFETY: `layout` has refused a size of 0.
        let block = unsafe { alloc_zeroed(layout) };
        let Some(block) = NonNull::new(block) else { handle_alloc_error(layout) };
        let mut thin = Thin { block };
        thin.write_len(len);
        thin
    }

    /// Bytes of the block, the length's own four included.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "a block has its length at least")]
    pub fn len(&self) -> usize {
        // SAFETY: every block has these four bytes, initialized; they need not be aligned.
        let len = unsafe { self.block.as_ptr().cast::<u32>().read_unaligned() };
        u32::from_le(len) as usize
    }

    /// All bytes, the length first.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes of the block are initialized, and nobody writes while `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.block.as_ptr(), self.len()) }
    }

    /// The bytes after the length.
    #[inline]
    pub fn body_mut(&mut self) -> &mut [u8] {
        let len = self.len();
        // SAFETY: as in `bytes`; `&mut self` makes the slice the only access. The length is no part of it.
        unsafe { std::slice::from_raw_parts_mut(self.block.as_ptr().add(PREFIX), len - PREFIX) }
    }

    /// Cuts bytes off at the end, or adds zeros there.
    ///
    /// # Panics
    /// When `len` is not within [`PREFIX`] and [`MAX`].
    pub fn resize(&mut self, len: usize) {
        let old_len = self.len();
        let (old, new) = (layout(old_len), layout(len));
        if old != new {
            // SAFETY: the block was allocated with the layout of its length, which `old` is; the new size is not 0.
            let block = unsafe { realloc(self.block.as_ptr(), old, new.size()) };
            let Some(block) = NonNull::new(block) else { handle_alloc_error(new) };
            self.block = block;
        }
        if len > old_len {
            // SAFETY: the block has room for `len` bytes by its layout.
            unsafe { self.block.as_ptr().add(old_len).write_bytes(0, len - old_len) };
        }
        self.write_len(len);
    }

    /// Puts `parts`, one after the other, in the place of `removed` bytes from `at` on.
    ///
    /// # Panics
    /// When these bytes are not behind the length and in the block, or the block would be longer than [`MAX`].
    pub fn splice(&mut self, at: usize, removed: usize, parts: &[&[u8]]) {
        let len = self.len();
        let added: usize = parts.iter().map(|part| part.len()).sum();
        let rest = at.checked_add(removed).filter(|rest| at >= PREFIX && *rest <= len);
        let rest = rest.expect("what is replaced lies within the block");
        let new_len = len - removed + added;
        if new_len > len {
            self.resize(new_len);
        }
        let body = self.body_mut();
        body.copy_within(rest - PREFIX..len - PREFIX, at + added - PREFIX);
        let mut to = at - PREFIX;
        for part in parts {
            body[to..to + part.len()].copy_from_slice(part);
            to += part.len();
        }
        if new_len < len {
            self.resize(new_len);
        }
    }

    /// Bytes that the allocator was asked for.
    pub fn allocated(&self) -> usize {
        rounded(self.len())
    }

    fn write_len(&mut self, len: usize) {
        // SAFETY: every block has these four bytes; `&mut self` makes it the only access. `layout` has refused a length
        // that does not fit.
        unsafe { self.block.as_ptr().cast::<u32>().write_unaligned((len as u32).to_le()) };
    }
}

/// How a block of this length is allocated.
fn layout(len: usize) -> Layout {
    assert!((PREFIX..=MAX).contains(&len), "a block of {len} bytes");
    Layout::from_size_align(rounded(len), 1).expect("a block is shorter than isize::MAX")
}

impl Drop for Thin {
    fn drop(&mut self) {
        // SAFETY: the block was allocated with the layout of its length, and nobody uses it any more.
        unsafe { dealloc(self.block.as_ptr(), layout(self.len())) };
    }
}

impl Clone for Thin {
    fn clone(&self) -> Self {
        let mut copy = Thin::zeroed(self.len());
        copy.body_mut().copy_from_slice(&self.bytes()[PREFIX..]);
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_pointer_and_an_option_of_it_are_eight_bytes() {
        assert_eq!((size_of::<Thin>(), size_of::<Option<Thin>>()), (8, 8));
    }

    #[test]
    fn a_block_keeps_its_length_and_its_size_class() {
        let mut thin = Thin::zeroed(9);
        assert_eq!((thin.bytes(), thin.allocated()), (&[9, 0, 0, 0, 0, 0, 0, 0, 0][..], 16));
        thin.body_mut().fill(7);
        thin.resize(300);
        assert_eq!((thin.len(), thin.allocated()), (300, 320));
        assert!(thin.bytes()[PREFIX..9].iter().all(|b| *b == 7) && thin.bytes()[9..].iter().all(|b| *b == 0));
        thin.resize(PREFIX);
        assert_eq!(thin.bytes(), [4, 0, 0, 0]);
    }

    #[test]
    #[should_panic = "lies within the block"]
    fn the_length_is_not_spliced() {
        Thin::zeroed(8).splice(3, 2, &[]);
    }

    proptest! {
        #[test]
        fn a_splice_is_one_of_a_vector(
            steps in proptest::collection::vec(
                (any::<usize>(), any::<usize>(), proptest::collection::vec(any::<u8>(), 0..60)), 0..60),
        ) {
            let (mut thin, mut model) = (Thin::zeroed(PREFIX), Vec::new());
            for (at, removed, bytes) in steps {
                let at = at % (model.len() + 1);
                let removed = removed % (model.len() - at + 1);
                let (one, two) = bytes.split_at(bytes.len() / 3);
                thin.splice(PREFIX + at, removed, &[one, two]);
                model.splice(at..at + removed, bytes);
                prop_assert_eq!(thin.len(), PREFIX + model.len());
                prop_assert_eq!(&thin.bytes()[PREFIX..], &model[..]);
                let copy = thin.clone();
                prop_assert_eq!(copy.bytes(), thin.bytes());
            }
        }
    }
}
