//! Messages of this node other than pings.

use super::cluster_bus::Bus;
use super::model::bus_effect::Effect;
use crate::link_id::LinkId;
use crate::node::{Flags, Node};
use crate::node_id::NodeId;
use crate::packet::{Body, Header, MessageFlags, MessageType, encode};
use std::sync::Arc;

impl Bus {
    /// Returns the header of a full packet. A replica's header has its primary's slots and epoch.
    pub(super) fn header(&self, flags: u8) -> Header {
        let myself = self.nodes.myself();
        let primary = myself.primary.and_then(|id| self.nodes.get(&id));
        let owner = primary.filter(|_| myself.is_replica()).unwrap_or(myself);
        let (port, other_port) = self.ports_as_told(myself);
        let (config_epoch, slots) = self.told_claim(owner);
        // The offset next to the flag is the last one.
        // A replica cannot take over slots that were granted to another node; that node's claim decides about them
        // soon.
        let is_settled = self.facts.are_writes_paused && self.granted.is_empty();
        let is_paused = myself.is_primary() && self.manual.end != 0 && is_settled;
        let paused = if is_paused { MessageFlags::PAUSED } else { 0 };
        Header {
            sender: Some(myself.id),
            current_epoch: self.current_epoch,
            config_epoch,
            offset: self.told_offset(),
            slots,
            is_replica: myself.primary.is_some(),
            primary: myself.primary,
            ip: self.announced.ip.clone(),
            port,
            other_port,
            bus_port: myself.address.bus_port,
            flags: myself.flags.0,
            is_down: !self.health.is_up,
            message_flags: MessageFlags(flags | paused),
        }
    }

    /// Returns a node's ports as packets have them: the one that nodes use first.
    pub(super) fn ports_as_told(&self, node: &Node) -> (u16, u16) {
        let (tcp, tls) = (node.address.tcp_port, node.address.tls_port);
        if self.settings.tls_cluster { (tls, tcp) } else { (tcp, tls) }
    }

    /// Returns the ports of a packet: the one without TLS, and the one with TLS.
    pub(super) fn ports_from_told(&self, port: u16, other_port: u16) -> (u16, u16) {
        if self.settings.tls_cluster { (other_port, port) } else { (port, other_port) }
    }

    /// Sends a packet on a link.
    pub(super) fn send(&mut self, link: LinkId, message: MessageType, bytes: Arc<[u8]>) {
        let Some(transport) = self.links.get_mut(link) else {
            return;
        };
        transport.queued += bytes.len() as u64;
        self.counters.sent.count(message, bytes.len());
        self.effects.push(Effect::Send { link, bytes });
    }

    fn send_full(&mut self, link: Option<LinkId>, body: &Body, flags: u8) {
        if let Some(link) = link {
            let bytes = encode(&self.header(flags), body);
            self.send(link, body.message(), bytes.into());
        }
    }

    /// Sends a message to all nodes that are known by name and have a link.
    fn send_to_all(&mut self, body: &Body, flags: u8) {
        let bytes: Arc<[u8]> = encode(&self.header(flags), body).into();
        let others = self.nodes.iter().filter(|node| !node.flags.has(Flags::MYSELF | Flags::HANDSHAKE));
        for link in others.filter_map(|node| node.link).collect::<Vec<_>>() {
            self.send(link, body.message(), bytes.clone());
        }
    }

    fn link_to(&self, node: NodeId) -> Option<LinkId> {
        self.nodes.get(&node)?.link
    }

    /// Announces to all nodes that a node has failed.
    pub(super) fn send_fail(&mut self, failed: NodeId) {
        self.send_to_all(&Body::Fail(Some(failed)), 0);
    }

    /// Sends a node the present slots of another one, or of this one.
    pub(super) fn send_update(&mut self, to: NodeId, about: NodeId) {
        if let Some(node) = self.nodes.get(&about) {
            let (config_epoch, told) = self.told_claim(node);
            let slots = self.nodes.claimed_slots(node).without(&node.slots.without(&told));
            let body = Body::Update { config_epoch, node: Some(about), slots };
            self.send_full(self.link_to(to), &body, 0);
        }
    }

    pub(super) fn request_votes(&mut self, force: bool) {
        self.send_to_all(&Body::VoteRequest, if force { MessageFlags::FORCE_VOTE } else { 0 });
    }

    pub(super) fn send_vote(&mut self, to: NodeId) {
        self.send_full(self.link_to(to), &Body::Vote, 0);
    }

    pub(super) fn send_manual_failover_start(&mut self, to: NodeId) {
        self.send_full(self.link_to(to), &Body::ManualFailoverStart, 0);
    }
}
