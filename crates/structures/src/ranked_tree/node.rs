//! The nodes of a [`RankedTree`](super::RankedTree): descent, and keeping counts, first elements and fill on the way
//! back up. The essay in the parent module draws them.

use std::cmp::Ordering;

use super::{INNER_MAX, LEAF_MAX, STEP};
use crate::tagged_pointer::prefetch;

/// Bytes that one prefetch loads.
const CACHE_LINE: usize = 64;

pub(super) enum Node<T> {
    Leaf(Vec<T>),
    Inner(Box<Inner<T>>),
}

/// Three arrays of equal length, an entry per child.
pub(super) struct Inner<T> {
    pub(super) firsts: Vec<T>,
    pub(super) counts: Vec<usize>,
    pub(super) children: Vec<Node<T>>,
}

/// Entry of an inner node for a child.
pub(super) struct ChildEntry<T> {
    pub(super) first: T,
    pub(super) count: usize,
    pub(super) child: Node<T>,
}

impl<T: Copy> Node<T> {
    /// Inserts below this node, `rightmost` if the tree ends in it; a node that was split off belongs to the right of
    /// it.
    pub(super) fn insert<F>(&mut self, element: T, cmp: &mut F, rightmost: bool) -> Option<Node<T>>
    where
        F: FnMut(&T, &T) -> Ordering,
    {
        match self {
            Node::Leaf(leaf) => {
                let at = leaf_partition_point(leaf, |e| cmp(e, &element) != Ordering::Greater);
                insert_into_leaf(leaf, at, element, rightmost).map(Node::Leaf)
            }
            Node::Inner(inner) => {
                let i = inner.child_where(|e| cmp(e, &element) != Ordering::Greater);
                let rightmost = rightmost && i + 1 == inner.children.len();
                let split = inner.children[i].insert(element, cmp, rightmost);
                // Elsewhere the first element is not after the new one, which went behind it.
                if i == 0 {
                    inner.firsts[0] = inner.children[0].first();
                }
                inner.counts[i] += 1;
                let right = ChildEntry::of(split?);
                inner.counts[i] -= right.count;
                inner.insert_entry(i + 1, right).map(|right| Node::Inner(Box::new(right)))
            }
        }
    }

    /// Removes an equal element below this node; with it, whether it was the first one here.
    pub(super) fn remove<F>(&mut self, locate: &mut F) -> Option<(T, bool)>
    where
        F: FnMut(&T) -> Ordering,
    {
        match self {
            Node::Leaf(leaf) => {
                let at = leaf_find(leaf, locate)?;
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
    pub(super) fn remove_run(&mut self, mut start: usize, max: usize, visit: &mut impl FnMut(T)) -> usize {
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

    /// Returns the first element of a node that is not empty.
    fn first(&self) -> T {
        match self {
            Node::Leaf(leaf) => leaf[0],
            Node::Inner(inner) => inner.firsts[0],
        }
    }

    /// Returns the number of elements below.
    fn count(&self) -> usize {
        match self {
            Node::Leaf(leaf) => leaf.len(),
            Node::Inner(inner) => inner.counts.iter().sum(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        match self {
            Node::Leaf(leaf) => leaf.is_empty(),
            Node::Inner(inner) => inner.children.is_empty(),
        }
    }

    /// Whether less than a quarter full.
    pub(super) fn is_sparse(&self) -> bool {
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

    pub(super) fn heap_bytes(&self) -> usize {
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

impl<T: Copy> ChildEntry<T> {
    fn of(child: Node<T>) -> Self {
        ChildEntry { first: child.first(), count: child.count(), child }
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

    pub(super) fn pair(left: Node<T>, right: Node<T>) -> Self {
        let mut inner = Inner::with_capacity(STEP);
        inner.push(ChildEntry::of(left));
        inner.push(ChildEntry::of(right));
        inner
    }

    /// Returns the next level above `entries`, in full nodes.
    pub(super) fn group(entries: Vec<ChildEntry<T>>) -> Vec<ChildEntry<T>> {
        let mut above = Vec::with_capacity(entries.len().div_ceil(INNER_MAX));
        let mut entries = entries.into_iter();
        while entries.len() > 0 {
            let mut inner = Inner::with_capacity(entries.len().min(INNER_MAX));
            entries.by_ref().take(INNER_MAX).for_each(|entry| inner.push(entry));
            above.push(ChildEntry::of(Node::Inner(Box::new(inner))));
        }
        above
    }

    fn push(&mut self, entry: ChildEntry<T>) {
        self.insert_at(self.children.len(), entry);
    }

    /// Returns the index of the last child that starts before the sought place, or of the first child.
    pub(super) fn child_where(&self, before: impl FnMut(&T) -> bool) -> usize {
        prefetch_all(&self.firsts);
        self.firsts[1..].partition_point(before)
    }

    /// Returns the index of the child that holds the element at `rank`, which becomes the rank within that child.
    pub(super) fn child_at(&self, rank: &mut usize) -> usize {
        let mut i = 0;
        while *rank >= self.counts[i] {
            *rank -= self.counts[i];
            i += 1;
        }
        i
    }

    /// Inserts an entry; if the node is full, the returned one takes the entries to the right of a split.
    fn insert_entry(&mut self, at: usize, entry: ChildEntry<T>) -> Option<Inner<T>> {
        if self.children.len() < INNER_MAX {
            self.insert_at(at, entry);
            return None;
        }
        let split = INNER_MAX / 2;
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

    fn insert_at(&mut self, at: usize, entry: ChildEntry<T>) {
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

/// Returns the number of elements at the front of a leaf that `before` holds for.
pub(super) fn leaf_partition_point<T>(leaf: &[T], before: impl FnMut(&T) -> bool) -> usize {
    prefetch_all(leaf);
    leaf.partition_point(before)
}

/// Returns the index of an element of a leaf for which `locate` says `Equal`.
pub(super) fn leaf_find<T>(leaf: &[T], locate: impl FnMut(&T) -> Ordering) -> Option<usize> {
    prefetch_all(leaf);
    leaf.binary_search_by(locate).ok()
}

/// Inserts into a leaf; if it is full, the returned one takes the elements to the right of a split.
fn insert_into_leaf<T>(leaf: &mut Vec<T>, at: usize, element: T, rightmost: bool) -> Option<Vec<T>> {
    if leaf.len() < LEAF_MAX {
        insert(leaf, at, element);
        return None;
    }
    let split = match at {
        LEAF_MAX if rightmost => LEAF_MAX,
        // Only in the leftmost leaf, for elsewhere the first element is not after the new one.
        0 => 0,
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

/// Prefetches all of an array at once. A search in it then waits for memory once instead of once a probe, which takes
/// up to a quarter of the time off insert, remove and find.
fn prefetch_all<E>(entries: &[E]) {
    let start: *const u8 = entries.as_ptr().cast();
    for at in (0..size_of_val(entries)).step_by(CACHE_LINE) {
        prefetch(start.wrapping_add(at));
    }
}

/// Inserts as `Vec::insert`, but grows by one step, or within the first step by doubling.
fn insert<E>(entries: &mut Vec<E>, at: usize, entry: E) {
    if entries.len() == entries.capacity() {
        let grown = if entries.len() < STEP { (entries.len() * 2).max(STEP / 4) } else { entries.len() + STEP };
        entries.reserve_exact(grown - entries.len());
    }
    entries.insert(at, entry);
}

/// Splits as `Vec::split_off`, but leaves neither part with more than a step of spare room.
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
pub(super) fn trim<E>(entries: &mut Vec<E>) {
    entries.shrink_to(entries.len().next_multiple_of(STEP));
}

/// Gives back spare room, but keeps a step of it, lest alternate inserts and removes reallocate each time.
fn trim_loose<E>(entries: &mut Vec<E>) {
    if entries.is_empty() || entries.capacity() - entries.len() >= 2 * STEP {
        trim(entries);
    }
}
