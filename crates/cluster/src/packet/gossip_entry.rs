//! What a node tells of a third one.

use super::packet_bytes::{Bytes, put_ip};
use crate::node_id::{NAME_LEN, NodeId};

/// How long an entry is.
pub(crate) const ENTRY_LEN: usize = 104;

/// A node as another one knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GossipEntry {
    /// Its name; None if it is none.
    pub node: Option<NodeId>,
    /// When it was asked and has not answered, in seconds; 0 for it has.
    pub ping_sent: u32,
    /// When it answered last, in seconds.
    pub pong_received: u32,
    /// Where it is.
    pub ip: String,
    /// The port that nodes use, and their clients.
    pub port: u16,
    /// The port of the bus.
    pub bus_port: u16,
    /// Its flags as the teller sees them.
    pub flags: u16,
    /// The port of the other kind.
    pub other_port: u16,
}

impl GossipEntry {
    pub(super) fn decode(bytes: &mut Bytes<'_>) -> Option<GossipEntry> {
        let mut bytes = Bytes(bytes.take(ENTRY_LEN)?);
        Some(GossipEntry {
            node: NodeId::parse(&bytes.name()?),
            ping_sent: bytes.u32()?,
            pong_received: bytes.u32()?,
            ip: bytes.ip()?,
            port: bytes.u16()?,
            bus_port: bytes.u16()?,
            flags: bytes.u16()?,
            other_port: bytes.u16()?,
        })
    }

    pub(super) fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.node.map_or([0; NAME_LEN], |id| id.0));
        out.extend_from_slice(&self.ping_sent.to_be_bytes());
        out.extend_from_slice(&self.pong_received.to_be_bytes());
        put_ip(out, &self.ip);
        for number in [self.port, self.bus_port, self.flags, self.other_port, 0] {
            out.extend_from_slice(&number.to_be_bytes());
        }
    }
}
