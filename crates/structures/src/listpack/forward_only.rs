//! Forward-only elements: a listpack's elements without their back lengths, for data that are read from the beginning
//! and seldom changed.
//!
//! ```text
//!  +----------+----------+-----+
//!  | head     | head     | ... |      heads as in `encoding`, each with its string behind it
//!  | string   | string   |     |
//!  +----------+----------+-----+
//! ```
//!
//! Asserted by the test: written elements are read again and have the announced size; a [`Packer`] makes a listpack of
//! them.

use super::encoding::{self, END, Item, Read, back_len_size, read, write_int, write_len};
use super::{COUNT_AT, HEADER, UNCOUNTED};

/// Elements that are left to be read. Bytes that are no elements may show fewer than expected.
#[derive(Clone, Copy, Debug)]
pub struct ForwardOnly<'a> {
    bytes: &'a [u8],
}

impl<'a> ForwardOnly<'a> {
    /// Makes the elements of these bytes.
    #[inline]
    pub fn of(bytes: &'a [u8]) -> Self {
        ForwardOnly { bytes }
    }

    /// Returns the bytes of the unread rest.
    #[inline]
    pub fn rest(self) -> &'a [u8] {
        self.bytes
    }

    /// Returns the next element, if it is an integer.
    #[inline]
    pub fn int(&mut self) -> Option<i64> {
        if let Item::Int(n) = self.next()? { Some(n) } else { None }
    }
}

impl<'a> Iterator for ForwardOnly<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        let Read { item, len, .. } = read(self.bytes)?;
        self.bytes = &self.bytes[len..];
        Some(item)
    }
}

/// Makes a listpack's bytes of bare elements, at the end of other bytes.
pub struct Packer<'o> {
    out: &'o mut Vec<u8>,
    start: usize,
    count: usize,
}

impl<'o> Packer<'o> {
    /// Begins a listpack behind what `out` holds.
    pub fn new(out: &'o mut Vec<u8>) -> Self {
        let start = out.len();
        out.extend_from_slice(&[0; HEADER]);
        Packer { out, start, count: 0 }
    }

    /// Adds an integer.
    pub fn push(&mut self, n: i64) {
        let mut bytes = [0; 9];
        let len = write_int(&mut bytes, n);
        self.push_bytes(&bytes[..len]);
    }

    /// Adds elements; returns how many there were.
    #[inline]
    pub fn push_all(&mut self, elements: ForwardOnly<'_>) -> usize {
        let (before, mut rest) = (self.count, elements.bytes);
        while let Some(Read { len, .. }) = read(rest) {
            let (element, after) = rest.split_at(len);
            self.push_bytes(element);
            rest = after;
        }
        self.count - before
    }

    #[inline]
    fn push_bytes(&mut self, element: &[u8]) {
        // Most elements are a byte or two.
        match *element {
            [one] => self.out.extend_from_slice(&[one, 1]),
            [one, other] => self.out.extend_from_slice(&[one, other, 2]),
            _ => {
                let mut back = [0; 5];
                let size = encoding::write_back_len(&mut back, element.len());
                self.out.extend_from_slice(element);
                self.out.extend_from_slice(&back[..size]);
            }
        }
        self.count += 1;
    }

    /// Writes the frame around the elements.
    ///
    /// # Panics
    /// When the listpack is longer than 4 GiB.
    pub fn finish(self) {
        self.out.push(END);
        let len = u32::try_from(self.out.len() - self.start).expect("a listpack is shorter than 4 GiB");
        let header = &mut self.out[self.start..self.start + HEADER];
        header[..COUNT_AT].copy_from_slice(&len.to_le_bytes());
        header[COUNT_AT..].copy_from_slice(&(self.count.min(UNCOUNTED) as u16).to_le_bytes());
    }
}

/// Returns the bytes that an element takes: bare, and in a listpack.
#[inline]
pub fn sizes(item: Item<'_>) -> (usize, usize) {
    let bare = match item {
        Item::Int(0..=127) => 1,
        Item::Int(n) => write_int(&mut [0; 9], n),
        Item::Bytes(bytes) => write_len(&mut [0; 9], bytes.len()) + bytes.len(),
    };
    (bare, bare + back_len_size(bare))
}

/// Writes an element to the beginning of `to`; returns how many bytes it took.
///
/// # Panics
/// When `to` is shorter than the element.
#[inline]
pub fn write(to: &mut [u8], item: Item<'_>) -> usize {
    let mut head = [0; 9];
    match item {
        Item::Int(n @ 0..=127) => {
            to[0] = n as u8;
            1
        }
        Item::Int(n) => {
            let len = write_int(&mut head, n);
            to[..len].copy_from_slice(&head[..len]);
            len
        }
        Item::Bytes(bytes) => {
            let len = write_len(&mut head, bytes.len());
            to[..len].copy_from_slice(&head[..len]);
            to[len..len + bytes.len()].copy_from_slice(bytes);
            len + bytes.len()
        }
    }
}

/// Returns the bytes that [`write_back`] takes.
#[inline]
pub fn back_size(len: usize) -> usize {
    back_len_size(len)
}

/// Writes a length to the beginning of `to`, as a listpack's back length.
///
/// # Panics
/// When `to` is shorter.
#[inline]
pub fn write_back(to: &mut [u8], len: usize) {
    let mut back = [0; 5];
    let size = encoding::write_back_len(&mut back, len);
    to[..size].copy_from_slice(&back[..size]);
}

/// Returns the bytes of the length at the end of `bytes`, and of its element.
#[inline]
pub fn size_before(bytes: &[u8]) -> Option<usize> {
    encoding::size_before(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listpack::Listpack;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn elements_are_written_and_read(
            numbers in proptest::collection::vec((any::<i64>(), 0..64u32), 0..20),
            lengths in proptest::collection::vec(prop_oneof![0..200usize, 4000..20_000usize], 0..6),
        ) {
            let strings: Vec<Vec<u8>> = lengths.iter().map(|len| vec![b'x'; *len]).collect();
            let mut items: Vec<Item<'_>> = numbers.iter().map(|(n, shift)| Item::Int(n >> shift)).collect();
            items.extend(strings.iter().map(|bytes| Item::Bytes(bytes)));
            let mut bytes = vec![0; 1 << 18];
            let mut at = 0;
            for item in &items {
                let size = write(&mut bytes[at..], *item);
                prop_assert_eq!(sizes(*item), (size, Listpack::item_size(*item)));
                at += size;
            }
            let bare = ForwardOnly::of(&bytes[..at]);
            prop_assert_eq!(bare.collect::<Vec<_>>(), items.clone());
            let mut packed = b"before".to_vec();
            let mut packer = Packer::new(&mut packed);
            prop_assert_eq!(packer.push_all(bare), items.len());
            numbers.iter().for_each(|(n, _)| packer.push(*n));
            packer.finish();
            let packed = Listpack::from_bytes(&packed[6..]).expect("a listpack");
            prop_assert!(packed.iter().eq(items.iter().copied().chain(numbers.iter().map(|(n, _)| Item::Int(*n)))));
            let mut bare = bare;
            let ints = std::iter::from_fn(|| bare.int()).count();
            prop_assert_eq!(ints, numbers.len());
        }
    }
}
