//! Reading a [`RankedTree`] in order: a leaf at a time, found by its rank.

use std::ops::Range;
use std::slice;

use super::RankedTree;

/// Elements of a [`RankedTree`] in order, from either end.
///
/// Holds the unread rest of one leaf at each end and the ranks between; each further leaf is found by its rank.
#[derive(Clone)]
pub struct Iter<'a, T> {
    tree: &'a RankedTree<T>,
    front: slice::Iter<'a, T>,
    between: Range<usize>,
    back: slice::Iter<'a, T>,
}

impl<'a, T> Iter<'a, T> {
    /// Makes an iterator. `ranks` lie within the tree.
    pub(super) fn new(tree: &'a RankedTree<T>, ranks: Range<usize>) -> Self {
        Iter { tree, front: [].iter(), between: ranks, back: [].iter() }
    }
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
        self.back.next_back().or_else(|| self.front.next_back()).copied()
    }
}

impl<T: Copy> ExactSizeIterator for Iter<'_, T> {}
