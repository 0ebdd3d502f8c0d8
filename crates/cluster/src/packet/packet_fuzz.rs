//! What a fuzzer calls.

use super::{PacketReader, decode, encode, encode_light};

/// Bytes of a link, cut in two: must not panic; what is a packet reads the same when it is written again.
///
/// # Panics
/// When that does not hold.
pub fn fuzz(data: &[u8]) {
    let Some((at, data)) = data.split_first() else {
        return;
    };
    let (one, two) = data.split_at(usize::from(*at).min(data.len()));
    let mut reader = PacketReader::default();
    for piece in [one, two] {
        reader.push(piece);
        while let Ok(Some(bytes)) = reader.next_packet(usize::MAX) {
            // What was spoilt on the way is not a packet; what is in it may be spoilt all the same.
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
