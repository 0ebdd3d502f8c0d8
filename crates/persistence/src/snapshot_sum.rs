//! The checksum of a snapshot that passes by in chunks and is not read.

use rdb::checksum::{Digest, digest};

/// Bytes of the checksum at a snapshot's end.
const SUM: usize = 8;
/// Bytes of the beginning that tell whether the snapshot has a checksum.
const HEAD: usize = 9;

/// The checksum of what has passed, and the last bytes, which may be the snapshot's own statement of it.
pub struct SnapshotSum {
    digest: Digest,
    head: Vec<u8>,
    /// Bytes that are not in the digest.
    last: Vec<u8>,
}

impl Default for SnapshotSum {
    fn default() -> SnapshotSum {
        SnapshotSum { digest: digest(), head: Vec::with_capacity(HEAD), last: Vec::new() }
    }
}

impl SnapshotSum {
    /// Adds bytes as they come.
    pub fn add(&mut self, bytes: &[u8]) {
        let missing = (HEAD - self.head.len()).min(bytes.len());
        self.head.extend_from_slice(&bytes[..missing]);
        self.last.extend_from_slice(bytes);
        let known = self.last.len().saturating_sub(SUM);
        self.digest.update(&self.last[..known]);
        self.last.drain(..known);
    }

    /// Returns whether the statement at the end is right, or there is none.
    pub fn is_right(&self) -> bool {
        // Files had no checksum before the fifth version.
        let has_none = self.head.strip_prefix(b"REDIS000").is_some_and(|version| version < b"5".as_slice());
        let stated = self.last.as_slice().try_into().map_or(0, u64::from_le_bytes);
        has_none || stated == 0 || stated == self.digest.finalize()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rdb::checksum::checksum;

    fn is_right(bytes: &[u8], piece: usize) -> bool {
        let mut sum = SnapshotSum::default();
        bytes.chunks(piece).for_each(|bytes| sum.add(bytes));
        sum.is_right()
    }

    #[test]
    fn a_flipped_byte_is_seen_in_chunks_of_any_size() {
        let content = b"REDIS0011\xfe\x00\x00\x01a\x01b\xff".to_vec();
        let whole = [&content[..], &checksum(&content).to_le_bytes()].concat();
        for piece in 1..=whole.len() {
            assert!(is_right(&whole, piece), "{piece}");
            for at in HEAD..whole.len() {
                let mut flipped = whole.clone();
                flipped[at] ^= 1;
                assert!(!is_right(&flipped, piece), "{at} of pieces of {piece}");
            }
        }
        assert!(is_right(&[&content[..], &[0; SUM]].concat(), 7), "no checksum was made");
        assert!(is_right(b"REDIS0004\xfe\x00\x00\x01a\x01b\xff", 7) && is_right(b"", 1));
    }
}
