//! The parts of a hash, and which of so many buckets covers a position.

use super::bucket::tag_of;

/// Positions are below this.
pub const POSITIONS: u64 = 1 << 48;

/// The bits of a hash that are not part of its position.
pub(super) const LOW_BITS: u64 = 0xffff;

/// Returns the part of a hash that says where its entry lies: the top 48 bits.
#[inline]
pub const fn position(hash: u64) -> u64 {
    hash >> 16
}

/// How many [classes](class) there are.
pub const CLASSES: u8 = 16;

/// Hashes fall into classes whatever their positions are.
#[inline]
pub fn class(hash: u64) -> u8 {
    class_of_tag(tag_of(hash))
}

/// Returns the class of every hash with this tag.
#[inline]
pub(super) fn class_of_tag(tag: u8) -> u8 {
    tag % CLASSES
}

/// Returns the bucket of `len` that covers this hash's position. Below `len`, or 0 if that is 0.
#[inline]
pub(super) fn index(hash: u64, len: usize) -> usize {
    ((u128::from(hash & !LOW_BITS) * len as u128) >> 64) as usize
}

/// Returns the beginning of bucket `i` of `len`: the least position whose index is `i`. [`POSITIONS`] for `i == len`.
#[inline]
pub(super) fn first_position(i: usize, len: usize) -> u64 {
    const SMALL: usize = 1 << 15;
    if i < SMALL && len < SMALL {
        // 64 bits give the same result, and their division is several times faster.
        return (i as u64 * POSITIONS).div_ceil(len as u64);
    }
    (i as u128 * u128::from(POSITIONS)).div_ceil(len as u128) as u64
}

/// Returns how many buckets of `len` begin before `position`.
#[inline]
pub(super) fn buckets_before(position: u64, len: usize) -> usize {
    // All up to the one that covers the position before.
    if position == 0 { 0 } else { index((position - 1) << 16, len) + 1 }
}
