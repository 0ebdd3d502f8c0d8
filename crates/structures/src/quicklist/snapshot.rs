//! A part of a list as it was at one moment, to be read while the list changes.
//!
//! It shares the nodes that it covers with the list, except for the list's first and last one, of which it has copies.
//! Nodes are released when they have been read, so a reply of a gigabyte is chunked, without the list's lock and
//! without a second gigabyte.

use super::node::{Node, NodeView};
use super::visit_node;
use crate::listpack::Item;
use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Nodes of a list as they were at one moment, to be taken from the front; shared as a [`ListSnapshot`]'s are.
pub struct NodesLeft(VecDeque<Arc<Node>>);

impl NodesLeft {
    pub(super) fn new(nodes: VecDeque<Arc<Node>>) -> Self {
        NodesLeft(nodes)
    }

    /// Shows the next node and releases it; false when none was left.
    pub fn next(&mut self, show: impl FnOnce(NodeView<'_>)) -> bool {
        let node = self.0.pop_front();
        node.map(|node| show(node.view())).is_some()
    }

    /// Whether no node is left.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Elements of a list, to be taken from either end.
pub struct ListSnapshot {
    nodes: VecDeque<Arc<Node>>,
    /// Elements of the first node that are not wanted.
    skipped: usize,
    /// Elements of the last node that are not wanted.
    beyond: usize,
    /// Wanted elements that are left.
    left: usize,
}

impl ListSnapshot {
    pub(super) fn new(left: usize) -> Self {
        ListSnapshot { nodes: VecDeque::new(), skipped: 0, beyond: 0, left }
    }

    pub(super) fn add(&mut self, node: Arc<Node>) {
        self.nodes.push_back(node);
    }

    /// Leaves out so many elements of the first node and of the last.
    pub(super) fn leave_out(&mut self, skipped: usize, beyond: usize) {
        (self.skipped, self.beyond) = (skipped, beyond);
    }

    /// Returns the number of elements that are left.
    pub fn len(&self) -> usize {
        self.left
    }

    /// Whether no element is left.
    pub fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Shows the elements of the last node, the last element first, and releases them. False when none was left.
    pub fn next_node_back(&mut self, mut see: impl FnMut(Item<'_>)) -> bool {
        let Some(node) = self.nodes.pop_back() else { return false };
        let from = if self.nodes.is_empty() { std::mem::take(&mut self.skipped) } else { 0 };
        let to = node.count() - std::mem::take(&mut self.beyond);
        self.left -= to - from;
        let _ = visit_node(&node, from..to, true, |item| {
            see(item);
            ControlFlow::Continue(())
        });
        true
    }

    /// Shows the elements of the next node, some hundred at most, to `see` and releases them. False when none was left.
    pub fn next_node(&mut self, mut see: impl FnMut(Item<'_>)) -> bool {
        let Some(node) = self.nodes.pop_front() else { return false };
        let from = std::mem::take(&mut self.skipped);
        let here = (node.count() - from).min(self.left);
        self.left -= here;
        let _ = visit_node(&node, from..from + here, false, |item| {
            see(item);
            ControlFlow::Continue(())
        });
        true
    }
}
