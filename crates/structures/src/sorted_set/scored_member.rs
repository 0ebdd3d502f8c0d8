//! Members of a big sorted set and the memory that they lie in.
//!
//! A member is a block of bytes, reached through a thin pointer of 48 bits:
//!
//! ```text
//!  0         8         9 (or 17)
//!  +---------+---------+----------------+
//!  | score   | length  | name           |     length: one byte, or 255 and then eight more
//!  +---------+---------+----------------+
//! ```
//!
//! Blocks up to [`CELL_MAX`] bytes are cells of [`MemberBlocks`]: pages of 2 KiB, each cut into cells of one size, a
//! multiple of 8. The allocator's own classes are multiples of 16, so that a name of 15 bytes would weigh 32 bytes
//! instead of 24; and a set of a million members goes away page by page. A page lies at a multiple of its size, so a
//! cell finds its page by its address:
//!
//! ```text
//!  +------------------------------------+------+------+------+-- --+------+
//!  | prev | next | index | cell | used  | cell | free | cell |     | fresh|     free: the offset of the next free one
//!  |      |      |       | free | fresh |      |      |      |     |      |     fresh: never used, like all after it
//!  +------------------------------------+------+------+------+-- --+------+
//! ```
//!
//! Pages with room are linked, a list for each size of cell. A page without cells in use is freed at once. Longer
//! blocks come from the allocator one by one.
//!
//! # Invariants (asserted by `check` in the tests)
//!
//! - A page is in the list of its cell size exactly while it has room.
//! - `pages[page.index]` is the page.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::{self, NonNull};

use crate::entry::rounded;
use crate::tagged_pointer::{self, TaggedPointer};

/// Blocks up to so many bytes are cells of pages.
const CELL_MAX: usize = 128;
/// Bytes of a page, and the alignment of its address.
const PAGE: usize = 2048;
/// Sizes of cells: multiples of 8 up to [`CELL_MAX`], and 0, which is not used.
const CLASSES: usize = CELL_MAX / 8 + 1;
/// Place of a name's length in its block.
const LENGTH_AT: usize = 8;
/// Names from this length on have it in eight bytes.
const LONG: usize = 255;

/// A pointer to a member's block.
///
/// Copies are free to be made. The block lives until [`MemberBlocks::free`] or the end of the [`MemberBlocks`]; the
/// callers of both promise that no copy is used afterwards, and that makes the other methods safe.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct ScoredMember {
    bits: u64,
}

impl ScoredMember {
    /// Returns the pointer, which is below 2^48.
    #[inline]
    pub(super) fn bits(self) -> u64 {
        self.bits
    }

    /// # Safety
    /// `bits` are those of a member that is not freed.
    #[inline]
    pub(super) unsafe fn from_own_bits(bits: u64) -> Self {
        ScoredMember { bits }
    }

    #[inline]
    fn block(self) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.bits as usize)
    }

    #[inline]
    pub(super) fn name(&self) -> &[u8] {
        // SAFETY: `self` is borrowed, hence not freed, as long as the result lives.
        unsafe { self.name_unbounded() }
    }

    /// # Safety
    /// The block is not freed as long as the result lives.
    #[inline]
    pub(super) unsafe fn name_unbounded<'a>(self) -> &'a [u8] {
        let block = self.block();
        // SAFETY: the block has a score and a length, then as many bytes as that says; `Blocks::add` wrote them, and
        // the caller keeps the block.
        unsafe {
            let short = usize::from(block.add(LENGTH_AT).read());
            if short < LONG {
                return std::slice::from_raw_parts(block.add(LENGTH_AT + 1), short);
            }
            let len = block.add(LENGTH_AT + 1).cast::<u64>().read_unaligned() as usize;
            std::slice::from_raw_parts(block.add(LENGTH_AT + 9), len)
        }
    }

    #[inline]
    pub(super) fn score(self) -> f64 {
        // SAFETY: a block begins with its score, and is aligned to 8 bytes.
        unsafe { self.block().cast::<f64>().read() }
    }

    /// # Safety
    /// No other thread uses the block meanwhile.
    pub(super) unsafe fn set_score(self, score: f64) {
        // SAFETY: as in `score`; the caller has the block for itself.
        unsafe { self.block().cast::<f64>().write(score) }
    }

    /// Prefetches the block.
    #[inline]
    pub(super) fn prefetch_block(self) {
        tagged_pointer::prefetch(self.block());
    }

    fn block_size(self) -> usize {
        block_size(self.name().len())
    }
}

// SAFETY: the bits are an address of user space, hence not zero and below 2^48. A member owns nothing, so that nothing
// is given up or taken over with the bits, and copies read only. The block is plain bytes, to be read on any thread.
unsafe impl TaggedPointer for ScoredMember {
    #[inline]
    fn into_bits(self) -> u64 {
        self.bits
    }

    #[inline]
    unsafe fn from_bits(bits: u64) -> Self {
        ScoredMember { bits }
    }

    #[inline]
    fn prefetch(bits: u64) {
        ScoredMember { bits }.prefetch_block();
    }
}

/// Returns the bytes of the block of a name.
fn block_size(name: usize) -> usize {
    let length = if name < LONG { 1 } else { 9 };
    (LENGTH_AT + length + name).next_multiple_of(8)
}

/// The beginning of a page.
#[repr(C)]
struct Page {
    /// The neighbours in the list of pages with room.
    prev: *mut Page,
    next: *mut Page,
    /// In `Blocks::pages`.
    index: u32,
    /// Bytes of a cell.
    cell: u16,
    /// Cells in use.
    used: u16,
    /// Offset of the first free cell, which holds the offset of the next; 0: none.
    free: u16,
    /// Offset of the first cell that was never used.
    fresh: u16,
}

const _: () = assert!(size_of::<Page>().is_multiple_of(8) && PAGE <= u16::MAX as usize);

impl Page {
    fn has_room(&self) -> bool {
        self.free != 0 || usize::from(self.fresh) + usize::from(self.cell) <= PAGE
    }
}

/// The memory of a set's members.
pub(super) struct MemberBlocks {
    /// By cell size divided by 8: the first page with room, or null.
    roomy: [*mut Page; CLASSES],
    pages: Vec<NonNull<Page>>,
    /// Bytes of blocks that are not in pages.
    long_bytes: usize,
}

// SAFETY: the blocks and pages belong to this value alone, are reached through it and the members that it gave out, and
// hold plain bytes.
unsafe impl Send for MemberBlocks {}
// SAFETY: no method of `&Blocks` or `ScoredMember` writes, but for `set_score`, whose caller excludes others.
unsafe impl Sync for MemberBlocks {}

impl MemberBlocks {
    pub(super) fn new() -> Self {
        MemberBlocks { roomy: [ptr::null_mut(); CLASSES], pages: Vec::new(), long_bytes: 0 }
    }

    /// Makes a new member.
    pub(super) fn add(&mut self, name: &[u8], score: f64) -> ScoredMember {
        let size = block_size(name.len());
        let block = if size <= CELL_MAX { self.take_cell(size) } else { self.allocate_long(size) };
        // SAFETY: the block is new, aligned to 8, and has `size` bytes: a score, the length and the name.
        unsafe {
            block.cast::<f64>().write(score);
            let at = if name.len() < LONG {
                block.add(LENGTH_AT).write(name.len() as u8);
                LENGTH_AT + 1
            } else {
                block.add(LENGTH_AT).write(LONG as u8);
                block.add(LENGTH_AT + 1).cast::<u64>().write_unaligned(name.len() as u64);
                LENGTH_AT + 9
            };
            block.add(at).copy_from_nonoverlapping(name.as_ptr(), name.len());
        }
        ScoredMember { bits: block.expose_provenance() as u64 }
    }

    /// Frees a member's block.
    ///
    /// # Safety
    /// The member is of these blocks, and neither a copy of it nor a name borrowed from one is used from now on.
    pub(super) unsafe fn free(&mut self, member: ScoredMember) {
        let size = member.block_size();
        if size > CELL_MAX {
            self.long_bytes -= rounded(size);
            // SAFETY: blocks of this size were allocated by `allocate_long` with this layout.
            return unsafe { dealloc(member.block(), long_layout(size)) };
        }
        let address = member.bits as usize;
        let page: *mut Page = ptr::with_exposed_provenance_mut(address & !(PAGE - 1));
        // SAFETY: a block of this size is a cell, whose page lies at the multiple of PAGE below it and lives while it
        // has cells in use; `&mut self` makes this the only access. The cell is 8 bytes at least.
        unsafe {
            let had_room = (*page).has_room();
            member.block().cast::<u16>().write((*page).free);
            (*page).free = (address & (PAGE - 1)) as u16;
            (*page).used -= 1;
            match ((*page).used, had_room) {
                (0, true) => {
                    self.unlink(page);
                    self.free_page(page);
                }
                // Its only cell was in use.
                (0, false) => self.free_page(page),
                (_, false) => self.link(page),
                (_, true) => {}
            }
        }
    }

    /// Whether some members have to be freed one by one; others go with their pages.
    pub(super) fn has_long(&self) -> bool {
        self.long_bytes > 0
    }

    /// Frees up to `max` pages; returns whether none is left.
    ///
    /// # Safety
    /// No member in a page is used from now on.
    pub(super) unsafe fn drop_pages(&mut self, max: usize) -> bool {
        self.roomy = [ptr::null_mut(); CLASSES];
        let keep = self.pages.len().saturating_sub(max);
        for page in self.pages.drain(keep..) {
            // SAFETY: the page was allocated by `new_page` with this layout; it and its cells are not used any more.
            unsafe { dealloc(page.as_ptr().cast(), PAGE_LAYOUT) };
        }
        self.pages.is_empty()
    }

    /// Returns the bytes allocated for blocks.
    pub(super) fn allocated(&self) -> usize {
        self.pages.len() * PAGE + self.pages.capacity() * size_of::<NonNull<Page>>() + self.long_bytes
    }

    fn take_cell(&mut self, size: usize) -> *mut u8 {
        let mut page = self.roomy[size / 8];
        if page.is_null() {
            page = self.new_page(size);
        }
        // SAFETY: a page in the list lives and has room: a free cell, which holds the offset of the next one, or a
        // fresh one that ends within the page. `&mut self` makes this the only access.
        unsafe {
            let at = match (*page).free {
                0 => {
                    let at = (*page).fresh;
                    (*page).fresh += (*page).cell;
                    at
                }
                at => {
                    (*page).free = page.cast::<u8>().add(usize::from(at)).cast::<u16>().read();
                    at
                }
            };
            (*page).used += 1;
            if !(*page).has_room() {
                self.unlink(page);
            }
            page.cast::<u8>().add(usize::from(at))
        }
    }

    fn new_page(&mut self, cell: usize) -> *mut Page {
        // SAFETY: the layout's size is not 0.
        let Some(page) = NonNull::new(unsafe { alloc(PAGE_LAYOUT) }.cast::<Page>()) else {
            handle_alloc_error(PAGE_LAYOUT)
        };
        let head = Page {
            prev: ptr::null_mut(),
            next: ptr::null_mut(),
            index: u32::try_from(self.pages.len()).expect("fewer than 2^32 pages"),
            cell: cell as u16,
            used: 0,
            free: 0,
            fresh: size_of::<Page>() as u16,
        };
        page.as_ptr().expose_provenance();
        // SAFETY: the page is new and its head fits into it; nothing else knows it.
        unsafe { page.write(head) };
        self.pages.push(page);
        // SAFETY: the page is in no list yet.
        unsafe { self.link(page.as_ptr()) };
        page.as_ptr()
    }

    /// # Safety
    /// The page is one of `pages`, in no list, and has no cell in use.
    unsafe fn free_page(&mut self, page: *mut Page) {
        // SAFETY: the page lives until the end of this function, and so do the others.
        unsafe {
            let index = (*page).index as usize;
            self.pages.swap_remove(index);
            if let Some(moved) = self.pages.get(index) {
                (*moved.as_ptr()).index = index as u32;
            }
            dealloc(page.cast(), PAGE_LAYOUT);
        }
    }

    /// # Safety
    /// The page is one of `pages` and in no list.
    unsafe fn link(&mut self, page: *mut Page) {
        // SAFETY: pages in the list are of `pages`, which live.
        unsafe {
            let first = &mut self.roomy[usize::from((*page).cell) / 8];
            (*page).prev = ptr::null_mut();
            (*page).next = *first;
            if !first.is_null() {
                (**first).prev = page;
            }
            *first = page;
        }
    }

    /// # Safety
    /// The page is one of `pages` and in the list of its cell size.
    unsafe fn unlink(&mut self, page: *mut Page) {
        // SAFETY: pages in the list are of `pages`, which live.
        unsafe {
            let (prev, next) = ((*page).prev, (*page).next);
            if !next.is_null() {
                (*next).prev = prev;
            }
            if prev.is_null() {
                self.roomy[usize::from((*page).cell) / 8] = next;
            } else {
                (*prev).next = next;
            }
        }
    }

    fn allocate_long(&mut self, size: usize) -> *mut u8 {
        let layout = long_layout(size);
        // SAFETY: the layout's size is not 0.
        let block = unsafe { alloc(layout) };
        if block.is_null() {
            handle_alloc_error(layout);
        }
        self.long_bytes += layout.size();
        block
    }
}

const PAGE_LAYOUT: Layout = match Layout::from_size_align(PAGE, PAGE) {
    Ok(layout) => layout,
    Err(_) => panic!("a page is a power of two"),
};

fn long_layout(size: usize) -> Layout {
    Layout::from_size_align(rounded(size), 8).expect("a name is shorter than isize::MAX")
}

impl Drop for MemberBlocks {
    /// Pages only: longer blocks are freed by their owner, which knows them.
    fn drop(&mut self) {
        // SAFETY: the owner of the members goes with them.
        unsafe { self.drop_pages(usize::MAX) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Asserts the invariants.
    fn check(blocks: &MemberBlocks, members: &[(Vec<u8>, ScoredMember)]) {
        let mut roomy = 0;
        for (class, first) in blocks.roomy.iter().enumerate() {
            let (mut page, mut prev) = (*first, ptr::null_mut());
            while !page.is_null() {
                // SAFETY: pages in lists live.
                let head = unsafe { &*page };
                assert_eq!((usize::from(head.cell), head.prev), (class * 8, prev));
                assert!(head.has_room());
                roomy += 1;
                (prev, page) = (page, head.next);
            }
        }
        // SAFETY: pages in the vector live.
        let heads: Vec<&Page> = blocks.pages.iter().map(|page| unsafe { page.as_ref() }).collect();
        assert_eq!(heads.iter().filter(|head| head.has_room()).count(), roomy);
        assert!(heads.iter().enumerate().all(|(index, head)| head.index as usize == index && head.used > 0));
        let cells = members.iter().filter(|(name, _)| block_size(name.len()) <= CELL_MAX).count();
        assert_eq!(heads.iter().map(|head| usize::from(head.used)).sum::<usize>(), cells);
        assert_eq!(blocks.has_long(), cells < members.len());
        for (at, (name, member)) in members.iter().enumerate() {
            assert_eq!((member.name(), member.score()), (&name[..], at as f64));
        }
    }

    proptest! {
        #[test]
        fn blocks_keep_what_is_put_into_them(ops in proptest::collection::vec((any::<bool>(), 0usize..300, any::<u16>()), 0..400)) {
            let mut blocks = MemberBlocks::new();
            let mut members: Vec<(Vec<u8>, ScoredMember)> = Vec::new();
            for (add, len, pick) in ops {
                // Half of the names are short, so that pages fill.
                let len = if len < 150 { len / 16 } else { len - 120 };
                if add || members.is_empty() {
                    let name = vec![pick as u8; len];
                    let member = blocks.add(&name, members.len() as f64);
                    members.push((name, member));
                } else {
                    let at = usize::from(pick) % members.len();
                    let (_, member) = members.swap_remove(at);
                    // SAFETY: the member is out of the list, which held the only copy.
                    unsafe { blocks.free(member) };
                    if let Some((_, moved)) = members.get(at) {
                        // SAFETY: nothing borrows the block.
                        unsafe { moved.set_score(at as f64) };
                    }
                }
                check(&blocks, &members);
            }
            for (_, member) in members.drain(..) {
                // SAFETY: as above.
                unsafe { blocks.free(member) };
            }
            prop_assert!(blocks.pages.is_empty() && blocks.long_bytes == 0);
        }
    }

    #[test]
    fn a_short_name_costs_its_bytes_and_no_class_of_sixteen() {
        let mut blocks = MemberBlocks::new();
        (0..10_000).for_each(|n: u32| _ = blocks.add(format!("member:{n:08}").as_bytes(), 0.0));
        assert!(blocks.allocated() <= 10_000 * 25, "{}", blocks.allocated());
    }
}
