//! Writing the primitives: lengths and strings. All functions append to a vector, so they cannot fail.

use crate::format::{length, string};
use structures::lzf;

/// Shorter strings are not worth compressing, in bytes.
const COMPRESS_MIN: usize = 21;
/// Bytes that compression must save.
const SAVED_MIN: usize = 4;
/// Digits of the longest number that replaces a string.
const DIGITS_MAX: usize = 11;

/// Appends a length, or a count.
pub fn put_length(out: &mut Vec<u8>, len: u64) {
    if len < 1 << 6 {
        out.push(len as u8);
    } else if len < 1 << 14 {
        out.extend_from_slice(&[length::FOURTEEN_BITS << 6 | (len >> 8) as u8, len as u8]);
    } else if let Ok(len) = u32::try_from(len) {
        out.push(length::BYTES_4);
        out.extend_from_slice(&len.to_be_bytes());
    } else {
        out.push(length::BYTES_8);
        out.extend_from_slice(&len.to_be_bytes());
    }
}

/// Appends a string in its shortest form.
pub fn put_string(out: &mut Vec<u8>, text: &[u8], compress: bool) {
    if text.len() <= DIGITS_MAX
        && let Some(n) = resp::number::parse_i64(text).and_then(|n| i32::try_from(n).ok())
    {
        return put_int(out, n);
    }
    if compress && text.len() >= COMPRESS_MIN && put_shorter(out, text) {
        return;
    }
    put_length(out, text.len() as u64);
    out.extend_from_slice(text);
}

/// Appends a string compressed, if that makes it shorter.
fn put_shorter(out: &mut Vec<u8>, text: &[u8]) -> bool {
    let (start, limit) = (out.len(), text.len() - SAVED_MIN);
    // The head is known when the rest is there: room for it is made, mostly as much as it takes.
    put_compressed_head(out, limit, text.len());
    let from = out.len();
    if lzf::compress_onto(text, limit, out).is_none() {
        out.truncate(start);
        return false;
    }
    let end = out.len();
    put_compressed_head(out, end - from, text.len());
    let after = start + out.len() - end;
    out.copy_within(end.., start);
    if after < from {
        out.copy_within(from..end, after);
    }
    out.truncate(end - (from - after));
    true
}

fn put_int(out: &mut Vec<u8>, n: i32) {
    let head = |encoding: u8| length::ENCODED << 6 | encoding;
    if let Ok(n) = i8::try_from(n) {
        out.extend_from_slice(&[head(string::INT_8), n as u8]);
    } else if let Ok(n) = i16::try_from(n) {
        out.push(head(string::INT_16));
        out.extend_from_slice(&n.to_le_bytes());
    } else {
        out.push(head(string::INT_32));
        out.extend_from_slice(&n.to_le_bytes());
    }
}

/// Appends a string of `len` bytes that was compressed to these.
pub fn put_compressed(out: &mut Vec<u8>, bytes: &[u8], len: usize) {
    put_compressed_head(out, bytes.len(), len);
    out.extend_from_slice(bytes);
}

fn put_compressed_head(out: &mut Vec<u8>, compressed: usize, len: usize) {
    out.push(length::ENCODED << 6 | string::LZF);
    put_length(out, compressed as u64);
    put_length(out, len as u64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The compressed length may take fewer bytes than the text's.
        #[test]
        fn strings_are_compressed_where_they_lie(before in 0..3usize, text in "[ab]{21,400}|(abcdefgh){8,3000}|.{21,90}") {
            let mut out = vec![b'x'; before];
            put_string(&mut out, text.as_bytes(), true);
            prop_assert_eq!(&out[..before], &b"xxx"[..before]);
            let mut expected = Vec::new();
            match lzf::compress(text.as_bytes(), text.len() - SAVED_MIN) {
                Some(shorter) => put_compressed(&mut expected, &shorter, text.len()),
                None => {
                    put_length(&mut expected, text.len() as u64);
                    expected.extend_from_slice(text.as_bytes());
                }
            }
            prop_assert_eq!(&out[before..], &expected[..]);
        }
    }
}
