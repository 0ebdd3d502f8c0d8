//! An intset: a sorted array of integers, all of one width, in one run of bytes.
//!
//! A small set of integers is stored in exactly the bytes in which Redis and Valkey hold it and write it to disk:
//!
//! ```text
//!           0            4            8
//!  +--------+------------+------------+---------+-----+---------+
//!  | length | width, u32 | count, u32 | integer | ... | integer |       all little endian, ascending
//!  +--------+------------+------------+---------+-----+---------+
//!            2, 4 or 8 bytes                     \ of width bytes
//! ```
//!
//! The [length](crate::thin_bytes) in front is only in memory. The width is that of the widest integer that was ever in
//! the set.
//!
//! Asserted by `from_bytes`, and after every operation of the property tests: the count is that of the integers, which
//! ascend and have no equals.

use crate::listpack::Corrupt;
use crate::thin_bytes::{PREFIX, ThinBytes};
use std::fmt;
use std::ops::Range;

/// Bytes before the first integer, the length in memory included.
const HEADER: usize = PREFIX + 8;
/// A set that has so many integers takes no more: their bytes would not fit into a block.
pub const MAX: usize = 1 << 28;

/// An owned set of integers: one thin pointer.
#[derive(Clone)]
pub struct Intset {
    block: ThinBytes,
}

impl Intset {
    /// Makes an empty set.
    pub fn new() -> Self {
        let mut block = ThinBytes::zeroed(HEADER);
        block.body_mut()[0] = 2;
        Intset { block }
    }

    /// Takes over bytes from elsewhere, none of which are trusted.
    ///
    /// # Errors
    /// The bytes are no intset: their length, the width, or the order of the integers is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Corrupt> {
        let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_le_bytes);
        let (Some(width @ (2 | 4 | 8)), Some(count)) = (word(0), word(4)) else { return Err(Corrupt) };
        let expected = (width as usize).checked_mul(count as usize).and_then(|len| len.checked_add(HEADER - PREFIX));
        if expected != Some(bytes.len()) || count as usize > MAX {
            return Err(Corrupt);
        }
        let mut block = ThinBytes::zeroed(PREFIX + bytes.len());
        block.body_mut().copy_from_slice(bytes);
        let set = Intset { block };
        if set.iter().zip(set.iter().skip(1)).all(|(a, b)| a < b) { Ok(set) } else { Err(Corrupt) }
    }

    /// Returns the whole set, as it goes to disk.
    pub fn as_bytes(&self) -> &[u8] {
        &self.block.bytes()[PREFIX..]
    }

    /// Returns the bytes on the heap.
    pub fn memory_usage(&self) -> usize {
        self.block.allocated()
    }

    /// Returns the number of integers.
    #[inline]
    pub fn len(&self) -> usize {
        self.word(4) as usize
    }

    /// Whether there are none.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the integer is in the set.
    #[inline]
    pub fn contains(&self, n: i64) -> bool {
        self.search(n).is_ok()
    }

    /// Returns the integer at a place in ascending order.
    #[inline]
    pub fn get(&self, index: usize) -> Option<i64> {
        (index < self.len()).then(|| self.at(index))
    }

    /// Adds an integer; false if it was there already.
    ///
    /// # Panics
    /// When the set has [`MAX`] integers.
    pub fn insert(&mut self, n: i64) -> bool {
        let Err(index) = self.search(n) else { return false };
        assert!(self.len() < MAX, "an intset is full");
        if width_of(n) > self.width() {
            self.widen(width_of(n));
        }
        let width = self.width();
        self.block.splice(HEADER + index * width, 0, &[&n.to_le_bytes()[..width]]);
        self.set_len(self.len() + 1);
        true
    }

    /// Removes an integer; false if it was not there.
    pub fn remove(&mut self, n: i64) -> bool {
        let Ok(index) = self.search(n) else { return false };
        let width = self.width();
        self.block.splice(HEADER + index * width, width, &[]);
        self.set_len(self.len() - 1);
        true
    }

    /// Returns the integers in ascending order, from either end.
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        Iter { set: self, indices: 0..self.len() }
    }

    /// Returns the place of `n`, or the place to insert it at.
    #[inline]
    fn search(&self, n: i64) -> Result<usize, usize> {
        let (mut low, mut high) = (0, self.len());
        // Sets are often filled in order.
        if high > 0 && self.at(high - 1) < n {
            return Err(high);
        }
        while low < high {
            let middle = low + (high - low) / 2;
            match self.at(middle).cmp(&n) {
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        Err(low)
    }

    #[inline]
    fn at(&self, index: usize) -> i64 {
        let bytes = &self.block.bytes()[HEADER..];
        match self.width() {
            2 => i64::from(i16::from_le_bytes(chunk(bytes, index))),
            4 => i64::from(i32::from_le_bytes(chunk(bytes, index))),
            _ => i64::from_le_bytes(chunk(bytes, index)),
        }
    }

    /// Gives every integer `width` bytes.
    fn widen(&mut self, width: usize) {
        let old = self.width();
        self.block.resize(HEADER + self.len() * width);
        let len = self.len();
        let body = self.block.body_mut();
        body[..4].copy_from_slice(&(width as u32).to_le_bytes());
        let integers = &mut body[HEADER - PREFIX..];
        // From the end on, so that none is overwritten before it was read.
        for index in (0..len).rev() {
            let mut wide = [0; 8];
            wide[8 - old..].copy_from_slice(&integers[index * old..(index + 1) * old]);
            let n = i64::from_le_bytes(wide) >> (8 * (8 - old));
            integers[index * width..(index + 1) * width].copy_from_slice(&n.to_le_bytes()[..width]);
        }
    }

    #[inline]
    fn width(&self) -> usize {
        self.word(0) as usize
    }

    /// Returns the header's word at an offset in the form on disk.
    #[inline]
    fn word(&self, at: usize) -> u32 {
        u32::from_le_bytes(chunk(&self.block.bytes()[PREFIX + at..], 0))
    }

    fn set_len(&mut self, len: usize) {
        self.block.body_mut()[4..8].copy_from_slice(&(len as u32).to_le_bytes());
    }
}

/// Returns the bytes that the integer needs.
fn width_of(n: i64) -> usize {
    match n {
        -0x8000..=0x7fff => 2,
        -0x8000_0000..=0x7fff_ffff => 4,
        _ => 8,
    }
}

#[inline]
fn chunk<const N: usize>(bytes: &[u8], index: usize) -> [u8; N] {
    let mut chunk = [0; N];
    chunk.copy_from_slice(&bytes[index * N..(index + 1) * N]);
    chunk
}

impl Default for Intset {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Intset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

impl<'a> IntoIterator for &'a Intset {
    type Item = i64;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// An iterator over integers.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    set: &'a Intset,
    indices: Range<usize>,
}

impl Iterator for Iter<'_> {
    type Item = i64;

    #[inline]
    fn next(&mut self) -> Option<i64> {
        self.indices.next().map(|index| self.set.at(index))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.indices.size_hint()
    }
}

impl DoubleEndedIterator for Iter<'_> {
    #[inline]
    fn next_back(&mut self) -> Option<i64> {
        self.indices.next_back().map(|index| self.set.at(index))
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// Reads any bytes: an accepted intset is sorted, and can be changed.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz(data: &[u8]) {
    let Ok(mut set) = Intset::from_bytes(data) else { return };
    assert_eq!(set.as_bytes(), data);
    let all: Vec<i64> = set.iter().collect();
    assert!(all.is_sorted() && all.len() == set.len());
    for n in &all {
        assert!(set.contains(*n) && !set.insert(*n));
    }
    for n in [i64::MIN, -1, 0, i64::MAX] {
        assert_ne!(set.insert(n), all.contains(&n));
    }
    for n in all {
        assert!(set.remove(n) && !set.contains(n));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn integer() -> impl Strategy<Value = i64> {
        prop_oneof![
            8 => -40i64..40,
            1 => -0x8002i64..-0x7ffd,
            1 => 0x7ffdi64..0x8003,
            1 => (0x7fff_fffdi64..0x8000_0002).prop_flat_map(|n| prop_oneof![Just(n), Just(-n)]),
            1 => any::<i64>(),
        ]
    }

    proptest! {
        #[test]
        fn behaves_as_a_sorted_set(ops in proptest::collection::vec((integer(), 0u8..3), 0..200)) {
            let (mut set, mut model) = (Intset::new(), BTreeSet::new());
            for (n, op) in ops {
                if op == 0 {
                    prop_assert_eq!(set.remove(n), model.remove(&n));
                } else {
                    prop_assert_eq!(set.insert(n), model.insert(n));
                }
                prop_assert!(set.iter().eq(model.iter().copied()));
                prop_assert!(set.iter().rev().eq(model.iter().rev().copied()));
                prop_assert_eq!(set.contains(n), model.contains(&n));
                prop_assert_eq!((set.len(), set.is_empty()), (model.len(), model.is_empty()));
                let copy = Intset::from_bytes(set.as_bytes()).expect("its own bytes");
                prop_assert_eq!(copy.as_bytes(), set.as_bytes());
            }
            prop_assert_eq!(set.get(0), model.first().copied());
            prop_assert_eq!(set.get(set.len()), None);
        }

        #[test]
        fn damaged_bytes_are_refused_or_read(
            integers in proptest::collection::vec(integer(), 0..20), at: usize, byte: u8, cut in 0usize..3,
        ) {
            let mut set = Intset::new();
            integers.iter().for_each(|n| _ = set.insert(*n));
            let mut bytes = set.as_bytes().to_vec();
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes.truncate(bytes.len() - cut);
            fuzz(&bytes);
        }
    }

    #[test]
    fn the_bytes_are_those_of_other_servers() {
        let mut set = Intset::new();
        [5, -1, 300].iter().for_each(|n| _ = set.insert(*n));
        assert_eq!(set.as_bytes(), [2, 0, 0, 0, 3, 0, 0, 0, 0xff, 0xff, 5, 0, 44, 1]);
        set.insert(65_536);
        assert_eq!(set.as_bytes()[..16], [4, 0, 0, 0, 4, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 5, 0, 0, 0]);
        set.insert(i64::MIN);
        assert_eq!(set.as_bytes()[..16], [8, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80]);
    }

    #[test]
    fn disorder_and_equals_are_refused() {
        for bytes in [
            &[2, 0, 0, 0, 2, 0, 0, 0, 1, 0, 1, 0][..],
            &[2, 0, 0, 0, 2, 0, 0, 0, 2, 0, 1, 0],
            &[3, 0, 0, 0, 0, 0, 0, 0],
            &[2, 0, 0, 0, 1, 0, 0, 0],
            &[8, 0, 0, 0, 0xff, 0xff, 0xff, 0xff],
            &[2, 0, 0],
        ] {
            assert_eq!(Intset::from_bytes(bytes).err(), Some(Corrupt), "{bytes:?}");
        }
    }

    #[test]
    fn a_large_one_takes_little_more_than_its_integers() {
        let mut set = Intset::new();
        (0..512).for_each(|n| _ = set.insert(n));
        assert!(set.memory_usage() <= 3 * 512, "{}", set.memory_usage());
    }
}
