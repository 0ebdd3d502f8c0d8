//! A member of a large set: its bytes behind one thin pointer.
//!
//! ```text
//!  0        1                            0      1                9
//!  +--------+------------------+         +------+----------------+------------------+
//!  | length | bytes            |    or   |  ff  | length, u64 LE | bytes            |
//!  +--------+------------------+         +------+----------------+------------------+
//!   0..=254                                      255 and more
//! ```
//!
//! A member of 15 bytes is thus a block of 16. With its slot in the [hash table](crate::hashtable), 10.3 to 11.4 bytes,
//! it takes less than 28.
//!
//! Asserted: the length in a block is written once, when the block is made, and is that of the bytes behind it.

use crate::entry::rounded;
use crate::hashtable::Ref;
use crate::tagged_pointer::{TaggedPointer, address_to_bits, bits_to_address, prefetch};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

/// Marks a length that follows as eight bytes.
const LONG: u8 = 0xff;

/// An owned byte string that does not change.
pub struct Member {
    block: NonNull<u8>,
}

// SAFETY: a member owns its block alone, and the block is plain bytes.
unsafe impl Send for Member {}
// SAFETY: as above; nothing writes after `new`.
unsafe impl Sync for Member {}

impl Member {
    /// Makes a member of these bytes, which are copied.
    pub fn new(bytes: &[u8]) -> Self {
        let layout = layout(bytes.len());
        // SAFETY: the size is at least that of the length byte.
        let block = unsafe { alloc(layout) };
        let Some(block) = NonNull::new(block) else { handle_alloc_error(layout) };
        let head = head_of(bytes.len());
        // SAFETY: the layout has room for the head and the bytes behind it; the block is new, so nothing overlaps.
        unsafe {
            match u8::try_from(bytes.len()) {
                Ok(len) if len < LONG => block.as_ptr().write(len),
                _ => {
                    block.as_ptr().write(LONG);
                    block.as_ptr().add(1).cast::<u64>().write_unaligned(bytes.len() as u64);
                }
            }
            block.as_ptr().add(head).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        Member { block }
    }

    /// Returns the member's bytes.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        let len = self.len();
        // SAFETY: `new` has written `len` bytes behind the head, and nobody writes them again.
        unsafe { std::slice::from_raw_parts(self.block.as_ptr().add(head_of(len)), len) }
    }

    /// Returns the bytes that the allocator was asked for.
    pub fn allocated(&self) -> usize {
        layout(self.len()).size()
    }

    #[inline]
    fn len(&self) -> usize {
        // SAFETY: every block begins with this byte, and with eight more when it says so.
        unsafe {
            match self.block.as_ptr().read() {
                LONG => self.block.as_ptr().add(1).cast::<u64>().read_unaligned() as usize,
                len => len.into(),
            }
        }
    }
}

/// Returns the bytes before the member's own.
#[inline]
fn head_of(len: usize) -> usize {
    if len < LONG.into() { 1 } else { 9 }
}

fn layout(len: usize) -> Layout {
    Layout::from_size_align(rounded(head_of(len) + len), 1).expect("a member is shorter than isize::MAX")
}

impl Drop for Member {
    fn drop(&mut self) {
        // SAFETY: the block was allocated with the layout of its length, and nobody uses it any more.
        unsafe { dealloc(self.block.as_ptr(), layout(self.len())) };
    }
}

// SAFETY: the bits are the address of a live allocation, which `address_to_bits` checks; `from_bits` takes up the block
// that `into_bits` gave up. Copies used through `&Member` only read.
unsafe impl TaggedPointer for Member {
    #[inline]
    fn into_bits(self) -> u64 {
        address_to_bits(ManuallyDrop::new(self).block.as_ptr())
    }

    #[inline]
    unsafe fn from_bits(bits: u64) -> Self {
        // SAFETY: the caller's promise: the bits came from `into_bits`, which are never null.
        Member { block: unsafe { NonNull::new_unchecked(bits_to_address(bits)) } }
    }

    #[inline]
    fn prefetch(bits: u64) {
        prefetch(bits_to_address::<u8>(bits));
    }
}

/// A part of a member in a table lives as long as the table is borrowed.
impl<'a> Ref<'a, Member> {
    /// Returns the member's bytes, for as long as the table is borrowed.
    #[inline]
    pub fn bytes(&self) -> &'a [u8] {
        let member: &Member = self;
        let bytes: *const [u8] = member.bytes();
        // SAFETY: the bytes lie in the member's block, which the table owns and neither frees nor changes while it is
        // borrowed for 'a; the handle in this `Ref` is only a copy of the pointer to it.
        unsafe { &*bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hashtable::HashTable;
    use crate::member_hash::member_hash as hash;

    #[test]
    fn members_of_any_length_keep_their_bytes() {
        for (len, allocated) in [(0, 8), (7, 8), (15, 16), (16, 32), (254, 256), (255, 320), (100_000, 114_688)] {
            let bytes: Vec<u8> = (0..len).map(|n| n as u8).collect();
            let member = Member::new(&bytes);
            assert_eq!((member.bytes(), member.allocated()), (&bytes[..], allocated), "{len}");
        }
    }

    #[test]
    fn a_table_owns_its_members() {
        let mut table = HashTable::new();
        for n in 0..1000u32 {
            let name = n.to_string();
            table.insert_unique(hash(name.as_bytes()), Member::new(name.as_bytes()), |m: &Member| hash(m.bytes()));
        }
        let bytes: Vec<&[u8]> = table.iter().map(|member| member.bytes()).collect();
        assert_eq!(bytes.len(), 1000);
        assert!(bytes.contains(&&b"999"[..]));
        let taken = table.remove(hash(b"7"), |m| m.bytes() == b"7", |m| hash(m.bytes()));
        assert_eq!(taken.map(|member| member.bytes().to_vec()), Some(b"7".to_vec()));
    }
}
