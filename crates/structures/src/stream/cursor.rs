//! Walking along a stream: live entries between two ids, from either end.

use super::node::{self, Head};
use super::{Id, Stream};
use crate::listpack::{Item, Iter, Listpack, Pos};
use std::collections::btree_map;

/// Stands at an entry after [`next`](Cursor::next); its fields are read from there, once.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    nodes: btree_map::Range<'a, Id, Listpack>,
    walk: Option<Walk<'a>>,
    start: Id,
    end: Id,
    backwards: bool,
}

/// A place in a node.
#[derive(Clone, Debug)]
struct Walk<'a> {
    node: &'a Listpack,
    base: Id,
    width: usize,
    master_names: Iter<'a>,
    /// What is unread of the current entry, and on.
    items: Iter<'a>,
    /// Elements that are unread of the current entry.
    unread: usize,
    /// The current entry's names, if they are the master's.
    names: Option<Iter<'a>>,
    /// Pairs that are unread.
    pairs: usize,
    /// Backwards: the last element before the current entry.
    tail: Option<Pos>,
}

impl<'a> Walk<'a> {
    fn new(base: Id, listpack: &'a Listpack, backwards: bool) -> Self {
        let master = node::master(listpack);
        Walk {
            node: listpack,
            base,
            width: master.width,
            master_names: master.names,
            items: master.entries,
            unread: 0,
            names: None,
            pairs: 0,
            tail: if backwards { listpack.last() } else { None },
        }
    }

    #[inline]
    fn forward(&mut self) -> Option<Head> {
        node::skip(&mut self.items, self.unread);
        self.read()
    }

    fn backward(&mut self) -> Option<Head> {
        let start = node::step_back(self.node, self.tail?)?;
        self.tail = self.node.prev(start);
        self.items = self.node.iter_from(start);
        self.read()
    }

    #[inline]
    fn read(&mut self) -> Option<Head> {
        let head = Head::read(&mut self.items, self.base, self.width)?;
        self.unread = head.rest();
        self.pairs = head.width;
        self.names = head.same_fields.then(|| self.master_names.clone());
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
                let (base, listpack) = if self.backwards { self.nodes.next_back()? } else { self.nodes.next()? };
                self.walk = Some(Walk::new(*base, listpack, self.backwards));
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

    /// Fields of this entry that are unread.
    #[inline]
    pub fn width(&self) -> usize {
        self.walk.as_ref().map_or(0, |walk| walk.pairs)
    }

    /// The next field of this entry and its value.
    #[inline]
    pub fn field(&mut self) -> Option<(Item<'a>, Item<'a>)> {
        let walk = self.walk.as_mut()?;
        walk.pairs = walk.pairs.checked_sub(1)?;
        if let Some(names) = &mut walk.names {
            walk.unread -= 1;
            Some((names.next()?, walk.items.next()?))
        } else {
            walk.unread -= 2;
            Some((walk.items.next()?, walk.items.next()?))
        }
    }
}
