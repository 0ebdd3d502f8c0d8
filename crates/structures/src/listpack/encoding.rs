//! One element of a listpack: the form in which its bytes are written and read.
//!
//! ```text
//!  first byte   then                 element
//!  0xxxxxxx                          integer 0..=127
//!  10xxxxxx     x bytes              string of up to 63
//!  110xxxxx     1 byte               13-bit integer, big end first
//!  1110xxxx     1 byte, x bytes      string of up to 4095, length with its big end first
//!  f0           4 bytes, x bytes     string, length as u32 LE
//!  f1 f2 f3 f4  2, 3, 4, 8 bytes     integer, little endian
//!  ff                                the end of the listpack
//! ```
//!
//! Behind these bytes stands their number once more, the *back length*, in groups of 7 bits to be read from the last
//! byte backwards: the last byte holds the lowest group, and every byte but the first one has its top bit set.

use crate::decimal;

/// The byte behind the last element.
pub(super) const END: u8 = 0xff;

/// An element as it is read.
#[derive(Clone, Copy, Debug)]
pub enum Item<'a> {
    /// A string.
    Bytes(&'a [u8]),
    /// Stands for its decimal digits.
    Int(i64),
}

impl<'a> Item<'a> {
    /// Returns the element that these bytes become.
    #[inline]
    pub fn of(bytes: &'a [u8]) -> Self {
        decimal::parse(bytes).map_or(Item::Bytes(bytes), Item::Int)
    }

    /// Returns the bytes; those of an integer are written into `digits`.
    #[inline]
    pub fn bytes<'b>(self, digits: &'b mut itoa::Buffer) -> &'b [u8]
    where
        'a: 'b,
    {
        match self {
            Item::Bytes(bytes) => bytes,
            Item::Int(n) => digits.format(n).as_bytes(),
        }
    }

    /// Returns the length of the bytes.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(self) -> usize {
        self.bytes(&mut itoa::Buffer::new()).len()
    }

    /// Returns a copy of the bytes.
    pub fn to_vec(self) -> Vec<u8> {
        self.bytes(&mut itoa::Buffer::new()).to_vec()
    }
}

/// Compares the bytes, in whichever of the two ways they are held.
impl PartialEq for Item<'_> {
    fn eq(&self, other: &Item<'_>) -> bool {
        match (self, other) {
            (Item::Bytes(a), Item::Bytes(b)) => a == b,
            (Item::Int(a), Item::Int(b)) => a == b,
            (Item::Bytes(bytes), Item::Int(n)) | (Item::Int(n), Item::Bytes(bytes)) => {
                decimal::parse(bytes) == Some(*n)
            }
        }
    }
}

impl Eq for Item<'_> {}

impl PartialEq<[u8]> for Item<'_> {
    fn eq(&self, other: &[u8]) -> bool {
        match self {
            Item::Bytes(bytes) => *bytes == other,
            Item::Int(n) => decimal::parse(other) == Some(*n),
        }
    }
}

/// The bytes of an element around its string: before it and behind it.
pub(super) struct Frame {
    head: [u8; 9],
    head_len: u8,
    back: [u8; 5],
    back_len: u8,
}

impl Frame {
    /// Returns the frame of an element; an integer is all in the part before.
    pub(super) fn of(item: Item<'_>) -> Self {
        let mut head = [0; 9];
        let (head_len, body_len) = match item {
            Item::Int(n) => (write_int(&mut head, n), 0),
            Item::Bytes(bytes) => (write_len(&mut head, bytes.len()), bytes.len()),
        };
        let mut back = [0; 5];
        let back_len = write_back_len(&mut back, head_len + body_len);
        Frame { head, head_len: head_len as u8, back, back_len: back_len as u8 }
    }

    pub(super) fn head(&self) -> &[u8] {
        &self.head[..self.head_len.into()]
    }

    pub(super) fn back(&self) -> &[u8] {
        &self.back[..self.back_len.into()]
    }
}

/// Returns the bytes that an element takes.
#[inline]
pub(super) fn entry_size(item: Item<'_>) -> usize {
    let len = match item {
        Item::Int(n) => write_int(&mut [0; 9], n),
        Item::Bytes(bytes) => head_size(bytes.len()) + bytes.len(),
    };
    len + back_len_size(len)
}

/// Writes an element to the beginning of `to`, which has room for it; returns how many bytes it took.
#[inline]
pub(super) fn write(to: &mut [u8], item: Item<'_>) -> usize {
    let len = match item {
        Item::Bytes(bytes) if bytes.len() < 64 => {
            to[0] = 0x80 | bytes.len() as u8;
            to[1..=bytes.len()].copy_from_slice(bytes);
            1 + bytes.len()
        }
        Item::Bytes(bytes) if bytes.len() < 4096 => {
            to[..2].copy_from_slice(&(0xe000 | bytes.len() as u16).to_be_bytes());
            to[2..2 + bytes.len()].copy_from_slice(bytes);
            2 + bytes.len()
        }
        Item::Bytes(bytes) => {
            let mut head = [0; 9];
            let size = write_len(&mut head, bytes.len());
            to[..size].copy_from_slice(&head[..size]);
            to[size..size + bytes.len()].copy_from_slice(bytes);
            size + bytes.len()
        }
        Item::Int(n) => {
            let mut head = [0; 9];
            let size = write_int(&mut head, n);
            to[..size].copy_from_slice(&head[..size]);
            size
        }
    };
    if len <= 127 {
        to[len] = len as u8;
        return len + 1;
    }
    let mut back = [0; 5];
    let size = write_back_len(&mut back, len);
    to[len..len + size].copy_from_slice(&back[..size]);
    len + size
}

fn head_size(len: usize) -> usize {
    match len {
        0..64 => 1,
        64..4096 => 2,
        _ => 5,
    }
}

/// Returns how many bytes were written.
pub(super) fn write_int(to: &mut [u8; 9], n: i64) -> usize {
    let width = match n {
        0..=127 => {
            to[0] = n as u8;
            return 1;
        }
        -4096..=4095 => {
            let bits = (n as u16) & 0x1fff;
            to[..2].copy_from_slice(&(0xc000 | bits).to_be_bytes());
            return 2;
        }
        -0x8000..=0x7fff => 2,
        -0x80_0000..=0x7f_ffff => 3,
        -0x8000_0000..=0x7fff_ffff => 4,
        _ => 8,
    };
    to[0] = 0xf1 + if width == 8 { 3 } else { width as u8 - 2 };
    to[1..=width].copy_from_slice(&n.to_le_bytes()[..width]);
    1 + width
}

/// Returns how many bytes were written.
pub(super) fn write_len(to: &mut [u8; 9], len: usize) -> usize {
    if len < 64 {
        to[0] = 0x80 | len as u8;
        1
    } else if len < 4096 {
        to[..2].copy_from_slice(&(0xe000 | len as u16).to_be_bytes());
        2
    } else {
        to[0] = 0xf0;
        let len = u32::try_from(len).expect("an element is shorter than 4 GiB");
        to[1..5].copy_from_slice(&len.to_le_bytes());
        5
    }
}

/// Returns how many bytes were written. From two bytes on, each size begins one below the power of 128 that it could
/// begin with.
pub(super) fn write_back_len(to: &mut [u8; 5], len: usize) -> usize {
    if len < 0x80 {
        to[0] = len as u8;
        return 1;
    }
    let size = back_len_size(len);
    for (at, byte) in to[..size].iter_mut().enumerate() {
        let group = (len >> (7 * (size - 1 - at))) as u8 & 0x7f;
        *byte = if at == 0 { group } else { group | 0x80 };
    }
    size
}

pub(super) fn back_len_size(len: usize) -> usize {
    match len {
        0..=127 => 1,
        128..16_383 => 2,
        16_383..2_097_151 => 3,
        2_097_151..268_435_455 => 4,
        _ => 5,
    }
}

/// An element read from its first byte.
pub(super) struct Read<'a> {
    /// The element's value.
    pub item: Item<'a>,
    /// Bytes of the element before its back length.
    pub len: usize,
    /// Bytes of the element, its back length included.
    pub size: usize,
}

/// Returns the element at the beginning of `bytes`. None where there is none: at the end, or where the bytes are not a
/// listpack's.
#[inline]
pub(super) fn read(bytes: &[u8]) -> Option<Read<'_>> {
    let first = *bytes.first()?;
    let (item, len) = match first {
        0..=0x7f => (Item::Int(first.into()), 1),
        0x80..=0xbf => string(bytes, 1, (first & 0x3f).into())?,
        0xc0..=0xdf => {
            let bits = u16::from_be_bytes([first, *bytes.get(1)?]);
            // The sign is bit 12.
            (Item::Int(i64::from((bits << 3) as i16 >> 3)), 2)
        }
        0xe0..=0xef => string(bytes, 2, usize::from(first & 0xf) << 8 | usize::from(*bytes.get(1)?))?,
        0xf0 => string(bytes, 5, u32::from_le_bytes(bytes.get(1..5)?.try_into().ok()?) as usize)?,
        0xf1..=0xf4 => {
            let width = if first == 0xf4 { 8 } else { usize::from(first - 0xf1) + 2 };
            let mut wide = [0; 8];
            // At the upper end, so that the shift back brings the sign along.
            wide[8 - width..].copy_from_slice(bytes.get(1..=width)?);
            (Item::Int(i64::from_le_bytes(wide) >> (8 * (8 - width))), 1 + width)
        }
        _ => return None,
    };
    Some(Read { item, len, size: len + back_len_size(len) })
}

#[inline]
fn string(bytes: &[u8], head: usize, len: usize) -> Option<(Item<'_>, usize)> {
    let end = head.checked_add(len)?;
    Some((Item::Bytes(bytes.get(head..end)?), end))
}

/// Returns the bytes of the element that `bytes` ends with, its back length included.
#[inline]
pub(super) fn size_before(bytes: &[u8]) -> Option<usize> {
    let mut len = 0usize;
    for (at, byte) in bytes.iter().rev().take(5).enumerate() {
        len |= usize::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Some(len + back_len_size(len));
        }
    }
    None
}

/// Returns the size of the element with which `bytes` begin, if its back length agrees.
pub(super) fn checked_size(bytes: &[u8]) -> Option<usize> {
    let Read { len, size, .. } = read(bytes)?;
    if len < 0x80 {
        return (usize::from(*bytes.get(len)?) == len).then_some(size);
    }
    let mut back = [0; 5];
    let back_len = write_back_len(&mut back, len);
    (bytes.get(len..size)? == &back[..back_len]).then_some(size)
}
