//! Connections of the bus.

use crate::Millis;
use crate::link_id::LinkId;
use crate::node_id::NodeId;
use crate::packet::PacketReader;
use std::collections::BTreeMap;

/// A connection.
#[derive(Clone, Debug)]
pub(crate) struct Transport {
    pub created: Millis,
    /// Node at the other end. An incoming link has none before the first packet.
    pub node: Option<NodeId>,
    pub is_inbound: bool,
    /// Whether the connection is established.
    pub is_connected: bool,
    /// Whether the other end understands extensions.
    pub takes_extensions: bool,
    /// Address of the other end.
    pub remote_ip: String,
    /// Address of this end.
    pub local_ip: String,
    /// Bytes not yet sent.
    pub queued: u64,
    /// Whether messages for this link were dropped, which the log has reported.
    pub drops_messages: bool,
    /// Bytes of a packet that has not arrived whole.
    pub reader: PacketReader,
}

/// All connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Transports {
    pub links: BTreeMap<LinkId, Transport>,
    last: u64,
}

impl Transports {
    pub fn get(&self, id: LinkId) -> Option<&Transport> {
        self.links.get(&id)
    }

    pub fn get_mut(&mut self, id: LinkId) -> Option<&mut Transport> {
        self.links.get_mut(&id)
    }

    pub fn add(&mut self, link: Transport) -> LinkId {
        self.last += 1;
        self.links.insert(LinkId(self.last), link);
        LinkId(self.last)
    }
}

/// A link as CLUSTER LINKS shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkInfo {
    /// Whether the other node has made the link.
    pub is_inbound: bool,
    /// Other node.
    pub node: NodeId,
    /// Time at which the link was made.
    pub created: Millis,
    /// Events that are waited for: `r`, and `w` while bytes are to be sent.
    pub events: &'static str,
    /// Bytes not yet sent.
    pub queued: u64,
    /// Memory of the link, with all bytes that wait on it.
    pub memory: u64,
}
