//! Packets that arrive on a link.

use crate::Millis;
use crate::bus::cluster_bus::Bus;
use crate::bus::model::bus_effect::{Effect, Level};
use crate::link_id::LinkId;
use crate::node::{Flags, Node};
use crate::node_id::NodeId;
use crate::packet::{BadFrame, Body, Extension, GossipEntry, Header, MessageFlags, MessageType, decode, message_type};

/// Flags that the sender of a packet announces of itself.
const TOLD_FLAGS: u16 = Flags::LIGHT_PUBLISH | Flags::LIGHT_MODULE | Flags::MY_PRIMARY_FAIL;

/// Greatest length of a packet on a link that no known node has used yet: gossip of 10,000 nodes.
const STRANGERS_PACKET_MAX: usize = 1 << 20;

impl Bus {
    /// Takes bytes of a link. Returns whether they had messages for subscribers.
    pub fn received(&mut self, link: LinkId, bytes: &[u8], now: Millis) -> bool {
        self.now = now;
        let before = self.counters.received.publish_bytes;
        let mut reader = self.links.get_mut(link).map(|link| std::mem::take(&mut link.reader)).unwrap_or_default();
        reader.push(bytes);
        while let Some(transport) = self.links.get(link) {
            let is_known =
                transport.node.and_then(|id| self.nodes.get(&id)).is_some_and(|node| !node.is_in_handshake());
            match reader.next_packet(if is_known { usize::MAX } else { STRANGERS_PACKET_MAX }) {
                Ok(Some(packet)) => self.take_packet(link, packet),
                Ok(None) => break,
                Err(BadFrame) => {
                    let from = transport.remote_ip.clone();
                    let text = format!("Bad message length or signature received on the Cluster bus from {from}");
                    self.log(Level::Warning, text);
                    self.close_link(link);
                }
            }
        }
        if let Some(transport) = self.links.get_mut(link) {
            transport.reader = reader;
        }
        self.settle();
        self.counters.received.publish_bytes > before
    }

    fn take_packet(&mut self, link: LinkId, bytes: &[u8]) {
        let number = message_type(bytes);
        if let Some(message) = MessageType::of(number) {
            self.counters.received.count(message, bytes.len());
        }
        if self.is_dropped(number) {
            if self.debug.close_link_on_drop {
                self.close_link(link);
            }
            return;
        }
        let packet = match decode(bytes) {
            Ok(packet) => packet,
            Err(error) => {
                self.log(Level::Warning, error.to_string());
                return;
            }
        };
        match packet.header {
            Some(header) => self.take_full(link, &header, packet.body),
            None => self.take_light(link, packet.body),
        }
    }

    fn is_dropped(&mut self, number: u16) -> bool {
        let filter = self.debug.drop_packet_filter;
        let is_dropped = filter == -2 || filter == i64::from(number);
        if is_dropped {
            let name = MessageType::of(number).map_or("unknown", MessageType::name);
            self.log(Level::Warning, format!("Dropping packet of type {name} that matches debug drop filter"));
        }
        is_dropped
    }

    /// Takes a light packet, which does not name its sender: a known node must have used the link before.
    fn take_light(&mut self, link: LinkId, body: Body) {
        let now = self.now;
        let sender = self.links.get(link).and_then(|link| link.node);
        let known = sender.and_then(|id| self.nodes.get_mut(&id)).filter(|node| !node.is_in_handshake());
        let Some(node) = known else {
            let name = body.message().name();
            let text = format!("Closing link that sent a lightweight message of type {name} as its first message");
            self.log(Level::Notice, text);
            self.close_link(link);
            return;
        };
        node.data_received = now;
        self.deliver(body);
    }

    fn deliver(&mut self, body: Body) {
        if let Body::Publish { channel, message, is_sharded } = body {
            self.effects.push(Effect::Deliver { channel, message, is_sharded });
        }
    }

    pub(super) fn take_full(&mut self, link: LinkId, header: &Header, body: Body) {
        if !self.believes(header, &body) {
            return;
        }
        let sender = self.sender_of(link, header);
        if header.message_flags.has(MessageFlags::EXTENSIONS)
            && let Some(transport) = self.links.get_mut(link)
        {
            transport.takes_extensions = true;
        }
        // The sender's flags before this packet decide how the packet is taken.
        let before = sender.and_then(|id| self.nodes.get(&id)).map(|node| node.flags).unwrap_or_default();
        if let Some(sender) = sender {
            self.note_sender(sender, link, header);
        }
        match body {
            Body::Gossip { message, entries, extensions } => {
                self.take_ping(link, header, message, sender, before, (&entries, &extensions));
            }
            Body::Fail(failed) => self.take_fail(sender, failed),
            Body::Unknown(number) => {
                self.log(Level::Warning, format!("Received unknown packet type: {number}"));
            }
            body => {
                if let Some(sender) = sender {
                    self.take_from_known(link, header, body, sender);
                }
            }
        }
    }

    fn take_from_known(&mut self, link: LinkId, header: &Header, body: Body, sender: NodeId) {
        match body {
            Body::VoteRequest => self.vote_if_right(sender, header),
            Body::Vote => self.take_vote(sender, header.current_epoch),
            Body::ManualFailoverStart => {
                if self.nodes.get(&sender).is_some_and(|node| node.primary == Some(self.nodes.my_id())) {
                    self.pause_for(sender);
                    // The replica waits for this node's flags and offset.
                    self.send_ping(link, MessageType::Ping);
                }
            }
            Body::Update { config_epoch, node: Some(node), slots } => {
                self.take_update(sender, node, config_epoch, &slots);
            }
            body => self.deliver(body),
        }
    }

    /// Returns a packet's sender. An incoming link belongs to the first node that names itself on it.
    fn sender_of(&mut self, link: LinkId, header: &Header) -> Option<NodeId> {
        let bound = self.links.get(link)?.node;
        if let Some(node) = bound.and_then(|id| self.nodes.get(&id)).filter(|node| !node.is_in_handshake()) {
            return Some(node.id);
        }
        let sender = self.nodes.get(&header.sender?)?.id;
        if bound.is_none() {
            self.bind_inbound(sender, link);
        }
        Some(sender)
    }

    /// Records a header's description of its sender.
    pub(super) fn note_sender(&mut self, sender: NodeId, link: LinkId, header: &Header) {
        let takes_extensions = self.links.get(link).is_some_and(|link| link.takes_extensions);
        let now = self.now;
        let Some(node) = self.nodes.get_mut(&sender).filter(|node| !node.is_myself()) else {
            return;
        };
        node.data_received = now;
        if takes_extensions {
            node.flags.set(Flags::EXTENSIONS, true);
        }
        node.flags.set(TOLD_FLAGS, false);
        node.flags.set(header.flags & TOLD_FLAGS, true);
        if node.is_in_handshake() {
            return;
        }
        node.replication_offset = header.offset;
        let is_newer = !header.is_replica && header.config_epoch > node.config_epoch;
        if is_newer {
            node.config_epoch = header.config_epoch;
        }
        self.current_epoch = self.current_epoch.max(header.current_epoch);
        if is_newer {
            self.todo.save(true);
            self.give_up_election_for(sender, header.config_epoch);
        }
        let myself = self.nodes.myself();
        let is_my_primary = myself.is_replica() && myself.primary == Some(sender);
        if self.manual.end != 0
            && is_my_primary
            && header.message_flags.has(MessageFlags::PAUSED)
            && self.manual.primary_offset != Some(header.offset)
        {
            // A stream that begins meanwhile, for the primary's first replica, has a first word.
            self.manual.primary_offset = Some(header.offset);
            self.todo.handle_manual_failover();
            let text = format!("Received replication offset for paused primary manual failover: {}", header.offset);
            self.log(Level::Notice, text);
        }
    }

    fn take_ping(
        &mut self,
        link: LinkId,
        header: &Header,
        message: MessageType,
        sender: Option<NodeId>,
        before: Flags,
        (entries, extensions): (&[GossipEntry], &[Extension]),
    ) {
        if message != MessageType::Pong {
            self.learn_my_ip(link, message);
            if message == MessageType::Meet {
                self.take_meet(link, header, sender, entries);
            }
            self.send_ping(link, MessageType::Pong);
        }
        self.take_news(link, header, message, sender, before, (entries, extensions));
    }

    /// Learns this node's ip from the address at which another node has reached it.
    fn learn_my_ip(&mut self, link: LinkId, message: MessageType) {
        let myself = self.nodes.myself();
        let asks = message == MessageType::Meet || myself.address.ip.is_empty();
        let Some(ip) = self.links.get(link).map(|link| link.local_ip.clone()).filter(|ip| !ip.is_empty()) else {
            return;
        };
        if asks && self.announced.ip.is_empty() && myself.address.ip != ip {
            self.log(Level::Notice, format!("IP address for this node updated to {ip}"));
            self.nodes.myself_mut().address.ip = ip;
            self.todo.save(false);
        }
    }

    fn take_meet(&mut self, link: LinkId, header: &Header, sender: Option<NodeId>, entries: &[GossipEntry]) {
        match sender {
            None => {
                if self.links.get(link).is_some_and(|link| link.node.is_none()) {
                    self.begin_handshake_with(link, header);
                }
                // A node that sends MEET is trusted.
                let introduced = self.links.get(link).and_then(|link| link.node);
                self.take_gossip(entries, introduced);
            }
            Some(sender) => {
                // The sender is known here, but does not know this node: a new link introduces this node.
                let outbound = self.nodes.get(&sender).filter(|node| self.exceeds_handshake(node));
                if let Some(outbound) = outbound.and_then(|node| node.link).filter(|outbound| *outbound != link) {
                    let name = self.human_name(sender);
                    let text = format!(
                        "Freeing outbound link to node {sender} ({name}) after receiving a MEET packet from this \
                         known node"
                    );
                    self.log(Level::Notice, text);
                    self.close_link(outbound);
                }
            }
        }
    }

    /// Begins a handshake with an unknown node that sent MEET. The node's answer will have all but its address.
    fn begin_handshake_with(&mut self, link: LinkId, header: &Header) {
        let Some(transport) = self.links.get(link) else {
            return;
        };
        let ip = if header.ip.is_empty() { transport.remote_ip.clone() } else { header.ip.clone() };
        let extensions = if transport.takes_extensions { Flags::EXTENSIONS } else { 0 };
        let mut node = self.nameless_node(Flags::HANDSHAKE | extensions);
        let (tcp_port, tls_port) = self.ports_from_told(header.port, header.other_port);
        node.address.ip = ip;
        (node.address.tcp_port, node.address.tls_port) = (tcp_port, tls_port);
        node.address.bus_port = header.bus_port;
        let id = node.id;
        self.nodes.insert(node);
        self.bind_inbound(id, link);
        self.todo.save(false);
    }

    pub(in crate::bus) fn exceeds_handshake(&self, node: &Node) -> bool {
        self.now - node.created > self.handshake_timeout()
    }

    /// Returns the greatest length of a handshake.
    pub(in crate::bus) fn handshake_timeout(&self) -> Millis {
        self.settings.node_timeout.max(1000)
    }

    fn take_fail(&mut self, sender: Option<NodeId>, failed: Option<NodeId>) {
        let Some(failed) = failed.and_then(|id| self.nodes.get(&id)) else {
            return;
        };
        let (id, is_news) = (failed.id, !failed.flags.has(Flags::FAIL | Flags::MYSELF));
        if sender == Some(id) && failed.has_failed() {
            // The node is reachable, and counts as failed all the same.
            self.nodes.get_mut(&id).into_iter().for_each(|node| node.failed_at = self.now);
        }
        match sender {
            Some(sender) if is_news => {
                let (by, of) = (self.human_name(sender), self.human_name(id));
                let text = format!("FAIL message received from {sender} ({by}) about {id} ({of})");
                self.log(Level::Notice, text);
                self.mark_as_failing(id);
            }
            Some(_) => {}
            None => self.log(Level::Notice, format!("Ignoring FAIL message from unknown node about {id}")),
        }
    }

    fn take_update(&mut self, sender: NodeId, id: NodeId, epoch: u64, slots: &crate::slot_set::SlotSet) {
        let Some(node) = self.nodes.get(&id).filter(|node| node.config_epoch < epoch) else {
            return;
        };
        let (old, is_replica) = (node.config_epoch, node.is_replica());
        let (by, of) = (self.named_in_shard(sender), self.named_in_shard(id));
        let text = format!(
            "Processing UPDATE message received from {by} about node {of}. old configEpoch {old}, new configEpoch \
             {epoch}"
        );
        self.log(Level::Notice, text);
        if is_replica && id != self.nodes.my_id() {
            self.set_as_primary(id);
        }
        if let Some(node) = self.nodes.get_mut(&id) {
            node.config_epoch = epoch;
        }
        self.todo.save(true);
        self.take_claim(id, epoch, slots);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::test_bus::{add_primary, bus};

    #[test]
    fn a_stranger_may_not_promise_a_long_packet() {
        let mut bus = bus();
        let known = add_primary(&mut bus);
        let prefix = |message: MessageType, len: usize| {
            [&b"RCmb"[..], &(len as u32).to_be_bytes(), &[0, 1, 0, 0, 0, message as u8, 0, 0]].concat()
        };
        for (node, message, len, stays) in [
            (None, MessageType::Ping, STRANGERS_PACKET_MAX, true),
            (None, MessageType::Ping, STRANGERS_PACKET_MAX + 1, false),
            (None, MessageType::Publish, u32::MAX as usize, false),
            (Some(known), MessageType::Publish, u32::MAX as usize, true),
            (Some(known), MessageType::Ping, u32::MAX as usize, false),
        ] {
            let link = bus.link_accepted("10.0.0.7", "10.0.0.1", 1);
            bus.links.get_mut(link).expect("a link").node = node;
            bus.received(link, &prefix(message, len), 1);
            assert_eq!(bus.links.get(link).is_some(), stays, "{node:?} {message:?} {len}");
        }
    }
}
