//! Messages of clients that go to other nodes together: packets in a row.

use super::message_type::MessageType;
use super::packet_header::{Header, LIGHT, LIGHT_LEN, finish, start};
use std::sync::Arc;

/// Number and length of published messages: of channels, and of channels that belong to slots.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Messages.
    pub messages: [u64; 2],
    /// Bytes of their light packets.
    pub bytes: [u64; 2],
}

impl Published {
    /// Counts a message of so many bytes.
    pub fn add(&mut self, is_sharded: bool, bytes: usize) {
        self.messages[usize::from(is_sharded)] += 1;
        self.bytes[usize::from(is_sharded)] += bytes as u64;
    }

    /// Returns the sum of both.
    pub fn plus(self, other: Published) -> Published {
        let sum = |one: [u64; 2], other: [u64; 2]| [one[0] + other[0], one[1] + other[1]];
        Published { messages: sum(self.messages, other.messages), bytes: sum(self.bytes, other.bytes) }
    }
}

/// Messages in the order in which they were published, as light packets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MessageBatch {
    bytes: Vec<u8>,
    published: Published,
}

impl MessageBatch {
    /// Appends a message. Returns its length in bytes.
    pub fn push(&mut self, channel: &[u8], message: &[u8], is_sharded: bool) -> usize {
        let begin = self.bytes.len();
        let of = if is_sharded { MessageType::PublishShard } else { MessageType::Publish };
        self.bytes.reserve(LIGHT_LEN + 8 + channel.len() + message.len());
        start(&mut self.bytes, of as u16 | LIGHT, 0, 0);
        self.bytes.extend_from_slice(&(channel.len() as u32).to_be_bytes());
        self.bytes.extend_from_slice(&(message.len() as u32).to_be_bytes());
        self.bytes.extend_from_slice(channel);
        self.bytes.extend_from_slice(message);
        finish(&mut self.bytes[begin..]);
        let len = self.bytes.len() - begin;
        self.published.add(is_sharded, len);
        len
    }

    /// Returns the bytes of all messages.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether there is no message.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the number and length of the messages.
    pub fn published(&self) -> Published {
        self.published
    }

    /// Returns whether there are messages of channels that belong to slots.
    pub(crate) fn is_sharded(&self) -> bool {
        self.published.messages[1] > 0
    }

    /// Returns the packets for a node. A node of this node's shard also gets messages of channels that belong to slots;
    /// a node that may not take light packets gets full headers.
    pub(crate) fn packets_for(&self, is_in_shard: bool, full: Option<&Header>) -> Arc<[u8]> {
        if full.is_none() && (is_in_shard || !self.is_sharded()) {
            return Arc::from(self.bytes.as_slice());
        }
        let mut out = Vec::new();
        for packet in packets(&self.bytes) {
            let is_sharded = packet[13] == MessageType::PublishShard as u8;
            match full {
                _ if is_sharded && !is_in_shard => {}
                None => out.extend_from_slice(packet),
                Some(header) => {
                    let of = if is_sharded { MessageType::PublishShard } else { MessageType::Publish };
                    let begin = out.len();
                    out.extend_from_slice(&header.encode(of, 0, 0));
                    out.extend_from_slice(&packet[LIGHT_LEN..]);
                    finish(&mut out[begin..]);
                }
            }
        }
        out.into()
    }
}

/// Returns the length in the header of the first packet; the length of all bytes if there is no header.
pub fn packet_len(bytes: &[u8]) -> usize {
    let told = bytes.get(4..8).and_then(|len| len.try_into().ok()).map(u32::from_be_bytes);
    told.map_or(bytes.len(), |len| (len as usize).clamp(LIGHT_LEN, bytes.len().max(LIGHT_LEN))).min(bytes.len())
}

/// Returns the packets in these bytes.
pub fn packets(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (packet, rest) = bytes.split_at(packet_len(bytes));
        bytes = rest;
        (!packet.is_empty()).then_some(packet)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Body, decode, encode_light};

    fn body(text: &str, is_sharded: bool) -> Body {
        Body::Publish { channel: b"news".to_vec(), message: text.into(), is_sharded }
    }

    fn batch(messages: &[(&str, bool)]) -> MessageBatch {
        let mut batch = MessageBatch::default();
        messages.iter().for_each(|(text, is_sharded)| _ = batch.push(b"news", text.as_bytes(), *is_sharded));
        batch
    }

    #[test]
    fn messages_are_the_packets_of_their_bodies() {
        let messages = [("1", false), ("", true), ("three", false)];
        let light: Vec<Vec<u8>> = messages.iter().map(|(text, sharded)| encode_light(&body(text, *sharded))).collect();
        let batch = batch(&messages);
        assert_eq!(*batch.packets_for(true, None), light.concat());
        assert_eq!(*batch.packets_for(false, None), [&light[0][..], &light[2]].concat());
        let lens = light.iter().map(|packet| packet.len() as u64).collect::<Vec<_>>();
        let published = Published { messages: [2, 1], bytes: [lens[0] + lens[2], lens[1]] };
        assert_eq!((batch.published(), batch.len()), (published, light.concat().len()));
    }

    #[test]
    fn nodes_that_take_no_light_packets_get_full_ones() {
        let bytes = batch(&[("1", false), ("2", true)]).packets_for(true, Some(&Header::default()));
        let bodies: Vec<Body> = packets(&bytes).map(|packet| decode(packet).expect("a packet").body).collect();
        assert_eq!(bodies, [body("1", false), body("2", true)]);
        assert!(packets(&bytes).all(|packet| decode(packet).is_ok_and(|packet| packet.header.is_some())));
    }

    #[test]
    fn bytes_that_are_cut_end_the_packets() {
        let bytes = batch(&[("1", false), ("2", true)]).packets_for(true, None);
        for end in 0..bytes.len() {
            assert_eq!(packets(&bytes[..end]).map(<[u8]>::len).sum::<usize>(), end);
        }
    }
}
