//! Changes in the middle of a quicklist: insert, replace, remove.
//!
//! A node that is full is split where the new element belongs, and small neighbours are merged afterwards, at most five
//! nodes around the place.

use super::node::Node;
use super::{End, Quicklist, Rules};
use crate::listpack::{Item, Listpack};
use std::borrow::Cow;
use std::ops::Range;

impl Quicklist {
    /// Inserts an element before or after the one at `pivot`.
    ///
    /// # Panics
    /// When there is none.
    pub fn insert(&mut self, pivot: usize, after: bool, element: Cow<'_, [u8]>, rules: &Rules) {
        let (at, offset) = self.nodes.find(pivot).expect("the pivot exists");
        let place = offset + usize::from(after);
        let count = self.nodes.get(at).map_or(0, Node::count);
        let beside = at + usize::from(after);
        let at_edge = if after { place == count } else { place == 0 };
        self.len += 1;
        if rules.is_large(self.fill, element.len()) {
            let node = self.new_node(element, rules);
            if at_edge {
                self.nodes.insert(beside, node);
                self.settle(beside..beside + 1);
            } else {
                self.split(at, place);
                self.nodes.insert(at + 1, node);
                self.settle(at..at + 3);
            }
        } else if self.has_room(Some(at), element.len(), rules) {
            self.nodes.update(at, |node| insert_at(node.packed_mut(), place, &element));
            self.settle(at..at + 1);
        } else if at_edge {
            let neighbour = if after { Some(at + 1) } else { at.checked_sub(1) };
            if let Some(neighbour) = neighbour.filter(|at| self.has_room(Some(*at), element.len(), rules)) {
                self.nodes.update(neighbour, |node| {
                    let listpack = node.packed_mut();
                    if after { listpack.push_front(&element) } else { listpack.push_back(&element) }
                });
                self.settle(neighbour..neighbour + 1);
            } else {
                self.nodes.insert(beside, self.new_node(element, rules));
                self.settle(beside..beside + 1);
            }
        } else {
            self.split(at, place);
            // The half with the pivot stays what it is; the element goes to the other one.
            let (other, pivot_node) = if after { (at + 1, at) } else { (at, at + 1) };
            self.nodes.update(other, |node| {
                let listpack = node.packed_mut();
                if after { listpack.push_front(&element) } else { listpack.push_back(&element) }
            });
            let merged = self.merge_around(pivot_node);
            self.settle(around(merged));
        }
    }

    /// Puts an element in the place of the one at `index`.
    ///
    /// # Panics
    /// When there is none.
    pub fn replace(&mut self, index: usize, element: Cow<'_, [u8]>, rules: &Rules) {
        let (at, offset) = self.nodes.find(index).expect("the element exists");
        let is_plain = self.nodes.get(at).is_some_and(Node::is_plain);
        let is_large = rules.is_large(self.fill, element.len());
        match (is_plain, is_large) {
            (false, false) => {
                self.nodes.update(at, |node| {
                    let listpack = node.packed_mut();
                    let pos = listpack.seek(offset as isize).expect("the element exists");
                    listpack.replace(pos, &element);
                });
                self.settle(at..at + 1);
            }
            (true, true) => {
                let new = self.new_node(element, rules);
                self.nodes.update(at, |node| *node = new);
                self.settle(at..at + 1);
            }
            (true, false) => {
                self.insert(index, true, element, rules);
                self.nodes.remove(at);
                self.len -= 1;
                self.settle(at..at + 1);
            }
            (false, true) => self.replace_by_large(at, offset, element, rules),
        }
    }

    /// Replaces the element at `offset` of a packed node by one with a node of its own.
    fn replace_by_large(&mut self, at: usize, offset: usize, element: Cow<'_, [u8]>, rules: &Rules) {
        let count = self.nodes.get(at).map_or(0, Node::count);
        if offset + 1 < count {
            self.split(at, offset + 1);
        }
        let new = self.new_node(element, rules);
        if offset == 0 {
            // It was the only one that the split left.
            self.nodes.update(at, |node| *node = new);
            self.settle(at..at + 2);
            return;
        }
        self.nodes.insert(at + 1, new);
        self.nodes.update(at, |node| node.packed_mut().remove_range(-1, 1));
        let merged = self.merge_around(at + 1);
        self.settle(around(merged));
    }

    /// Removes the elements at these indices, which exist.
    pub fn remove_range(&mut self, range: Range<usize>) {
        let Some((mut at, mut offset)) = self.nodes.find(range.start) else { return };
        let mut left = range.len();
        self.len -= left;
        let first = at;
        let mut first_goes = false;
        while left > 0 {
            let count = self.nodes.get(at).map_or(0, Node::count);
            let here = left.min(count - offset);
            if here == count && at == 0 {
                // Last of all: a node that becomes the first is copied if it is shared.
                first_goes = true;
                at = 1;
            } else if here == count {
                self.nodes.remove(at);
            } else {
                self.nodes.update(at, |node| node.packed_mut().remove_range(offset as isize, here));
                at += 1;
            }
            left -= here;
            offset = 0;
        }
        if first_goes {
            self.nodes.remove(0);
            at -= 1;
        }
        self.settle(first..at);
    }

    /// Removes up to `limit` elements that equal this one, from an end on. Returns how many there were.
    pub fn remove_equal(&mut self, element: &[u8], limit: usize, from: End) -> usize {
        let wanted = Item::of(element);
        let mut removed = 0;
        let mut passed = 0;
        while passed < self.nodes.len() && removed < limit {
            let at = if from == End::Head { passed } else { self.nodes.len() - 1 - passed };
            let before = self.nodes.get(at).map_or(0, Node::count);
            let here = self.remove_equal_in(at, wanted, limit - removed, from);
            removed += here;
            if here == before {
                self.nodes.remove(at);
            } else {
                passed += 1;
            }
        }
        if removed > 0 {
            self.len -= removed;
            self.settle(0..0);
        }
        removed
    }

    /// Removes up to `limit` equal elements of one node, which is not changed if none of it would be left. Returns how
    /// many there were.
    fn remove_equal_in(&mut self, at: usize, wanted: Item<'_>, limit: usize, from: End) -> usize {
        let Some(node) = self.nodes.get(at) else { return 0 };
        let decompressed = node.decompressed();
        let listpack = match decompressed.as_ref().unwrap_or(node) {
            Node::Packed(listpack) => listpack,
            Node::Plain(bytes) => return usize::from(Item::Bytes(bytes) == wanted),
            Node::Compressed(_) => unreachable!("it was decompressed"),
        };
        let total = listpack.iter().filter(|item| *item == wanted).count();
        let removed = total.min(limit);
        if removed == 0 || removed == listpack.len() {
            return removed;
        }
        let skipped = if from == End::Head { 0 } else { total - removed };
        let is_compressed = decompressed.is_some();
        self.nodes.update(at, |node| {
            if let Some(decompressed) = decompressed {
                *node = decompressed;
            }
            remove_equal_items(node.packed_mut(), wanted, skipped, removed);
            if is_compressed {
                node.compress();
            }
        });
        removed
    }

    /// Whether a node takes an element of `len` bytes, which is not large.
    fn has_room(&self, at: Option<usize>, len: usize, rules: &Rules) -> bool {
        let Some(node) = at.and_then(|at| self.nodes.get(at)) else { return false };
        !node.is_plain() && !rules.is_large(self.fill, len) && !self.fill.is_exceeded_by(len, node.len(), node.count())
    }

    /// Splits a packed node before its element `place`; the second half is the node after it.
    fn split(&mut self, at: usize, place: usize) {
        let second = self.nodes.update(at, |node| node.packed_mut().split_off(place));
        self.nodes.insert(at + 1, Node::Packed(second));
    }

    /// Merges the two nodes before `at`, the two after it, and it with its neighbours, where they fit into one. Returns
    /// the node's place then.
    fn merge_around(&mut self, at: usize) -> usize {
        let mut at = at;
        if at >= 2 && self.merge(at - 2) {
            at -= 1;
        }
        self.merge(at + 1);
        if at >= 1 && self.merge(at - 1) {
            at -= 1;
        }
        self.merge(at);
        at
    }

    /// Merges the node at `at` with the next one if the two fit into one.
    fn merge(&mut self, at: usize) -> bool {
        let (Some(node), Some(next)) = (self.nodes.get(at), self.nodes.get(at + 1)) else { return false };
        let bytes = (node.len() + next.len()).saturating_sub(Listpack::new().byte_len());
        if node.is_plain() || next.is_plain() || self.fill.is_exceeded(bytes, node.count() + next.count()) {
            return false;
        }
        if let Some(mut next) = self.nodes.take(at + 1) {
            self.nodes.update(at, |node| node.packed_mut().append(next.packed_mut()));
        }
        true
    }
}

/// Returns the nodes that a merge may have left changed.
fn around(at: usize) -> Range<usize> {
    at.saturating_sub(2)..at + 3
}

fn insert_at(listpack: &mut Listpack, place: usize, element: &[u8]) {
    match listpack.seek(place as isize) {
        Some(pos) => listpack.insert_before(pos, element),
        None => listpack.push_back(element),
    }
}

/// Removes `count` elements that equal `wanted`, leaving out the first `skipped` of them.
pub(crate) fn remove_equal_items(listpack: &mut Listpack, wanted: Item<'_>, skipped: usize, count: usize) {
    let (mut skipped, mut left) = (skipped, count);
    let mut pos = listpack.first();
    while left > 0
        && let Some(here) = pos
    {
        if listpack.at(here) != wanted {
            pos = listpack.next(here);
        } else if skipped > 0 {
            skipped -= 1;
            pos = listpack.next(here);
        } else {
            // Neighbours go in one move.
            let run = listpack.iter_from(here).take(left).take_while(|item| *item == wanted).count();
            left -= run;
            pos = listpack.remove_many(here, run);
        }
    }
}
