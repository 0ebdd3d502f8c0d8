//! An immutable view of a node at one moment: other threads read it without waiting for the node.

use super::cluster_bus::Bus;
use super::model::message_counters::Counters;
use super::model::transports::LinkInfo;
use crate::Millis;
use crate::conf::{self, LineFor};
use crate::migration::Job;
use crate::node::{Flags, Node};
use crate::node_table::NodeTable;
use crate::packet::{MessageType, Published};

/// A node at one moment. Views share nodes that do not change.
#[derive(Clone, Debug)]
pub struct NodeView {
    nodes: NodeTable,
    links: Vec<LinkInfo>,
    jobs: Vec<Job>,
    counters: Counters,
    published: Published,
    current_epoch: u64,
    is_up: bool,
    size: usize,
    node_timeout: Millis,
    now: Millis,
}

impl NodeView {
    /// Returns all known nodes.
    pub fn nodes(&self) -> &NodeTable {
        &self.nodes
    }

    /// Returns all links whose other end is known.
    pub fn links(&self) -> &[LinkInfo] {
        &self.links
    }

    /// Returns migrations that are in progress, and those that ended lately.
    pub fn jobs(&self) -> &[Job] {
        &self.jobs
    }

    /// Returns how much was sent and received, with the messages that clients have `published` by now.
    pub fn counters(&self, published: Published) -> Counters {
        let mut counters = self.counters;
        let shard = self.nodes.myself().shard_id;
        let others = self.nodes.iter().filter(|node| !node.flags.has(Flags::MYSELF | Flags::HANDSHAKE));
        let others = others.filter(|node| node.link.is_some());
        let receivers = [others.clone().count(), others.filter(|node| node.shard_id == shard).count()];
        for (kind, of) in [MessageType::Publish, MessageType::PublishShard].into_iter().enumerate() {
            let messages = published.messages[kind].saturating_sub(self.published.messages[kind]);
            let bytes = published.bytes[kind].saturating_sub(self.published.bytes[kind]) as usize;
            counters.sent.count_all(of, messages * receivers[kind] as u64, bytes * receivers[kind]);
        }
        counters
    }

    /// Returns the greatest epoch that was seen.
    pub fn current_epoch(&self) -> u64 {
        self.current_epoch
    }

    /// Returns whether the cluster serves.
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// Returns how many primaries have slots.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns how many nodes have reported lately that a node has failed.
    pub fn failure_reports(&self, node: &Node) -> usize {
        let oldest = self.now - self.node_timeout.saturating_mul(2);
        node.failure_reports.values().filter(|reported| **reported > oldest).count()
    }

    /// Returns a node's line as CLUSTER NODES and CLUSTER REPLICAS show it.
    pub fn node_line(&self, node: &Node, reader: LineFor) -> String {
        let mut line = String::new();
        conf::node_line(&mut line, &self.nodes, node, reader);
        line
    }
}

impl Bus {
    /// Returns a view of the node's present state.
    pub fn view(&self) -> NodeView {
        NodeView {
            nodes: self.nodes.clone(),
            links: self.links(),
            jobs: self.migrations.jobs().cloned().collect(),
            counters: self.counters,
            published: self.published,
            current_epoch: self.current_epoch,
            is_up: self.health.is_up,
            size: self.health.size,
            node_timeout: self.settings.node_timeout,
            now: self.now,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::model::message_counters::Traffic;
    use crate::bus::test_bus::{add_primary, bus};
    use crate::packet::MessageBatch;

    #[test]
    fn a_view_stays_as_it_was() {
        let mut bus = bus();
        let node = add_primary(&mut bus);
        let before = bus.view();
        bus.nodes.get_mut(&node).expect("a node").flags.set(Flags::PFAIL, true);
        bus.nodes.set_owner(7, Some(node));
        let after = bus.view();
        let is_suspected =
            [&before, &after].map(|view| view.nodes().get(&node).is_some_and(|node| node.is_suspected()));
        assert_eq!(is_suspected, [false, true]);
        assert_eq!([before.nodes().owner(7), after.nodes().owner(7)], [None, Some(node)]);
        let myself = |view: &NodeView| std::ptr::from_ref(view.nodes().myself());
        assert_eq!(myself(&before), myself(&after), "what has not changed is shared");
    }

    #[test]
    fn messages_count_as_said_before_the_node_has_them() {
        let mut bus = bus();
        let node = add_primary(&mut bus);
        bus.connect(node);
        let other = bus.nodes.get_mut(&node).expect("a node");
        other.flags.set(Flags::LIGHT_PUBLISH, true);
        other.pong_received = 5;
        let mut batch = MessageBatch::default();
        batch.push(b"news", b"1", false);
        batch.push(b"news", b"2", true);
        let before = bus.view();
        bus.publish(&batch);
        let sent = [&before, &bus.view()].map(|view| view.counters(batch.published()).sent);
        let mut wanted = Traffic::default();
        wanted.count(MessageType::Publish, 29);
        assert_eq!(sent, [wanted, wanted]);
    }
}
