//! One bucket: a cache line with nine tags, nine handles and a byte of metadata; and the chain of lines behind it.
//!
//! ```text
//!   byte 0         8 9        10      16      22            58      64
//!        +---------+-+--------+-------+-------+--   ...   --+-------+
//!        | tag 0-8   | meta   | slot 0| slot 1|             | slot 8|      a slot is 48 bits, little-endian
//!        +---------+-+--------+-------+-------+--   ...   --+-------+
//!                      |
//!                      bit 7: chained
//! ```
//! - A tag of 0 marks an empty slot; any other is taken from the entry's hash. All nine are compared at once.
//! - Slot `i` is read as the 8 bytes at `8 + 6 * i`, shifted right by 16: that never reaches outside of the line.
//! - A chained line gives its slot 8 (tag 0) to a pointer to the next line, which it owns.
//!
//! A chain has a shape in which inserting and removing touch no more than its first two lines and the removed slot:
//!
//! ```text
//!   home: 8 entries ---> 1 to 8 entries ---> 8 entries ---> ... ---> 9 entries
//! ```
//! Only the second line may have room. A new line goes in right behind the home line, and a removed entry is replaced
//! by one from the second line, which is unlinked when its last entry goes. A home line without a chain has 0 to 9
//! entries in any of its slots; two lines fold into one as soon as they hold nine entries together.
//!
//! Handles are plain bits here: the table on top knows their type and owns them. An all-zero line is an empty bucket.

use crate::tagged_pointer::{address_to_bits, bits_to_address};

/// Entries that one line holds when no other follows it.
pub(super) const SLOTS: usize = 9;
/// The size of a bucket in bytes.
pub(super) const LINE: usize = 64;

const ALL_SLOTS: u32 = (1 << SLOTS) - 1;
const META: usize = SLOTS;
const HANDLES: usize = META + 1;
const HANDLE_SIZE: usize = 6;
const LINK: usize = SLOTS - 1;
const CHAINED: u8 = 0x80;
const ONES: u64 = 0x0101_0101_0101_0101;

const _: () = {
    assert!(size_of::<Bucket>() == LINE && align_of::<Bucket>() == LINE);
    assert!(HANDLES + SLOTS * HANDLE_SIZE == LINE);
};

#[repr(C, align(64))]
pub(super) struct Bucket([u8; LINE]);

/// Place of an entry in a chain: the number of lines before its own, and its slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChainSlot {
    pub(super) depth: usize,
    pub(super) slot: usize,
}

/// An entry taken out of a chain.
pub(super) struct TakenEntry {
    pub(super) bits: u64,
    /// Whether the chain became one line shorter.
    pub(super) line_freed: bool,
}

/// A set of slots, iterated in ascending order.
#[derive(Clone, Copy)]
pub(super) struct Slots(u32);

impl Slots {
    pub(super) const NONE: Slots = Slots(0);

    #[inline]
    pub(super) fn count(self) -> usize {
        self.0.count_ones() as usize
    }
}

impl Iterator for Slots {
    type Item = usize;

    #[inline]
    fn next(&mut self) -> Option<usize> {
        if self.0 == 0 {
            return None;
        }
        let slot = self.0.trailing_zeros() as usize;
        self.0 &= self.0 - 1;
        Some(slot)
    }
}

/// Returns the tag of a hash: its low 8 bits, made nonzero.
#[inline]
pub(super) fn tag_of(hash: u64) -> u8 {
    (hash as u8).max(1)
}

/// One line.
impl Bucket {
    pub(super) const EMPTY: Bucket = Bucket([0; LINE]);

    /// Returns the slots that carry this tag.
    #[inline]
    pub(super) fn matches(&self, tag: u8) -> Slots {
        Slots(equal_bytes(&self.0, tag) & ALL_SLOTS)
    }

    /// Returns the slots that hold an entry.
    #[inline]
    pub(super) fn used(&self) -> Slots {
        Slots(!self.matches(0).0 & ALL_SLOTS)
    }

    /// Returns the first slot that could take an entry.
    #[inline]
    fn vacant(&self) -> Option<usize> {
        // The first zero byte is where the subtraction first borrows. Scalar, see `first_tags`.
        let tags = self.first_tags();
        let zeroes = tags.wrapping_sub(ONES) & !tags & (ONES << 7);
        if zeroes != 0 {
            return Some(zeroes.trailing_zeros() as usize / 8);
        }
        (self.0[LINK] == 0 && !self.is_chained()).then_some(LINK)
    }

    /// Returns all tags but the last. Changes of tags read and write these as one word: a resize fills a bucket with
    /// one entry after the other, and a load that is wider than the store before it would wait for that store to reach
    /// the cache.
    #[inline]
    fn first_tags(&self) -> u64 {
        u64::from_le_bytes(self.0[..LINK].try_into().expect("8 bytes"))
    }

    #[inline]
    fn set_tag(&mut self, slot: usize, tag: u8) {
        if slot < LINK {
            let shift = 8 * slot;
            let tags = self.first_tags() & !(0xff << shift) | u64::from(tag) << shift;
            self.0[..LINK].copy_from_slice(&tags.to_le_bytes());
        } else {
            self.0[slot] = tag;
        }
    }

    /// Returns the 48 bits in a slot: a handle's if the slot is in use.
    #[inline]
    pub(super) fn bits(&self, slot: usize) -> u64 {
        let start = HANDLES - 2 + HANDLE_SIZE * slot;
        let word: [u8; 8] = self.0[start..start + 8].try_into().expect("8 bytes");
        u64::from_le_bytes(word) >> 16
    }

    /// Replaces the handle in a slot that is in use.
    #[inline]
    pub(super) fn set_bits(&mut self, slot: usize, bits: u64) {
        assert!(self.0[..SLOTS][slot] != 0, "the slot is in use, hence not the link");
        self.write_slot(slot, bits);
    }

    #[inline]
    fn put(&mut self, slot: usize, tag: u8, bits: u64) {
        debug_assert!(tag != 0 && self.0[slot] == 0 && !(slot == LINK && self.is_chained()));
        self.set_tag(slot, tag);
        self.write_slot(slot, bits);
    }

    #[inline]
    fn take(&mut self, slot: usize) -> (u8, u64) {
        let tag = self.0[slot];
        debug_assert!(tag != 0, "taken from an empty slot");
        self.set_tag(slot, 0);
        (tag, self.bits(slot))
    }

    /// Returns the tag in a slot.
    #[inline]
    pub(super) fn tag(&self, slot: usize) -> u8 {
        self.0[..SLOTS][slot]
    }

    #[inline]
    fn write_slot(&mut self, slot: usize, bits: u64) {
        debug_assert!(bits != 0 && bits >> 48 == 0);
        let start = HANDLES + HANDLE_SIZE * slot;
        self.0[start..start + HANDLE_SIZE].copy_from_slice(&bits.to_le_bytes()[..HANDLE_SIZE]);
    }

    /// Whether it is as it was made.
    pub(super) fn is_unused(&self) -> bool {
        self.0 == [0; LINE]
    }

    /// Writes to a bucket that is [unused](Self::is_unused). Reads nothing.
    #[inline]
    pub(super) fn set_unused(&mut self) {
        self.0[META] = 0;
    }

    #[inline]
    fn is_chained(&self) -> bool {
        self.0[META] & CHAINED != 0
    }

    /// Returns the next line of the chain.
    #[inline]
    pub(super) fn child(&self) -> Option<&Bucket> {
        if !self.is_chained() {
            return None;
        }
        // SAFETY: only `set_child` sets the flag, together with the address of a leaked box in the link slot, and no
        // other method writes to that slot (`put` takes vacant slots, `set_bits` slots with a tag) before `take_child`
        // clears the flag. So the address is that of a live line that this one owns, borrowed as `self` is.
        Some(unsafe { &*bits_to_address::<Bucket>(self.bits(LINK)) })
    }

    #[inline]
    pub(super) fn child_mut(&mut self) -> Option<&mut Bucket> {
        if !self.is_chained() {
            return None;
        }
        // SAFETY: as in `child`; `self` is borrowed exclusively, and so is what it owns.
        Some(unsafe { &mut *bits_to_address::<Bucket>(self.bits(LINK)) })
    }

    fn set_child(&mut self, child: Box<Bucket>) {
        assert!(!self.is_chained() && self.0[LINK] == 0, "the link slot is free");
        let bits = address_to_bits(Box::into_raw(child));
        self.write_slot(LINK, bits);
        self.0[META] |= CHAINED;
    }

    fn take_child(&mut self) -> Option<Box<Bucket>> {
        if !self.is_chained() {
            return None;
        }
        self.0[META] &= !CHAINED;
        // SAFETY: the flag was set, so the link is the address of a leaked box (see `child`); the flag is clear now, so
        // nothing will reach that box a second time.
        Some(unsafe { Box::from_raw(bits_to_address(self.bits(LINK))) })
    }
}

/// A chain, seen from its home line.
impl Bucket {
    /// Returns the number of entries.
    pub(super) fn chain_len(&self) -> usize {
        self.lines().map(|line| line.used().count()).sum()
    }

    #[inline]
    pub(super) fn lines(&self) -> impl Iterator<Item = &Bucket> {
        std::iter::successors(Some(self), |line| line.child())
    }

    /// Returns the handles of all entries.
    #[inline]
    pub(super) fn chain_bits(&self) -> impl Iterator<Item = u64> {
        self.lines().flat_map(|line| line.used().map(|slot| line.bits(slot)))
    }

    /// Returns the bits at a place, if it exists and is in use.
    #[inline]
    pub(super) fn bits_at(&self, place: ChainSlot) -> Option<u64> {
        let mut line = self;
        for _ in 0..place.depth {
            line = line.child()?;
        }
        (line.tag(place.slot) != 0 && !(line.is_chained() && place.slot == LINK)).then(|| line.bits(place.slot))
    }

    #[inline]
    pub(super) fn line_mut(&mut self, depth: usize) -> &mut Bucket {
        let mut line = self;
        for _ in 0..depth {
            line = line.child_mut().expect("a place lies within its chain");
        }
        line
    }

    /// Adds an entry; returns whether that added a line.
    pub(super) fn insert(&mut self, tag: u8, bits: u64) -> bool {
        if let Some(slot) = self.vacant() {
            self.put(slot, tag, bits);
            return false;
        }
        let second = self.child_mut();
        if let Some(second) = second
            && let Some(slot) = second.vacant()
        {
            second.put(slot, tag, bits);
            return false;
        }
        let mut line = Box::new(Bucket::EMPTY);
        line.put(0, tag, bits);
        match self.take_child() {
            Some(second) => line.set_child(second),
            None => {
                let (moved_tag, moved_bits) = self.take(LINK);
                line.put(1, moved_tag, moved_bits);
            }
        }
        self.set_child(line);
        true
    }

    /// Takes out the entry at a place that holds one, and closes the gap.
    pub(super) fn remove(&mut self, place: ChainSlot) -> TakenEntry {
        let (_, bits) = self.line_mut(place.depth).take(place.slot);
        let mut taken = TakenEntry { bits, line_freed: false };
        let Some(second) = self.child_mut() else {
            return taken;
        };
        if place.depth != 1 {
            let spare = second.used().next().expect("a second line is never empty");
            let (spare_tag, spare_bits) = second.take(spare);
            self.line_mut(place.depth).put(place.slot, spare_tag, spare_bits);
        }
        taken.line_freed = self.fold();
        taken
    }

    /// Unlinks the second line when it is empty, or joins it with the home line when nine entries are left in the two.
    fn fold(&mut self) -> bool {
        let Some(second) = self.child_mut() else {
            return false;
        };
        let mut used = second.used();
        if second.is_chained() {
            if used.count() > 0 {
                return false;
            }
            let third = second.take_child();
            drop(self.take_child());
            self.set_child(third.expect("the second line was chained"));
        } else {
            if used.count() > 1 {
                return false;
            }
            let last = used.next().map(|slot| second.take(slot));
            drop(self.take_child());
            if let Some((tag, bits)) = last {
                self.put(LINK, tag, bits);
            }
        }
        true
    }

    /// Returns the handle that `pop` would take.
    #[inline]
    pub(super) fn peek(&self) -> Option<u64> {
        self.used().next().map(|slot| self.bits(slot))
    }

    /// Takes out all entries of the first line and lets the second one take its place. Returns them as a line without a
    /// chain, and whether the chain became shorter.
    #[inline]
    pub(super) fn take_line(&mut self) -> (Bucket, bool) {
        let child = self.take_child();
        let line = Bucket(self.0);
        let Some(child) = child else {
            self.0[..SLOTS].fill(0);
            return (line, false);
        };
        // The flag and the link of a longer chain move along, so that the third line has one owner as before.
        self.0 = child.0;
        (line, true)
    }

    /// Takes out some entry.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<TakenEntry> {
        let slot = self.used().next()?;
        Some(self.remove(ChainSlot { depth: 0, slot }))
    }
}

/// Returns a bit for each of the first 16 bytes that equals `byte`; the caller masks the ones that are tags.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn equal_bytes(line: &[u8; LINE], byte: u8) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_loadu_si128, _mm_movemask_epi8, _mm_set1_epi8};
    // SAFETY: SSE2 is part of the x86-64 baseline, and the 16 bytes loaded are the first of the 64 borrowed ones.
    unsafe {
        let tags = _mm_loadu_si128(line.as_ptr().cast());
        _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(byte as i8))) as u32
    }
}

#[cfg(not(target_arch = "x86_64"))]
use equal_bytes_portable as equal_bytes;

/// Returns a bit for each of the first nine bytes that equals `byte`, eight of them at once in a 64-bit word.
#[cfg(any(test, not(target_arch = "x86_64")))]
#[inline(always)]
fn equal_bytes_portable(line: &[u8; LINE], byte: u8) -> u32 {
    const LOW_BITS: u64 = 0x7f7f_7f7f_7f7f_7f7f;
    // The product moves bit 0 of byte i to bit 56 + i, with no two terms meeting.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let word = u64::from_le_bytes(line[..8].try_into().expect("8 bytes"));
    let differences = word ^ (ONES * u64::from(byte));
    // The sum carries into a byte's top bit exactly if one of its low seven bits is set, and never beyond it.
    let zero_bytes = !(((differences & LOW_BITS) + LOW_BITS) | differences | LOW_BITS);
    let first_eight = (zero_bytes >> 7).wrapping_mul(GATHER) >> 56;
    first_eight as u32 | u32::from(line[8] == byte) << 8
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn tags_are_compared_exactly(tags in prop::collection::vec(prop_oneof![0u8..4, any::<u8>()], 9), byte in prop_oneof![0u8..4, any::<u8>()]) {
            let mut line = [byte; LINE];
            line[..9].copy_from_slice(&tags);
            let naive = (0..9).filter(|&slot| tags[slot] == byte).fold(0, |mask, slot| mask | 1u32 << slot);
            prop_assert_eq!(equal_bytes(&line, byte) & ALL_SLOTS, naive);
            prop_assert_eq!(equal_bytes_portable(&line, byte), naive);
        }

        /// Random inserts and removals against a list; the shape that the opening comment promises holds throughout.
        #[test]
        fn a_chain_is_a_multiset(operations in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 1..200)) {
            let mut home = Bucket::EMPTY;
            let mut model = Vec::new();
            let mut lines = 1;
            for (number, (insert, index)) in operations.into_iter().enumerate() {
                if insert || model.is_empty() {
                    let entry = (tag_of(number as u64 * 7), number as u64 + 1);
                    lines += usize::from(home.insert(entry.0, entry.1));
                    model.push(entry);
                } else {
                    let places = places(&home);
                    let (place, entry) = places[index.index(places.len())];
                    let taken = home.remove(place);
                    prop_assert_eq!(taken.bits, entry.1);
                    lines -= usize::from(taken.line_freed);
                    model.swap_remove(model.iter().position(|&known| known == entry).expect("known"));
                }
                let mut found: Vec<_> = places(&home).into_iter().map(|(_, entry)| entry).collect();
                found.sort_unstable();
                model.sort_unstable();
                prop_assert_eq!(&found, &model);
                check_shape(&home, lines);
            }
            if model.len() % 2 == 0 {
                empty_by_entries(&mut home, model);
            } else {
                empty_by_lines(&mut home, model);
            }
            prop_assert!(!home.is_chained());
        }
    }

    fn empty_by_entries(home: &mut Bucket, mut model: Vec<(u8, u64)>) {
        while let Some(peeked) = home.peek() {
            assert_eq!(home.pop().map(|taken| taken.bits), Some(peeked));
            model.retain(|entry| entry.1 != peeked);
        }
        assert!(model.is_empty());
    }

    fn empty_by_lines(home: &mut Bucket, model: Vec<(u8, u64)>) {
        let mut found = Vec::new();
        while home.peek().is_some() {
            let (line, shorter) = home.take_line();
            assert_eq!(shorter, home.peek().is_some());
            found.extend(line.used().map(|slot| (line.tag(slot), line.bits(slot))));
        }
        found.sort_unstable();
        assert_eq!(found, model);
    }

    fn places(home: &Bucket) -> Vec<(ChainSlot, (u8, u64))> {
        let entries = |(depth, line): (usize, &Bucket)| {
            line.used().map(|slot| (ChainSlot { depth, slot }, (line.tag(slot), line.bits(slot)))).collect::<Vec<_>>()
        };
        home.lines().enumerate().flat_map(entries).collect()
    }

    fn check_shape(home: &Bucket, lines: usize) {
        let used: Vec<_> = home.lines().map(|line| line.used().count()).collect();
        assert_eq!(used.len(), lines);
        if let [first, second, rest @ ..] = used.as_slice() {
            assert_eq!(*first, 8);
            assert!(*second >= if rest.is_empty() { 2 } else { 1 });
            if let [middle @ .., last] = rest {
                assert!(middle.iter().all(|&count| count == 8));
                assert_eq!(*last, 9);
            }
        }
    }
}
