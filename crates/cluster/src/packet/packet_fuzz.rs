//! Entry point for a fuzzer.

use super::{PacketReader, decode, encode, encode_light};

/// Reads bytes of a link, split in two: this must not panic, and a packet that is written again must read the same.
///
/// # Panics
/// Panics if one of these fails.
pub fn fuzz(data: &[u8]) {
    let Some((at, data)) = data.split_first() else {
        return;
    };
    let (one, two) = data.split_at(usize::from(*at).min(data.len()));
    let mut reader = PacketReader::default();
    for piece in [one, two] {
        reader.push(piece);
        while let Ok(Some(bytes)) = reader.next_packet(usize::MAX) {
            // Bytes damaged on the way are no packet, and a packet's content may be damaged all the same.
            if let Ok(packet) = decode(&bytes) {
                let write = || match &packet.header {
                    Some(header) => encode(header, &packet.body),
                    None => encode_light(&packet.body),
                };
                if !matches!(packet.body, super::Body::Unknown(_)) {
                    let again = decode(&write()).expect("what is written is read");
                    assert_eq!(again.body.message(), packet.body.message());
                }
            }
        }
    }
}
