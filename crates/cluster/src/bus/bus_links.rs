//! Connections of the bus: one from this node to each other node, and one from each other node to this one. This node
//! sends first on connections that it has made, and answers on the others.

use super::cluster_bus::Bus;
use super::model::bus_effect::{Effect, Level};
use super::model::transports::{LinkInfo, Transport};
use crate::Millis;
use crate::link_id::LinkId;
use crate::node_id::NodeId;
use crate::packet::PacketReader;

impl Bus {
    /// Records a connection of another node. `remote_ip` is the other end's address, `local_ip` this end's.
    pub fn link_accepted(&mut self, remote_ip: &str, local_ip: &str, now: Millis) -> LinkId {
        self.now = now;
        self.links.add(Transport {
            created: now,
            node: None,
            is_inbound: true,
            is_connected: true,
            takes_extensions: false,
            remote_ip: remote_ip.to_string(),
            local_ip: local_ip.to_string(),
            queued: 0,
            drops_messages: false,
            reader: PacketReader::default(),
        })
    }

    /// Records that a requested connection is established; `local_ip` is this end's address.
    pub fn link_connected(&mut self, link: LinkId, local_ip: &str, now: Millis) {
        self.now = now;
        if let Some(link) = self.links.get_mut(link) {
            link.is_connected = true;
            link.local_ip = local_ip.to_string();
        }
        self.greet(link);
        self.settle();
    }

    /// Records that a connection has ended, or could not be made.
    pub fn link_lost(&mut self, link: LinkId, now: Millis) {
        self.now = now;
        let Some(transport) = self.links.get(link) else {
            return;
        };
        let failed = transport.node.filter(|_| !transport.is_inbound && !transport.is_connected);
        if let Some(node) = failed.and_then(|id| self.nodes.get_mut(&id)).filter(|node| node.ping_sent == 0) {
            // A failed connection counts as an unanswered ping: the time until the node is suspected begins.
            node.ping_sent = now;
        }
        self.detach(link);
    }

    /// Records that so many sent bytes have left a link.
    pub fn link_written(&mut self, link: LinkId, bytes: usize) {
        if let Some(link) = self.links.get_mut(link) {
            link.queued = link.queued.saturating_sub(bytes as u64);
        }
    }

    /// Closes the links to a node, and those from it, as DEBUG orders.
    pub fn kill_links(&mut self, node: &NodeId, to: bool, from: bool, now: Millis) {
        self.now = now;
        let Some(node) = self.nodes.get(node) else {
            return;
        };
        let links = [node.link.filter(|_| to), node.inbound_link.filter(|_| from)];
        links.into_iter().flatten().for_each(|link| self.close_link(link));
    }

    /// Requests a connection to a node.
    pub(super) fn connect(&mut self, node: NodeId) {
        let Some(to) = self.nodes.get_mut(&node) else {
            return;
        };
        let address = &to.address;
        let link = self.links.add(Transport {
            created: self.now,
            node: Some(node),
            is_inbound: false,
            is_connected: false,
            takes_extensions: false,
            remote_ip: address.ip.clone(),
            local_ip: String::new(),
            queued: 0,
            drops_messages: false,
            reader: PacketReader::default(),
        });
        to.link = Some(link);
        self.effects.push(Effect::Connect { link, ip: address.ip.clone(), port: address.bus_port });
    }

    /// Closes a link, if it exists.
    pub(super) fn close_link(&mut self, link: LinkId) {
        if self.detach(link) {
            self.effects.push(Effect::Close { link });
        }
    }

    fn detach(&mut self, id: LinkId) -> bool {
        let Some(link) = self.links.links.remove(&id) else {
            return false;
        };
        if let Some(node) = link.node.and_then(|node| self.nodes.get_mut(&node)) {
            if node.link == Some(id) {
                node.link = None;
            } else if node.inbound_link == Some(id) {
                node.inbound_link = None;
                node.inbound_lost = self.now;
            }
        }
        true
    }

    /// Binds an incoming link to its node, and closes the node's former incoming link.
    pub(super) fn bind_inbound(&mut self, node: NodeId, id: LinkId) {
        if let Some(older) = self.nodes.get(&node).and_then(|node| node.inbound_link) {
            self.close_link(older);
        }
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        link.node = Some(node);
        let ip = link.remote_ip.clone();
        if let Some(node) = self.nodes.get_mut(&node) {
            node.inbound_link = Some(id);
        }
        let name = self.human_name(node);
        self.log(Level::Verbose, format!("Bound cluster node {node} ({name}) to connection of client {ip}"));
    }

    /// Records a node's new name on its links.
    pub(super) fn rename_on_links(&mut self, to: NodeId) {
        let node = self.nodes.get(&to);
        let links = node.into_iter().flat_map(|node| [node.link, node.inbound_link]).flatten();
        for link in links.collect::<Vec<_>>() {
            if let Some(link) = self.links.get_mut(link) {
                link.node = Some(to);
            }
        }
    }

    /// Returns all links whose other end is known, as CLUSTER LINKS shows them.
    pub fn links(&self) -> Vec<LinkInfo> {
        let of_node = |id: &LinkId| {
            let link = self.links.get(*id)?;
            let events = match (link.is_connected, link.queued > 0) {
                (false, _) => "",
                (true, false) => "r",
                (true, true) => "rw",
            };
            let (is_inbound, created, queued) = (link.is_inbound, link.created, link.queued);
            let memory = (size_of::<Transport>() + link.reader.memory()) as u64 + queued;
            Some(LinkInfo { is_inbound, node: link.node?, created, events, queued, memory })
        };
        let ids = self.nodes.iter().flat_map(|node| [node.link, node.inbound_link]).flatten();
        ids.filter_map(|id| of_node(&id)).collect()
    }
}
