//! LZF: the fast compression of list nodes, and of strings in dumps.
//!
//! The format is that of liblzf (Marc Lehmann), because dumps hold it. A compressed text is a sequence of two things,
//! told apart by the top three bits of their first byte:
//!
//! ```text
//!  000nnnnn  bytes                      n + 1 bytes as they are (1 to 32)
//!  lllooooo  oooooooo                   a copy: l + 2 bytes (3 to 8) from o + 1 bytes back (1 to 8192)
//!  111ooooo  llllllll  oooooooo         a longer copy: l + 9 bytes (9 to 264)
//! ```
//!
//! A copy may reach into its own output: three bytes from one byte back repeat that byte. The length of the text is not
//! part of the format; it must be stored beside it.
//!
//! Asserted by tests: compressed text comes back; bytes of any other origin give an error or a text of the requested
//! length, and no memory is taken for a length that they cannot give.

use std::fmt;

/// Bits of the hash of three bytes, which finds where they stood last, and how many places there are for it at most.
const HASH_BITS: u32 = 13;
const PLACES_MAX: usize = 1 << HASH_BITS;
/// Farthest distance of a copy, in bytes.
const FAR_MAX: usize = 1 << 13;
/// Shortest and longest copy, in bytes.
const COPY_MIN: usize = 3;
const COPY_MAX: usize = 264;
/// Most bytes of one run of literals.
const RUN_MAX: usize = 32;
/// Bytes that are copied at once where no more are wanted and there is room.
const WIDE: usize = 16;
/// Most bytes that one byte can become: three make a copy of [`COPY_MAX`].
const EXPANSION_MAX: usize = COPY_MAX / 3;

/// The bytes are not LZF, or not of a text of the length that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

impl fmt::Display for Corrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("compressed bytes are corrupt")
    }
}

impl std::error::Error for Corrupt {}

/// Compresses `text` into at most `limit` bytes; None if it takes more, or is of 4 GiB and longer.
pub fn compress(text: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(limit.min(text.len()));
    compress_onto(text, limit, &mut bytes).map(|()| bytes)
}

/// Compresses `text` and appends it to `bytes`; after None `bytes` may have a meaningless rest.
pub fn compress_onto(text: &[u8], limit: usize, bytes: &mut Vec<u8>) -> Option<()> {
    u32::try_from(text.len()).ok()?;
    bytes.reserve(limit.min(text.len()));
    let out = Writer { limit: bytes.len().saturating_add(limit), bytes };
    // Clearing the table must not cost more than the rest.
    match text.len() {
        0..=128 => compress_with::<128>(text, out),
        129..=1024 => compress_with::<1024>(text, out),
        _ => compress_with::<PLACES_MAX>(text, out),
    }
}

fn compress_with<const PLACES: usize>(text: &[u8], mut out: Writer<'_>) -> Option<()> {
    // Last place of three bytes with this hash, plus one; 0 for none.
    let mut last_seen = [0u32; PLACES];
    let hash = |text: &[u8], at: usize| (hash(text, at) >> (HASH_BITS - PLACES.trailing_zeros())) % PLACES;
    let (mut at, mut unwritten) = (0, 0);
    while at + COPY_MIN <= text.len() {
        let seen = std::mem::replace(&mut last_seen[hash(text, at)], at as u32 + 1) as usize;
        let copy = if seen == 0 { None } else { Some(seen - 1).filter(|from| at - from <= FAR_MAX) };
        let len = copy.map_or(0, |from| common_prefix(&text[from..], &text[at..]));
        let Some(from) = copy.filter(|_| len >= COPY_MIN) else {
            at += 1;
            continue;
        };
        out.literals(&text[unwritten..at])?;
        out.copy(at - from, len)?;
        // The last places within a copy are remembered, too: a text often continues as it did before.
        let end = at + len;
        for place in end.saturating_sub(2)..end {
            if place + COPY_MIN <= text.len() {
                last_seen[hash(text, place)] = place as u32 + 1;
            }
        }
        (at, unwritten) = (end, end);
    }
    out.literals(&text[unwritten..])
}

#[inline]
fn hash(text: &[u8], at: usize) -> usize {
    let three = match text[at..].first_chunk() {
        Some(four) => u32::from_le_bytes(*four) & 0xff_ffff,
        None => u32::from_le_bytes([text[at], text[at + 1], text[at + 2], 0]),
    };
    (three.wrapping_mul(0x9e37_79b1) >> (32 - HASH_BITS)) as usize
}

#[inline]
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let most = a.len().min(b.len()).min(COPY_MAX);
    let ((a, a_rest), (b, b_rest)) = (a[..most].as_chunks::<8>(), b[..most].as_chunks::<8>());
    for (at, (a, b)) in a.iter().zip(b).enumerate() {
        let differ = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differ != 0 {
            return at * 8 + differ.trailing_zeros() as usize / 8;
        }
    }
    a.len() * 8 + a_rest.iter().zip(b_rest).take_while(|(a, b)| a == b).count()
}

struct Writer<'o> {
    bytes: &'o mut Vec<u8>,
    /// Greatest end of the bytes.
    limit: usize,
}

impl Writer<'_> {
    fn room_for(&self, bytes: usize) -> Option<()> {
        (self.bytes.len() + bytes <= self.limit).then_some(())
    }

    fn literals(&mut self, bytes: &[u8]) -> Option<()> {
        self.room_for(bytes.len() + bytes.len().div_ceil(RUN_MAX))?;
        for run in bytes.chunks(RUN_MAX) {
            self.bytes.push(run.len() as u8 - 1);
            self.bytes.extend_from_slice(run);
        }
        Some(())
    }

    fn copy(&mut self, distance: usize, len: usize) -> Option<()> {
        let [far, near] = (distance as u16 - 1).to_be_bytes();
        if len < 9 {
            self.room_for(2)?;
            self.bytes.extend_from_slice(&[((len - 2) as u8) << 5 | far, near]);
        } else {
            self.room_for(3)?;
            self.bytes.extend_from_slice(&[7 << 5 | far, (len - 9) as u8, near]);
        }
        Some(())
    }
}

/// Returns the text of `len` bytes that was compressed.
///
/// # Errors
/// The bytes are no LZF, or of a text of another length.
pub fn decompress(compressed: &[u8], len: usize) -> Result<Vec<u8>, Corrupt> {
    let mut text = Vec::new();
    decompress_into(compressed, len, &mut text)?;
    Ok(text)
}

/// Decompresses into `text`, in the place of its present bytes.
///
/// # Errors
/// As [`decompress`]; `text` is of no use then.
pub fn decompress_into(compressed: &[u8], len: usize, text: &mut Vec<u8>) -> Result<(), Corrupt> {
    if len > compressed.len().saturating_mul(EXPANSION_MAX) {
        return Err(Corrupt);
    }
    text.clear();
    text.resize(len, 0);
    let (mut rest, mut at) = (compressed, 0);
    while let Some((&first, after)) = rest.split_first() {
        rest = after;
        if first < 1 << 5 {
            let run = usize::from(first) + 1;
            // Most are short, and a copy of a length that is known is a few instructions.
            if let (Some(from), true) = (rest.first_chunk::<RUN_MAX>(), len - at >= RUN_MAX) {
                text[at..at + RUN_MAX].copy_from_slice(from);
            } else {
                let from = rest.get(..run).ok_or(Corrupt)?;
                text.get_mut(at..at + run).ok_or(Corrupt)?.copy_from_slice(from);
            }
            (at, rest) = (at + run, &rest[run..]);
            continue;
        }
        let mut copied = usize::from(first >> 5) + 2;
        if copied == 9 {
            let (&more, after) = rest.split_first().ok_or(Corrupt)?;
            copied += usize::from(more);
            rest = after;
        }
        let (&near, after) = rest.split_first().ok_or(Corrupt)?;
        rest = after;
        let distance = usize::from(u16::from_be_bytes([first & 0x1f, near])) + 1;
        let from = at.checked_sub(distance).ok_or(Corrupt)?;
        let end = at + copied;
        if end > len {
            return Err(Corrupt);
        }
        if copied <= WIDE && distance >= WIDE && len - at >= WIDE {
            text.copy_within(from..from + WIDE, at);
        } else if distance >= copied {
            text.copy_within(from..from + copied, at);
        } else {
            (at..end).for_each(|to| text[to] = text[to - distance]);
        }
        at = end;
    }
    if at == len { Ok(()) } else { Err(Corrupt) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// By hand, after the format's description.
    #[test]
    fn the_format_is_that_of_liblzf() {
        let text = b"abcabcabcabcabcabcX";
        let compressed = [2, b'a', b'b', b'c', 7 << 5, 15 - 9, 2, 0, b'X'];
        assert_eq!(decompress(&compressed, text.len()).as_deref(), Ok(&text[..]));
        assert_eq!(compress(text, 100).as_deref(), Some(&compressed[..]));
        assert_eq!(decompress(&[0, b'x', 1 << 5, 0], 4).as_deref(), Ok(&b"xxxx"[..]));
        assert_eq!(decompress(&[], 0), Ok(Vec::new()));
    }

    #[test]
    fn text_that_does_not_fit_is_not_compressed() {
        let text = b"abcabcabcabcabcabcX";
        assert!(compress(text, 9).is_some() && compress(text, 8).is_none());
        assert!(compress(b"abcdefgh", 8).is_none() && compress(b"abcdefgh", 9).is_some());
    }

    #[test]
    fn a_length_that_the_bytes_cannot_give_takes_no_memory() {
        assert_eq!(decompress(&[0, b'x'], usize::MAX), Err(Corrupt));
        assert_eq!(decompress(&[], 1), Err(Corrupt));
    }

    #[test]
    fn copies_reach_8192_bytes_back_and_no_farther() {
        for (distance, is_copied) in [(8192, true), (8193, false)] {
            let mark = *b"\xfe\xfd\xfe\xfc\xfe\xfd\xfb\xfa";
            let mut text = vec![0; distance + 8];
            text[..8].copy_from_slice(&mark);
            text[distance..].copy_from_slice(&mark);
            let compressed = compress(&text, usize::MAX).expect("there is no limit");
            assert_eq!(compressed.ends_with(&[6 << 5 | 0x1f, 0xff]), is_copied);
            assert_eq!(compressed.ends_with(&mark), !is_copied);
            assert_eq!(decompress(&compressed, text.len()), Ok(text));
        }
    }

    fn text() -> impl Strategy<Value = Vec<u8>> {
        let words = vec(
            prop_oneof![
                vec(any::<u8>(), 0..40),
                vec(b'a'..b'c', 0..400),
                (any::<u8>(), 0..900usize).prop_map(|(byte, n)| std::vec![byte; n])
            ],
            0..40,
        );
        words.prop_map(|words| words.concat())
    }

    proptest! {
        #[test]
        fn compressed_text_comes_back(text in text()) {
            let compressed = compress(&text, usize::MAX).expect("there is no limit");
            prop_assert!(compressed.len() <= text.len() + text.len().div_ceil(RUN_MAX));
            prop_assert_eq!(decompress(&compressed, text.len() + 1), Err(Corrupt));
            prop_assert_eq!(compress(&text, compressed.len()), Some(compressed.clone()));
            prop_assert_eq!(decompress(&compressed, text.len()), Ok(text));
        }

        #[test]
        fn other_bytes_give_an_error_or_a_text_of_the_length(compressed in vec(any::<u8>(), 0..200), len in 0..5000usize) {
            if let Ok(text) = decompress(&compressed, len) {
                prop_assert_eq!(text.len(), len);
            }
        }

        #[test]
        fn damage_is_survived(text in text(), place in any::<prop::sample::Index>(), to in any::<u8>(), cut in any::<prop::sample::Index>()) {
            let mut compressed = compress(&text, usize::MAX).expect("there is no limit");
            if !compressed.is_empty() {
                let place = place.index(compressed.len());
                compressed[place] = to;
                if let Ok(other) = decompress(&compressed, text.len()) {
                    prop_assert_eq!(other.len(), text.len());
                }
                compressed.truncate(cut.index(compressed.len()));
                if let Ok(other) = decompress(&compressed, text.len()) {
                    prop_assert_eq!(other.len(), text.len());
                }
            }
        }
    }
}
