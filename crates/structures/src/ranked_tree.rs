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
//! operation takes a closure. `locate(e)` tells where `e` stands relative to the sought place (`Less`: before it);
//! `cmp(a, b)` compares two elements. All closures given to one tree must agree on one order; otherwise results are
//! unspecified, though memory stays safe. A closure that panics leaves the counts unspecified likewise.
//!
//! **Closures are shown only elements that are in the tree.** `firsts` holds copies of present elements and is
//! corrected before the operation that removed or replaced one returns. A handle may therefore be freed as soon as
//! the tree has handed it back.
//!
//! # Invariants (asserted by `check` in the tests)
//!
//! - All leaves lie at the same depth; the elements ascend from left to right.
//! - `firsts[i]` and `counts[i]` tell the first element and the number of elements below `children[i]`.
//! - No node but an empty root is empty; an inner root has at least two children.
//! - A node that is neither the leftmost nor the rightmost of its level is at least a quarter full. Those two may be
//!   smaller, because a split at the very end of the sequence leaves the full node full: ascending and descending
//!   fills pack every node. They become inner neighbours only by such a split, that is when full.
//!
//! # Costs
//!
//! With n elements, and at most 64 entries per node: insert, remove, find, bounds, get and replace are O(log n).
//! Removing k neighbours costs O(k + log n). Iteration descends once per leaf, so a step costs O(1) amortized.
//! Recursion is as deep as the tree is high: four levels hold a million elements, and so does dropping the tree.
//! [`RankedTree::drain_step`] frees a large tree in slices of bounded work.

#![forbid(unsafe_code)]

use std::cmp::Ordering;
use std::ops::{Bound, Range, RangeBounds};
use std::slice;

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
    /// An empty tree, which owns no heap memory.
    pub const fn new() -> Self {
        RankedTree {
            root: Node::Leaf(Vec::new()),
            len: 0,
        }
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
            level.push(Entry {
                first,
                count: leaf.len(),
                child: Node::Leaf(leaf),
            });
        }
        while level.len() > 1 {
            level = Inner::group(level);
        }
        let root = level
            .pop()
            .map_or(Node::Leaf(Vec::new()), |entry| entry.child);
        RankedTree { root, len }
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Number of elements before the sought place: those for which `locate` says `Less`.
    pub fn lower_bound(&self, mut locate: impl FnMut(&T) -> Ordering) -> usize {
        self.partition_point(|e| locate(e) == Ordering::Less)
    }

    /// Number of elements before or at the sought place: those for which `locate` says `Less` or `Equal`.
    pub fn upper_bound(&self, mut locate: impl FnMut(&T) -> Ordering) -> usize {
        self.partition_point(|e| locate(e) != Ordering::Greater)
    }

    /// Rank and value of an element for which `locate` says `Equal`; of several, any.
    pub fn find(&self, mut locate: impl FnMut(&T) -> Ordering) -> Option<(usize, T)> {
        let mut rank = 0;
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(leaf) => {
                    let at = leaf.binary_search_by(locate).ok()?;
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

    /// The element at `rank`.
    pub fn get(&self, rank: usize) -> Option<T> {
        self.rest_of_leaf(rank).first().copied()
    }

    pub fn first(&self) -> Option<T> {
        self.get(0)
    }

    pub fn last(&self) -> Option<T> {
        self.get(self.len.checked_sub(1)?)
    }

    /// The elements whose ranks lie in `ranks`, from either end. Ranks past the end are ignored.
    pub fn range(&self, ranks: impl RangeBounds<usize>) -> Iter<'_, T> {
        Iter {
            tree: self,
            front: [].iter(),
            between: self.clamp(ranks),
            back: [].iter(),
        }
    }

    /// All elements, from either end.
    pub fn iter(&self) -> Iter<'_, T> {
        self.range(..)
    }

    /// Inserts `element`, behind those that `cmp` calls equal to it. `cmp` gets a present element, then `element`.
    pub fn insert(&mut self, element: T, mut cmp: impl FnMut(&T, &T) -> Ordering) {
        let edges = Edges {
            left: true,
            right: true,
        };
        if let Some(right) = self.root.insert(element, &mut cmp, edges) {
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

    /// Removes and returns the element at `rank`.
    pub fn remove_at(&mut self, rank: usize) -> Option<T> {
        let mut removed = None;
        if rank < self.len {
            self.remove_range(rank..=rank, |element| removed = Some(element));
        }
        removed
    }

    pub fn pop_first(&mut self) -> Option<T> {
        self.remove_at(0)
    }

    pub fn pop_last(&mut self) -> Option<T> {
        self.remove_at(self.len.checked_sub(1)?)
    }

    /// Removes the elements whose ranks lie in `ranks`, handing each to `visit` in order, and returns how many.
    pub fn remove_range(
        &mut self,
        ranks: impl RangeBounds<usize>,
        mut visit: impl FnMut(T),
    ) -> usize {
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

    /// Puts `element` in the place of the one at `rank`, which is returned; `None`, and no change, past the end.
    ///
    /// The order must not change by it: `element` may not come before its left nor after its right neighbour.
    pub fn replace_at(&mut self, mut rank: usize, element: T) -> Option<T> {
        if rank >= self.len {
            return None;
        }
        let mut node = &mut self.root;
        loop {
            match node {
                Node::Leaf(leaf) => return Some(std::mem::replace(&mut leaf[rank], element)),
                Node::Inner(inner) => {
                    let i = inner.child_at(&mut rank);
                    if rank == 0 {
                        inner.firsts[i] = element;
                    }
                    node = &mut inner.children[i];
                }
            }
        }
    }

    /// Removes up to `max` elements, handing them to `visit` in no promised order; `true` once the tree is empty.
    ///
    /// For freeing a large tree little by little: one call costs O(`max` + log n).
    pub fn drain_step(&mut self, max: usize, visit: impl FnMut(T)) -> bool {
        // From the end, where dropping a leaf moves no neighbours.
        self.remove_range(self.len.saturating_sub(max).., visit);
        self.is_empty()
    }

    /// Bytes of the tree, its own struct included, without what the elements point to or the allocator adds.
    ///
    /// Walks the inner nodes but no leaf: some 0.1 ms for a million elements.
    pub fn memory_usage(&self) -> usize {
        size_of::<Self>() + self.root.heap_bytes()
    }

    fn partition_point(&self, mut before: impl FnMut(&T) -> bool) -> usize {
        let mut rank = 0;
        let mut node = &self.root;
        loop {
            match node {
                Node::Leaf(leaf) => return rank + leaf.partition_point(before),
                Node::Inner(inner) => {
                    let i = inner.child_where(&mut before);
                    rank += inner.counts[..i].iter().sum::<usize>();
                    node = &inner.children[i];
                }
            }
        }
    }

    /// The elements from `rank` to the end of its leaf; empty past the end.
    fn rest_of_leaf(&self, rank: usize) -> &[T] {
        let (leaf, at) = self.leaf_at(rank);
        leaf.get(at..).unwrap_or_default()
    }

    /// The leaf of the element at `rank` and its index there; an empty leaf past the end.
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

/// Elements of a [`RankedTree`] in order, from either end.
///
/// Holds the unread rest of one leaf at each end and the ranks between; each further leaf is found by its rank.
pub struct Iter<'a, T> {
    tree: &'a RankedTree<T>,
    front: slice::Iter<'a, T>,
    between: Range<usize>,
    back: slice::Iter<'a, T>,
}

impl<T: Copy> Iterator for Iter<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        if self.front.as_slice().is_empty() && !self.between.is_empty() {
            let rest = self.tree.rest_of_leaf(self.between.start);
            let run = &rest[..rest.len().min(self.between.len())];
            self.between.start += run.len();
            self.front = run.iter();
        }
        self.front.next().or_else(|| self.back.next()).copied()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let len = self.front.len() + self.between.len() + self.back.len();
        (len, Some(len))
    }
}

impl<T: Copy> DoubleEndedIterator for Iter<'_, T> {
    fn next_back(&mut self) -> Option<T> {
        if self.back.as_slice().is_empty() && !self.between.is_empty() {
            let (leaf, at) = self.tree.leaf_at(self.between.end - 1);
            let run = &leaf[(at + 1).saturating_sub(self.between.len())..=at];
            self.between.end -= run.len();
            self.back = run.iter();
        }
        self.back
            .next_back()
            .or_else(|| self.front.next_back())
            .copied()
    }
}

impl<T: Copy> ExactSizeIterator for Iter<'_, T> {}

enum Node<T> {
    Leaf(Vec<T>),
    Inner(Box<Inner<T>>),
}

/// Three arrays of equal length, an entry per child.
struct Inner<T> {
    firsts: Vec<T>,
    counts: Vec<usize>,
    children: Vec<Node<T>>,
}

/// What an inner node holds for a child.
struct Entry<T> {
    first: T,
    count: usize,
    child: Node<T>,
}

/// Whether a node is the leftmost and the rightmost of its level.
#[derive(Clone, Copy)]
struct Edges {
    left: bool,
    right: bool,
}

impl<T: Copy> Node<T> {
    /// Inserts below this node; a node that this split off belongs to the right of it.
    fn insert<F>(&mut self, element: T, cmp: &mut F, edges: Edges) -> Option<Node<T>>
    where
        F: FnMut(&T, &T) -> Ordering,
    {
        match self {
            Node::Leaf(leaf) => {
                let at = leaf.partition_point(|e| cmp(e, &element) != Ordering::Greater);
                insert_into_leaf(leaf, at, element, edges).map(Node::Leaf)
            }
            Node::Inner(inner) => {
                let i = inner.child_where(|e| cmp(e, &element) != Ordering::Greater);
                let below = Edges {
                    left: edges.left && i == 0,
                    right: edges.right && i + 1 == inner.children.len(),
                };
                let split = inner.children[i].insert(element, cmp, below);
                // Elsewhere the first element is not after the new one, which went behind it.
                if i == 0 {
                    inner.firsts[0] = inner.children[0].first();
                }
                inner.counts[i] += 1;
                let right = Entry::of(split?);
                inner.counts[i] -= right.count;
                inner
                    .insert_entry(i + 1, right, edges)
                    .map(|right| Node::Inner(Box::new(right)))
            }
        }
    }

    /// Removes an equal element below this node; with it, whether it was the first one here.
    fn remove<F>(&mut self, locate: &mut F) -> Option<(T, bool)>
    where
        F: FnMut(&T) -> Ordering,
    {
        match self {
            Node::Leaf(leaf) => {
                let at = leaf.binary_search_by(locate).ok()?;
                let element = leaf.remove(at);
                trim_loose(leaf);
                Some((element, at == 0))
            }
            Node::Inner(inner) => {
                let i = inner.child_where(|e| locate(e) != Ordering::Greater);
                let (element, was_first) = inner.children[i].remove(locate)?;
                inner.removed_below(i, 1, was_first);
                Some((element, was_first && i == 0))
            }
        }
    }

    /// Removes elements from rank `start` on, at most `max` and no more than to the end of the leaf.
    fn remove_run(&mut self, mut start: usize, max: usize, visit: &mut impl FnMut(T)) -> usize {
        match self {
            Node::Leaf(leaf) => {
                let end = leaf.len().min(start.saturating_add(max));
                leaf.drain(start..end).for_each(visit);
                trim_loose(leaf);
                end - start
            }
            Node::Inner(inner) => {
                let i = inner.child_at(&mut start);
                let removed = inner.children[i].remove_run(start, max, visit);
                inner.removed_below(i, removed, start == 0);
                removed
            }
        }
    }

    /// The first element of a node that is not empty.
    fn first(&self) -> T {
        match self {
            Node::Leaf(leaf) => leaf[0],
            Node::Inner(inner) => inner.firsts[0],
        }
    }

    /// Number of elements below.
    fn count(&self) -> usize {
        match self {
            Node::Leaf(leaf) => leaf.len(),
            Node::Inner(inner) => inner.counts.iter().sum(),
        }
    }

    fn is_empty(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.is_empty(),
            Node::Inner(inner) => inner.children.is_empty(),
        }
    }

    /// Whether less than a quarter full.
    fn is_sparse(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.len() < LEAF_MAX / 4,
            Node::Inner(inner) => inner.children.len() < INNER_MAX / 4,
        }
    }

    /// Moves all entries of `right` to `left` if they fit, and else evens them out.
    fn level(left: &mut Node<T>, right: &mut Node<T>) {
        match (left, right) {
            (Node::Leaf(left), Node::Leaf(right)) => level(left, right, LEAF_MAX),
            (Node::Inner(left), Node::Inner(right)) => {
                level(&mut left.firsts, &mut right.firsts, INNER_MAX);
                level(&mut left.counts, &mut right.counts, INNER_MAX);
                level(&mut left.children, &mut right.children, INNER_MAX);
            }
            _ => unreachable!("siblings are of one level"),
        }
    }

    fn heap_bytes(&self) -> usize {
        match self {
            Node::Leaf(leaf) => leaf.capacity() * size_of::<T>(),
            Node::Inner(inner) => {
                size_of::<Inner<T>>()
                    + inner.firsts.capacity() * size_of::<T>()
                    + inner.counts.capacity() * size_of::<usize>()
                    + inner.children.capacity() * size_of::<Node<T>>()
                    + inner.children.iter().map(Node::heap_bytes).sum::<usize>()
            }
        }
    }
}

impl<T: Copy> Entry<T> {
    fn of(child: Node<T>) -> Self {
        Entry {
            first: child.first(),
            count: child.count(),
            child,
        }
    }
}

impl<T: Copy> Inner<T> {
    fn with_capacity(capacity: usize) -> Self {
        Inner {
            firsts: Vec::with_capacity(capacity),
            counts: Vec::with_capacity(capacity),
            children: Vec::with_capacity(capacity),
        }
    }

    fn pair(left: Node<T>, right: Node<T>) -> Self {
        let mut inner = Inner::with_capacity(STEP);
        inner.push(Entry::of(left));
        inner.push(Entry::of(right));
        inner
    }

    /// The next level above `entries`, in full nodes.
    fn group(entries: Vec<Entry<T>>) -> Vec<Entry<T>> {
        let mut above = Vec::with_capacity(entries.len().div_ceil(INNER_MAX));
        let mut entries = entries.into_iter();
        while entries.len() > 0 {
            let mut inner = Inner::with_capacity(entries.len().min(INNER_MAX));
            entries
                .by_ref()
                .take(INNER_MAX)
                .for_each(|entry| inner.push(entry));
            above.push(Entry::of(Node::Inner(Box::new(inner))));
        }
        above
    }

    fn push(&mut self, entry: Entry<T>) {
        self.insert_at(self.children.len(), entry);
    }

    /// Index of the last child that starts before the sought place, or of the first child.
    fn child_where(&self, before: impl FnMut(&T) -> bool) -> usize {
        self.firsts[1..].partition_point(before)
    }

    /// Index of the child that holds the element at `rank`, which becomes the rank within that child.
    fn child_at(&self, rank: &mut usize) -> usize {
        let mut i = 0;
        while *rank >= self.counts[i] {
            *rank -= self.counts[i];
            i += 1;
        }
        i
    }

    /// Inserts an entry; if the node is full, the returned one takes the entries to the right of a split.
    fn insert_entry(&mut self, at: usize, entry: Entry<T>, edges: Edges) -> Option<Inner<T>> {
        if self.children.len() < INNER_MAX {
            self.insert_at(at, entry);
            return None;
        }
        let split = match at {
            INNER_MAX if edges.right => INNER_MAX,
            1 if edges.left => 1,
            _ => INNER_MAX / 2,
        };
        let mut right = Inner {
            firsts: split_off(&mut self.firsts, split),
            counts: split_off(&mut self.counts, split),
            children: split_off(&mut self.children, split),
        };
        if at < split {
            self.insert_at(at, entry);
        } else {
            right.insert_at(at - split, entry);
        }
        Some(right)
    }

    fn insert_at(&mut self, at: usize, entry: Entry<T>) {
        insert(&mut self.firsts, at, entry.first);
        insert(&mut self.counts, at, entry.count);
        insert(&mut self.children, at, entry.child);
    }

    fn remove_at(&mut self, at: usize) {
        self.firsts.remove(at);
        self.counts.remove(at);
        self.children.remove(at);
        trim_loose(&mut self.firsts);
        trim_loose(&mut self.counts);
        trim_loose(&mut self.children);
    }

    /// Restores the invariants after `removed` elements went away below child `i`, `was_first` if its first did.
    fn removed_below(&mut self, i: usize, removed: usize, was_first: bool) {
        self.counts[i] -= removed;
        if self.children[i].is_empty() {
            return self.remove_at(i);
        }
        if was_first {
            self.firsts[i] = self.children[i].first();
        }
        // A child without a sibling is at the edge of the tree, where it may be sparse.
        if self.children[i].is_sparse() && self.children.len() > 1 {
            self.level_with_next(i.min(self.children.len() - 2));
        }
    }

    /// Merges or evens out child `i` and the one after it.
    fn level_with_next(&mut self, i: usize) {
        let both = self.counts[i] + self.counts[i + 1];
        let (left, right) = self.children.split_at_mut(i + 1);
        let (left, right) = (&mut left[i], &mut right[0]);
        Node::level(left, right);
        self.counts[i] = left.count();
        self.counts[i + 1] = both - self.counts[i];
        if right.is_empty() {
            self.remove_at(i + 1);
        } else {
            self.firsts[i + 1] = right.first();
        }
    }
}

/// Inserts into a leaf; if it is full, the returned one takes the elements to the right of a split.
fn insert_into_leaf<T>(leaf: &mut Vec<T>, at: usize, element: T, edges: Edges) -> Option<Vec<T>> {
    if leaf.len() < LEAF_MAX {
        insert(leaf, at, element);
        return None;
    }
    let split = match at {
        LEAF_MAX if edges.right => LEAF_MAX,
        0 if edges.left => 0,
        _ => LEAF_MAX / 2,
    };
    let mut right = split_off(leaf, split);
    if at < split || split == 0 {
        insert(leaf, at, element);
    } else {
        insert(&mut right, at - split, element);
    }
    Some(right)
}

/// `Vec::insert` that grows by one step, or within the first step by doubling.
fn insert<E>(entries: &mut Vec<E>, at: usize, entry: E) {
    if entries.len() == entries.capacity() {
        let grown = if entries.len() < STEP {
            (entries.len() * 2).max(STEP / 4)
        } else {
            entries.len() + STEP
        };
        entries.reserve_exact(grown - entries.len());
    }
    entries.insert(at, entry);
}

/// `Vec::split_off` that leaves neither part with more than a step of spare room.
fn split_off<E>(entries: &mut Vec<E>, at: usize) -> Vec<E> {
    if at == 0 {
        return std::mem::take(entries);
    }
    let moved = entries.len() - at;
    let mut right = Vec::with_capacity(moved.next_multiple_of(STEP));
    right.extend(entries.drain(at..));
    trim(entries);
    right
}

/// Appends `right` to `left` if at most `max` entries result, and else evens them out.
fn level<E>(left: &mut Vec<E>, right: &mut Vec<E>, max: usize) {
    let total = left.len() + right.len();
    let wanted = if total <= max { total } else { total / 2 };
    if left.len() < wanted {
        let moved = wanted - left.len();
        left.reserve_exact(wanted.next_multiple_of(STEP) - left.len());
        left.extend(right.drain(..moved));
    } else {
        right.reserve_exact((total - wanted).next_multiple_of(STEP) - right.len());
        right.splice(0..0, left.drain(wanted..));
    }
    trim(left);
    trim(right);
}

/// Gives back spare room down to the step in use.
fn trim<E>(entries: &mut Vec<E>) {
    entries.shrink_to(entries.len().next_multiple_of(STEP));
}

/// Gives back spare room, but keeps a step of it, lest alternate inserts and removes reallocate each time.
fn trim_loose<E>(entries: &mut Vec<E>) {
    if entries.is_empty() || entries.capacity() - entries.len() >= 2 * STEP {
        trim(entries);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A sort key and a mark that the order ignores, to tell equal elements apart.
    type Element = (u16, u32);

    fn by_key(a: &Element, b: &Element) -> Ordering {
        a.0.cmp(&b.0)
    }

    fn at(key: u16) -> impl Fn(&Element) -> Ordering {
        move |e| e.0.cmp(&key)
    }

    impl<T: Copy + PartialEq + std::fmt::Debug> RankedTree<T> {
        /// Asserts every invariant of the module's essay.
        fn check(&self, cmp: impl Fn(&T, &T) -> Ordering) {
            let mut elements = Vec::new();
            let edges = Edges {
                left: true,
                right: true,
            };
            check_node(&self.root, edges, true, &mut elements);
            assert_eq!(self.len, elements.len());
            assert!(elements.is_sorted_by(|a, b| cmp(a, b) != Ordering::Greater));
        }
    }

    /// Returns the height; appends the elements.
    fn check_node<T>(node: &Node<T>, edges: Edges, is_root: bool, elements: &mut Vec<T>) -> usize
    where
        T: Copy + PartialEq + std::fmt::Debug,
    {
        assert!(is_root || !node.is_empty());
        assert!(edges.left || edges.right || !node.is_sparse());
        let inner = match node {
            Node::Leaf(leaf) => {
                assert!(leaf.len() <= LEAF_MAX && leaf.capacity() <= LEAF_MAX);
                assert!(leaf.capacity() - leaf.len() < 2 * STEP);
                elements.extend(leaf);
                return 0;
            }
            Node::Inner(inner) => inner,
        };
        let n = inner.children.len();
        assert!(n <= INNER_MAX && (!is_root || n >= 2));
        assert_eq!((inner.firsts.len(), inner.counts.len()), (n, n));
        let mut heights = Vec::new();
        for (i, child) in inner.children.iter().enumerate() {
            let before = elements.len();
            let below = Edges {
                left: edges.left && i == 0,
                right: edges.right && i + 1 == n,
            };
            heights.push(check_node(child, below, false, elements));
            assert_eq!(inner.counts[i], elements.len() - before);
            assert_eq!(inner.firsts[i], elements[before]);
        }
        assert!(heights.iter().all(|h| *h == heights[0]));
        heights[0] + 1
    }

    #[derive(Debug, Clone)]
    enum Op {
        Insert(u16),
        /// So many elements of one key and the next ones, to reach several levels quickly.
        InsertRun(u16, u16),
        Remove(u16),
        RemoveAt(u16),
        RemoveRange(u16, u16),
        Replace(u16),
        PopFirst,
        PopLast,
        Drain(u16),
        Rebuild,
    }

    fn op() -> impl Strategy<Value = Op> {
        let key = 0..5000u16;
        prop_oneof![
            6 => key.clone().prop_map(Op::Insert),
            6 => (key.clone(), 1..1500u16).prop_map(|(key, n)| Op::InsertRun(key, n)),
            4 => key.clone().prop_map(Op::Remove),
            2 => any::<u16>().prop_map(Op::RemoveAt),
            3 => (any::<u16>(), 0..2500u16).prop_map(|(start, n)| Op::RemoveRange(start, n)),
            2 => any::<u16>().prop_map(Op::Replace),
            1 => Just(Op::PopFirst),
            1 => Just(Op::PopLast),
            1 => (0..700u16).prop_map(Op::Drain),
            1 => Just(Op::Rebuild),
        ]
    }

    /// The tree beside a sorted vector that does the same.
    #[derive(Default)]
    struct Pair {
        tree: RankedTree<Element>,
        model: Vec<Element>,
        marks: u32,
    }

    impl Pair {
        fn insert(&mut self, key: u16) {
            self.marks += 1;
            let element = (key, self.marks);
            self.tree.insert(element, by_key);
            let at = self.model.partition_point(|e| e.0 <= key);
            self.model.insert(at, element);
        }

        /// Which of several equal elements goes is open, so the model follows the tree.
        fn remove(&mut self, key: u16) {
            let removed = self.tree.remove(at(key));
            let equal = self.model.partition_point(|e| e.0 < key)
                ..self.model.partition_point(|e| e.0 <= key);
            assert_eq!(removed.is_some(), !equal.is_empty());
            if let Some(removed) = removed {
                let at = equal
                    .into_iter()
                    .find(|i| self.model[*i] == removed)
                    .expect("an equal element");
                self.model.remove(at);
            }
        }

        fn remove_range(&mut self, start: usize, n: usize) {
            let mut seen = Vec::new();
            let removed = self.tree.remove_range(start..start + n, |e| seen.push(e));
            let end = (start + n).min(self.model.len());
            let expected: Vec<_> = self.model.drain(start.min(end)..end).collect();
            assert_eq!(removed, expected.len());
            assert_eq!(seen, expected);
        }

        fn apply(&mut self, op: Op) {
            let pick = |r: u16, model: &Vec<Element>| usize::from(r) % (model.len() + 1);
            match op {
                Op::Insert(key) => self.insert(key),
                Op::InsertRun(key, n) => (0..n).for_each(|i| self.insert(key + i % 700)),
                Op::Remove(key) => self.remove(key),
                Op::RemoveAt(r) => {
                    let rank = pick(r, &self.model);
                    let expected = (rank < self.model.len()).then(|| self.model.remove(rank));
                    assert_eq!(self.tree.remove_at(rank), expected);
                }
                Op::RemoveRange(r, n) => self.remove_range(pick(r, &self.model), n.into()),
                Op::Replace(r) => {
                    let rank = pick(r, &self.model);
                    self.marks += 1;
                    let new = (self.model.get(rank).map_or(0, |e| e.0), self.marks);
                    let expected = self.model.get_mut(rank).map(|e| std::mem::replace(e, new));
                    assert_eq!(self.tree.replace_at(rank, new), expected);
                }
                Op::PopFirst => {
                    let expected = (!self.model.is_empty()).then(|| self.model.remove(0));
                    assert_eq!(self.tree.pop_first(), expected);
                }
                Op::PopLast => assert_eq!(self.tree.pop_last(), self.model.pop()),
                Op::Drain(max) => {
                    let mut seen = Vec::new();
                    let done = self.tree.drain_step(max.into(), |e| seen.push(e));
                    let rest: Vec<_> = self.tree.iter().collect();
                    assert_eq!(seen.len(), self.model.len().min(max.into()));
                    assert_eq!(done, rest.is_empty());
                    seen.extend(&rest);
                    seen.sort_unstable();
                    let mut all = std::mem::replace(&mut self.model, rest);
                    all.sort_unstable();
                    assert_eq!(seen, all);
                }
                Op::Rebuild => self.tree = RankedTree::from_sorted(self.model.iter().copied()),
            }
        }

        fn check(&self) {
            self.tree.check(by_key);
            assert_eq!(self.tree.len(), self.model.len());
            assert!(self.tree.iter().eq(self.model.iter().copied()));
            assert!(self.tree.iter().rev().eq(self.model.iter().rev().copied()));
        }

        fn check_queries(&self, key: u16, r: u16, n: u16) {
            let (tree, model) = (&self.tree, &self.model);
            let lower = model.partition_point(|e| e.0 < key);
            let upper = model.partition_point(|e| e.0 <= key);
            assert_eq!(tree.lower_bound(at(key)), lower);
            assert_eq!(tree.upper_bound(at(key)), upper);
            match tree.find(at(key)) {
                Some((rank, element)) => {
                    assert!((lower..upper).contains(&rank) && model[rank] == element)
                }
                None => assert_eq!(lower, upper),
            }
            let start = usize::from(r) % (model.len() + 1);
            let end = (start + usize::from(n)).min(model.len());
            assert_eq!(tree.get(start), model.get(start).copied());
            assert_eq!(
                (tree.first(), tree.last()),
                (model.first().copied(), model.last().copied())
            );
            let range = tree.range(start..start + usize::from(n));
            assert_eq!(range.len(), end - start);
            assert!(range.eq(model[start..end].iter().copied()));
            assert!(
                tree.range(start..end)
                    .rev()
                    .eq(model[start..end].iter().rev().copied())
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn behaves_as_a_sorted_vector(
            ops in prop::collection::vec(op(), 1..40),
            queries in prop::collection::vec((0..6000u16, any::<u16>(), 0..3000u16), 20),
        ) {
            let mut pair = Pair::default();
            for op in ops {
                pair.apply(op);
                pair.check();
            }
            for (key, rank, n) in queries {
                pair.check_queries(key, rank, n);
            }
        }

        #[test]
        fn iterates_from_both_ends_at_once(n in 0..9000usize, turns in prop::collection::vec((any::<bool>(), 1..300usize), 40)) {
            let tree = RankedTree::from_sorted(0..n);
            let (mut ours, mut model) = (tree.iter(), 0..n);
            for (forwards, steps) in turns {
                for _ in 0..steps {
                    if forwards {
                        prop_assert_eq!(ours.next(), model.next());
                    } else {
                        prop_assert_eq!(ours.next_back(), model.next_back());
                    }
                }
                prop_assert_eq!(ours.len(), model.len());
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(8))]

        #[test]
        fn survives_heavy_removal(mut random in any::<u64>()) {
            let mut next = |below: usize| {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (random >> 33) as usize % below
            };
            let mut pair = Pair::default();
            (0..8000).for_each(|_| pair.insert(next(20_000) as u16));
            while !pair.model.is_empty() {
                for _ in 0..pair.model.len().min(400) {
                    let (key, _) = pair.model[next(pair.model.len())];
                    pair.remove(key);
                }
                pair.check();
            }
            prop_assert_eq!(pair.tree.memory_usage(), size_of::<RankedTree<Element>>());
        }
    }

    /// Bytes per element beyond the elements themselves.
    fn overhead(tree: &RankedTree<[u64; 2]>) -> f64 {
        tree.memory_usage() as f64 / tree.len() as f64 - 16.0
    }

    const N: u64 = 200_000;

    #[test]
    fn ascending_and_descending_fills_pack_the_nodes() {
        let mut ascending = RankedTree::new();
        let mut descending = RankedTree::new();
        for i in 0..N {
            ascending.insert([i, 0], Ord::cmp);
            descending.insert([N - 1 - i, 0], Ord::cmp);
        }
        for tree in [ascending, descending] {
            tree.check(Ord::cmp);
            assert!(tree.iter().map(|e| e[0]).eq(0..N));
            assert!(overhead(&tree) < 1.0, "{}", overhead(&tree));
        }
    }

    #[test]
    fn random_fill_is_compact() {
        let mut tree = RankedTree::new();
        for i in 0..N {
            tree.insert([i.wrapping_mul(0x9E37_79B9_7F4A_7C15), i], Ord::cmp);
        }
        tree.check(Ord::cmp);
        assert!(overhead(&tree) < 3.0, "{}", overhead(&tree));
    }

    #[test]
    fn queue_use_stays_small() {
        let mut tree = RankedTree::new();
        for i in 0..N {
            tree.insert([i, 0], Ord::cmp);
            if i >= 1000 {
                assert_eq!(tree.pop_first(), Some([i - 1000, 0]));
            }
        }
        tree.check(Ord::cmp);
        assert!(overhead(&tree) < 4.0, "{}", overhead(&tree));
    }

    /// A comparator may follow a handle into memory, hence must never be shown one that was removed.
    #[test]
    fn closures_see_only_present_elements() {
        let mut alive = vec![false; 6000];
        let mut tree = RankedTree::new();
        let mut random = 7u64;
        for _ in 0..60_000 {
            random = random
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            let handle = (random >> 33) as usize % alive.len();
            let see = |e: &usize| {
                assert!(alive[*e]);
                e.cmp(&handle)
            };
            if alive[handle] && random & (1 << 20) == 0 {
                let end = tree.upper_bound(see) + 30;
                tree.remove_range(end - 30..end, |e| alive[e] = false);
            } else if alive[handle] {
                assert_eq!(tree.remove(see), Some(handle));
                alive[handle] = false;
            } else {
                tree.insert(handle, |e, _| see(e));
                alive[handle] = true;
            }
        }
        tree.check(Ord::cmp);
        assert!(tree.iter().eq((0..alive.len()).filter(|e| alive[*e])));
    }

    #[test]
    fn drains_in_bounded_steps() {
        let mut tree = RankedTree::from_sorted(0..100_000u32);
        let mut steps = 0;
        let mut sum = 0;
        loop {
            let mut visited = 0;
            let done = tree.drain_step(1000, |e| {
                visited += 1;
                sum += u64::from(e);
            });
            assert_eq!(visited, 1000);
            steps += 1;
            tree.check(Ord::cmp);
            if done {
                break;
            }
        }
        assert_eq!((steps, sum), (100, 99_999 * 50_000));
    }

    #[test]
    fn answers_at_the_limits() {
        let mut tree: RankedTree<u32> = RankedTree::new();
        assert_eq!((tree.first(), tree.last(), tree.get(0)), (None, None, None));
        assert_eq!(
            (
                tree.pop_first(),
                tree.pop_last(),
                tree.remove_at(usize::MAX)
            ),
            (None, None, None)
        );
        assert_eq!(tree.remove_range(.., |_| ()), 0);
        assert_eq!(tree.range(5..3).next(), None);
        assert_eq!(tree.lower_bound(|_| Ordering::Less), 0);
        assert!(tree.drain_step(1, |_| ()));
        tree.insert(1, Ord::cmp);
        assert_eq!(tree.remove_range(1..=usize::MAX, |_| ()), 0);
        assert_eq!(tree.replace_at(1, 2), None);
        assert_eq!(tree.iter().collect::<Vec<_>>(), [1]);
        assert!(!tree.drain_step(0, |_| ()));
    }
}
