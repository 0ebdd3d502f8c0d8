//! Gossip of nodes about others.

use crate::Millis;
use crate::bus::cluster_bus::Bus;
use crate::bus::model::bus_effect::Level;
use crate::node::{Flags, Node};
use crate::node_id::NodeId;
use crate::packet::GossipEntry;

/// Flags of a failing node.
const FAILS: u16 = Flags::FAIL | Flags::PFAIL;
/// Greatest difference between clocks of nodes.
const CLOCK_TOLERANCE: Millis = 500;

impl Bus {
    /// Takes a node's gossip. One invalid name discards all entries: the sender's memory may be damaged.
    pub(in crate::bus) fn take_gossip(&mut self, entries: &[GossipEntry], sender: Option<NodeId>) {
        let invalid = entries.iter().filter(|entry| entry.node.is_none()).count();
        if invalid > 0 {
            let who = match sender {
                Some(id) => format!("Node {id} ({})", self.human_name(id)),
                None => "Unknown node".to_string(),
            };
            self.log(Level::Warning, format!("{who} gossiped {invalid} nodes with invalid IDs."));
            return;
        }
        for entry in entries {
            let Some(id) = entry.node else {
                continue;
            };
            match self.nodes.get(&id) {
                Some(node) if node.is_myself() => {}
                Some(_) => self.take_gossip_of_known(entry, id, sender),
                None => self.take_gossip_of_unknown(entry, id, sender),
            }
        }
    }

    fn take_gossip_of_known(&mut self, entry: &GossipEntry, id: NodeId, sender: Option<NodeId>) {
        let told = Flags(entry.flags);
        if let Some(sender) = sender {
            self.judge(id, sender, told.has(FAILS));
        }
        self.take_pong_time(entry, id);
        let (tcp_port, tls_port) = self.ports_from_told(entry.port, entry.other_port);
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        let address = &mut node.address;
        let is_elsewhere = !address.ip.eq_ignore_ascii_case(&entry.ip)
            || (address.tcp_port, address.tls_port, address.bus_port) != (tcp_port, tls_port, entry.bus_port);
        if !node.flags.has(FAILS) || told.has(FAILS | Flags::NOADDR) || !is_elsewhere {
            return;
        }
        address.ip.clone_from(&entry.ip);
        (address.tcp_port, address.tls_port, address.bus_port) = (tcp_port, tls_port, entry.bus_port);
        node.flags.set(Flags::NOADDR, false);
        self.address_changed(id);
        self.todo.save(false);
    }

    /// Takes the sender's opinion whether a node fails.
    fn judge(&mut self, id: NodeId, sender: NodeId, fails: bool) {
        let has_vote = self.nodes.get(&sender).is_some_and(Node::has_vote);
        let text = if fails && has_vote && self.add_failure_report(id, sender) {
            "as not reachable"
        } else if !fails && self.drop_failure_report(id, sender) {
            "is back online"
        } else {
            ""
        };
        if !text.is_empty() {
            let (by, of) = (self.human_name(sender), self.human_name(id));
            self.log(Level::Verbose, format!("Node {sender} ({by}) reported node {id} ({of}) {text}."));
        }
        if fails {
            self.mark_as_failing_if_majority(id);
        }
    }

    /// Takes the time at which a node that no other suspects answered the sender: this node need not ping it then.
    fn take_pong_time(&mut self, entry: &GossipEntry, id: NodeId) {
        self.drop_old_reports(id);
        let latest = self.now + CLOCK_TOLERANCE;
        let Some(node) = self.nodes.get_mut(&id) else {
            return;
        };
        let is_normal = !node.flags.has(FAILS | Flags::HANDSHAKE | Flags::MEET);
        let is_fine = is_normal && node.ping_sent == 0 && node.failure_reports.is_empty();
        let pong = Millis::from(entry.pong_received) * 1000;
        if !Flags(entry.flags).has(FAILS) && is_fine && pong <= latest && pong > node.pong_received {
            node.pong_received = pong;
        }
    }

    /// Adds a node that is new here only if a known node names it: the server at that address might belong to another
    /// cluster.
    fn take_gossip_of_unknown(&mut self, entry: &GossipEntry, id: NodeId, sender: Option<NodeId>) {
        if sender.is_none() || Flags(entry.flags).has(Flags::NOADDR) || self.is_forgotten(&id) {
            return;
        }
        let shard_id = NodeId::random(&mut self.random);
        let mut node = Node::new(id, shard_id, entry.flags & !Flags::MYSELF, self.now);
        let (tcp_port, tls_port) = self.ports_from_told(entry.port, entry.other_port);
        node.address.ip.clone_from(&entry.ip);
        (node.address.tcp_port, node.address.tls_port) = (tcp_port, tls_port);
        node.address.bus_port = entry.bus_port;
        self.nodes.insert(node);
    }

    /// Closes the link to a node whose address has changed.
    pub(in crate::bus) fn address_changed(&mut self, id: NodeId) {
        let Some(node) = self.nodes.get(&id) else {
            return;
        };
        let (ip, port) = (node.address.ip.clone(), self.ports_as_told(node).0);
        if let Some(link) = node.link {
            self.close_link(link);
        }
        let name = self.human_name(id);
        self.log(Level::Notice, format!("Address updated for node {id} ({name}), now {ip}:{port}"));
        let myself = self.nodes.myself();
        if myself.is_replica() && myself.primary == Some(id) {
            self.follow(id, false);
        }
    }
}
