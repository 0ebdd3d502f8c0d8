//! The forerunners of the listpack, in old files: they are read into listpacks and never written.
//!
//! ```text
//!  ziplist   | bytes u32 | tail offset u32 | count u16 | previous length, head, string | ... | ff |
//!  zipmap    | count u8 | length | field | length | free u8 | value | unused | ... | ff |
//! ```
//!
//! A previous length is one byte, or `fe` and four. A zipmap's lengths are one byte, or `fe` and four.

use structures::listpack::{Item, Listpack};

const END: u8 = 0xff;
const HEADER: usize = 10;
const UNCOUNTED: usize = 0xffff;

/// Reads a ziplist; None if it is corrupt.
pub fn from_ziplist(bytes: &[u8]) -> Option<Listpack> {
    let stated = u32::from_le_bytes(*bytes.first_chunk()?) as usize;
    let tail = u32::from_le_bytes(bytes.get(4..8)?.try_into().ok()?) as usize;
    let count = usize::from(u16::from_le_bytes(bytes.get(8..10)?.try_into().ok()?));
    let (last, entries) = bytes.get(HEADER..)?.split_last()?;
    if stated != bytes.len() || *last != END {
        return None;
    }
    let (mut rest, mut listpack) = (entries, Listpack::new());
    let (mut previous, mut last_at) = (0, HEADER);
    while !rest.is_empty() {
        let whole = rest;
        let (stated_previous, after) = stated_length(rest)?;
        let (item, after) = ziplist_item(after)?;
        if stated_previous != previous || !listpack.has_room(Listpack::item_size(item)) {
            return None;
        }
        // An integer stays one; digits in a string become one, as they would today.
        match item {
            Item::Int(_) => listpack.push_item(item),
            Item::Bytes(bytes) => listpack.push_back(bytes),
        }
        last_at = bytes.len() - 1 - whole.len();
        previous = whole.len() - after.len();
        rest = after;
    }
    (tail == last_at && (count == UNCOUNTED || count == listpack.len())).then_some(listpack)
}

/// Reads a length of one byte, or of four after `fe`.
fn stated_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    match bytes.split_first()? {
        (&0xff, _) => None,
        (&0xfe, rest) => {
            let (length, rest) = rest.split_first_chunk()?;
            Some((u32::from_le_bytes(*length) as usize, rest))
        }
        (&length, rest) => Some((length.into(), rest)),
    }
}

fn ziplist_item(bytes: &[u8]) -> Option<(Item<'_>, &[u8])> {
    let (&head, rest) = bytes.split_first()?;
    let number = |n: i64, taken: usize| Some((Item::Int(n), rest.get(taken..)?));
    let (len, rest) = match head {
        0x00..=0x3f => (usize::from(head), rest),
        0x40..=0x7f => {
            let (&low, rest) = rest.split_first()?;
            (usize::from(head & 0x3f) << 8 | usize::from(low), rest)
        }
        0x80 => {
            let (len, rest) = rest.split_first_chunk()?;
            (u32::from_be_bytes(*len) as usize, rest)
        }
        0xc0 => return number(i16::from_le_bytes(*rest.first_chunk()?).into(), 2),
        0xd0 => return number(i32::from_le_bytes(*rest.first_chunk()?).into(), 4),
        0xe0 => return number(i64::from_le_bytes(*rest.first_chunk()?), 8),
        0xf0 => {
            let [a, b, c] = *rest.first_chunk()?;
            return number((i32::from_le_bytes([0, a, b, c]) >> 8).into(), 3);
        }
        0xfe => return number(i8::from_le_bytes(*rest.first_chunk()?).into(), 1),
        0xf1..=0xfd => return number(i64::from(head & 0x0f) - 1, 0),
        _ => return None,
    };
    let (text, rest) = rest.split_at_checked(len)?;
    Some((Item::Bytes(text), rest))
}

/// Reads a length in the only form that a zipmap has for it.
fn zipmap_length(rest: &[u8]) -> Option<(usize, &[u8])> {
    let (len, after) = stated_length(rest)?;
    let is_short = rest.len() - after.len() == 1;
    (is_short || len >= 254).then_some((len, after))
}

/// Reads fields and values of a zipmap; None if it is corrupt.
pub fn from_zipmap(bytes: &[u8]) -> Option<Listpack> {
    let (&count, rest) = bytes.split_first()?;
    let (last, mut rest) = rest.split_last().map(|(last, rest)| (*last, rest))?;
    let (mut listpack, mut pairs) = (Listpack::new(), 0usize);
    while !rest.is_empty() {
        let (len, after) = zipmap_length(rest)?;
        let (field, after) = after.split_at_checked(len)?;
        let (len, after) = zipmap_length(after)?;
        let (&free, after) = after.split_first()?;
        let (value, after) = after.split_at_checked(len)?;
        rest = after.get(usize::from(free)..)?;
        listpack.push_all([field, value]);
        pairs += 1;
    }
    // 254 means that the number of pairs is not stated.
    (last == END && (count == 254 || usize::from(count) == pairs)).then_some(listpack)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ziplist(entries: &[&[u8]]) -> Vec<u8> {
        let (mut body, mut previous) = (Vec::new(), 0);
        let mut tail = HEADER;
        for entry in entries {
            tail = HEADER + body.len();
            body.push(previous as u8);
            body.extend_from_slice(entry);
            previous = 1 + entry.len();
        }
        let mut bytes = ((HEADER + body.len() + 1) as u32).to_le_bytes().to_vec();
        bytes.extend_from_slice(&(tail as u32).to_le_bytes());
        bytes.extend_from_slice(&(entries.len() as u16).to_le_bytes());
        bytes.extend_from_slice(&body);
        bytes.push(END);
        bytes
    }

    #[test]
    fn every_form_of_an_entry() {
        let entries: [&[u8]; 9] = [
            b"\x03abc",
            b"\x40\x02de",
            b"\x80\0\0\0\x01f",
            b"\xc0\x18\xfc",
            b"\xd0\0\0\0\x80",
            b"\xe0\xff\xff\xff\xff\xff\xff\xff\x7f",
            b"\xf0\x01\0\x80",
            b"\xfe\x80",
            b"\xf1",
        ];
        let listpack = from_ziplist(&ziplist(&entries)).expect("valid");
        let texts: Vec<String> = listpack.iter().map(|item| String::from_utf8(item.to_vec()).unwrap()).collect();
        let expected = ["abc", "de", "f", "-1000", "-2147483648", "9223372036854775807", "-8388607", "-128", "0"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn a_ziplist_with_any_byte_missing_is_corrupt() {
        let bytes = ziplist(&[b"\x03abc", b"\xc0\x18\xfc"]);
        for at in 0..bytes.len() {
            let mut less = bytes.clone();
            less.remove(at);
            assert!(from_ziplist(&less).is_none(), "{at}");
        }
        let mut other = bytes.clone();
        other[HEADER + 5] = 4;
        assert!(from_ziplist(&other).is_none(), "a previous length that is not so");
    }

    #[test]
    fn zipmaps() {
        let listpack = from_zipmap(b"\x02\x01a\x01\x002\x01b\x02\x01xy?\xff").expect("valid");
        assert_eq!(listpack, [&b"a"[..], b"2", b"b", b"xy"].into_iter().collect());
        let overlong = b"\x01\xfe\x01\0\0\0a\x01\0x\xff";
        for bad in [
            &b""[..],
            overlong,
            b"\x01",
            b"\x01\xff",
            b"\x01\x01a\x01\x01x\xff",
            b"\x01\x01a\xff",
            b"\0\x01a\x01\0x\xfe",
        ] {
            assert!(from_zipmap(bad).is_none(), "{bad:?}");
        }
    }
}
