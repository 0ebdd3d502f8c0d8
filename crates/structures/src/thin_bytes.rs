//! A block of bytes behind one thin pointer, which knows its own length.
//!
//! Small collections are stored as one run of bytes in the form in which they go to disk. There are millions of them,
//! so the pointer is 8 bytes (a null one is the `None` of an `Option`), and the length is not beside it but in the
//! block:
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
//! A block that is changed at its beginning all the time ([`open_front`](ThinBytes::open_front),
//! [`close_front`](ThinBytes::close_front): the first node of a list) has room there, so that the rest need not move.
//! The upper 16 bits of the pointer, which addresses do not use, hold the size of that room:
//!
//! ```text
//!  base      start: the pointer's address             start + len        base + rounded(slack + len)
//!  +---------+--------------+---------------------------------+----------------+
//!  | slack:  | len, u32 LE  | the owner's bytes               | unused, unread |
//!  +---------+--------------+---------------------------------+----------------+
//! ```
//!
//! Asserted: a length is at least [`PREFIX`] and fits 32 bits.

use crate::entry::rounded;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, handle_alloc_error, realloc};
use std::ops::RangeInclusive;
use std::ptr::NonNull;

/// Bytes of the length at the beginning of a block.
pub const PREFIX: usize = 4;
/// The longest block, in bytes.
pub const MAX: usize = u32::MAX as usize;

/// Bits of an address.
const ADDRESS_BITS: u32 = 48;
const ADDRESS: usize = (1 << ADDRESS_BITS) - 1;
/// Lengths of blocks that may have room at the beginning: shorter ones are moved as fast, of longer ones there are few.
const SLACKED: RangeInclusive<usize> = 256..=48 << 10;
/// The slack fits beside the address.
const _: () = assert!(*SLACKED.end() / 16 * 17 / 4 * 5 < 1 << (usize::BITS - ADDRESS_BITS));

/// An owned block of bytes.
pub struct ThinBytes {
    /// The start, with the slack before it in the upper bits.
    tagged: NonNull<u8>,
}

// SAFETY: a `ThinBytes` owns its block alone, and the block is plain bytes.
unsafe impl Send for ThinBytes {}
// SAFETY: as above; no method of `&ThinBytes` writes.
unsafe impl Sync for ThinBytes {}

impl ThinBytes {
    /// Makes a block of `len` bytes: the length, then zeros.
    ///
    /// # Panics
    /// When `len` is not within [`PREFIX`] and [`MAX`].
    pub fn zeroed(len: usize) -> Self {
        let layout = layout(0, len);
        // SAFETY: `layout` has refused a size of 0.
        let block = unsafe { alloc_zeroed(layout) };
        let Some(block) = NonNull::new(block) else { handle_alloc_error(layout) };
        let mut thin = ThinBytes { tagged: tag(block, 0) };
        thin.write_len(len);
        thin
    }

    /// Makes a block of these bytes behind the length.
    ///
    /// # Panics
    /// When it would be longer than [`MAX`].
    pub fn of(body: &[u8]) -> Self {
        let len = PREFIX + body.len();
        let layout = layout(0, len);
        // SAFETY: `layout` has refused a size of 0.
        let block = unsafe { alloc(layout) };
        let Some(block) = NonNull::new(block) else { handle_alloc_error(layout) };
        let mut thin = ThinBytes { tagged: tag(block, 0) };
        thin.write_len(len);
        // SAFETY: the new block has room for the body behind the length, and is not where that lies.
        unsafe { block.as_ptr().add(PREFIX).copy_from_nonoverlapping(body.as_ptr(), body.len()) };
        thin
    }

    #[inline]
    fn start(&self) -> *mut u8 {
        self.tagged.as_ptr().map_addr(|bits| bits & ADDRESS)
    }

    /// Returns the bytes of the block before the start.
    #[inline]
    fn slack(&self) -> usize {
        self.tagged.as_ptr().addr() >> ADDRESS_BITS
    }

    /// Returns the bytes of the block, the length's own four included.
    #[inline]
    #[allow(clippy::len_without_is_empty, reason = "a block has its length at least")]
    pub fn len(&self) -> usize {
        // SAFETY: every block has these four bytes, initialized; they need not be aligned.
        let len = unsafe { self.start().cast::<u32>().read_unaligned() };
        u32::from_le(len) as usize
    }

    /// Returns all bytes, the length first.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: `len` bytes of the block are initialized, and nobody writes while `self` is borrowed.
        unsafe { std::slice::from_raw_parts(self.start(), self.len()) }
    }

    /// Returns the bytes after the length.
    #[inline]
    pub fn body_mut(&mut self) -> &mut [u8] {
        let len = self.len();
        // SAFETY: as in `bytes`; `&mut self` makes the slice the only access. The length is no part of it.
        unsafe { std::slice::from_raw_parts_mut(self.start().add(PREFIX), len - PREFIX) }
    }

    /// Cuts bytes off at the end, or adds zeros there.
    ///
    /// # Panics
    /// When `len` is not within [`PREFIX`] and [`MAX`].
    pub fn resize(&mut self, len: usize) {
        let old_len = self.len();
        if self.slack() > len {
            self.trim();
        }
        let slack = self.slack();
        let (old, new) = (layout(slack, old_len), layout(slack, len));
        if old != new {
            // SAFETY: the block begins `slack` bytes before its start and was allocated with the layout of both, which
            // `old` is; the new size is not 0. The bytes up to the shorter of both lengths move along.
            let block = unsafe { realloc(self.start().sub(slack), old, new.size()) };
            let Some(block) = NonNull::new(block) else { handle_alloc_error(new) };
            // SAFETY: the new block has more than `slack` bytes.
            self.tagged = tag(unsafe { block.add(slack) }, slack);
        }
        if len > old_len {
            // SAFETY: the block has room for `len` bytes from the start on by its layout.
            unsafe { self.start().add(old_len).write_bytes(0, len - old_len) };
        }
        self.write_len(len);
    }

    /// Makes a block as [`zeroed`](Self::zeroed) makes it, with room at the beginning: about `size` bytes altogether,
    /// if the slack fits beside the address.
    pub fn roomy(len: usize, size: usize) -> Self {
        let size = rounded(size.min(*SLACKED.end()).max(len));
        let (slack, layout) = (size - len, layout(size - len, len));
        // SAFETY: `layout` has refused a size of 0.
        let block = unsafe { alloc(layout) };
        let Some(block) = NonNull::new(block) else { handle_alloc_error(layout) };
        // SAFETY: the block has `slack + len` bytes, so the start lies in it, and `len` bytes behind it.
        let start = unsafe {
            let start = block.add(slack);
            start.write_bytes(0, len);
            start
        };
        let mut thin = ThinBytes { tagged: tag(start, slack) };
        thin.write_len(len);
        thin
    }

    /// Frees the room at the beginning, if the block is smaller without it.
    pub fn trim(&mut self) {
        if rounded(self.len()) < self.allocated() {
            *self = self.clone();
        }
    }

    /// Opens a gap of `added` bytes before `at`, for changes near the beginning that others like it will follow: the
    /// bytes before it are moved and not the ones behind. The gap holds anything.
    ///
    /// # Panics
    /// When `at` is not behind the length and in the block, or the block would be longer than [`MAX`].
    #[inline]
    pub fn open_front(&mut self, at: usize, added: usize) -> &mut [u8] {
        let len = self.len();
        assert!((PREFIX..=len).contains(&at), "the gap lies within the block");
        let new_len = len.checked_add(added).filter(|len| *len <= MAX).expect("a block has at most 4 GiB");
        if self.slack() < added && !self.make_room(new_len) {
            return self.open(at, added);
        }
        let slack = self.slack() - added;
        let start = self.start();
        // SAFETY: the slack had `added` bytes, so the new start lies in the block. The first `at` bytes are moved
        // there, and the gap behind them, which may have been slack, is initialized.
        let new_start = unsafe {
            let new_start = start.sub(added);
            new_start.copy_from(start, at);
            new_start.add(at).write_bytes(0, added);
            NonNull::new_unchecked(new_start)
        };
        self.tagged = tag(new_start, slack);
        self.write_len(new_len);
        &mut self.body_mut()[at - PREFIX..][..added]
    }

    /// Opens the gap by moving the bytes behind it.
    fn open(&mut self, at: usize, added: usize) -> &mut [u8] {
        let len = self.len();
        self.resize(len + added);
        let body = self.body_mut();
        body.copy_within(at - PREFIX..len - PREFIX, at + added - PREFIX);
        &mut body[at - PREFIX..][..added]
    }

    /// Removes `removed` bytes from `at` on; the bytes before them are moved if others like it will follow.
    ///
    /// # Panics
    /// When these bytes are not behind the length and in the block.
    pub fn close_front(&mut self, at: usize, removed: usize) {
        let len = self.len();
        let is_within = at >= PREFIX && at.checked_add(removed).is_some_and(|rest| rest <= len);
        assert!(is_within, "what is removed lies within the block");
        let new_len = len - removed;
        let slack = self.slack() + removed;
        // A block that shrinks may not hold much more than it needs.
        if !SLACKED.contains(&new_len) || slack > new_len / 4 {
            return self.splice(at, removed, &[]);
        }
        let start = self.start();
        // SAFETY: `at + removed` bytes from the start on are the block's, so the new start lies in it, and the first
        // `at` bytes are moved there.
        let new_start = unsafe {
            let new_start = start.add(removed);
            new_start.copy_from(start, at);
            NonNull::new_unchecked(new_start)
        };
        self.tagged = tag(new_start, slack);
        self.write_len(new_len);
    }

    /// Moves to a block with room at the beginning, for `new_len` bytes altogether and some more. False if so many may
    /// have none.
    #[inline(never)]
    fn make_room(&mut self, new_len: usize) -> bool {
        if !SLACKED.contains(&new_len) {
            return false;
        }
        let len = self.len();
        let size = rounded(new_len + new_len / 16);
        let (slack, layout) = (size - len, layout(size - len, len));
        // SAFETY: `layout` has refused a size of 0.
        let block = unsafe { alloc(layout) };
        let Some(block) = NonNull::new(block) else { handle_alloc_error(layout) };
        // SAFETY: the new block has `slack + len` bytes and is another one than the present.
        let start = unsafe {
            let start = block.add(slack);
            start.as_ptr().copy_from_nonoverlapping(self.start(), len);
            start
        };
        // The present one is dropped.
        *self = ThinBytes { tagged: tag(start, slack) };
        true
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

    /// Returns the bytes that the allocator was asked for.
    pub fn allocated(&self) -> usize {
        rounded(self.slack() + self.len())
    }

    fn write_len(&mut self, len: usize) {
        // SAFETY: every block has these four bytes; `&mut self` makes it the only access. `layout` has refused a length
        // that does not fit.
        unsafe { self.start().cast::<u32>().write_unaligned((len as u32).to_le()) };
    }
}

/// Returns a pointer to the start of a block that has so many bytes before it.
#[inline]
fn tag(start: NonNull<u8>, slack: usize) -> NonNull<u8> {
    start.map_addr(|address| address | slack << ADDRESS_BITS)
}

/// Returns how a block of this length is allocated.
fn layout(slack: usize, len: usize) -> Layout {
    assert!((PREFIX..=MAX).contains(&len), "a block of {len} bytes");
    Layout::from_size_align(rounded(slack + len), 1).expect("a block is shorter than isize::MAX")
}

impl Drop for ThinBytes {
    fn drop(&mut self) {
        let slack = self.slack();
        // SAFETY: the block begins `slack` bytes before its start and was allocated with the layout of both; nobody
        // uses it any more.
        unsafe { dealloc(self.start().sub(slack), layout(slack, self.len())) };
    }
}

impl Clone for ThinBytes {
    fn clone(&self) -> Self {
        ThinBytes::of(&self.bytes()[PREFIX..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_pointer_and_an_option_of_it_are_eight_bytes() {
        assert_eq!((size_of::<ThinBytes>(), size_of::<Option<ThinBytes>>()), (8, 8));
    }

    #[test]
    fn a_block_keeps_its_length_and_its_size_class() {
        let mut thin = ThinBytes::zeroed(9);
        assert_eq!((thin.bytes(), thin.allocated()), (&[9, 0, 0, 0, 0, 0, 0, 0, 0][..], 16));
        thin.body_mut().fill(7);
        thin.resize(300);
        assert_eq!((thin.len(), thin.allocated()), (300, 320));
        assert!(thin.bytes()[PREFIX..9].iter().all(|b| *b == 7) && thin.bytes()[9..].iter().all(|b| *b == 0));
        thin.resize(PREFIX);
        assert_eq!(thin.bytes(), [4, 0, 0, 0]);
    }

    #[test]
    fn bytes_that_grow_at_the_front_seldom_move() {
        let mut thin = ThinBytes::zeroed(PREFIX);
        let mut moves = 0;
        for _ in 0..240 {
            let end = thin.start().addr() + thin.len();
            thin.open_front(PREFIX, 34).fill(7);
            moves += usize::from(thin.start().addr() + thin.len() != end);
        }
        assert!(moves < 40, "{moves}");
        assert!(thin.bytes()[PREFIX..].iter().all(|b| *b == 7) && thin.allocated() < 10_000);
        thin.trim();
        assert_eq!((thin.len(), thin.allocated()), (PREFIX + 240 * 34, 8192));
    }

    #[test]
    fn bytes_made_with_room_do_not_move_until_they_are_full() {
        let mut thin = ThinBytes::roomy(PREFIX, 8000);
        let end = thin.start().addr() + thin.len();
        for n in 0..240 {
            thin.open_front(PREFIX, 34).fill(n as u8);
            assert_eq!((thin.start().addr() + thin.len(), thin.allocated()), (end, 8192));
        }
        thin.open_front(PREFIX, 34).fill(240);
        assert!(thin.bytes()[PREFIX..].chunks(34).eq((0..=240u8).rev().map(|n| [n; 34])));
        // There is no room for a tag of more slack.
        for (len, size) in [(PREFIX, usize::MAX), (90_000, 100), (PREFIX, 0)] {
            let thin = ThinBytes::roomy(len, size);
            assert_eq!(thin.len(), len);
            assert!(thin.slack() <= *SLACKED.end() && thin.bytes()[PREFIX..].iter().all(|byte| *byte == 0));
        }
    }

    #[test]
    #[should_panic = "at most 4 GiB"]
    fn no_gap_makes_a_block_too_long() {
        ThinBytes::roomy(8, 100).open_front(PREFIX, MAX);
    }

    #[test]
    #[should_panic = "lies within the block"]
    fn the_length_is_not_spliced() {
        ThinBytes::zeroed(8).splice(3, 2, &[]);
    }

    proptest! {
        #[test]
        fn a_splice_is_one_of_a_vector(
            steps in proptest::collection::vec(
                (any::<usize>(), any::<usize>(), proptest::collection::vec(any::<u8>(), 0..200), 0..4u8), 0..120),
            room in 0..9000usize,
        ) {
            let (mut thin, mut model) = (ThinBytes::roomy(PREFIX, room), Vec::new());
            for (at, removed, bytes, way) in steps {
                // Near the beginning, or anywhere.
                let at = at % if way > 1 { model.len().min(8) + 1 } else { model.len() + 1 };
                let removed = removed % (model.len() - at + 1).min(if way == 3 { 1 } else { usize::MAX });
                let (one, two) = bytes.split_at(bytes.len() / 3);
                if way > 0 {
                    thin.close_front(PREFIX + at, removed);
                    thin.open_front(PREFIX + at, bytes.len()).copy_from_slice(&bytes);
                } else {
                    thin.splice(PREFIX + at, removed, &[one, two]);
                }
                model.splice(at..at + removed, bytes);
                prop_assert_eq!(thin.len(), PREFIX + model.len());
                prop_assert_eq!(&thin.bytes()[PREFIX..], &model[..]);
                prop_assert!(thin.allocated() >= thin.slack() + thin.len());
                let mut copy = thin.clone();
                prop_assert_eq!((copy.bytes(), copy.slack()), (thin.bytes(), 0));
                copy.trim();
                prop_assert_eq!(copy.bytes(), thin.bytes());
            }
        }
    }
}
