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
    /// Who is at the other end. Of a link from elsewhere that is known when it has said something.
    pub node: Option<NodeId>,
    pub is_inbound: bool,
    /// It stands.
    pub is_connected: bool,
    /// The other end understands extensions.
    pub takes_extensions: bool,
    /// Address of the other end.
    pub remote_ip: String,
    /// Address of this end.
    pub local_ip: String,
    /// Bytes that wait to be sent.
    pub queued: u64,
    /// Messages were dropped that were for this link, which has been told.
    pub drops_messages: bool,
    /// What has come in of a packet.
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
    /// It was made by the other node.
    pub is_inbound: bool,
    /// The other node.
    pub node: NodeId,
    /// When it was made.
    pub created: Millis,
    /// Something is waited for on it: `r`, and `w` while something is to be sent.
    pub events: &'static str,
    /// Bytes that wait to be sent.
    pub queued: u64,
    /// Memory of it, with all that waits on it.
    pub memory: u64,
}
