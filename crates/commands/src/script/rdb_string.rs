//! Strings as the RDB format has them, where a library's text is one: a length, then the bytes, compressed if that is shorter.
//!
//! ```text
//!   00nnnnnn                 up to 63 bytes
//!   01nnnnnn n               up to 16383
//!   80 nnnn / 81 nnnnnnnn    more, big-endian
//!   c3 length length bytes   LZF: compressed, then original length
//!   c0 n / c1 nn / c2 nnnn   an integer, which a text never is
//! ```

use structures::lzf;

/// The longest text that is believed.
const TEXT_MAX: usize = 512 << 20;

pub(super) fn write(out: &mut Vec<u8>, text: &[u8]) {
    write_length(out, text.len());
    out.extend_from_slice(text);
}

fn write_length(out: &mut Vec<u8>, length: usize) {
    match length {
        0..64 => out.push(length as u8),
        64..16384 => out.extend([0x40 | (length >> 8) as u8, length as u8]),
        _ => {
            out.push(0x81);
            out.extend_from_slice(&(length as u64).to_be_bytes());
        }
    }
}

fn read_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (length, rest) = match first >> 6 {
        0 => (u64::from(first & 63), rest),
        1 => {
            let (low, rest) = rest.split_first()?;
            (u64::from(first & 63) << 8 | u64::from(*low), rest)
        }
        2 if *first == 0x80 => {
            let (length, rest) = rest.split_first_chunk::<4>()?;
            (u32::from_be_bytes(*length).into(), rest)
        }
        2 if *first == 0x81 => {
            let (length, rest) = rest.split_first_chunk::<8>()?;
            (u64::from_be_bytes(*length), rest)
        }
        _ => return None,
    };
    usize::try_from(length).ok().filter(|length| *length <= TEXT_MAX).map(|length| (length, rest))
}

/// The text at the start of `bytes`, and what follows it.
pub(super) fn read(bytes: &[u8]) -> Option<(Vec<u8>, &[u8])> {
    if let Some(packed) = bytes.strip_prefix(b"\xc3") {
        let (packed_len, rest) = read_length(packed)?;
        let (len, rest) = read_length(rest)?;
        let (packed, rest) = rest.split_at_checked(packed_len)?;
        return Some((lzf::decompress(packed, len).ok()?, rest));
    }
    let (len, rest) = read_length(bytes)?;
    let (text, rest) = rest.split_at_checked(len)?;
    Some((text.to_vec(), rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_all_lengths_are_read_back() {
        for len in [0, 1, 63, 64, 16383, 16384, 100_000] {
            let (text, mut out) = (vec![b'x'; len], Vec::new());
            write(&mut out, &text);
            out.push(7);
            assert_eq!(read(&out), Some((text, &[7][..])));
            assert_eq!(read(&out[..out.len() - 2]), None, "cut off at {len}");
        }
    }
}
