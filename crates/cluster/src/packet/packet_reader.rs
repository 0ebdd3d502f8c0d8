//! Cuts the bytes of a link into packets.

use super::packet_header::{HEADER_LEN, LIGHT, LIGHT_LEN, SIGNATURE};

/// Up to here a packet says how long it is, and what kind of header it has.
const PREFIX_LEN: usize = 14;

/// Bytes that do not begin as a packet does: the link is of no use any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadFrame;

/// Keeps the bytes of a packet that has not come in whole. Memory is taken as bytes come in, not as they are promised.
#[derive(Clone, Debug, Default)]
pub struct PacketReader {
    bytes: Vec<u8>,
}

impl PacketReader {
    /// More bytes.
    pub fn push(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole packet, of at most `most` bytes.
    ///
    /// # Errors
    /// The bytes are no packet, or promise to be longer.
    pub fn next_packet(&mut self, most: usize) -> Result<Option<Vec<u8>>, BadFrame> {
        let Some(prefix) = self.bytes.get(..PREFIX_LEN) else {
            return Ok(None);
        };
        let len = u32::from_be_bytes([prefix[4], prefix[5], prefix[6], prefix[7]]) as usize;
        let kind = u16::from_be_bytes([prefix[12], prefix[13]]);
        let least = if kind & LIGHT == 0 { HEADER_LEN } else { LIGHT_LEN };
        if !prefix.starts_with(SIGNATURE) || len < least || len > most {
            return Err(BadFrame);
        }
        if self.bytes.len() < len {
            return Ok(None);
        }
        let rest = self.bytes.split_off(len);
        Ok(Some(std::mem::replace(&mut self.bytes, rest)))
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
                    packets.push(packet);
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
    fn a_packet_that_promises_too_much_is_found_at_its_beginning() {
        let packet = encode_light(&Body::Publish { channel: vec![], message: vec![0; 99], is_sharded: false });
        let mut reader = PacketReader::default();
        reader.push(&packet[..PREFIX_LEN]);
        assert_eq!(reader.next_packet(packet.len()), Ok(None));
        assert_eq!(reader.next_packet(packet.len() - 1), Err(BadFrame));
    }
}
