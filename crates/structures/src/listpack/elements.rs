//! The elements of a listpack, wherever its bytes lie.
//!
//! A small collection may lie in the block of something else, its key's for example. It is a listpack there without the
//! length with which it begins, because the other block knows how long it is:
//!
//! ```text
//!  0           2                                    len - 1
//!  +-----------+-----------+-----+-----------+-------+
//!  | count u16 | element 0 | ... | element n |  ff   |      the bytes of `Listpack::body`
//!  +-----------+-----------+-----+-----------+-------+
//! ```
//!
//! This is for reading only; a caller that changes it makes a [`Listpack`](super::Listpack) of it and stores that one's
//! body.
//!
//! Asserted by tests: a body and its listpack show the same elements.

use super::encoding::{END, Item, Read, read};
use super::{Iter, UNCOUNTED};

/// Bytes of the count.
const COUNT: usize = 2;

/// The elements of a listpack that is not owned.
#[derive(Clone, Copy, Debug)]
pub struct Elements<'a> {
    count: usize,
    elements: &'a [u8],
}

impl<'a> Elements<'a> {
    /// Makes the elements of a [`Listpack::body`](super::Listpack::body). From any other bytes some elements may be
    /// missing.
    #[inline]
    pub fn of(body: &'a [u8]) -> Self {
        let (count, elements) = body.split_first_chunk::<COUNT>().unwrap_or((&[0; COUNT], &[]));
        Elements {
            count: u16::from_le_bytes(*count).into(),
            elements: elements.strip_suffix(&[END]).unwrap_or(elements),
        }
    }

    /// Returns the number of elements. Takes a constant time below 65535 of them.
    #[inline]
    pub fn len(self) -> usize {
        if self.count < UNCOUNTED { self.count } else { self.iter().count() }
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.elements.is_empty()
    }

    /// Returns the elements, from the front.
    #[inline]
    pub fn iter(self) -> Iter<'a> {
        Iter { elements: self.elements }
    }

    /// Returns the elements from the first on that equals `bytes` among every (`skip` + 1)-th one.
    #[inline]
    pub fn find(self, bytes: &[u8], skip: usize) -> Option<Iter<'a>> {
        find(self.elements, bytes, skip).map(|at| Iter { elements: &self.elements[at..] })
    }
}

/// Returns the beginning of the first element equal to `bytes` among every (`skip` + 1)-th one of these.
pub(super) fn find(elements: &[u8], bytes: &[u8], skip: usize) -> Option<usize> {
    let wanted = Item::of(bytes);
    let (mut at, mut skipped) = (0, skip);
    while let Some(Read { item, size, .. }) = read(&elements[at..]) {
        if skipped == skip {
            let same = match (item, wanted) {
                (Item::Int(a), Item::Int(b)) => a == b,
                (Item::Bytes(a), _) => a == bytes,
                _ => false,
            };
            if same {
                return Some(at);
            }
            skipped = 0;
        } else {
            skipped += 1;
        }
        at += size;
    }
    None
}
