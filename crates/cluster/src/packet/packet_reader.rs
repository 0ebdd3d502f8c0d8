//! Cuts the bytes of a link into packets.

use super::gossip_entry::ENTRY_LEN;
use super::message_type::MessageType;
use super::packet_header::{HEADER_LEN, LIGHT, LIGHT_LEN, SIGNATURE};

/// Up to here a packet says how long it is, what kind of header it has, what it is about, and of how many nodes.
const PREFIX_LEN: usize = LIGHT_LEN;
/// Bytes behind the header, and behind what is told of other nodes, in packets that carry no message of a client.
const REST_MAX: usize = 1 << 20;

/// Memory that stays when all packets have been cut off.
const KEPT_MAX: usize = 1 << 20;

/// Bytes that do not begin as a packet does: the link is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadFrame;

/// Keeps the bytes of a packet that has not come in whole. Memory is taken as bytes come in, not as they are promised.
#[derive(Clone, Debug, Default)]
pub struct PacketReader {
    bytes: Vec<u8>,
    /// Bytes of packets that have been cut off.
    cut: usize,
}

impl PacketReader {
    /// More bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let cut = std::mem::take(&mut self.cut);
        if cut == self.bytes.len() && self.bytes.capacity() > KEPT_MAX {
            self.bytes = Vec::new();
        } else {
            self.bytes.drain(..cut);
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns how much memory is taken.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// The next whole packet, of at most `most` bytes. It can be no longer than one of its type may be, either.
    ///
    /// # Errors
    /// The bytes are no packet, or promise to be longer.
    pub fn next_packet(&mut self, most: usize) -> Result<Option<&[u8]>, BadFrame> {
        let rest = &self.bytes[self.cut..];
        let Some(prefix) = rest.get(..PREFIX_LEN) else {
            return Ok(None);
        };
        let number = |at: usize| u16::from_be_bytes([prefix[at], prefix[at + 1]]);
        let len = u32::from_be_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]) as usize;
        let least = if number(12) & LIGHT == 0 { HEADER_LEN } else { LIGHT_LEN };
        let longest = longest(number(12) & !LIGHT, number(14)).min(most);
        if !prefix.starts_with(SIGNATURE) || len < least || len > longest {
            return Err(BadFrame);
        }
        if rest.len() < len {
            return Ok(None);
        }
        let begin = self.cut;
        self.cut += len;
        Ok(self.bytes.get(begin..self.cut))
    }
}

/// How long a packet of this type can be that tells of so many nodes.
fn longest(message: u16, count: u16) -> usize {
    match MessageType::of(message) {
        Some(message) if message.is_publish() || message == MessageType::Module => usize::MAX,
        Some(MessageType::Ping | MessageType::Pong | MessageType::Meet) => {
            HEADER_LEN + usize::from(count) * ENTRY_LEN + REST_MAX
        }
        _ => HEADER_LEN + REST_MAX,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::{Body, encode_light};

    #[test]
    fn packets_come_in_pieces() {
        let one = encode_light(&Body::Publish { channel: b"a".to_vec(), message: b"b".to_vec(), is_sharded: false });
        let two = encode_light(&Body::Publish { channel: b"c".to_vec(), message: vec![0; 99], is_sharded: true });
        let both = [one.as_slice(), &two].concat();
        for size in 1..=both.len() {
            let (mut reader, mut packets) = (PacketReader::default(), Vec::new());
            for piece in both.chunks(size) {
                reader.push(piece);
                while let Some(packet) = reader.next_packet(usize::MAX).expect("packets") {
                    packets.push(packet.to_vec());
                }
            }
            assert_eq!(packets, [one.clone(), two.clone()]);
        }
    }

    #[test]
    fn what_is_no_packet_is_found_at_its_beginning() {
        let good = encode_light(&Body::Publish { channel: vec![], message: vec![], is_sharded: false });
        for (at, byte) in [(0, b'X'), (7, 15), (12, 0)] {
            let mut bytes = good.clone();
            bytes[at] = byte;
            let mut reader = PacketReader::default();
            reader.push(&bytes[..PREFIX_LEN - 1]);
            assert_eq!(reader.next_packet(usize::MAX), Ok(None));
            reader.push(&bytes[PREFIX_LEN - 1..]);
            assert_eq!(reader.next_packet(usize::MAX), Err(BadFrame));
        }
    }

    #[test]
    fn a_packet_is_no_longer_than_its_type_can_be() {
        let prefix = |message: MessageType, count: u16, len: usize| {
            let [[m0, m1], [c0, c1]] = [message as u16, count].map(u16::to_be_bytes);
            [&b"RCmb"[..], &(len as u32).to_be_bytes(), &[0, 1, 0, 0, m0, m1, c0, c1]].concat()
        };
        let is_bad = |prefix: Vec<u8>| {
            let mut reader = PacketReader::default();
            reader.push(&prefix);
            reader.next_packet(usize::MAX).is_err()
        };
        let gossip = HEADER_LEN + 1000 * ENTRY_LEN + REST_MAX;
        assert!(
            !is_bad(prefix(MessageType::Ping, 1000, gossip)) && is_bad(prefix(MessageType::Ping, 1000, gossip + 1))
        );
        for message in [MessageType::Fail, MessageType::Update, MessageType::Vote, MessageType::ManualFailoverStart] {
            assert!(!is_bad(prefix(message, 9, HEADER_LEN + 100)) && is_bad(prefix(message, 9, 200 << 20)));
        }
        assert!(!is_bad(prefix(MessageType::Publish, 0, 200 << 20)), "a message may be as long as a value");
    }

    #[test]
    fn a_packet_that_promises_too_much_is_found_at_its_beginning() {
        let packet = encode_light(&Body::Publish { channel: vec![], message: vec![0; 99], is_sharded: false });
        let mut reader = PacketReader::default();
        reader.push(&packet[..PREFIX_LEN]);
        assert_eq!(reader.next_packet(packet.len()), Ok(None));
        assert_eq!(reader.next_packet(packet.len() - 1), Err(BadFrame));
    }
}
