//! A node of a stream: a listpack of some hundred entries, in the bytes in which dumps hold it.
//!
//! ```text
//! master   | live | deleted | width | name 1 .. name width | 0 |
//! entry    | flags | ms | seq |          value 1 .. value width           | elements |     with SAME_FIELDS
//!          | flags | ms | seq | width | name 1 | value 1 | name 2 | ...   | elements |     without
//! ```
//!
//! The first entry of a node gives the names of its fields to the master record; entries with the same names leave them
//! out. Ids are differences to the node's own id, which is that of its first entry and stands outside. The last element of an
//! entry is the number of those before it, so that one can walk backwards. A deleted entry stays and is marked; a node
//! whose last live entry is deleted goes.

use super::Id;
use crate::listpack::{Item, Iter, Listpack, Pos};

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;

pub(super) fn int(item: Item<'_>) -> i64 {
    if let Item::Int(n) = item { n } else { 0 }
}

fn count(item: Item<'_>) -> usize {
    usize::try_from(int(item)).unwrap_or(0)
}

/// Entries that are there, and that were deleted.
pub(super) fn counts(node: &Listpack) -> (u64, u64) {
    let mut items = node.iter();
    let mut next = || items.next().map_or(0, |item| int(item).max(0) as u64);
    (next(), next())
}

fn set_counts(node: &mut Listpack, live: u64, deleted: u64) {
    let Some(first) = node.first() else { return };
    node.set_int(first, live as i64);
    if let Some(second) = node.next(first) {
        node.set_int(second, deleted as i64);
    }
}

/// What all entries of a node have in common.
#[derive(Clone, Debug)]
pub(super) struct Master<'a> {
    pub width: usize,
    /// The names of fields, and what comes after them.
    pub names: Iter<'a>,
    /// The entries.
    pub entries: Iter<'a>,
}

pub(super) fn master(node: &Listpack) -> Master<'_> {
    let mut items = node.iter();
    let width = items.nth(2).map_or(0, count);
    let names = items.clone();
    skip(&mut items, width + 1);
    Master { width, names, entries: items }
}

pub(super) fn skip(items: &mut Iter<'_>, count: usize) {
    for _ in 0..count {
        items.next();
    }
}

/// An entry's beginning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Head {
    pub id: Id,
    pub deleted: bool,
    pub same_fields: bool,
    /// Pairs of names and values.
    pub width: usize,
}

impl Head {
    /// Reads the beginning of an entry; `items` stands before its first value or name afterwards.
    #[inline]
    pub fn read(items: &mut Iter<'_>, base: Id, master_width: usize) -> Option<Head> {
        let flags = int(items.next()?);
        let (ms, seq) = (int(items.next()?), int(items.next()?));
        let same_fields = flags & SAME_FIELDS != 0;
        let width = if same_fields { master_width } else { count(items.next()?) };
        let id = Id { ms: base.ms.wrapping_add(ms as u64), seq: base.seq.wrapping_add(seq as u64) };
        Some(Head { id, deleted: flags & DELETED != 0, same_fields, width })
    }

    /// Elements from here to the next entry.
    pub fn rest(&self) -> usize {
        if self.same_fields { self.width + 1 } else { 2 * self.width + 1 }
    }
}

/// Where the entry before the one that ends at `tail` begins, given the place of an entry's last element.
pub(super) fn step_back(node: &Listpack, tail: Pos) -> Option<Pos> {
    let elements = count(node.at(tail));
    // The master record ends with a zero.
    let mut pos = (elements > 0).then_some(tail)?;
    for _ in 0..elements {
        pos = node.prev(pos)?;
    }
    Some(pos)
}

/// A new node with its first entry.
pub(super) fn first<'a>(pairs: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone) -> Listpack {
    let width = pairs.clone().count();
    let mut items = Vec::with_capacity(2 * width + 8);
    items.extend([Item::Int(1), Item::Int(0), Item::Int(width as i64)]);
    items.extend(pairs.clone().map(|(name, _)| Item::of(name)));
    items.extend([Item::Int(0), Item::Int(SAME_FIELDS), Item::Int(0), Item::Int(0)]);
    items.extend(pairs.map(|(_, value)| Item::of(value)));
    items.push(Item::Int(width as i64 + 3));
    let mut node = Listpack::new();
    node.push_items(&items);
    node
}

/// Adds an entry at the end.
pub(super) fn append<'a>(
    node: &mut Listpack,
    base: Id,
    id: Id,
    pairs: impl Iterator<Item = (&'a [u8], &'a [u8])> + Clone,
    scratch: &mut Vec<Item<'a>>,
) {
    let Master { width: master_width, mut names, .. } = master(node);
    let width = pairs.clone().count();
    let same = width == master_width && pairs.clone().all(|(name, _)| names.next().is_some_and(|item| item == *name));
    let (ms, seq) = (id.ms.wrapping_sub(base.ms) as i64, id.seq.wrapping_sub(base.seq) as i64);
    scratch.extend([Item::Int(if same { SAME_FIELDS } else { 0 }), Item::Int(ms), Item::Int(seq)]);
    if same {
        scratch.extend(pairs.map(|(_, value)| Item::of(value)));
    } else {
        scratch.push(Item::Int(width as i64));
        scratch.extend(pairs.flat_map(|(name, value)| [Item::of(name), Item::of(value)]));
    }
    scratch.push(Item::Int(scratch.len() as i64));
    node.push_items(scratch);
    if let Some(first) = node.first() {
        let live = int(node.at(first));
        node.set_int(first, live + 1);
    }
}

/// The greatest id in the node, deleted entries included.
pub(super) fn last_id(node: &Listpack, base: Id) -> Option<Id> {
    let pos = step_back(node, node.last()?)?;
    Some(Head::read(&mut node.iter_from(pos), base, 0)?.id)
}

/// Marks entries as deleted, from the first on, while `wanted` says so; what it says Keep to stays. How many were marked.
pub(super) fn delete_while(node: &mut Listpack, base: Id, mut wanted: impl FnMut(Id) -> Fate) -> u64 {
    let Master { width, .. } = master(node);
    let mut pos = node.first();
    for _ in 0..width + 4 {
        pos = pos.and_then(|pos| node.next(pos));
    }
    let mut marked = 0;
    while let Some(at) = pos {
        let Some(head) = Head::read(&mut node.iter_from(at), base, width) else { break };
        if !head.deleted {
            match wanted(head.id) {
                Fate::Delete => {
                    node.set_int(at, if head.same_fields { SAME_FIELDS | DELETED } else { DELETED });
                    marked += 1;
                }
                Fate::Keep => {}
                Fate::Stop => break,
            }
        }
        let elements = head.rest() + if head.same_fields { 3 } else { 4 };
        for _ in 0..elements {
            pos = pos.and_then(|pos| node.next(pos));
        }
    }
    if marked > 0 {
        let (live, deleted) = counts(node);
        set_counts(node, live.saturating_sub(marked), deleted + marked);
    }
    marked
}

/// Whether this holds for every live entry.
pub(super) fn all_live(node: &Listpack, base: Id, mut holds: impl FnMut(Id) -> bool) -> bool {
    let Master { width, mut entries, .. } = master(node);
    while let Some(head) = Head::read(&mut entries, base, width) {
        if !head.deleted && !holds(head.id) {
            return false;
        }
        skip(&mut entries, head.rest());
    }
    true
}

/// What becomes of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Delete,
    Keep,
    /// It stays, and so does everything after it.
    Stop,
}
