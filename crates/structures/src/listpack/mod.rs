//! A listpack: elements (byte strings) one after the other in one run of bytes.
//!
//! Small lists, hashes, sets and sorted sets are listpacks, in exactly the bytes in which Redis 7 and Valkey hold them
//! and write them to disk:
//!
//! ```text
//!  0                4           6                                     len - 1
//!  +----------------+-----------+-----------+-----+-----------+-------+
//!  | len, u32 LE    | count u16 | element 0 | ... | element n |  ff   |
//!  +----------------+-----------+-----------+-----+-----------+-------+
//!                                \ head | string | back length /            see `encoding`
//! ```
//!
//! A count of 65535 means that the elements must be counted. Elements that are canonical decimal integers are stored as
//! such ([`Item::Int`]). The back lengths let one walk from the end.
//!
//! A [`Pos`] is the beginning of an element. It stays good until something before it, or the element itself, is
//! changed; after that it may point at anything, and reading there may panic (but nothing worse).
//!
//! # Invariants (asserted by `from_bytes`, and after every operation of the property tests)
//! - The bytes are a valid listpack: elements end where the next begins, back lengths agree, the count is right.

mod elements;
mod encoding;
pub(crate) mod forward_only;
#[cfg(test)]
mod tests;

pub use self::elements::Elements;
pub use self::encoding::Item;

use self::encoding::{END, Frame, Read, checked_size, read, size_before};
use crate::thin_bytes::ThinBytes;
use std::fmt;

/// Bytes before the first element.
const HEADER: usize = 6;
const COUNT_AT: usize = 4;
/// This count, and everything above, is not stored.
const UNCOUNTED: usize = u16::MAX as usize;
/// No listpack grows beyond this many bytes by [`Listpack::has_room`].
const SAFE_LEN: usize = 1 << 30;

/// An owned listpack: one thin pointer.
#[derive(Clone)]
pub struct Listpack {
    block: ThinBytes,
}

/// Beginning of an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pos(u32);

impl Pos {
    fn at(self) -> usize {
        self.0 as usize
    }
}

/// The bytes of a listpack, put together from the front.
#[derive(Debug)]
pub struct Builder {
    bytes: Vec<u8>,
    count: usize,
}

impl Builder {
    /// Makes a builder. `room`: bytes that the elements will take, about.
    pub fn with_room(room: usize) -> Self {
        let mut bytes = Vec::with_capacity(HEADER + room + 1);
        bytes.resize(HEADER, 0);
        Builder { bytes, count: 0 }
    }

    /// Adds an element at the end.
    #[inline]
    pub fn push(&mut self, item: Item<'_>) {
        let frame = Frame::of(item);
        self.bytes.extend_from_slice(frame.head());
        if let Item::Bytes(bytes) = item {
            self.bytes.extend_from_slice(bytes);
        }
        self.bytes.extend_from_slice(frame.back());
        self.count += 1;
    }

    /// Returns the bytes that [`Listpack::as_bytes`] returns of the same elements.
    ///
    /// # Panics
    /// When it is of 4 GiB or more.
    pub fn finish(mut self) -> Vec<u8> {
        self.bytes.push(END);
        let len = u32::try_from(self.bytes.len()).expect("a listpack is shorter than 4 GiB");
        self.bytes[..COUNT_AT].copy_from_slice(&len.to_le_bytes());
        self.bytes[COUNT_AT..HEADER].copy_from_slice(&(self.count.min(UNCOUNTED) as u16).to_le_bytes());
        self.bytes
    }
}

/// The bytes are malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Corrupt;

/// Reading.
impl Listpack {
    /// Bytes of one without elements.
    pub const EMPTY_LEN: usize = HEADER + 1;

    /// Makes an empty listpack.
    pub fn new() -> Self {
        let mut block = ThinBytes::zeroed(HEADER + 1);
        if let Some(last) = block.body_mut().last_mut() {
            *last = END;
        }
        Listpack { block }
    }

    /// Makes one for about `bytes` bytes, to be filled from the front.
    pub fn with_room_in_front(bytes: usize) -> Self {
        let mut block = ThinBytes::roomy(HEADER + 1, bytes);
        if let Some(last) = block.body_mut().last_mut() {
            *last = END;
        }
        Listpack { block }
    }

    /// Takes over bytes from elsewhere, none of which are trusted.
    ///
    /// # Errors
    /// The bytes are no listpack: a length, an element or the count is wrong.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Corrupt> {
        Listpack::check(bytes)?;
        Ok(Listpack { block: ThinBytes::of(&bytes[crate::thin_bytes::PREFIX..]) })
    }

    /// Returns the elements of bytes from elsewhere, none of which are trusted.
    ///
    /// # Errors
    /// As [`from_bytes`](Self::from_bytes).
    pub fn check(bytes: &[u8]) -> Result<Elements<'_>, Corrupt> {
        let stated = bytes.first_chunk().map(|len| u32::from_le_bytes(*len) as usize);
        if bytes.len() <= HEADER || stated != Some(bytes.len()) {
            return Err(Corrupt);
        }
        let (mut at, mut count) = (HEADER, 0);
        while bytes[at] != END {
            // The terminator is no part of an element.
            at += checked_size(&bytes[at..bytes.len() - 1]).ok_or(Corrupt)?;
            count += 1;
        }
        let stated = usize::from(u16::from_le_bytes([bytes[COUNT_AT], bytes[COUNT_AT + 1]]));
        if at != bytes.len() - 1 || (stated != count && stated != UNCOUNTED) {
            return Err(Corrupt);
        }
        Ok(Elements::of(&bytes[crate::thin_bytes::PREFIX..]))
    }

    /// Makes a listpack of the bytes of a [`body`](Self::body).
    ///
    /// # Panics
    /// When there are not even the bytes of an empty one.
    pub fn from_body(body: &[u8]) -> Self {
        assert!(body.len() > HEADER - crate::thin_bytes::PREFIX, "a body has a count and an end");
        Listpack { block: ThinBytes::of(body) }
    }

    /// Returns the bytes behind the length, which are enough where the length is stored elsewhere.
    #[inline]
    pub fn body(&self) -> &[u8] {
        &self.block.bytes()[crate::thin_bytes::PREFIX..]
    }

    /// Returns the elements, for reading.
    #[inline]
    pub fn elements(&self) -> Elements<'_> {
        Elements::of(self.body())
    }

    /// Returns the whole listpack, as it goes to disk.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        self.block.bytes()
    }

    /// Returns the number of elements. Takes a constant time below 65535 of them.
    #[inline]
    pub fn len(&self) -> usize {
        let count = self.stored_count();
        if count < UNCOUNTED { count } else { self.iter().count() }
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.block.len() == HEADER + 1
    }

    /// Returns the length of [`as_bytes`](Self::as_bytes).
    #[inline]
    pub fn byte_len(&self) -> usize {
        self.block.len()
    }

    /// Returns the bytes on the heap.
    pub fn memory_usage(&self) -> usize {
        self.block.allocated()
    }

    /// Returns the bytes that these would take as an element.
    pub fn entry_size(bytes: &[u8]) -> usize {
        Self::item_size(Item::of(bytes))
    }

    /// Returns the bytes that this takes as an element.
    pub fn item_size(item: Item<'_>) -> usize {
        encoding::entry_size(item)
    }

    /// Whether `bytes` more bytes leave it below the length (1 GiB) up to which listpacks are safe to be extended.
    pub fn has_room(&self, bytes: usize) -> bool {
        self.byte_len().checked_add(bytes).is_some_and(|len| len <= SAFE_LEN)
    }

    /// Returns the place of the first element.
    #[inline]
    pub fn first(&self) -> Option<Pos> {
        (!self.is_empty()).then_some(Pos(HEADER as u32))
    }

    /// Returns the place of the last element.
    #[inline]
    pub fn last(&self) -> Option<Pos> {
        self.before(self.end())
    }

    /// Returns the element after this one.
    #[inline]
    pub fn next(&self, pos: Pos) -> Option<Pos> {
        self.pos_at(pos.at() + self.read(pos).size)
    }

    /// Returns the element before this one.
    #[inline]
    pub fn prev(&self, pos: Pos) -> Option<Pos> {
        self.before(pos.at())
    }

    /// Returns the element at a place.
    #[inline]
    pub fn at(&self, pos: Pos) -> Item<'_> {
        self.read(pos).item
    }

    /// Returns the element at an index; -1 is the last one.
    pub fn seek(&self, index: isize) -> Option<Pos> {
        let count = self.stored_count();
        let mut steps = index.unsigned_abs();
        let from_end = index < 0;
        if count < UNCOUNTED {
            // From the nearer end.
            let forward = if from_end { count.checked_sub(steps)? } else { steps };
            if forward >= count {
                return None;
            }
            if forward > count / 2 {
                return self.walk_back(count - forward);
            }
            steps = forward;
        } else if from_end {
            return self.walk_back(steps);
        }
        let mut pos = self.first()?;
        for _ in 0..steps {
            pos = self.next(pos)?;
        }
        Some(pos)
    }

    /// Returns the element that is `steps`, at least one, before the end.
    fn walk_back(&self, steps: usize) -> Option<Pos> {
        let mut at = self.end();
        for _ in 0..steps {
            at = self.before(at)?.at();
        }
        Some(Pos(at as u32))
    }

    /// Returns the first element equal to `bytes` among every (`skip` + 1)-th one, from the first on.
    pub fn find(&self, bytes: &[u8], skip: usize) -> Option<Pos> {
        self.find_from(self.first()?, bytes, skip)
    }

    /// Returns the first element equal to `bytes` among every (`skip` + 1)-th one, from `pos` on.
    pub fn find_from(&self, pos: Pos, bytes: &[u8], skip: usize) -> Option<Pos> {
        elements::find(&self.as_bytes()[pos.at()..], bytes, skip).map(|at| Pos((pos.at() + at) as u32))
    }

    /// Returns the elements in order, from either end.
    #[inline]
    pub fn iter(&self) -> Iter<'_> {
        self.iter_from(Pos(HEADER as u32))
    }

    /// Returns the elements from `pos` on.
    #[inline]
    pub fn iter_from(&self, pos: Pos) -> Iter<'_> {
        Iter { elements: &self.as_bytes()[pos.at()..self.end()] }
    }

    #[inline]
    fn stored_count(&self) -> usize {
        let bytes = self.as_bytes();
        u16::from_le_bytes([bytes[COUNT_AT], bytes[COUNT_AT + 1]]).into()
    }

    /// Returns the place of the terminator.
    #[inline]
    fn end(&self) -> usize {
        self.block.len() - 1
    }

    #[inline]
    fn pos_at(&self, at: usize) -> Option<Pos> {
        (at < self.end()).then_some(Pos(at as u32))
    }

    #[inline]
    fn before(&self, at: usize) -> Option<Pos> {
        let size = size_before(&self.as_bytes()[HEADER..at])?;
        Some(Pos((at - size) as u32))
    }

    #[inline]
    fn read(&self, pos: Pos) -> Read<'_> {
        read(&self.as_bytes()[pos.at()..]).expect("a position is that of an element")
    }
}

/// Changes. They panic if the listpack would become longer than 4 GiB: callers whose elements add up call
/// [`has_room`](Listpack::has_room) first.
impl Listpack {
    /// Adds an element at the end.
    pub fn push_back(&mut self, bytes: &[u8]) {
        self.push_item(Item::of(bytes));
    }

    /// Adds an element that is known to be an integer, or known not to be one.
    pub fn push_item(&mut self, item: Item<'_>) {
        self.push_items(&[item]);
    }

    /// Adds several elements at the end with one allocation.
    pub fn push_all<const N: usize>(&mut self, elements: [&[u8]; N]) {
        self.push_items(&elements.map(Item::of));
    }

    /// Adds any number of elements at the end with one allocation.
    #[inline]
    pub fn push_items(&mut self, items: &[Item<'_>]) {
        let added: usize = items.iter().map(|item| encoding::entry_size(*item)).sum();
        let count = self.stored_count();
        let end = self.end();
        self.block.resize(end + added + 1);
        let body = self.block.body_mut();
        let mut at = end - crate::thin_bytes::PREFIX;
        for item in items {
            at += encoding::write(&mut body[at..], *item);
        }
        body[at] = END;
        self.store_count(count.saturating_add(items.len()).min(UNCOUNTED));
    }

    /// Puts an integer in the place of the element at `pos`.
    pub fn set_int(&mut self, pos: Pos, n: i64) {
        let size = self.read(pos).size;
        if size == encoding::entry_size(Item::Int(n)) {
            let frame = Frame::of(Item::Int(n));
            let at = pos.at() - crate::thin_bytes::PREFIX;
            let body = self.block.body_mut();
            body[at..at + frame.head().len()].copy_from_slice(frame.head());
        } else {
            self.splice(pos.at(), size, 1, &[Item::Int(n)]);
        }
    }

    /// Adds an element at the front. The others do not move each time: see [`ThinBytes`].
    pub fn push_front(&mut self, bytes: &[u8]) {
        let item = Item::of(bytes);
        let count = match self.stored_count() {
            UNCOUNTED => UNCOUNTED,
            known => known + 1,
        };
        encoding::write(self.block.open_front(HEADER, encoding::entry_size(item)), item);
        self.store_count(count);
    }

    /// Removes the first element; the others do not move each time.
    pub fn pop_front(&mut self) {
        let Some(first) = self.first() else { return };
        let size = self.read(first).size;
        let count = match self.stored_count() {
            UNCOUNTED => UNCOUNTED,
            known => known - 1,
        };
        self.block.close_front(HEADER, size);
        self.store_count(count);
    }

    /// Frees the room that changes at the front have left there.
    pub fn trim(&mut self) {
        self.block.trim();
    }

    /// Inserts an element, which is at `pos` afterwards.
    pub fn insert_before(&mut self, pos: Pos, bytes: &[u8]) {
        self.splice(pos.at(), 0, 0, &[Item::of(bytes)]);
    }

    /// Inserts an element, and returns its place.
    pub fn insert_after(&mut self, pos: Pos, bytes: &[u8]) -> Pos {
        let at = pos.at() + self.read(pos).size;
        self.splice(at, 0, 0, &[Item::of(bytes)]);
        Pos(at as u32)
    }

    /// Puts an element in the place of the one at `pos`.
    pub fn replace(&mut self, pos: Pos, bytes: &[u8]) {
        let (size, item) = (self.read(pos).size, Item::of(bytes));
        if encoding::entry_size(item) == size {
            encoding::write(&mut self.block.body_mut()[pos.at() - crate::thin_bytes::PREFIX..], item);
        } else {
            self.splice(pos.at(), size, 1, &[item]);
        }
    }

    /// Removes an element, and returns the place of the one after it.
    pub fn remove(&mut self, pos: Pos) -> Option<Pos> {
        self.remove_many(pos, 1)
    }

    /// Removes up to `count` elements from `pos` on; returns the place of the one after them.
    pub fn remove_many(&mut self, pos: Pos, count: usize) -> Option<Pos> {
        let mut rest = self.iter_from(pos);
        let before = rest.elements.len();
        let removed = rest.by_ref().take(count).count();
        let size = before - rest.elements.len();
        self.splice(pos.at(), size, removed, &[]);
        self.pos_at(pos.at())
    }

    /// Removes up to `count` elements from an index on; -1 is the last one.
    pub fn remove_range(&mut self, index: isize, count: usize) {
        if let Some(pos) = self.seek(index) {
            self.remove_many(pos, count);
        }
    }

    /// Takes the elements from `index` on away and returns them.
    pub fn split_off(&mut self, index: usize) -> Listpack {
        let mut tail = Listpack::new();
        let len = self.len();
        if index >= len {
            return tail;
        }
        let Some(pos) = isize::try_from(index).ok().and_then(|index| self.seek(index)) else { return tail };
        let end = self.end();
        tail.block.splice(HEADER, 0, &[&self.as_bytes()[pos.at()..end]]);
        tail.store_count(len - index);
        self.block.splice(pos.at(), end - pos.at(), &[]);
        self.store_count(index);
        tail
    }

    /// Adds the elements of `other` at the end.
    pub fn append(&mut self, other: &Listpack) {
        let len = self.len() + other.len();
        let end = self.end();
        self.block.splice(end, 0, &[&other.as_bytes()[HEADER..other.end()]]);
        self.store_count(len);
    }

    /// Puts `items` in the place of `removed` elements, which are the `size` bytes from `at` on.
    fn splice<const N: usize>(&mut self, at: usize, size: usize, removed: usize, items: &[Item<'_>; N]) {
        let frames = items.map(Frame::of);
        let mut parts: [[&[u8]; 3]; N] = [[&[]; 3]; N];
        for ((parts, item), frame) in parts.iter_mut().zip(items).zip(&frames) {
            let string: &[u8] = if let Item::Bytes(bytes) = item { bytes } else { &[] };
            *parts = [frame.head(), string, frame.back()];
        }
        // The count of a long listpack is computed again only when it is needed.
        let count = match self.stored_count() {
            UNCOUNTED => UNCOUNTED,
            known => known - removed + N,
        };
        self.block.splice(at, size, parts.as_flattened());
        self.store_count(count);
    }

    fn store_count(&mut self, count: usize) {
        let count = count.min(UNCOUNTED) as u16;
        self.block.body_mut()[..2].copy_from_slice(&count.to_le_bytes());
    }
}

impl Default for Listpack {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for Listpack {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl fmt::Debug for Listpack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl<B: AsRef<[u8]>> FromIterator<B> for Listpack {
    fn from_iter<I: IntoIterator<Item = B>>(elements: I) -> Self {
        let mut listpack = Listpack::new();
        elements.into_iter().for_each(|bytes| listpack.push_back(bytes.as_ref()));
        listpack
    }
}

impl<'a> IntoIterator for &'a Listpack {
    type Item = Item<'a>;
    type IntoIter = Iter<'a>;

    fn into_iter(self) -> Iter<'a> {
        self.iter()
    }
}

/// An iterator over elements.
#[derive(Clone, Debug)]
pub struct Iter<'a> {
    /// Elements that are left.
    elements: &'a [u8],
}

impl<'a> Iterator for Iter<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        let Read { item, size, .. } = read(self.elements)?;
        self.elements = &self.elements[size..];
        Some(item)
    }
}

impl<'a> DoubleEndedIterator for Iter<'a> {
    #[inline]
    fn next_back(&mut self) -> Option<Item<'a>> {
        let (rest, last) = self.elements.split_at(self.elements.len() - size_before(self.elements)?);
        self.elements = rest;
        Some(read(last)?.item)
    }
}

/// Reads any bytes: an accepted listpack can be read from both ends and changed.
#[cfg(any(test, feature = "fuzzing"))]
pub fn fuzz(data: &[u8]) {
    let Ok(mut listpack) = Listpack::from_bytes(data) else { return };
    assert_eq!(listpack.as_bytes(), data);
    let forward: Vec<Vec<u8>> = listpack.iter().map(Item::to_vec).collect();
    let mut backward: Vec<Vec<u8>> = listpack.iter().rev().map(Item::to_vec).collect();
    backward.reverse();
    assert_eq!(forward, backward);
    assert_eq!(listpack.len(), forward.len());
    for (index, element) in forward.iter().enumerate() {
        let pos = listpack.seek(index as isize).expect("an element at every index");
        assert_eq!(listpack.at(pos), element[..]);
        assert!(listpack.find(element, 0).is_some_and(|found| found <= pos));
    }
    let mut front = listpack.clone();
    for element in &forward {
        front.push_front(element);
        front.pop_front();
        front.push_front(element);
    }
    assert_eq!(front.len(), 2 * forward.len());
    for element in forward.iter().rev().chain(&forward) {
        assert_eq!(front.at(front.first().expect("an element is left")), element[..]);
        front.pop_front();
    }
    assert!(front.is_empty());
    let tail = listpack.split_off(forward.len() / 2);
    listpack.append(&tail);
    assert_eq!(listpack.as_bytes()[HEADER..], data[HEADER..]);
    while let Some(pos) = listpack.last() {
        listpack.replace(pos, b"replaced");
        listpack.remove(pos);
    }
    assert_eq!(listpack.byte_len(), HEADER + 1);
}
