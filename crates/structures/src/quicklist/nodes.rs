//! The nodes of a quicklist in order: the first and the last at hand, those between them in a sequence.
//!
//! ```text
//!  first | middle: a tree of nodes | last
//! ```
//!
//! Lists are pushed and popped at their ends nearly always, and there no tree is to be touched. Either end takes from
//! the middle when it is used up, and gives its node to it when a new one is put outside.
//!
//! The nodes of the middle may be shared with copies and snapshots of the list; a shared one is copied when it is
//! changed. The ends are changed all the time and are not shared.
//!
//! Invariants (asserted by `check` in the tests): there is a first node if there is any, and a last one if there are
//! two.

use super::node::Node;
use super::sequence::{Sequence, Weigh};
use std::sync::Arc;

#[derive(Clone)]
pub(super) struct Nodes {
    first: Option<Node>,
    middle: Sequence<Arc<Node>>,
    last: Option<Node>,
}

impl Nodes {
    pub(super) const fn new() -> Self {
        Nodes { first: None, middle: Sequence::new(), last: None }
    }

    /// Returns the number of nodes.
    #[inline]
    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.middle.len() + usize::from(self.last.is_some())
    }

    #[inline]
    pub(super) fn first(&self) -> Option<&Node> {
        self.first.as_ref()
    }

    #[inline]
    pub(super) fn last(&self) -> Option<&Node> {
        self.last.as_ref().or(self.first.as_ref())
    }

    #[inline]
    pub(super) fn first_mut(&mut self) -> Option<&mut Node> {
        self.first.as_mut()
    }

    #[inline]
    pub(super) fn last_mut(&mut self) -> Option<&mut Node> {
        self.last.as_mut().or(self.first.as_mut())
    }

    pub(super) fn get(&self, at: usize) -> Option<&Node> {
        match at {
            0 => self.first.as_ref(),
            _ => match self.middle.get(at - 1) {
                Some(node) => Some(node),
                None => self.last.as_ref().filter(|_| at == self.middle.len() + 1),
            },
        }
    }

    /// Lets `change` at a node.
    ///
    /// # Panics
    /// When there is none at `at`.
    pub(super) fn update<R>(&mut self, at: usize, change: impl FnOnce(&mut Node) -> R) -> R {
        if at > 0 && at <= self.middle.len() {
            return self.middle.update(at - 1, |node| change(Arc::make_mut(node)));
        }
        let node = if at == 0 { &mut self.first } else { &mut self.last };
        change(node.as_mut().expect("a node at this place"))
    }

    /// Returns the node that holds the element at `index`, and the element's index in it.
    pub(super) fn find(&self, index: usize) -> Option<(usize, usize)> {
        let Some(after_first) = index.checked_sub(self.first.as_ref()?.weight()) else { return Some((0, index)) };
        if let Some((at, offset)) = self.middle.find(after_first) {
            return Some((at + 1, offset));
        }
        let offset = after_first - self.middle.weight();
        self.last.as_ref().filter(|last| offset < last.weight()).map(|_| (self.middle.len() + 1, offset))
    }

    /// Puts a node before the one at `at`, or at the end.
    pub(super) fn insert(&mut self, at: usize, node: Node) {
        let len = self.len();
        if len == 0 {
            self.first = Some(node);
        } else if at == 0 {
            let mut moved = self.first.replace(node);
            // It was the front, and is no more.
            if let Some(Node::Packed(listpack)) = &mut moved {
                listpack.trim();
            }
            if self.last.is_none() {
                self.last = moved;
            } else if let Some(moved) = moved {
                self.middle.insert(0, Arc::new(moved));
            }
        } else if at >= len {
            if let Some(moved) = self.last.replace(node) {
                self.middle.insert(self.middle.len(), Arc::new(moved));
            }
        } else {
            self.middle.insert(at - 1, Arc::new(node));
        }
    }

    /// Returns a node that can be retained while the list changes.
    pub(super) fn share(&self, at: usize) -> Option<Arc<Node>> {
        match self.middle.get(at.wrapping_sub(1)) {
            Some(node) => Some(Arc::clone(node)),
            None => self.get(at).map(|node| Arc::new(node.clone())),
        }
    }

    /// Takes a node out.
    pub(super) fn take(&mut self, at: usize) -> Option<Node> {
        if at == 0 {
            let node = self.first.take();
            self.first = self.middle.remove(0).map(Arc::unwrap_or_clone).or_else(|| self.last.take());
            return node;
        }
        if at <= self.middle.len() {
            return self.middle.remove(at - 1).map(Arc::unwrap_or_clone);
        }
        let node = if at == self.middle.len() + 1 { self.last.take() } else { None };
        if node.is_some() {
            let before = self.middle.len().checked_sub(1).and_then(|at| self.middle.remove(at));
            self.last = before.map(Arc::unwrap_or_clone);
        }
        node
    }

    /// Drops a node; returns how many elements it had.
    pub(super) fn remove(&mut self, at: usize) -> usize {
        match at.checked_sub(1).filter(|at| *at < self.middle.len()) {
            Some(at) => self.middle.remove(at).map_or(0, |node| node.count()),
            None => self.take(at).map_or(0, |node| node.count()),
        }
    }

    /// Drops any node; returns how many elements it had.
    pub(super) fn remove_any(&mut self) -> usize {
        self.remove(self.middle.len())
    }

    /// Returns the bytes of the nodes on the heap, without those of the tree.
    pub(super) fn memory_usage(&self) -> usize {
        (0..self.len()).filter_map(|at| self.get(at)).map(Node::memory_usage).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl Nodes {
        pub(in super::super) fn check(&self) {
            assert!(self.first.is_some() || self.len() == 0);
            assert!(self.last.is_some() || self.len() <= 1);
        }
    }

    fn node(n: usize) -> Node {
        Node::Packed((0..=n % 5).map(|k| format!("{n}.{k}")).collect())
    }

    /// Returns the first element, which identifies the node.
    fn name(node: &Node) -> Vec<u8> {
        let Node::Packed(listpack) = node else { panic!("a packed node") };
        listpack.iter().next().map(|item| item.to_vec()).unwrap_or_default()
    }

    proptest! {
        #[test]
        fn nodes_are_a_vector(steps in proptest::collection::vec((any::<bool>(), any::<prop::sample::Index>(), 0..4u8), 0..200)) {
            let (mut nodes, mut model) = (Nodes::new(), Vec::<usize>::new());
            for (n, (is_insert, at, place)) in steps.into_iter().enumerate() {
                let places = model.len() + usize::from(is_insert);
                let at = match place {
                    _ if places == 0 => 0,
                    0 => 0,
                    1 => places - 1,
                    _ => at.index(places),
                };
                if is_insert {
                    nodes.insert(at, node(n));
                    model.insert(at, n);
                } else {
                    let removed = nodes.take(at).map(|node| name(&node));
                    let expected = if model.is_empty() { None } else { Some(name(&node(model.remove(at)))) };
                    prop_assert_eq!(removed, expected);
                }
                nodes.check();
                prop_assert_eq!(nodes.len(), model.len());
                let names = |nodes: Vec<&Node>| nodes.into_iter().map(name).collect::<Vec<_>>();
                let expected: Vec<Node> = model.iter().map(|n| node(*n)).collect();
                prop_assert_eq!(names((0..nodes.len()).filter_map(|at| nodes.get(at)).collect()), names(expected.iter().collect()));
                prop_assert!(nodes.get(model.len()).is_none());
                let mut index = 0;
                for (at, node) in expected.iter().enumerate() {
                    for offset in 0..node.count() {
                        prop_assert_eq!(nodes.find(index), Some((at, offset)));
                        index += 1;
                    }
                }
                prop_assert_eq!(nodes.find(index), None);
            }
        }
    }
}
