//! Members of the cluster: nodes are met, removed, and not accepted again for a while.

use super::cluster_bus::Bus;
use super::model::bus_effect::Level;
use crate::node::{Flags, Node};
use crate::node_id::NodeId;
use std::net::IpAddr;

/// Reason for which no handshake was begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoHandshake {
    /// A handshake with that address is in progress.
    InProgress,
    /// The address is invalid.
    Invalid,
}

impl Bus {
    /// Removes a node: closes its links, and leaves its slots without an owner.
    pub(super) fn remove_node(&mut self, id: NodeId) {
        let name = self.human_name(id);
        let Some((node, slots)) = self.nodes.remove(id) else {
            return;
        };
        self.log(Level::Debug, format!("Deleting node {id} ({name}) from cluster view"));
        slots.iter().for_each(|slot| self.todo.drop_channels(slot));
        for link in [node.link, node.inbound_link].into_iter().flatten() {
            self.close_link(link);
        }
        if self.manual.replica == Some(id) {
            self.reset_manual_failover();
        }
        self.todo.slot_map_changed();
    }

    /// Records that a node is not to be accepted again for a while.
    pub(super) fn forget_for_a_while(&mut self, id: NodeId, seconds: i64) {
        self.drop_old_forgotten();
        self.forgotten.insert(id, (self.now / 1000).saturating_add(seconds));
    }

    /// Returns whether a node is still forgotten.
    pub(super) fn is_forgotten(&mut self, id: &NodeId) -> bool {
        self.drop_old_forgotten();
        self.forgotten.contains_key(id)
    }

    fn drop_old_forgotten(&mut self) {
        let second = self.now / 1000;
        self.forgotten.retain(|_, until| *until >= second);
    }

    /// Begins a handshake with the node at an address.
    pub(super) fn start_handshake(&mut self, ip: &str, port: u16, bus_port: u16) -> Result<(), NoHandshake> {
        let ip = ip.parse::<IpAddr>().map_err(|_| NoHandshake::Invalid)?.to_string();
        let tls = self.settings.tls_cluster;
        let client_port = |node: &Node| if tls { node.address.tls_port } else { node.address.tcp_port };
        let is_same = |node: &Node| {
            node.is_in_handshake()
                && node.address.ip.eq_ignore_ascii_case(&ip)
                && client_port(node) == port
                && node.address.bus_port == bus_port
        };
        if self.nodes.iter().any(is_same) {
            return Err(NoHandshake::InProgress);
        }
        let mut node = self.nameless_node(Flags::HANDSHAKE | Flags::MEET);
        node.address.ip = ip;
        if tls {
            node.address.tls_port = port;
        } else {
            node.address.tcp_port = port;
        }
        node.address.bus_port = bus_port;
        self.nodes.insert(node);
        Ok(())
    }

    /// Creates a node whose name is not known yet.
    pub(super) fn nameless_node(&mut self, flags: u16) -> Node {
        let (id, shard_id) = (NodeId::random(&mut self.random), NodeId::random(&mut self.random));
        Node::new(id, shard_id, flags, self.now)
    }
}
