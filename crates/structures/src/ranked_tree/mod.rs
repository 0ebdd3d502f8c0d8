//! An order-statistic B+ tree: a sorted sequence that also answers by position.
//!
//! It holds the elements of a sorted set in order and answers, each in O(log n): the element at a rank, the rank of
//! an element, how many lie in a range, insert, remove. A skip list does the same with a pointer chase per
//! comparison and some forty bytes per element; here the elements of one leaf lie side by side, so that a
//! search costs a cache miss per level and the memory beyond the elements themselves is about a tenth.
//!
//! The idea is the counted B-tree: a B+ tree whose inner nodes also know how many elements lie below each child.
//!
//! # How the nodes lie
//!
//! ```text
//!  inner node        firsts    [ a        | f            | m      ]   first element below each child, a copy
//!  (up to 64         counts    [ 5        | 7            | 4      ]   elements below each child
//!   children)        children  [ *        | *            | *      ]
//!                                |          |              |
//!  leaves            [a b c d e]   [f g h i j k l]   [m n o p]
//!  (up to 64 elements)
//! ```
//!
//! The three arrays of an inner node are separate, because a search by order reads only `firsts`, a search by rank
//! only `counts`, and either then a single entry of `children`. An entry for a leaf is the leaf's own vector header,
//! so that no node header stands between an inner node and the elements.
//!
//! Leaves grow by [`STEP`] elements instead of doubling, hence a leaf that is half full also weighs about half. For
//! elements of 16 bytes the steps are the size classes of the common allocators.
//!
//! # Order
//!
//! Elements may be thin handles whose order lies in memory behind them, so the tree never orders them itself: every
//! operation takes a closure. `locate(e)` returns the position of `e` relative to the sought place (`Less`: before it);
//! `cmp(a, b)` compares two elements. All closures given to one tree must agree on one order; otherwise results are
//! unspecified, and the promise below is void. A closure that panics leaves the counts unspecified likewise.
//!
//! **Closures are shown only elements that are in the tree.** `firsts` holds copies of present elements and is
//! corrected before the operation that removed or replaced one returns. A handle may therefore be freed as soon as
//! the tree has handed it back.
//!
//! # Invariants (asserted by `check` in the tests)
//!
//! - All leaves lie at the same depth; the elements ascend from left to right.
//! - `firsts[i]` and `counts[i]` are the first element and the number of elements below `children[i]`.
//! - No node but an empty root is empty; an inner root has at least two children.
//! - A node that is neither the leftmost nor the rightmost of its level is at least a quarter full. The outer two may
//!   be smaller, because a leaf that splits at the very end of the sequence stays full, so that ascending and
//!   descending fills pack the leaves. A node at the edge gets an outer neighbour only by its own split, which leaves
//!   it full or half full.
//!
//! # Costs
//!
//! With n elements, and at most 64 entries per node: insert, remove, find, bounds, get and replace are O(log n).
//! Removing k neighbours costs O(k + log n). Iteration descends once per leaf, so a step costs O(1) amortized.
//! Recursion, of a drop too, is as deep as the tree is high: four levels for a million elements.
//! [`RankedTree::drain_step`] frees a large tree in slices of bounded work.
//!
//! Measured with a million elements of 16 bytes in random order, node headers included: 18.5 bytes per element, 21.5
//! after a third was removed again, 16.8 in ascending order; an insert or a find takes 0.3 to 0.4 µs, nearly all of it
//! the wait for memory, where a skip list takes five to ten times as long. Leaves of 32 elements are as fast for 21
//! bytes per element and twice the time to iterate; leaves of 128 save one more byte but move more in an insert.

#![forbid(unsafe_code)]

mod iter;
mod node;
#[cfg(test)]
mod tests;

use std::cmp::Ordering;
use std::ops::{Bound, Range, RangeBounds};

pub use iter::Iter;
use node::{ChildEntry, Inner, Node, leaf_find, leaf_partition_point, trim};

/// Most elements of a leaf.
const LEAF_MAX: usize = 64;
/// Most children of an inner node.
const INNER_MAX: usize = 64;
/// By how many entries the arrays of a node grow and shrink.
const STEP: usize = 8;

/// A sequence of elements in an order that the caller's closures define, searchable by order and by rank.
///
/// A rank is a position from 0; ranks and counts are in elements. Equal elements may occur more than once.
pub struct RankedTree<T> {
    root: Node<T>,
    len: usize,
}

impl<T: Copy> RankedTree<T> {
    /// Makes an empty tree, which owns no heap memory.
    pub const fn new() -> Self {
        RankedTree { root: Node::Leaf(Vec::new()), len: 0 }
    }

    /// Builds a tree of full nodes in O(n) from elements that already ascend.
    pub fn from_sorted(elements: impl IntoIterator<Item = T>) -> Self {
        let mut elements = elements.into_iter().fuse();
        let mut level = Vec::new();
        let mut len = 0;
        loop {
            let mut leaf = Vec::with_capacity(LEAF_MAX);
            leaf.extend(elements.by_ref().take(LEAF_MAX));
            let Some(&first) = leaf.first() else { break };
            trim(&mut leaf);
            len += leaf.len();
            level.push(ChildEntry { first, count: leaf.len(), child: Node::Leaf(leaf) });
        }
        while level.len() > 1 {
            level = Inner::group(level);
        }
        let root = level.pop().map_or(Node::Leaf(Vec::new()), |entry| entry.child);
        RankedTree { root, len }
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of elements before the sought place, for which `locate` returns `Less`.
    pub fn lower_bound(&self, mut locate: impl FnMut(&T) -> Ordering) -> usize {
        self.partition_point(|e| locate(e) == Ordering::Less)
    }

    /// Returns the number of elements before or at the sought place, for which `locate` returns `Less` or `Equal`.
    pub fn upper_bound(&self, mut locate: impl FnMut(&T) -> Ordering) -> usize {
        self.partition_point(|e| locate(e) != Ordering::Greater)
    }

    /// Returns rank and value of an element for which `locate` says `Equal`; of several, any.
    pub fn find(&self, mut locate: impl FnMut(&T) -> Ordering) -> Option<(usize, T)> {
        let mut rank = 0;
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(leaf) => {
                    let at = leaf_find(leaf, locate)?;
                    return Some((rank + at, leaf[at]));
                }
                Node::Inner(inner) => {
                    let i = inner.child_where(|e| locate(e) != Ordering::Greater);
                    rank += inner.counts[..i].iter().sum::<usize>();
                    node = &inner.children[i];
                }
            }
        }
    }

    /// Returns the element at `rank`.
    pub fn get(&self, rank: usize) -> Option<T> {
        self.rest_of_leaf(rank).first().copied()
    }

    /// Returns the least element.
    pub fn first(&self) -> Option<T> {
        self.get(0)
    }

    /// Returns the greatest element.
    pub fn last(&self) -> Option<T> {
        self.get(self.len.checked_sub(1)?)
    }

    /// Returns the elements whose ranks lie in `ranks`, from either end. Ranks past the end are ignored.
    pub fn range(&self, ranks: impl RangeBounds<usize>) -> Iter<'_, T> {
        Iter::new(self, self.clamp(ranks))
    }

    /// Returns all elements, from either end.
    pub fn iter(&self) -> Iter<'_, T> {
        self.range(..)
    }

    /// Inserts `element`, behind the ones that `cmp` calls equal to it. `cmp` gets a present element, then `element`.
    pub fn insert(&mut self, element: T, mut cmp: impl FnMut(&T, &T) -> Ordering) {
        if let Some(right) = self.root.insert(element, &mut cmp, true) {
            let left = std::mem::replace(&mut self.root, Node::Leaf(Vec::new()));
            self.root = Node::Inner(Box::new(Inner::pair(left, right)));
        }
        self.len += 1;
    }

    /// Removes and returns an element for which `locate` says `Equal`; of several, any.
    pub fn remove(&mut self, mut locate: impl FnMut(&T) -> Ordering) -> Option<T> {
        let (element, _) = self.root.remove(&mut locate)?;
        self.len -= 1;
        self.lower_root();
        Some(element)
    }

    /// Moves an element: puts `element` where `cmp` places it and removes one for which `locate` says `Equal`, which is
    /// returned; of several, any. `None`, and no change, if there is none.
    ///
    /// If old and new lie in one leaf, as after most small changes of a score, this costs one descent.
    pub fn update(
        &mut self,
        mut locate: impl FnMut(&T) -> Ordering,
        element: T,
        mut cmp: impl FnMut(&T, &T) -> Ordering,
    ) -> Option<T> {
        if let Some(old) = self.move_in_leaf(&mut locate, element, &mut cmp) {
            return Some(old);
        }
        let old = self.remove(locate)?;
        self.insert(element, cmp);
        Some(old)
    }

    /// Removes and returns the element at `rank`.
    pub fn remove_at(&mut self, rank: usize) -> Option<T> {
        let mut removed = None;
        if rank < self.len {
            self.remove_range(rank..=rank, |element| removed = Some(element));
        }
        removed
    }

    /// Takes out the least element.
    pub fn pop_first(&mut self) -> Option<T> {
        self.remove_at(0)
    }

    /// Takes out the greatest element.
    pub fn pop_last(&mut self) -> Option<T> {
        self.remove_at(self.len.checked_sub(1)?)
    }

    /// Removes the elements whose ranks lie in `ranks`, handing each to `visit` in order, and returns how many.
    pub fn remove_range(&mut self, ranks: impl RangeBounds<usize>, mut visit: impl FnMut(T)) -> usize {
        let ranks = self.clamp(ranks);
        let mut left = ranks.len();
        while left > 0 {
            let removed = self.root.remove_run(ranks.start, left, &mut visit);
            left -= removed;
            self.len -= removed;
            self.lower_root();
        }
        ranks.len()
    }

    /// Removes up to `max` elements, handing them to `visit` in no promised order; `true` once the tree is empty.
    ///
    /// For freeing a large tree little by little: one call costs O(`max` + log n).
    pub fn drain_step(&mut self, max: usize, visit: impl FnMut(T)) -> bool {
        // From the end, where dropping a leaf moves no neighbours.
        self.remove_range(self.len.saturating_sub(max).., visit);
        self.is_empty()
    }

    /// Returns the bytes of the tree, its own struct included, without what the elements point to or the allocator
    /// adds.
    ///
    /// Walks over the inner nodes but no leaf: some 0.1 ms for a million elements.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.root.heap_bytes()
    }

    /// Does the cheap case of `update`: no other leaf, and no first element of a leaf, is concerned.
    fn move_in_leaf(
        &mut self,
        mut locate: impl FnMut(&T) -> Ordering,
        element: T,
        mut cmp: impl FnMut(&T, &T) -> Ordering,
    ) -> Option<T> {
        let mut node = &mut self.root;
        while let Node::Inner(inner) = node {
            let i = inner.child_where(|e| locate(e) != Ordering::Greater);
            // Far moves are seen near the root, before they have cost much.
            let starts_before = i == 0 || cmp(&inner.firsts[i], &element) != Ordering::Greater;
            let ends_after = inner.firsts.get(i + 1).is_none_or(|e| cmp(e, &element) == Ordering::Greater);
            if !starts_before || !ends_after {
                return None;
            }
            node = &mut inner.children[i];
        }
        let Node::Leaf(leaf) = node else { return None };
        let from = leaf_find(leaf, locate)?;
        let to = leaf.partition_point(|e| cmp(e, &element) != Ordering::Greater);
        // At either end of the leaf, the place might as well be in its neighbour.
        if from == 0 || to == 0 || to == leaf.len() {
            return None;
        }
        let old = leaf[from];
        if from < to {
            leaf[from..to].rotate_left(1);
            leaf[to - 1] = element;
        } else {
            leaf[to..=from].rotate_right(1);
            leaf[to] = element;
        }
        Some(old)
    }

    fn partition_point(&self, mut before: impl FnMut(&T) -> bool) -> usize {
        let mut rank = 0;
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(leaf) => return rank + leaf_partition_point(leaf, before),
                Node::Inner(inner) => {
                    let i = inner.child_where(&mut before);
                    rank += inner.counts[..i].iter().sum::<usize>();
                    node = &inner.children[i];
                }
            }
        }
    }

    /// Returns the elements from `rank` to the end of its leaf; empty past the end.
    fn rest_of_leaf(&self, rank: usize) -> &[T] {
        let (leaf, at) = self.leaf_at(rank);
        leaf.get(at..).unwrap_or_default()
    }

    /// Returns the leaf of the element at `rank` and its index there; an empty leaf past the end.
    fn leaf_at(&self, mut rank: usize) -> (&[T], usize) {
        if rank >= self.len {
            return (&[], 0);
        }
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(leaf) => return (leaf, rank),
                Node::Inner(inner) => node = &inner.children[inner.child_at(&mut rank)],
            }
        }
    }

    fn clamp(&self, ranks: impl RangeBounds<usize>) -> Range<usize> {
        let start = match ranks.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&start) => start.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match ranks.end_bound() {
            Bound::Included(&end) => end.saturating_add(1),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.len,
        };
        let end = end.min(self.len);
        start.min(end)..end
    }

    /// Drops inner roots that branch no more.
    fn lower_root(&mut self) {
        while let Node::Inner(inner) = &mut self.root {
            match inner.children.len() {
                0 => self.root = Node::Leaf(Vec::new()),
                1 => self.root = inner.children.remove(0),
                _ => break,
            }
        }
    }
}

impl<T: Copy> Default for RankedTree<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a, T: Copy> IntoIterator for &'a RankedTree<T> {
    type Item = T;
    type IntoIter = Iter<'a, T>;

    fn into_iter(self) -> Iter<'a, T> {
        self.iter()
    }
}
