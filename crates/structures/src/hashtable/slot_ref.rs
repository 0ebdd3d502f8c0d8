//! A reference to a found entry, to return to it without another search.

use std::num::NonZeroU64;

use super::bucket::ChainSlot;

/// A reference to a found entry, in one word, so that callers hold and copy it in a register.
///
/// ```text
///   bit 63     28      6      2     1   0
///      +--------+-------+------+-----+---+
///      | bucket | depth | slot | new | 1 |   new: in the new array
///      +--------+-------+------+-----+---+
/// ```
#[derive(Clone, Copy, Debug)]
pub struct SlotRef(NonZeroU64);

/// The lowest bits of a [`SlotRef`]'s parts. A shard has less than 2^36 buckets and a chain less than 2^22 lines, by
/// their memory.
const NEW_BIT: u32 = 1;
const SLOT_BIT: u32 = 2;
const DEPTH_BIT: u32 = 6;
const BUCKET_BIT: u32 = 28;

impl SlotRef {
    #[inline]
    pub(super) fn new(moved: bool, bucket: usize, place: ChainSlot) -> SlotRef {
        debug_assert!(place.depth < 1 << (BUCKET_BIT - DEPTH_BIT) && bucket < 1 << (64 - BUCKET_BIT));
        let places = (place.depth as u64) << DEPTH_BIT | (place.slot as u64) << SLOT_BIT;
        SlotRef(NonZeroU64::MIN | (bucket as u64) << BUCKET_BIT | places | u64::from(moved) << NEW_BIT)
    }

    #[inline]
    pub(super) fn moved(self) -> bool {
        self.0.get() >> NEW_BIT & 1 != 0
    }

    #[inline]
    pub(super) fn bucket(self) -> usize {
        (self.0.get() >> BUCKET_BIT) as usize
    }

    #[inline]
    pub(super) fn place(self) -> ChainSlot {
        let bits = self.0.get();
        let depth = (bits >> DEPTH_BIT) as usize & ((1 << (BUCKET_BIT - DEPTH_BIT)) - 1);
        ChainSlot { depth, slot: (bits >> SLOT_BIT) as usize & 0xf }
    }
}
