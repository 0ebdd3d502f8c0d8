//! Pings and pongs: this node is alive, and shares its knowledge of some others.

use super::cluster_bus::Bus;
use super::model::bus_effect::Level;
use crate::link_id::LinkId;
use crate::node::{Flags, Node};
use crate::node_id::NodeId;
use crate::packet::{Body, Extension, GossipEntry, MessageFlags, MessageType, encode};

/// Least number of other nodes in a ping, if there are as many.
const LEAST_ENTRIES: usize = 3;

impl Bus {
    /// Sends a ping, a pong or a meet.
    pub(super) fn send_ping(&mut self, link: LinkId, message: MessageType) {
        let Some(transport) = self.links.get(link) else {
            return;
        };
        let (to, is_inbound) = (transport.node, transport.is_inbound);
        let takes_extensions = transport.takes_extensions
            || to.and_then(|id| self.nodes.get(&id)).is_some_and(|node| node.flags.has(Flags::EXTENSIONS));
        let entries = self.gossip_for(to);
        let extensions = if takes_extensions { self.my_extensions() } else { Vec::new() };
        self.tell_of_ping(to, message, is_inbound);
        let bytes = encode(&self.header(MessageFlags::EXTENSIONS), &Body::Gossip { message, entries, extensions });
        self.send(link, message, bytes.into());
        let now = self.now;
        if let Some(node) = to.filter(|_| !is_inbound).and_then(|id| self.nodes.get_mut(&id)) {
            match message {
                MessageType::Ping => node.ping_sent = now,
                MessageType::Meet => node.meet_sent = now,
                _ => {}
            }
        }
    }

    fn tell_of_ping(&mut self, to: Option<NodeId>, message: MessageType, is_inbound: bool) {
        let unknown = || "<unknown>".to_owned();
        let id = to.map_or_else(unknown, |id| id.to_string());
        let (name, message) = (to.map_or_else(unknown, |id| self.human_name(id)), message.name());
        let way = if is_inbound { "inbound" } else { "outbound" };
        self.log(Level::Debug, format!("Sending {message} packet to node {id} ({name}) on {way} link"));
    }

    /// Returns some nodes that happen to be next to each other in the table, and all that are suspected.
    fn gossip_for(&mut self, to: Option<NodeId>) -> Vec<GossipEntry> {
        let known = self.nodes.len();
        let wanted = (known * self.settings.gossip_perc / 100).max(LEAST_ENTRIES).min(known.saturating_sub(2));
        let first = self.random.usize(..known);
        let names = self.nodes.names();
        let drawn = (0..known.min(wanted + 2)).map(|at| names[(first + at) % known]);
        let drawn = drawn.filter(|id| Some(*id) != to).filter_map(|id| self.nodes.get(&id));
        let is_told = |node: &&Node| {
            !node.flags.has(Flags::MYSELF | Flags::PFAIL | Flags::HANDSHAKE | Flags::NOADDR)
                && (node.is_linked() || !node.slots.is_empty())
        };
        let mut entries: Vec<GossipEntry> = drawn.filter(is_told).take(wanted).map(|node| self.entry(node)).collect();
        if self.suspected > 0 {
            let is_suspected = |node: &&Node| node.is_suspected() && !node.flags.has(Flags::HANDSHAKE | Flags::NOADDR);
            let suspected = self.nodes.iter().filter(is_suspected).take(self.suspected);
            entries.extend(suspected.map(|node| self.entry(node)));
        }
        entries
    }

    fn entry(&self, node: &Node) -> GossipEntry {
        let (port, other_port) = self.ports_as_told(node);
        GossipEntry {
            node: Some(node.id),
            ping_sent: (node.ping_sent / 1000) as u32,
            pong_received: (node.pong_received / 1000) as u32,
            ip: node.address.ip.clone(),
            port,
            bus_port: node.address.bus_port,
            flags: node.flags.0,
            other_port,
        }
    }

    fn my_extensions(&self) -> Vec<Extension> {
        let myself = self.nodes.myself();
        let address = &myself.address;
        let mut extensions = Vec::new();
        let mut text = |kind: fn(String) -> Extension, text: &String| {
            if !text.is_empty() {
                extensions.push(kind(text.clone()));
            }
        };
        text(Extension::Hostname, &address.hostname);
        text(Extension::HumanName, &address.human_name);
        text(Extension::ClientIpv4, &address.client_ipv4);
        text(Extension::ClientIpv6, &address.client_ipv6);
        if address.client_port != 0 {
            extensions.push(Extension::ClientPort(address.client_port));
        }
        if address.client_tls_port != 0 {
            extensions.push(Extension::ClientTlsPort(address.client_tls_port));
        }
        if !address.availability_zone.is_empty() {
            extensions.push(Extension::AvailabilityZone(address.availability_zone.clone()));
        }
        let second = self.now / 1000;
        let rest = |until: i64| u64::try_from(until - second).ok();
        let forgotten = self.forgotten.iter().filter_map(|(id, until)| Some(Extension::Forgotten(*id, rest(*until)?)));
        extensions.extend(forgotten);
        extensions.push(Extension::Shard(myself.shard_id));
        extensions
    }

    /// Sends a pong with this node's changes to all others at once.
    pub(super) fn broadcast_pong(&mut self) {
        self.send_pongs(|_| true);
    }

    /// Sends a pong to the replicas of this node, or of its primary.
    pub(super) fn pong_to_shard(&mut self) {
        let myself = self.nodes.myself();
        let (id, primary) = (Some(myself.id), myself.primary);
        self.send_pongs(move |node| {
            node.is_replica() && node.primary.is_some() && (node.primary == id || node.primary == primary)
        });
    }

    fn send_pongs(&mut self, to: impl Fn(&Node) -> bool) {
        let others = self.nodes.iter().filter(|node| !node.flags.has(Flags::MYSELF | Flags::HANDSHAKE));
        let links: Vec<LinkId> = others.filter(|node| to(node)).filter_map(|node| node.link).collect();
        links.into_iter().for_each(|link| self.send_ping(link, MessageType::Pong));
    }

    /// Sends the first packet on a link that this node has made. An earlier ping without an answer still counts.
    pub(super) fn greet(&mut self, link: LinkId) {
        let Some(node) = self.links.get(link).and_then(|link| link.node).and_then(|id| self.nodes.get(&id)) else {
            return;
        };
        let (id, unanswered) = (node.id, node.ping_sent);
        let message = if node.flags.has(Flags::MEET) { MessageType::Meet } else { MessageType::Ping };
        self.send_ping(link, message);
        if unanswered != 0
            && let Some(node) = self.nodes.get_mut(&id)
        {
            node.ping_sent = unanswered;
        }
    }
}
