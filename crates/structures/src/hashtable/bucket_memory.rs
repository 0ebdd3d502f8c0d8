//! The memory of an array of buckets: zeroed, aligned to cache lines, and given back piece by piece.
//!
//! Small arrays come from the allocator. From [`HUGE_PAGE`] bytes on an array is an anonymous mapping of its own: the
//! kernel hands out its pages zeroed when they are first touched, so making a big array costs nothing at that moment;
//! it can use huge pages; and the part that a resize has left behind can be returned ([`BucketArray::release_before`]),
//! so that the two arrays of a resize hold little more than one together.

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use memmap2::{MmapMut, UncheckedAdvice};

use super::bucket::{Bucket, LINE};
use super::positions::index;

/// The size of a huge page. Arrays of this many bytes and more are mapped, ask for huge pages, and are released in
/// pieces that end at multiples of it, so that the kernel need not split one.
const HUGE_PAGE: usize = 2 << 20;

/// Bytes of the smallest page.
const PAGE: usize = 4 << 10;

/// The bucket of an array without buckets, so that a lookup needs no special case.
static NO_BUCKET: Bucket = Bucket::EMPTY;

pub(super) struct BucketArray {
    /// `len` buckets; or `NO_BUCKET`, not to be written to, if `len` is 0.
    start: NonNull<Bucket>,
    len: usize,
    mapping: Option<Mapping>,
}

struct Mapping {
    map: MmapMut,
    /// Bytes at the beginning that were given back.
    released: usize,
}

impl BucketArray {
    pub(super) const fn empty() -> Self {
        BucketArray { start: NonNull::from_ref(&NO_BUCKET), len: 0, mapping: None }
    }

    /// Makes `len` empty buckets.
    pub(super) fn new(len: usize) -> Self {
        if len == 0 {
            return Self::empty();
        }
        let layout = Self::layout(len);
        if layout.size() >= HUGE_PAGE
            && let Some(array) = Self::mapped(len, layout.size())
        {
            return array;
        }
        // SAFETY: the layout has a size, since `len` is not 0.
        let start = unsafe { alloc_zeroed(layout) };
        match NonNull::new(start.cast()) {
            Some(start) => BucketArray { start, len, mapping: None },
            None => handle_alloc_error(layout),
        }
    }

    /// Maps the memory; `None` if the kernel refuses, which it can do for lack of mappings when there is memory.
    fn mapped(len: usize, bytes: usize) -> Option<Self> {
        let mut map = MmapMut::map_anon(bytes).ok()?;
        // A mapping begins at a page, which is aligned enough for a line.
        let start = NonNull::from(&mut map[..]).cast();
        Some(BucketArray { start, len, mapping: Some(Mapping { map, released: 0 }) })
    }

    fn layout(len: usize) -> Layout {
        Layout::array::<Bucket>(len).expect("an array of buckets fits in the address space")
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the address of the first bucket.
    #[inline]
    pub(super) fn address(&self) -> usize {
        self.start.as_ptr().addr()
    }

    /// Returns the bucket that this hash belongs to, or an empty one if the array has none.
    #[inline]
    pub(super) fn home(&self, hash: u64) -> &Bucket {
        let i = index(hash, self.len);
        debug_assert!(i < self.len.max(1));
        // SAFETY: `index` is below `len`, or 0 if that is 0; `start` points to `max(len, 1)` buckets, which live as
        // long as the array. Memory from the allocator and from the kernel is zeroed, and zeroes are a bucket.
        unsafe { self.start.add(i).as_ref() }
    }

    #[inline]
    pub(super) fn home_mut(&mut self, hash: u64) -> &mut Bucket {
        self.at_mut(index(hash, self.len))
    }

    #[inline]
    pub(super) fn at(&self, i: usize) -> &Bucket {
        assert!(i < self.len, "bucket {i} of {}", self.len);
        // SAFETY: `i` is below `len`, and so many buckets lie at `start`.
        unsafe { self.start.add(i).as_ref() }
    }

    #[inline]
    pub(super) fn get(&self, i: usize) -> Option<&Bucket> {
        (i < self.len).then(|| self.at(i))
    }

    #[inline]
    pub(super) fn at_mut(&mut self, i: usize) -> &mut Bucket {
        assert!(i < self.len, "bucket {i} of {}", self.len);
        // SAFETY: `i` is below `len`, so this is not the shared `NO_BUCKET` but memory that the array owns, borrowed
        // exclusively.
        unsafe { self.start.add(i).as_mut() }
    }

    /// Whether nothing of the array before this bucket is in its page, if pages are as small as they can be.
    #[inline]
    pub(super) fn begins_page(&self, i: usize) -> bool {
        (self.address() + i * LINE).is_multiple_of(PAGE)
    }

    /// Requests huge pages, which save lookups in large tables a miss in the TLB. To be called when all is in use, not
    /// at first: the kernel then collects them in the background. A first touch that has to find and zero a huge page
    /// can take milliseconds on a virtual machine.
    pub(super) fn settle(&mut self) {
        #[cfg(target_os = "linux")]
        if let Some(mapping) = &self.mapping {
            // A hint: a kernel without huge pages refuses it, and all works without.
            let _ = mapping.map.advise(memmap2::Advice::HugePage);
        }
    }

    /// Promises that the first `buckets` buckets are empty and unchained, and will not be written to again; returns
    /// their memory to the system where that is possible.
    pub(super) fn release_before(&mut self, buckets: usize) {
        let Some(mapping) = &mut self.mapping else {
            return;
        };
        let start = self.start.addr().get();
        let end = (start + buckets.min(self.len) * LINE) & !(HUGE_PAGE - 1);
        let bytes = end.saturating_sub(start + mapping.released);
        if bytes == 0 {
            return;
        }
        // SAFETY: the range lies in the mapping and begins at a page. It reads as zeroes afterwards, which are valid
        // (and, as before, empty) buckets; no reference to one exists, since `self` is borrowed exclusively.
        let advice = unsafe { mapping.map.unchecked_advise_range(UncheckedAdvice::DontNeed, mapping.released, bytes) };
        if advice.is_ok() {
            mapping.released += bytes;
        }
    }

    /// Returns the bytes in use if no bucket from `touched` on was ever used: mapped memory counts from its first use
    /// until it is given back, other memory always.
    pub(super) fn memory_usage(&self, touched: usize) -> usize {
        match &self.mapping {
            Some(mapping) => touched.min(self.len) * LINE - mapping.released,
            None => self.len * LINE,
        }
    }
}

impl Drop for BucketArray {
    fn drop(&mut self) {
        if self.len > 0 && self.mapping.is_none() {
            // SAFETY: an array with buckets and without a mapping came from `alloc_zeroed` with this layout.
            unsafe { dealloc(self.start.as_ptr().cast(), Self::layout(self.len)) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_size_is_zeroed_aligned_and_writable() {
        for len in [1, 2, 3, 1000, HUGE_PAGE / LINE - 1, HUGE_PAGE / LINE, 3 * HUGE_PAGE / LINE + 5] {
            let mut array = BucketArray::new(len);
            assert_eq!(array.len(), len);
            assert_eq!(array.mapping.is_some(), len * LINE >= HUGE_PAGE);
            assert_eq!(array.memory_usage(len), len * LINE);
            for i in [0, len / 2, len - 1] {
                assert_eq!(std::ptr::from_ref(array.at(i)).addr() % LINE, 0);
                assert_eq!(array.at(i).chain_len(), 0);
                array.at_mut(i).insert(1, 1 + i as u64);
                assert_eq!(array.at(i).peek(), Some(1 + i as u64));
                array.at_mut(i).pop();
            }
        }
    }

    #[test]
    fn released_memory_is_given_back_and_reads_as_empty() {
        let len = 4 * HUGE_PAGE / LINE;
        let mut array = BucketArray::new(len);
        for i in 0..len {
            array.at_mut(i).insert(1, 1);
        }
        let rest = |array: &BucketArray, released: usize| array.memory_usage(len) - (len - released) * LINE;
        assert_eq!(rest(&array, 0), 0);
        for released in [len / 4, len / 2, len] {
            array.release_before(released);
            assert!(rest(&array, released) < HUGE_PAGE);
            let first_kept = (released..len).next();
            assert_eq!(array.at(0).peek(), None);
            assert!(first_kept.is_none_or(|i| array.at(i).peek() == Some(1)));
        }
    }

    #[test]
    fn released_memory_ends_where_the_promise_ends() {
        let len = 2 * HUGE_PAGE / LINE;
        let mut array = BucketArray::new(len);
        array.settle();
        for i in 0..len {
            array.at_mut(i).insert(1, 1);
        }
        for released in (0..len).step_by(999) {
            array.release_before(released);
            assert!(array.memory_usage(len) < (len - released) * LINE + HUGE_PAGE);
            assert_eq!(array.at(released).peek(), Some(1));
        }
    }

    #[test]
    fn an_empty_array_finds_nothing() {
        assert_eq!(BucketArray::empty().home(u64::MAX).chain_len(), 0);
    }
}
