//! Sender's description of itself in each full packet.

use super::message_type::MessageType;
use super::packet_bytes::{Bytes, IP_LEN, put_ip};
use crate::node_id::{NAME_LEN, NodeId};
use crate::slot_set::{BITMAP_LEN, SlotSet};

/// Length of a header.
pub const HEADER_LEN: usize = 2256;
/// Length of a light header.
pub(crate) const LIGHT_LEN: usize = 16;
/// Beginning of a packet.
pub(crate) const SIGNATURE: &[u8; 4] = b"RCmb";
/// The only version.
pub(crate) const VERSION: u16 = 1;
/// Bit of the type that marks a light header.
pub(crate) const LIGHT: u16 = 0x8000;

/// Unused bytes of the header.
const RESERVED: usize = 30;

/// Flags of a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MessageFlags(pub u8);

impl MessageFlags {
    /// The sender is a primary that has paused for a manual failover.
    pub const PAUSED: u8 = 1;
    /// The sender asks for a vote though the primary may work.
    pub const FORCE_VOTE: u8 = 1 << 1;
    /// The sender understands extensions, and the packet may have some.
    pub const EXTENSIONS: u8 = 1 << 2;

    /// Returns whether any of these bits is set.
    pub fn has(self, bits: u8) -> bool {
        self.0 & bits != 0
    }
}

/// The header of a full packet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// Name of the sender; None if it is invalid.
    pub sender: Option<NodeId>,
    /// Greatest epoch that the sender has seen.
    pub current_epoch: u64,
    /// Config epoch of the sender, or of its primary.
    pub config_epoch: u64,
    /// Length of the history of the sender's data set.
    pub offset: i64,
    /// Slots of the sender, or of its primary.
    pub slots: SlotSet,
    /// Whether a primary is named at all.
    pub is_replica: bool,
    /// Primary of the sender; None if the name is invalid.
    pub primary: Option<NodeId>,
    /// Address that the sender announces; empty if others are to use its connection's.
    pub ip: String,
    /// Port that nodes and their clients use.
    pub port: u16,
    /// Port of the other kind: with TLS if that one is without.
    pub other_port: u16,
    /// Port of the bus.
    pub bus_port: u16,
    /// Flags of the sender.
    pub flags: u16,
    /// Whether the cluster is down from the sender's view.
    pub is_down: bool,
    /// Flags of the message.
    pub message_flags: MessageFlags,
}

impl Header {
    /// Reads the header, and the numbers of gossip entries and of extensions. The caller has checked the first bytes,
    /// up to the count.
    pub(super) fn decode(bytes: &mut Bytes<'_>) -> Option<(Header, u16, u16)> {
        bytes.take(10)?;
        let port = bytes.u16()?;
        bytes.u16()?;
        let count = bytes.u16()?;
        let (current_epoch, config_epoch) = (bytes.u64()?, bytes.u64()?);
        let offset = bytes.u64()? as i64;
        let sender = NodeId::parse(&bytes.name()?);
        let slots = SlotSet::from_bitmap(&bytes.array::<BITMAP_LEN>()?);
        let primary = bytes.name()?;
        let ip = bytes.ip()?;
        let extensions = bytes.u16()?;
        bytes.take(RESERVED)?;
        let header = Header {
            sender,
            current_epoch,
            config_epoch,
            offset,
            slots,
            is_replica: primary != [0; NAME_LEN],
            primary: NodeId::parse(&primary),
            ip,
            port,
            other_port: bytes.u16()?,
            bus_port: bytes.u16()?,
            flags: bytes.u16()?,
            is_down: bytes.u8()? != 0,
            message_flags: MessageFlags(bytes.u8()?),
        };
        bytes.take(2)?;
        Some((header, count, extensions))
    }

    /// Writes the header. The length is filled in at the end.
    pub(super) fn encode(&self, message: MessageType, count: u16, extensions: u16) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_LEN);
        start(&mut out, message as u16, self.port, count);
        out.extend_from_slice(&self.current_epoch.to_be_bytes());
        out.extend_from_slice(&self.config_epoch.to_be_bytes());
        out.extend_from_slice(&self.offset.to_be_bytes());
        out.extend_from_slice(&self.sender.map_or([0; NAME_LEN], |id| id.0));
        out.extend_from_slice(&self.slots.to_bitmap());
        out.extend_from_slice(&self.primary.map_or([0; NAME_LEN], |id| id.0));
        put_ip(&mut out, &self.ip);
        out.extend_from_slice(&extensions.to_be_bytes());
        out.extend_from_slice(&[0; RESERVED]);
        out.extend_from_slice(&self.other_port.to_be_bytes());
        out.extend_from_slice(&self.bus_port.to_be_bytes());
        out.extend_from_slice(&self.flags.to_be_bytes());
        out.push(u8::from(self.is_down));
        out.extend_from_slice(&[self.message_flags.0, 0, 0]);
        debug_assert!(out.len() == HEADER_LEN && IP_LEN == 46, "all fields are there");
        out
    }
}

/// Writes the part that light headers also have.
pub(super) fn start(out: &mut Vec<u8>, message: u16, port: u16, count: u16) {
    out.extend_from_slice(SIGNATURE);
    out.extend_from_slice(&[0; 4]);
    for number in [VERSION, port, message, count] {
        out.extend_from_slice(&number.to_be_bytes());
    }
}

/// Fills in the length.
pub(super) fn finish(out: &mut [u8]) {
    let len = (out.len() as u32).to_be_bytes();
    if let Some(place) = out.get_mut(4..8) {
        place.copy_from_slice(&len);
    }
}
