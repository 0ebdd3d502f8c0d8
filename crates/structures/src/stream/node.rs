//! A node of a stream: some hundred entries in one run of bytes.
//!
//! ```text
//!  0         4          8             12             16
//!  +---------+----------+-------------+--------------+-------+----------------+-------+-----+-------+
//!  | len u32 | live u32 | deleted u32 | listpack u32 | width | name 1 .. last | entry | ... | entry |
//!  +---------+----------+-------------+--------------+-------+----------------+-------+-----+-------+
//!
//! entry      | size | flags | ms | seq |          value 1 .. value width           | back |     with SAME_FIELDS
//!            | size | flags | ms | seq | width | name 1 | value 1 | name 2 | ...   | back |     without
//! ```
//!
//! Behind the header are bare elements (see `listpack::bare`). The first entry of a node gives the names of its fields
//! to the node; entries with the same names leave them out. Ids are differences to the node's own id, which is that of
//! its first entry and stands outside. `size` counts the bytes from the flags to the last value, so that one steps over
//! an entry without reading it; `back` is a back length of all before it. A deleted entry stays and is marked; a node
//! whose last live entry is deleted is removed.
//!
//! Other servers and dumps hold the same entries as a listpack, which takes half as much again:
//!
//! ```text
//! master     | live | deleted | width | name 1 .. name width | 0 |
//! entry      | flags | ms | seq | as above ... | elements before this one |
//! ```
//!
//! A node is closed by that form's length. `listpack` is its length without the frame and the first two elements.

use super::Id;
use crate::listpack::forward_only::{self, ForwardOnly, Packer};
use crate::listpack::{Item, Listpack};
use crate::thin_bytes::{PREFIX, ThinBytes};
use smallvec::SmallVec;
use std::fmt;

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

/// Places of the header's numbers behind the length.
const LIVE: usize = 0;
const GONE: usize = 4;
const LISTPACK: usize = 8;
const HEADER: usize = 12;

/// A name or a value that is added: as bytes, or as its element in a node.
pub trait StreamWord<'a>: Copy {
    /// Returns its element in a node.
    fn item(self) -> Item<'a>;

    /// Returns the length of the bytes.
    fn byte_len(self) -> usize;
}

impl<'a> StreamWord<'a> for &'a [u8] {
    #[inline]
    fn item(self) -> Item<'a> {
        Item::of(self)
    }

    #[inline]
    fn byte_len(self) -> usize {
        self.len()
    }
}

impl<'a> StreamWord<'a> for Item<'a> {
    #[inline]
    fn item(self) -> Item<'a> {
        self
    }

    #[inline]
    fn byte_len(self) -> usize {
        self.len()
    }
}

/// A node.
#[derive(Clone)]
pub struct Node {
    block: ThinBytes,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Listpack::from_bytes(&self.listpack()).fmt(f)
    }
}

/// The part that all entries of a node have in common.
#[derive(Clone, Copy, Debug)]
pub(super) struct Master<'a> {
    /// Fields that an entry has, if it has the master's.
    pub width: usize,
    /// The names of fields, and the elements after them.
    pub names: ForwardOnly<'a>,
    /// The bytes of the entries.
    pub entries: &'a [u8],
}

/// An entry's beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header<'a> {
    /// The entry's id.
    pub id: Id,
    /// Whether the entry is marked as deleted.
    pub deleted: bool,
    /// Whether its fields are the master's.
    pub same_fields: bool,
    /// Pairs of names and values.
    pub width: usize,
    /// Values, or names and values.
    pub fields: ForwardOnly<'a>,
    /// Bytes before the flags.
    flags_at: usize,
    /// Bytes of the whole entry.
    pub size: usize,
}

impl<'a> Header<'a> {
    /// Reads the entry that `bytes` begin with.
    #[inline]
    pub fn read(bytes: &'a [u8], base: Id, master_width: usize) -> Option<Header<'a>> {
        let (mut body, flags_at, size) = entry(bytes)?;
        let (flags, ms, seq) = (body.int()?, body.int()?, body.int()?);
        let same_fields = flags & SAME_FIELDS != 0;
        let width = if same_fields { master_width } else { usize::try_from(body.int()?).ok()? };
        let id = Id { ms: base.ms.wrapping_add(ms as u64), seq: base.seq.wrapping_add(seq as u64) };
        Some(Header { id, deleted: flags & DELETED != 0, same_fields, width, fields: body, flags_at, size })
    }
}

/// Returns the elements of the entry that `bytes` begin with, how many bytes come before them, and the bytes of the
/// entry.
#[inline]
fn entry(bytes: &[u8]) -> Option<(ForwardOnly<'_>, usize, usize)> {
    let mut items = ForwardOnly::of(bytes);
    let len = usize::try_from(items.int()?).ok()?;
    let body = items.rest().get(..len)?;
    let before = bytes.len() - items.rest().len();
    Some((ForwardOnly::of(body), before, before + len + forward_only::back_size(before + len)))
}

/// Returns the beginning of the last of these entries.
#[inline]
pub(super) fn last_entry(entries: &[u8]) -> Option<usize> {
    entries.len().checked_sub(forward_only::size_before(entries)?)
}

/// Reading.
impl Node {
    #[inline]
    fn body(&self) -> &[u8] {
        &self.block.bytes()[PREFIX..]
    }

    #[inline]
    fn number(&self, at: usize) -> u32 {
        let bytes = self.body().get(at..).and_then(|bytes| bytes.first_chunk());
        bytes.map_or(0, |bytes| u32::from_le_bytes(*bytes))
    }

    /// Returns the number of entries that are there.
    #[inline]
    pub(super) fn live(&self) -> u64 {
        self.number(LIVE).into()
    }

    /// Returns the number of entries that were deleted.
    #[inline]
    pub(super) fn deleted(&self) -> u64 {
        self.number(GONE).into()
    }

    #[inline]
    pub(super) fn master(&self) -> Master<'_> {
        let mut items = ForwardOnly::of(&self.body()[HEADER..]);
        let width = items.int().and_then(|width| usize::try_from(width).ok()).unwrap_or(0);
        let names = items;
        items.by_ref().take(width).for_each(drop);
        Master { width, names, entries: items.rest() }
    }

    /// Returns the greatest id in the node, deleted entries included.
    pub(super) fn last_id(&self, base: Id) -> Option<Id> {
        let entries = self.master().entries;
        Some(Header::read(&entries[last_entry(entries)?..], base, 0)?.id)
    }

    /// Whether this holds for every live entry.
    pub(super) fn all_live(&self, base: Id, mut holds: impl FnMut(Id) -> bool) -> bool {
        let Master { width, mut entries, .. } = self.master();
        while let Some(head) = Header::read(entries, base, width) {
            if !head.deleted && !holds(head.id) {
                return false;
            }
            entries = &entries[head.size..];
        }
        true
    }

    /// Returns the bytes on the heap.
    pub(super) fn memory_usage(&self) -> usize {
        self.block.allocated()
    }

    /// Returns the bytes of the [`listpack`](Self::listpack).
    #[inline]
    pub fn listpack_len(&self) -> usize {
        let [live, deleted] = [LIVE, GONE].map(|at| forward_only::sizes(Item::Int(self.number(at).into())).1);
        Listpack::EMPTY_LEN + live + deleted + self.number(LISTPACK) as usize
    }

    /// Returns the node as dumps hold it: a listpack's bytes.
    pub fn listpack(&self) -> Vec<u8> {
        let Master { width, names, mut entries } = self.master();
        let names = names.rest();
        let mut bytes = Vec::with_capacity(self.listpack_len());
        let mut listpack = Packer::new(&mut bytes);
        [self.live() as i64, self.deleted() as i64, width as i64].into_iter().for_each(|n| listpack.push(n));
        listpack.push_all(ForwardOnly::of(&names[..names.len() - entries.len()]));
        listpack.push(0);
        while let Some((body, _, size)) = entry(entries) {
            let elements = listpack.push_all(body);
            listpack.push(elements as i64);
            entries = &entries[size..];
        }
        listpack.finish();
        bytes
    }
}

/// Changes.
impl Node {
    /// Makes a new node with its first entry, whose id is the node's.
    pub(super) fn first<'a, W: StreamWord<'a>>(base: Id, pairs: impl Iterator<Item = (W, W)> + Clone) -> Node {
        let mut items: SmallVec<[Item<'a>; 16]> = SmallVec::new();
        items.push(Item::Int(pairs.clone().count() as i64));
        items.extend(pairs.clone().map(|(name, _)| name.item()));
        // The listpack has a zero behind the names.
        let zero = forward_only::sizes(Item::Int(0)).1;
        let (size, listpack) = sizes(&items);
        let mut node = Node { block: ThinBytes::zeroed(PREFIX + HEADER + size) };
        write(&mut node.block.body_mut()[HEADER..], &items);
        node.add(LISTPACK, listpack + zero);
        node.append(base, base, pairs);
        node
    }

    /// Adds an entry at the end.
    pub(super) fn append<'a, W: StreamWord<'a>>(
        &mut self,
        base: Id,
        id: Id,
        pairs: impl Iterator<Item = (W, W)> + Clone,
    ) {
        let Master { width: master_width, mut names, .. } = self.master();
        let width = pairs.clone().count();
        let same = width == master_width
            && pairs.clone().all(|(name, _)| names.next().is_some_and(|item| item == name.item()));
        let (ms, seq) = (id.ms.wrapping_sub(base.ms) as i64, id.seq.wrapping_sub(base.seq) as i64);
        let mut items: SmallVec<[Item<'a>; 16]> = SmallVec::new();
        items.extend([if same { SAME_FIELDS } else { 0 }, ms, seq].map(Item::Int));
        if same {
            items.extend(pairs.map(|(_, value)| value.item()));
        } else {
            items.push(Item::Int(width as i64));
            items.extend(pairs.flat_map(|(name, value)| [name.item(), value.item()]));
        }
        let (size, listpack) = sizes(&items);
        let head = Item::Int(size as i64);
        let before_back = forward_only::sizes(head).0 + size;
        let end = self.block.len();
        self.block.resize(end + before_back + forward_only::back_size(before_back));
        let to = &mut self.block.body_mut()[end - PREFIX..];
        let at = forward_only::write(to, head);
        write(&mut to[at..], &items);
        forward_only::write_back(&mut to[before_back..], before_back);
        self.add(LISTPACK, listpack + forward_only::sizes(Item::Int(items.len() as i64)).1);
        self.add(LIVE, 1);
    }

    /// Marks entries as deleted, from the first on, while `wanted` says so; entries for which it returns Keep stay.
    /// Returns how many were marked.
    pub(super) fn delete_while(&mut self, base: Id, mut wanted: impl FnMut(Id) -> Fate) -> u64 {
        let Master { width, entries, .. } = self.master();
        let mut at = self.body().len() - entries.len();
        let mut marked = 0;
        while let Some(Header { id, deleted, flags_at, size, .. }) = Header::read(&self.body()[at..], base, width) {
            if !deleted {
                match wanted(id) {
                    Fate::Delete => {
                        // Flags are an element of one byte.
                        self.block.body_mut()[at + flags_at] |= DELETED as u8;
                        marked += 1;
                    }
                    Fate::Keep => {}
                    Fate::Stop => break,
                }
            }
            at += size;
        }
        self.put(LIVE, self.number(LIVE).saturating_sub(marked));
        self.put(GONE, self.number(GONE).saturating_add(marked));
        marked.into()
    }

    fn put(&mut self, at: usize, number: u32) {
        self.block.body_mut()[at..at + 4].copy_from_slice(&number.to_le_bytes());
    }

    fn add(&mut self, at: usize, more: usize) {
        self.put(at, self.number(at).saturating_add(u32::try_from(more).unwrap_or(u32::MAX)));
    }
}

/// Returns the bytes of elements, bare and in a listpack.
#[inline]
fn sizes(items: &[Item<'_>]) -> (usize, usize) {
    items.iter().fold((0, 0), |(size, listpack), item| {
        let (more, more_listpack) = forward_only::sizes(*item);
        (size + more, listpack + more_listpack)
    })
}

#[inline]
fn write(to: &mut [u8], items: &[Item<'_>]) {
    let mut at = 0;
    for item in items {
        at += forward_only::write(&mut to[at..], *item);
    }
}

/// Decision over an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Delete,
    Keep,
    /// It stays, and so does everything after it.
    Stop,
}
