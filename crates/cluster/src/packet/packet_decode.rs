//! Decoding of packets.

use super::extension::Extension;
use super::gossip_entry::{ENTRY_LEN, GossipEntry};
use super::message_type::MessageType;
use super::packet_bytes::Bytes;
use super::packet_header::{Header, LIGHT, LIGHT_LEN, MessageFlags, VERSION};
use crate::node_id::NodeId;
use crate::slot_set::{BITMAP_LEN, SlotSet};
use std::fmt;

/// A packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Sender's description of itself; None in a light packet.
    pub header: Option<Header>,
    /// Content of the packet.
    pub body: Body,
}

/// Content of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// A ping, a pong or a meet.
    Gossip {
        /// Kind of the message.
        message: MessageType,
        /// Information about other nodes.
        entries: Vec<GossipEntry>,
        /// Further information about the sender.
        extensions: Vec<Extension>,
    },
    /// A node has failed.
    Fail(Option<NodeId>),
    /// A message for subscribers.
    Publish {
        /// Channel.
        channel: Vec<u8>,
        /// Message.
        message: Vec<u8>,
        /// Whether the channel belongs to a slot.
        is_sharded: bool,
    },
    /// The sender asks for a vote.
    VoteRequest,
    /// The sender gives its vote.
    Vote,
    /// Slots of a node.
    Update {
        /// Epoch of the node's claim.
        config_epoch: u64,
        /// Name of the node.
        node: Option<NodeId>,
        /// Slots of the node.
        slots: SlotSet,
    },
    /// The sender wants to take over.
    ManualFailoverStart,
    /// A message between modules, which do not exist here.
    Module,
    /// An unknown type of message.
    Unknown(u16),
}

/// Reason for which bytes are no packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketError {
    /// The version of the bus is another one.
    Version(u16),
    /// A message of this type may not have a light header.
    NotLight(MessageType),
    /// The length is not the sum of the parts.
    Length(u16),
}

impl fmt::Display for PacketError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |message: &u16| MessageType::of(*message).map_or("unknown", MessageType::name);
        match self {
            PacketError::Version(version) => write!(f, "Packet of version {version}"),
            PacketError::NotLight(message) => write!(
                f,
                "Packet of type '{}' ({}) does not support light cluster header. Marking packet as invalid.",
                message.name(),
                *message as u16
            ),
            PacketError::Length(message) => {
                write!(f, "Received invalid {} packet whose parts do not fit its length", name(message))
            }
        }
    }
}

/// Returns the number of a packet's type, without the bit of its header.
pub fn message_type(packet: &[u8]) -> u16 {
    let bytes = packet.get(12..14).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default();
    u16::from_be_bytes(bytes) & !LIGHT
}

/// Decodes a packet that [`PacketReader`](super::PacketReader) has split off: signature and length are checked.
///
/// # Errors
/// Returns a [`PacketError`] if the bytes are no packet.
pub fn decode(packet: &[u8]) -> Result<Packet, PacketError> {
    let number = message_type(packet);
    let broken = PacketError::Length(number);
    let mut bytes = Bytes(packet);
    let head = bytes.take(LIGHT_LEN).ok_or(broken)?;
    let version = u16::from_be_bytes([head[8], head[9]]);
    if version != VERSION {
        return Err(PacketError::Version(version));
    }
    let message = MessageType::of(number);
    if u16::from_be_bytes([head[12], head[13]]) & LIGHT != 0 {
        return match message {
            Some(message) if message.may_be_light() => {
                let body = body(message, &mut bytes, 0, None).filter(|_| bytes.0.is_empty()).ok_or(broken)?;
                Ok(Packet { header: None, body })
            }
            Some(message) => Err(PacketError::NotLight(message)),
            None => Err(broken),
        };
    }
    let mut bytes = Bytes(packet);
    let (header, count, extensions) = Header::decode(&mut bytes).ok_or(broken)?;
    let Some(message) = message else {
        return Ok(Packet { header: Some(header), body: Body::Unknown(number) });
    };
    let extensions = header.message_flags.has(MessageFlags::EXTENSIONS).then_some(extensions);
    let body = body(message, &mut bytes, count, extensions).filter(|_| bytes.0.is_empty()).ok_or(broken)?;
    Ok(Packet { header: Some(header), body })
}

fn body(message: MessageType, bytes: &mut Bytes<'_>, count: u16, extensions: Option<u16>) -> Option<Body> {
    Some(match message {
        MessageType::Ping | MessageType::Pong | MessageType::Meet => {
            if bytes.0.len() < usize::from(count) * ENTRY_LEN {
                return None;
            }
            let entries = (0..count).map(|_| GossipEntry::decode(bytes)).collect::<Option<_>>()?;
            let extensions = (0..extensions.unwrap_or(0)).map(|_| Extension::decode(bytes)).collect::<Option<_>>()?;
            Body::Gossip { message, entries, extensions }
        }
        MessageType::Fail => Body::Fail(NodeId::parse(&bytes.name()?)),
        MessageType::Publish | MessageType::PublishShard => {
            let (channel, message_len) = (bytes.u32()? as usize, bytes.u32()? as usize);
            let channel = bytes.take(channel)?.to_vec();
            let is_sharded = message == MessageType::PublishShard;
            Body::Publish { channel, message: bytes.take(message_len)?.to_vec(), is_sharded }
        }
        MessageType::VoteRequest => Body::VoteRequest,
        MessageType::Vote => Body::Vote,
        MessageType::Update => {
            let (config_epoch, node) = (bytes.u64()?, NodeId::parse(&bytes.name()?));
            Body::Update { config_epoch, node, slots: SlotSet::from_bitmap(&bytes.array::<BITMAP_LEN>()?) }
        }
        MessageType::ManualFailoverStart => Body::ManualFailoverStart,
        MessageType::Module => {
            bytes.u64()?;
            let len = bytes.u32()? as usize;
            bytes.u8()?;
            bytes.take(len)?;
            Body::Module
        }
    })
}
