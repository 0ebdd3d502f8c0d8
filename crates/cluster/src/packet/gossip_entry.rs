//! A node's information about another one.

use super::packet_bytes::{Bytes, put_ip};
use crate::node_id::{NAME_LEN, NodeId};

/// Length of an entry.
pub(crate) const ENTRY_LEN: usize = 104;

/// A node from the view of another one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GossipEntry {
    /// Name of the node; None if it is invalid.
    pub node: Option<NodeId>,
    /// Time of the ping without an answer, in seconds; 0 if all are answered.
    pub ping_sent: u32,
    /// Time of the last answer, in seconds.
    pub pong_received: u32,
    /// Address of the node.
    pub ip: String,
    /// Port that nodes and their clients use.
    pub port: u16,
    /// Port of the bus.
    pub bus_port: u16,
    /// Flags of the node from the sender's view.
    pub flags: u16,
    /// Port of the other kind.
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
