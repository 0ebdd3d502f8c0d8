//! A quicklist: a long list as a sequence of listpacks.
//!
//! ```text
//!  Quicklist   [ node | node | node | ... | node ]      each a listpack of up to 8 KiB, or one large element
//!                       `-- may be compressed --'
//! ```
//!
//! A listpack is the densest form of a list, but a change moves all bytes behind it. So a long list is many listpacks,
//! each filled up to a limit ([`Rules`]), and an element that would fill one alone has a node of its own. Nodes farther
//! than a given depth from both ends may be compressed, for lists that are used at their ends.
//!
//! Elements are placed, and nodes are split and merged, as in Valkey, because clients see it: the name of the encoding
//! depends on the number of nodes. Nodes are found in another way: they are the leaves of a counted tree instead of a
//! chain, so that an index is found in O(log n), and pushes and pops touch the first and last node only (`nodes`).
//!
//! Costs, with n nodes of at most b bytes: push, pop O(b), which is one move within a node; access by index
//! O(log n + b); insert, replace O(log n + b); a range of k nodes O(k log n + b).
//!
//! Copies and [`ListSnapshot`]s share nodes, which are copied when they are changed.
//!
//! Invariants (asserted by `check` in the tests): no node is empty; `len` is the number of elements; a node within the
//! depth of either end is not compressed, any other is if it is worth it; the order of elements is that of a plain
//! vector.

mod insert_remove;
mod node;
mod nodes;
mod rules;
mod sequence;
mod snapshot;
#[cfg(test)]
mod tests;

pub(crate) use insert_remove::remove_equal_items;
pub use node::NodeView;
pub use rules::{Fill, Rules};
pub use snapshot::{ListSnapshot, NodesLeft};

use crate::listpack::{Item, Listpack};
use node::Node;
use nodes::Nodes;
use std::borrow::Cow;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Index 0.
    Head,
    /// Index -1.
    Tail,
}

/// Number of nodes from which a new node's memory is allocated at once.
const FORESIGHT: usize = 8;

/// A long list.
#[derive(Clone)]
pub struct Quicklist {
    nodes: Nodes,
    len: usize,
    fill: Fill,
    depth: u16,
}

/// Statistics of a quicklist for DEBUG OBJECT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListStats {
    /// Nodes of the list.
    pub nodes: usize,
    /// Elements of the list.
    pub elements: usize,
    /// The fill, as `list-max-listpack-size` gives it.
    pub fill: i16,
    /// Whether inner nodes are to be compressed.
    pub is_compressed: bool,
    /// Bytes of the nodes before compression.
    pub bytes: usize,
}

impl Quicklist {
    /// Makes an empty list that keeps to these rules.
    pub fn new(rules: &Rules) -> Self {
        Quicklist { nodes: Nodes::new(), len: 0, fill: rules.fill, depth: rules.compress_depth }
    }

    /// Returns the number of elements.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Counts all nodes' bytes; takes a time of the number of nodes.
    pub fn stats(&self) -> ListStats {
        let bytes = (0..self.nodes.len()).filter_map(|at| self.nodes.get(at)).map(Node::len).sum();
        let is_compressed = self.depth != 0;
        ListStats { nodes: self.nodes.len(), elements: self.len, fill: self.fill.get(), is_compressed, bytes }
    }

    /// Returns the bytes on the heap, near enough.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.nodes.memory_usage() + self.nodes.len() * size_of::<Node>()
    }

    /// Takes over a listpack as the last node.
    pub fn append_listpack(&mut self, listpack: Listpack) {
        if !listpack.is_empty() {
            self.len += listpack.len();
            self.nodes.insert(self.nodes.len(), Node::Packed(listpack));
            self.settle(0..0);
        }
    }

    /// Returns the nodes as they lie in memory, for dumps.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = NodeView<'_>> {
        self.nodes_from(0)
    }

    /// Returns the nodes from the one at `from` on, as they lie in memory, for dumps.
    pub fn nodes_from(&self, from: usize) -> impl ExactSizeIterator<Item = NodeView<'_>> {
        (from..self.nodes.len()).map(|at| self.nodes.get(at).expect("the place of a node").view())
    }

    /// Returns the only node, if there is just one and it is a listpack.
    pub(crate) fn only_listpack(&self) -> Option<&Listpack> {
        match self.nodes.first() {
            Some(Node::Packed(listpack)) if self.nodes.len() == 1 => Some(listpack),
            _ => None,
        }
    }

    /// Takes the only node away.
    pub(crate) fn take_only_listpack(&mut self) -> Option<Listpack> {
        self.only_listpack()?;
        self.len = 0;
        match self.nodes.take(0) {
            Some(Node::Packed(listpack)) => Some(listpack),
            _ => None,
        }
    }

    /// Returns the element at an end.
    #[inline]
    pub fn edge(&self, end: End) -> Option<Item<'_>> {
        let node = match end {
            End::Head => self.nodes.first(),
            End::Tail => self.nodes.last(),
        };
        match node? {
            Node::Packed(listpack) => {
                let pos = if end == End::Head { listpack.first() } else { listpack.last() };
                pos.map(|pos| listpack.at(pos))
            }
            Node::Plain(bytes) => Some(Item::Bytes(bytes)),
            Node::Compressed(_) => unreachable!("the ends are not compressed"),
        }
    }

    /// Adds an element at an end.
    #[inline]
    pub fn push(&mut self, end: End, element: Cow<'_, [u8]>, rules: &Rules) {
        let edge = match end {
            End::Head => self.nodes.first_mut(),
            End::Tail => self.nodes.last_mut(),
        };
        if let Some(Node::Packed(listpack)) = edge
            && !rules.is_large(self.fill, element.len())
            && !self.fill.is_exceeded_by(element.len(), listpack.byte_len(), listpack.len())
        {
            match end {
                End::Head => listpack.push_front(&element),
                End::Tail => listpack.push_back(&element),
            }
        } else {
            let at = if end == End::Head { 0 } else { self.nodes.len() };
            let node = match self.next_size(end) {
                Some(bytes) if !rules.is_large(self.fill, element.len()) => {
                    let mut listpack = Listpack::with_room_in_front(bytes);
                    listpack.push_front(&element);
                    Node::Packed(listpack)
                }
                _ => self.new_node(element, rules),
            };
            self.nodes.insert(at, node);
            self.settle(0..0);
        }
        self.len += 1;
    }

    /// Removes the element at an end.
    #[inline]
    pub fn pop(&mut self, end: End) {
        let edge = match end {
            End::Head => self.nodes.first_mut(),
            End::Tail => self.nodes.last_mut(),
        };
        let Some(edge) = edge else { return };
        self.len -= 1;
        if let Node::Packed(listpack) = edge
            && listpack.len() > 1
        {
            match end {
                End::Head => listpack.pop_front(),
                End::Tail => _ = listpack.last().map(|pos| listpack.remove(pos)),
            }
            return;
        }
        let at = if end == End::Head { 0 } else { self.nodes.len() - 1 };
        self.nodes.remove(at);
        self.settle(0..0);
    }

    /// Shows the elements at these indices, which exist, to `see` until it has enough; in reverse from the last of
    /// them.
    pub fn visit(
        &self,
        range: Range<usize>,
        reverse: bool,
        mut see: impl FnMut(Item<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let mut left = range.len();
        let from = if reverse { range.end.saturating_sub(1) } else { range.start };
        let Some((mut at, mut offset)) = self.nodes.find(from) else { return ControlFlow::Continue(()) };
        while left > 0
            && let Some(node) = self.nodes.get(at)
        {
            // A node that is entered from behind shows everything up to the offset.
            let here = if reverse { offset + 1 } else { node.count() - offset }.min(left);
            let start = if reverse { offset + 1 - here } else { offset };
            visit_node(node, start..start + here, reverse, &mut see)?;
            left -= here;
            if reverse {
                let Some(before) = at.checked_sub(1) else { break };
                at = before;
                offset = self.nodes.get(at).map_or(0, |node| node.count() - 1);
            } else {
                at += 1;
                offset = 0;
            }
        }
        ControlFlow::Continue(())
    }

    /// Returns the elements at these indices, which exist, as they are now.
    pub fn snapshot(&self, range: Range<usize>) -> ListSnapshot {
        let mut snapshot = ListSnapshot::new(range.len());
        let Some((mut at, offset)) = self.nodes.find(range.start) else { return snapshot };
        let end = offset + range.len();
        let mut added = 0;
        while added < end
            && let Some(node) = self.nodes.share(at)
        {
            added += node.count();
            snapshot.add(node);
            at += 1;
        }
        snapshot.leave_out(offset, added - end);
        snapshot
    }

    /// Returns the nodes from the one at `from` on, as they are now.
    pub fn nodes_left(&self, from: usize) -> NodesLeft {
        NodesLeft::new((from..self.nodes.len()).filter_map(|at| self.nodes.share(at)).collect())
    }

    /// Frees up to `nodes` nodes (at least one); returns whether none is left.
    pub fn drain_step(&mut self, nodes: usize) -> bool {
        for _ in 0..nodes.max(1) {
            self.len -= self.nodes.remove_any();
        }
        self.nodes.len() == 0
    }

    /// Compresses and decompresses after changes: nodes at the ends must not be compressed, nodes in `touched` and
    /// nodes that the ends have just left behind are to be.
    fn settle(&mut self, touched: Range<usize>) {
        let depth = usize::from(self.depth);
        if depth == 0 {
            return;
        }
        let count = self.nodes.len();
        for at in 0..depth.min(count) {
            self.decompress(at);
            self.decompress(count - 1 - at);
        }
        let inner = depth..count.saturating_sub(depth);
        // One change puts in two nodes at most.
        let left_behind = [inner.start, inner.start + 1, inner.end.saturating_sub(2), inner.end.saturating_sub(1)];
        for at in left_behind.into_iter().chain(touched).filter(|at| inner.contains(at)) {
            if self.nodes.get(at).is_some_and(|node| !node.is_compressed()) {
                self.nodes.update(at, Node::compress);
            }
        }
    }

    fn decompress(&mut self, at: usize) {
        if self.nodes.get(at).is_some_and(Node::is_compressed) {
            self.nodes.update(at, Node::decompress);
        }
    }

    /// Returns the bytes to which a node that is begun at this end will grow, if they may be allocated at once: the
    /// list is long, and the node can be filled without being moved.
    fn next_size(&self, end: End) -> Option<usize> {
        match self.nodes.first() {
            Some(Node::Packed(full)) if end == End::Head && self.nodes.len() >= FORESIGHT => Some(full.byte_len()),
            _ => None,
        }
    }

    fn new_node(&self, element: Cow<'_, [u8]>, rules: &Rules) -> Node {
        if rules.is_large(self.fill, element.len()) {
            Node::Plain(Arc::new(element.into_owned()))
        } else {
            let mut listpack = Listpack::new();
            listpack.push_back(&element);
            Node::Packed(listpack)
        }
    }
}

/// Shows the elements of a node at these indices, which exist, to `see` until it has enough.
fn visit_node(
    node: &Node,
    range: Range<usize>,
    reverse: bool,
    mut see: impl FnMut(Item<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let decompressed = node.decompressed();
    match decompressed.as_ref().unwrap_or(node) {
        Node::Packed(listpack) => visit_listpack(listpack, range, reverse, see),
        Node::Plain(bytes) => see(Item::Bytes(bytes)),
        Node::Compressed(_) => unreachable!("it was decompressed"),
    }
}

/// Shows the elements of a listpack at these indices, which exist, to `see` until it has enough.
pub(crate) fn visit_listpack(
    listpack: &Listpack,
    range: Range<usize>,
    reverse: bool,
    mut see: impl FnMut(Item<'_>) -> ControlFlow<()>,
) -> ControlFlow<()> {
    let Some(first) = listpack.seek(range.start as isize) else { return ControlFlow::Continue(()) };
    if reverse {
        let after = listpack.len() - range.end;
        listpack.iter_from(first).rev().skip(after).try_for_each(see)
    } else {
        let mut left = range.len();
        for item in listpack.iter_from(first) {
            if left == 0 {
                break;
            }
            left -= 1;
            see(item)?;
        }
        ControlFlow::Continue(())
    }
}
