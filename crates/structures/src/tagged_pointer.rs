//! The entries of a [`HashTable`](crate::hashtable::HashTable): owned thin pointers that fit in 48 bits.
//!
//! User-space addresses of x86-64 and AArch64 have their top 16 bits clear, so a table that keeps six bytes for each
//! entry fits nine entries and their tags in one cache line. An implementor is a pointer to an allocation that holds
//! everything else (header, key, value); it is not the allocation itself.

use std::rc::Rc;
use std::sync::Arc;

/// The number of bits that a handle may use.
pub const TAGGED_POINTER_BITS: u32 = 48;

/// An owned pointer-like value with a 48-bit representation.
///
/// # Safety
/// - `into_bits` returns a nonzero value below 2^48, and neither it nor `from_bits` panics.
/// - `from_bits(into_bits(x))` is `x`: the same ownership, given up once and taken up once.
/// - While one owner exists as bits, any number of copies made by `from_bits` may be alive and be used through `&Self`
///   (they are never dropped), also on several threads when `Self: Sync`. This rules out `Box`, which asserts that it
///   is the only pointer to its contents.
pub unsafe trait TaggedPointer: Sized {
    /// Gives up the value and returns what `from_bits` needs to restore it.
    fn into_bits(self) -> u64;

    /// Restores a value.
    ///
    /// # Safety
    /// `bits` came from `into_bits`, and the caller either takes over the ownership that those bits stand for, or never
    /// drops the result nor uses it mutably nor keeps it longer than that owner.
    unsafe fn from_bits(bits: u64) -> Self;

    /// Prefetches the memory that a comparison or a hash of the value with these bits reads first. There need not be
    /// such a value any more.
    #[inline]
    fn prefetch(_bits: u64) {}

    /// As [`prefetch`](Self::prefetch), but only the line in which the value begins, for a walk past many of them.
    #[inline]
    fn prefetch_head(bits: u64) {
        Self::prefetch(bits);
    }
}

/// Prefetches the cache line at `address`, which need not be valid.
#[inline(always)]
pub fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: SSE is part of the x86-64 baseline, and a prefetch of any address has no effect but on caches: it
        // never faults.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = address;
}

/// Prefetches the line in which `value` begins, to change it: other processors give up their copies.
#[inline(always)]
pub fn prefetch_to_change<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: requests a line of memory that is there; nothing is read or written, and processors without the
    // instruction take it for one that does nothing.
    unsafe {
        std::arch::asm!("prefetchw [{}]", in(reg) value, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// Returns the address as handle bits. Exposes the pointer's provenance, so that [`bits_to_address`] can restore it.
///
/// Aborts the process if the address does not fit, which no supported platform hands out.
#[inline]
pub fn address_to_bits<T>(address: *const T) -> u64 {
    let bits = address.expose_provenance() as u64;
    if bits == 0 || bits >> TAGGED_POINTER_BITS != 0 {
        unfit_address();
    }
    bits
}

/// Returns the inverse of [`address_to_bits`].
#[inline]
pub fn bits_to_address<T>(bits: u64) -> *mut T {
    std::ptr::with_exposed_provenance_mut(bits as usize)
}

#[cold]
fn unfit_address() -> ! {
    // Not a panic: a handle may not unwind while it is between two owners.
    eprintln!("an allocation lies outside of the 48-bit address space");
    std::process::abort()
}

// SAFETY: `into_raw` is an address of a live allocation, which `address_to_bits` has checked; `from_raw` takes up the
// reference that `into_raw` gave up. Copies used through `&Arc` only read the pointer, and counts are atomic.
unsafe impl<T> TaggedPointer for Arc<T> {
    #[inline]
    fn into_bits(self) -> u64 {
        address_to_bits(Arc::into_raw(self))
    }

    #[inline]
    unsafe fn from_bits(bits: u64) -> Self {
        // SAFETY: the caller's promise: the bits came from `into_raw`.
        unsafe { Arc::from_raw(bits_to_address(bits)) }
    }

    #[inline]
    fn prefetch(bits: u64) {
        prefetch(bits_to_address::<T>(bits));
    }
}

// SAFETY: as for `Arc`; `Rc` is neither `Send` nor `Sync`, so its counts stay on one thread.
unsafe impl<T> TaggedPointer for Rc<T> {
    #[inline]
    fn into_bits(self) -> u64 {
        address_to_bits(Rc::into_raw(self))
    }

    #[inline]
    unsafe fn from_bits(bits: u64) -> Self {
        // SAFETY: the caller's promise: the bits came from `into_raw`.
        unsafe { Rc::from_raw(bits_to_address(bits)) }
    }

    #[inline]
    fn prefetch(bits: u64) {
        prefetch(bits_to_address::<T>(bits));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_carry_exactly_one_ownership() {
        let shared = Arc::new(7u64);
        let bits = Arc::clone(&shared).into_bits();
        assert!(bits != 0 && bits >> TAGGED_POINTER_BITS == 0);
        assert_eq!(Arc::strong_count(&shared), 2);
        // SAFETY: the bits came from `into_bits` above and are taken up once.
        let back = unsafe { Arc::<u64>::from_bits(bits) };
        assert!(Arc::ptr_eq(&back, &shared));
        drop(back);
        assert_eq!(Arc::strong_count(&shared), 1);
    }
}
