//! Packets of the bus, byte by byte as Valkey has them. All numbers are big-endian.
//!
//! ```text
//! full    "RCmb" length version port type count | epochs, sender, slots, address, flags | body     2256 bytes + body
//! light   "RCmb" length version 0 type|0x8000 0 | body                                               16 bytes + body
//!
//! body    ping, pong, meet: gossip entries, then extensions      fail: a name        update: epoch, name, slots
//!         publish: lengths, channel, message                     module: id, length, type, payload
//!         vote request, vote, manual failover start: nothing
//! ```
//!
//! The length of a packet must be the sum of its parts, to the byte. Other bytes are no packet: decoding refuses them
//! and never reads beyond their end.

mod extension;
mod gossip_entry;
mod link_output;
mod message_batch;
mod message_queue;
mod message_type;
mod packet_bytes;
mod packet_decode;
mod packet_encode;
#[cfg(feature = "fuzzing")]
mod packet_fuzz;
mod packet_header;
mod packet_reader;

pub use extension::Extension;
pub use gossip_entry::GossipEntry;
pub use link_output::LinkOutput;
pub use message_batch::{MessageBatch, Published, packet_len, packets};
pub use message_queue::{MessageQueue, QueueLevel};
pub use message_type::{MESSAGE_TYPES, MessageType};
pub use packet_decode::{Body, Packet, PacketError, decode, message_type};
pub use packet_encode::{encode, encode_light};
#[cfg(feature = "fuzzing")]
pub use packet_fuzz::fuzz;
pub use packet_header::{HEADER_LEN, Header, MessageFlags};
pub use packet_reader::{BadFrame, PacketReader};
