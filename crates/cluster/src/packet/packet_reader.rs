//! Splits the bytes of a link into packets.

use super::gossip_entry::ENTRY_LEN;
use super::message_type::MessageType;
use super::packet_header::{HEADER_LEN, LIGHT, LIGHT_LEN, SIGNATURE};

/// Length of the beginning that has the packet's length, kind of header, type, and number of nodes.
const PREFIX_LEN: usize = LIGHT_LEN;
/// Greatest length of the part behind the header and the gossip, in packets without a message of a client.
const REST_MAX: usize = 1 << 20;

/// Memory that is retained when all packets have been split off.
const KEPT_MAX: usize = 1 << 20;

/// Error: the bytes do not begin a packet, and the link cannot be used any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadFrame;

/// Retains the bytes of a partial packet. Memory grows with the bytes that arrive, not with the announced length.
#[derive(Clone, Debug, Default)]
pub struct PacketReader {
    bytes: Vec<u8>,
    /// Bytes of packets that have been split off.
    cut: usize,
}

impl PacketReader {
    /// Appends bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        let cut = std::mem::take(&mut self.cut);
        if cut == self.bytes.len() && self.bytes.capacity() > KEPT_MAX {
            self.bytes = Vec::new();
        } else {
            self.bytes.drain(..cut);
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Returns how much memory the reader takes.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.capacity()
    }

    /// Returns the next whole packet, of at most `most` bytes, and no longer than its type allows.
    ///
    /// # Errors
    /// Returns [`BadFrame`] if the bytes are no packet, or announce a longer one.
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

/// Returns the greatest length of a packet of this type with information about so many nodes.
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
    fn a_bad_packet_is_found_at_its_beginning() {
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
