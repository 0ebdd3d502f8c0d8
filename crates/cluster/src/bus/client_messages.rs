//! Messages of this node's clients for subscribers of other nodes.
//!
//! Each link has a bound for the bytes that wait on it. While a working node exceeds its bound, the driver retains
//! messages, and its own bound holds publishers back. A node that is suspected, or has failed, holds no publisher back:
//! messages above the bound of its link are dropped.

use super::cluster_bus::Bus;
use super::model::bus_effect::{Effect, Level};
use super::model::transports::Transport;
use crate::link_id::LinkId;
use crate::node::{Flags, Node};
use crate::node_id::NodeId;
use crate::packet::{MessageBatch, MessageType};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Bytes that may wait on a link before the driver has to retain messages, unless a directive has another limit.
const LINK_FULL: u64 = 1 << 20;

/// A node that receives messages.
struct Receiver {
    node: NodeId,
    link: LinkId,
    is_in_shard: bool,
    /// Whether the node takes packets that do not name their sender.
    is_light: bool,
    is_full: bool,
}

impl Bus {
    /// Returns whether [`publish`](Self::publish) may be called: no working node has too many bytes waiting.
    pub fn takes_messages(&self) -> bool {
        !self.message_receivers().any(|node| !is_given_up(node) && self.is_full(node, 0))
    }

    /// Sends messages that were published here to all nodes; those of channels that belong to slots to this shard's.
    pub fn publish(&mut self, batch: &MessageBatch) {
        self.published = self.published.plus(batch.published());
        let shard = self.nodes.myself().shard_id;
        let receiver = |node: &Node| {
            let (is_light, is_full) = (self.takes_light_publish(node), self.is_full(node, batch.len()));
            let is_in_shard = node.shard_id == shard;
            Some(Receiver { node: node.id, link: node.link?, is_in_shard, is_light, is_full })
        };
        let receivers: Vec<Receiver> = self.message_receivers().filter_map(receiver).collect();
        let mut packets: BTreeMap<(bool, bool), Arc<[u8]>> = BTreeMap::new();
        for receiver in receivers {
            if receiver.is_full {
                self.drop_messages(&receiver);
                continue;
            }
            let (is_in_shard, is_light) = (receiver.is_in_shard || !batch.is_sharded(), receiver.is_light);
            let made = packets.entry((is_in_shard, is_light)).or_insert_with(|| {
                let header = (!is_light).then(|| self.header(0));
                batch.packets_for(is_in_shard, header.as_ref())
            });
            let bytes = Arc::clone(made);
            self.send_messages(receiver.link, bytes, batch.published().messages, receiver.is_in_shard);
        }
    }

    fn send_messages(&mut self, link: LinkId, bytes: Arc<[u8]>, counts: [u64; 2], is_in_shard: bool) {
        let Some(transport) = self.links.get_mut(link).filter(|_| !bytes.is_empty()) else {
            return;
        };
        transport.queued += bytes.len() as u64;
        transport.drops_messages = false;
        let of_slots = if is_in_shard { counts[1] } else { 0 };
        self.counters.sent.count_all(MessageType::Publish, counts[0], bytes.len());
        self.counters.sent.count_all(MessageType::PublishShard, of_slots, 0);
        self.effects.push(Effect::SendMessages { link, bytes });
    }

    fn drop_messages(&mut self, receiver: &Receiver) {
        let Some(transport) = self.links.get_mut(receiver.link) else {
            return;
        };
        if !std::mem::replace(&mut transport.drops_messages, true) {
            let (id, name) = (receiver.node, self.human_name(receiver.node));
            let text = format!("Messages for node {id} ({name}) are dropped: it does not take what waits for it.");
            self.log(Level::Warning, text);
        }
    }

    fn message_receivers(&self) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(|node| !node.flags.has(Flags::MYSELF | Flags::HANDSHAKE))
    }

    fn link_of(&self, node: &Node) -> Option<&Transport> {
        self.links.get(node.link?)
    }

    /// Returns whether no more messages may wait for a node: `more` bytes if it is given up.
    fn is_full(&self, node: &Node, more: usize) -> bool {
        let Some(queued) = self.link_of(node).map(|link| link.queued) else { return false };
        match is_given_up(node) {
            true => queued > 0 && queued + more as u64 > LINK_FULL,
            false => queued > self.link_bound(),
        }
    }

    /// Returns the bytes that may wait on the link to a working node: as many as `cluster-link-sendbuf-limit` allows,
    /// because that closes the link of a node that takes nothing, and frees its publishers.
    fn link_bound(&self) -> u64 {
        match self.settings.link_sendbuf_limit {
            0 => LINK_FULL,
            limit => limit,
        }
    }

    /// Returns whether a node takes light packets, which do not name their sender: it must have answered on this very
    /// link.
    fn takes_light_publish(&self, node: &Node) -> bool {
        let created = self.link_of(node).map(|link| link.created);
        node.flags.has(Flags::LIGHT_PUBLISH) && created.is_some_and(|created| node.pong_received >= created)
    }
}

/// Returns whether no publisher waits for a node.
fn is_given_up(node: &Node) -> bool {
    node.is_suspected() || node.has_failed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::test_bus::{add_primary, bus};

    fn batch(len: usize) -> MessageBatch {
        let mut batch = MessageBatch::default();
        batch.push(b"news", &vec![b'x'; len], false);
        batch
    }

    /// Creates a node that has a link to another one.
    fn linked() -> (Bus, NodeId, LinkId) {
        let mut bus = bus();
        let node = add_primary(&mut bus);
        bus.connect(node);
        let link = bus.nodes.get(&node).and_then(|node| node.link).expect("a link");
        bus.link_connected(link, "10.0.0.1", 1);
        bus.take_effects();
        (bus, node, link)
    }

    fn sent(bus: &mut Bus) -> usize {
        let effects = bus.take_effects().into_iter();
        effects.map(|effect| if let Effect::SendMessages { bytes, .. } = effect { bytes.len() } else { 0 }).sum()
    }

    #[test]
    fn messages_wait_elsewhere_while_a_link_has_enough() {
        let (mut bus, _, link) = linked();
        assert!(bus.takes_messages());
        bus.publish(&batch(LINK_FULL as usize));
        let bytes = sent(&mut bus);
        assert!(!bus.takes_messages());
        bus.link_written(link, bytes);
        assert!(bus.takes_messages());
    }

    #[test]
    fn a_node_that_is_suspected_holds_nobody_back_and_no_memory() {
        for flag in [Flags::PFAIL, Flags::FAIL] {
            let (mut bus, node, _) = linked();
            bus.publish(&batch(LINK_FULL as usize));
            assert!(sent(&mut bus) > 0 && !bus.takes_messages());
            bus.nodes.get_mut(&node).expect("a node").flags.set(flag, true);
            assert!(bus.takes_messages());
            bus.publish(&batch(1));
            bus.publish(&batch(1));
            let effects = bus.take_effects();
            let [Effect::Log { text, .. }] = &effects[..] else { panic!("{effects:?}") };
            assert!(text.contains("are dropped"), "{text}");
        }
    }

    #[test]
    fn a_link_may_have_a_smaller_limit_and_is_closed_by_that() {
        let (mut bus, _, link) = linked();
        bus.settings.link_sendbuf_limit = LINK_FULL / 2;
        bus.publish(&batch(LINK_FULL as usize));
        assert!(!bus.takes_messages());
        bus.tick(2);
        assert_eq!((bus.links.get(link).is_some(), bus.counters.links_over_limit), (false, 1));
        assert!(bus.takes_messages());
    }

    #[test]
    fn a_larger_limit_closes_a_link_before_it_holds_publishers_back() {
        let (mut bus, _, link) = linked();
        bus.settings.link_sendbuf_limit = 2 * LINK_FULL;
        bus.publish(&batch(LINK_FULL as usize));
        bus.tick(2);
        assert!(bus.takes_messages() && bus.links.get(link).is_some());
        bus.publish(&batch(LINK_FULL as usize));
        bus.tick(3);
        assert_eq!((bus.links.get(link).is_some(), bus.counters.links_over_limit), (false, 1));
    }

    #[test]
    fn messages_of_slots_stay_in_the_shard() {
        let (mut bus, node, _) = linked();
        let mut of_slots = MessageBatch::default();
        of_slots.push(b"news", b"1", true);
        bus.publish(&of_slots);
        assert_eq!((sent(&mut bus), bus.counters.sent.messages[MessageType::PublishShard as usize]), (0, 0));
        let shard = bus.nodes.myself().shard_id;
        bus.nodes.get_mut(&node).expect("a node").shard_id = shard;
        bus.publish(&of_slots);
        assert!(sent(&mut bus) > 0);
        assert_eq!(bus.counters.sent.messages[MessageType::PublishShard as usize], 1);
    }
}
