//! A small sorted set: all pairs in one run of bytes, in order.
//!
//! ```text
//!  0            4
//!  +------------+-------+--------+------+-------+--------+------+--
//!  | pairs, u32 | score | length | name | score | length | name | ...
//!  +------------+-------+--------+------+-------+--------+------+--
//! ```
//!
//! Everything is found by walking from the front, which for a hundred pairs is quicker than following pointers.
//! The length is 7 bits a byte, the lowest first, the top bit set in all bytes but the last. A score takes as few
//! bytes as it can, and always reads back as the same number:
//!
//! | first byte | then | score |
//! | --- | --- | --- |
//! | 0 to 239 | | that number |
//! | 240, 241 | i16, i32 | that number |
//! | 242, 243 | i16, i32 | a tenth of it |
//! | 244, 245 | i16, i32 | a hundredth |
//! | 246 | i32 | a thousandth |
//! | 247 | f32 | that number |
//! | 248 | f64 | that number |
//!
//! A decimal fraction of a whole number below 2^53 by a power of ten below 10^22 is rounded once, so that it is the
//! very double that the decimal text means. -0.0 is not stored: whole numbers have no sign of zero.
//!
//! Invariants (asserted by `check` in the tests): pairs ascend by (score, name), names are distinct, the bytes end with
//! the last pair.

use std::cmp::Ordering;
use std::ops::Range;

/// Bytes of the number of pairs.
const HEAD: usize = 4;
/// First bytes below this are scores themselves.
const INTS: u8 = 240;
const I16: u8 = INTS;
const I32: u8 = INTS + 1;
const TENTH_I16: u8 = INTS + 2;
const TENTH_I32: u8 = INTS + 3;
const HUNDREDTH_I16: u8 = INTS + 4;
const HUNDREDTH_I32: u8 = INTS + 5;
const THOUSANDTH_I32: u8 = INTS + 6;
const F32: u8 = INTS + 7;
const F64: u8 = INTS + 8;

/// Pairs in order of (score, name). An empty one owns no memory.
#[derive(Clone, Default)]
pub(super) struct Packed {
    bytes: Box<[u8]>,
}

/// A pair, and the bytes that it takes.
#[derive(Clone)]
struct Place<'a> {
    rank: usize,
    span: Range<usize>,
    name: &'a [u8],
    score: f64,
}

impl Packed {
    /// Makes a set of pairs that ascend and have distinct names.
    pub(super) fn from_sorted<'a>(pairs: impl Iterator<Item = (&'a [u8], f64)> + Clone) -> Self {
        let room: usize = pairs.clone().map(|(name, _)| SCORE_MAX + LENGTH_MAX + name.len()).sum();
        let (mut bytes, mut count) = (Vec::with_capacity(HEAD + room), 0u32);
        bytes.resize(HEAD, 0);
        for (name, score) in pairs {
            let (head, head_len) = pair_head(name, score + 0.0);
            bytes.extend_from_slice(&head[..head_len]);
            bytes.extend_from_slice(name);
            count += 1;
        }
        if count == 0 {
            return Packed::default();
        }
        let mut set = Packed::default();
        set.store(bytes, |_| count);
        set
    }

    pub(super) fn len(&self) -> usize {
        match self.bytes.first_chunk::<HEAD>() {
            Some(head) => u32::from_le_bytes(*head) as usize,
            None => 0,
        }
    }

    pub(super) fn allocated(&self) -> usize {
        self.bytes.len()
    }

    /// Returns rank and score of a name.
    pub(super) fn find(&self, name: &[u8]) -> Option<(usize, f64)> {
        self.place(name).map(|place| (place.rank, place.score))
    }

    fn place(&self, name: &[u8]) -> Option<Place<'_>> {
        self.places().find(|place| place.name == name)
    }

    fn places(&self) -> Places<'_> {
        Places { bytes: &self.bytes, at: HEAD, rank: 0 }
    }

    /// Returns the number of pairs before the first for which `before` does not hold.
    pub(super) fn partition_point(&self, mut before: impl FnMut(&[u8], f64) -> bool) -> usize {
        self.places().take_while(|place| before(place.name, place.score)).count()
    }

    /// Adds a name that is not there.
    pub(super) fn add(&mut self, name: &[u8], score: f64) {
        let score = score + 0.0;
        let at = self.places().find(|place| cmp(place, name, score) == Ordering::Greater).map(|place| place.span.start);
        let (head, head_len) = pair_head(name, score);
        let mut bytes = std::mem::take(&mut self.bytes).into_vec();
        let room = head_len + name.len();
        if bytes.is_empty() {
            bytes.reserve_exact(HEAD + room);
            bytes.resize(HEAD, 0);
        }
        bytes.reserve_exact(room);
        let (at, end) = (at.unwrap_or(bytes.len()), bytes.len());
        bytes.resize(end + room, 0);
        bytes.copy_within(at..end, at + room);
        bytes[at..at + head_len].copy_from_slice(&head[..head_len]);
        bytes[at + head_len..at + room].copy_from_slice(name);
        self.store(bytes, |pairs| pairs + 1);
    }

    /// Removes a name and returns the score that it had.
    pub(super) fn remove(&mut self, name: &[u8]) -> Option<f64> {
        let Place { span, score, .. } = self.place(name)?;
        self.cut(span, 1);
        Some(score)
    }

    /// Removes the pairs at these ranks, handing them to `visit` before.
    pub(super) fn remove_range(&mut self, ranks: Range<usize>, mut visit: impl FnMut(&[u8], f64)) -> usize {
        let mut span = None;
        let mut removed = 0;
        for place in self.places().skip(ranks.start).take(ranks.len()) {
            visit(place.name, place.score);
            removed += 1;
            span = Some(span.map_or(place.span.start, |(start, _)| start)).map(|start| (start, place.span.end));
        }
        if let Some((start, end)) = span {
            self.cut(start..end, removed);
        }
        removed
    }

    fn cut(&mut self, span: Range<usize>, pairs: usize) {
        if pairs == self.len() {
            self.bytes = Box::default();
            return;
        }
        let mut bytes = std::mem::take(&mut self.bytes).into_vec();
        bytes.drain(span);
        self.store(bytes, |present| present - pairs as u32);
    }

    /// Takes the changed bytes back, with another number of pairs.
    fn store(&mut self, mut bytes: Vec<u8>, count: impl FnOnce(u32) -> u32) {
        if let Some(head) = bytes.first_chunk_mut::<HEAD>() {
            *head = count(u32::from_le_bytes(*head)).to_le_bytes();
        }
        self.bytes = bytes.into_boxed_slice();
    }

    /// Returns the pairs at these ranks, which lie within the set.
    pub(super) fn range(&self, ranks: Range<usize>) -> Iter<'_> {
        let mut places = self.places();
        let left = ranks.len();
        if left > 0 && ranks.start > 0 {
            places.nth(ranks.start - 1);
        }
        Iter { places, left, starts: None }
    }
}

/// Returns the position of a pair relative to another.
fn cmp(place: &Place<'_>, name: &[u8], score: f64) -> Ordering {
    // Scores are numbers.
    place.score.partial_cmp(&score).unwrap_or(Ordering::Equal).then_with(|| place.name.cmp(name))
}

/// Walks over pairs.
#[derive(Clone)]
struct Places<'a> {
    bytes: &'a [u8],
    at: usize,
    rank: usize,
}

impl<'a> Iterator for Places<'a> {
    type Item = Place<'a>;

    #[inline]
    fn next(&mut self) -> Option<Place<'a>> {
        let start = self.at;
        let rest = self.bytes.get(start..)?;
        let (score, score_len) = score_at(rest)?;
        let (len, length_len) = length_at(rest.get(score_len..)?)?;
        let from = score_len + length_len;
        let name = rest.get(from..from.checked_add(len)?)?;
        self.at = start + from + len;
        self.rank += 1;
        Some(Place { rank: self.rank - 1, span: start..self.at, name, score })
    }
}

/// Pairs from either end.
#[derive(Clone)]
pub(super) struct Iter<'a> {
    places: Places<'a>,
    left: usize,
    /// Beginnings of the pairs that are left; computed when the first is read from the end.
    starts: Option<Vec<usize>>,
}

impl<'a> Iterator for Iter<'a> {
    type Item = (&'a [u8], f64);

    #[inline]
    fn next(&mut self) -> Option<(&'a [u8], f64)> {
        self.left = self.left.checked_sub(1)?;
        self.places.next().map(|place| (place.name, place.score))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let mut places = self.places.clone();
        let starts =
            self.starts.get_or_insert_with(|| places.by_ref().take(self.left + 1).map(|p| p.span.start).collect());
        places.at = starts.pop()?;
        places.next().map(|place| (place.name, place.score))
    }
}

impl ExactSizeIterator for Iter<'_> {}

/// Returns the bytes before a name: its score and length.
fn pair_head(name: &[u8], score: f64) -> ([u8; SCORE_MAX + LENGTH_MAX], usize) {
    let mut head = [0; SCORE_MAX + LENGTH_MAX];
    let score_len = put_score(&mut head, score);
    let length_len = put_length(&mut head[score_len..], name.len());
    (head, score_len + length_len)
}

/// Bytes of the longest score.
const SCORE_MAX: usize = 9;
/// Bytes of the longest length.
const LENGTH_MAX: usize = 10;

/// Returns the score at the beginning of `bytes`, and how many of them it takes.
#[inline]
fn score_at(bytes: &[u8]) -> Option<(f64, usize)> {
    let first = *bytes.first()?;
    if first < INTS {
        return Some((f64::from(first), 1));
    }
    let rest = &bytes[1..];
    let short = || Some(f64::from(i16::from_le_bytes(*rest.first_chunk()?)));
    let long = || Some(f64::from(i32::from_le_bytes(*rest.first_chunk()?)));
    Some(match first {
        I16 => (short()?, 3),
        I32 => (long()?, 5),
        TENTH_I16 => (short()? / 10.0, 3),
        TENTH_I32 => (long()? / 10.0, 5),
        HUNDREDTH_I16 => (short()? / 100.0, 3),
        HUNDREDTH_I32 => (long()? / 100.0, 5),
        THOUSANDTH_I32 => (long()? / 1000.0, 5),
        F32 => (f64::from(f32::from_le_bytes(*rest.first_chunk()?)), 5),
        F64 => (f64::from_le_bytes(*rest.first_chunk()?), 9),
        _ => return None,
    })
}

/// Writes a score; returns how many bytes it takes.
fn put_score(to: &mut [u8], score: f64) -> usize {
    for (scale, short, long) in [
        (1.0, Some(I16), I32),
        (10.0, Some(TENTH_I16), TENTH_I32),
        (100.0, Some(HUNDREDTH_I16), HUNDREDTH_I32),
        (1000.0, None, THOUSANDTH_I32),
    ] {
        // Too large or not a number of the scale: the cast saturates, and the way back shows it.
        let scaled = score * scale;
        let scaled = (scaled + 0.5f64.copysign(scaled)) as i32;
        if f64::from(scaled) / scale != score {
            continue;
        }
        return match (u8::try_from(scaled), i16::try_from(scaled), short) {
            (Ok(byte), ..) if scale == 1.0 && byte < INTS => put(to, byte, &[]),
            (_, Ok(scaled), Some(short)) => put(to, short, &scaled.to_le_bytes()),
            _ => put(to, long, &scaled.to_le_bytes()),
        };
    }
    let single = score as f32;
    if f64::from(single) == score { put(to, F32, &single.to_le_bytes()) } else { put(to, F64, &score.to_le_bytes()) }
}

fn put(to: &mut [u8], first: u8, rest: &[u8]) -> usize {
    to[0] = first;
    to[1..=rest.len()].copy_from_slice(rest);
    1 + rest.len()
}

/// Returns the length at the beginning of `bytes`, and how many of them it takes.
#[inline]
fn length_at(bytes: &[u8]) -> Option<(usize, usize)> {
    let mut len = 0;
    for (at, byte) in bytes.iter().take(LENGTH_MAX).enumerate() {
        len |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some((len, at + 1));
        }
    }
    None
}

/// Writes a length; returns how many bytes it takes.
fn put_length(to: &mut [u8], mut len: usize) -> usize {
    let mut at = 0;
    while len > 0x7f {
        to[at] = len as u8 | 0x80;
        len >>= 7;
        at += 1;
    }
    to[at] = len as u8;
    at + 1
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn scores_read_back(score in prop_oneof![
            any::<f64>().prop_filter("a score is a number", |score| !score.is_nan()),
            any::<f32>().prop_filter("a score is a number", |score| !score.is_nan()).prop_map(f64::from),
            (any::<i32>(), 0i32..6).prop_map(|(n, k)| f64::from(n) / 10f64.powi(k)),
            any::<i64>().prop_map(|n| n as f64),
        ], len: usize) {
            let score = score + 0.0;
            let mut bytes = [0; SCORE_MAX];
            let written = put_score(&mut bytes, score);
            let (read, used) = score_at(&bytes).unwrap();
            prop_assert_eq!((read.to_bits(), used), (score.to_bits(), written));
            let mut bytes = [0; LENGTH_MAX];
            let written = put_length(&mut bytes, len);
            prop_assert_eq!(length_at(&bytes), Some((len, written)));
        }
    }

    #[test]
    fn scores_are_short() {
        let len = |score| put_score(&mut [0; SCORE_MAX], score);
        assert_eq!([0.0, 239.0, 240.0, -1.0, 1.5, -0.25].map(len), [1, 1, 3, 3, 3, 3]);
        assert_eq!([1e6, 1234.5, -4e4, 99999.99, 0.001, 2f64.powi(-20)].map(len), [5, 3, 5, 5, 5, 5]);
        assert_eq!([0.1 + 0.2, 1e10 + 0.1, f64::INFINITY].map(len), [9, 9, 5]);
    }

    #[test]
    fn twenty_pairs_of_a_leaderboard_fit_320_bytes() {
        let mut set = Packed::default();
        (0..20).for_each(|n| set.add(format!("member:{n:04}").as_bytes(), f64::from(n) * 1.5));
        assert_eq!(set.len(), 20);
        assert!(set.allocated() <= 320, "{}", set.allocated());
    }

    #[test]
    fn bytes_that_end_too_early_end_the_walk() {
        let mut set = Packed::default();
        set.add(b"name", 1.5);
        for len in 0..set.bytes.len() {
            let cut = Packed { bytes: set.bytes[..len].into() };
            assert_eq!(cut.places().count(), 0);
        }
    }
}
