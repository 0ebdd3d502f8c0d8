//! Walking along a stream: live entries between two ids, from either end.

use super::node::{self, Header, Master, Node};
use super::{Id, Stream};
use crate::listpack::Item;
use crate::listpack::forward_only::ForwardOnly;
use std::collections::btree_map;

/// Stands at an entry after [`next`](Cursor::next); its fields are read from there, once.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    nodes: btree_map::Range<'a, Id, Node>,
    walk: Option<NodeCursor<'a>>,
    start: Id,
    end: Id,
    backwards: bool,
}

/// A place in a node.
#[derive(Clone, Debug)]
struct NodeCursor<'a> {
    base: Id,
    master: Master<'a>,
    /// Entries that are left on the way.
    entries: &'a [u8],
    /// The unread part of the current entry.
    fields: ForwardOnly<'a>,
    /// The current entry's names, if they are the node's.
    names: Option<ForwardOnly<'a>>,
    /// Pairs that are unread.
    pairs: usize,
}

impl<'a> NodeCursor<'a> {
    fn new(base: Id, node: &'a Node) -> Self {
        let master = node.master();
        NodeCursor { base, master, entries: master.entries, fields: ForwardOnly::of(&[]), names: None, pairs: 0 }
    }

    #[inline]
    fn forward(&mut self) -> Option<Header<'a>> {
        let head = self.read(self.entries)?;
        self.entries = &self.entries[head.size..];
        Some(head)
    }

    fn backward(&mut self) -> Option<Header<'a>> {
        let (rest, last) = self.entries.split_at_checked(node::last_entry(self.entries)?)?;
        self.entries = rest;
        self.read(last)
    }

    #[inline]
    fn read(&mut self, entry: &'a [u8]) -> Option<Header<'a>> {
        let head = Header::read(entry, self.base, self.master.width)?;
        self.fields = head.fields;
        self.pairs = head.width;
        self.names = head.same_fields.then_some(self.master.names);
        Some(head)
    }
}

impl<'a> Cursor<'a> {
    pub(super) fn new(stream: &'a Stream, start: Id, end: Id, backwards: bool) -> Self {
        // The node that holds `start` begins at or before it.
        let first = stream.nodes.range(..=start).next_back().map_or(start, |(base, _)| *base);
        let nodes = if start > end { stream.nodes.range(Id::MAX..Id::MAX) } else { stream.nodes.range(first..=end) };
        Cursor { nodes, walk: None, start, end, backwards }
    }

    /// Goes to the next entry.
    #[inline]
    #[expect(clippy::should_implement_trait, reason = "an entry's fields are borrowed from the cursor")]
    pub fn next(&mut self) -> Option<Id> {
        loop {
            let Some(walk) = &mut self.walk else {
                let (base, node) = if self.backwards { self.nodes.next_back()? } else { self.nodes.next()? };
                self.walk = Some(NodeCursor::new(*base, node));
                continue;
            };
            let Some(head) = (if self.backwards { walk.backward() } else { walk.forward() }) else {
                self.walk = None;
                continue;
            };
            let (before, after) = (head.id < self.start, head.id > self.end);
            if (self.backwards && before) || (!self.backwards && after) {
                self.start = Id::MAX;
                self.end = Id::MIN;
                return None;
            }
            if !before && !after && !head.deleted {
                return Some(head.id);
            }
        }
    }

    /// Returns the number of fields of this entry that are unread.
    #[inline]
    pub fn width(&self) -> usize {
        self.walk.as_ref().map_or(0, |walk| walk.pairs)
    }

    /// Returns the next field of this entry and its value.
    #[inline]
    pub fn field(&mut self) -> Option<(Item<'a>, Item<'a>)> {
        let walk = self.walk.as_mut()?;
        walk.pairs = walk.pairs.checked_sub(1)?;
        let name = match &mut walk.names {
            Some(names) => names.next()?,
            None => walk.fields.next()?,
        };
        Some((name, walk.fields.next()?))
    }
}
